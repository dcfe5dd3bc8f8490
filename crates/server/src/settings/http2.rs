//! The settings of HTTP/2: set by mod_http2, and applied by the connection.

use std::time::Duration;

use conf::Setting;

conf::settings! {
    /// The settings of HTTP/2 of a server or virtual host.
    pub struct Http2 {
        /// Whether HTTP/2 is available: mod_http2 is loaded.
        pub is_there: Setting<bool> = false,
        /// `H2MaxSessionStreams`
        pub max_session_streams: Setting<u32> = Http2::MAX_SESSION_STREAMS,
        /// `H2WindowSize`, in bytes.
        pub window_size: Setting<u32> = Http2::WINDOW_SIZE,
        /// `H2StreamMaxMemSize`, in bytes.
        pub stream_max_mem_size: Setting<usize> = Http2::STREAM_MAX_MEM_SIZE,
        /// `H2MaxStreamErrors`; `None`: without limit.
        pub max_stream_errors: Setting<Option<usize>> = Some(8),
        /// `H2MaxDataFrameLen`, in bytes; `None`: the client's limit.
        pub max_data_frame_len: Setting<Option<usize>> = None,
        /// `H2StreamTimeout`; `None`: `Timeout`.
        pub stream_timeout: Setting<Option<Duration>> = None,
        /// `H2Direct`: without encryption it may be spoken from the first byte on.
        pub direct: Setting<bool> = true,
        /// `H2Upgrade`: without encryption a client may change from HTTP/1.1 to it.
        pub upgrade: Setting<bool> = true,
        /// `H2EarlyHints`
        pub early_hints: Setting<bool> = Http2::EARLY_HINTS,
        /// `H2WebSockets`
        pub websockets: Setting<bool> = Http2::WEBSOCKETS,
    }
}

#[allow(missing_docs, reason = "the table of directives says what they are")]
impl Http2 {
    pub const MAX_SESSION_STREAMS: u32 = 100;
    pub const WINDOW_SIZE: u32 = 65_535;
    pub const STREAM_MAX_MEM_SIZE: usize = 32 * 1024;
    pub const EARLY_HINTS: bool = false;
    pub const WEBSOCKETS: bool = false;
}

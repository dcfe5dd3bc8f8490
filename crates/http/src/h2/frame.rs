//! Frames: their header, their kinds, and the reasons with which they end a stream or a connection (RFC 9113 sections 4, 6
//! and 7).

use std::fmt;

/// What a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The size of a frame's header, in bytes.
pub(super) const HEADER: usize = 9;

/// The largest payload that an endpoint has to accept, in bytes; we announce no larger one.
pub(super) const PAYLOAD: usize = 16_384;

/// The kinds of frames (RFC 9113 section 6).
pub(super) mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218 section 7.1.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// The flags of frames.
pub(super) mod flag {
    /// Of DATA and HEADERS.
    pub const END_STREAM: u8 = 1;
    /// Of SETTINGS and PING.
    pub const ACK: u8 = 1;
    /// Of HEADERS and CONTINUATION.
    pub const END_HEADERS: u8 = 4;
    /// Of DATA and HEADERS.
    pub const PADDED: u8 = 8;
    /// Of HEADERS.
    pub const PRIORITY: u8 = 32;
}

/// The identifiers of settings (RFC 9113 section 6.5.2 and RFC 8441 section 3).
pub(super) mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
}

/// The header of a frame (RFC 9113 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// The length of the payload, in bytes.
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    /// The number of the stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads the header at the start of `bytes`. `None`: there is not enough yet.
    pub fn read(bytes: &[u8]) -> Option<FrameHeader> {
        let &[a, b, c, kind, flags, s, t, u, v] = bytes.first_chunk::<HEADER>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        // The first bit is reserved, and ignored.
        let stream = u32::from_be_bytes([s, t, u, v]) & (u32::MAX >> 1);
        Some(FrameHeader { length, kind, flags, stream })
    }

    /// The header as it is sent.
    pub fn bytes(self) -> [u8; HEADER] {
        let [.., a, b, c] = (self.length as u32).to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&FrameHeader { length: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// Why a stream or a connection ends (RFC 9113 section 7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u32);

macro_rules! reasons {
    ($($name:ident $code:literal,)*) => {
        #[allow(missing_docs, reason = "RFC 9113 section 7 says what they mean")]
        impl Reason {
            $(pub const $name: Reason = Reason($code);)*

            /// The name of the code, if it has one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Reason::$name => Some(stringify!($name)),)*
                    Reason(_) => None,
                }
            }
        }
    };
}

reasons! {
    NO_ERROR 0,
    PROTOCOL_ERROR 1,
    INTERNAL_ERROR 2,
    FLOW_CONTROL_ERROR 3,
    SETTINGS_TIMEOUT 4,
    STREAM_CLOSED 5,
    FRAME_SIZE_ERROR 6,
    REFUSED_STREAM 7,
    CANCEL 8,
    COMPRESSION_ERROR 9,
    CONNECT_ERROR 10,
    ENHANCE_YOUR_CALM 11,
    INADEQUATE_SECURITY 12,
    HTTP_1_1_REQUIRED 13,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "code {}", self.0),
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

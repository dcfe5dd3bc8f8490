//! Which connections are worth accepting.

use conf::Keyed;

conf::settings! {
    /// `AcceptFilter` of the main server: the filter of a protocol, by its name in lower case.
    pub struct AcceptFilters {
        /// `none` (in any case), or what waits for data: Linux has one filter, whatever it is called.
        pub filters: Keyed<String, String>,
    }
}

impl AcceptFilters {
    /// Whether a connection is accepted only when the client has sent something (TCP_DEFER_ACCEPT, tcp(7)). Without a
    /// filter of its own that is so for the protocols in which the client speaks first.
    pub fn waits_for_data(&self, protocol: &str) -> bool {
        match self.filters.get(protocol) {
            Some(filter) => !filter.eq_ignore_ascii_case("none"),
            None => matches!(protocol, "http" | "https"),
        }
    }
}

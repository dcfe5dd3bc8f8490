//! When a connection is worth accepting.

use conf::Keyed;

conf::settings! {
    /// `AcceptFilter` of the main server: the filter for each protocol, by the protocol's name in lower case.
    pub struct AcceptFilters {
        /// `none` (in any case), or a filter that waits for data: Linux has one such filter, whatever its name.
        pub filters: Keyed<String, String>,
    }
}

impl AcceptFilters {
    /// Whether to accept a connection only when the client has sent something (TCP_DEFER_ACCEPT, tcp(7)). Without a
    /// filter of its own, that applies to the protocols in which the client speaks first.
    pub fn waits_for_data(&self, protocol: &str) -> bool {
        match self.filters.get(protocol) {
            Some(filter) => !filter.eq_ignore_ascii_case("none"),
            None => matches!(protocol, "http" | "https"),
        }
    }
}

//! The number of connections that a child may accept in its life.

use conf::Setting;

conf::settings! {
    /// `MaxRequestsPerChildMin` and `MaxRequestsPerChildMax` of the main server (mod_bumpy_life): the range from which
    /// each child draws its limit. They count connections, as `MaxRequestsPerChild` does.
    pub struct BumpyLife {
        /// The smallest limit, 1 or more.
        pub min: Setting<u64>,
        /// The upper bound, which limits stay below; if it equals the smallest limit, that is the limit of all.
        pub max: Setting<u64>,
    }
}

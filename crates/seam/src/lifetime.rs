//! How many connections a child may accept in its life.

use conf::Setting;

conf::settings! {
    /// `MaxRequestsPerChildMin` and `MaxRequestsPerChildMax` of the main server (mod_bumpy_life): what each child draws its
    /// limit from. They count connections, as `MaxRequestsPerChild` does.
    pub struct BumpyLife {
        /// The smallest limit, 1 or more.
        pub min: Setting<u64>,
        /// What limits stay below; where it is the smallest limit too, that is the limit of all.
        pub max: Setting<u64>,
    }
}

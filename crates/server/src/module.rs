//! What a module is: its hooks, and the services of modules for each other.

pub mod authz;
pub mod finding;
pub mod hook;
pub mod inventory;
pub mod objects;

pub use self::hook::*;
pub use self::inventory::{Cleaned, Inventory, StoredResponse};
pub use self::objects::{Debit, NamedCache, OBJECT_MAX, ObjectCache, Opening, SharedCache, Spends, Unchanged};

//! Responses that are stored, and come back.

mod filters;
mod inventory;
mod objects;
mod renewal;
mod repeats;
mod same_as_apache;
mod status;
mod storage;
mod waiting;

use std::os::unix::fs::PermissionsExt;

use crate::harness::site::Site;
use crate::harness::wire::Response;

/// Makes directories below the root into which all processes may write.
fn open_directories(site: &Site, names: &[&str]) {
    for name in names {
        let path = site.root.join(name);
        std::fs::create_dir_all(&path).expect("directory");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("mode");
    }
}

/// What the cache has done for a response.
fn word(response: &Response) -> &str {
    response.field("X-Cache").and_then(|text| text.split(' ').next()).unwrap_or("none")
}

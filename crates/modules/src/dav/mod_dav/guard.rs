//! What a client may not remove, move or replace, although the collection around it is open to the client.

use std::io;

use conf::Level;
use runtime::{Load, offload};
use server::Request;
use server::paths::{dir_name, os_path};

use super::resource::Resource;
use crate::dav::failure::{Failure, incomplete};
use crate::dav::if_header::bare;
use crate::dav::settings::{DavDir, lock_database};
use crate::dav::target::{Target, escaped};
use crate::dav::tree;

/// Refuses to remove, move or replace the root of a repository: it is part of the configuration, not of the content. It
/// is the root of the site, or a collection whose parent takes no WebDAV or is somewhere else on the disk (`Alias`).
pub(super) async fn keep_root(request: &Request, resource: &Resource) -> Result<(), Failure> {
    let (target, parent) = (&resource.target, resource.target.parent());
    let above = request.lookup_alike(&format!("{}/", http::uri::escape_path(&parent.uri))).await;
    // The subrequest may have gone on to an index in the collection.
    let there = match above.mapped.stat.is_some_and(|there| there.is_dir()) {
        true => bare(&above.mapped.filename),
        false => bare(dir_name(&above.mapped.filename)),
    };
    let is_inside = above.dir::<DavDir>().enabled() && there == parent.path;
    if matches!(target.uri.as_str(), "" | "/") || !is_inside {
        return Err(Failure::new(403, "Cannot access parent of repository root."));
    }
    Ok(())
}

/// Checks a whole collection that is to be removed, moved, copied or replaced: the request's method must be allowed for
/// each resource in it, and the file of locks stays. Nothing is done unless all of it may be done.
pub(super) async fn check_below(request: &Request, resource: &Resource) -> Result<(), Failure> {
    let target = &resource.target;
    if lock_database(request).is_some_and(|locks| locks.is_at_or_below(&target.path)) {
        return Err(Failure::new(403, format!("{} holds the lock database (DavLockDB).", escaped(target))));
    }
    if !resource.is_collection {
        return Ok(());
    }
    let mut refused = Vec::new();
    let mut collections = vec![target.clone()];
    while let Some(collection) = collections.pop() {
        for (member, is_dir) in members(collection).await? {
            let slash = if is_dir { "/" } else { "" };
            let path = format!("{}{slash}", http::uri::escape_path(&member.uri));
            match request.lookup_alike(&path).await.response.status() {
                200 | 404 if is_dir => collections.push(member),
                200 | 404 => {}
                status => {
                    let text = format!("{} is left alone: {} answers {status}", escaped(target), escaped(&member));
                    request.log("dav", Level::Info, text);
                    refused.push((member.uri, 403, String::new()));
                }
            }
        }
        // A large tree leaves its turn to other connections.
        runtime::yield_now().await;
    }
    incomplete(refused, "The collection contains resources that the client may not access.")
}

/// The members of a collection, and whether each is one.
async fn members(collection: Target) -> Result<Vec<(Target, bool)>, Failure> {
    let path = collection.path.clone();
    let found = offload(Load::Wait, move || -> io::Result<_> {
        let member = |name: String| {
            let member = collection.child(&name);
            let is_dir = os_path(&member.path).is_dir();
            (member, is_dir)
        };
        Ok(tree::list(&collection.path)?.into_iter().map(member).collect())
    });
    found.await.map_err(|error| Failure::os(403, error, format!("could not list {path}")))
}

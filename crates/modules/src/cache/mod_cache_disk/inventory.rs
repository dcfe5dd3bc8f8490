//! What is in a `CacheRoot`, for people: listed, removed by URL, reduced to a size.
//!
//! The files may be those of a running server, or of Apache: whatever changes meanwhile is no error.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use server::Server;
use server::module::{Cleaned, Inventory, StoredResponse};

use super::draft::{remove_all_files, remove_files};
use super::paths::{Paths, Root};
use super::read;
use super::settings::DiskServer;
use super::turn::hold;
use crate::cache::entry::Micros;
use crate::cache::format::Head;

/// How deep directories are looked into: a key and a variant have ten levels each, and a file's name is the last.
const DEPTH_MAX: usize = 24;

/// It, for the program.
pub(super) static INVENTORY: Inventory =
    Inventory { roots, list: |root| Ok(all(root)?.into_iter().map(|stored| stored.response).collect()), purge, clean };

/// A stored response, and where it is.
struct Stored {
    response: StoredResponse,
    came: Micros,
    paths: Paths,
}

/// The directories in which a server stores responses.
fn roots(server: &Server) -> Vec<PathBuf> {
    let roots = server.hosts.iter().filter_map(|host| Root::of(host.settings.get::<DiskServer>()));
    let all: BTreeSet<PathBuf> = roots.map(|root| root.directory).collect();
    all.into_iter().collect()
}

/// All stored responses of a directory, sorted by URL.
fn all(root: &Path) -> io::Result<Vec<Stored>> {
    let mut all = Vec::new();
    let now = sys::time::realtime().as_micros() as Micros;
    walk(root, DEPTH_MAX, &mut |path| all.extend(response(path, now)))?;
    all.sort_by(|one: &Stored, other| (&one.response.url, one.came).cmp(&(&other.response.url, other.came)));
    Ok(all)
}

/// Removes everything that is stored for a URL. Returns how many responses that were.
fn purge(server: &Server, url: &str) -> io::Result<usize> {
    let mut removed = 0;
    let mut done = BTreeSet::new();
    for root in server.hosts.iter().filter_map(|host| Root::of(host.settings.get::<DiskServer>())) {
        for key in keys(url) {
            let primary = root.primary(&http::text::to_bytes(&key));
            if !done.insert(primary.header.clone()) {
                continue;
            }
            let now = 0;
            let mut count = usize::from(response(&primary.header, now).is_some());
            walk(&primary.variants, DEPTH_MAX, &mut |path| count += usize::from(response(path, now).is_some()))?;
            let _held = hold(&primary)?;
            remove_all_files(&root, &primary)?;
            removed += count;
        }
    }
    Ok(removed)
}

/// The keys that a URL may have: with the port, and with the question mark that every key has.
fn keys(url: &str) -> Vec<String> {
    let with_query = if url.contains('?') { url.to_string() } else { format!("{url}?") };
    let mut keys = vec![with_query.clone()];
    if let Some((scheme, rest)) = with_query.split_once("://") {
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        if !has_port {
            let port = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
            let path = if path.starts_with('?') { format!("/{path}") } else { path.to_string() };
            keys.push(format!("{scheme}://{host}:{port}{path}"));
        }
    }
    keys
}

/// Removes responses until the rest has this size in bytes at most: those that are not fresh any more first, then the oldest.
fn clean(root: &Path, most: u64) -> io::Result<Cleaned> {
    let mut all = all(root)?;
    all.sort_by_key(|Stored { response: StoredResponse { fresh, .. }, came, .. }| {
        (*fresh >= 0, if *fresh >= 0 { *came } else { *fresh })
    });
    let mut cleaned =
        Cleaned { left: all.len(), size: all.iter().map(|stored| stored.response.bytes).sum(), removed: 0 };
    let root = Root::at(root);
    for Stored { response, paths, .. } in &all {
        if cleaned.size <= most {
            break;
        }
        let _held = hold(paths)?;
        remove_files(&root, paths)?;
        cleaned.removed += 1;
        cleaned.left -= 1;
        cleaned.size -= response.bytes;
    }
    // The lists of variants of which none is left.
    let mut lists = Vec::new();
    walk(&root.directory, DEPTH_MAX, &mut |path| lists.push(path.to_path_buf()))?;
    for header in lists {
        let paths = Paths::of_header(&header);
        if matches!(read(&paths), Ok((Head::Variants(_), _))) && !paths.variants.exists() {
            let _held = hold(&paths)?;
            remove_files(&root, &paths)?;
        }
    }
    Ok(cleaned)
}

/// Visits the heads below a directory. Links are not followed.
fn walk(directory: &Path, depth: usize, see: &mut dyn FnMut(&Path)) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            walk(&path, depth - 1, see)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "header") {
            see(&path);
        }
    }
    Ok(())
}

/// The response with this head. `None`: it is a list of variants, or no head.
fn response(header: &Path, now: Micros) -> Option<Stored> {
    let paths = Paths::of_header(header);
    let Ok((Head::Response(head), _)) = read(&paths) else { return None };
    let size = |path: &Path| fs::symlink_metadata(path).map_or(0, |meta| meta.len());
    let entry = &head.entry;
    let age = entry.age(now);
    let response = StoredResponse {
        url: shown(&head.key),
        status: entry.status,
        bytes: size(&paths.header) + size(&paths.data),
        age,
        fresh: entry.lifetime().saturating_sub(age),
        is_variant: entry.fields.contains("Vary"),
    };
    Some(Stored { response, came: entry.response_time, paths })
}

/// A key as text: clients have chosen its bytes.
fn shown(key: &[u8]) -> String {
    key.iter().fold(String::new(), |text, byte| match byte {
        b'!'..=b'~' => text + &char::from(*byte).to_string(),
        _ => text + &format!("%{byte:02X}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_urls() {
        assert_eq!(keys("http://a/x"), ["http://a/x?", "http://a:80/x?"]);
        assert_eq!(keys("https://a/x?y"), ["https://a/x?y", "https://a:443/x?y"]);
        assert_eq!(keys("http://a:8080/"), ["http://a:8080/?"]);
        assert_eq!(shown(b"http://a/\x1b[1m\xe9"), "http://a/%1B[1m%E9");
    }
}

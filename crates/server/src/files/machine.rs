//! The real machine, for the configuration language.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::OnceLock;

use conf::{FileKind, System};
use http::text::from_bytes;

use crate::paths::{c_path, os_path};

/// Variables that the environment lacks.
static SUPPLIED: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Configurations have these variables where the environment does not have them. Only the first call counts.
pub fn supply(variables: BTreeMap<String, String>) {
    let _ = SUPPLIED.set(variables);
}

/// Files, names and environment of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl System for Machine {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        // A fifo or a device would make the server hang, or read for ever. As in Apache, /dev/null is none of them.
        let file = std::fs::File::from(sys::file::open(&c_path(path).ok_or(io::ErrorKind::InvalidInput)?)?);
        if path == "/dev/null" {
            return Ok(Vec::new());
        }
        if !sys::file::fstat(&file)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(conf::read::TEXT_MAX as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > conf::read::TEXT_MAX {
            return Err(io::Error::other(format!("longer than {} bytes", conf::read::TEXT_MAX)));
        }
        Ok(bytes)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        use std::os::unix::ffi::OsStrExt;
        std::fs::read_dir(os_path(dir))?
            .map(|entry| Ok(from_bytes(entry?.file_name().as_bytes()).into_owned()))
            .collect()
    }

    fn file_kind(&self, path: &str) -> io::Result<FileKind> {
        let meta = std::fs::metadata(os_path(path))?;
        Ok(match meta.file_type() {
            kind if kind.is_dir() => FileKind::Directory,
            kind if kind.is_file() => FileKind::Regular { is_empty: meta.len() == 0 },
            _ => FileKind::Special,
        })
    }

    fn env(&self, name: &str) -> Option<String> {
        use std::os::unix::ffi::OsStrExt;
        let own = std::env::var_os(name).map(|value| from_bytes(value.as_bytes()).into_owned());
        own.or_else(|| SUPPLIED.get()?.get(name).cloned())
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }

    fn name_of(&self, address: IpAddr) -> io::Result<String> {
        sys::resolve::name_of(address)
    }

    fn user(&self, name: &str) -> Option<(u32, u32)> {
        sys::cred::user(name).ok().flatten().map(|user| (user.uid, user.gid))
    }

    fn group(&self, name: &str) -> Option<u32> {
        sys::cred::group(name).ok().flatten()
    }

    fn hostname(&self) -> (String, Option<String>) {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string();
        // A name without a dot is incomplete; the resolver may know the full one from the address.
        let resolved = (name.as_str(), 0).to_socket_addrs().ok().and_then(|mut found| found.next());
        let is_full = |name: &String| name.contains('.');
        let full = resolved.and_then(|address| {
            Some(name.clone()).filter(is_full).or_else(|| sys::resolve::name_of(address.ip()).ok().filter(is_full))
        });
        (name, full)
    }
}

//! The real machine, for the configuration language.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use conf::System;
use http1::text::from_bytes;

use crate::paths::os_path;

/// Files, names and environment of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl System for Machine {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = os_path(path);
        // A fifo or a device would make the server hang, or read for ever.
        if !std::fs::metadata(&path)?.is_file() && !path.starts_with("/dev/") {
            return Err(io::Error::other("not a regular file"));
        }
        std::fs::read(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        use std::os::unix::ffi::OsStrExt;
        std::fs::read_dir(os_path(dir))?
            .map(|entry| Ok(from_bytes(entry?.file_name().as_bytes()).into_owned()))
            .collect()
    }

    fn is_dir(&self, path: &str) -> bool {
        os_path(path).is_dir()
    }

    fn exists(&self, path: &str) -> bool {
        os_path(path).exists()
    }

    fn is_filled_file(&self, path: &str) -> bool {
        std::fs::metadata(os_path(path)).is_ok_and(|meta| meta.is_file() && meta.len() > 0)
    }

    fn env(&self, name: &str) -> Option<String> {
        use std::os::unix::ffi::OsStrExt;
        std::env::var_os(name).map(|value| from_bytes(value.as_bytes()).into_owned())
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

//! Clients of scripts that go away, send or read nothing: scripts end, memory stays bounded.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sys::process::Pid;

use crate::harness::mpm::under_percore_and;
use crate::harness::server::{Server, children, is_gone};
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until};
use crate::harness::wire::{Client, get};

const CONFIGURATION: &str =
    "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";

/// A gigabyte: what must not be in memory.
const GIGA: usize = 1_000_000_000;
/// The most that the buffers of sockets and pipes may hold, in bytes.
const ON_THE_WAY: u64 = 64 << 20;
/// The most memory that a child may need for it, in KiB.
const NEEDED: u64 = 16 << 10;

const SCRIPTS: &[(&str, &str)] = &[
    ("silent", "trap 'touch ../marks/asked; exit' TERM; sleep 1000 & wait"),
    ("half", "printf '\\nhalf'; trap 'touch ../marks/asked; exit' TERM; sleep 1000 & wait"),
    ("stubborn", "trap '' TERM; sleep 1000 & wait"),
    ("late", "touch ../marks/begun; while [ ! -e ../marks/go ]; do sleep 0.01; done; printf '\\nlate'"),
    ("giga", "printf '\\n'; exec head -c 1000000000 /dev/zero"),
    ("count", "while [ ! -e ../marks/go ]; do sleep 0.01; done; printf '\\n'; exec wc -c"),
];

/// A site with a directory in which scripts may leave marks.
fn site() -> Site {
    let site = Site::new();
    for (name, text) in SCRIPTS {
        site.script(name, &format!("#!/bin/sh\n{text}\n"));
    }
    let marks = site.root.join("marks");
    std::fs::create_dir_all(&marks).expect("directory");
    std::fs::set_permissions(marks, std::fs::Permissions::from_mode(0o777)).expect("mode");
    site
}

/// The scripts that the children of a server run.
fn scripts(server: &Server<'_>) -> Vec<i32> {
    let pids = server.children().into_iter().filter_map(Pid::new);
    pids.flat_map(children).collect()
}

/// Waits for a script that has started a process of its own, and returns that process.
fn started(server: &Server<'_>) -> Pid {
    let child = || scripts(server).into_iter().filter_map(Pid::new).flat_map(children).find_map(Pid::new);
    until("what the script starts", child)
}

fn marked(site: &Site, mark: &str) {
    until(mark, || site.root.join("marks").join(mark).exists().then_some(()));
}

/// The most memory that a child has had, in KiB.
fn memory(server: &Server<'_>) -> u64 {
    let peak = |child: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
    };
    server.children().iter().map(peak).max().unwrap_or_default()
}

/// Waits until a number does not change any more for as long as it takes to look at it this often.
fn comes_to_rest(mut ask: impl FnMut() -> u64) -> u64 {
    const LOOKS: u32 = 50;
    let (mut last, mut same) = (0, 0);
    until("that it comes to rest", || {
        let now = ask();
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        (same >= LOOKS).then_some(now)
    })
}

under_percore_and! {
    event:

    /// A reset is the end of a client, also while its script says nothing: the script is asked to end.
    fn a_reset_ends_a_silent_script(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}\nCustomLog logs/access \"%U %X\""));
        for (name, begun) in [("silent", ""), ("half", "half\r\n")] {
            let mut client = server.client();
            client.send(get(&format!("/cgi/{name}")));
            started(&server);
            let mut text = Vec::new();
            while !text.ends_with(begun.as_bytes()) {
                text.extend(client.bytes(1));
            }
            client.reset();
            marked(&site, "asked");
            until("the end of the script", || scripts(&server).is_empty().then_some(()));
            std::fs::remove_file(site.root.join("marks/asked")).expect("the mark");
            until("a line that says so", || site.read("logs/access").contains(&format!("/cgi/{name} X\n")).then_some(()));
        }
    }

    /// A client that closes only its sending side still waits for the answer.
    fn a_half_closed_client_is_not_gone(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        client.send(get("/cgi/late"));
        client.half_close();
        marked(&site, "begun");
        site.file("marks/go", "");
        assert_eq!(client.response().text(), "late");
    }

    /// A client that goes takes its script with it, and all that the script has started, whether they obey or not.
    fn a_client_goes(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        client.send(get("/cgi/giga"));
        client.bytes(100_000);
        assert_eq!(scripts(&server).len(), 1);
        drop(client);
        until("the end of the script", || scripts(&server).is_empty().then_some(()));

        let mut client = server.client();
        client.send(get("/cgi/stubborn"));
        let child = started(&server);
        client.reset();
        until("the end of the script", || scripts(&server).is_empty().then_some(()));
        until("the end of its child", || is_gone(child).then_some(()));
    }

    /// A script that writes faster than its client reads waits: nothing piles up.
    fn a_client_that_does_not_read(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let before = memory(&server);
        let mut client = server.client();
        client.send(get("/cgi/giga"));
        client.bytes(100_000);
        let script = scripts(&server)[0];
        let written = comes_to_rest(|| {
            let text = std::fs::read_to_string(format!("/proc/{script}/io")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
            line.and_then(|number| number.parse().ok()).unwrap_or_default()
        });
        assert!(written < ON_THE_WAY, "{written} bytes written");
        let after = memory(&server);
        assert!(after < before + NEEDED, "{before} KiB before, {after} KiB after");
    }

    /// A client that sends faster than its script reads waits; all of it arrives in the end.
    fn a_script_that_reads_late(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let before = memory(&server);
        let mut stream = TcpStream::connect(server.address()).expect("connect");
        stream.write_all(format!("POST /cgi/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: {GIGA}\r\n\r\n").as_bytes()).expect("head");
        let piece = vec![b'x'; 1 << 20];
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("timeout");
        let mut sent = 0;
        let mut send = |stream: &mut TcpStream| {
            sent += stream.write(&piece[..piece.len().min(GIGA - sent)])?;
            std::io::Result::Ok(sent)
        };
        let mut taken = 0;
        let stopped = loop {
            match send(&mut stream) {
                Ok(sent) => taken = sent,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(stopped, ErrorKind::WouldBlock);
        assert!((taken as u64) < ON_THE_WAY, "{taken} bytes taken");
        site.file("marks/go", "");
        stream.set_write_timeout(Some(DEADLINE)).expect("timeout");
        while send(&mut stream).expect("the script reads") < GIGA {}
        assert_eq!(Client::over(stream).response().text().trim(), GIGA.to_string());
        let after = memory(&server);
        assert!(after < before + NEEDED, "{before} KiB before, {after} KiB after");
    }
}

//! The floor for scripts: accept, read, start the script, read its output, wait for it, answer, close.
//!
//! There is one process for each core, each with its own listener at the same address, so that they share nothing and
//! none wakes for another's connection. Each runs one script at a time: a second one would only wait for the first.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::net::accept_with;
use rustix::net::{SocketFlags, sockopt::set_socket_reuseport};

use super::listener::listener;
use super::options::FloorOptions;
use crate::machine::error::{Context as _, Result};
use crate::machine::host::allowed_cores;
use crate::machine::launch;

/// Serves until killed, with as many processes as there are cores.
pub(super) fn serve(options: &FloorOptions, script: &Path) -> Result<()> {
    let cores = allowed_cores()?;
    let own = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
    let others = match options.alone {
        true => 0,
        false => cores.len().saturating_sub(1),
    };
    for _ in 0..others {
        let mut command = launch::command(&[], &cores, &own)?;
        command.args(["floor", "--alone", "--listen", &options.listen.to_string(), "--spawn"]).arg(script);
        command.spawn().context(|| "start another process of the floor".to_owned())?;
    }
    run(options, script).context(|| format!("serve the floor on {}", options.listen))
}

fn run(options: &FloorOptions, script: &Path) -> std::io::Result<()> {
    let listener = listener(options, SocketFlags::CLOEXEC, |socket| set_socket_reuseport(socket, true))?;
    let mut command = Command::new(script);
    // The standard library starts a command like this with posix_spawn.
    command.env_clear().stdin(Stdio::inherit()).stdout(Stdio::piped());
    let mut said = Vec::with_capacity(4096);
    loop {
        let connection = match accept_with(&listener, SocketFlags::CLOEXEC) {
            Ok(connection) => connection,
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        // A client that leaves does not concern the others.
        if matches!(rustix::io::read(&connection, &mut [0; 4096]), Ok(1..)) {
            respond(&connection, &mut command, &mut said)?;
        }
    }
}

fn respond(connection: &OwnedFd, command: &mut Command, said: &mut Vec<u8>) -> std::io::Result<()> {
    let mut script = command.spawn()?;
    said.clear();
    if let Some(mut output) = script.stdout.take() {
        output.read_to_end(said)?;
    }
    script.wait()?;
    let _ = rustix::io::write(connection, &response(said));
    Ok(())
}

/// The script's output, with the header fields that a normal server adds.
fn response(said: &[u8]) -> Vec<u8> {
    let end = said.windows(2).position(|window| window == b"\n\n").map_or(0, |at| at + 2);
    let (head, body) = said.split_at(end);
    let fields = String::from_utf8_lossy(head);
    let fields: String = fields.trim_end().lines().map(|line| format!("{line}\r\n")).collect();
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: floor\r\nContent-Length: {}\r\n\
         Connection: close\r\n{fields}\r\n",
        body.len()
    )
    .into_bytes();
    response.extend_from_slice(body);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::client::Connector;
    use std::net::TcpListener;

    #[test]
    fn the_output_of_the_script_is_the_response() {
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        let options = FloorOptions { listen, close: true, threads: false, spawn: None, alone: true };
        std::thread::spawn(move || run(&options, Path::new("/bin/pwd")));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let response = loop {
            match Connector::default().open(listen).and_then(|mut connection| connection.fetch("x")) {
                Ok(response) => break response,
                Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
            }
        };
        assert_eq!((response.status, response.body.first()), (200, Some(&b'/')));
    }

    #[test]
    fn the_head_is_kept_and_the_body_counted() {
        let text = String::from_utf8(response(b"Content-Type: text/html\n\nabc")).unwrap();
        assert!(
            text.ends_with("Content-Length: 3\r\nConnection: close\r\nContent-Type: text/html\r\n\r\nabc"),
            "{text}"
        );
    }
}

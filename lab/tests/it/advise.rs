//! `advise` beside a server with a scripted status page: its observations, its decision, and its answer to a page that
//! is not a status page.

use std::io::{BufRead as _, BufReader, Write as _};
use std::iter::repeat;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

/// Has 10 busy workers at first, then 40, then 20 for ever, and reports each look. `/` is not a status page.
fn serve() -> (SocketAddr, Receiver<()>) {
    let (look, looks) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for (stream, busy) in listener.incoming().zip([10, 40].into_iter().chain(repeat(20))) {
            let mut stream = stream.expect("a connection");
            let lines = BufReader::new(stream.try_clone().expect("the same")).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let is_right = head[0].starts_with("GET /status?auto ") && head[1].starts_with("Host: localhost:");
            let status = if is_right { "200 OK" } else { "404 Not Found" };
            let page = format!("ServerMPM: event\nBusyWorkers: {busy}\nIdleWorkers: 5\nScoreboard: W_.\n");
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
            stream.write_all(answer.as_bytes()).expect("send");
            let _ = look.send(());
        }
    });
    (address, looks)
}

fn advise(address: SocketAddr, path: &str, more: &[&str]) -> Child {
    let url = format!("localhost:{}{path}", address.port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"));
    command.args(["advise", "--url", &url]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the laboratory")
}

#[test]
fn the_peak_decides_and_an_interrupt_ends_the_watch() {
    let (address, looks) = serve();
    let child = advise(address, "/status", &["--watch", "1h", "--json"]);
    assert_eq!(looks.iter().take(3).count(), 3);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    let said = child.wait_with_output().expect("its end");
    let results: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!((&results["seen"]["peak"], &results["seen"]["busy"]), (&40.into(), &20.into()), "{results}");
    let settings = results["advice"]["settings"].as_array().expect("settings");
    let value = |name: &str| settings.iter().find(|setting| setting["name"] == name).map(|setting| &setting["value"]);
    let workers = value("MaxRequestWorkers").and_then(Value::as_u64);
    assert!(workers >= Some(80), "{results}");
    assert_eq!([value("MinSpareThreads"), value("MaxSpareThreads")].map(|it| it.and_then(Value::as_u64)), [workers; 2]);
}

#[test]
fn pages_that_are_no_configuration_are_reported() {
    let (address, _looks) = serve();
    let said = advise(address, "/status", &["--watch", "1ms", "--peak", "8"]).wait_with_output().expect("its end");
    let text = String::from_utf8(said.stdout).expect("text");
    assert!(text.contains("busy at the peak") && text.contains("\nMaxRequestWorkers 16\n"), "{text}");
    let said = advise(address, "/", &[]).wait_with_output().expect("its end");
    let error = String::from_utf8(said.stderr).expect("text");
    assert!(!said.status.success() && error.contains("answers 404") && error.contains("--url"), "{error}");
}

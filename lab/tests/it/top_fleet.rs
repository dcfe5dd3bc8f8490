//! `top --fleet`: several servers, of which some do not answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Has served a hundred more requests at each look at its metrics, half of them within a tenth of a second.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    let looks = AtomicU64::new(0);
    let answer = move |mut stream: TcpStream| {
        let lines = BufReader::new(stream.try_clone().expect("the same")).lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(head.first().is_some_and(|line| line.starts_with("GET /metrics ")), "{head:?}");
        let requests = 100 * looks.fetch_add(1, Relaxed);
        let page = format!(
            "tsubame_ready 0\ntsubame_requests_total {requests}\ntsubame_scripts_waiting 7\ntsubame_script_memory_reserved_bytes 50\n\
             tsubame_script_memory_limit_bytes 200\ntsubame_request_duration_seconds_bucket{{le=\"0.1\"}} {}\n\
             tsubame_request_duration_seconds_bucket{{le=\"0.2\"}} {requests}\n\
             tsubame_request_duration_seconds_bucket{{le=\"+Inf\"}} {requests}\n# EOF\n",
            requests / 2
        );
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
        let _ = stream.write_all((head + &page).as_bytes());
    };
    std::thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.expect("a connection"))));
    address
}

fn top(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"));
    let Output { status, stdout, stderr } = command.arg("top").args(arguments).output().expect("the laboratory");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

#[test]
fn nodes_stand_side_by_side_and_silent_ones_slow_nobody_down() {
    let well = serve().to_string();
    // Takes connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("listen");
    let silent_name = silent.local_addr().expect("address").to_string();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").to_string();
    let begun = Instant::now();
    let text = top(&["--interval", "300ms", "--json", "--fleet", &well, &silent_name, &free]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let seen: Value = serde_json::from_str(&text).expect("JSON");
    let [one, two, three] = &seen["nodes"].as_array().expect("nodes")[..] else { panic!("{seen}") };
    assert_eq!((&one["node"], &one["ready"], &one["problem"]), (&well.clone().into(), &false.into(), &Value::Null));
    assert!(one["requests"].as_f64() > Some(1.0), "{one}");
    assert_eq!((&one["scripts_waiting"], &one["script_memory"]), (&7.0.into(), &0.25.into()));
    let p99 = one["p99_ms"].as_f64().expect("a time");
    assert!((p99 - 198.0).abs() < 0.1, "{one}");
    for (row, name) in [(two, &silent_name), (three, &free)] {
        assert_eq!((&row["node"], &row["requests"]), (&name.as_str().into(), &Value::Null));
        assert!(row["problem"].is_string(), "{row}");
    }

    let text = top(&["--interval", "300ms", "--once", "--fleet", &well, &free]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("node ") && lines[0].contains("script mem"), "{text}");
    assert!(lines[1].starts_with(&well) && lines[1].contains("not ready") && lines[1].contains("25 %"), "{text}");
    assert!(lines[2].starts_with(&free) && lines[2].contains("no answer"), "{text}");
    assert!(lines[3].starts_with(&format!("! {free}: ")) && lines[3].contains("connect"), "{text}");
}

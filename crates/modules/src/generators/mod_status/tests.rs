//! Compares the status page with pages captured from Apache.

use gateway::gate::GateStatus;
use runtime::scoreboard::{ChildState, Process, Snapshot, State, Worker};

use super::facts::Totals;
use super::*;

fn worker(state: State, accesses: u64, request: &str) -> Worker {
    Worker {
        state,
        began: 1_000_000,
        used: 1_000_000,
        took: 0,
        duration: 0,
        accesses: [u64::from(state == State::Write), accesses, accesses],
        bytes: [0, 5025, 5025],
        client: "127.0.0.1".into(),
        vhost: "localhost:8080".into(),
        request: request.into(),
        protocol: "HTTP/1.1".into(),
    }
}

fn board() -> Snapshot {
    let workers = vec![
        worker(State::Write, 1, "GET /st?<x>&\"y\" HTTP/1.1"),
        worker(State::Ready, 0, ""),
        worker(State::Write, 0, "GET /s.cgi HTTP/1.1"),
    ];
    let process = Process {
        slot: 0,
        life: ChildState::Running,
        pid: 530,
        generation: 0,
        started: 0,
        connections: 2,
        writing: 0,
        keep_alive: 1,
        closing: 0,
        reading: 0,
        released: 0,
        unlisted: None,
        http2: 0,
        streams: 0,
        handshakes: [0; scoreboard::Handshake::COUNT + 1],
        accepted: 2,
        accesses: 1,
        bytes: 5025,
        received: 0,
        duration: 0,
        classes: [0, 1, 0, 0, 0],
        durations: [0; scoreboard::BUCKETS],
        watch: Default::default(),
        repeated: 0,
        prepared: 0,
        own_accesses: 1,
        own_bytes: 5025,
        cpu: [0; 4],
        workers,
    };
    Snapshot {
        started: 0,
        restarted: 0,
        generation: 0,
        shown: 6,
        limit: Some(6),
        ended_user: 0,
        ended_system: 0,
        processes: vec![process],
    }
}

fn facts(board: &Snapshot, is_async: bool, extended: bool) -> Facts {
    Facts {
        gate: GateStatus::default(),
        pools: Vec::new(),
        balancers: Vec::new(),
        certificates: Vec::new(),
        servers: Vec::new(),
        name: "127.0.0.1".into(),
        via: "127.0.0.1".into(),
        version: "Apache/2.4.71 (Debian)".into(),
        mpm: if is_async { "event" } else { "prefork" }.into(),
        is_async,
        built: "2026-11-12T08:58:41".into(),
        now: 2_000_000,
        load: [1.19, 3.12, 4.14],
        extended,
        tail: false,
        uptime: 2,
        totals: Totals::of(board),
    }
}

/// A text without the lines that hold the time.
fn timeless(text: &str) -> String {
    text.lines().filter(|line| !line.contains(" Time:") && !line.contains("tTime:")).collect::<Vec<_>>().join("\n")
}

#[test]
fn fields_for_tools_as_captured() {
    let board = board();
    let want = "127.0.0.1\nServerVersion: Apache/2.4.71 (Debian)\nServerMPM: event\nServer Built: 2026-11-12T08:58:41\n\
                ParentServerConfigGeneration: 1\nParentServerMPMGeneration: 0\nServerUptimeSeconds: 2\n\
                ServerUptime: 2 seconds\nLoad1: 1.19\nLoad5: 3.12\nLoad15: 4.14\nTotal Accesses: 1\nTotal kBytes: 4\n\
                Total Duration: 0\nCPUUser: 0\nCPUSystem: 0\nCPUChildrenUser: 0\nCPUChildrenSystem: 0\nUptime: 2\n\
                ReqPerSec: .5\nBytesPerSec: 2048\nBytesPerReq: 4096\nDurationPerReq: 0\nBusyWorkers: 2\n\
                GracefulWorkers: 0\nIdleWorkers: 1\nProcesses: 1\nStopping: 0\nConnsTotal: 2\nConnsAsyncWaitIO: 0\n\
                ConnsAsyncWriting: 0\nConnsAsyncKeepAlive: 1\nConnsAsyncClosing: 0\nScoreboard: W_W...";
    assert_eq!(timeless(&page::short(&facts(&board, true, true), &board)), want);
    let plain = page::short(&facts(&board, false, false), &board);
    for gone in ["Total", "CPU", "Conns", "Uptime: 2\nReq"] {
        assert!(!plain.contains(gone), "{gone}: {plain}");
    }
}

#[test]
fn the_page_shows_what_clients_sent_as_text() {
    let board = board();
    let page = page::html(&facts(&board, true, true), &board, &Wish::of(""), "<hr>\n<address>x</address>\n");
    for part in [
        "<dt>Server uptime:  2 seconds</dt>",
        "<dt>.5 requests/sec - 2048 B/second - 4096 B/request - 0 ms/request</dt>",
        "</dl>\n\n<table rules=\"all\" cellpadding=\"1%\">\n",
        "<tr><td>0</td><td>530</td><td>no</td><td>2</td><td>yes</td><td>2</td><td>0</td><td>1</td><td>0</td><td>0</td>\
         <td>1</td><td>0</td></tr>\n",
        "<pre>W_W...</pre>\n",
        "<tr><td><b>0-0</b></td><td>530</td><td>1/1/1</td><td><b>W</b>\n</td><td>0.00</td><td>1</td><td>0</td><td>0</td>\
         <td>0.0</td><td>0.00</td><td>0.00\n</td><td>127.0.0.1</td><td>http/1.1</td><td nowrap>localhost:8080</td>\
         <td nowrap>GET /st?&lt;x&gt;&amp;\\&quot;y\\&quot; HTTP/1.1</td></tr>\n\n",
        " </table>\n<hr />\n<address>x</address>\n</body></html>\n",
    ] {
        assert!(page.contains(part), "{part}\nin {page}");
    }
    assert_eq!(page.matches("<td nowrap>").count(), 4, "an idle worker that never served is not listed");
}

#[test]
fn other_pages() {
    let board = board();
    let bare = page::html(&facts(&board, false, true), &board, &Wish::of("notable"), "");
    let details = "<b>Server 0-0</b> (530): 1|1|1 [<b>Write</b>] u0 s0 cu0 cs0\n 1 0 0(0 B|5025 B|5025 B)\n";
    assert!(bare.contains(details) && bare.contains("</dl><pre>") && !bare.contains("<table"), "{bare}");
    let off = page::html(&facts(&board, false, false), &board, &Wish::of(""), "");
    let pids = "PID Key: <br />\n<pre>\n   530 in state: W ,   530 in state: _ ,   530 in state: W \n\n</pre>\n<hr />To obtain";
    assert!(off.contains(pids), "{off}");
}

#[test]
fn queries() {
    let cases = [
        ("", None, false, false),
        ("auto", None, false, true),
        ("refresh", Some(10), false, false),
        ("refresh=5", Some(5), false, false),
        ("notable&refresh=-1", Some(10), true, false),
    ];
    for (query, refresh, no_table, short) in cases {
        assert_eq!(Wish::of(query), Wish { refresh, no_table, short }, "{query}");
    }
}

#[test]
fn tools_read_the_version_of_apache() {
    assert_eq!(page::version_for_tools("Tsubame/0.1.0 Apache/2.4.71 (Unix)"), "Apache/2.4.71 (Tsubame/0.1.0)");
    assert_eq!(page::version_for_tools("Apache/2.4.71 (Debian)"), "Apache/2.4.71 (Debian)");
}

//! Pictures of possible observations.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;

use super::super::sample::{Machine, Memory, Pressure, Process, Processes, Sample};
use super::super::state::Traffic;
use super::*;
use crate::load::status;
use crate::load::{status_file::LoadStatus, timeline::IntervalSummary};

const GIB: f64 = 1_073_741_824.0;

/// A machine of so many cores, and a busy event on it.
fn seen(cores: usize, processes: usize) -> State {
    let core = Core { user: 50.0, system: 25.0, wait: 12.0, stolen: 6.0 };
    let pressure =
        [("cpu", 12.0, None), ("memory", 0.0, Some(0.0))].map(|(of, some, full)| Pressure { of, some, full });
    let machine = Machine {
        host: "web1".into(),
        uptime: 7260.0,
        load: vec![1.0, 2.0, 3.0],
        all: core,
        cores: vec![core; cores],
        memory: Memory {
            total: 16.0 * GIB,
            used: 4.0 * GIB,
            cached: 8.0 * GIB,
            free: 4.0 * GIB,
            swap_total: GIB,
            swap_used: 0.25 * GIB,
        },
        pressure: pressure.into(),
    };
    let process = |pid: u32| Process {
        pid,
        role: if pid == 1 { "parent" } else { "child" },
        title: format!("/usr/sbin/apache2 -k start {}", "x".repeat(200)),
        threads: 27,
        cpu: f64::from(pid),
        pss_kib: Some(2048),
        rss_kib: 8192,
    };
    let list = (1..=processes as u32).map(process).collect();
    let latest =
        IntervalSummary { responses: 4321, p50_us: 800, p99_us: 12_340, max_us: 99_000, ..IntervalSummary::default() };
    let load =
        LoadStatus { url: "http://127.0.0.1/x".into(), seconds: 9, failures: 7, latest, ..LoadStatus::default() };
    let mut state = State::new("http://localhost/server-status?auto".into(), Duration::from_secs(1), true);
    let sample = Sample { machine, processes: Some(Processes { list, ended: 40.0 }), loads: vec![load] };
    let board = format!("{}{}", "W_KG".repeat(16), ".".repeat(400));
    let page = format!(
        "ServerVersion: Apache/2.4.71\nServerMPM: event\nBusyWorkers: 32\nIdleWorkers: 16\nTotal Accesses: 1\n\
         ConnsTotal: 50\nConnsAsyncKeepAlive: 18\nScoreboard: {board}\n"
    );
    state.page.take(Instant::now(), Ok(status::parse(&page).unwrap()));
    state.page.traffic = Some(Traffic { requests: 4321.0, bytes: Some(2.5 * 1024.0), milliseconds: Some(0.5) });
    (0..9).for_each(|_| state.see(sample.clone()));
    state
}

fn drawn(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| picture(frame, state)).unwrap();
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[Cell]| cells.iter().map(Cell::symbol).collect::<String>().trim_end().to_owned();
    cells.chunks(width.into()).map(line).collect::<Vec<_>>().join("\n")
}

fn shows(picture: &str, wanted: &[&str]) {
    wanted.iter().for_each(|wanted| assert!(picture.contains(wanted), "no {wanted:?} in\n{picture}"));
}

/// Text that must appear at any size.
const ALWAYS: [&str; 14] = [
    "web1  2 cores  load 1.00 2.00 3.00  up 2 h 1 min",
    "█ usr 50%  ▓ sys 25%  ▒ wai 12%  ░ stl 6%",
    "█ used 4.0G  ▒ cached 8.0G  free 4.0G of 16G",
    "█ used 256M  of 1.0G",
    "psi  cpu some 12%   memory some 0% full 0%",
    "── Apache/2.4.71, event, at localhost/server-status ──",
    "workers  32 busy  16 idle  464 max   4 321 req/s  2.5K/s  0.50 ms each",
    "connections  all 50  keep-alive 18",
    "_ waiting 16   W sending 16   K keep-alive 16   G finishing 16",
    "load  4 321 responses/s  p50 0.80 ms  p99 12.3 ms  max 99.0 ms  7 failed",
    "req/s 4 321",
    "     PID role    threads  ▾CPU %     PSS     RSS  process",
    "ended scripts 40.0%",
    "q quits   p pauses   s sorts (now by CPU %)   ? helps",
];

#[test]
fn everything_has_room_on_a_small_terminal_and_on_a_large_one() {
    for (width, height) in [(80, 24), (140, 45)] {
        let picture = drawn(&seen(2, 300), width, height);
        shows(&picture, &ALWAYS);
        let rows = picture.lines().filter(|line| line.contains("/usr/sbin/apache2")).count();
        assert!(rows >= 3 && picture.contains(&format!("{} more", 300 - rows)), "{picture}");
        assert!(
            picture.contains("     300 child        27   300.0    2.0M    8.0M  /usr/sbin/apache2 -k start"),
            "{picture}"
        );
    }
    shows(&drawn(&seen(2, 3), 140, 45), &["max 4 321", "     all 3            81    46.0    6.0M     24M"]);
}

#[test]
fn bars_tell_their_shares_without_colours() {
    let state = State { is_colourful: false, ..seen(4, 1) };
    let picture = drawn(&state, 80, 24);
    shows(
        &picture,
        &[
            "cpu  [█████████████▓▓▓▓▓▓▓▒▒▒░  ]",
            "  0  [██████████████▓▓▓▓▓▓▒▒▒░░  ]  75%",
            "mem  [███████▒▒▒▒▒▒▒▒▒▒▒▒▒      ]",
        ],
    );
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| super::picture(frame, &state)).unwrap();
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "a colour");
}

#[test]
fn many_cores_become_a_strip() {
    let picture = drawn(&seen(128, 1), 80, 24);
    shows(&picture, &["128 cores", &format!("\n     {}\n     {}\n", "▆".repeat(75), "▆".repeat(53))]);
}

#[test]
fn unseen_parts_are_reported_in_their_place() {
    let mut state = seen(2, 3);
    state.sample.processes = None;
    state
        .page
        .take(Instant::now(), Err(format!("cannot connect to 127.0.0.1:80\n  try: start it{}", " again".repeat(12))));
    let picture = drawn(&state, 80, 24);
    shows(
        &picture,
        &[
            "! cannot connect to 127.0.0.1:80",
            "! try: start it again",
            "\n  ! again again\n",
            "It last answered 0 s ago",
            "you need to be root",
        ],
    );
    assert!(!picture.contains("workers"), "{picture}");
    let nothing = State::new("http://localhost/server-status?auto".into(), Duration::from_secs(1), false);
    shows(&drawn(&nothing, 80, 24), &["waiting for its status page", "not available (it needs", "swap none"]);
}

#[test]
fn keys_and_pauses_are_reported() {
    let state = State { shows_help: true, is_paused: true, ..seen(2, 3) };
    shows(&drawn(&state, 80, 24), &["PAUSED", "p goes on", "? closes this", "K keep-alive   D looking up a name"]);
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (7, 3), (20, 60), (300, 2)] {
        drawn(&State { shows_help: true, ..seen(64, 50) }, width, height);
    }
}

//! The server's part of the picture: its status page, its processes, and the load on it.

use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};

use super::state::{Order, State};
use crate::load::status::Status;
use crate::load::status_file::LoadStatus;
use crate::watch::form::{count, milliseconds, size, time};

/// The meanings of a scoreboard's letters, in short words.
const LETTERS: [(char, &str, Color); 11] = [
    ('_', "waiting", Color::DarkGray),
    ('S', "starting", Color::Yellow),
    ('R', "reading", Color::Cyan),
    ('W', "sending", Color::Green),
    ('K', "keep-alive", Color::Blue),
    ('D', "name look-up", Color::Yellow),
    ('C', "closing", Color::Magenta),
    ('L', "logging", Color::Yellow),
    ('G', "finishing", Color::Red),
    ('I', "idle, ending", Color::Red),
    ('.', "free", Color::DarkGray),
];

/// The server's status, or why there is none; with at most this many lines of its scoreboard.
pub(super) fn lines(state: &State, width: usize, rows: usize) -> Vec<Line<'static>> {
    let page = &state.page;
    let name = page.status.as_ref().map_or_else(String::new, name);
    let mut lines = vec![state.rule(&format!("{name}{}", short(&state.url)), width)];
    if let Some(problem) = &page.problem {
        let told = problem.lines().flat_map(|line| wrapped(line, width.saturating_sub(4)));
        lines.extend(told.map(|line| Line::from(Span::styled(format!("  ! {line}"), state.colour(Color::Red)))));
        if let Some(at) = page.at {
            lines.push(Line::from(format!(
                "  It last answered {} ago; this keeps trying.",
                time(at.elapsed().as_secs_f64())
            )));
        }
        return lines;
    }
    let Some(status) = &page.status else {
        lines.push(Line::from(Span::styled("  waiting for its status page", state.dim())));
        return lines;
    };
    lines.push(workers(state, status));
    if !status.connections.is_empty() {
        let told: Vec<String> = status.connections.iter().map(|(name, count)| format!("{name} {count}")).collect();
        lines.push(Line::from(format!("connections  {}", told.join("  "))));
    }
    lines.extend(board(state, &status.scoreboard, width, rows));
    lines
}

/// Wraps a line: no part is wider, unless a word is.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match lines.last_mut().filter(|last| last.chars().count() + 1 + word.chars().count() <= width) {
            Some(last) => *last += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A URL without its obvious parts.
fn short(url: &str) -> &str {
    url.trim_start_matches("http://").trim_start_matches("https://").trim_end_matches("?auto")
}

fn name(status: &Status) -> String {
    let version = status.version.as_deref().map(|version| format!("{version}, ")).unwrap_or_default();
    let up = status.uptime.map(|up| format!(", up {}", time(up as f64))).unwrap_or_default();
    format!("{version}{}{up}, at ", status.mpm)
}

fn workers(state: &State, status: &Status) -> Line<'static> {
    let mut spans = Vec::new();
    if !status.scoreboard.is_empty() {
        let style = if status.is_full { state.colour(Color::Red).add_modifier(Modifier::BOLD) } else { state.bold() };
        let full = if status.is_full { " (none left)" } else { "" };
        spans.push(Span::styled(format!("workers  {} busy{full}", status.busy), style));
        spans.push(Span::raw(format!("  {} idle  {} max   ", status.idle, status.scoreboard.chars().count())));
    }
    match state.page.traffic {
        Some(traffic) => {
            spans.push(Span::styled(format!("{} req/s", count(traffic.requests)), state.bold()));
            let bytes = traffic.bytes.map(|bytes| format!("  {}/s", size(bytes))).unwrap_or_default();
            let each = traffic.milliseconds.map(|each| format!("  {} ms each", milliseconds(each))).unwrap_or_default();
            spans.push(Span::raw(format!("{bytes}{each}")));
        }
        None if status.requests.is_none() => {
            spans.push(Span::styled("req/s need ExtendedStatus On", state.dim()));
        }
        None => {}
    }
    Line::from(spans)
}

/// The scoreboard, and how often each letter is in it.
fn board(state: &State, board: &str, width: usize, rows: usize) -> Vec<Line<'static>> {
    if board.is_empty() {
        return Vec::new();
    }
    let colour =
        |letter| LETTERS.iter().find(|(other, ..)| *other == letter).map_or(Color::Reset, |(.., colour)| *colour);
    let letters: Vec<char> = board.chars().collect();
    // Free slots are at the end, and may be left out if there is no room.
    let taken = letters.iter().rposition(|letter| *letter != '.').map_or(0, |last| last + 1);
    let room = rows.saturating_mul(width);
    let mut lines: Vec<Line<'_>> = letters[..room.min(letters.len())]
        .chunks(width.max(1))
        .map(|row| {
            let runs = row.chunk_by(|one, other| one == other);
            Line::from_iter(runs.map(|run| Span::styled(run.iter().collect::<String>(), state.colour(colour(run[0])))))
        })
        .collect();
    let mut legend = Vec::new();
    for (letter, name, colour) in LETTERS {
        let count = letters.iter().filter(|other| **other == letter).count();
        if count > 0 {
            legend.push(Span::styled(format!("{letter} "), state.colour(colour).add_modifier(Modifier::BOLD)));
            legend.push(Span::raw(format!("{name} {count}   ")));
        }
    }
    if taken > room {
        legend.push(Span::styled(format!("({} places more)", taken - room), state.dim()));
    }
    lines.push(Line::from(legend));
    lines
}

/// The running loads, beside each other; at most this many.
pub(super) fn loads(state: &State, width: usize, rows: usize) -> Vec<Line<'static>> {
    let loads = &state.sample.loads;
    let shown = loads.iter().take(rows).map(|load| described(state, load, width));
    let more = loads.len().saturating_sub(rows);
    let more = (more > 0).then(|| Line::from(Span::styled(format!("load  and {more} more"), state.dim())));
    shown.chain(more).collect()
}

fn described(state: &State, load: &LoadStatus, width: usize) -> Line<'static> {
    let latest = load.latest;
    let latency = |microseconds: u64| milliseconds(microseconds as f64 / 1000.0);
    let mut spans = vec![
        Span::raw("load  "),
        Span::styled(format!("{} responses/s", count(latest.responses as f64)), state.bold()),
        Span::styled(format!("  p50 {} ms  p99 {} ms", latency(latest.p50_us), latency(latest.p99_us)), state.bold()),
        Span::raw(format!("  max {} ms", latency(latest.max_us))),
    ];
    if load.failures > 0 {
        spans.push(Span::styled(format!("  {} failed", count(load.failures as f64)), state.colour(Color::Red)));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let rest = format!("  {}  {}", time(load.seconds as f64), short(&load.url));
    spans.push(Span::styled(rest.chars().take(width.saturating_sub(used)).collect::<String>(), state.dim()));
    Line::from(spans)
}

/// A table of the server's processes in this many lines: their total, then each one.
pub(super) fn processes(state: &State, width: usize, room: usize) -> Vec<Line<'static>> {
    let Some(processes) = &state.sample.processes else {
        let text = "Its processes cannot be seen: there are none here, or you need to be root.";
        return vec![Line::from(Span::styled(text, state.dim()))];
    };
    let list = state.sorted();
    let header = Order::ALL.iter().fold(
        cells(["PID", "role", "threads", "CPU %", "PSS", "RSS"], "process"),
        |text, (order, name)| {
            if *order == state.order { text.replacen(&format!(" {name}"), &format!("▾{name}"), 1) } else { text }
        },
    );
    let kib = |kib: u64| size(kib as f64 * 1024.0);
    let pss: Option<u64> = list.iter().map(|process| process.pss_kib).sum();
    let cpu: f64 = list.iter().map(|process| process.cpu).sum::<f64>() + processes.ended;
    let unknown = || "as root".to_owned();
    let shown = room.saturating_sub(2);
    let left_out = list.len().saturating_sub(shown);
    let mut note = if left_out > 0 { format!("{left_out} more") } else { String::new() };
    if processes.ended >= 0.1 {
        note = format!("ended scripts {:.1}%  {note}", processes.ended);
    }
    let all = [
        "all".to_owned(),
        list.len().to_string(),
        list.iter().map(|process| process.threads).sum::<u64>().to_string(),
        format!("{cpu:.1}"),
        pss.map_or_else(unknown, kib),
        kib(list.iter().map(|process| process.rss_kib).sum()),
    ];
    let mut lines = vec![
        Line::from(Span::styled(
            format!("{header:<width$}", width = width.min(400)),
            state.bold().add_modifier(Modifier::REVERSED),
        )),
        Line::from(Span::styled(cells(all.each_ref().map(String::as_str), &note), state.bold())),
    ];
    lines.extend(list.into_iter().take(shown).map(|process| {
        let row = [
            process.pid.to_string(),
            process.role.to_owned(),
            process.threads.to_string(),
            format!("{:.1}", process.cpu),
            process.pss_kib.map_or_else(unknown, kib),
            kib(process.rss_kib),
        ];
        let text = cells(row.each_ref().map(String::as_str), &process.title);
        Line::from(text.chars().take(width).collect::<String>())
    }));
    lines
}

fn cells([pid, role, threads, cpu, pss, rss]: [&str; 6], title: &str) -> String {
    format!("{pid:>8} {role:<7}{threads:>8}{cpu:>8}{pss:>8}{rss:>8}  {title}")
}

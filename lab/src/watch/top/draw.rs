//! Draws the observations as lines of text.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::sample::Core;
use super::server;
use super::state::{Order, Series, State};
use crate::screen::blocks;
use crate::watch::form::{count, milliseconds, peaks, size, time};

/// On fewer lines than this, long parts are shortened.
const TALL: usize = 34;

/// The fills for the shares of a bar, distinguishable without colours: the last of them is for time taken by others.
const FILLS: [(char, Color); 4] = [('█', Color::Green), ('▓', Color::Red), ('▒', Color::Yellow), ('░', Color::Magenta)];

/// The width of the text beside a bar.
const WORDS: usize = 46;

/// The widest useful bar.
const BAR_MAX: usize = 60;

/// The width of a core.
const CORE: usize = 26;

/// Fills a screen.
pub(super) fn picture(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let [body, foot] = area.layout(&ratatui::layout::Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]));
    frame.render_widget(Paragraph::new(lines(state, body.width.into(), body.height.into())), body);
    frame.render_widget(Paragraph::new(keys(state)), foot);
    if state.shows_help {
        help(frame, area, state);
    }
}

/// As many lines as fit.
pub(super) fn lines(state: &State, width: usize, height: usize) -> Vec<Line<'static>> {
    let is_tall = height >= TALL;
    let mut lines = vec![head(state, width)];
    lines.extend(cores(state, width, if is_tall { 8 } else { 3 }));
    lines.extend(memory(state, width));
    lines.push(pressure(state));
    lines.extend(server::lines(state, width, if is_tall { 8 } else { 2 }));
    lines.extend(server::loads(state, width, if is_tall { 4 } else { 1 }));
    lines.extend(courses(state, width, if is_tall { 4 } else { 2 }));
    let room = height.saturating_sub(lines.len());
    lines.extend(server::processes(state, width, room));
    lines
}

/// The styles of special text.
impl State {
    pub(super) fn bold(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn colour(&self, colour: Color) -> Style {
        if self.is_colourful { Style::new().fg(colour) } else { Style::new() }
    }

    /// A line across the screen, with a title.
    pub(super) fn rule(&self, title: &str, width: usize) -> Line<'static> {
        let rest = "─".repeat(width.saturating_sub(title.chars().count() + 4));
        Line::from(vec![
            Span::styled("── ", self.dim()),
            Span::styled(title.to_owned(), self.bold()),
            Span::styled(format!(" {rest}"), self.dim()),
        ])
    }
}

fn head(state: &State, width: usize) -> Line<'static> {
    let machine = &state.sample.machine;
    let load: Vec<String> = machine.load.iter().map(|load| format!("{load:.2}")).collect();
    let left = format!(
        "{}  {} cores  load {}  up {}",
        machine.host,
        machine.cores.len(),
        load.join(" "),
        time(machine.uptime)
    );
    let right = if state.is_paused { "PAUSED" } else { "tsubame-lab top" };
    let room = width.saturating_sub(left.chars().count() + right.len());
    let style = if state.is_paused { state.bold().add_modifier(Modifier::REVERSED) } else { state.dim() };
    Line::from(vec![Span::styled(left, state.bold()), Span::raw(" ".repeat(room)), Span::styled(right, style)])
}

/// A bar for all cores with figures, then one for each core, or a letter if there are too many.
fn cores(state: &State, width: usize, rows: usize) -> Vec<Line<'static>> {
    let machine = &state.sample.machine;
    let figures = shares(machine.all).into_iter().zip(["usr", "sys", "wai", "stl"]);
    let figures = figures.map(|(share, name)| (share / 100.0, format!("{name} {share:.0}%"))).collect::<Vec<_>>();
    let mut lines = vec![labelled(state, "cpu", width, &figures, "")];
    let most = (width / CORE).max(1);
    let across = machine.cores.len().div_ceil(machine.cores.len().div_ceil(most).max(1)).max(1);
    if machine.cores.len() > most * rows {
        let busy: Vec<f64> = machine.cores.iter().map(|core| core.user + core.system).collect();
        let strips = busy.chunks(width.saturating_sub(5).max(1)).map(|part| {
            let strip = blocks::columns(part.iter().map(|busy| busy / 100.0), 1).concat();
            Line::from(format!("     {strip}"))
        });
        lines.extend(strips.take(rows));
        return lines;
    }
    let each = width / across;
    let all: Vec<(usize, &Core)> = machine.cores.iter().enumerate().collect();
    lines.extend(all.chunks(across).map(|row| {
        let cells = row.iter().flat_map(|(number, core)| {
            let mut spans = vec![Span::raw(format!("{:<5}", format!("{number:>3}")))];
            spans.extend(bar(state, each.saturating_sub(13).min(BAR_MAX), &shares(**core).map(|share| share / 100.0)));
            spans.push(Span::raw(format!(" {:>3.0}%  ", core.user + core.system)));
            spans
        });
        Line::from(cells.collect::<Vec<_>>())
    }));
    lines
}

fn shares(core: Core) -> [f64; 4] {
    [core.user, core.system, core.wait, core.stolen]
}

fn memory(state: &State, width: usize) -> [Line<'static>; 2] {
    let memory = state.sample.machine.memory;
    let share = |bytes: f64, total: f64| bytes / total.max(1.0);
    let figures = [
        (share(memory.used, memory.total), format!("used {}", size(memory.used))),
        (0.0, String::new()),
        (share(memory.cached, memory.total), format!("cached {}", size(memory.cached))),
    ];
    let rest = format!("free {} of {}", size(memory.free), size(memory.total));
    let used = labelled(state, "mem", width, &figures, &rest);
    let swap = match memory.swap_total > 0.0 {
        true => {
            let figures = [(share(memory.swap_used, memory.swap_total), format!("used {}", size(memory.swap_used)))];
            labelled(state, "swap", width, &figures, &format!("of {}", size(memory.swap_total)))
        }
        false => Line::from(vec![Span::raw("swap "), Span::styled("none", state.dim())]),
    };
    [used, swap]
}

/// A bar, and the labels of its shares.
fn labelled(state: &State, label: &str, width: usize, figures: &[(f64, String)], rest: &str) -> Line<'static> {
    let room = width.saturating_sub(WORDS + 8).min(BAR_MAX);
    let mut spans = vec![Span::raw(format!("{label:<5}"))];
    spans.extend(bar(state, room, &figures.iter().map(|(share, _)| *share).collect::<Vec<_>>()));
    for ((_, words), (fill, colour)) in figures.iter().zip(FILLS) {
        if !words.is_empty() {
            spans.push(Span::styled(format!("  {fill}"), state.colour(colour)));
            spans.push(Span::raw(format!(" {words}")));
        }
    }
    spans.push(Span::raw(format!("  {rest}")));
    Line::from(spans)
}

/// Shares of one, each with its own fill, between brackets.
fn bar(state: &State, width: usize, shares: &[f64]) -> Vec<Span<'static>> {
    let mut spans = vec![Span::styled("[", state.dim())];
    let (mut sum, mut drawn) = (0.0, 0);
    for (share, (fill, colour)) in shares.iter().zip(FILLS) {
        sum += share;
        let end = ((sum * width as f64).round() as usize).clamp(drawn, width);
        spans.push(Span::styled(fill.to_string().repeat(end - drawn), state.colour(colour)));
        drawn = end;
    }
    spans.push(Span::raw(" ".repeat(width - drawn)));
    spans.push(Span::styled("]", state.dim()));
    spans
}

/// What programs had to wait for in the last ten seconds.
fn pressure(state: &State) -> Line<'static> {
    let mut spans = vec![Span::raw("psi  ")];
    if state.sample.machine.pressure.is_empty() {
        spans.push(Span::styled("not available (it needs CONFIG_PSI, and psi=1 at boot)", state.dim()));
    }
    for pressure in &state.sample.machine.pressure {
        let full = pressure.full.map_or(String::new(), |full| format!(" full {full:.0}%"));
        let style = if pressure.some >= 10.0 { state.colour(Color::Yellow) } else { Style::new() };
        spans.push(Span::styled(format!("{} some {:.0}%{full}   ", pressure.of, pressure.some), style));
    }
    Line::from(spans)
}

/// The last two minutes, side by side; empty until there is something to compare.
fn courses(state: &State, width: usize, rows: usize) -> Vec<Line<'static>> {
    let is_wanted = |course: &&Series| course.name != "p99 ms" || course.values.iter().any(|value| *value > 0.0);
    let shown: Vec<&Series> = state.courses.iter().filter(is_wanted).collect();
    if shown.iter().all(|course| course.values.len() < 2) {
        return Vec::new();
    }
    let each = width / shown.len().max(1);
    let mut lines = vec![Vec::new(); rows + 1];
    for course in shown {
        let values: Vec<f64> = course.values.iter().copied().collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let last = values.last().copied().unwrap_or_default();
        let is_share = course.name.ends_with('%');
        let form = |value| if course.name == "p99 ms" { milliseconds(value) } else { count(value) };
        let (now, max) = (format!("{} {}", course.name, form(last)), format!("  max {}", form(most)));
        let has_room = now.len() + max.len() + 2 <= each;
        let title = if has_room { now + &max } else { now };
        let top = if is_share { 100.0 } else { most };
        lines[0].push(Span::raw(format!("{title:<each$.each$}")));
        let room = each.saturating_sub(2);
        let shares = peaks(&values, course.gone, room).into_iter().map(|value| value / top.max(f64::MIN_POSITIVE));
        let drawn = blocks::columns(shares, rows);
        for (line, drawn) in lines[1..].iter_mut().zip(drawn) {
            line.push(Span::styled(format!("{drawn:>room$}  "), state.colour(Color::Cyan)));
        }
    }
    lines.into_iter().map(Line::from).collect()
}

fn keys(state: &State) -> Line<'static> {
    let sorted = Order::ALL.iter().find(|(order, _)| *order == state.order).map_or("", |(_, name)| name);
    let pause = if state.is_paused { "goes on" } else { "pauses" };
    let text = format!("q quits   p {pause}   s sorts (now by {sorted})   ? helps");
    Line::from(Span::styled(text, state.dim()))
}

const HELP: &str = "\
Keys    q, Esc quits   p, blank pauses   s sorts by the next column
cpu     █ usr, programs   ▓ sys, the kernel for them   ▒ wai, for
        disks   ░ stl, the hypervisor ran somebody else
mem     █ used   ▒ cached: files, given up where memory is wanted
psi     for how much of 10 s some programs had to wait, or all (full)
PSS     memory, shared pages divided among those who share them:
        the sum is what the server takes.   RSS counts them again
Letters _ waiting for a request   S starting   R reading
        W sending   K keep-alive   D looking up a name   C closing
        L logging   G finishing gracefully   I idle, ending   . free";

fn help(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let (width, height) =
        HELP.lines().fold((0, 2), |(width, height), line| (line.chars().count().max(width), height + 1));
    let room = area.centered(Constraint::Length(width as u16 + 4), Constraint::Length(height));
    frame.render_widget(Clear, room);
    let block = Block::bordered().title(" ? closes this ").padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(HELP).style(Style::new()).block(block.border_style(state.dim())), room);
}

#[cfg(test)]
mod tests;

//! Plots as SVG inside the page: readable without colour, with units at the axes and values on hover.
//!
//! Plotting libraries draw to pixels or write SVG without titles on hover, without dashes beside colours, and with letters
//! that grow with the drawing; what they would take over here is the scaling of an axis.

use crate::screen::table::escape;
use crate::screen::text::figure;

/// The width of a drawing, in pixels: three stand side by side on a page, and one nearly fits a phone. No page enlarges a
/// drawing, so that the letters of all of them have one size.
const WIDTH: f64 = 350.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 10.0;
/// Room for the axis below.
const BELOW: f64 = 40.0;

/// The height of a single plot, and of one that shares its time line with others.
pub(crate) const TALL: f64 = 240.0;
pub(crate) const LOW: f64 = 150.0;

/// From one bar to the next.
const STEP: f64 = 46.0;

/// A line with more points than this shows no values on hover: the points would be too close together.
const POINTS: usize = 60;

/// How many lines can be distinguished by dashes and colours.
const STYLES: usize = 8;

/// A bar from 0 to a figure, with its 95 % interval.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// `None` after a single round.
    pub(crate) interval: Option<[f64; 2]>,
    /// The highlighting: Tsubame, and the floor.
    pub(crate) class: &'static str,
}

/// Intervals of two rounds can be far longer than their bars, which matter more: they are cut at this factor.
const BEYOND: f64 = 1.2;

/// Bars with their names and figures, so that no axis has to be read.
pub(crate) fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let highest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let ends = bars.iter().filter_map(|bar| bar.interval.map(|[_, high]| high));
    let most = ends.fold(highest, f64::max).min(highest * BEYOND);
    let length = |value: f64| value.clamp(0.0, most) / most * (WIDTH - 8.0);
    let mut text = begin(title, WIDTH, bars.len() as f64 * STEP + 4.0);
    for (index, bar) in bars.iter().enumerate() {
        let top = index as f64 * STEP;
        let (name, value) = (escape(&bar.name), figure(bar.value));
        let bounds = match bar.interval {
            Some([low, high]) => format!("95 % interval from {} to {}", figure(low), figure(high)),
            None => "one round, no interval".to_owned(),
        };
        text += &format!(
            "<g><title>{name}: {value} {unit}, {bounds}</title>\
             <text x=\"0\" y=\"{:.1}\">{name}</text><text x=\"{WIDTH}\" y=\"{:.1}\" class=\"value\">{value}</text>\
             <rect class=\"bar {}\" x=\"0.5\" y=\"{:.1}\" width=\"{:.1}\" height=\"15\"/>",
            top + 14.0,
            top + 14.0,
            bar.class,
            top + 22.0,
            length(bar.value),
            unit = escape(unit),
        );
        text += &bar.interval.map_or(String::new(), |interval| {
            let [low, high] = interval.map(length);
            // An interval beyond the drawing has no end mark.
            let end = if interval[1] > most { "" } else { "m0 -4.5v9" };
            let path = format!("d=\"M{low:.1} {:.1}v9m0 -4.5H{high:.1}{end}\"", top + 25.0);
            format!("<path class=\"halo\" {path}/><path class=\"interval\" {path}/>")
        });
        text += "</g>\n";
    }
    text + "</svg>\n"
}

/// An axis.
pub(crate) struct Axis {
    /// Its name, with its unit.
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    /// Its end; 0: the end of the figures.
    pub(crate) end: f64,
}

/// The divisions of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
    /// For shares in percent: the distance from 90 to 99 equals that from 99 to 99.9.
    Nines,
}

/// The labels of a scale of nines.
const NINES: [f64; 6] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99];

/// The position of a share on a scale of nines; shares beyond its end are at its end.
fn nines(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, NINES[NINES.len() - 1]) / 100.0).log10()
}

/// A line through points.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<[f64; 2]>,
}

/// Lines over an axis, and their names below; the vertical axis begins at 0.
pub(crate) fn lines(title: &str, height: f64, [across, up]: [&Axis; 2], lines: &[Line]) -> String {
    let bottom = height - BELOW;
    let all = || lines.iter().flat_map(|line| &line.points);
    let is_logarithmic = across.scale == Scale::Logarithmic;
    let least = all().map(|[x, _]| *x).filter(|x| !is_logarithmic || *x > 0.0).fold(f64::MAX, f64::min);
    let most = all().map(|[x, _]| *x).fold(across.end, f64::max).max(least * 1.01).max(1e-9);
    let least = if is_logarithmic { least } else { 0.0 };
    let rows = match up.scale {
        Scale::Nines => NINES.to_vec(),
        _ => nice(all().map(|[_, y]| *y).fold(up.end.max(f64::MIN_POSITIVE), f64::max)),
    };
    let highest = rows.last().copied().unwrap_or(1.0);
    let place = |x: f64| match is_logarithmic {
        true => LEFT + (x.max(least) / least).ln() / (most / least).ln() * (RIGHT - LEFT),
        false => LEFT + (x - least) / (most - least) * (RIGHT - LEFT),
    };
    let share = |y: f64| match up.scale {
        Scale::Nines => nines(y) / nines(highest),
        _ => y / highest,
    };
    let named = |y: f64| if up.scale == Scale::Nines { format!("{y}") } else { figure(y) };
    let level = |y: f64| bottom - share(y) * (bottom - TOP);

    let mut text = begin(title, WIDTH, height);
    for row in &rows {
        let y = level(*row);
        text += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        text += &format!("<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", LEFT - 5.0, y + 4.0, named(*row));
    }
    let columns = if is_logarithmic { powers(least, most) } else { nice(most) };
    for column in columns.into_iter().filter(|column| *column <= most) {
        let x = place(column);
        text += &format!("<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>");
        text += &format!("<text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>", bottom + 15.0, figure(column));
    }
    text += &format!(
        "<text class=\"middle axis\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"middle axis\" transform=\"translate(11 {:.1}) rotate(-90)\">{}</text>\n",
        f64::midpoint(LEFT, RIGHT),
        height - 6.0,
        escape(across.name),
        f64::midpoint(TOP, bottom),
        escape(up.name)
    );
    for (index, line) in lines.iter().enumerate() {
        let name = escape(&line.name);
        let points: Vec<String> =
            line.points.iter().map(|[x, y]| format!("{:.1},{:.1}", place(*x), level(*y))).collect();
        text += &format!("<g class=\"{}\"><polyline points=\"{}\"/>", style(index), points.join(" "));
        for [x, y] in line.points.iter().step_by(line.points.len().div_ceil(POINTS).max(1)) {
            text += &format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{name}: {} {}, {} {}</title></circle>",
                place(*x),
                level(*y),
                figure(*x),
                escape(across.name),
                named(*y),
                escape(up.name)
            );
        }
        text += "</g>\n";
    }
    text + "</svg>\n" + &legend(lines)
}

/// The names of the lines; a single line has its name at the axis.
fn legend(lines: &[Line]) -> String {
    let item = |(index, line): (usize, &Line)| {
        format!(
            "<li><svg viewBox=\"0 0 36 10\" width=\"36\" height=\"10\" aria-hidden=\"true\"><g class=\"{}\">\
             <polyline points=\"0,5 36,5\"/><circle cx=\"18\" cy=\"5\" r=\"3\"/></g></svg> {}</li>",
            style(index),
            escape(&line.name)
        )
    };
    match lines {
        [_] => String::new(),
        _ => format!("<ul class=\"legend\">{}</ul>\n", lines.iter().enumerate().map(item).collect::<String>()),
    }
}

/// Colour and dashes; when these repeat, points are hollow.
fn style(index: usize) -> String {
    let hollow = if index / STYLES % 2 == 1 { " hollow" } else { "" };
    format!("line s{}{hollow}", index % STYLES)
}

/// A cell of a surface.
pub(crate) struct Tile {
    pub(crate) text: String,
    /// The text on hover.
    pub(crate) hover: String,
    /// How much it is filled, from 0 to 1.
    pub(crate) share: f64,
    pub(crate) is_best: bool,
}

/// The distance between rows of tiles.
const TILE_HEIGHT: f64 = 30.0;

/// Tiles in rows and columns, with their names at the edges; each tile contains its figure, so that the colours only
/// repeat it. The drawing is as wide as its figures need: on a narrow page it scrolls.
pub(crate) fn surface(
    title: &str,
    names: [&str; 2],
    columns: &[String],
    rows: &[(String, Vec<Option<Tile>>)],
) -> String {
    let figures = rows.iter().flat_map(|(_, tiles)| tiles).flatten().map(|tile| &tile.text);
    let letters = figures.chain(columns).map(|text| text.chars().count()).max().unwrap_or_default();
    let width = letters as f64 * LETTER + 2.0 * TILE_MARGIN;
    let whole = (LEFT + width * columns.len() as f64).max(WIDTH);
    let height = rows.len() as f64 * TILE_HEIGHT;
    let mut text = begin(title, whole, height + 40.0);
    for (index, (name, tiles)) in rows.iter().enumerate() {
        let y = index as f64 * TILE_HEIGHT;
        text += &format!("<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", LEFT - 5.0, y + 20.0, escape(name));
        for (column, tile) in tiles.iter().enumerate() {
            let Some(Tile { text: figure, hover, share, is_best }) = tile else { continue };
            let x = LEFT + column as f64 * width;
            text += &format!(
                "<g><title>{}</title><rect class=\"tile{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{:.2}\"/><text class=\"middle tile-text\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>\n",
                escape(hover),
                if *is_best { " best" } else { "" },
                x + 1.0,
                y + 1.0,
                width - 2.0,
                TILE_HEIGHT - 2.0,
                share.clamp(0.0, 1.0) * FILLED,
                x + width / 2.0,
                y + 19.0,
                escape(figure)
            );
        }
    }
    for (column, name) in columns.iter().enumerate() {
        let x = LEFT + (column as f64 + 0.5) * width;
        text += &format!("<text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>", height + 15.0, escape(name));
    }
    let [across, up] = names.map(escape);
    text + &format!(
        "<text class=\"middle axis\" x=\"{:.1}\" y=\"{:.1}\">{across}</text>\
         <text class=\"middle axis\" transform=\"translate(11 {:.1}) rotate(-90)\">{up}</text>\n</svg>\n",
        LEFT + width * columns.len() as f64 / 2.0,
        height + 34.0,
        height / 2.0
    )
}

/// The width of a digit, and the room on either side of a figure in its tile.
const LETTER: f64 = 8.0;
const TILE_MARGIN: f64 = 6.0;

/// The opacity of the best tile: letters stay readable on it, in light and in dark.
const FILLED: f64 = 0.5;

fn begin(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\"><title>{}</title>\n",
        escape(title)
    )
}

/// Round numbers from 0 to beyond `most`, a handful.
fn nice(most: f64) -> Vec<f64> {
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let count = (most / step * 0.999).ceil() as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// Powers of ten in between; if these are few, also twice and five times those.
fn powers(least: f64, most: f64) -> Vec<f64> {
    let factors: &[f64] = if most / least > 50.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let all = (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
    all.filter(|number| *number >= least && *number <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_drawn_as_far_as_there_is_room() {
        let bar = |name: &str, value, interval| Bar { name: name.to_owned(), value, interval, class: "" };
        let drawn = bars(
            "t",
            "u",
            &[bar("a", 100.0, Some([90.0, 110.0])), bar("b", 50.0, Some([1.0, 9999.0])), bar("c", 5.0, None)],
        );
        let mut bars = drawn.lines().filter(|line| line.starts_with("<g>"));
        assert!(bars.next().is_some_and(|line| line.ends_with("m0 -4.5v9\"/></g>")), "{drawn}");
        assert!(bars.next().is_some_and(|line| line.ends_with("H342.0\"/></g>")), "{drawn}");
        assert!(
            drawn.contains("b: 50 u, 95 % interval from 1 to 9 999")
                && drawn.contains("c: 5 u, one round, no interval")
        );
    }

    #[test]
    fn a_line_alone_has_no_legend_and_the_ninth_looks_like_no_other() {
        let axis = Axis { name: "x", scale: Scale::Linear, end: 0.0 };
        let drawn = |count: usize| {
            let line = |index: usize| Line { name: format!("n{index}"), points: vec![[0.0, 1.0], [1.0, 2.0]] };
            lines("t", LOW, [&axis, &axis], &(0..count).map(line).collect::<Vec<_>>())
        };
        assert!(!drawn(1).contains("legend"));
        assert_eq!(drawn(9).matches("\"line s0 hollow\"").count(), 2);
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(nice(97.0), [0.0, 50.0, 100.0]);
        assert_eq!(nice(1.0), [0.0, 0.5, 1.0]);
        assert_eq!(powers(0.5, 20.0), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(powers(1.0, 1000.0), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn a_scale_of_nines_shows_the_slowest() {
        let distances: Vec<f64> = NINES[2..].windows(2).map(|pair| nines(pair[1]) - nines(pair[0])).collect();
        assert!(distances.iter().all(|distance| (distance - 1.0).abs() < 1e-9), "{distances:?}");
        assert_eq!((nines(0.0), nines(100.0)), (0.0, nines(99.99)));
        let up = Axis { name: "%", scale: Scale::Nines, end: 0.0 };
        let across = Axis { name: "ms", scale: Scale::Linear, end: 0.0 };
        let line = Line { name: "x".to_owned(), points: vec![[1.0, 50.0], [2.0, 99.9], [9.0, 100.0]] };
        let text = lines("t", TALL, [&across, &up], &[line]);
        assert!([">90<", ">99.9<", ">99.99<"].iter().all(|label| text.contains(label)), "{text}");
    }
}

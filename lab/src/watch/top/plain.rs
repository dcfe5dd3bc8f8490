//! The observations, as text and as JSON.

use serde::Serialize;

use super::draw;
use super::sample::Sample;
use super::state::{Page, State};
use crate::machine::error::{Context as _, Result};

/// The width of text without a terminal.
const WIDTH: usize = 120;

/// The observations in a form for other programs.
#[derive(Serialize)]
struct Snapshot<'s> {
    url: &'s str,
    /// The time over which shares and rates were measured.
    seconds: f64,
    #[serde(flatten)]
    sample: &'s Sample,
    page: &'s Page,
}

/// The same lines as on a screen of sufficient height.
pub(super) fn text(state: &State) -> String {
    let lines = draw::lines(state, WIDTH, usize::MAX);
    lines.iter().map(|line| line.to_string().trim_end().to_owned() + "\n").collect()
}

/// One object.
pub(super) fn json(state: &State) -> Result<String> {
    let State { url, interval, sample, page, .. } = state;
    let snapshot = Snapshot { url, seconds: interval.as_secs_f64(), sample, page };
    serde_json::to_string(&snapshot).context(|| "write what was seen as JSON".to_owned())
}

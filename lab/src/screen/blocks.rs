//! Bars and plots of block characters: readable without colour.

/// An eighth of a cell up to a whole one, from its bottom.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same from its left.
const WIDTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar for a share (0 to 1) of `width` cells, filled up with blanks. Anything above nothing is visible.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let eighths = eighths(share, width);
    let mut out = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        out.push(WIDTHS[eighths % 8 - 1]);
    }
    let blanks = width.saturating_sub(eighths.div_ceil(8));
    out + &" ".repeat(blanks)
}

/// A row of cells for values, each height in proportion to the highest value; or several rows, the top one first.
pub(crate) fn plot(values: &[u64], rows: usize) -> Vec<String> {
    let highest = values.iter().copied().max().unwrap_or(0).max(1) as f64;
    columns(values.iter().map(|value| *value as f64 / highest), rows)
}

/// The same for shares (0 to 1) of the full height of all rows.
pub(crate) fn columns(shares: impl Iterator<Item = f64>, rows: usize) -> Vec<String> {
    let heights: Vec<usize> = shares.map(|share| eighths(share, rows)).collect();
    let cell = |height: usize, row: usize| match height.saturating_sub(row * 8) {
        0 => ' ',
        eighths => HEIGHTS[eighths.min(8) - 1],
    };
    (0..rows).rev().map(|row| heights.iter().map(|height| cell(*height, row)).collect()).collect()
}

fn eighths(share: f64, cells: usize) -> usize {
    (share.clamp(0.0, 1.0) * (cells * 8) as f64).ceil() as usize
}

/// Values for this many columns: the highest of several if there are more values, each several times if there are
/// fewer.
pub(crate) fn fit(values: &[u64], columns: usize) -> Vec<u64> {
    let highest = |chunk: &[u64]| chunk.iter().copied().max().unwrap_or(0);
    let chunk = values.len().div_ceil(columns).max(1);
    let times = (columns / values.len().max(1)).max(1);
    values.chunks(chunk).flat_map(|chunk| std::iter::repeat_n(highest(chunk), times)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths() {
        assert_eq!([0.0, 0.001, 0.5, 1.0].map(|share| bar(share, 3)), ["   ", "▏  ", "█▌ ", "███"]);
    }

    #[test]
    fn plots_have_rows() {
        assert_eq!(plot(&[0, 1, 8, 16], 2), ["   █", " ▁██"]);
        assert_eq!(plot(&[0, 1, 4, 8], 1), [" ▁▄█"]);
        assert_eq!(plot(&[0, 0], 1), ["  "]);
        assert_eq!(plot(&[], 1), [""]);
        assert_eq!(columns([0.001, 0.5, 7.0].into_iter(), 1), ["▁▄█"], "nothing is too high");
    }

    #[test]
    fn values_fit_their_columns() {
        assert_eq!(fit(&[1, 5, 2, 3, 4], 3), [5, 3, 4]);
        assert_eq!(fit(&[1, 2], 5), [1, 1, 2, 2]);
        assert!(fit(&[], 5).is_empty());
    }
}

//! A table of text: aligned for a terminal, or in Markdown.

use rustix::termios::tcgetwinsize;

/// The width of the terminal on standard output, if it is one.
pub(crate) fn screen_width() -> Option<usize> {
    let window = tcgetwinsize(std::io::stdout()).ok().filter(|window| window.ws_col > 0);
    window.map(|window| window.ws_col.into())
}

/// Headers and rows of equal length; the first columns are text, the others figures.
#[derive(Debug, Default)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
    text_columns: usize,
}

impl Table {
    /// An empty table whose first `text_columns` columns are aligned left.
    pub(crate) fn new(text_columns: usize, headers: &[&str]) -> Self {
        Self { headers: headers.iter().map(|header| (*header).to_owned()).collect(), rows: Vec::new(), text_columns }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.headers.len());
        self.rows.push(row);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table for a page.
    pub(crate) fn to_html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                let class = if column < self.text_columns { "text" } else { "figure" };
                format!("<{tag} class=\"{class}\">{}</{tag}>", escape(&cell.replace("**", "")))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let body: String = self.rows.iter().map(|cells| row(cells, "td")).collect();
        format!(
            "<div class=\"wide\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>\n",
            row(&self.headers, "th")
        )
    }

    /// As text.
    pub(crate) fn to_text(&self) -> String {
        self.to_text_within(usize::MAX)
    }

    /// The table for standard output: columns that do not fit the width of a terminal go below, with the first ones
    /// repeated.
    pub(crate) fn to_screen(&self) -> String {
        self.to_text_within(screen_width().unwrap_or(usize::MAX))
    }

    fn to_text_within(&self, most: usize) -> String {
        let widths: Vec<usize> = (0..self.headers.len())
            .map(|column| self.lines().map(|row| seen(&row[column])).max().unwrap_or(0))
            .collect();
        let width = |columns: &[usize]| columns.iter().map(|column| widths[*column] + 2).sum::<usize>() - 2;
        let first: Vec<usize> = (0..self.text_columns).collect();
        let mut blocks = vec![first.clone()];
        for column in self.text_columns..self.headers.len() {
            let with = [&blocks[blocks.len() - 1][..], &[column]].concat();
            match width(&with) > most && with.len() > first.len() + 1 {
                true => blocks.push([&first[..], &[column]].concat()),
                false => *blocks.last_mut().expect("the first block") = with,
            }
        }
        let blocks: Vec<String> = blocks.iter().map(|columns| self.block(columns, &widths)).collect();
        blocks.join("\n")
    }

    fn block(&self, columns: &[usize], widths: &[usize]) -> String {
        let mut text = String::new();
        for row in self.lines() {
            let cell = |column: &usize| {
                let (cell, blanks) = (&row[*column], " ".repeat(widths[*column] - seen(&row[*column])));
                if *column < self.text_columns { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
            };
            text += columns.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end();
            text += "\n";
        }
        text
    }

    /// The table for a document.
    pub(crate) fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rules: Vec<String> = (0..self.headers.len())
            .map(|column| if column < self.text_columns { "---" } else { "---:" }.to_owned())
            .collect();
        let mut text = line(&self.headers) + &line(&rules);
        for row in &self.rows {
            text += &line(row);
        }
        text
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.headers).chain(&self.rows)
    }
}

/// The visible length of a cell in characters, without colours.
fn seen(cell: &str) -> usize {
    let mut parts = cell.split('\x1b');
    let plain = parts.next().map_or(0, |part| part.chars().count());
    plain + parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| shown.chars().count())).sum::<usize>()
}

/// Escapes text for a page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut table = Table::new(1, &["who", "much"]);
        table.push(vec!["× nginx".to_owned(), "7".to_owned()]);
        table
    }

    #[test]
    fn text_is_aligned_by_characters() {
        assert_eq!(example().to_text(), "who      much\n× nginx     7\n");
    }

    #[test]
    fn wide_tables_continue_below() {
        let mut table = Table::new(1, &["who", "a", "b", "c"]);
        table.push(["nginx", "10", "20", "30"].map(str::to_owned).to_vec());
        assert_eq!(table.to_text_within(13), "who     a   b\nnginx  10  20\n\nwho     c\nnginx  30\n");
        let narrow = "who     a\nnginx  10\n\nwho     b\nnginx  20\n\nwho     c\nnginx  30\n";
        assert_eq!([1, 9].map(|width| table.to_text_within(width)), [narrow; 2]);
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::new(0, &["a"]);
        table.push(vec!["\x1b[32m77\x1b[0m".to_owned()]);
        assert_eq!(table.to_text(), " a\n\x1b[32m77\x1b[0m\n");
    }

    #[test]
    fn markdown_has_a_rule() {
        assert_eq!(example().to_markdown(), "| who | much |\n| --- | ---: |\n| × nginx | 7 |\n");
    }
}

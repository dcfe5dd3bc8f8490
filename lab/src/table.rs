//! A table of text: aligned for a terminal, or in Markdown.

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

    /// For a page.
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

    /// For a terminal.
    pub(crate) fn to_text(&self) -> String {
        let widths: Vec<usize> = (0..self.headers.len())
            .map(|column| self.lines().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in self.lines() {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| match column < self.text_columns {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                })
                .collect();
            text += cells.join("  ").trim_end();
            text += "\n";
        }
        text
    }

    /// For a document.
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

/// Text as it stands in a page.
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
    fn markdown_has_a_rule() {
        assert_eq!(example().to_markdown(), "| who | much |\n| --- | ---: |\n| × nginx | 7 |\n");
    }
}

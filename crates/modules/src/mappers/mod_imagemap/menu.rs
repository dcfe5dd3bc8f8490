//! The page with all links of a map, for clients without images.

use http::uri::{escape_html, escape_path};

/// The page so far.
pub(super) struct Menu {
    style: Style,
    page: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Formatted,
    SemiFormatted,
    Unformatted,
    /// A word that Apache does not know either: an empty page.
    Other,
}

impl Menu {
    pub(super) fn new(kind: &str, uri: &str) -> Menu {
        let style = match kind.to_ascii_lowercase().as_str() {
            "formatted" => Style::Formatted,
            "semiformatted" => Style::SemiFormatted,
            "unformatted" => Style::Unformatted,
            _ => Style::Other,
        };
        let uri = escape_html(uri);
        let mut page = format!(
            "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
             <html><head>\n<title>Menu for {uri}</title>\n</head><body>\n"
        );
        if style == Style::Formatted {
            page += &format!("<h1>Menu for {uri}</h1>\n<hr />\n\n");
        }
        Menu { style, page }
    }

    pub(super) fn blank(&mut self) {
        self.page += match self.style {
            Style::Formatted | Style::Unformatted => "\n",
            Style::SemiFormatted => "<br />\n",
            Style::Other => "",
        };
    }

    pub(super) fn comment(&mut self, text: &str) {
        match self.style {
            Style::Formatted => self.page += "\n",
            Style::SemiFormatted | Style::Unformatted if !text.is_empty() => {
                self.page += text;
                self.page += "\n";
            }
            _ => {}
        }
    }

    pub(super) fn default(&mut self, target: &str, text: &str) {
        self.anchor("(Default) ", target, text);
    }

    pub(super) fn link(&mut self, target: &str, text: &str) {
        self.anchor("          ", target, text);
    }

    fn anchor(&mut self, before: &str, target: &str, text: &str) {
        if ["error", "nocontent"].iter().any(|word| target.eq_ignore_ascii_case(word)) {
            return;
        }
        let link = format!("<a href=\"{}\">{}</a>", escape_path(target), escape_html(text));
        match self.style {
            Style::Formatted | Style::SemiFormatted => self.page += &format!("<pre>{before}{link}</pre>\n"),
            Style::Unformatted => self.page += &link,
            Style::Other => {}
        }
    }

    pub(super) fn end(self) -> String {
        self.page + "\n\n</body>\n</html>\n"
    }

    /// The page of an invalid map, in Apache's spelling.
    pub(super) fn failed(mut self) -> String {
        self.page += "\n\n[an internal server error occured]\n";
        self.end()
    }
}

//! Splits a Rust file into code, comments and string literals, line by line.

/// The parts of a file. Lines are counted from 0 here.
pub(crate) struct Rust {
    /// The code of each line; comments and the contents of literals are replaced by spaces.
    pub(crate) code: Vec<String>,
    /// The comment of each line, without its slashes; empty if there is none.
    pub(crate) comments: Vec<String>,
    /// The string literals: line and text as written; lines that a backslash continues are joined.
    pub(crate) strings: Vec<(usize, String)>,
    /// Whether each line belongs to a test.
    pub(crate) test: Vec<bool>,
}

impl Rust {
    pub(crate) fn new(text: &str, all_test: bool) -> Rust {
        let mut scanner = Scanner {
            chars: text.chars().collect(),
            at: 0,
            code: vec![String::new()],
            comments: vec![String::new()],
            strings: Vec::new(),
        };
        scanner.run();
        let Scanner { code, comments, strings, .. } = scanner;
        let test = if all_test { vec![true; code.len()] } else { test_lines(&code) };
        Rust { code, comments, strings, test }
    }

    /// The lines with `word` in their code, as a whole word: the line, and the text after the word.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        self.code.iter().enumerate().flat_map(move |(line, code)| whole_words(code, word).map(move |rest| (line, rest)))
    }
}

/// The text after each occurrence of `word` that is not part of a longer word.
pub(crate) fn whole_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).filter_map(move |(at, _)| {
        let rest = &text[at + word.len()..];
        let alone = !text[..at].ends_with(part) && !rest.starts_with(part);
        alone.then_some(rest)
    })
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    code: Vec<String>,
    comments: Vec<String>,
    strings: Vec<(usize, String)>,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('r', Some('"' | '#')) if self.starts_literal() && self.raw_hashes(1).is_some() => self.raw_string(1),
                ('b' | 'c', Some('r')) if self.starts_literal() && self.raw_hashes(2).is_some() => self.raw_string(2),
                ('\'', Some('\\')) => self.character(),
                ('\'', Some(_)) if self.peek(2) == Some('\'') => self.character(),
                _ => self.keep(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn line(&self) -> usize {
        self.code.len() - 1
    }

    /// Takes a character as code.
    fn keep(&mut self) {
        let c = self.chars[self.at];
        self.at += 1;
        if c == '\n' {
            self.new_line();
        } else if let Some(line) = self.code.last_mut() {
            line.push(c);
        }
    }

    /// Takes a character that is not code.
    fn blank(&mut self) {
        let c = self.chars[self.at];
        self.at += 1;
        if c == '\n' {
            self.new_line();
        } else if let Some(line) = self.code.last_mut() {
            line.push(' ');
        }
    }

    /// Takes a character of a comment.
    fn note(&mut self) {
        let (c, line) = (self.chars[self.at], self.line());
        if c != '\n' {
            self.comments[line].push(c);
        }
        self.blank();
    }

    fn new_line(&mut self) {
        self.code.push(String::new());
        self.comments.push(String::new());
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.note();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            let step = match (c, self.peek(1)) {
                ('/', Some('*')) => 1,
                ('*', Some('/')) => -1,
                _ => 0,
            };
            self.note();
            if step != 0 {
                self.note();
                depth += step;
                if depth == 0 {
                    return;
                }
            }
        }
    }

    fn string(&mut self) {
        let line = self.line();
        let mut text = String::new();
        self.keep();
        while let Some(c) = self.peek(0).filter(|c| *c != '"') {
            if c == '\\' && self.peek(1) == Some('\n') {
                self.blank();
                while self.peek(0).is_some_and(char::is_whitespace) {
                    self.blank();
                }
                continue;
            }
            if c == '\\' {
                text.push(c);
                self.blank();
            }
            if let Some(c) = self.peek(0) {
                text.push(c);
                self.blank();
            }
        }
        if self.peek(0).is_some() {
            self.keep();
        }
        self.strings.push((line, text));
    }

    /// Whether a letter here begins a literal instead of ending a name.
    fn starts_literal(&self) -> bool {
        self.at == 0 || !(self.chars[self.at - 1].is_alphanumeric() || self.chars[self.at - 1] == '_')
    }

    /// The number of `#` between the prefix and the quote of a raw string; `None` if it is not one.
    fn raw_hashes(&self, prefix: usize) -> Option<usize> {
        let hashes = (0..).take_while(|ahead| self.peek(prefix + ahead) == Some('#')).count();
        (self.peek(prefix + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self, prefix: usize) {
        let hashes = self.raw_hashes(prefix).unwrap_or(0);
        let line = self.line();
        let mut text = String::new();
        for _ in 0..prefix + hashes + 1 {
            self.keep();
        }
        while let Some(c) = self.peek(0) {
            let ends = c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if ends {
                for _ in 0..hashes + 1 {
                    self.keep();
                }
                break;
            }
            text.push(c);
            self.blank();
        }
        self.strings.push((line, text));
    }

    /// A character literal; a lifetime is code.
    fn character(&mut self) {
        self.keep();
        if self.peek(0) == Some('\\') {
            self.blank();
            self.blank();
        }
        while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
            self.blank();
        }
        if self.peek(0) == Some('\'') {
            self.keep();
        }
    }
}

/// The lines of items under `#[cfg(test)]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut test = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        if !code[line].trim_start().starts_with("#[cfg(test)]") {
            line += 1;
            continue;
        }
        let end = item_end(code, line);
        test[line..=end].fill(true);
        line = end + 1;
    }
    test
}

/// The last line of the item that begins with the attribute on `line`.
fn item_end(code: &[String], line: usize) -> usize {
    let mut depth = 0;
    for (number, text) in code.iter().enumerate().skip(line) {
        let text = if number == line { text.replacen("#[cfg(test)]", "", 1) } else { text.clone() };
        for c in text.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => return number,
                '}' => depth -= 1,
                ';' if depth == 0 => return number,
                _ => {}
            }
        }
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = "let a = \"// no // comment \\\" {\"; // yes {\nlet b = r#\"x \" /* \"#; /* one\n /* two */ */ let c: &'a str = '\\'';\n";
        let rust = Rust::new(text, false);
        assert!(rust.code.iter().all(|line| !line.contains(['{', 'x']) && !line.contains("comment")));
        assert!(rust.code[2].contains("let c: &'a str = '"));
        assert_eq!(rust.comments[0], "// yes {");
        assert_eq!(rust.comments[2], " /* two */ */");
        let strings: Vec<&str> = rust.strings.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(strings, ["// no // comment \\\" {", "x \" /* "]);
    }

    #[test]
    fn a_backslash_joins_lines() {
        let rust = Rust::new("f(\"one \\\n     two\");\ng();", false);
        assert_eq!(rust.strings, [(0, "one two".to_string())]);
        assert_eq!(rust.code[2], "g();");
    }

    #[test]
    fn test_modules_are_tests() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { { } }\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}";
        assert_eq!(Rust::new(text, false).test, [false, true, true, true, true, false, true, true, false]);
        assert!(Rust::new(text, true).test.iter().all(|test| *test));
    }

    #[test]
    fn words_are_whole() {
        let rust = Rust::new("unsafe_code; unsafe { a } // unsafe\nnot_unsafe", false);
        assert_eq!(rust.words("unsafe").map(|(line, _)| line).collect::<Vec<_>>(), [0]);
    }
}

//! Words of a line: quotes and escapes (Apache manual, "Configuration Files", syntax; doubtful
//! cases were measured on 2.4.71).

/// Takes the next word off `rest`; empty at the end of the line.
///
/// A word that begins with `"` or `'` ends at the same quote; inside, a backslash escapes that quote and itself. A
/// missing closing quote is the end of the line. In a word without quotes only `\\` is reduced.
pub fn next_word(rest: &mut &str) -> String {
    let text = rest.trim_start();
    let Some(first) = text.chars().next() else {
        *rest = "";
        return String::new();
    };
    let (word, used) = if first == '"' || first == '\'' { quoted(text, first) } else { bare(text) };
    *rest = text[used..].trim_start();
    word
}

/// All words of a line.
pub fn words(mut rest: &str) -> Vec<String> {
    let mut out = Vec::new();
    while !rest.trim_start().is_empty() {
        out.push(next_word(&mut rest));
    }
    out
}

fn quoted(text: &str, quote: char) -> (String, usize) {
    let mut word = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.peek() {
                Some(&(_, next)) if next == quote || next == '\\' => {
                    word.push(next);
                    chars.next();
                }
                _ => word.push('\\'),
            },
            _ if c == quote => return (word, at + 1),
            _ => word.push(c),
        }
    }
    (word, text.len())
}

fn bare(text: &str) -> (String, usize) {
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '\x0b').unwrap_or(text.len());
    (text[..end].replace("\\\\", "\\"), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_captured() {
        let cases: &[(&str, &[&str])] = &[
            (r#"X-1 "a\"b""#, &["X-1", "a\"b"]),
            (r#"'a\'b"c'"#, &["a'b\"c"]),
            (r#""a\\b\c""#, &[r"a\b\c"]),
            (r"a\\b\c", &[r"a\b\c"]),
            (r#"a"b"#, &[r#"a"b"#]),
            (r#""unclosed x"#, &["unclosed x"]),
            (r#""a""b""#, &["a", "b"]),
            (r#"z """#, &["z", ""]),
            ("  \t ", &[]),
        ];
        for (line, want) in cases {
            assert_eq!(words(line), *want, "{line}");
        }
    }
}

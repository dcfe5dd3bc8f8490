//! The names in a Rust file: what it defines, what it imports, and what it names by a path.

use crate::tree::Rust;

/// The names in a file; its tests are left out.
#[derive(Default)]
pub(super) struct Names {
    /// Every item, at whatever depth: macros such as `settings!` declare items too.
    pub(super) items: Vec<String>,
    /// The modules declared in files of their own.
    pub(super) children: Vec<String>,
    pub(super) imports: Vec<Import>,
    /// Paths outside of imports, with their lines, counted from 1.
    pub(super) paths: Vec<(Vec<String>, usize)>,
}

/// One name of a `use` declaration.
pub(super) struct Import {
    /// The segments; the last one of a glob is `*`.
    pub(super) path: Vec<String>,
    /// The name in this file.
    pub(super) alias: String,
    /// Whether others may use the name from here.
    pub(super) is_public: bool,
    /// Counted from 1.
    pub(super) line: usize,
}

const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "union", "type", "const", "static", "macro_rules"];

impl Names {
    pub(super) fn of(rust: &Rust) -> Names {
        let tokens = tokens(rust);
        let mut names = Names::default();
        let mut at = 0;
        while at < tokens.len() {
            let text = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text.as_str());
            match text(0) {
                // `use<'a>` names lifetimes.
                "use" if text(1) != "<" => {
                    let is_public = at > 0 && matches!(tokens[at - 1].text.as_str(), "pub" | ")");
                    at += 1;
                    names.import(&tokens, &mut at, &[], is_public);
                    continue;
                }
                "mod" if text(2) == ";" => names.children.push(text(1).to_string()),
                word if ITEMS.contains(&word) => {
                    let name = if text(1) == "!" { text(2) } else { text(1) };
                    names.items.push(name.to_string());
                }
                word if is_name(word) && text(1) == "::" => {
                    let line = tokens[at].line;
                    let mut path = vec![word.to_string()];
                    while tokens.get(at + 1).is_some_and(|token| token.text == "::")
                        && tokens.get(at + 2).is_some_and(|token| is_name(&token.text))
                    {
                        path.push(tokens[at + 2].text.clone());
                        at += 2;
                    }
                    names.paths.push((path, line));
                }
                _ => {}
            }
            at += 1;
        }
        names
    }

    /// Reads a tree of imports up to its end.
    fn import(&mut self, tokens: &[Token], at: &mut usize, before: &[String], is_public: bool) {
        let mut path = before.to_vec();
        let line = tokens.get(*at).map_or(0, |token| token.line);
        let mut alias = None;
        while let Some(token) = tokens.get(*at) {
            match token.text.as_str() {
                "," | ";" | "}" => break,
                "::" => {}
                "{" => {
                    *at += 1;
                    while tokens.get(*at).is_some_and(|token| token.text != "}") {
                        self.import(tokens, at, &path, is_public);
                        if tokens.get(*at).is_some_and(|token| token.text == ",") {
                            *at += 1;
                        }
                    }
                    *at += 1;
                    return;
                }
                "as" => {
                    *at += 1;
                    alias = tokens.get(*at).map(|token| token.text.clone());
                }
                name => path.push(name.to_string()),
            }
            *at += 1;
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let Some(last) = path.last().cloned() else { return };
        self.imports.push(Import { path, alias: alias.unwrap_or(last), is_public, line });
    }
}

struct Token {
    text: String,
    /// Counted from 1.
    line: usize,
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::`, and every other character on its own; no tests, comments or literals.
fn tokens(rust: &Rust) -> Vec<Token> {
    let mut tokens = Vec::new();
    let lines = rust.code.iter().zip(&rust.test).enumerate().filter(|(_, (_, test))| !**test);
    for (number, (code, _)) in lines {
        let mut rest = code.trim_start();
        while let Some(first) = rest.chars().next() {
            let part = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                c if part(c) => rest.find(|c| !part(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            tokens.push(Token { text: rest[..length].to_string(), line: number + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_and_paths() {
        let text =
            "pub use a::{b::{self, C}, d as e};\nuse super::*;\nmod x;\nfn f() { crate::g::h(1); i::j::<K>() }\n";
        let names = Names::of(&Rust::new(text, false));
        let imports: Vec<_> =
            names.imports.iter().map(|i| (i.path.join("::"), i.alias.as_str(), i.is_public, i.line)).collect();
        let expected =
            [("a::b", "b", true, 1), ("a::b::C", "C", true, 1), ("a::d", "e", true, 1), ("super::*", "*", false, 2)];
        assert_eq!(imports, expected.map(|(path, alias, public, line)| (path.to_string(), alias, public, line)));
        assert_eq!((names.children, names.items), (vec!["x".to_string()], vec!["f".to_string()]));
        let paths: Vec<_> = names.paths.iter().map(|(path, line)| (path.join("::"), *line)).collect();
        assert_eq!(paths, [("crate::g::h".to_string(), 4), ("i::j".to_string(), 4)]);
    }
}

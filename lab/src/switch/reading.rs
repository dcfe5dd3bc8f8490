//! Whether both servers read the same configuration: the trees that they print, line by line.

use super::tree::{Directive, all};

/// A line that only one of them has read, or that they have read differently.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Misread {
    /// `FILE:LINE`.
    pub(crate) line: String,
    /// What Apache read there; none if it read nothing.
    pub(crate) apache: Option<String>,
    /// What Tsubame read there.
    pub(crate) tsubame: Option<String>,
}

/// The differences between two trees, in the order of Apache's.
pub(crate) fn differences(apache: &[Directive], tsubame: &[Directive]) -> Vec<Misread> {
    let [theirs, ours] = [apache, tsubame].map(|tree| all(tree).map(said).collect::<Vec<_>>());
    let missing = |one: &(String, String), other: &[(String, String)]| !other.contains(one);
    let of = |line: &str, all: &[(String, String)]| {
        let own: Vec<&str> = all.iter().filter(|(at, _)| at == line).map(|(_, text)| text.as_str()).collect();
        (!own.is_empty()).then(|| own.join("; "))
    };
    if theirs == ours {
        return Vec::new();
    }
    let lost = theirs.iter().filter(|one| missing(one, &ours)).chain(ours.iter().filter(|one| missing(one, &theirs)));
    let mut lines: Vec<&str> = Vec::new();
    for (line, _) in lost {
        if !lines.contains(&line.as_str()) {
            lines.push(line);
        }
    }
    let told = |line: &&str| Misread { line: (*line).to_owned(), apache: of(line, &theirs), tsubame: of(line, &ours) };
    lines.iter().map(told).collect()
}

/// The line and its text. The case of a name does not matter.
fn said(directive: &Directive) -> (String, String) {
    let text = format!("{} {}", directive.name.to_ascii_lowercase(), directive.arguments);
    (directive.origin.to_string(), text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::tree::Origin;

    #[test]
    fn lines_are_compared() {
        let line = |line: u32, name: &str, arguments: &str| Directive {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            origin: Origin { file: "a".into(), line },
            children: None,
        };
        let apache = [line(1, "Timeout", "3"), line(2, "Alias", "/a b"), line(3, "Listen", "80")];
        let tsubame = [line(1, "TimeOut", "3"), line(2, "Alias", "/a c")];
        let found: Vec<String> = differences(&apache, &tsubame)
            .into_iter()
            .map(|one| {
                format!("{} {:?} {:?}", one.line, one.apache.unwrap_or_default(), one.tsubame.unwrap_or_default())
            })
            .collect();
        assert_eq!(found, [r#"a:2 "alias /a b" "alias /a c""#, r#"a:3 "listen 80" """#]);
        assert!(differences(&apache, &apache).is_empty());
    }
}

//! Reads the examples of `docs/examples`: one file for each module, made of blocks separated by blank lines.

use std::collections::BTreeMap;

use conf::Remark;

use super::catalogue::{Entry, prose};
use crate::tree::root;

/// The directory of the files.
pub(super) const DIRECTORY: &str = "docs/examples";

/// The blocks of each module, by the module's name.
#[derive(Default)]
pub(super) struct Examples(BTreeMap<String, Vec<Block>>);

/// Lines of configuration that belong together.
struct Block {
    /// Their purpose: the comment on the first line.
    says: String,
    lines: Vec<String>,
}

impl Examples {
    /// Reads all files.
    pub(super) fn read() -> Result<Examples, String> {
        let directory = root().join(DIRECTORY);
        let failed = |error: std::io::Error| format!("{DIRECTORY}: {error}");
        let mut all = BTreeMap::new();
        for file in std::fs::read_dir(directory).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            let Some(module) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let blocks = blocks(&text).map_err(|error| format!("{DIRECTORY}/{module}.conf: {error}"))?;
            all.insert(module.to_string(), blocks);
        }
        Ok(Examples(all))
    }

    /// The example of a directive for a page. Of the blocks in the files of its modules, it is the one that reaches the
    /// directive soonest, and of several the first.
    pub(super) fn of(&self, entry: &Entry) -> Option<String> {
        let blocks = entry.rows.iter().filter_map(|(module, _)| self.0.get(module)).flatten();
        let having = blocks.filter_map(|block| Some((block.place_of(&entry.name)?, block)));
        let (_, block) = having.min_by_key(|(place, _)| *place)?;
        let lines: String = block.shown(&entry.name).map(|line| format!("    {line}\n")).collect();
        Some(format!("{}\n\n{lines}", prose(&block.says)))
    }

    /// The names of the modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Block {
    /// The index of the first line with the directive.
    fn place_of(&self, name: &str) -> Option<usize> {
        self.lines.iter().position(|line| begins_with(line, name))
    }

    /// The whole block; of a long list, only the lines that contain the directive.
    fn shown(&self, name: &str) -> impl Iterator<Item = &str> {
        const LIST: usize = 8;
        let is_list = self.lines.len() > LIST && !self.lines.iter().any(|line| line.starts_with('<'));
        self.lines.iter().map(String::as_str).filter(move |line| !is_list || begins_with(line, name))
    }
}

/// Whether a line begins with this directive, or opens this section.
fn begins_with(line: &str, name: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.trim_end_matches('>').eq_ignore_ascii_case(name.trim_end_matches('>'))
}

fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let block = |text: &str| {
        let mut lines = text.lines();
        let says = lines.next().and_then(|line| line.strip_prefix("# "));
        let says = says.ok_or_else(|| format!("a block must begin with a comment: {text}"))?;
        Ok(Block { says: says.into(), lines: lines.map(Into::into).collect() })
    };
    text.trim_end().split("\n\n").map(block).collect()
}

/// Whether a directive can be used at all. Some exist only to be refused with a reason.
pub(super) fn is_usable(entry: &Entry) -> bool {
    const REFUSED: [&str; 2] = ["An error:", "It is refused:"];
    // The server does not start with these.
    const STOPS: [&str; 2] = ["ChrootDir", "SSLSRPVerifierFile"];
    let refused = |remark| matches!(remark, Some(Remark::Differs(how)) if REFUSED.iter().any(|it| how.starts_with(it)));
    // Apache still accepts them, but its manual no longer lists them.
    let is_removed = !entry.facts.is_empty() && !entry.documented();
    !is_removed && !STOPS.contains(&entry.name.as_str()) && !entry.rows.iter().all(|(_, row)| refused(row.remark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::{Allowed, Args, Directive};

    fn entry(name: &str, row: &'static Directive) -> Entry {
        Entry { name: name.into(), anchor: String::new(), rows: vec![("mod_demo".into(), row)], facts: Vec::new() }
    }

    const ROW: Directive = conf::row("DemoOn", Allowed::FILEINFO, Args::Flag(|_, _| Ok(())), "", "");
    static REFUSED: Directive = ROW.differs("It is refused: no.");

    #[test]
    fn the_block_that_comes_to_a_directive_soonest_is_its_example() {
        let text = "# Late.\nB 1\nA 1\n\n# All_of it.\n<Demo a>\n    demoon On\n</Demo>\n\n# Once more.\na 2\nB 2\n";
        let examples = Examples([("mod_demo".to_string(), blocks(text).expect("blocks"))].into());
        let whole = "All\\_of it.\n\n    <Demo a>\n        demoon On\n    </Demo>\n";
        assert_eq!(examples.of(&entry("DemoOn", &ROW)).as_deref(), Some(whole));
        assert_eq!(examples.of(&entry("<Demo>", &ROW)).as_deref(), Some(whole));
        assert_eq!(examples.of(&entry("A", &ROW)).as_deref(), Some("Once more.\n\n    a 2\n    B 2\n"));
        assert_eq!(examples.of(&entry("Demo", &ROW)), None);
    }

    #[test]
    fn of_a_long_list_one_line_is_enough() {
        let list = blocks("# Nine.\nA 1\nB 2\nC 3\nD 4\nE 5\nF 6\nG 7\nH 8\nI 9\n").expect("blocks");
        assert_eq!(list[0].shown("d").collect::<Vec<_>>(), ["D 4"]);
    }

    #[test]
    fn a_block_says_what_it_does() {
        assert!(blocks("# One.\nA 1\n\nB 2\n").is_err());
    }

    #[test]
    fn refused_directives_need_no_example() {
        assert!(is_usable(&entry("DemoOn", &ROW)) && !is_usable(&entry("DemoOn", &REFUSED)));
    }
}

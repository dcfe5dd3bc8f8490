//! Takes out of directives what acts without being asked: programs that start, backends that are probed, pages that run scripts,
//! databases that are written to.

use std::collections::BTreeSet;
use std::path::Path;

/// What a server may do by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet<'a> {
    /// Whether scripts, programs and backends may be started and asked.
    pub(super) runs_scripts: bool,
    /// Error documents that a script or a backend makes.
    pub(super) pages_that_run: &'a BTreeSet<String>,
    /// A file in which a map finds nothing.
    pub(super) empty_map: &'a Path,
}

impl Quiet<'_> {
    /// What is left of the arguments of a directive; nothing means that the line goes.
    ///
    /// Nobody's probes and seeds are wanted in any case; programs and pages with includes are as soon as scripts are.
    pub(super) fn left(self, name: &str, mut words: Vec<String>) -> Vec<String> {
        match name.to_ascii_lowercase().as_str() {
            "proxypass" | "proxypassmatch" | "balancermember" | "proxyset" => {
                words.retain(|word| !(word.starts_with("hc") && word.contains('=')));
            }
            "sslrandomseed" if words.iter().any(|word| word.starts_with("exec:")) => words.clear(),
            _ if self.runs_scripts => {}
            "rewritemap" => {
                let acts = |map: &&mut String| ["prg:", "dbd:", "fastdbd:"].iter().any(|kind| map.starts_with(kind));
                if let Some(map) = words.get_mut(1).filter(acts) {
                    *map = format!("txt:{}", self.empty_map.display());
                }
            }
            "extfilterdefine" => {
                if let Some(at) = words.iter().position(|word| word.starts_with("cmd=")) {
                    let length = length_of_command(&words[at..]);
                    words.splice(at..at + length, ["cmd=/bin/cat".to_owned()]);
                }
            }
            "errordocument" if words.get(1).is_some_and(|page| self.pages_that_run.contains(page)) => words.clear(),
            "xbithack" | "dbdinitsql" | "sessiondbdcookiename" | "sessiondbdcookiename2" | "sessiondbdperuser" => {
                words.clear();
            }
            "addhandler" | "sethandler" if words.first().is_some_and(|word| is_server_parsed(word)) => words.clear(),
            "setoutputfilter" | "addoutputfilter" | "addoutputfilterbytype" => {
                if let Some(filters) = words.first_mut() {
                    let is_other = |filter: &&str| !filter.eq_ignore_ascii_case("INCLUDES");
                    *filters = filters.split(';').filter(is_other).collect::<Vec<_>>().join(";");
                }
                if words.first().is_some_and(String::is_empty) {
                    words.clear();
                }
            }
            _ => {}
        }
        words
    }
}

/// How many words the command of an external filter has: `cmd="/bin/tr a b"` is quoted behind its name.
fn length_of_command(words: &[String]) -> usize {
    let value = words.first().and_then(|word| word.strip_prefix("cmd=")).unwrap_or_default();
    let Some(quote) = value.chars().next().filter(|char| matches!(char, '"' | '\'')) else { return 1 };
    let ends = |word: &str| word.ends_with(quote) && !word.ends_with(&format!("\\{quote}"));
    let is_last =
        |(number, word): (usize, &String)| if number == 0 { value.len() > 1 && ends(value) } else { ends(word) };
    words.iter().enumerate().position(is_last).map_or(words.len(), |last| last + 1)
}

/// The handler of pages with includes, by its old name.
fn is_server_parsed(handler: &str) -> bool {
    handler.eq_ignore_ascii_case("server-parsed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_by_itself_goes() {
        let pages = BTreeSet::from(["/error.cgi".to_owned()]);
        for (line, silent, with_scripts) in [
            ("ProxyPass /a http://b/ hcmethod=GET retry=1", "/a http://b/ retry=1", "/a http://b/ retry=1"),
            ("BalancerMember http://b hcuri=/x", "http://b", "http://b"),
            ("SSLRandomSeed startup exec:/x", "", ""),
            ("SSLRandomSeed startup builtin", "startup builtin", "startup builtin"),
            ("RewriteMap m prg:/x", "m txt:/empty", "m prg:/x"),
            ("RewriteMap m txt:/x", "m txt:/x", "m txt:/x"),
            ("ExtFilterDefine f mode=output cmd=/x", "f mode=output cmd=/bin/cat", "f mode=output cmd=/x"),
            (
                "ExtFilterDefine a mode=output cmd=\"/bin/tr a b\" intype=text/plain",
                "a mode=output cmd=/bin/cat intype=text/plain",
                "a mode=output cmd=\"/bin/tr a b\" intype=text/plain",
            ),
            (
                "ExtFilterDefine a cmd=\"/bin/x\" mode=output",
                "a cmd=/bin/cat mode=output",
                "a cmd=\"/bin/x\" mode=output",
            ),
            ("ErrorDocument 400 /error.cgi", "", "400 /error.cgi"),
            ("ErrorDocument 404 /error.html", "404 /error.html", "404 /error.html"),
            ("RewriteMap m dbd:SELECT", "m txt:/empty", "m dbd:SELECT"),
            ("DBDInitSQL INSERT", "", "INSERT"),
            ("SessionDBDCookieName session path=/", "", "session path=/"),
            ("XBitHack on", "", "on"),
            ("AddHandler server-parsed .shtml", "", "server-parsed .shtml"),
            ("AddOutputFilter includes;DEFLATE .shtml", "DEFLATE .shtml", "includes;DEFLATE .shtml"),
            ("SetOutputFilter INCLUDES", "", "INCLUDES"),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let name = words.next().unwrap();
            let words: Vec<String> = words.collect();
            for (runs_scripts, expected) in [(false, silent), (true, with_scripts)] {
                let quiet = Quiet { runs_scripts, pages_that_run: &pages, empty_map: Path::new("/empty") };
                assert_eq!(quiet.left(&name, words.clone()).join(" "), expected, "{line}, scripts: {runs_scripts}");
            }
        }
    }
}

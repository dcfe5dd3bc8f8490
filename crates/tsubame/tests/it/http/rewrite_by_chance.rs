//! Rules, conditions and requests as chance has them, with every flag, test, option and map, in all contexts.
//!
//! This looks for differences from Apache that nobody has thought of. Each seed makes 3 024 pairs. The first is compared every time;
//! `TSUBAME_SEEDS=6` goes on to others, and finds about one differing pair in each 1 000. [`crate::http::rewrite_same_as_apache`] keeps to
//! what sites write.
//! Each rule leaves its number in a variable that the answer shows, so a rule that is tried and has no effect is compared too, and it
//! is known what was reached.

use std::os::unix::fs::PermissionsExt;

use crate::harness::chance::{Chance, Reached, seeds};
use crate::harness::oracle::{Allowed, Case, compare_some};
use crate::harness::site::Site;

/// How many places have rules of their own with each of [`MAIN`], and how often each is asked.
const PLACES: usize = 72;
const REQUESTS: usize = 14;

/// So many seeds reach each entry of all tables.
const ENOUGH: usize = 4;

/// The options that relate the main server's rules to those of virtual hosts.
const MAIN: [&str; 3] = ["UnsafePrefixStat", "InheritDown", "InheritDownBefore"];

const PLACE: [&str; 8] = ["host", "host", "access file", "directory", "nested", "alias", "files and if", "pattern"];

const OPTIONS: [&str; 14] = [
    "",
    "",
    "",
    "Inherit",
    "InheritBefore",
    "InheritDown",
    "InheritDownBefore",
    "IgnoreInherit",
    "AllowNoSlash",
    "AllowAnyURI",
    "MergeBase",
    "IgnoreContextInfo",
    "LegacyPrefixDocRoot",
    "UnsafePrefixStat",
];

const BASES: [&str; 6] = ["", "", "/{place}/", "/{place}/", "/{place}", "/"];

const PATTERNS: [&str; 29] = [
    "^{}one$",
    "^{}(.*)\\.html$",
    "^{}([a-z]+)/(\\d+)$",
    "two",
    "!^{}a",
    "^{}a\\ b$",
    "\"^{}sp ace\"",
    ".",
    "^{}x/?(.*)$",
    "(?i)ONE",
    "^{}(o|t)(ne|wo)?$",
    "^{}$",
    "^{}d/",
    "\\.txt$",
    "^{}(?!one)(.+)$",
    "^{}([^/]+)/([^/]+)/?$",
    "e$",
    "^{}q(.*)",
    "(a)(b)?",
    "^{}one/two$",
    "^{}[a-z]{3}$",
    "[^a-z/.]",
    "^",
    "^(.*)$",
    "(.)(.)(.)$",
    "^{}(?<first>[a-z])",
    "[[:upper:]]",
    "'^{}d(/.*)?$'",
    "é",
];

const SUBSTITUTIONS: [&str; 47] = [
    "-",
    "-",
    "{}a.html",
    "/a.html",
    "a.html",
    "{}$1.html",
    "/d/$1",
    "{}b.txt?x=$1",
    "/a.html?",
    "{}a.html?a=1&b=$1&",
    "{}two",
    "{}x/$1",
    "/%1",
    "%{REQUEST_URI}x",
    "{}a.html?%{QUERY_STRING}",
    "http://other.example/$1",
    "http://other.example/a\\ b?$1",
    "{}$1$2",
    "{}one/$0",
    "/d/",
    "{}a.html/$1",
    "\"{}sp ace.html\"",
    "{}%{ENV:A}",
    "{}a.html?q=$1?r",
    "/none/%{HTTP:X-A}",
    "${txt:$1|/a.html}",
    "{}${txt:%{QUERY_STRING}}",
    "{}${rnd:one}",
    "{}${rnd:$1|b.txt}",
    "{}${low:$0}",
    "/a.html?${up:$1}",
    "{}${esc:$1}",
    "{}${unesc:%1|x}",
    "{}${txt:${low:$0}|${up:$1}}",
    "{}a.html?${none:$1|x}",
    "{}$9\\$1\\%1%",
    "{}%1%2",
    "%{DOCUMENT_ROOT}/a.html",
    "/out/f.html",
    "http://%{HTTP_HOST}/$1",
    "https://localhost/$1",
    "{}a%20b",
    "{}a.html?%{LA-U:PATH_INFO}&%{SSL:SSL_PROTOCOL}",
    "{}b.txt?%{HTTP_COOKIE}",
    "/${none",
    "{}d",
    "^{}",
];

const FLAGS: [&str; 66] = [
    "L",
    "L",
    "last",
    "R",
    "R=301",
    "R=permanent",
    "R=temp",
    "R=seeother",
    "R=307",
    "redirect=308",
    "R=404",
    "R=200",
    "R=503",
    "END",
    "end",
    "PT",
    "passthrough",
    "QSA",
    "qsappend",
    "QSD",
    "qsdiscard",
    "QSL",
    "qslast",
    "NC",
    "nocase",
    "NE",
    "noescape",
    "NS",
    "nosubreq",
    "C",
    "chain",
    "S=1",
    "S=2",
    "skip=1",
    "F",
    "forbidden",
    "G",
    "gone",
    "B",
    "backrefescaping",
    "B=/?",
    "BNE=/",
    "BNE=:",
    "BNP",
    "BCTLS",
    "DPI",
    "discardpath",
    "D",
    "T=text/x-t",
    "type=text/$1",
    "H=default-handler",
    "handler=%1",
    "N=3",
    "next=2",
    "E=A:$1",
    "env=A:%1",
    "E=!A",
    "E=A",
    "E=A:%{QUERY_STRING}",
    "CO=c:$1",
    "CO=n:v:.e:0:/p:1:1:Lax",
    "cookie=;o;w;.e",
    "UnsafeAllow3F",
    "UnsafePrefixStat",
    "UNC",
    "unsafeallow3f",
];

const CONDITIONS: [&str; 88] = [
    "%{REQUEST_FILENAME} !-f",
    "%{REQUEST_FILENAME} !-f",
    "%{REQUEST_FILENAME} -f",
    "%{REQUEST_FILENAME} !-d",
    "%{REQUEST_FILENAME} -d",
    "%{SCRIPT_FILENAME} !-s",
    "%{DOCUMENT_ROOT}/a.html -s",
    "%{DOCUMENT_ROOT}/empty !-s",
    "%{DOCUMENT_ROOT}/d/$1 -d",
    "%{DOCUMENT_ROOT}/d -d",
    "%{DOCUMENT_ROOT}/link -l",
    "%{DOCUMENT_ROOT}/link -L",
    "%{DOCUMENT_ROOT}/a.html !-h",
    "%{DOCUMENT_ROOT}/run -x",
    "%{REQUEST_FILENAME} !-x",
    "%{REQUEST_URI} -U",
    "/d/$1 !-U",
    "/denied/a.html !-U",
    "%{REQUEST_FILENAME} !-F",
    "%{DOCUMENT_ROOT}/a.html -F",
    "%{DOCUMENT_ROOT}/denied/a.html !-F",
    "%{REQUEST_URI} ^(.*)e",
    "%{REQUEST_URI} !(one)",
    "%{REQUEST_URI} \\.",
    "%{REQUEST_URI} >/o",
    "%{REQUEST_URI} >=/v",
    "%{QUERY_STRING} ^a=(.*)$",
    "%{QUERY_STRING} .",
    "%{QUERY_STRING} <b",
    "%{QUERY_STRING} <=a=b",
    "%{QUERY_STRING} !=A=B",
    "%{QUERY_STRING} =\"\"",
    "$1 ^(.)",
    "$1 =html",
    "$1 !<two",
    "%1 =a",
    "%1 !>b",
    "$2 -gt5",
    "$2 -ge7",
    "$2 -le12",
    "$2 !-lt7",
    "$2 -eq12",
    "$2 -ne7",
    "%{SERVER_PORT} -eq8080",
    "%{TIME_YEAR} -gt2000",
    "%{TIME}%{TIME_MON}%{TIME_DAY}%{TIME_HOUR}%{TIME_MIN}%{TIME_SEC}%{TIME_WDAY} ^[0-9]{25}$",
    "%{HTTP_USER_AGENT} -lt3",
    "%{HTTP_USER_AGENT} -le2",
    "%{HTTP:X-A} ^(.+)$",
    "%{HTTP:X-A} =XA",
    "%{HTTP_HOST} ^v(\\d)",
    "%{HTTP_COOKIE} c=(\\w+)",
    "%{HTTP_REFERER}%{HTTP_ACCEPT}%{HTTP_FORWARDED}%{HTTP_PROXY_CONNECTION} ^$",
    "%{REQUEST_METHOD} =GET",
    "%{REQUEST_METHOD} !=GET",
    "%{ENV:A} ^$",
    "%{ENV:A} (.)",
    "%{THE_REQUEST} \\?",
    "%{PATH_INFO} (.+)",
    "%{IS_SUBREQ} =false",
    "%{HTTPS} =off",
    "%{IPV6} =off",
    "%{REQUEST_SCHEME} =HTTP",
    "%{SERVER_PROTOCOL} ^HTTP/1\\.(\\d)$",
    "%{SERVER_NAME} ^(v|l)",
    "%{SERVER_ADMIN} @",
    "%{SERVER_SOFTWARE}%{API_VERSION} .",
    "%{SERVER_ADDR} ^127\\.",
    "%{REMOTE_ADDR}%{CONN_REMOTE_ADDR} ^127\\.",
    "%{REMOTE_HOST} ^127\\.",
    "%{REMOTE_PORT} -gt0",
    "%{AUTH_TYPE}%{REMOTE_USER}%{REMOTE_IDENT} ^$",
    "%{CONTEXT_PREFIX} ^$",
    "%{CONTEXT_DOCUMENT_ROOT} htdocs",
    "%{SSL:SSL_PROTOCOL}%{NO_SUCH} ^$",
    "%{LA-U:REQUEST_FILENAME} html$",
    "%{LA-F:REQUEST_FILENAME} -f",
    "${txt:$1|no} =a.html",
    "${low:%{HTTP:X-A}} ^(x)",
    "expr \"%{REQUEST_URI} =~ m#(o)#\"",
    "expr \"-n %{QUERY_STRING}\"",
    "expr \"-f %{REQUEST_FILENAME}\"",
    "expr \"! -U %{REQUEST_URI}\"",
    "expr \"%{HTTP:X-A} in {'xa', 'b'}\"",
    "expr \"-R '127.0.0.0/8' && tolower(%{REQUEST_METHOD}) == 'get'\"",
    "expr \"-z reqenv('A') || %{SERVER_PORT} -lt 80\"",
    "expr \"%{QUERY_STRING} !~ /a/\"",
    "EXPR \"false\"",
];

const CONDITION_FLAGS: [&str; 13] =
    ["", "", "", "", "", "[NC]", "[OR]", "[OR]", "[NV]", "[nocase,ornext]", "[ NC , NV ]", "[novary,OR]", "[NoCase]"];

const PATHS: [&str; 32] = [
    "one",
    "two",
    "a.html",
    "b.txt",
    "d/",
    "d",
    "d/a.html",
    "",
    "abc/12",
    "abc/7",
    "x/y/z",
    "x",
    "x/",
    "sp%20ace.html",
    "none",
    "none/deep/er",
    "a%20b",
    "ONE",
    "q%3fr",
    "q",
    "a.html/info",
    "one/two",
    "%C3%A9t%C3%A9",
    "abc",
    "d/index.html",
    "a+b&c",
    "/one",
    "d/sub/x.html",
    "d/one",
    "q%25:x",
    "d/none/12",
    "./two",
];

const QUERIES: [&str; 8] = ["", "", "", "?a=b", "?x", "?a=b&c=%20d", "?", "?one"];

const METHODS: [&str; 6] = ["GET", "GET", "GET", "GET", "HEAD", "POST"];

const FIELDS: [&str; 7] =
    ["", "", "", "X-A: xa\r\n", "User-Agent: 2\r\n", "Cookie: c=d; n=v\r\n", "X-A: xa\r\nX-A: b\r\n"];

const FILES: [&str; 7] = ["a.html", "b.txt", "one/a.html", "d/a.html", "d/index.html", "d/sub/x.html", "sp ace.html"];

/// The maps of every server that has rules.
const MAPS: &str = "RewriteMap txt txt:${ROOT}/map\nRewriteMap rnd rnd:${ROOT}/map\nRewriteMap low int:tolower\n\
    RewriteMap up int:toupper\nRewriteMap esc int:escape\nRewriteMap unesc int:unescape\n";

/// The generated files and requests.
#[derive(Default)]
struct Written {
    configuration: String,
    /// Virtual hosts, which follow everything else.
    hosts: String,
    /// Files below the root.
    files: Vec<(String, String)>,
    cases: Vec<Case>,
    /// The parts of each rule, by its number.
    rules: Vec<Vec<(&'static str, &'static str)>>,
}

impl Written {
    fn new(chance: &mut Chance, main: &'static str) -> Written {
        let mut written = Written::default();
        let rules = written.rules(chance, "/", ("main server", main));
        written.configuration = format!(
            "<Directory ${{DOCS}}>\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\n<Directory ${{ROOT}}/out>\n\
             AllowOverride All\nOptions FollowSymLinks\nRequire all granted\n</Directory>\n<Directory ${{DOCS}}/denied>\n\
             Require all denied\n</Directory>\nAlias /out ${{ROOT}}/out\nLogLevel proxy:crit core:crit\nHeader always set X-A \"%{{A}}e\"\n\
             Header always set X-Rules \"%{{RULES}}e\"\n{MAPS}{rules}"
        );
        // The first one has what is asked for by no name.
        written.hosts = "<VirtualHost ${ADDR}:8080>\nServerName localhost\n</VirtualHost>\n".into();
        for number in 0..PLACES {
            written.place(chance, number);
        }
        written
    }

    /// A place with rules, and requests for it.
    fn place(&mut self, chance: &mut Chance, number: usize) {
        let place = PLACE[number % PLACE.len()];
        if place == "host" {
            let maps = if chance.one_in(4) { "" } else { MAPS };
            let rules = self.rules(chance, "/", ("place", place));
            self.hosts.push_str(&format!(
                "<VirtualHost ${{ADDR}}:8080>\nServerName v{number}\n{maps}{rules}</VirtualHost>\n"
            ));
            return self.requests(chance, &format!("v{number}"), "/");
        }
        let name = format!("g{number}");
        let base = chance.of(&BASES).replace("{place}", if place == "alias" { "out/{place}" } else { "{place}" });
        let base = match base.as_str() {
            "" => String::new(),
            base => format!("RewriteBase {}\n", base.replace("{place}", &name)),
        };
        let text = format!("{base}{}", self.rules(chance, "", ("place", place)));
        let mut url = format!("/{name}/");
        match place {
            "access file" => self.files.push((format!("htdocs/{name}/.htaccess"), text)),
            "alias" => {
                url = format!("/out/{name}/");
                self.files.push((format!("out/{name}/.htaccess"), text));
            }
            "directory" => self.section(&format!("Directory ${{DOCS}}/{name}"), &text),
            "nested" => {
                let down = chance.of(&["InheritDown", "InheritDownBefore", "AllowNoSlash"]);
                self.section(&format!("Directory ${{DOCS}}/{name}"), &format!("{text}RewriteOptions {down}\n"));
                let inner = self.rules(chance, "", ("place", place));
                self.files.push((format!("htdocs/{name}/d/.htaccess"), inner));
            }
            "pattern" => self.section(&format!("DirectoryMatch \"/{name}(/d)?$\""), &text),
            _ => {
                let text = text.replace(&base, "");
                let other = self.rules(chance, "", ("place", place));
                let text = format!(
                    "<Files \"a*\">\n{base}{text}</Files>\n<If \"%{{REQUEST_METHOD}} == 'GET'\">\n{other}</If>\n"
                );
                self.files.push((format!("htdocs/{name}/.htaccess"), text));
            }
        }
        self.requests(chance, "localhost", &url);
    }

    fn section(&mut self, name: &str, text: &str) {
        let kind = name.split(' ').next().unwrap_or_default();
        self.configuration.push_str(&format!("<{name}>\n{text}</{kind}>\n"));
    }

    /// Rules as they may stand in a place; `prefix` is what paths begin with there.
    fn rules(&mut self, chance: &mut Chance, prefix: &str, place: (&'static str, &'static str)) -> String {
        let option = match place {
            ("main server", option) => option,
            _ => chance.of(&OPTIONS),
        };
        let mut text = String::from("RewriteEngine On\n");
        if !option.is_empty() {
            text.push_str(&format!("RewriteOptions {option}\n"));
        }
        for _ in 0..2 + chance.below(4) {
            let (mut parts, before) = (vec![place, ("option", option)], text.len());
            while chance.one_in(2) {
                let (condition, flags) = (chance.of(&CONDITIONS), chance.of(&CONDITION_FLAGS));
                parts.extend([("condition", condition), ("condition's flags", flags)]);
                let quoted = if flags.contains(' ') { format!("\"{flags}\"") } else { flags.to_string() };
                text.push_str(&format!("RewriteCond {condition} {quoted}\n"));
            }
            let (pattern, substitution) = (chance.of(&PATTERNS), chance.of(&SUBSTITUTIONS));
            parts.extend([("pattern", pattern), ("substitution", substitution)]);
            let mut flags = vec![];
            while flags.len() < 3 && !chance.one_in(3) {
                flags.push(chance.of(&FLAGS));
            }
            parts.extend(flags.iter().map(|flag| ("flag", *flag)));
            let mut flags: Vec<String> = flags.into_iter().map(str::to_string).collect();
            // A redirect that a later rule takes back is another matter: docs/differences.md.
            let is_redirect = |flag: &String| flag.starts_with('R') || flag.starts_with("redirect");
            if substitution.starts_with("http") || flags.iter().any(is_redirect) {
                flags.push("L".into());
            }
            // A cookie of a look-up is another one.
            if flags.iter().any(|flag| flag.starts_with("CO") || flag.starts_with("cookie")) {
                flags.push("NS".into());
            }
            // Without a regular expression Apache fills the groups of `expr` with what happens to be in memory.
            let has_none = parts.iter().any(|(_, part)| part.starts_with("expr") && !part.contains('~'));
            if has_none && parts.iter().any(|(_, part)| part.contains("%1")) {
                text.truncate(before);
                continue;
            }
            flags.push(format!("E=RULES:%{{ENV:RULES}}.{}", self.rules.len()));
            let line = format!("RewriteRule {pattern} {substitution} [{}]\n", flags.join(","));
            text.push_str(&line.replace("{}", prefix));
            self.rules.push(parts);
        }
        text
    }

    fn requests(&mut self, chance: &mut Chance, host: &str, prefix: &str) {
        for _ in 0..REQUESTS {
            let method = chance.of(&METHODS);
            let server = if chance.one_in(20) { format!("http://{host}:8080") } else { String::new() };
            let target = format!("{server}{prefix}{}{}", chance.of(&PATHS), chance.of(&QUERIES));
            let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
            let fields = chance.of(&FIELDS);
            let bytes = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}{fields}\r\n").into_bytes();
            self.cases.push(Case { name: format!("{host} {method} {target} {}", fields.trim()), bytes });
        }
    }

    fn build(&self, site: &Site) {
        for name in FILES {
            let page = site.page(name, format!("{name}\n"));
            for number in 0..PLACES {
                for root in ["htdocs", "out"] {
                    site.link(format!("{root}/g{number}/{name}"), &page);
                }
            }
        }
        site.file("out/f.html", "out\n");
        site.page("empty", "");
        site.page("denied/a.html", "denied\n");
        let program = site.page("run", "#!/bin/sh\n");
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("mode");
        std::os::unix::fs::symlink("a.html", site.root.join("htdocs/link")).expect("link");
        site.file("map", "one a.html\nx b.txt\na a.html # a comment\n# two d/\na=b one\n");
        for (name, text) in &self.files {
            site.file(name, text);
        }
    }
}

#[test]
fn all_that_chance_has_written() {
    let mut reached = Reached::default();
    let mut is_known = false;
    for seed in seeds(1) {
        let chance = &mut Chance::new(seed);
        for main in MAIN {
            let written = Written::new(chance, main);
            let configuration = format!("{}{}", written.configuration, written.hosts);
            let allowed =
                [Allowed { case: "* HEAD *", what: "content-length", entry: "The length of an error page for HEAD" }];
            let test = format!("all_that_chance_has_written {seed} {main}");
            let build = |site: &Site| written.build(site);
            let answers = compare_some(&test, build, &configuration, &written.cases, &allowed, 4);
            is_known = !answers.is_empty();
            for text in answers.iter().flatten().filter_map(|answer| answer.field("X-Rules")) {
                let numbers = text.split('.').filter_map(|number| number.parse::<usize>().ok());
                numbers.flat_map(|number| &written.rules[number]).for_each(|part| reached.count(*part));
            }
        }
    }
    // One seed does not reach everything.
    if is_known && seeds(1).count() >= ENOUGH {
        reached.check(&[
            ("main server", &MAIN),
            ("place", &PLACE),
            ("option", &OPTIONS),
            ("pattern", &PATTERNS),
            ("substitution", &SUBSTITUTIONS),
            ("flag", &FLAGS),
            ("condition", &CONDITIONS),
            ("condition's flags", &CONDITION_FLAGS),
        ]);
    }
}

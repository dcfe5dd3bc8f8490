//! Rules, conditions and requests as chance has them, in all contexts: Apache and Tsubame answer alike.
//!
//! The seed is fixed, so every run compares the same; `TSUBAME_SEEDS=20` compares that many times as much.

use crate::harness::chance::{Chance, seeds};
use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;

/// How many directories and how many virtual hosts have rules of their own, and how often each is asked.
const DIRECTORIES: usize = 40;
const HOSTS: usize = 40;
const REQUESTS: usize = 14;

const PATTERNS: [&str; 22] = [
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
];

/// These match few of the requests.
const UNLIKELY: [&str; 7] =
    ["^{}none/(.*)$", "none", "/NONE\\.(html)$", "^{}ONE/tw", "(o)ne/two/three", "^{}d/none$", "[a-z]+-none"];

const SUBSTITUTIONS: [&str; 24] = [
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
];

const FLAGS: [&str; 34] = [
    "",
    "",
    "",
    "[L]",
    "[L]",
    "[R]",
    "[R,L]",
    "[R=301,NE,L]",
    "[END]",
    "[PT]",
    "[QSA]",
    "[QSA,L]",
    "[QSD]",
    "[QSL]",
    "[NC]",
    "[NC,L]",
    "[E=A:$1,L]",
    "[E=A:%1]",
    "[C]",
    "[S=1]",
    "[S=2]",
    "[F]",
    "[G]",
    "[R=404]",
    "[B]",
    "[B,NE,R]",
    "[BNP,B,L]",
    "[DPI]",
    "[NS]",
    "[T=text/x-t]",
    "[N=4]",
    "[E=!A]",
    "[B=/?,R]",
    "[BCTLS,L]",
];

const CONDITIONS: [&str; 26] = [
    "%{REQUEST_FILENAME} !-f",
    "%{REQUEST_FILENAME} -f",
    "%{REQUEST_FILENAME} !-d",
    "%{REQUEST_URI} ^(.*)e",
    "%{REQUEST_URI} !(one)",
    "%{QUERY_STRING} ^a=(.*)$",
    "%{QUERY_STRING} .",
    "%{HTTP:X-A} ^(.+)$",
    "%{HTTP_HOST} ^v(\\d)",
    "%{REQUEST_METHOD} =GET",
    "%{REQUEST_METHOD} !=GET",
    "%{ENV:A} ^$",
    "%{ENV:A} (.)",
    "$1 ^(.)",
    "$1 =html",
    "%{DOCUMENT_ROOT}/d/$1 -d",
    "%{DOCUMENT_ROOT}/a.html -s",
    "%{DOCUMENT_ROOT}/d -d",
    "%{REQUEST_URI} >/o",
    "$2 -gt5",
    "%{HTTP_USER_AGENT} -lt3",
    "expr \"%{REQUEST_URI} =~ m#(o)#\"",
    "expr \"-n %{QUERY_STRING}\"",
    "%{REQUEST_URI} \\.",
    "%1 =a",
    "%{THE_REQUEST} \\?",
];

const PATHS: [&str; 26] = [
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
];

const QUERIES: [&str; 7] = ["", "", "", "?a=b", "?x", "?a=b&c=%20d", "?"];

/// Rules as they may stand in a file; `prefix` is what paths begin with there.
fn rules(chance: &mut Chance, prefix: &str) -> String {
    let mut text = String::from("RewriteEngine On\n");
    // Of a long list most rules are not even looked at.
    let is_long = chance.one_in(3);
    for _ in 0..2 + chance.below(4) {
        for _ in 0..if is_long { 8 } else { 0 } {
            let (pattern, flags) =
                (chance.of(&UNLIKELY), chance.of(&["", "", "[L]", "[C]", "[NC]", "[NC,C]", "[S=1]"]));
            text.push_str(&format!("RewriteRule {pattern} {{}}none-$1 {flags}\n").replace("{}", prefix));
        }
        while chance.one_in(2) {
            let flags = chance.of(&["", "", "", " [NC]", " [OR]", " [NV]"]);
            text.push_str(&format!("RewriteCond {}{flags}\n", chance.of(&CONDITIONS)));
        }
        let (pattern, substitution, flags) = (chance.of(&PATTERNS), chance.of(&SUBSTITUTIONS), chance.of(&FLAGS));
        // A redirect that a later rule takes back is another matter: docs/differences.md.
        let is_redirect = substitution.starts_with("http") || flags.contains('R');
        let flags = match flags.strip_suffix(']').filter(|_| is_redirect) {
            Some(before) => format!("{before},L]"),
            None if is_redirect => "[L]".to_string(),
            None => flags.to_string(),
        };
        text.push_str(&format!("RewriteRule {pattern} {substitution} {flags}\n").replace("{}", prefix));
    }
    text
}

fn requests(chance: &mut Chance, host: &str, prefix: &str, cases: &mut Vec<Case>) {
    for _ in 0..REQUESTS {
        let method = chance.of(&["GET", "GET", "GET", "GET", "HEAD"]);
        let target = format!("{prefix}{}{}", chance.of(&PATHS), chance.of(&QUERIES));
        let fields = chance.of(&["", "", "X-A: xa\r\n", "User-Agent: 2\r\n"]);
        let bytes = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes();
        cases.push(Case { name: format!("{host} {method} {target} {}", fields.trim()), bytes });
    }
}

#[test]
fn random_rules() {
    for seed in seeds(1) {
        let chance = &mut Chance::new(seed);
        let (mut access_files, mut cases) = (Vec::new(), Vec::new());
        let mut configuration = String::from(
            "<Directory ${DOCS}>\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\nHeader always set X-A \"%{A}e\"\n",
        );
        for number in 0..DIRECTORIES {
            let base = if chance.one_in(2) { format!("RewriteBase /g{number}/\n") } else { String::new() };
            access_files.push(format!("{base}{}", rules(chance, "")));
            requests(chance, "localhost", &format!("/g{number}/"), &mut cases);
        }
        for number in 0..HOSTS {
            let rules = rules(chance, "/");
            configuration
                .push_str(&format!("<VirtualHost ${{ADDR}}:8080>\nServerName v{number}\n{rules}</VirtualHost>\n"));
            requests(chance, &format!("v{number}"), "/", &mut cases);
        }
        // The first one has what is asked for by no name.
        let configuration = configuration.replacen(
            "<VirtualHost",
            "<VirtualHost ${ADDR}:8080>\nServerName localhost\n</VirtualHost>\n<VirtualHost",
            1,
        );
        let build = |site: &Site| {
            let files = ["a.html", "b.txt", "one/a.html", "d/a.html", "d/index.html", "sp ace.html"];
            for name in files {
                site.page(name, format!("{name}\n"));
            }
            for (number, text) in access_files.iter().enumerate() {
                for name in files {
                    site.page(&format!("g{number}/{name}"), format!("{name}\n"));
                }
                site.page(&format!("g{number}/.htaccess"), text);
            }
        };
        assert!(cases.len() >= 1000);
        let allowed =
            [Allowed { case: "* HEAD *", what: "content-length", entry: "The length of an error page for HEAD" }];
        compare(&format!("random_rules {seed}"), build, &configuration, &cases, &allowed);
    }
}

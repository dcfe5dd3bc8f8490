//! Lines of mod_headers and requests as chance has them, in all contexts: Apache and Tsubame answer alike.
//!
//! The seed is fixed, so every run compares the same; `TSUBAME_SEEDS=20` compares that many times as much.

use std::os::unix::fs::PermissionsExt;

use crate::harness::chance::{Chance, seeds};
use crate::harness::oracle::{Allowed, Case, compare_some};
use crate::harness::site::Site;

/// How many directories and how many virtual hosts have lines of their own, and how often each is asked.
const DIRECTORIES: usize = 35;
const HOSTS: usize = 14;
const REQUESTS: usize = 11;
/// One case in this many is put to ours under each module.
const SHARE: usize = 16;

const TABLES: [&str; 4] = ["", "", "always ", "onsuccess "];

/// Fields of answers: unknown ones, the script's own, and the server's.
const ANSWER_FIELDS: [&str; 18] = [
    "X-A",
    "X-A",
    "X-S",
    "X-S",
    "X-N",
    "x-s:",
    "Set-Cookie",
    "Set-Cookie",
    "Content-Type",
    "Vary",
    "ETag",
    "Last-Modified",
    "Cache-Control",
    "Accept-Ranges",
    "Location",
    "Server",
    "Date",
    "X-N",
];

/// Fields of requests; among them are those that decide about the answer.
const REQUEST_FIELDS: [&str; 12] = [
    "X-A",
    "X-A",
    "X-B",
    "X-B",
    "X-C",
    "Cookie",
    "If-Range",
    "If-Range",
    "Accept-Language",
    "User-Agent",
    "Referer",
    "Accept",
];

const VALUES: [&str; 18] = [
    "one",
    "one",
    "\"two words\"",
    "b",
    "\"a, b\"",
    "%{A}e",
    "\"<%{B}e|%{NONE}e>\"",
    "100%%",
    "%{NONE}s",
    "\"\"",
    "expr=%{REQUEST_URI}",
    "\"expr=<%{HTTP:X-A}|%{resp:X-S}>\"",
    "\"expr=%{note:kept}\"",
    "expr=%{REQUEST_STATUS}",
    "\"expr=%{CONTENT_TYPE}\"",
    "\"\\\"q,r\\\"\"",
    "bytes=1-2",
    "\"%{A}e %%{B}e\"",
];

const CONDITIONS: [&str; 16] = [
    "",
    "",
    "",
    "",
    "",
    "",
    "env=A",
    "env=!A",
    "env=B",
    "env=!NONE",
    "\"expr=%{REQUEST_STATUS} -eq 200\"",
    "\"expr=%{REQUEST_STATUS} -gt 299\"",
    "\"expr=-n %{HTTP:X-A}\"",
    "\"expr=%{resp:X-S} =~ /s/\"",
    "\"expr=%{REQUEST_URI} =~ m#txt#\"",
    "\"expr=-z %{resp:Content-Type}\"",
];

/// Patterns for `edit` and their replacements. No pattern matches the empty text: Apache's `edit*` never ends with
/// that.
const EDITS: [&str; 14] = [
    "one uno",
    "^(.)(.*)$ $2$1",
    "s S",
    "^. <$0>",
    "e \"\"",
    "(o|a) \"[$1%{A}e]\"",
    "; ;;",
    ".+ \"expr=%{REQUEST_URI}\"",
    "[a-z]+$ end",
    "\"(?i)TEXT\" \"%%$0\"",
    "^s z",
    "\\d 9",
    "^\" W/\\\"",
    "(x)|(s) <$1$2>",
];

const ECHOED: [&str; 4] = ["^X-", "(?i)^x-a$", "^User", "^(Cookie|Accept)"];

const ANSWER_ACTIONS: [&str; 12] =
    ["set", "set", "append", "merge", "add", "add", "unset", "edit", "edit*", "echo", "note", "setifempty"];
/// `add` is not among them: where a field stands twice, scripts of Apache have the last one, and ours have all.
const REQUEST_ACTIONS: [&str; 8] = ["set", "set", "append", "merge", "unset", "edit", "edit*", "setifempty"];

const TARGETS: [&str; 18] = [
    "a.txt",
    "a.txt",
    "a.txt",
    "b.html",
    "b.html",
    "none",
    "none",
    "denied.txt",
    "d",
    "moved",
    "gone",
    "s.cgi",
    "s.cgi",
    "s.cgi",
    "s.cgi?404",
    "s.cgi?302",
    "s.cgi?own",
    "s.cgi?bad",
];

const ASKED: [&str; 14] = [
    "",
    "",
    "",
    "",
    "X-A: xa\r\n",
    "X-A: xa\r\n",
    "X-A: one\r\nX-A: xa\r\n",
    "X-B: one, b\r\n",
    "Cookie: a=1; b=2\r\n",
    "Range: bytes=0-1\r\n",
    "Range: bytes=1-\r\n",
    "If-Modified-Since: Wed, 15 Nov 2023 00:00:00 GMT\r\n",
    "If-None-Match: *\r\n",
    "User-Agent: one\r\nAccept: text/html\r\n",
];
const ASKED_OF_SCRIPT: &[&str] = ASKED.split_at(9).0;

/// Prints the fields of the request that it has got, with fields of its own before them.
const SCRIPT: &str = "#!/bin/sh\n\
    case $QUERY_STRING in\n\
    404) printf 'Status: %s\\nX-S: s\\nContent-Type: text/plain\\n' $QUERY_STRING;;\n\
    302) printf 'Status: 302\\nLocation: http://other.example/one\\nX-S: s\\n';;\n\
    own) printf 'Content-Type: text/x-own\\nX-A: one\\nETag: \"s\"\\nVary: X-S\\nLast-Modified: Tue, 14 Nov 2023 00:00:00 GMT\\n';;\n\
    bad) printf 'no field\\n';;\n\
    *) printf 'Content-Type: text/plain\\nX-S: one s\\nX-S: s two\\nSet-Cookie: a=1\\nSet-Cookie: s=2\\nCache-Control: no-store\\n';;\n\
    esac\n\
    printf '\\n'\n\
    env | grep ^HTTP_ | sort\n";

/// One line; `is_server`: outside sections, where it may act early.
fn line(chance: &mut Chance, is_server: bool) -> String {
    if chance.one_in(20) {
        // Times and loads are other ones each time: their digits are the same in both. Apache has -1 for a load that it does not know yet.
        let table = chance.of(&TABLES);
        return format!("Header {table}set X-T \"%t %D %l %i %b\"\nHeader {table}edit* X-T -?[0-9]+ N\n");
    }
    let is_request = chance.one_in(3);
    let (head, action, name) = match is_request {
        true => ("RequestHeader ".to_string(), chance.of(&REQUEST_ACTIONS), chance.of(&REQUEST_FIELDS)),
        false => (format!("Header {}", chance.of(&TABLES)), chance.of(&ANSWER_ACTIONS), chance.of(&ANSWER_FIELDS)),
    };
    let what = match action {
        "unset" => name.to_string(),
        "echo" => chance.of(&ECHOED).to_string(),
        "note" => format!("{name} kept"),
        "edit" | "edit*" => format!("{name} {}", chance.of(&EDITS)),
        _ => format!("{name} {}", chance.of(&VALUES)),
    };
    let when = if is_server && chance.one_in(5) { "early" } else { chance.of(&CONDITIONS) };
    format!("{head}{action} {what} {when}\n")
}

fn lines(chance: &mut Chance, is_server: bool) -> String {
    (0..3 + chance.below(5)).map(|_| line(chance, is_server)).collect()
}

fn requests(chance: &mut Chance, host: &str, prefix: &str, cases: &mut Vec<Case>) {
    for _ in 0..REQUESTS {
        let method = chance.of(&["GET", "GET", "GET", "GET", "GET", "GET", "HEAD"]);
        let target = chance.of(&TARGETS);
        // Whether Apache has the whole of a script's answer, of which it could send a part, depends on the time.
        let fields = if target.starts_with("s.") { ASKED_OF_SCRIPT } else { &ASKED };
        let (target, fields) = (format!("{prefix}{target}"), chance.of(fields));
        let bytes = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes();
        cases.push(Case { name: format!("{host} {method} {target} {}", fields.trim()), bytes });
    }
}

/// A directory's part of the configuration, and its `.htaccess`.
fn directory(chance: &mut Chance, number: usize) -> (String, String) {
    let section = |chance: &mut Chance, name: &str, of: &str| {
        format!("<{name} {of}>\n{}</{name}>\n", lines(chance, false)).replace(" >", ">")
    };
    let path = format!("${{DOCS}}/g{number}");
    let in_directory = |inside: String| format!("<Directory {path}>\n{inside}</Directory>\n");
    match number % 7 {
        0 => (String::new(), lines(chance, false)),
        1 => (section(chance, "Directory", &path), String::new()),
        2 => (section(chance, "Location", &format!("/g{number}")), String::new()),
        3 => (in_directory(section(chance, "Files", "*.txt")), String::new()),
        4 => {
            let decided = section(chance, "If", "\"-n %{HTTP:X-A}\"") + &section(chance, "Else", "");
            (in_directory(decided), String::new())
        }
        5 => {
            let both = section(chance, "Directory", &path) + &section(chance, "Location", &format!("/g{number}/"));
            (both, lines(chance, false))
        }
        _ => {
            let access_file = section(chance, "FilesMatch", "\"html|cgi\"") + &lines(chance, false);
            (section(chance, "LocationMatch", &format!("^/g{number}/[a-s]")), access_file)
        }
    }
}

#[test]
fn headers_that_chance_has_written() {
    for seed in seeds(1) {
        let chance = &mut Chance::new(seed);
        let (mut access_files, mut cases) = (Vec::new(), Vec::new());
        let mut configuration = String::from(
            "<Directory ${DOCS}>\nAllowOverride All\nOptions FollowSymLinks ExecCGI\nAddHandler cgi-script .cgi\n</Directory>\n\
             <Files denied.txt>\nRequire all denied\n</Files>\nSetEnvIf X-A xa A=one\nSetEnv B two\n\
             RedirectMatch 301 /moved$ http://other.example/one\nRedirectMatch gone /gone$\n\
             <Location /g1>\nErrorDocument 404 /a.txt\n</Location>\n<Location /g2>\nErrorDocument 403 said\nErrorDocument 404 /s.cgi\n</Location>\n",
        );
        configuration.push_str(&lines(chance, true));
        let mut hosts = "<VirtualHost ${ADDR}:8080>\nServerName localhost\n</VirtualHost>\n".to_string();
        for number in 0..DIRECTORIES {
            let (text, access_file) = directory(chance, number);
            configuration.push_str(&text);
            access_files.push(access_file);
            requests(chance, "localhost", &format!("/g{number}/"), &mut cases);
        }
        for number in 0..HOSTS {
            let document =
                chance.of(&["", "ErrorDocument 404 /a.txt\n", "ErrorDocument 404 /s.cgi\nErrorDocument 403 said\n"]);
            let lines = lines(chance, true);
            hosts.push_str(&format!(
                "<VirtualHost ${{ADDR}}:8080>\nServerName v{number}\n{document}{lines}</VirtualHost>\n"
            ));
            requests(chance, &format!("v{number}"), "/", &mut cases);
        }
        configuration.push_str(&hosts);
        let build = |site: &Site| {
            let fill = |at: &str| {
                for name in ["a.txt", "b.html", "denied.txt", "d/a.txt"] {
                    site.page(&format!("{at}{name}"), format!("{name}\n"));
                }
                let script = site.page(&format!("{at}s.cgi"), SCRIPT);
                std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("mode");
            };
            fill("");
            for (number, text) in access_files.iter().enumerate() {
                fill(&format!("g{number}/"));
                if !text.is_empty() {
                    site.page(&format!("g{number}/.htaccess"), text);
                }
            }
        };
        assert!(cases.len() >= 500);
        let short = "The length of a short CGI answer";
        let allowed = [
            Allowed { case: "* HEAD *", what: "content-length", entry: "The length of an error page for HEAD" },
            Allowed { case: "* /*", what: "content-length", entry: short },
            Allowed { case: "* /*", what: "transfer-encoding", entry: short },
        ];
        compare_some(
            &format!("headers_that_chance_has_written {seed}"),
            build,
            &configuration,
            &cases,
            &allowed,
            SHARE,
        );
    }
}

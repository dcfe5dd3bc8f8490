//! Which sections apply to a request, and in which order. Every table holds for Apache too.

use crate::harness::observe::{add, log_line, variable};
use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wire::Client;

/// The sections of a table that apply, by their words.
fn words_of(site: &Site, path: &str) -> (u16, String) {
    let mut client = Client::connect(site.address());
    let (response, words) = variable(site, &mut client, &format!("GET {path} HTTP/1.1"), "Host: localhost\r\n");
    (response.status, words.trim_start_matches('-').split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Every section with its number; what stands after a number is the number of the section it is.
const SECTIONS: [&str; 36] = [
    "Location \"/a\"",
    "Location \"/a/\"",
    "Location \"/a/x.html\"",
    "Location \"/*/x.html\"",
    "Location \"/a*\"",
    "Location \"/a?\"",
    "Location ~ \"/a\"",
    "LocationMatch \"^/a/(?<name>[^/]+)\"",
    "LocationMatch \"b\"",
    "Location \"//a\"",
    "Directory \"${DOCS}/a\"",
    "Directory \"${DOCS}/a/\"",
    "Directory \"${DOCS}/*\"",
    "Directory \"${ROOT}/*/a\"",
    "Directory \"${DOCS}/?\"",
    "Directory \"${DOCS}/a/x.html\"",
    "DirectoryMatch \"^${DOCS}/a$\"",
    "DirectoryMatch \"/a/\"",
    "DirectoryMatch \"^${DOCS}/a/\"",
    "DirectoryMatch \"htdocs/(?<d>[^/]+)\"",
    "Files \"x.html\"",
    "Files \"*.html\"",
    "Files \"X.HTML\"",
    "FilesMatch \"html\"",
    "FilesMatch \"^x\"",
    "FilesMatch \"a/x\"",
    "Files \"a/x.html\"",
    "FilesMatch \"\\.txt$\"",
    "Files ~ \"^[yz]\"",
    "Directory \"${DOCS}/ln\"",
    "Directory \"${DOCS}/a b\"",
    "Files \"index.html\"",
    "LocationMatch \"^/$\"",
    "Location \"/\"",
    "Location \"/*/b\"",
    "Location \"/a/b/\"",
];

fn build(site: &Site) {
    for name in ["index.html", "a/x.html", "a/b/y.html", "ab/z.html", "A/q.html", "f.TXT", "g.txt", "a b/i.html"] {
        site.page(name, name);
    }
    site.page("d.d/h.html", "h");
    std::os::unix::fs::symlink("a", site.root.join("htdocs/ln")).expect("link");
}

#[test]
fn sections_match_as_in_apache() {
    let mut configuration = log_line("s");
    for (index, section) in SECTIONS.iter().enumerate() {
        let name = section.split(' ').next().expect("a name");
        configuration.push_str(&format!("<{section}>\n{}</{name}>\n", add("s", &(index + 1).to_string())));
    }
    let rows = [
        ("/index.html", 200, "13 20 22 24 32 34"),
        ("/a/x.html", 200, "11 12 13 14 15 16 18 20 19 21 22 24 25 1 2 3 4 7 8 34"),
        ("/a/b/y.html", 200, "11 12 13 14 15 18 20 19 22 24 29 1 2 7 8 9 34 36"),
        ("/ab/z.html", 200, "13 20 22 24 29 7 9 34"),
        ("/A/q.html", 200, "13 15 20 22 24 34"),
        ("/f.TXT", 200, "13 20 34"),
        ("/g.txt", 200, "13 20 28 34"),
        ("/ln/x.html", 200, "13 30 20 21 22 24 25 4 34"),
        ("//a/x.html", 200, "11 12 13 14 15 16 18 20 19 21 22 24 25 1 2 3 4 7 8 34"),
        ("/a//x.html", 200, "11 12 13 14 15 16 18 20 19 21 22 24 25 1 2 3 4 7 8 34"),
        ("/a/./x.html", 200, "11 12 13 14 15 16 18 20 19 21 22 24 25 1 2 3 4 7 8 34"),
        ("/a%20b/i.html", 200, "13 31 20 22 24 7 9 34"),
        ("/d.d/h.html", 200, "13 20 22 24 34"),
    ];
    oracle::both("sections_match_as_in_apache", build, &configuration, |site| {
        for (path, status, words) in rows {
            // In a directory of random name section 14 may not match as in `/srv/t/*/a`: `htdocs` is the part it takes.
            assert_eq!(words_of(site, path), (status, words.to_string()), "{path}");
        }
    });
}

/// Named groups become variables.
#[test]
fn groups_are_variables() {
    let matches = "<LocationMatch \"^/a/(?<name>[^/]+)\">\n</LocationMatch>\n\
        <DirectoryMatch \"htdocs/(?<dd>[^/]+)/\">\n</DirectoryMatch>\n<FilesMatch \"(?<ff>.*)\\.html$\">\n</FilesMatch>\n";
    for (name, expected) in [("MATCH_NAME", "x.html"), ("MATCH_DD", "a"), ("MATCH_FF", "x")] {
        let configuration = format!("{}{matches}", log_line(name));
        oracle::both("groups_are_variables", build, &configuration, |site| {
            assert_eq!(words_of(site, "/a/x.html"), (200, expected.to_string()), "{name}");
        });
    }
}

/// All kinds of sections, written in scrambled order, at server level, in a virtual host and in `.htaccess` files.
#[test]
fn sections_are_merged_in_apaches_order() {
    let section = |opening: &str, word: &str, inside: &str| {
        let name = opening.split(' ').next().expect("a name");
        format!("<{opening}>\n{}{inside}</{name}>\n", add("o", word))
    };
    let server = [
        section("If \"true\"", "If(server)", ""),
        section("LocationMatch \"^/a\"", "LocationMatch(^/a)", ""),
        section("Location \"/a/f.txt\"", "Location(/a/f.txt)", ""),
        section("FilesMatch \"\\.txt$\"", "FilesMatch", ""),
        section("Files \"f.txt\"", "Files(f.txt)", ""),
        section("Directory ~ \"htdocs/a\"", "Directory~(a)", ""),
        section("DirectoryMatch \"^${DOCS}\"", "DirectoryMatch(docs)", ""),
        section(
            "Directory \"${DOCS}/a\"",
            "Dir(a)",
            &[
                section("Files \"f.*\"", "Dir(a)>Files", &section("If \"true\"", "Dir(a)>Files>If", "")),
                section("If \"true\"", "Dir(a)>If", ""),
            ]
            .concat(),
        ),
        section("Directory \"${ROOT}/*/a\"", "Dir(*/a)", ""),
        section(
            "Directory \"${DOCS}\"",
            "Dir(docs)",
            &format!("AllowOverride All\n{}", section("If \"true\"", "Dir(docs)>If", "")),
        ),
        section("Directory \"${DOCS}/a\"", "Dir(a)#2", ""),
        section("Directory \"/\"", "Dir(/)", ""),
        section("Location \"/\"", "Location(/)", &section("If \"true\"", "Location(/)>If", "")),
        section("Location \"/a\"", "Location(/a)", ""),
    ];
    let host = [
        section("Location \"/a\"", "vhost:Location(/a)", ""),
        section("Files \"f.txt\"", "vhost:Files", ""),
        section("Directory \"${DOCS}\"", "vhost:Dir(docs)", ""),
        section("Directory \"/\"", "vhost:Dir(/)", ""),
        section("If \"true\"", "vhost:If", ""),
    ];
    let configuration = format!(
        "{}{}<VirtualHost *:8080>\nServerName v.example\n{}</VirtualHost>\n",
        log_line("o"),
        server.concat(),
        host.concat()
    );
    let build = |site: &Site| {
        for name in ["index.html", "a/f.txt", "a/b/g.txt"] {
            site.page(name, name);
        }
        let outer = [
            add("o", "ht:docs"),
            section("If \"true\"", "ht:docs>If", ""),
            section("Files \"*.txt\"", "ht:docs>Files", ""),
        ];
        site.page(".htaccess", outer.concat());
        let files = section("Files \"*.txt\"", "ht:a>Files", &section("If \"true\"", "ht:a>Files>If", ""));
        site.page("a/.htaccess", [files, add("o", "ht:a")].concat());
    };
    let above = "Dir(/) vhost:Dir(/) Dir(docs) vhost:Dir(docs) ht:docs";
    let inner = "Dir(a) Dir(*/a) Dir(a)#2 ht:a Directory~(a) DirectoryMatch(docs)";
    let rows = [
        (
            "/a/f.txt",
            format!(
                "{above} {inner} FilesMatch Files(f.txt) vhost:Files ht:docs>Files Dir(a)>Files ht:a>Files \
                 LocationMatch(^/a) Location(/a/f.txt) Location(/) Location(/a) vhost:Location(/a) If(server) vhost:If \
                 Dir(docs)>If ht:docs>If Dir(a)>If Dir(a)>Files>If ht:a>Files>If Location(/)>If"
            ),
        ),
        (
            "/index.html",
            format!(
                "{above} DirectoryMatch(docs) Location(/) If(server) vhost:If Dir(docs)>If ht:docs>If Location(/)>If"
            ),
        ),
        (
            "/a/b/g.txt",
            format!(
                "{above} {inner} FilesMatch ht:docs>Files ht:a>Files LocationMatch(^/a) Location(/) Location(/a) \
                 vhost:Location(/a) If(server) vhost:If Dir(docs)>If ht:docs>If Dir(a)>If ht:a>Files>If Location(/)>If"
            ),
        ),
    ];
    oracle::both("sections_are_merged_in_apaches_order", build, &configuration, |site| {
        for (path, words) in &rows {
            assert_eq!(words_of(site, path), (200, words.clone()), "{path}");
        }
    });
}

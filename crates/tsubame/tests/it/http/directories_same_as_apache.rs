//! Which file answers for a directory, for nothing, and for a name with several files, and what a listing leaves out: as in
//! Apache, configuration by configuration.

use crate::harness::oracle::{Allowed, rows};
use crate::harness::site::Site;

/// Prints its request.
const TELL: &str = "#!/bin/sh\nprintf 'Content-type: text/plain\\n\\n'\n\
    for name in PATH_INFO PATH_TRANSLATED QUERY_STRING REQUEST_URI SCRIPT_NAME; do eval \"echo $name=\\\"\\$$name\\\"\"; done\n";

fn build(site: &Site) {
    for (name, text) in [
        ("index.html", "<p>root\n"),
        ("a.html", "a\n"),
        ("a.txt", "0123456789"),
        ("d/index.html", "d\n"),
        ("d/f.txt", "f\n"),
        ("d/e/g.txt", "g\n"),
        ("bare/x.txt", "x\n"),
        ("bare/y.txt", "y\n"),
        ("bare/p.html", "p\n"),
        ("bare/q.html", "q\n"),
        ("p.html.en", "en\n"),
        ("p.html.zh-tw", "zh-tw\n"),
        ("p.html.zh", "zh\n"),
        ("q.html", "q\n"),
        ("q.html.en", "q en\n"),
        ("t.html", "t\n"),
        ("t.txt", "t t\n"),
        ("m0.var", "URI: /a.html\nContent-type: text/html\n"),
        ("m1.var", "URI: d\nContent-type: text/html\n"),
        ("m2.var", "URI: a.txt?x=1\nContent-type: text/plain\n"),
        ("d/m0.var", "URI: /a.html\nContent-type: text/html\n"),
        ("d/m1.var", "URI: /d/f.txt\nContent-type: text/plain\n"),
        ("d/m2.var", "URI: e/g.txt\nContent-type: text/plain\n"),
        ("d/m3.var", "URI: ../a.txt\nContent-type: text/plain\n"),
    ] {
        site.page(name, text);
    }
    site.file("conf/passwords", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    let script = site.page("tell.cgi", TELL);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

fn check(test: &str, table: &[(&str, &[&str])], allowed: &[Allowed]) {
    rows(test, build, table, allowed);
}

const LOG_IN: &str = "AuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\nRequire valid-user\n";

#[test]
fn fallbacks_for_missing_files() {
    let scripts = "AddHandler cgi-script .cgi\nOptions +ExecCGI\n";
    let both: &[&str] = &["GET /none", "GET /bare/"];
    let denied = "FallbackResource /d/f.txt\n<Directory ${DOCS}>\nOptions Indexes\n</Directory>\n\
        <Directory ${DOCS}/d>\nRequire all denied\n</Directory>";
    let log_in = format!("FallbackResource /d/f.txt\n<Directory ${{DOCS}}/d>\n{LOG_IN}</Directory>");
    let with_args = format!("{scripts}FallbackResource /tell.cgi?x=1");
    let script = format!("{scripts}FallbackResource /tell.cgi");
    let script_info = format!("{scripts}FallbackResource /tell.cgi/info");
    check(
        "fallbacks_for_missing_files",
        &[
            (&script, &["GET /none/x", "GET /none", "GET /d/none/y?q", "GET /bare/", "POST /none|Content-Length: 0"]),
            (&script_info, &["GET /none", "GET /none?x", "GET /bare/"]),
            (&with_args, &["GET /none?a", "GET /none", "GET /bare/?z"]),
            (denied, &["GET /none", "GET /bare/", "GET /none/x"]),
            (&log_in, both),
            ("FallbackResource /d", both),
            ("FallbackResource /r\nRedirect /r http://x.example/", both),
            ("FallbackResource /missing", both),
            ("FallbackResource /none", both),
            ("DirectoryIndex index.html x.txt\nFallbackResource /a.html", &["GET /bare/", "GET /d/", "GET /bare/?q"]),
            ("DirectoryIndex index.cgi\nAddHandler cgi-script .cgi\nFallbackResource /a.html", both),
            ("DirectoryIndex disabled\nFallbackResource /a.html", both),
        ],
        &[
            Allowed { case: "*", what: "transfer-encoding", entry: "The length of a short CGI answer" },
            Allowed { case: "*", what: "content-length", entry: "The length of a short CGI answer" },
        ],
    );
}

#[test]
fn which_index_counts() {
    let denied = "<Files x.txt>\nRequire all denied\n</Files>\n";
    let log_in = format!("<Files y.txt>\n{LOG_IN}</Files>\n");
    let last_asks = format!("DirectoryIndex x.txt y.txt\n{denied}{log_in}");
    let last_denies = format!("DirectoryIndex y.txt x.txt\n{denied}{log_in}");
    let last_is_there = format!("DirectoryIndex y.txt x.txt\n{log_in}");
    check(
        "which_index_counts",
        &[
            ("DirectoryIndex e index.html", &["GET /d/"]),
            ("DirectoryIndex e/ index.html", &["GET /d/"]),
            ("DirectoryIndex e index.html\nDirectorySlash Off", &["GET /d/"]),
            (&last_asks, &["GET /bare/"]),
            (&last_denies, &["GET /bare/"]),
            (&last_is_there, &["GET /bare/"]),
            ("Options MultiViews\nDirectoryIndex p q", &["GET /bare/|Accept: image/gif"]),
            (
                "AddHandler cgi-script .cgi\nOptions +ExecCGI\nDirectoryIndex /tell.cgi?a=1",
                &["GET /bare/", "GET /bare/?q"],
            ),
            (
                "<Directory ${DOCS}>\nOptions Indexes\nSetHandler default-handler\n</Directory>",
                &["GET /bare/", "GET /d/", "GET /a.txt"],
            ),
        ],
        &[
            Allowed { case: "*", what: "transfer-encoding", entry: "The length of a short CGI answer" },
            Allowed { case: "*", what: "content-length", entry: "The length of a short CGI answer" },
        ],
    );
}

#[test]
fn entries_left_out_of_a_listing() {
    let listed = "<Directory ${DOCS}>\nOptions Indexes\n</Directory>\nDirectoryIndex disabled\n";
    let rows = [
        // A directory is looked up with a slash at its end: its name is not a file's name.
        "<Files e>\nRequire all denied\n</Files>",
        "<Location /d/e>\nRequire all denied\n</Location>",
        "<Location /d/e/>\nRequire all denied\n</Location>",
        "<Directory ${DOCS}/d/e>\nRequire all denied\nIndexOptions ShowForbidden\n</Directory>",
        // Its index is looked for, too.
        "<Directory ${DOCS}/d/e>\nDirectoryIndex g.txt\n</Directory>\n<Files g.txt>\nRequire all denied\n</Files>",
        "FallbackResource /a.html",
    ];
    for row in rows {
        let configuration = format!("{listed}{row}");
        check("entries_left_out_of_a_listing", &[(&configuration, &["GET /d/", "GET /d/e/", "GET /d/e/g.txt"])], &[]);
    }
}

#[test]
fn negotiated_languages_and_types() {
    let multiviews =
        "AddLanguage en .en\nAddLanguage zh-TW .zh-tw\nAddLanguage zh .zh\n<Directory ${DOCS}>\nOptions MultiViews\n";
    let languages: &[&str] = &[
        "GET /p",
        "GET /p.html",
        "GET /p|Accept-Language: ZH",
        "GET /p|Accept-Language: zh-TW",
        "GET /p|Accept-Language: fr",
        "GET /q",
        "GET /q|Accept-Language: zh-TW, en;q=0.5",
        "GET /q|X: zh-tw",
        "GET /p|X: zh-TW",
    ];
    let first = format!("{multiviews}LanguagePriority zh-TW en\n</Directory>\nDefaultLanguage zh-TW");
    let prefix = format!("{multiviews}LanguagePriority ZH en\n</Directory>\nSetEnvIf X (.*) prefer-language=$1");
    let types: Vec<String> =
        ["*bad", "*", "*/bad", "*/*", "*/*x", "**", "*/", "text/ht*", "tex*", "te/*", "text/*", "t*", "*/html"]
            .iter()
            .map(|value| format!("GET /t|Accept: {value}"))
            .chain(["GET /t|Accept: *bad;q=0.5, text/html;q=0.2".to_string()])
            .collect();
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let any = format!("{multiviews}</Directory>");
    let quote = |case| Allowed { case, what: "etag", entry: "The closing quote of a negotiated ETag" };
    check("negotiated_languages", &[(&first, languages), (&prefix, languages), (&any, &types)], &[quote("*")]);
}

/// The files that a map names are below its own directory, whatever their names begin with.
#[test]
fn variants_of_type_maps() {
    let all: &[&str] = &[
        "GET /m0.var",
        "GET /m1.var",
        "GET /m2.var",
        "GET /d/m0.var",
        "GET /d/m1.var",
        "GET /d/m2.var",
        "GET /d/m3.var",
    ];
    let quote = Allowed { case: "*", what: "etag", entry: "The closing quote of a negotiated ETag" };
    check("variants_of_type_maps", &[("AddHandler type-map .var", all)], &[quote]);
}

//! The modules of a site with plain files, compared with Apache: types, listings, aliases, negotiation, compression,
//! error pages.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;
use crate::harness::wire::get;

/// `GET`s of these paths.
fn paths(paths: &[&str]) -> Vec<Case> {
    paths.iter().map(|path| Case { name: path.to_string(), bytes: get(path).into_bytes() }).collect()
}

/// A `GET` with more fields.
fn with(path: &str, fields: &str) -> Case {
    let bytes = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n").into_bytes();
    Case { name: format!("{path} with {fields}"), bytes }
}

#[test]
fn types_and_languages() {
    let build = |site: &Site| {
        for name in [
            "f.foo",
            "f.tar.gz",
            "f.html.fr",
            "noext",
            "d/f.txt",
            "d/f.html",
            "f.txt",
            "f.HTML",
            "f.xyz",
            ".txt",
            "f.txt.",
            "f.fr.html.gz",
            "f.en.fr.txt",
            "e/f.txt",
            "e/f.html",
            "h/a.b.foo",
            "f..txt",
            "f.json",
        ] {
            site.page(name, "z\n");
        }
        site.page("e/.htaccess", "AddDefaultCharset Off\nAddType application/xhtml+xml .html\nRemoveEncoding .gz\n");
    };
    let all = paths(&[
        "/f.foo",
        "/f.tar.gz",
        "/f.html.fr",
        "/noext",
        "/d/f.txt",
        "/d/f.html",
        "/f.txt",
        "/f.HTML",
        "/f.xyz",
        "/.txt",
        "/f.txt.",
        "/f.fr.html.gz",
        "/f.en.fr.txt",
        "/e/f.txt",
        "/e/f.html",
        "/h/a.b.foo",
        "/f..txt",
        "/f.json",
    ]);
    let configurations = [
        "",
        "AddType application/x-foo .foo\nAddEncoding x-gzip .gz\nAddLanguage fr .fr\nAddLanguage en .en\nAddCharset utf-8 .html\n\
         AddDefaultCharset utf-8\n<Directory ${DOCS}/d>\nForceType application/x-d\nRemoveType .foo\n</Directory>\n\
         <Directory ${DOCS}/e>\nAllowOverride All\n</Directory>",
        "AddDefaultCharset On\nDefaultLanguage de\nAddLanguage fr fr\nAddCharset ISO-8859-2 .foo .txt",
        "<Directory ${DOCS}>\nRemoveType .txt\nAddType application/x-t .txt\n</Directory>\n\
         <Directory ${DOCS}/d>\nAddType application/x-u .txt\nRemoveType .txt\n</Directory>",
        "<FilesMatch \"\\.foo$\">\nForceType \"text/plain; charset=x\"\n</FilesMatch>\n<Directory ${DOCS}>\nModMimeUsePathInfo On\n</Directory>",
    ];
    let file = |case| Allowed { case, what: "%f", entry: "The file of a request" };
    let allowed = [file("/d/none"), file("/e/f.txt"), file("/e/f.html")];
    for configuration in configurations {
        compare("types_and_languages", build, configuration, &all, &allowed);
    }
}

#[test]
fn directories_and_their_indexes() {
    let build = |site: &Site| {
        site.page("a/index.html", "index\n");
        site.page("a/other.txt", "other\n");
        site.page("b/other.txt", "b other\n");
        site.page("c/x", "x\n");
        site.page("fallback.html", "fallback\n");
    };
    let mut all = paths(&[
        "/a",
        "/a/",
        "/a/?q",
        "/b",
        "/b/",
        "/b?x=y",
        "/c/",
        "/c",
        "/none",
        "/a/none",
        "/c/none/deep",
        "/b/other.txt/",
    ]);
    for method in ["POST", "OPTIONS", "DELETE"] {
        let of = |path| format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        all.extend(["/a/", "/b/"].map(|path| Case { name: format!("{method} {path}"), bytes: of(path).into_bytes() }));
    }
    let configurations = [
        "",
        "ForceType application/octet-stream\n<Directory ${DOCS}>\nOptions Indexes\n</Directory>",
        "DirectoryCheckHandler On\n<Directory ${DOCS}/b>\nSetHandler none-such\n</Directory>",
        "DirectoryIndex other.txt index.html",
        "DirectoryIndex other.txt\nDirectoryIndex index.html",
        "DirectoryIndex disabled",
        "DirectoryIndex none.html /fallback.html",
        "DirectorySlash Off",
        "FallbackResource /fallback.html",
        "FallbackResource /fallback.html\n<Directory ${DOCS}/c>\nFallbackResource disabled\n</Directory>",
        "DirectoryIndex none\n<Directory ${DOCS}/b>\nDirectoryIndex other.txt\n</Directory>",
        "DirectoryIndexRedirect on",
        "DirectoryIndexRedirect seeother",
        "UseCanonicalName On\nServerName canon.example:99",
    ];
    for configuration in configurations {
        compare("directories_and_their_indexes", build, configuration, &all, &[]);
    }
}

#[test]
fn aliases_and_redirects() {
    let build = |site: &Site| {
        site.page("a.html", "a\n");
        site.page("d/f.txt", "f\n");
        site.file("out/f.txt", "out\n");
        site.file("out/sub/g.txt", "g\n");
    };
    let configuration = "Alias /i/ ${ROOT}/out/\nAlias /j ${ROOT}/out\nAlias /j/sub ${DOCS}\nAlias /file ${ROOT}/out/f.txt\n\
        AliasMatch \"^/m/(.*)$\" ${ROOT}/out/$1\nRedirect /r /a.html\nRedirect permanent /p http://x.example/y\n\
        Redirect 303 /s /a.html\nRedirect gone /g\nRedirect 404 /h\nRedirectMatch \"^/n/(.*)\\.gif$\" /n/$1.png\n\
        RedirectMatch 410 \"^/old\"\nRedirectTemp /t /a.html\nRedirectPermanent /u /a.html\nAlias /r ${ROOT}/out\n\
        Redirect 307 /q \"/a.html?x=1\"\n<Location /loc>\nRedirect /elsewhere\n</Location>\n\
        <Location /al>\nAlias ${ROOT}/out\n</Location>\nRedirect 301 \"/b c\" /a.html";
    let all = paths(&[
        "/i/f.txt",
        "/i",
        "/i/",
        "/j/f.txt",
        "/j",
        "/jx",
        "/j/sub/g.txt",
        "/file",
        "/m/f.txt",
        "/m/sub/g.txt",
        "/r",
        "/r/f.txt",
        "/rx",
        "/r?x=y",
        "/r/a%20b?c",
        "/p",
        "/p/z",
        "/s",
        "/g",
        "/g/x",
        "/h",
        "/n/a.gif",
        "/n/a.png",
        "/old",
        "/older",
        "/t",
        "/u/v",
        "/q",
        "/q/w?z",
        "/loc",
        "/loc/x",
        "/al/f.txt",
        "/al",
        "/b%20c/d",
        "//i//f.txt",
        "/i/../a.html",
        "/j/sub/../f.txt",
    ]);
    compare("aliases_and_redirects", build, configuration, &all, &[]);
    let odd = |what| Allowed { case: "*", what, entry: "A status that Apache does not know" };
    let allowed = ["%s", "%>s", "%X", "connection"].map(odd);
    compare("unknown_statuses", build, "Redirect 418 /a\nRedirect 599 /b", &paths(&["/a", "/b"]), &allowed);
    let path = Allowed { case: "*", what: "%f", entry: "The file of a request" };
    compare("redirected_files", build, "RewriteEngine On\nRedirect /r /a.html", &paths(&["/r"]), &[path]);
    // Many lines are found by an index. Those in front win, and of two for a path the first.
    let many = |first: &str, second: &str| (0..40).map(|n| format!("{first}{n}{second}\n")).collect::<String>();
    let configuration = format!(
        "{configuration}\n{}{}Redirect /many /first\nRedirect /many/sub /never\nRedirect /q/w /never\nRedirect //twice//x /a.html\n\
         Redirect /slash/ /a.html\nRedirectMatch ^/many/40 /never\nAlias /i2/3/sub ${{ROOT}}/never\n",
        many("Redirect 301 /many/", " /a.html"),
        many("Alias /i2/", " ${ROOT}/out")
    );
    let more = paths(&[
        "/many/7",
        "/many//7/x",
        "/many/77",
        "/many",
        "/many/sub/x",
        "/many/40",
        "/manyx",
        "/twice/x/y",
        "/twice/xy",
        "/slash",
        "/slash/x",
        "/i2/3/sub/g.txt",
        "/i2/39/f.txt",
        "/i2/",
    ]);
    compare("many_aliases_and_redirects", build, &configuration, &[all, more].concat(), &[]);
}

#[test]
fn listings() {
    let build = |site: &Site| {
        for name in [
            "a.txt",
            "B.txt",
            "c.html",
            "z.gz",
            "sub/x",
            ".hidden",
            "with blank",
            "README.html",
            "HEADER.html",
            "a&<b>\"'.txt",
            "caf\u{e9}.txt",
            "a-very-long-name-that-does-not-fit-into-the-column-of-names.txt",
            "#x#",
            "x~",
        ] {
            site.page(&format!("l/{name}"), name);
        }
        site.page("l/large", vec![b'x'; 3_000_000]);
        symlink("a.txt", site.root.join("htdocs/l/link")).expect("link");
        site.page("l/closed/x", "x");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(site.root.join("htdocs/l/closed"), mode).expect("mode");
    };
    let mut all = paths(&[
        "/l/",
        "/l/?C=N;O=D",
        "/l/?C=M;O=A",
        "/l/?C=S;O=D",
        "/l/?C=D;O=A",
        "/l/?F=0",
        "/l/?F=1",
        "/l/?F=2",
        "/l/?P=*.txt",
        "/l/?V=1",
        "/l/?C=X",
        "/l/?C=S&O=A",
        "/l/sub/",
        "/l/?P=a*;F=2",
    ]);
    all.push(Case { name: "HEAD".into(), bytes: "HEAD /l/ HTTP/1.1\r\nHost: localhost\r\n\r\n".into() });
    let options = [
        "",
        "IndexOptions FancyIndexing",
        "IndexOptions FancyIndexing HTMLTable VersionSort",
        "IndexOptions +SuppressSize FancyIndexing",
        "IndexOptions FancyIndexing NameWidth=* FoldersFirst IgnoreCase\nReadmeName README.html\nHeaderName HEADER.html",
        "IndexOptions FancyIndexing SuppressLastModified SuppressDescription TrackModified XHTML",
        "IndexOptions FancyIndexing TrackModified\nFileETag MTime",
        "IndexOptions FancyIndexing TrackModified\nFileETag None",
        "IndexOptions FancyIndexing IconsAreLinks ScanHTMLTitles\nAddIcon (TXT,/icons/t.gif) .txt\nDefaultIcon /icons/u.gif\n\
         AddIconByEncoding (CMP,/c.gif) x-gzip\nAddDescription \"a text & more\" *.txt\nAddAlt \"dir\" ^^DIRECTORY^^\nIndexIgnore *~ \\#*",
        "IndexOptions SuppressHTMLPreamble SuppressRules SuppressIcon FancyIndexing\nIndexOrderDefault Descending Size",
        "IndexOptions FancyIndexing Charset=UTF-8 Type=text/x-list ShowForbidden IgnoreClient\nIndexStyleSheet /s.css\nIndexHeadInsert \"<x>\"",
    ];
    for option in options {
        let configuration = format!(
            "<Directory ${{DOCS}}>\nOptions Indexes FollowSymLinks\nAllowOverride None\n{option}\n</Directory>"
        );
        let closed =
            Allowed { case: "*", what: "error log", entry: "Entries of a listing that may not be looked into" };
        compare("listings", build, &configuration, &all, &[closed]);
    }
}

#[test]
fn negotiation() {
    let build = |site: &Site| {
        for name in [
            "p.html.en",
            "p.html.fr",
            "p.html.de",
            "p.txt",
            "q.html",
            "q.html.gz",
            "r.en.html",
            "r.fr.html",
            "s.en.txt",
            "s.fr.html",
        ] {
            site.page(&format!("m/{name}"), format!("{name}\n"));
        }
        site.page(
            "m/map.var",
            "URI: p\n\nURI: p.html.en\nContent-type: text/html\nContent-language: en\n\nURI: p.html.fr\n\
             Content-type: text/html;qs=0.5\nContent-language: fr\n",
        );
    };
    let configuration = "AddLanguage en .en\nAddLanguage fr .fr\nAddLanguage de .de\nAddEncoding x-gzip .gz\n\
        AddHandler type-map .var\n<Directory ${DOCS}/m>\nOptions MultiViews\n</Directory>\n";
    let mut all =
        paths(&["/m/p", "/m/p.html", "/m/q", "/m/r", "/m/s", "/m/none", "/m/map.var", "/m/p.txt", "/m/p/info", "/m/"]);
    for language in ["en", "fr", "de", "it", "fr;q=0.5, en;q=0.3", "en-GB", "*", "fr;q=0", "de, *;q=0.1", "it, fr"] {
        let field = format!("Accept-Language: {language}");
        all.extend(["/m/p", "/m/p.html", "/m/r", "/m/s", "/m/map.var"].map(|path| with(path, &field)));
    }
    for accept in
        ["text/html", "text/plain", "text/*;q=0.1, text/html", "image/png", "*/*;q=0.1, text/plain", "text/html;q=0"]
    {
        all.extend(["/m/p", "/m/s", "/m/map.var"].map(|path| with(path, &format!("Accept: {accept}"))));
    }
    for encoding in ["gzip", "x-gzip", "identity", "gzip;q=0", "*"] {
        all.push(with("/m/q", &format!("Accept-Encoding: {encoding}")));
    }
    let tag = Allowed { case: "*", what: "etag", entry: "The closing quote of a negotiated ETag" };
    for more in [
        "",
        "LanguagePriority de fr en",
        "LanguagePriority fr en\nForceLanguagePriority Prefer Fallback",
        "ForceLanguagePriority None",
        "MultiviewsMatch Any",
        "<If \"%{HTTP:X-Any} != 'y' && %{HTTP:Accept-Language} != 'tlh'\">\nSetEnv A b\n</If>",
    ] {
        compare("negotiation", build, &format!("{configuration}{more}"), &all, std::slice::from_ref(&tag));
    }
}

#[test]
fn pages_of_errors() {
    let build = |site: &Site| {
        site.page("mine.html", "my page\n");
        site.page("secret/x.txt", "x\n");
        site.page("d/x", "x\n");
        site.page("d/.htaccess", "ErrorDocument 404 \"of d\"\n");
    };
    let configurations = [
        "",
        "ErrorDocument 404 \"it is <b>gone</b>\"",
        "ErrorDocument 404 /mine.html",
        "ErrorDocument 404 /none-either.html",
        "ErrorDocument 404 http://x.example/gone",
        "ErrorDocument 404 \"%{REQUEST_URI} is gone\"",
        "ErrorDocument 404 /mine.html\n<Directory ${DOCS}/d>\nErrorDocument 404 default\n</Directory>",
        "ErrorDocument 403 \"no\"\nErrorDocument 405 /mine.html\nErrorDocument 400 \"bad\"",
        "ServerSignature On\nServerAdmin me@x.example\nServerName sig.example",
        "<Directory ${DOCS}>\nAllowOverride All\n</Directory>",
        "ErrorDocument 404 mine.html",
    ];
    let mut all = paths(&["/none", "/none?q=<x>", "/secret/x.txt", "/d/none", "/a%00", "/%zz", "/x%2fy"]);
    all.push(Case {
        name: "PUT".into(),
        bytes: "PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".into(),
    });
    all.push(Case {
        name: "POST".into(),
        bytes: "POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc".into(),
    });
    for configuration in configurations {
        let configuration = format!("{configuration}\n<Location /secret>\nRequire all denied\n</Location>");
        let raw = |case, what| Allowed { case, what, entry: "The path of a request that cannot be decoded" };
        let allowed = [
            Allowed { case: "/d/none", what: "%f", entry: "The file of a request" },
            Allowed { case: "*", what: "%b", entry: "An error document that fails" },
            Allowed { case: "*", what: "%{Content-Type}o", entry: "An error document that fails" },
            raw("/a%00", "%U"),
            raw("/x%2fy", "%U"),
            raw("/a%00", "body"),
            raw("/a%00", "content-length"),
            raw("/x%2fy", "body"),
            raw("/x%2fy", "content-length"),
        ];
        compare("pages_of_errors", build, &configuration, &all, &allowed);
    }
}

#[test]
fn compression() {
    let build = |site: &Site| {
        site.page("t.txt", "0123456789".repeat(500));
        site.page("h.html", "<p>".repeat(2000));
        site.page("i.png", "png".repeat(500));
        site.page("tiny.txt", "x");
        site.page("empty.txt", "");
    };
    let mut all = Vec::new();
    for path in ["/t.txt", "/h.html", "/i.png", "/tiny.txt", "/empty.txt", "/none"] {
        for encoding in [
            "",
            "Accept-Encoding: gzip",
            "Accept-Encoding: deflate",
            "Accept-Encoding: gzip;q=0",
            "Accept-Encoding: *",
            "Accept-Encoding: br, x-gzip",
            "Accept-Encoding: gzip\r\nRange: bytes=0-1",
        ] {
            let fields = if encoding.is_empty() { "X: y" } else { encoding };
            all.push(with(path, fields));
        }
    }
    // The compression ratio may differ: the decompressed content is compared.
    let differs = |what| Allowed { case: "*", what, entry: "Compressed bytes" };
    let allowed = ["content-length", "content-range", "body"].map(differs);
    for configuration in [
        "SetOutputFilter DEFLATE",
        "AddOutputFilterByType DEFLATE text/html text/plain",
        "AddOutputFilter DEFLATE html",
        "FilterDeclare F\nFilterProvider F DEFLATE \"%{CONTENT_TYPE} =~ m#^text/#\"\nFilterChain F",
    ] {
        compare("compression", build, configuration, &all, &allowed);
    }
}

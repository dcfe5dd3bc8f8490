//! WebDAV: the same requests to Apache.

use std::os::unix::fs::PermissionsExt;

use super::dav::{CONFIGURATION, LOCKINFO, ask, writable};
use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wire::Response;

/// A request after the other, as `METHOD path|field|field||body`, and the status that Apache answers with.
const REQUESTS: &[(&str, u16)] = &[
    ("OPTIONS /dav/none", 200),
    ("PROPFIND /dav/none|Depth: 0", 404),
    ("PUT /dav/f.txt||one", 201),
    ("PUT /dav/f.txt||two2", 204),
    ("OPTIONS /dav/f.txt", 200),
    ("PUT /dav/f.txt|Content-Range: bytes 1-2/4||XY", 204),
    ("GET /dav/f.txt", 200),
    ("PUT /dav/f.txt|Content-Range: bytes 4-5/*||ab", 204),
    ("PUT /dav/f.txt|Content-Range: x||ab", 400),
    ("GET /dav/f.txt", 200),
    ("PUT /dav/no/f||x", 409),
    ("PUT /dav/||x", 409),
    ("PUT /dav/f.txt/x||x", 400),
    ("PUT /dav/f.txt|If-None-Match: *||x", 412),
    ("PUT /dav/f.txt|If-Match: \"x\"||x", 412),
    ("PUT /dav/none|If-Match: *||x", 412),
    ("PUT /dav/new|If-None-Match: *||x", 201),
    ("MKCOL /dav/c", 201),
    ("MKCOL /dav/c", 405),
    ("MKCOL /dav/x/y", 409),
    ("MKCOL /dav/b||<a/>", 415),
    ("PROPFIND /dav/c|Depth: 1", 207),
    ("PROPFIND /dav/|Depth: infinity", 403),
    ("PROPFIND /dav/|Depth: 2", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<a", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<a/>", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"/>", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"><propname/></propfind>", 207),
    (
        "PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"><prop><getcontentlength/><x xmlns=\"u:\"/><displayname/>\
         <resourcetype/><getcontenttype/><supportedlock/><lockdiscovery/></prop></propfind>",
        207,
    ),
    (
        "PROPPATCH /dav/f.txt||<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"u:\">a &lt; <y xmlns=\"\">b</y></x>\
         </prop></set></propertyupdate>",
        207,
    ),
    (
        "PROPPATCH /dav/f.txt||<propertyupdate xmlns=\"DAV:\"><set><prop><z xmlns=\"u:\">1</z><getetag>2</getetag></prop>\
         </set></propertyupdate>",
        207,
    ),
    ("PROPPATCH /dav/f.txt||<propertyupdate xmlns=\"DAV:\"><set/></propertyupdate>", 400),
    ("PROPPATCH /dav/none||<propertyupdate xmlns=\"DAV:\"/>", 404),
    (
        "PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/><z xmlns=\"u:\"/></prop></propfind>",
        207,
    ),
    ("COPY /dav/f.txt", 400),
    ("COPY /dav/f.txt|Destination: /dav/g", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/f.txt", 403),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/x/y", 409),
    ("COPY /dav/f.txt|Destination: http://localhost/outside", 405),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/.DAV/x", 403),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/../../x", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g?q", 400),
    ("COPY /dav/f.txt|Destination: ftp://localhost/dav/g", 502),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g|Overwrite: X", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g|Depth: 1", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g", 201),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g|Overwrite: F", 412),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g", 204),
    ("PROPFIND /dav/g|Depth: 0||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>", 207),
    ("COPY /dav/c|Destination: http://localhost/dav/c/d", 403),
    ("MOVE /dav/c|Destination: http://localhost/dav/d|Depth: 0", 400),
    ("MOVE /dav/g|Destination: http://localhost/dav/c/g", 201),
    ("PROPFIND /dav/c/g|Depth: 0||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>", 207),
    ("MOVE /dav/c|Destination: http://localhost/dav/d", 201),
    ("PROPFIND /dav/d|Depth: 1||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>", 207),
    ("DELETE /dav/d|Depth: 0", 400),
    ("DELETE /dav/f.txt|Depth: 1", 400),
    ("GET /dav/.DAV/f.txt", 403),
    ("PROPFIND /dav/.DAV|Depth: 0", 403),
    ("LOCK /dav/f.txt", 400),
    ("LOCK /dav/f.txt|Depth: 1||LOCKINFO", 400),
    ("LOCK /dav/no/f||LOCKINFO", 409),
    ("LOCK /dav/f.txt|Timeout: Second-600||LOCKINFO", 200),
    ("LOCK /dav/f.txt||LOCKINFO", 423),
    ("PUT /dav/f.txt||x", 423),
    ("DELETE /dav/f.txt", 423),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g", 201),
    ("MOVE /dav/g|Destination: http://localhost/dav/f.txt", 423),
    ("PUT /dav/f.txt|If: (<TOKEN>)||x", 204),
    ("PUT /dav/f.txt|If: (<DAV:no-lock>)||x", 412),
    ("PUT /dav/f.txt|If: (Not <DAV:no-lock>)||x", 423),
    ("PUT /dav/f.txt|If: (<TOKEN> [\"bad\"])||x", 412),
    ("PUT /dav/f.txt|If: (<DAV:no-lock>) (<TOKEN>)||x", 204),
    ("PUT /dav/f.txt|If: <http://localhost/dav/f.txt> (<TOKEN>)||x", 204),
    ("PUT /dav/f.txt|If: garbage||x", 400),
    ("LOCK /dav/f.txt|If: (<TOKEN>)|Timeout: Second-5", 200),
    ("UNLOCK /dav/f.txt", 400),
    ("UNLOCK /dav/f.txt|Lock-Token: <TOKEN>", 204),
    ("UNLOCK /dav/f.txt|Lock-Token: <TOKEN>", 400),
    ("LOCK /dav/f.txt||LOCKINFO", 200),
    ("DELETE /dav/f.txt|If: <http://localhost/dav/f.txt> (<TOKEN>)", 204),
    ("LOCK /dav/null||LOCKINFO", 200),
    ("GET /dav/null", 404),
    ("OPTIONS /dav/null", 200),
    ("MKCOL /dav/null", 423),
    ("DELETE /dav/null", 404),
    ("PUT /dav/null|If: (<TOKEN>)||x", 201),
    ("MOVE /dav/null|Destination: http://localhost/dav/moved|If: </dav/null> (<TOKEN>)", 201),
    ("LOCK /dav/d|Depth: infinity||LOCKINFO", 200),
    ("PUT /dav/d/g||x", 423),
    ("PUT /dav/d/new||x", 207),
    ("PUT /dav/d/new|If: </dav/d/> (<TOKEN>)||x", 201),
    ("LOCK /dav/d/g||LOCKINFO", 423),
    ("DELETE /dav/d", 423),
    ("UNLOCK /dav/d/g|Lock-Token: <TOKEN>", 204),
    ("LOCK /dav/d/g||LOCKINFO", 200),
    ("DELETE /dav/d", 424),
    ("LOCK /dav/d||LOCKINFO", 207),
    ("DELETE /dav/d|If: <http://localhost/dav/d/g> (<TOKEN>)", 204),
    ("PROPFIND /outside|Depth: 0", 405),
    ("VERSION-CONTROL /dav/new", 405),
    ("SEARCH /dav/new", 405),
    ("BIND /outside", 405),
    ("ACL /dav/new", 501),
    ("REPORT /dav/new", 400),
    ("REPORT /dav/new||<a", 400),
    ("REPORT /dav/new||<a/>", 501),
    ("REPORT /dav/none||<a/>", 404),
    ("POST /dav/new||x", 200),
    ("DELETE /dav/none", 404),
];

/// The parts of an answer that must be equal.
fn essence(response: &Response) -> String {
    let text = response.text();
    let mut found = vec![
        response.status.to_string(),
        response.all("DAV").join(", "),
        response.field("Location").unwrap_or_default().to_string(),
    ];
    if response.status == 200 && !response.all("DAV").is_empty() {
        found.push(response.field("Allow").unwrap_or_default().to_string());
    }
    if response.status == 207 {
        // The elements by their names alone: prefixes are anybody's choice. Resources come in any order.
        let mut words: Vec<String> = text
            .split('<')
            .skip(2)
            .filter(|tag| !tag.starts_with('/') && !tag.contains("multistatus"))
            .map(|tag| {
                let (name, value) = tag.split_once('>').unwrap_or((tag, ""));
                let name = name.split([' ', '/']).next().unwrap_or(name);
                let name = name.rsplit(':').next().unwrap_or(name);
                let is_fleeting = ["creationdate", "getlastmodified", "getetag"].contains(&name);
                format!("{name}={}", if is_fleeting { "" } else { value.trim() })
            })
            .collect();
        words.sort();
        found.push(words.join(" "));
    } else if response.field("Content-Type") == Some("text/plain") {
        found.push(text);
    }
    found.join("|")
}

/// Allowed differences in the body, and the reasons (`docs/differences.md`).
const BODIES: [(&str, &str); 1] = [("LOCK /dav/d||", "The answer to a LOCK of a collection with locks in it")];

#[test]
fn the_same_as_apache() {
    oracle::check_entries(BODIES.iter().map(|(_, entry)| *entry));
    let answers = std::cell::RefCell::new(Vec::new());
    oracle::both("dav::the_same_as_apache", writable, CONFIGURATION, |site| {
        let mut token = String::new();
        let mut all = Vec::new();
        for (request, status) in REQUESTS {
            let (head, body) = request.split_once("||").unwrap_or((request, ""));
            let head = head.replace("TOKEN", &token);
            let mut fields = head.split('|');
            let line = fields.next().unwrap_or_default();
            let fields: Vec<&str> = fields.collect();
            let response = ask(site, line, &fields, if body == "LOCKINFO" { LOCKINFO } else { body });
            assert_eq!(response.status, *status, "{request}: {}", response.text());
            if let Some(given) = response.field("Lock-Token") {
                token = given.trim_matches(['<', '>']).to_string();
            }
            let is_compared = !BODIES.iter().any(|(start, _)| request.starts_with(start));
            let essence = essence(&response).replace(&site.ip.to_string(), "");
            all.push(format!("{request}: {}", if is_compared { essence } else { String::new() }));
        }
        answers.borrow_mut().push(all);
    });
    let answers = answers.into_inner();
    for (first, other) in answers.iter().skip(1).flat_map(|other| answers[0].iter().zip(other)) {
        assert_eq!(first, other);
    }
}

/// A copy is a new file: the only permission it takes from the old one is to be executable.
#[test]
fn the_modes_of_copies_are_those_of_apache() {
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let build = |site: &Site| {
        writable(site);
        for (name, mode) in [("c/a", 0o606), ("c/x", 0o705), ("c/d/s", 0o604), ("old", 0o646), ("ran", 0o646)] {
            let path = site.page(&format!("dav/{name}"), name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
        }
        for name in ["c", "c/d"] {
            let path = site.root.join("htdocs/dav").join(name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
        }
        for name in ["old", "ran"] {
            // The children's user must own the files that it changes.
            std::os::unix::fs::chown(site.root.join("htdocs/dav").join(name), Some(65534), Some(65534)).expect("owner");
        }
    };
    oracle::both("the_modes_of_copies_are_those_of_apache", build, CONFIGURATION, |site| {
        for (from, to, status) in [("c/", "copy/", 201), ("c/a", "old", 204), ("c/x", "ran", 204)] {
            let destination = format!("Destination: http://localhost/dav/{to}");
            assert_eq!(ask(site, &format!("COPY /dav/{from}"), &[&destination], "").status, status, "{from} {to}");
        }
        for (name, want) in [
            ("copy", 0o755),
            ("copy/a", 0o644),
            ("copy/x", 0o705),
            ("copy/d", 0o755),
            ("copy/d/s", 0o644),
            ("old", 0o644),
            ("ran", 0o705),
        ] {
            assert_eq!(mode(site.root.join("htdocs/dav").join(name)), want, "{name}");
        }
    });
}

/// An index in a collection, or a member that is not touched, keeps nobody from changing another one.
#[test]
fn an_index_above_is_in_nobodys_way() {
    let build = |site: &Site| {
        writable(site);
        for file in ["index.html", "a", "b", "c", "d", "deep/.htclosed"] {
            site.page(&format!("dav/{file}"), "x");
        }
        for name in ["dav", "dav/deep"] {
            let all = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(site.root.join("htdocs").join(name), all).expect("permissions");
        }
    };
    let configuration = "DavLockDB ${ROOT}/run/locks\n<Directory ${DOCS}/dav>\nDav On\nDirectoryIndex index.html\n\
        </Directory>\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n";
    oracle::both("an index above", build, configuration, |site| {
        let to = |name: &str| format!("Destination: http://localhost/dav/{name}");
        assert_eq!(ask(site, "DELETE /dav/a", &[], "").status, 204);
        assert_eq!(ask(site, "MOVE /dav/b", &[&to("moved")], "").status, 201);
        assert_eq!(ask(site, "COPY /dav/c", &[&to("d")], "").status, 204);
        assert_eq!(ask(site, "COPY /dav/deep/", &[&to("shallow/"), "Depth: 0"], "").status, 201);
    });
}

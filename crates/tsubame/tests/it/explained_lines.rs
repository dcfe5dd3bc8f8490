//! What `tsubame explain` says of lines where it is not simply the last one that counts, and what asking leaves alone.

use crate::ctl;
use crate::mpm::Mpm;
use crate::server::Server;
use crate::site::Site;

/// Asking the running server writes to no log: what would be said is among the steps.
#[test]
fn asking_writes_nothing() {
    let site = Site::with([("a/x.html", "x\n"), ("a/.htaccess", "Bogus on\nOptions +Indexes\n"), ("b/x.html", "x\n")]);
    let text = "ScriptLog logs/scripts\nScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n\
                <Directory ${DOCS}/a>\nAllowOverride FileInfo Nonfatal=All\n</Directory>\n\
                <Directory ${DOCS}/b>\nAuthType Basic\nAuthName b\nAuthUserFile ${DOCS}\nRequire valid-user\n</Directory>";
    let server = Server::start(Mpm::Percore, &site, text);
    let before = server.log();
    let asked = |arguments: &[&str]| ctl::json(&site, &[&["explain"], arguments].concat())["steps"].to_string();
    let steps = asked(&["/a/x.html"]);
    assert!(steps.contains("AH02296: Unknown directive bogus"), "{steps}");
    assert!(steps.contains("AH02295: Options in .htaccess forbidden by AllowOverride"), "{steps}");
    let steps = asked(&["--header", "Authorization: Basic YTpi", "/b/x.html"]);
    assert!(steps.contains("AH00554: Access to file"), "{steps}");
    let steps = asked(&["/cgi-bin/none"]);
    assert!(steps.contains("script not found or unable to stat"), "{steps}");
    assert_eq!(server.log(), before);
    assert!(!site.root.join("logs/scripts").exists());
    // A client's request does write, in the form of messages that are about no client.
    server.allow("AH0");
    assert_eq!(server.get("/a/x.html").status, 200);
    server.logged("] AH02296: Unknown directive bogus");
    assert!(!server.log().contains("[client "));
}

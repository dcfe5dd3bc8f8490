//! mod_actions: scripts that answer for handlers, media types and methods, compared with Apache.

use crate::harness::mpm::under_percore_and;
use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::server::Server;
use crate::harness::site::Site;

/// Prints the script's arguments and environment, except for what differs between requests.
const TELL: &str = "printf '\\n'; for a; do printf '[%s]' \"$a\"; done; pwd; env | sort | \
    grep -vE '^(REDIRECT_)*(REMOTE_PORT|PATH|PWD|OLDPWD|SHLVL|_)='; cat";

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    AddType application/x-foo .foo\nAddHandler looping .loop\nAddHandler query .query\nAddHandler Mixed .mixed\n\
    Action application/x-FOO /cgi/untyped\nAction looping /a.loop\nAction query /cgi/tell?first\nAction mIXED /cgi/tell\n\
    Action none-there /cgi/none\nAction plain /plain\nAction virtual /cgi/tell Virtual\nAction default-handler /cgi/none virtual\n\
    Action httpd/unix-directory /cgi/tell\nScript PUT /cgi/tell\nScript HEAD /cgi/tell\nScript FOO /cgi/tell\n\
    Script DELETE /a.txt\nScript PATCH /cgi/none\n\
    <Location /virtual>\nSetHandler virtual\n</Location>\n<Location /none-there>\nSetHandler none-there\n</Location>\n\
    <Location /plainly>\nSetHandler plain\n</Location>\n<Location /error>\nErrorDocument 404 /a.foo?e\n</Location>\n\
    <Location /inner>\nScript PUT /cgi/untyped\nAction application/x-foo /cgi/tell\n</Location>\n\
    <Directory ${DOCS}/own>\nAllowOverride FileInfo\n</Directory>";

fn build(site: &Site) {
    site.script("tell", &format!("#!/bin/sh\nprintf 'Content-Type: text/x-told\\n'; {TELL}\n"));
    site.script("untyped", &format!("#!/bin/sh\n{TELL}\n"));
    site.script("goto", "#!/bin/sh\nprintf 'Content-Type: application/x-foo\\nLocation: %s\\n\\n' \"$QUERY_STRING\"\n");
    for name in
        ["a.txt", "a.foo", "a.loop", "a.query", "a.mixed", "d/b c.foo", "inner/a.foo", "noext", "plain", "own/a.x"]
    {
        site.page(name, name);
    }
    site.page("none-there/x", "x");
    site.page("plainly/x", "x");
    site.page("own/.htaccess", "AddHandler own .x\nAction own /cgi/tell\n");
}

fn case(line: &str, rest: &str) -> Case {
    Case {
        name: format!("{line} {}", rest.replace("\r\n", " ")).trim().to_string(),
        bytes: format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{rest}\r\n").into_bytes(),
    }
}

#[test]
fn actions_as_under_apache() {
    let lines = [
        "GET /a.foo",
        "HEAD /a.foo",
        "GET /a.foo?",
        "GET /d/b%20c.foo?x=y",
        "GET /d/b%20c.foo?x+y",
        "GET /none.foo",
        "GET /a.foo/info/%3f",
        "GET /a.loop",
        "GET /a.query?a=b",
        "GET /a.mixed",
        "GET /a.txt",
        "GET /a.txt?q",
        "GET /a.txt?",
        "HEAD /a.txt",
        "HEAD /a.txt?q",
        "GET /virtual/x/y?z",
        "GET /none-there/x",
        "GET /plainly/x",
        "GET /d/",
        "GET /none",
        "GET /error/none",
        "GET /inner/a.foo",
        "GET /own/a.x",
        "GET /cgi/tell",
        "GET /cgi/tell?q",
        "GET /cgi/goto?/noext",
        "GET /cgi/goto?/a.txt",
        "GET /cgi/goto?/a.foo",
        "FOO /noext",
        "DELETE /a.txt",
        "DELETE /none",
        "PATCH /a.txt",
        "BAR /noext",
        "OPTIONS /noext",
        "TRACE /a.foo",
    ];
    let mut cases: Vec<Case> = lines.into_iter().map(|line| case(line, "")).collect();
    let body = "Content-Type: a/b\r\nContent-Length: 4\r\n\r\nx=1&";
    cases.extend(["POST /a.foo", "POST /a.txt", "PUT /none", "PUT /inner/x"].map(|line| case(line, body)));
    // How the end of a body is marked depends on timing, in Apache too.
    let framing = |what| Allowed { case: "*", what, entry: "The length of a short CGI answer" };
    let allowed = [framing("content-length"), framing("transfer-encoding")];
    compare("actions_as_under_apache", build, CONFIGURATION, &cases, &allowed);
}

under_percore_and! { prefork:
    /// Apache says why in its own words.
    fn a_missing_file_is_logged(mpm: Mpm) {
        let site = Site::new();
        build(&site);
        let server = Server::start(mpm, &site, &format!("LogLevel actions:info\n{CONFIGURATION}"));
        server.announce("[actions:info]");
        server.announce(format!("AH00652: File does not exist: {}/htdocs/none.foo", site.path()));
        assert_eq!(server.get("/none.foo").status, 404);
    }
}

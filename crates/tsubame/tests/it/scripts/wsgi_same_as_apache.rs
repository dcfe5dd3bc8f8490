//! What applications of WSGI see and answer, compared with Debian's mod_wsgi (libapache2-mod-wsgi-py3): its answers
//! are recorded, so that only a change of these tests needs it.

use crate::harness::oracle::{Allowed, Case, MODULES, compare};
use crate::harness::site::Site;
use crate::scripts::cgi_same_as_apache::{case, gets};

const TELL: &str = include_str!("wsgi_applications/tell.wsgi");

/// Decides about access.
const ACCESS: &str = "def allow_access(environ, host):\n    \
    return {'no': False, 'none': None, 'odd': 3}.get(environ['QUERY_STRING'], host == environ['REMOTE_ADDR'])\n\
    def check_password(environ, user, password):\n    if user == 'wrong':\n        raise ValueError(user)\n    \
    return {'other': 'another', 'none': None}.get(user, password == 'good')\n\
    def groups_for_user(environ, user):\n    return {'root': ['admin', 'staff'], 'odd': None}.get(user, ['guest'])\n";

/// Tells whom it runs as; and where, unless that is where the server was started.
const WHO: &str = "import os\n\ndef application(environ, start_response):\n    \
    start_response('200 OK', [('Content-Type', 'text/plain')])\n    \
    told = os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups(), os.environ['HOME'], os.getcwd() if os.getuid() == 5 else ''\n    \
    return [repr(told).encode()]\n";

/// The entry of docs/differences.md.
const ENTRY: &str = "Applications in Python";

fn build(site: &Site) {
    for name in ["htdocs/a.wsgi", "htdocs/no/a.wsgi", "apps/tell.wsgi"] {
        site.file(name, TELL);
    }
    site.file("apps/wrong.wsgi", "def application(:\n");
    site.file("apps/access.py", ACCESS);
    site.file("apps/empty.py", "");
    site.file("apps/exits.wsgi", "import sys\nsys.exit(1)\n");
    std::fs::create_dir_all(site.root.join("apps/directory.wsgi")).expect("directory");
}

/// The lines of both servers; `${ROOT}/apps` has the scripts.
fn configuration(lines: &str) -> String {
    format!(
        "LoadModule wsgi_module {MODULES}/mod_wsgi.so\nWSGIDaemonProcess site threads=2\nWSGIProcessGroup site\n\
         <Directory ${{ROOT}}/apps>\nRequire all granted\n</Directory>\n\
         <Directory ${{DOCS}}>\nOptions +ExecCGI\nRequire all granted\n</Directory>\n\
         <Directory ${{DOCS}}/no>\nOptions -ExecCGI\n</Directory>\n{lines}"
    )
}

/// What differs everywhere: how a length is told, and the words of the log.
fn always() -> Vec<Allowed> {
    let differs = ["content-length", "transfer-encoding", "error log", "%B", "%b", "%O"];
    differs.map(|what| Allowed { case: "*", what, entry: ENTRY }).to_vec()
}

fn check(test: &str, lines: &str, cases: &[Case], more: &[(&'static str, &'static str)]) {
    let mut allowed = always();
    allowed.extend(more.iter().map(|(case, what)| Allowed { case, what, entry: ENTRY }));
    compare(test, build, &configuration(lines), cases, &allowed);
}

/// Processes run as the user and the group that their line names.
#[test]
fn wsgi_processes_run_as_in_apache() {
    let groups = [
        ("plain", ""),
        ("user", "user=games"),
        ("number", "user=#5"),
        ("group", "group=mail"),
        ("both", "user=games group=#8"),
        ("home", "user=games home=/tmp"),
    ];
    let lines: String = groups
        .iter()
        .map(|(name, options)| {
            format!(
                "WSGIDaemonProcess {name} {options}\n\
                 WSGIScriptAlias /{name} ${{ROOT}}/apps/who.wsgi process-group={name} application-group=%{{GLOBAL}}\n"
            )
        })
        .collect();
    let paths: Vec<String> = groups.iter().map(|(name, _)| format!("/{name}")).collect();
    let cases = gets(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    let build: fn(&Site) = |site| {
        build(site);
        site.file("apps/who.wsgi", WHO);
    };
    compare("wsgi_processes_run_as_in_apache", build, &configuration(&lines), &cases, &always());
}

/// Which script a path leads to, in which group, and what it is told.
#[test]
fn wsgi_scripts_are_found_as_in_apache() {
    let lines = "AddHandler wsgi-script .wsgi\n\
        WSGIScriptAlias /app ${ROOT}/apps/tell.wsgi\nWSGIScriptAlias /below ${ROOT}/apps\n\
        WSGIScriptAliasMatch ^/match/(\\w+) ${ROOT}/apps/$1.wsgi\n\
        SetEnvIf Request_URI ^ GROUP=site APPLICATION=%{GLOBAL}\n\
        WSGIScriptAlias /env ${ROOT}/apps/tell.wsgi process-group=%{ENV:GROUP} application-group=%{ENV:APPLICATION}\n\
        WSGIScriptAlias /server ${ROOT}/apps/tell.wsgi application-group=%{SERVER}\n\
        WSGIScriptAlias /host ${ROOT}/apps/tell.wsgi application-group=%{HOST}\n\
        WSGIScriptAlias /unset ${ROOT}/apps/tell.wsgi application-group=%{ENV:UNSET}\n\
        WSGIScriptAlias /nogroup ${ROOT}/apps/tell.wsgi process-group=missing\n\
        WSGIScriptAlias /other ${ROOT}/apps/tell.wsgi callable-object=other\n\
        WSGIScriptAlias /nothing ${ROOT}/apps/tell.wsgi callable-object=nothing\n\
        <Location /app/section>\nWSGIApplicationGroup mine\nWSGICallableObject other\n</Location>\n\
        <Location /app/pass>\nWSGIPassAuthorization On\nSetEnv PATH /of/the/section\nSetEnv app.key value\n</Location>\n";
    let mut cases = gets(&[
        "/app",
        "/app/",
        "/app/p%20i/x?a=b",
        "/app/%C3%A9?%C3%A9",
        "/application",
        "/app/section",
        "/below/tell.wsgi/x",
        "/below",
        "/below/missing.wsgi",
        "/below/directory.wsgi",
        "/below/wrong.wsgi",
        "/below/exits.wsgi",
        "/match/tell/rest",
        "/match/missing",
        "/env",
        "/server",
        "/host",
        "/unset",
        "/nogroup",
        "/other",
        "/nothing",
        "/a.wsgi/info",
        "/a.wsgi",
        "/no/a.wsgi",
    ]);
    let login = "Authorization: Basic eDp5\r\nX-Y: z\r\nX_Y: no\r\nCookie: a=1\r\nProxy: no\r\n";
    cases.extend([case("GET /app", login, ""), case("GET /app/pass", login, ""), case("OPTIONS /app", "", "")]);
    check("wsgi_scripts_are_found_as_in_apache", lines, &cases, &[]);
}

/// An application at the root has all paths that are left.
#[test]
fn wsgi_at_the_root_as_in_apache() {
    let lines = "Alias /static ${ROOT}/apps\nWSGIScriptAlias / ${ROOT}/apps/tell.wsgi\n";
    check("wsgi_at_the_root_as_in_apache", lines, &gets(&["/", "/x/y", "/static/wrong.wsgi", "//x"]), &[]);
}

/// What applications return, and what becomes of it.
#[test]
fn wsgi_answers_as_in_apache() {
    let names = TELL.lines().filter_map(|line| line.strip_prefix("    \"")?.split_once("\":"));
    let mut cases: Vec<Case> = names.map(|(name, _)| case(&format!("GET /app?{name}"), "", "")).collect();
    assert!(cases.len() > 40);
    let length = |text: &str| format!("Content-Length: {}\r\n", text.len());
    let lines = "1234567\nline\nlonger line\n\nlast\nmore\nend";
    cases.extend([
        case("POST /app?input", &length(lines), lines),
        case("POST /app", "Content-Type: a/b\r\nContent-Length: 4\r\n", "x=1&"),
        case("PUT /app/x", "Content-Length: 4\r\n", "x=1&"),
        case("HEAD /app?one", "", ""),
        case("HEAD /app?exact", "", ""),
        case("GET /app?cookies", "If-None-Match: \"e\"\r\n", ""),
    ]);
    let lines = "WSGIScriptAlias /app ${ROOT}/apps/tell.wsgi\n";
    check("wsgi_answers_as_in_apache", lines, &cases, &[]);
}

/// Bodies in chunks are refused unless a section takes them.
#[test]
fn wsgi_chunks_as_in_apache() {
    let body = |path: &str| {
        case(&format!("POST {path}"), "Transfer-Encoding: chunked\r\n", "4\r\nx=1&\r\n3\r\nabc\r\n0\r\n\r\n")
    };
    let lines = "WSGIScriptAlias /app ${ROOT}/apps/tell.wsgi\n<Location /app/takes>\nWSGIChunkedRequest On\n</Location>\n\
        <Location /app/get>\nWSGIMapHEADToGET On\n</Location>\n";
    let cases = [body("/app"), body("/app/takes"), case("HEAD /app/get", "", "")];
    check("wsgi_chunks_as_in_apache", lines, &cases, &[]);
}

/// Scripts decide about access, passwords and groups; whatever they do wrong refuses the request.
#[test]
fn wsgi_access_as_in_apache() {
    let lines = "WSGIScriptAlias /app ${ROOT}/apps/tell.wsgi\n\
        <Location /app/access>\nWSGIAccessScript ${ROOT}/apps/access.py\n</Location>\n\
        <Location /app/missing>\nWSGIAccessScript ${ROOT}/apps/missing.py\n</Location>\n\
        <Location /app/empty>\nWSGIAccessScript ${ROOT}/apps/empty.py application-group=%{GLOBAL}\n</Location>\n\
        <LocationMatch ^/app/(user|group)>\nAuthType Basic\nAuthName x\nAuthBasicProvider wsgi\n\
        WSGIAuthUserScript ${ROOT}/apps/access.py\nRequire valid-user\n</LocationMatch>\n\
        <Location /app/group>\nWSGIAuthGroupScript ${ROOT}/apps/access.py\nRequire wsgi-group admin boss\n</Location>\n";
    let mut cases = gets(&[
        "/app/access",
        "/app/access?no",
        "/app/access?none",
        "/app/access?odd",
        "/app/missing",
        "/app/empty",
        "/app/user",
    ]);
    // In base64: a:good, a:bad, none:x, wrong:x, other:x, root:good, odd:good.
    for login in ["YTpnb29k", "YTpiYWQ=", "bm9uZTp4", "d3Jvbmc6eA==", "b3RoZXI6eA==", "cm9vdDpnb29k", "b2RkOmdvb2Q="] {
        for path in ["user", "group"] {
            cases.push(case(&format!("GET /app/{path}"), &format!("Authorization: Basic {login}\r\n"), ""));
        }
    }
    check("wsgi_access_as_in_apache", lines, &cases, &[]);
}

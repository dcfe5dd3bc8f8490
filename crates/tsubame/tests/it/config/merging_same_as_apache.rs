//! What a virtual host inherits from the main server: the same as in Apache, directive by directive.
//!
//! Each row has lines for the main server, lines for a virtual host, and requests that show the value in effect. All rows
//! stand in one configuration, once with the main server's lines and once without; each request goes to a host without
//! lines and to one with its own.

use crate::harness::oracle::{Allowed, Case, compare_some};
use crate::harness::site::Site;

/// Lines of the main server, lines of the virtual host, requests.
type Row = (&'static str, &'static str, &'static [&'static str]);

const TABLE: &[Row] = &[
    ("AllowEncodedSlashes On", "AllowEncodedSlashes NoDecode", &["GET /sl%2fx.txt"]),
    ("MergeSlashes Off", "MergeSlashes On", &["GET /ms//x"]),
    ("ServerAdmin main@example", "ServerAdmin host@example", &["GET /a.txt"]),
    (
        "KeepAliveTimeout 2\nMaxKeepAliveRequests 50",
        "KeepAliveTimeout 3\nMaxKeepAliveRequests 60",
        &["GET /a.txt|Connection: keep-alive"],
    ),
    ("AccessFileName .acl", "AccessFileName .own", &["GET /afn/a.txt"]),
    (
        "Alias /al ${ROOT}/m\nAlias /am ${ROOT}/m",
        "Alias /al ${ROOT}/h\nAlias /ah ${ROOT}/h",
        &["GET /al/x.txt", "GET /am/x.txt", "GET /ah/x.txt"],
    ),
    ("Alias /lo/ng ${ROOT}/m", "Alias /lo ${ROOT}/h", &["GET /lo/ng/x.txt", "GET /lo/x.txt"]),
    (
        "AliasMatch ^/amt/(.*) ${ROOT}/m/$1",
        "AliasMatch ^/amt/(x.*) ${ROOT}/h/$1",
        &["GET /amt/x.txt", "GET /amt/only.txt"],
    ),
    ("Redirect /re http://main/\nRedirect /rm http://main/m", "Redirect /re http://host/", &["GET /re", "GET /rm"]),
    ("RedirectMatch ^/rr(.*) http://main$1", "RedirectMatch ^/rrx(.*) http://host$1", &["GET /rrx1", "GET /rry"]),
    ("SSIStartTag <!--m\nSSIEndTag m-->", "SSIStartTag <!--h", &["GET /s.shtml", "GET /sm.shtml", "GET /sh.shtml"]),
    ("SetEnvIf X-A . V=main W=main", "SetEnvIf X-A . V=host", &["GET /a.txt|X-A: 1"]),
    ("SetEnv E main\nSetEnv F main\nSetEnv U main", "SetEnv E host\nUnsetEnv U", &["GET /a.txt"]),
    ("Header set H main\nHeader append H2 main", "Header append H2 host", &["GET /a.txt"]),
    ("RequestHeader set RH main", "RequestHeader append RH host", &["GET /a.txt"]),
    ("ErrorDocument 404 main", "ErrorDocument 404 host", &["GET /nope"]),
    ("DirectoryIndex a.txt", "DirectoryIndex b.txt", &["GET /d/"]),
    (
        "AddType x/main .tm\nAddCharset utf-8 .ch",
        "AddType x/host .tm\nAddCharset latin-1 .ch",
        &["GET /t.tm", "GET /t.ch"],
    ),
    (
        "AddOutputFilterByType DEFLATE text/css\nDeflateAlterETag NoChange",
        "DeflateAlterETag Remove",
        &["HEAD /long.css|Accept-Encoding: gzip"],
    ),
    ("UserDir ${ROOT}/m/*", "UserDir disabled joe", &["GET /~joe/x.txt", "GET /~ann/x.txt"]),
    (
        "ProxyPass /px1 !\nProxyPass /px2 !\nProxyPassMatch ^/px4 !",
        "ProxyPass /px1 fcgi://127.0.0.1:1/\nProxyPass /px3 !\nProxyPass /px4 fcgi://127.0.0.1:1/",
        &["GET /px1/a.txt", "GET /px2/a.txt", "GET /px3/a.txt", "GET /px4/a.txt"],
    ),
    (
        "ExtFilterDefine up mode=output cmd=\"/usr/bin/tr a-z A-Z\"",
        "ExtFilterDefine blank mode=output cmd=\"/usr/bin/tr a-z _\"",
        &["GET /ext/a.txt"],
    ),
    ("UseCanonicalName On", "UseCanonicalName Off", &["GET /d"]),
    ("ServerSignature On", "ServerSignature Off", &["GET /forb"]),
    ("AddDefaultCharset utf-8", "AddDefaultCharset Off", &["GET /a.txt"]),
    ("FileETag Size", "FileETag None", &["GET /a.txt"]),
    ("DefaultLanguage de", "DefaultLanguage en", &["GET /a.txt"]),
    ("IndexOptions FancyIndexing\nIndexIgnore *.m", "IndexOptions +HTMLTable\nIndexIgnore *.h", &["GET /ix/"]),
    ("Options Indexes FollowSymLinks Includes", "Options -Indexes", &["GET /ix/"]),
    ("AddOutputFilter INCLUDES .inc", "RemoveOutputFilter .inc", &["GET /s.inc"]),
    ("Substitute s/aaa/main/\nAddOutputFilter SUBSTITUTE .sub", "Substitute s/bbb/host/", &["GET /t.sub"]),
    (
        "RemoteIPHeader X-Forwarded-For\nRemoteIPProxiesHeader X-By\nRemoteIPInternalProxy 127.0.0.0/8",
        "RemoteIPTrustedProxy 127.0.0.1",
        &[
            "GET /a.txt|X-Forwarded-For: 10.1.2.3",
            "GET /a.txt|X-Forwarded-For: 8.8.8.8",
            "GET /a.txt|X-Forwarded-For: 9.9.9.9, 127.0.0.9, 5.5.5.5",
        ],
    ),
];

/// More rows, in a second configuration: some of their directives stand in the first one, too.
const MORE: &[Row] = &[
    (
        "LimitRequestFields 3",
        "LimitRequestFields 9",
        &["GET /a.txt|A: 1|B: 2|C: 3", "GET /a.txt|A: 1|B: 2|C: 3|D: 4|E: 5|F: 6|G: 7|H: 8|I: 9"],
    ),
    ("MaxKeepAliveRequests 0\nKeepAliveTimeout 2", "MaxKeepAliveRequests 4", &["GET /a.txt|Connection: keep-alive"]),
    (
        "UserDir ${ROOT}/m/*\nUserDir disabled\nUserDir enabled joe",
        "UserDir enabled ann",
        &["GET /~joe/x.txt", "GET /~ann/x.txt"],
    ),
    ("BrowserMatch Foo V=main", "BrowserMatch Foo V=host", &["GET /a.txt|User-Agent: Foo"]),
    ("SetEnvIfNoCase X-B foo W=main", "SetEnvIfNoCase X-B foo !W", &["GET /a.txt|X-B: FOO"]),
    ("SetEnvIfExpr true E=main", "SetEnvIfExpr true F=host", &["GET /a.txt"]),
    (
        "RedirectPermanent /rp http://main/\nRedirectTemp /rt http://main/",
        "RedirectTemp /rp http://host/",
        &["GET /rp", "GET /rt"],
    ),
    ("ErrorDocument 404 /a.txt\nErrorDocument 403 main", "ErrorDocument 404 default", &["GET /nope", "GET /forb"]),
    (
        "AddEncoding x-foo .foo\nAddLanguage de .de",
        "AddEncoding x-bar .foo\nRemoveLanguage .de",
        &["GET /a.foo", "GET /a.de"],
    ),
    ("DirectorySlash Off", "DirectorySlash On", &["GET /d"]),
    ("MaxRanges 1", "MaxRanges none", &["GET /a.txt|Range: bytes=0-0"]),
    ("SSIUndefinedEcho main", "SSIUndefinedEcho host", &["GET /u.shtml"]),
    ("AddHandler send-as-is .asis", "RemoveHandler .asis", &["GET /t.asis"]),
    ("ForceType x/main", "ForceType None", &["GET /b.txt"]),
];

/// Rows that stand in a configuration of their own: with mod_rewrite `%f` has a value earlier.
const REWRITTEN: &[Row] = &[(
    "RewriteEngine On\nRewriteRule ^/rw /a.txt\nRewriteRule ^/rw2 /b.txt\nRewriteMap mm txt:${ROOT}/map.txt",
    "RewriteEngine On\nRewriteRule ^/rw2 /a.txt\nRewriteRule ^/mapped ${mm:k}",
    &["GET /rw", "GET /rw2", "GET /mapped"],
)];

/// What shows the values in effect.
const SHOWN: &str = "\
Header always set X-Admin \"expr=%{SERVER_ADMIN}\"
Header set X-Env \"%{E}e %{F}e %{U}e %{V}e %{W}e\"
Header set X-Request \"expr=%{HTTP:RH} %{REMOTE_ADDR} %{HTTP:X-Forwarded-For} %{HTTP:X-By}\"
<Directory ${ROOT}>
AllowOverride All
Require all granted
</Directory>
<Location /forb>
Require all denied
</Location>
<IfDefine WITH_FILTER>
<Location /ext>
SetOutputFilter up
</Location>
</IfDefine>
Redirect /ms/x http://merged/
AddOutputFilter INCLUDES .shtml
Options +Includes
";

fn build(site: &Site) {
    for (name, text) in [
        ("a.txt", "aaa"),
        ("b.txt", "bbb"),
        ("sl/x.txt", "sl"),
        ("long.css", &"longlong".repeat(200)),
        ("afn/a.txt", "x"),
        ("afn/.htaccess", "Header set A htaccess"),
        ("afn/.acl", "Header set A acl"),
        ("afn/.own", "Header set A own"),
        ("s.shtml", "<!--#echo var=\"DOCUMENT_NAME\" -->"),
        ("sm.shtml", "<!--mecho var=\"DOCUMENT_NAME\" m-->"),
        ("sh.shtml", "<!--hecho var=\"DOCUMENT_NAME\" m-->"),
        ("s.inc", "<!--#echo var=\"DOCUMENT_NAME\" -->"),
        ("d/a.txt", "da"),
        ("d/b.txt", "db"),
        ("t.tm", "x"),
        ("t.ch", "x"),
        ("ext/a.txt", "abc"),
        ("ix/1.m", ""),
        ("ix/2.h", ""),
        ("ix/3.x", ""),
        ("t.sub", "aaa bbb"),
        ("a.foo", "x"),
        ("a.de", "x"),
        ("u.shtml", "<!--#echo var=\"NOPE\" -->"),
        ("t.asis", "Status: 201 Created\nContent-Type: text/plain\n\nbody"),
        ("px1/a.txt", "file"),
        ("px2/a.txt", "file"),
        ("px3/a.txt", "file"),
        ("px4/a.txt", "file"),
    ] {
        site.page(name, text);
    }
    for place in ["m", "h"] {
        for name in ["x.txt", "only.txt", "joe/x.txt", "ann/x.txt"] {
            site.file(format!("{place}/{name}"), place);
        }
    }
    site.file("map.txt", "k /a.txt\n");
}

#[test]
fn virtual_hosts_inherit_what_apache_s_do() {
    check(TABLE);
    check(MORE);
    check(REWRITTEN);
}

fn check(table: &[Row]) {
    let all = |of: fn(&Row) -> &'static str| table.iter().map(of).fold(String::new(), |all, lines| all + lines + "\n");
    let (main, host) = (all(|row| row.0), all(|row| row.1));
    let requests = table.iter().flat_map(|row| row.2);
    let cases: Vec<Case> = requests.flat_map(|request| ["none", "own"].map(|host| case(host, request))).collect();
    // Without the main server's lines some of them reach a backend that is not there.
    let is_alone = |case: &&Case| !case.name.contains("/px");
    let alone: Vec<Case> = cases.iter().filter(is_alone).cloned().collect();
    let define = if host.contains("ExtFilter") { "Define WITH_FILTER\n" } else { "" };
    for (main, cases) in [(&*main, &cases), ("", &alone)] {
        let configuration = format!(
            "{define}{SHOWN}{main}<VirtualHost *:8080>\nServerName none\n</VirtualHost>\n\
             <VirtualHost *:8080>\nServerName own\n{host}</VirtualHost>\n"
        );
        // Who polls does not matter here: one request in twenty goes to the other modules.
        compare_some("virtual_hosts_inherit_what_apache_s_do", build, &configuration, cases, &lengths(), 20);
    }
}

/// Lengths of answers that filters made.
fn lengths() -> [Allowed; 7] {
    let length = |case, what| Allowed { case, what, entry: "The length of a filtered answer" };
    [
        length("*long.css*", "content-length"),
        length("*/ext/a.txt", "content-length"),
        length("*/ext/a.txt", "transfer-encoding"),
        Allowed { case: "*.shtml", what: "content-length", entry: "The length of a page with includes" },
        Allowed { case: "*.shtml", what: "transfer-encoding", entry: "The length of a page with includes" },
        length("*.inc", "content-length"),
        // The path is decoded before it is refused.
        Allowed { case: "none: GET /sl%2fx.txt", what: "%U", entry: "The path of a refused %2F" },
    ]
}

fn case(host: &str, request: &str) -> Case {
    let Case { name, bytes } = Case::of(request);
    let text = String::from_utf8(bytes).expect("text").replace("Host: localhost", &format!("Host: {host}"));
    Case { name: format!("{host}: {name}"), bytes: text.into_bytes() }
}

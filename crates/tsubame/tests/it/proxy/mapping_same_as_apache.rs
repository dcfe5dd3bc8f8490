//! `ProxyPass` with `mapping`: which paths match before they are decoded, what arrives at the backend, and the path that sections see,
//! compared with Apache.

use crate::harness::mpm::test_name;
use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::Origin;

const CONFIGURATION: &str = "\
    ProxyPass /s/path/not ! mapping=servlet\nProxyPass /s/path http://${ADDR}:9108/S mapping=servlet\n\
    ProxyPass /t/ http://${ADDR}:9108/T/ mapping=servlet\nProxyPass /e%3Fs http://${ADDR}:9108/e%3Fs mapping=encoded\n\
    ProxyPass /e/ http://${ADDR}:9108/E/ mapping=encoded\nProxyPass /d http://${ADDR}:9108/D\n\
    ProxyPass /q http://${ADDR}:9108/Q mapping=encoded nocanon\nProxyPass /v http://${ADDR}:9108/V mapping=servlet nocanon\n\
    ProxyPassMatch ^/m/([^?]*)$ http://${ADDR}:9108/M/$1 mapping=encoded\n\
    ProxyPassMatch ^/w/([^?]*)$ http://${ADDR}:9108/W/$1 mapping=servlet\n\
    SetEnvIf Request_URI ^/[te]/kept no-proxy\n\
    Redirect gone /t/gone\nRedirect gone /e/gone\nErrorDocument 410 /t/page;a\nRedirect gone /gone\n\
    RewriteEngine On\nRewriteRule ^/e/rule - [G]\nRewriteRule ^/d/rule - [F]\n\
    Header always set X-U expr=%{REQUEST_URI}\n\
    <LocationMatch \"^/(s/path|t|e)/secret\">\nRequire all denied\n</LocationMatch>\n\
    <Location /e/a%2Fb>\nRequire all denied\n</Location>\n\
    <Location /loc>\nProxyPass http://${ADDR}:9108/L mapping=servlet\n</Location>\n\
    <Location /enc>\nProxyPass http://${ADDR}:9108/N mapping=encoded\n</Location>\n";

/// Paths, and what becomes of them: the status, the path that arrives at the backend, and `%{REQUEST_URI}`.
#[rustfmt::skip]
const PATHS: &[(&str, u16, &str, &str)] = &[
    ("/s/path", 200, "/S", "/s/path"),
    ("/s/path/", 200, "/S/", "/s/path/"),
    ("/s;a/path/x", 200, "/S/x", "/s/path/x"),
    ("/s;a=b/path;c/x;d", 200, "/S;c/x;d", "/s/path/x"),
    ("/s/path/x;jsessionid=1?q=1", 200, "/S/x;jsessionid=1?q=1", "/s/path/x"),
    ("/s/path/..;/x", 404, "", "/s/path/..;/x"),
    ("/s/path/..;a=b/..;/x", 404, "", "/s/path/..;a=b/..;/x"),
    ("/s/path/a/..;/b", 200, "/S/b", "/s/path/b"),
    ("/s/path/a/..;x/..;/..;/b", 404, "", "/s/path/a/..;x/..;/..;/b"),
    ("/s/path/.;/x", 200, "/S/.;/x", "/s/path/x"),
    ("/s/path/a/.;p/b", 200, "/S/a/.;p/b", "/s/path/a/b"),
    ("/s/path/secret", 403, "", "/s/path/secret"),
    ("/s/path/;/secret", 403, "", "/s/path/secret"),
    ("/s/path/secret;x", 403, "", "/s/path/secret"),
    ("/s/path/sec;ret", 200, "/S/sec;ret", "/s/path/sec"),
    ("/s;/path/secret;a/y", 403, "", "/s/path/secret/y"),
    ("/s/path/x/..;/secret", 403, "", "/s/path/secret"),
    ("/s/path/secre%74;x", 403, "", "/s/path/secret"),
    ("/s/path;x/secret", 403, "", "/s/path/secret"),
    ("/s/pathx", 404, "", "/s/pathx"),
    ("/s/path;x", 200, "/S", "/s/path"),
    ("/s/path;x/", 200, "/S/", "/s/path/"),
    ("/s/path/%2e%2e;/x", 404, "", "/s/path/..;/x"),
    ("/s/path/..%3b/x", 200, "/S/..%3b/x", "/s/path/..%3b/x"),
    ("/s/path/a%2Fb", 200, "/S/a%2Fb", "/s/path/a%2Fb"),
    ("/s/path/a%2fb;x", 200, "/S/a%2fb;x", "/s/path/a%2fb"),
    ("/s/path/a%20b/%7Euser", 200, "/S/a%20b/~user", "/s/path/a%20b/~user"),
    ("/s/path/a%00b", 200, "/S/a%00b", "/s/path/a%00b"),
    ("/s/path/a%zzb", 400, "", "/s/path/a%zzb"),
    ("/s//path/x", 200, "/S/x", "/s/path/x"),
    ("/s/path/x//;//y", 200, "/S/x/;/y", "/s/path/x/y"),
    ("/s/path/x/./y/../z", 200, "/S/x/z", "/s/path/x/z"),
    ("/s/path/not", 404, "", "/s/path/not"),
    ("/s/path/not;a/x", 404, "", "/s/path/not;a/x"),
    ("//s/path/x", 200, "/S/x", "/s/path/x"),
    ("/;/s/path/x", 200, "/S/x", "/s/path/x"),
    ("/t;a/x", 200, "/T/x", "/t/x"),
    ("/t/;a/x", 200, "/T/;a/x", "/t/x"),
    ("/t/secret;x", 403, "", "/t/secret"),
    ("/t/gone;x", 200, "/T/gone;x", "/t/gone"),
    ("/t", 404, "", "/t"),
    ("/t;", 404, "", "/t;"),
    ("/x/..;/t/y", 200, "/T/y", "/t/y"),
    ("/..;/t/y", 404, "", "/..;/t/y"),
    ("/e%3Fs", 200, "/e%3Fs", "/e%3Fs"),
    ("/e%3Fs/x", 200, "/e%3Fs/x", "/e%3Fs/x"),
    ("/e?s", 404, "", "/e"),
    ("/e%3fs", 404, "", "/e?s"),
    ("/e/a%2Fb", 403, "", "/e/a%2Fb"),
    ("/e/a%2fb", 200, "/E/a%2fb", "/e/a%2fb"),
    ("/e/x%41y", 200, "/E/xAy", "/e/xAy"),
    ("/e/%73ecret", 403, "", "/e/secret"),
    ("/e/a%25b", 200, "/E/a%25b", "/e/a%25b"),
    ("/e/a%3Fb?c", 200, "/E/a%3Fb?c", "/e/a%3Fb"),
    ("/e/a%zzb", 400, "", "/e/a%zzb"),
    ("/e/a%00b", 200, "/E/a%00b", "/e/a%00b"),
    ("/e/a//b", 200, "/E/a/b", "/e/a/b"),
    ("/e/..;/x", 200, "/E/..;/x", "/e/..;/x"),
    ("/e/g%6Fne", 200, "/E/gone", "/e/gone"),
    ("/%65/x", 200, "/E/x", "/e/x"),
    ("/d/a%20b;x", 200, "/D/a%20b;x", "/d/a b;x"),
    ("/d/..;/x", 200, "/D/..;/x", "/d/..;/x"),
    ("/d;x/y", 404, "", "/d;x/y"),
    ("/q/a%20b%7e%41", 200, "/Q/a%20b%7e%41", "/q/a%20b~A"),
    ("/q/a/../b%2fc", 200, "/Q/a/../b%2fc", "/q/b%2fc"),
    ("/v/a%20b;x/%7e", 200, "/V/a%20b;x/%7e", "/v/a%20b/~"),
    ("/v/a/..;/b%41", 200, "/V/b%41", "/v/bA"),
    ("/m/a%20b", 200, "/M/a%20b", "/m/a%20b"),
    ("/m/a%2Fb", 200, "/M/a%2Fb", "/m/a%2Fb"),
    ("/m/a%41b/../c", 200, "/M/c", "/m/c"),
    ("/w/a;b/c", 200, "/W/a;b/c", "/w/a;b/c"),
    ("/w;x/a", 404, "", "/w;x/a"),
    ("/w/a/..;/b", 200, "/W/a/..;/b", "/w/a/..;/b"),
    ("/loc/x", 200, "/L/x", "/loc/x"),
    ("/loc;a/x", 404, "", "/loc;a/x"),
    ("/loc/..;/x", 404, "", "/loc/..;/x"),
    ("/loc/a%20b;c", 200, "/L/a%20b;c", "/loc/a%20b"),
    ("/enc/a%2Fb", 200, "/N/a%2Fb", "/enc/a%2Fb"),
    ("/s/path/a%5Cb", 200, "/S/a%5Cb", "/s/path/a%5Cb"),
    ("/s/path/%E4%20", 200, "/S/%E4%20", "/s/path/%E4%20"),
    ("/s/path/a%3Bjs/..;/b", 200, "/S/b", "/s/path/b"),
    ("/e/rule", 200, "/E/rule", "/e/rule"),
    ("/e/kept", 404, "", "/e/kept"),
    ("/t/kept", 404, "", "/t/kept"),
    ("/d/rule", 403, "", "/d/rule"),
];

#[test]
fn paths_are_mapped_before_they_are_decoded() {
    let check = |site: &Site| {
        let _origin = Origin::start(site.ip);
        let mut differences = Vec::new();
        for (path, status, arrives, seen) in PATHS {
            let mut client = Client::connect(site.address());
            let response = client.get(path);
            let text = response.text();
            let at_backend = text.strip_prefix("GET ").and_then(|text| text.split(' ').next()).unwrap_or_default();
            let uri = response.field("X-U").unwrap_or_default();
            let (is, want) = ((response.status, at_backend, uri), (*status, *arrives, *seen));
            if is != want {
                differences.push(format!("{path}: {is:?}, not {want:?}"));
            }
        }
        assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
        // Its page comes from the backend by an internal redirect.
        let gone = Client::connect(site.address()).get("/gone");
        assert!(gone.text().starts_with("GET /T/page;a "), "{}", gone.text());
    };
    oracle::both(test_name!(), |_| {}, CONFIGURATION, check);
}

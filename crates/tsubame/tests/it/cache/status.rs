//! The field `Cache-Status` (RFC 9211).

use super::open_directories;
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;

const CONFIGURATION: &str = "ServerName www.example.com\nCacheRoot ${ROOT}/run/cache\nCacheEnable disk /\nCacheDisable /never\n\
    CacheStatusHeader On\nCacheIgnoreHeaders X\nScriptAlias /c ${ROOT}/cgi-bin/c\n<Directory ${ROOT}/cgi-bin>\n\
    Require all granted\n</Directory>\n";

/// The query says `Cache-Control`; `X-Status` makes it fail.
const SCRIPT: &str = "#!/bin/sh\n[ -n \"$HTTP_X_STATUS\" ] && { printf 'Status: 503\\nContent-Type: a/b\\n\\nno'; exit; }\n\
    [ -n \"$HTTP_IF_NONE_MATCH\" ] && { printf 'Status: 304\\nETag: \"a\"\\n\\n'; exit; }\n\
    printf 'Cache-Control: %s\\nETag: \"a\"\\nContent-Type: a/b\\nVary: X-V\\nCache-Status: %s\\n\\nyes' \"$QUERY_STRING\" 'origin; hit'\n";

/// Requests in a row, and what the responses say; `N` stands for a number.
const ROWS: [(&str, &str); 12] = [
    ("GET /c?max-age=60", "origin; hit, www.example.com; fwd=uri-miss; stored"),
    ("GET /c?max-age=60", "origin; hit, www.example.com; hit; ttl=N"),
    ("HEAD /c?max-age=60", "origin; hit, www.example.com; hit; ttl=N"),
    ("GET /c?max-age=60|X-V: a", "origin; hit, www.example.com; fwd=vary-miss; stored"),
    ("GET /c?max-age=60|Cache-Control: no-cache", "origin; hit, www.example.com; fwd=request; stored"),
    ("GET /c?max-age=60|Authorization: Basic eDp5", "origin; hit, www.example.com; fwd=bypass"),
    ("GET /c?max-age=60|Cache-Control: max-age=0", "origin; hit, www.example.com; fwd=stale; fwd-status=304"),
    (
        "GET /c?max-age=60|Cache-Control: max-age=0|X-Status: 1",
        "origin; hit, www.example.com; fwd=stale; fwd-status=503",
    ),
    ("GET /c?no-store", "origin; hit, www.example.com; fwd=uri-miss"),
    ("GET /never/x", "www.example.com; fwd=bypass"),
    ("GET /nothing", "www.example.com; fwd=uri-miss"),
    ("POST /c?max-age=60", "origin; hit, www.example.com; fwd=method"),
];

#[test]
fn responses_say_what_the_cache_has_done() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        open_directories(&site, &["run", "run/cache"]);
        site.script("c", SCRIPT);
        let server = Server::start(mpm, &site, CONFIGURATION);
        for (request, expected) in ROWS {
            let mut parts = request.split('|');
            let (method, path) = parts.next().and_then(|line| line.split_once(' ')).expect("a line");
            let fields: String = parts.map(|field| format!("{field}\r\n")).collect();
            let mut client = server.client();
            client.send(format!(
                "{method} {path} HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 0\r\n{fields}\r\n"
            ));
            let response = client.response_to(method);
            let said = response.all("Cache-Status").join(", ");
            let (text, number) = said.rsplit_once("ttl=").map_or((said.as_str(), ""), |(text, number)| (text, number));
            assert!(number.is_empty() || number.parse().is_ok_and(|ttl: i64| (1..=60).contains(&ttl)), "{said}");
            let shown = if number.is_empty() { text.to_string() } else { format!("{text}ttl=N") };
            assert_eq!(shown, expected, "{mpm}: {request}");
        }
    }
}

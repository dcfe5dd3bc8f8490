//! What mod_cache stores, and what it answers with, compared with Apache.

use std::fmt::Write;

use super::open_directories;
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;

/// What the query says becomes fields of the response; its body counts the runs of the script.
const SCRIPT: &str = r#"#!/bin/sh
count="${0%/*}/../run/count/${PATH_INFO##*/}"; n=0; [ -e "$count" ] && read n < "$count"; n=$((n + 1)); echo $n > "$count"
set -f; IFS='&'; etag='"v1"'; status=; unchanged=
for word in $QUERY_STRING; do case $word in
new) etag="\"v$n\"";;
esac; done
for word in $QUERY_STRING; do case $word in
always) ;;
etag|new) [ "$HTTP_IF_NONE_MATCH" = "$etag" ] && unchanged=1;;
modified) [ -n "$HTTP_IF_MODIFIED_SINCE" ] && unchanged=1;;
esac; done
[ -n "$unchanged" ] && status=304
[ -n "$HTTP_X_STATUS" ] && { status=$HTTP_X_STATUS; unchanged=; }
[ -n "$status" ] && echo "Status: $status"
for word in $QUERY_STRING; do case $word in
etag|new) echo "ETag: $etag";;
modified) echo 'Last-Modified: Mon, 01 Jan 2001 00:00:00 GMT';;
cc=*) echo "Cache-Control: ${word#cc=}";;
expires=*) echo "Expires: ${word#expires=}" | tr + ' ';;
vary=*) echo "Vary: ${word#vary=}";;
status=*) [ -z "$status" ] && echo "Status: ${word#status=}";;
x=*) echo "${word#x=}" | tr + ' ';;
esac; done
echo "X-Run: $n"
[ -n "$unchanged" ] && { echo; exit; }
printf 'Content-Type: text/plain\n\nrun %s\n' $n
"#;

const CONFIGURATION: &str = "ScriptAlias /c ${ROOT}/cgi-bin/c\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    CacheRoot ${ROOT}/run/cache\nCacheEnable disk /\nCacheDisable /c/never\nCacheHeader On\nCacheDetailHeader On\n\
    CacheIgnoreHeaders X-Ignored\nCacheIgnoreURLSessionIdentifiers sid\nSetEnvIf X-No-Cache . no-cache\n\
    Header set X-Set %{unique}e env=unique\n";

/// Requests in a row, which see what those before them have left. Each row has a path of its own.
const ROWS: &[&[&str]] = &[
    &[
        "GET ?cc=max-age=60",
        "GET ?cc=max-age=60",
        "HEAD ?cc=max-age=60",
        "GET ?cc=max-age=60|Cache-Control: no-cache",
        "GET ?cc=max-age=60",
    ],
    &[
        "GET ?cc=max-age=60&etag",
        "GET ?cc=max-age=60&etag|If-None-Match: \"v1\"",
        "GET ?cc=max-age=60&etag|Range: bytes=1-2",
    ],
    // The origin confirms, or does not.
    &[
        "GET ?cc=max-age=0&etag",
        "GET ?cc=max-age=0&etag",
        "GET ?cc=max-age=0&etag|If-None-Match: \"v1\"",
        "GET ?cc=max-age=0&etag|Range: bytes=1-2",
        "HEAD ?cc=max-age=0&etag",
    ],
    &["GET ?cc=max-age=0&new", "GET ?cc=max-age=0&new", "GET ?cc=max-age=0&new|If-None-Match: \"v0\""],
    &["GET ?cc=max-age=0&modified", "GET ?cc=max-age=0&modified"],
    &["GET ?cc=max-age=0", "GET ?cc=max-age=0"],
    &["GET ?cc=max-age=60,no-cache&etag", "GET ?cc=max-age=60,no-cache&etag"],
    &[
        "GET ?cc=max-age=60&etag",
        "GET ?cc=max-age=60&etag|Cache-Control: max-age=0",
        "GET ?cc=max-age=60&etag|Cache-Control: min-fresh=99",
        "GET ?cc=max-age=60&etag|Pragma: no-cache",
    ],
    &[
        "GET ?cc=max-age=0&etag",
        "GET ?cc=max-age=0&etag|Cache-Control: max-stale",
        "GET ?cc=max-age=0&etag|Cache-Control: max-stale=9",
    ],
    &["GET ?cc=max-age=0,must-revalidate&etag", "GET ?cc=max-age=0,must-revalidate&etag|Cache-Control: max-stale"],
    &["GET ?cc=s-maxage=60,max-age=0", "GET ?cc=s-maxage=60,max-age=0"],
    &["GET ?cc=s-maxage=0,max-age=60&etag", "GET ?cc=s-maxage=0,max-age=60&etag"],
    // What is not stored.
    &["GET ?cc=no-store,max-age=60", "GET ?cc=no-store,max-age=60"],
    &["GET ?cc=private,max-age=60", "GET ?cc=private,max-age=60"],
    &["GET ?cc=max-age=60|X-No-Cache: 1", "GET ?cc=max-age=60"],
    &["GET ?cc=max-age=60|Cache-Control: no-store", "GET ?cc=max-age=60"],
    &["GET ?cc=max-age=60&vary=*", "GET ?cc=max-age=60&vary=*"],
    &["GET ?etag", "GET ?etag"],
    &["GET ", "GET "],
    &["GET ?cc=max-age=60&status=404", "GET ?cc=max-age=60&status=404"],
    &["GET ?status=404&etag", "GET ?status=404&etag"],
    &["GET ?cc=max-age=60&status=302", "GET ?cc=max-age=60&status=302"],
    &["GET ?expires=Mon,+01+Jan+2001+00:00:00+GMT&etag", "GET ?expires=Mon,+01+Jan+2001+00:00:00+GMT&etag"],
    &["GET ?expires=Fri,+01+Jan+2100+00:00:00+GMT", "GET ?expires=Fri,+01+Jan+2100+00:00:00+GMT"],
    &["GET ?expires=never&etag", "GET ?expires=never&etag"],
    &["GET /never?cc=max-age=60", "GET /never?cc=max-age=60"],
    &["OPTIONS ?cc=max-age=60", "GET ?cc=max-age=60"],
    // Only the head is there.
    &["HEAD ?cc=max-age=61", "HEAD ?cc=max-age=61"],
    &["HEAD ?cc=max-age=60", "GET ?cc=max-age=60", "HEAD ?cc=max-age=60"],
    // What varies.
    &[
        "GET ?cc=max-age=60&vary=X-V",
        "GET ?cc=max-age=60&vary=X-V",
        "GET ?cc=max-age=60&vary=X-V|X-V: a",
        "GET ?cc=max-age=60&vary=X-V|X-V: a",
        "GET ?cc=max-age=60&vary=X-V|X-V: b",
        "GET ?cc=max-age=60&vary=X-V",
    ],
    &[
        "GET ?cc=max-age=60&vary=X-A,X-B|X-A: x|X-B: y",
        "GET ?cc=max-age=60&vary=X-A,X-B|X-A: x|X-B: y",
        "GET ?cc=max-age=60&vary=X-A,X-B|X-A: xx-by",
        "GET ?cc=max-age=60&vary=X-A,X-B|X-A: x, y",
    ],
    &["GET ?cc=max-age=0&etag&vary=X-V|X-V: a", "GET ?cc=max-age=0&etag&vary=X-V|X-V: a"],
    // Fields that are not stored.
    &["GET ?cc=max-age=60&x=X-Ignored:+1", "GET ?cc=max-age=60&x=X-Ignored:+1"],
    &["GET ?cc=max-age=60,private=X-Own&x=X-Own:+1", "GET ?cc=max-age=60,private=X-Own&x=X-Own:+1"],
    &["GET ?cc=max-age=60&x=Set-Cookie:+a=b", "GET ?cc=max-age=60&x=Set-Cookie:+a=b"],
    &["GET ?cc=max-age=60&x=Age:+30", "GET ?cc=max-age=60&x=Age:+30"],
    // Keys.
    &["GET ?cc=max-age=60&sid=1", "GET ?cc=max-age=60&sid=2"],
    &["GET ?cc=max-age=60", "GET ?cc=max-age=60|Host: other.example", "GET ?cc=max-age=60|Host: LOCALHOST:8080"],
    // Only what is stored.
    &[
        "GET ?cc=max-age=60|Cache-Control: only-if-cached",
        "GET ?cc=max-age=60",
        "GET ?cc=max-age=60|Cache-Control: only-if-cached",
    ],
    // Errors.
    &["GET ?cc=max-age=0&etag", "GET ?cc=max-age=0&etag|X-Status: 503", "GET ?cc=max-age=0&etag"],
    &[
        "GET ?cc=max-age=0,must-revalidate&etag",
        "GET ?cc=max-age=0,must-revalidate&etag|X-Status: 503",
        "GET ?cc=max-age=0,must-revalidate&etag",
    ],
    &["GET ?cc=max-age=0&etag", "GET ?cc=max-age=0&etag|X-Status: 404", "GET ?cc=max-age=0&etag"],
    // Changes.
    &["GET ?cc=max-age=60", "PUT ?cc=max-age=60", "GET ?cc=max-age=60", "GET ?cc=max-age=60"],
    &["GET ?cc=max-age=60", "DELETE ?cc=max-age=60|X-Status: 400", "GET ?cc=max-age=60"],
    &["GET ?cc=max-age=60&etag", "GET ?cc=max-age=60&etag|If-None-Match: \"x\""],
    // Authorization.
    &[
        "GET ?cc=max-age=60|Authorization: Basic eDp5",
        "GET ?cc=max-age=60",
        "GET ?cc=max-age=60|Authorization: Basic eDp5",
    ],
    &["GET ?cc=max-age=60,public|Authorization: Basic eDp5", "GET ?cc=max-age=60,public"],
];

/// Requests whose answers differ on purpose (docs/differences.md, "Stored responses"), and what of them.
const MEANT: [(&str, &str); 4] = [
    ("HEAD ?cc=max-age=61", "HIT"),
    ("GET ?cc=max-age=60&etag|If-None-Match: \"x\"", "HIT"),
    ("GET ?cc=max-age=0&etag|X-Status: 503", "stale content returned"),
    ("PUT ?cc=max-age=60", "cache invalidated by PUT"),
];

/// Fields of the answers that are compared.
const FIELDS: [&str; 14] = [
    "X-Cache",
    "X-Cache-Detail",
    "Cache-Control",
    "ETag",
    "Last-Modified",
    "Vary",
    "Warning",
    "Expires",
    "Content-Range",
    "X-Run",
    "X-Ignored",
    "X-Own",
    "Set-Cookie",
    "Location",
];

/// The answers to the requests of a row: status, fields and body.
fn answers(site: &Site, number: usize, row: &[&str]) -> Vec<String> {
    let answer = |request: &&str| {
        let mut parts = request.split('|');
        let (method, target) = parts.next().expect("a line").split_once(' ').expect("a method and a target");
        let fields: Vec<&str> = parts.collect();
        let host = if fields.iter().any(|field| field.starts_with("Host:")) { "" } else { "Host: localhost\r\n" };
        let (path, query) = target.split_once('?').map_or((target, ""), |(path, query)| (path, query));
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let mut text = format!("{method} /c{path}/{number}{query} HTTP/1.1\r\n{host}Connection: close\r\n");
        fields.iter().for_each(|field| text += &format!("{field}\r\n"));
        let mut client = Client::connect(site.address());
        client.send(format!("{text}\r\n"));
        let (response, _) = client.beginning_to(method).expect("an answer");
        let mut text = format!("{}", response.status);
        for name in FIELDS {
            let values = response.all(name);
            values.iter().for_each(|value| write!(text, "; {name}: {value}").expect("text"));
        }
        // Time may pass between two answers.
        let age = response.field("Age").map_or("none", |age| if age.len() == 1 { "new" } else { "old" });
        let body = if response.status >= 400 { String::new() } else { response.text() };
        format!("{text}; Age: {age}; {}", body.trim())
    };
    row.iter().map(answer).collect()
}

fn build(site: &Site) {
    site.script("c", SCRIPT);
    open_directories(site, &["run", "run/count", "run/cache"]);
}

fn check(rows: &[&[&str]], configuration: &str) {
    let all = |site: &Site| -> Vec<Vec<String>> {
        rows.iter().enumerate().map(|(number, row)| answers(site, number, row)).collect()
    };
    let theirs = {
        let site = Site::new();
        build(&site);
        let _apache = Apache::start(&site, configuration);
        all(&site)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        build(&site);
        let server = Server::start(mpm, &site, configuration);
        server.allow_everything("the answers say what went wrong");
        let mut differences = String::new();
        for ((row, ours), theirs) in rows.iter().zip(all(&site)).zip(&theirs) {
            for ((request, ours), theirs) in row.iter().zip(ours).zip(theirs) {
                if ours != *theirs && !MEANT.iter().any(|(meant, what)| meant == request && ours.contains(what)) {
                    writeln!(differences, "== {request}\n-- ours\n{ours}\n-- Apache\n{theirs}").expect("text");
                }
            }
        }
        assert!(differences.is_empty(), "{mpm}:\n{differences}");
    }
}

#[test]
fn responses_before_the_phases() {
    if oracle::is_there("responses_before_the_phases") {
        check(ROWS, CONFIGURATION);
    }
}

#[test]
fn responses_after_the_phases() {
    if oracle::is_there("responses_after_the_phases") {
        check(ROWS, &format!("{CONFIGURATION}CacheQuickHandler Off\n"));
    }
}

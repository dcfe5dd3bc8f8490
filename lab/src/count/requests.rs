//! The requests that are counted: a table.

use std::net::SocketAddr;
use std::path::Path;

use crate::experiments::profile::Profile;
use crate::experiments::workload::{MEDIUM, Protocol, SMALL, SMALL_FILE};
use crate::load::plan::Request;
use crate::machine::error::{Context as _, Result, write_file};
use crate::machine::script::{HELLO_BARE, PAGE, Script};

/// A request, the configuration of its server, and the status of its response.
#[derive(Debug)]
pub(super) struct CountedRequest {
    /// The name on the command line and in files of ceilings.
    pub(super) id: &'static str,
    /// The configuration.
    pub(super) profile: Profile,
    /// The path, without the leading slash.
    path: &'static str,
    /// Lines of its head besides `Host`, each with its end.
    fields: &'static str,
    /// How many heads take turns, which differ in their `Referer`; with only one there is none.
    heads: usize,
    /// How many files take turns, instead of that at `path`.
    files: usize,
    /// The status that shows that the server has done what is counted.
    pub(super) status: u16,
    /// How the request is sent, over a connection that is kept.
    pub(super) protocol: Protocol,
    /// The script that is run.
    pub(super) script: Option<&'static Script>,
}

/// What a browser sends with each request.
const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Connection: keep-alive\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nPriority: u=0, i\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef\r\n";

/// So many heads, or files, that none comes twice in a count.
const CROWD: usize = 1000;

/// Where the files are that take turns, and how their names end.
const FILES: (&str, &str) = ("files", ".txt");

/// A directory in a directory in a directory, each with an `.htaccess` file.
const DEEP: &str = "one/two/three";

/// A GET of the small file under the bare configuration, from which the others differ.
const PLAIN: CountedRequest = CountedRequest {
    id: "small",
    profile: Profile::Bare,
    path: SMALL.name,
    fields: "",
    heads: 1,
    files: 1,
    status: 200,
    protocol: Protocol::Clear,
    script: None,
};

/// The table. Applications that the server starts and keeps are missing: pidfd_open(2), which that takes, is unknown to Debian 12's valgrind.
pub(super) static REQUESTS: [CountedRequest; 22] = [
    PLAIN,
    CountedRequest { id: "first", files: CROWD, ..PLAIN },
    CountedRequest { id: "browser", fields: BROWSER, ..PLAIN },
    CountedRequest { id: "browsers", fields: BROWSER, heads: 7, ..PLAIN },
    CountedRequest { id: "crowd", fields: BROWSER, heads: CROWD, ..PLAIN },
    CountedRequest { id: "16k", path: MEDIUM.name, ..PLAIN },
    CountedRequest { id: "not-modified", fields: "If-None-Match: *\r\n", status: 304, ..PLAIN },
    CountedRequest { id: "range", fields: "Range: bytes=4-10\r\n", status: 206, ..PLAIN },
    CountedRequest { id: "redirect", path: "one", status: 301, ..PLAIN },
    CountedRequest { id: "missing", path: "nothing", status: 404, ..PLAIN },
    CountedRequest { id: "htaccess", profile: Profile::Htaccess, path: "one/two/three/small.txt", ..PLAIN },
    CountedRequest { id: "debian", profile: Profile::Debian, ..PLAIN },
    CountedRequest { id: "tls", profile: Profile::Tls, protocol: Protocol::Tls, ..PLAIN },
    CountedRequest { id: "http2", profile: Profile::Http2, protocol: Protocol::Http2 { streams: 1 }, ..PLAIN },
    CountedRequest { id: "http2-10", profile: Profile::Http2, protocol: Protocol::Http2 { streams: 10 }, ..PLAIN },
    CountedRequest {
        id: "http2-browsers",
        fields: BROWSER,
        heads: 7,
        profile: Profile::Http2,
        protocol: Protocol::Http2 { streams: 10 },
        ..PLAIN
    },
    CountedRequest {
        id: "http2-crowd",
        fields: BROWSER,
        heads: CROWD,
        profile: Profile::Http2,
        protocol: Protocol::Http2 { streams: 10 },
        ..PLAIN
    },
    CountedRequest { id: "cgi", profile: Profile::Cgi, path: "cgi-bin/hello-bare", script: Some(&HELLO_BARE), ..PLAIN },
    CountedRequest { id: "proxied", profile: Profile::Proxied, ..PLAIN },
    CountedRequest { id: "cached", profile: Profile::Cached, ..PLAIN },
    CountedRequest { id: "php-fpm", profile: Profile::PhpFpm, path: "cgi-bin/page.php", script: Some(&PAGE), ..PLAIN },
    CountedRequest {
        id: "php-kept",
        profile: Profile::PhpKept,
        path: "cgi-bin/page.php",
        script: Some(&PAGE),
        ..PLAIN
    },
];

impl CountedRequest {
    /// Its bytes, with each of its heads.
    pub(super) fn all(&self, server: SocketAddr) -> Vec<Request> {
        let referer = |number| match self.heads {
            1 => String::new(),
            _ => format!("Referer: http://{server}/{number}\r\n"),
        };
        let path = |number| match self.files {
            1 => self.path.to_string(),
            _ => format!("{}/{number}{}", FILES.0, FILES.1),
        };
        let head = |number| {
            let (path, fields, referer) = (path(number), self.fields, referer(number));
            format!("GET /{path} HTTP/1.1\r\nHost: {server}\r\n{fields}{referer}\r\n")
        };
        (0..self.heads.max(self.files))
            .map(|number| Request { bytes: head(number).into_bytes().into(), bodiless: false })
            .collect()
    }
}

/// Makes the directories that a request goes through, and the files that take turns.
pub(super) fn write_directories(documents: &Path) -> Result<()> {
    let deep = documents.join(DEEP);
    std::fs::create_dir_all(&deep).context(|| format!("create {}", deep.display()))?;
    write_file(deep.join(SMALL.name), SMALL_FILE)?;
    let files = documents.join(FILES.0);
    std::fs::create_dir_all(&files).context(|| format!("create {}", files.display()))?;
    for number in 0..CROWD {
        write_file(files.join(format!("{number}{}", FILES.1)), SMALL_FILE)?;
    }
    for directory in deep.ancestors().take_while(|directory| *directory != documents) {
        write_file(directory.join(".htaccess"), "Options -Indexes\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (at, request) in REQUESTS.iter().enumerate() {
            assert!(REQUESTS[..at].iter().all(|other| other.id != request.id), "{}", request.id);
        }
        let texts = |id: &str| -> Vec<String> {
            let request = REQUESTS.iter().find(|request| request.id == id).unwrap();
            let all = request.all(SocketAddr::from(([127, 0, 0, 1], 80)));
            all.iter().map(|request| String::from_utf8(request.bytes.to_vec()).unwrap()).collect()
        };
        assert_eq!(texts("range"), ["GET /small.txt HTTP/1.1\r\nHost: 127.0.0.1:80\r\nRange: bytes=4-10\r\n\r\n"]);
        assert_eq!(texts("first")[7], "GET /files/7.txt HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
        let browsers = texts("browsers");
        assert_eq!(browsers.len(), 7);
        assert!(browsers[3].ends_with("\r\nReferer: http://127.0.0.1:80/3\r\n\r\n"), "{}", browsers[3]);
    }
}

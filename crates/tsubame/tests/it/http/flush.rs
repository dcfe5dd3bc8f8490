//! Answers whose pieces are to arrive one by one, through filters that would otherwise gather them.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::harness::mpm::under_every_mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::scripts::fcgid::{CONFIGURATION, site};
use crate::scripts::proxy_fcgi::Program;

/// Filters, and the codings that the client accepts. Sed is not among them: it keeps each line, in Apache too, until it
/// knows whether another follows.
const CASES: [(&str, &str); 9] = [
    ("DEFLATE", "gzip"),
    ("DEFLATE", "identity"),
    ("BROTLI_COMPRESS", "br"),
    ("ZSTD_COMPRESS", "zstd"),
    ("BUFFER", "identity"),
    ("SUBSTITUTE;DEFLATE", "gzip"),
    ("SUBSTITUTE;BROTLI_COMPRESS", "br"),
    ("INCLUDES;DEFLATE", "gzip"),
    ("BUFFER;DEFLATE", "gzip"),
];

/// A section for each case, below `/0/`, `/1/` and so on.
fn sections() -> String {
    let section = |(number, (filters, _)): (usize, &(&str, &str))| {
        let rules = "Substitute s/x/y/\nOptions +Includes";
        format!("<Location /{number}/>\n{rules}\nSetOutputFilter {filters}\n</Location>\n")
    };
    CASES.iter().enumerate().map(section).collect()
}

/// Reads an answer whose application stops in the middle: its first line must come before the application may go on.
fn two_pieces(server: &Server<'_>, site: &Site, path: &str, mark: &str, accept: &str) {
    let url = format!("http://{}{path}", server.address());
    let accept = format!("Accept-Encoding: {accept}");
    let mut curl = Command::new("curl");
    curl.args(["-sSNm", "20", "--compressed", "-H", &accept, &url]).stdout(Stdio::piped());
    let mut curl = curl.spawn().expect("curl");
    let (mut output, mut read) = (curl.stdout.take().expect("its output"), vec![0; 5]);
    output.read_exact(&mut read).unwrap_or_else(|error| panic!("no first line of {path} {accept}: {error}"));
    assert_eq!(read, b"half\n", "{path} {accept}");
    site.reached(mark);
    site.go_on(mark);
    read.clear();
    output.read_to_end(&mut read).expect("the rest");
    assert_eq!(String::from_utf8_lossy(&read), "whole\n", "{path} {accept}");
    assert!(curl.wait().expect("its status").success(), "{path} {accept}");
}

/// `half=NAME`, in whole lines.
fn application() -> String {
    crate::harness::fastcgi_programs::APPLICATION.replace(
        "print 'half'; STDOUT->flush; stay($word)",
        "print \"half\\n\"; $request->Flush; stay($word); print \"whole\\n\"",
    )
}

under_every_mpm! {
    /// `FcgidOutputBufferSize 0` asks for that.
    fn applications_of_mod_fcgid(mpm: Mpm) {
        let Some(site) = site() else { return };
        for number in 0..CASES.len() {
            site.program(&format!("{number}/a.fcgi"), &application());
        }
        let text = format!("{CONFIGURATION}FcgidOutputBufferSize 0\n{}", sections());
        let server = Server::start(mpm, &site, &text);
        for (number, (_, accept)) in CASES.iter().enumerate() {
            let mark = format!("m{number}");
            two_pieces(&server, &site, &format!("/{number}/a.fcgi?half={mark}"), &mark, accept);
        }
    }

    /// `flushpackets=on` asks for that.
    fn applications_behind_a_proxy(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("outside.fcgi", &application());
        let socket = site.root.join("marks/outside.socket");
        let open = format!("use FCGI; use POSIX; my $s = FCGI::OpenSocket('{0}', 5); POSIX::dup2($s, 0); exec '{1}'",
            socket.display(), site.root.join("htdocs/outside.fcgi").display());
        let _outside = Program::start(Command::new("perl").args(["-e", &open]), &socket);
        let text = format!("SetOutputFilter DEFLATE\n\
            ProxyPass /px/ unix:{}|fcgi://localhost${{DOCS}}/ flushpackets=on\n", socket.display());
        let server = Server::start(mpm, &site, &text);
        two_pieces(&server, &site, "/px/outside.fcgi?half=out", "out", "gzip");
    }

    /// The client of a stream of events waits for each of them, whoever sends it.
    fn events(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.script("events", "#!/bin/sh\nprintf 'Content-Type: text/event-stream; charset=utf-8\\n\\nhalf\\n'\n\
            printf %s $$ > ../marks/e.in; while [ ! -e ../marks/e.go ]; do sleep 0.01; done; echo whole\n");
        let server = Server::start(mpm, &site, "SetOutputFilter DEFLATE\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
            ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n");
        two_pieces(&server, &site, "/cgi-bin/events", "e", "gzip");
    }
}

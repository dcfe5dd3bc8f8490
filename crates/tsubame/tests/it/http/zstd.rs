//! Compression with Zstandard, which Apache does not have: curl is the client that expands it.

use std::process::Command;

use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;

const CONFIGURATION: &str = "SetOutputFilter ZSTD_COMPRESS\nZstdFilterNote note\nZstdFilterNote input in\n\
    LogFormat \"%U %{in}n %{note}n\" zstd\nCustomLog ${ROOT}/logs/access zstd\n\
    <Location /plain.txt>\nSetEnv no-zstd\n</Location>\nAddOutputFilterByType ZSTD_COMPRESS;DEFLATE text/html";

/// The decompressed content that curl gets for a path.
fn expanded(server: &Server<'_>, path: &str) -> Vec<u8> {
    let url = format!("http://{}{path}", server.address());
    let output = Command::new("curl").args(["-sS", "--compressed", "-H", "Accept-Encoding: zstd", &url]).output();
    let output = output.expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn bodies_of_all_sizes() {
    let texts = [0, 1, 300, 8096, 100_000, 1_000_000].map(|length| {
        let numbers =
            (0..).flat_map(|number: u32| format!("{} ", number.wrapping_mul(2_654_435_761) >> 20).into_bytes());
        numbers.take(length).collect::<Vec<u8>>()
    });
    let site = Site::new();
    for (index, text) in texts.iter().enumerate() {
        site.page(&format!("{index}.txt"), text);
    }
    site.page("plain.txt", "plain");
    for level in ["", "ZstdCompressionLevel 1", "ZstdCompressionLevel 22"] {
        let server = Server::start(Mpm::Percore, &site, &format!("{CONFIGURATION}\n{level}"));
        for (index, text) in texts.iter().enumerate() {
            let path = format!("/{index}.txt");
            assert!(expanded(&server, &path) == *text, "{path} {level}");
            let asks = |accept: &str| {
                server.client().request(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n"))
            };
            let coded = asks("br, zstd;q=0.5");
            assert_eq!(coded.field("Content-Encoding"), Some("zstd"), "{path}");
            assert_eq!(coded.field("Vary"), Some("Accept-Encoding"), "{path}");
            assert!(coded.field("ETag").expect("a tag").ends_with("-zstd\""), "{coded:?}");
            // Numbers need half of their letters at most.
            assert!(text.len() < 1000 || coded.body.len() < text.len() * 2 / 3, "{} {level}", coded.body.len());
            let known = asks("zstd\r\nIf-None-Match: *");
            assert_eq!((known.status, known.field("Vary")), (304, Some("Accept-Encoding")), "{path}");
            assert_eq!(known.field("ETag"), coded.field("ETag"), "{path}");
            let plain = asks("zstd;q=0");
            assert_eq!((plain.field("Content-Encoding"), &plain.body), (None, text));
        }
        assert_eq!(expanded(&server, "/plain.txt"), b"plain");
        let log =
            until("the last line", || Some(site.read("logs/access")).filter(|log| log.ends_with("/plain.txt - -\n")));
        assert!(log.contains("/5.txt 1000000 "), "{log}");
    }
}

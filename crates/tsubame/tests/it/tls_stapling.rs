//! Answers of certificate authorities at handshakes, with `openssl ocsp` as the responder and `openssl s_client` as the client.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::mpm::Mpm;
use crate::needs;
use crate::server::Server;
use crate::site::{PORT, Site};
use crate::wait::until;

/// Runs openssl in the site's directory of certificates.
fn openssl(site: &Site, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(site.root.join("conf")).output().expect("openssl");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a certificate of it with the number 5, of X.509 version 1, as openssl makes it when it is asked for nothing else.
fn certificates(site: &Site) {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let root = ["req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "90"];
    openssl(site, &[&root[..], &curve].concat());
    openssl(site, &[&["req", "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=localhost"][..], &curve].concat());
    let sign =
        ["x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "5", "-days", "90"];
    openssl(site, &[&sign[..], &["-out", "leaf.pem"]].concat());
    site.file("conf/tls.pem", format!("{}{}", site.read("conf/leaf.pem"), site.read("conf/ca.pem")));
}

/// A responder that says of the certificate what its table has; dropping it ends it.
struct Responder(Child, u16);

impl Responder {
    /// `state`: V or R, and since when it has been revoked.
    fn start(site: &Site, state: &str) -> Responder {
        site.file("conf/index", format!("{state}\t05\tunknown\t/CN=localhost\n"));
        let arguments =
            ["-index", "index", "-rsigner", "ca.pem", "-rkey", "ca.key", "-CA", "ca.pem", "-port", "0", "-ndays", "1"];
        let mut process = Command::new("openssl")
            .arg("ocsp")
            .args(arguments)
            .current_dir(site.root.join("conf"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        // `ACCEPT [::]:12345 PID=1`
        let mut lines = BufReader::new(process.stdout.take().expect("output")).lines().map_while(Result::ok);
        let port = |line: String| line.strip_prefix("ACCEPT ")?.split(' ').next()?.rsplit(':').next()?.parse().ok();
        let port = lines.find_map(port);
        std::thread::spawn(move || lines.for_each(drop));
        Responder(process, port.expect("a port"))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn configuration(port: u16) -> String {
    format!(
        "<VirtualHost *:{PORT}>\nSSLEngine on\nSSLCertificateFile conf/tls.pem\nSSLCertificateKeyFile conf/tls.key\n\
         SSLUseStapling on\nSSLStaplingForceURL http://127.0.0.1:{port}/ocsp\n</VirtualHost>"
    )
}

/// The stapled OCSP status that a client gets with its handshake.
fn status(server: &Server<'_>) -> String {
    let address = server.address().to_string();
    let arguments = ["s_client", "-connect", &address, "-servername", "localhost", "-status"];
    let output = Command::new("openssl").args(arguments).stdin(Stdio::null()).output().expect("openssl");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |start: &str| said.lines().map(str::trim).find(|line| line.starts_with(start)).map(str::to_string);
    line("OCSP Response Status").or_else(|| line("OCSP response:")).unwrap_or_default()
}

#[test]
fn answers_of_the_authority_are_stapled() {
    if !needs::OPENSSL.is_there("answers_of_the_authority_are_stapled") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "V\t350101000000Z\t");
    let server = Server::start(Mpm::Event, &site, &configuration(responder.1));
    until("a stapled response", || (status(&server) == "OCSP Response Status: successful (0x0)").then_some(()));
    // It is cached: there is no request to the responder for each handshake.
    drop(responder);
    assert_eq!(status(&server), "OCSP Response Status: successful (0x0)");
}

/// Handshakes continue without it: stapling a response that revokes the certificate helps no client.
#[test]
fn nothing_is_stapled_where_there_is_nothing_good() {
    if !needs::OPENSSL.is_there("nothing_is_stapled_where_there_is_nothing_good") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "R\t350101000000Z\t260101000000Z");
    let server = Server::start(Mpm::Percore, &site, &configuration(responder.1));
    server.announce("AH01980: OCSP response for the certificate");
    until("the log's line", || server.log().contains("the certificate has been revoked").then_some(()));
    assert_eq!(status(&server), "OCSP response: no response sent");
}

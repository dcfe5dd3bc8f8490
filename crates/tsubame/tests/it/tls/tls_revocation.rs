//! Revoked clients' certificates: lists of every version, which a running server reads again, and responders that it asks.

use std::process::{Command, Stdio};

use crate::cli::ctl::ctl;
use crate::harness::mpm::{Mpm, under_every_mpm, under_percore_and};
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::tls::tls_client::{COMMON, beside_in, curl, is_there, said, site};
use crate::tls::tls_stapling::Responder;

const REQUIRED: &str = "SSLEngine on\nSSLCACertificateFile ${ROOT}/certs/root.pem\nSSLVerifyClient require\n";

/// Runs lines of a shell among the certificates.
fn sh(site: &Site, lines: &str) {
    let output =
        Command::new("/bin/sh").args(["-ec", lines]).current_dir(site.root.join("certs")).output().expect("sh");
    assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes lists of version 1, as `openssl ca` does without a number for them: `old.pem`, `old-other.pem` with a foreign
/// authority's name and signature, `old-stale.pem`.
const OLD_LISTS: &str = "
    sed '/^crlnumber/d' ca.cnf > old.cnf
    openssl ca -config old.cnf -gencrl -out old.pem
    openssl crl -in old.pem -noout -text | grep -q 'Version 1 '
    openssl ca -config old.cnf -gencrl -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z -out old-stale.pem
    sed 's/root\\./other./' old.cnf > old-other.cnf
    openssl ca -config old-other.cnf -gencrl -out old-other.pem
    cat old.pem old-other.pem crl.pem > mixed.pem
    chmod a+r *.pem";

/// The answers to clients with these certificates.
fn answers(site: &Site) -> Vec<(&'static str, String)> {
    let certificates = ["good", "plain", "revoked", "chain", "foreign", "expired"];
    certificates.map(|certificate| (certificate, said(&curl(site, certificate, &[], "/")).1)).to_vec()
}

#[test]
fn old_lists_are_looked_into_as_by_apache() {
    let test = "old_lists_are_looked_into_as_by_apache";
    if !is_there(test) || !oracle::is_there(test) {
        return;
    }
    let site = site();
    sh(&site, OLD_LISTS);
    for (file, check) in [
        ("old.pem", "leaf"),
        ("old.pem", "chain no_crl_for_cert_ok"),
        ("old.pem", "chain"),
        ("old-stale.pem", "leaf"),
        ("old-other.pem", "leaf"),
        ("old-other.pem", "leaf no_crl_for_cert_ok"),
        ("mixed.pem", "leaf"),
    ] {
        let lines =
            format!("SSLVerifyDepth 2\nSSLCARevocationFile ${{ROOT}}/certs/{file}\nSSLCARevocationCheck {check}\n");
        let [ours, theirs] = beside_in(&site, &format!("{REQUIRED}{lines}"), answers);
        assert_eq!(ours, theirs, "{file} {check}");
    }
}

under_percore_and! { worker:
    /// A certificate is revoked while the server runs: not even a session of it goes on.
    fn lists_are_read_again_without_a_restart(mpm: Mpm) {
        if !is_there("lists_are_read_again_without_a_restart") {
            return;
        }
        let site = site();
        sh(&site, "sed '/^crlnumber/d' ca.cnf > old.cnf; openssl ca -config old.cnf -gencrl -out current.pem");
        let lines = "SSLCARevocationFile ${ROOT}/certs/current.pem\nSSLCARevocationCheck leaf\n";
        let server = Server::start(mpm, &site, &format!("{COMMON}{REQUIRED}{lines}"));
        ["AH02008: ", "AH02568: ", "AH02276: ", "certificates were read again: "].iter().for_each(|text| server.allow(*text));
        let resume = |session: &str| {
            let command = format!(
                "printf 'GET / HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' | openssl s_client -connect {} \
                 -servername localhost -cert good.pem -key good.key -quiet -tls1_2 {session} session", server.address()
            );
            let output = Command::new("/bin/sh").args(["-c", &command]).current_dir(site.root.join("certs")).output();
            String::from_utf8_lossy(&output.expect("openssl").stdout).contains("HTTP/1.1 200 ")
        };
        assert!(resume("-sess_out") && resume("-sess_in"));
        for (config, revoke, status) in [("old.cnf", "good", "000"), ("ca.cnf", "plain", "000")] {
            assert_eq!(said(&curl(&site, revoke, &[], "/")).1, "200", "{revoke}");
            sh(&site, &format!("openssl ca -config {config} -revoke {revoke}.pem; openssl ca -config {config} -gencrl -out current.pem"));
            let (output, errors, code) = ctl(&site, &["reload-certificates"]);
            assert_eq!((errors.as_str(), code), ("", Some(0)));
            assert!(output.ends_with("1 revocation list in effect\n"), "{output}");
            for _ in 0..4 {
                assert_eq!(said(&curl(&site, revoke, &[], "/")).1, status, "{revoke}");
            }
        }
        assert!(!resume("-sess_in"));
        site.file("certs/current.pem", "junk\n");
        server.announce("certificates were not read again: AH01901: ");
        assert_eq!(ctl(&site, &["reload-certificates"]).2, Some(1));
        assert_eq!(said(&curl(&site, "good", &[], "/")).1, "000");
    }
}

/// What a responder has to say about the certificates; nothing about `foreign` and `deep`.
fn table(site: &Site) {
    let lines = [
        ("V", "", "80FF01", "good"),
        ("V", "", "21", "plain"),
        ("R", "260101000000Z", "23", "revoked"),
        ("V", "", "10", "inter"),
    ];
    let line =
        |(state, since, serial, name)| format!("{state}\t350101000000Z\t{since}\t{serial}\tunknown\t/CN={name}\n");
    site.file("certs/said", lines.map(line).concat());
}

#[test]
fn responders_are_asked_about_clients_as_by_apache() {
    let test = "responders_are_asked_about_clients_as_by_apache";
    if !is_there(test) || !oracle::is_there(test) {
        return;
    }
    let site = site();
    table(&site);
    sh(
        &site,
        "printf '[x]\nextendedKeyUsage=OCSPSigning\n' > x.cnf
         openssl x509 -req -in deep.csr -CA root.pem -CAkey root.key -set_serial 9 -days 9 -out appointed.pem -extfile x.cnf -extensions x
         openssl x509 -req -in deep.csr -CA root.pem -CAkey root.key -set_serial 9 -days 9 -out unappointed.pem
         chmod a+r *.pem",
    );
    let responder = |certificate: &str, key: &str| {
        let (certificate, key) = (format!("{certificate}.pem"), format!("{key}.key"));
        Responder::run(
            &site,
            "certs",
            &["-index", "said", "-rsigner", &certificate, "-rkey", &key, "-CA", "root.pem", "-ndays", "1"],
        )
    };
    let running = [("root", "root"), ("appointed", "deep"), ("unappointed", "deep"), ("other", "other")]
        .map(|(certificate, key)| responder(certificate, key));
    let [root, appointed, unappointed, other] = running.each_ref().map(|one| one.1);
    let nobody = responder("root", "root").1;
    let url = |port: u16| format!("SSLOCSPDefaultResponder http://127.0.0.1:{port}/\nSSLOCSPOverrideResponder on\n");
    for lines in [
        format!("SSLOCSPEnable on\n{}", url(root)),
        format!("SSLOCSPEnable leaf\n{}SSLOCSPUseRequestNonce off\n", url(root)),
        format!("SSLOCSPEnable on\n{}", url(appointed)),
        format!("SSLOCSPEnable on\n{}", url(unappointed)),
        format!("SSLOCSPEnable on\n{}", url(other)),
        format!("SSLOCSPEnable on\n{}SSLOCSPResponderCertificateFile ${{ROOT}}/certs/other.pem\n", url(other)),
        format!("SSLOCSPEnable on\n{}SSLOCSPNoverify on\n", url(other)),
        format!("SSLOCSPEnable on\n{}SSLOCSPResponderTimeout 2\n", url(nobody)),
        format!("SSLOCSPEnable on\nSSLOCSPProxyURL http://127.0.0.1:{root}/\n{}", url(nobody)),
        "SSLOCSPEnable on\n".into(),
        "SSLOCSPEnable on no_ocsp_for_cert_ok\n".into(),
    ] {
        let [ours, theirs] = beside_in(&site, &format!("{REQUIRED}SSLVerifyDepth 2\n{lines}"), |site| {
            let asked = ["good", "plain", "revoked", "chain", "foreign", ""];
            let versions = [&["--tlsv1.3"][..], &["--tls-max", "1.2"]];
            let ask = |version: &[&str], one| (one, said(&curl(site, one, version, "/")).1);
            versions.iter().flat_map(|version| asked.map(|one| ask(version, one))).collect::<Vec<_>>()
        });
        assert_eq!(ours, theirs, "{lines}");
    }
}

under_every_mpm! {
    /// A silent responder: the client waits and is refused, other clients are served meanwhile.
    fn a_silent_responder_holds_up_nobody_else(mpm: Mpm) {
        if !is_there("a_silent_responder_holds_up_nobody_else") {
            return;
        }
        let site = site();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = silent.local_addr().expect("address").port();
        let lines = format!(
            "SSLEngine on\nSSLCACertificateFile ${{ROOT}}/certs/root.pem\nSSLVerifyClient optional\nSSLOCSPEnable on\n\
             SSLOCSPDefaultResponder http://127.0.0.1:{port}/\nSSLOCSPResponderTimeout 2\n"
        );
        let server = Server::start(mpm, &site, &format!("{COMMON}{lines}"));
        server.announce("no answer within 2 s");
        ["AH02008: ", "AH02568: ", "AH02276: "].iter().for_each(|text| server.allow(*text));
        let mut slow = Command::new("curl")
            .args(["-sk", "-m", "20", "--cert", "good.pem", "--key", "good.key", &format!("https://{}/", server.address())])
            .current_dir(site.root.join("certs"))
            .stdout(Stdio::null())
            .spawn()
            .expect("curl");
        let (asked, _) = silent.accept().expect("a question");
        let connections = if mpm == Mpm::Prefork { 2 } else { 8 };
        for _ in 0..connections {
            assert_eq!(said(&curl(&site, "", &[], "/")).1, "200");
        }
        assert!(slow.try_wait().expect("wait").is_none(), "it is not served before the answer");
        assert!(!slow.wait().expect("wait").success(), "nor without one");
        drop(asked);
    }
}

//! Virtual hosts over TLS: which hosts a connection may request (SNI), and their addresses. Ours compared with
//! Apache's.

use crate::harness::site::PORT;
use crate::tls::tls_client::{assert_same_lines, beside, curl, said, told};

/// Names, redirects and fields depend on whether the connection uses TLS; a plain HTTP client on the TLS port gets an
/// explanation.
#[test]
fn addresses_are_those_of_apache() {
    let configuration = "SSLEngine on\nHeader always set Strict-Transport-Security max-age=9 env=HTTPS\nUseCanonicalName on\n\
        ServerName https://name.example:99\nRedirect /moved https://other.example/\nRedirect /here /there\n\
        RewriteEngine on\nRewriteCond %{HTTPS} =on\nRewriteRule ^/rewritten$ /index.html [R=302]\n";
    let both = beside("addresses_are_those_of_apache", configuration, |site| {
        site.page("directory/x", "x\n");
        let plain = format!("http://localhost:{PORT}/");
        let paths = ["/", "/directory", "/moved/x", "/here", "/rewritten", "/none", &plain];
        let ask = |more: &[&str], path: &&str| {
            let mut arguments = vec!["-i"];
            arguments.extend(more);
            let (text, _) = said(&curl(site, "", &arguments, path));
            let is_same =
                |line: &&str| !["Date:", "Server:", "Last-Modified:", "ETag:"].iter().any(|own| line.starts_with(own));
            text.lines().filter(is_same).map(str::to_string).collect::<Vec<_>>()
        };
        let mut answers: Vec<_> = paths.iter().map(|path| ask(&[], path)).collect();
        answers.push(ask(&["-I"], &plain.as_str()));
        answers.push(ask(&["-d", "body"], &plain.as_str()));
        answers
    });
    let Some([ours, theirs]) = both else { return };
    assert_eq!(ours, theirs);
    assert!(ours[0].contains(&"Strict-Transport-Security: max-age=9".into()), "{:?}", ours[0]);
    assert!(ours[1].contains(&"Location: https://name.example:99/directory/".into()), "{:?}", ours[1]);
    assert!(ours[6].concat().contains("You're speaking plain HTTP to an SSL-enabled server port."), "{:?}", ours[6]);
}

/// Hosts that differ from the first in one thing each.
const HOSTS: [(&str, &str); 15] = [
    ("first", ""),
    ("same", ""),
    ("certificate", "SSLCertificateFile ${ROOT}/certs/deep.pem\nSSLCertificateKeyFile ${ROOT}/certs/deep.key"),
    ("protocol", "SSLProtocol TLSv1.3"),
    ("suites", "SSLCipherSuite ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("suites13", "SSLCipherSuite TLSv1.3 TLS_AES_128_GCM_SHA256"),
    ("verify", "SSLVerifyClient optional\nSSLCACertificateFile ${ROOT}/certs/root.pem"),
    ("ca", "SSLCACertificateFile ${ROOT}/certs/root.pem"),
    ("depth", "SSLVerifyDepth 3"),
    ("one", "SSLVerifyDepth 1"),
    ("names", "SSLCADNRequestFile ${ROOT}/certs/root.pem"),
    ("revoked", "SSLCARevocationFile ${ROOT}/certs/crl.pem\nSSLCARevocationCheck leaf"),
    ("order", "SSLHonorCipherOrder on"),
    ("tickets", "SSLSessionTickets off"),
    ("strict", "SSLStrictSNIVHostCheck on"),
];

/// A connection for one host, a request for another.
#[test]
fn hosts_are_reached_as_in_apache() {
    let hosts: String = HOSTS
        .iter()
        .map(|(name, lines)| {
            format!(
                "<VirtualHost ${{ADDR}}:{PORT}>\nServerName {name}.example\nSSLEngine on\n{}{lines}\n</VirtualHost>\n",
                if lines.contains("CertificateKey") {
                    ""
                } else {
                    "SSLCertificateFile ${ROOT}/certs/server.pem\nSSLCertificateKeyFile ${ROOT}/certs/server.key\n"
                }
            )
        })
        .collect();
    for policy in ["", "SSLVHostSNIPolicy strict\n", "SSLVHostSNIPolicy authonly\n", "SSLVHostSNIPolicy insecure\n"] {
        let test = format!("hosts_are_reached_as_in_apache: {policy}");
        let both = beside(&test, &format!("{policy}{hosts}"), |site| {
            let ask = |named: &str, host: &str, more: &[&str]| {
                let field = format!("Host: {host}");
                let mut arguments = vec!["-H", &field];
                arguments.extend(more);
                said(&curl(site, "", &arguments, &format!("https://{named}:{PORT}/"))).1
            };
            let ip = site.ip.to_string();
            let mut answers = Vec::new();
            for named in
                [&*ip, "first.example", "verify.example", "certificate.example", "strict.example", "unknown.example"]
            {
                let shown = if named == ip { "nobody" } else { named };
                for (name, _) in HOSTS.iter().chain(&[("unknown", "")]) {
                    // Nothing is left but what the host wants, and Apache asks curl for a certificate.
                    if *name == "verify" && policy.contains("insecure") {
                        continue;
                    }
                    answers.push((shown.to_string(), *name, ask(named, &format!("{name}.example"), &[])));
                }
                answers.push((shown.to_string(), "an address", ask(named, &ip, &[])));
                answers.push((shown.to_string(), "no host", ask(named, "", &["-0"])));
            }
            (answers, told(site))
        });
        let Some([ours, theirs]) = both else { return };
        assert_eq!(ours.0, theirs.0, "{policy}");
        assert_same_lines(policy, ours.1, theirs.1);
    }
}

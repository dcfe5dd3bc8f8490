//! The variables of a TLS connection, and client certificates: ours compared with Apache's.
//!
//! Both get the same certificates, made by openssl, and the same configuration; curl and `openssl s_client` are the clients.

use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, Start};
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;

/// A place with certificates: `root` has issued `server`, `good`, `plain` (version 1), `revoked`, `expired` and
/// `inter`, which has issued `deep`; `other` has issued `foreign`; `self` is self-signed.
pub fn site() -> Site {
    let site = Site::new();
    site.file("certs/ext.cnf", EXTENSIONS);
    site.file("certs/ca.cnf", AUTHORITY);
    site.file("certs/make", MAKE);
    let made = Command::new("/bin/sh").arg("make").current_dir(site.root.join("certs")).output().expect("sh");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    site.script(
        "env",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv -0 | tr '\\n' '~' | tr '\\0' '\\n' | sort\n",
    );
    site.page("index.html", "hello\n");
    site
}

const EXTENSIONS: &str = "[none]\n[authority]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\n[server]\nbasicConstraints=CA:FALSE\n\
    subjectAltName=DNS:localhost,DNS:*.example,email:admin@example.org,otherName:1.3.6.1.5.5.7.8.7;IA5:_https.localhost\n\
    [client]\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=clientAuth\n\
    subjectAltName=email:jo@example.org,email:jo2@example.org,DNS:c.example,otherName:1.3.6.1.4.1.311.20.2.3;UTF8:jo@upn.example\n\
    nsComment=\"A comment\"\n1.2.3.4.5=ASN1:UTF8String:special\n";

const AUTHORITY: &str = "oid_section=oids\n[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\ncrlnumber=crlnumber\nnew_certs_dir=.\ncertificate=root.pem\n\
    private_key=root.key\ndefault_md=sha256\npolicy=p\ndefault_crl_days=300\nunique_subject=no\n[p]\ncommonName=supplied\n\
    [req]\ndistinguished_name=n\n[n]\n[oids]\nodd=1.2.3.4.5.6\n";

const MAKE: &str = r#"
set -e
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key; }
own() { key $1; cat ca.cnf ext.cnf > own.cnf; openssl req -new -x509 -key $1.key -out $1.pem -subj "$2" -days 3650 -utf8 -config own.cnf -extensions $3; }
sign() {
    key $1
    openssl req -new -key $1.key -subj "$2" -utf8 -out $1.csr -config ca.cnf
    if [ "$4" ]; then with="-extfile ext.cnf -extensions $4"; else with=; fi
    openssl x509 -req -in $1.csr -CA $3.pem -CAkey $3.key -set_serial $5 -days 400 $with -out $1.pem
}
own root "/C=DE/O=Root CA/CN=Root" authority
own other "/C=DE/O=Other CA/CN=Other" authority
own self "/CN=self" none
sign inter "/C=DE/O=Root CA/CN=Intermediate" root authority 0x10
sign server "/C=DE/ST=Bayern/L=Ort/O=Firma, Inc./OU=A/OU=B/CN=localhost/emailAddress=web@example.org" root server 0x1234
sign good "/C=DE/O=Firma/OU=X/OU=Y/CN=Jö \\ <b>/emailAddress=jo@example.org/title=Dr/initials=J/GN=Jo/SN=Name/description=D/UID=u1" root client 0x80ff01
sign plain "/CN=plain" root "" 0x21
sign odd "/CN=ł😀 -\x7f+OU=b/odd=zz/O= #x, \"q\" ;=\/<y> /OU=#/O=#lead /L=a	b/DC=example/serialNumber=7/pseudonym=P/SN=/title=\\\\\\\\/organizationIdentifier=I/GN=  " root client 0x25
sign deep "/CN=deep" inter client 0x22
sign revoked "/CN=revoked" root client 0x23
sign foreign "/CN=foreign" other client 0x24
key expired
openssl req -new -key expired.key -subj /CN=expired -out expired.csr -config ca.cnf
: > index; echo 30 > serial; echo 01 > crlnumber
openssl ca -batch -config ca.cnf -in expired.csr -out expired.pem -startdate 20200101000000Z -enddate 20210101000000Z -extfile ext.cnf -extensions client -notext
openssl ca -config ca.cnf -revoke revoked.pem
openssl ca -config ca.cnf -gencrl -out crl.pem
cat deep.pem inter.pem > chain.pem && cp deep.key chain.key
mkdir hashed && cp root.pem crl.pem hashed && openssl rehash hashed
chmod a+r *.pem *.key
"#;

/// The first lines of every test's configuration.
pub const COMMON: &str = "<IfModule !ssl_module>\nLoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n</IfModule>\n\
    LogLevel ssl:info\nSSLSessionCache none\n\
    SSLCertificateFile ${ROOT}/certs/server.pem\nSSLCertificateKeyFile ${ROOT}/certs/server.key\n\
    ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n";

pub fn is_there(test: &str) -> bool {
    needs::OPENSSL.is_there(test) && needs::CURL.is_there(test)
}

/// One request with curl: the certificate to show, arguments of curl, a path.
pub fn curl(site: &Site, certificate: &str, more: &[&str], path: &str) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sk", "-m", "20", "-w", "\n%{http_code}"]).args(more);
    if !certificate.is_empty() {
        command.args(["--cert", &format!("{}/certs/{certificate}.pem", site.path())]);
        command.args(["--key", &format!("{}/certs/{certificate}.key", site.path())]);
    }
    command.args(["--connect-to", &format!("::{}:{PORT}", site.ip)]);
    let url = if path.contains("://") { path.to_string() } else { format!("https://localhost:{PORT}{path}") };
    command.arg(url).output().expect("curl")
}

/// The text and the status of the answer; `000` if there is none.
pub fn said(output: &Output) -> (String, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    (body.to_string(), status.to_string())
}

/// Does the same with ours under event and with Apache, in places with the same certificates. Returns both results, if
/// both programs are available.
pub fn beside<T>(test: &str, configuration: &str, ask: impl Fn(&Site) -> T) -> Option<[T; 2]> {
    if !is_there(test) || !oracle::is_there(test) {
        return None;
    }
    Some(beside_in(&site(), configuration, ask))
}

/// The same in a place that was prepared; the other one has the same files.
pub fn beside_in<T>(ours: &Site, configuration: &str, ask: impl Fn(&Site) -> T) -> [T; 2] {
    let configuration = format!("{COMMON}{configuration}");
    let theirs = Site::new();
    let copy = format!("for d in certs cgi-bin htdocs; do cp -a {}/$d/. {}/$d; done", ours.path(), theirs.path());
    std::fs::create_dir(theirs.root.join("certs")).expect("directory");
    assert!(Command::new("/bin/sh").args(["-c", &copy]).status().expect("cp").success());
    let came_to = {
        let server = Server::start(Mpm::Event, ours, &configuration);
        server.allow_everything("the callers compare the log");
        ask(ours)
    };
    let _apache = Apache::start(&theirs, &configuration);
    [came_to, ask(&theirs)]
}

/// The error log's lines of mod_ssl about connections and requests, without the place.
pub fn told(site: &Site) -> Vec<String> {
    // Messages that each server words differently: about libraries and connections.
    const OWN: [&str; 15] = [
        "AH01873",
        "AH01876",
        "AH01882",
        "AH01914",
        "AH02568",
        "AH01964",
        "AH01998",
        "AH02006",
        "AH02008",
        "AH02034",
        "AH01909",
        "AH01906",
        "AH01883",
        "AH01887",
        "Library Error",
    ];
    let log = site.read_lines("logs/error_log");
    let lines = log.lines().filter(|line| line.contains("[ssl:") && !OWN.iter().any(|own| line.contains(own)));
    let neutral = |line: &str| {
        let (level, text) = line.split_once("[ssl:").and_then(|(_, rest)| rest.split_once(']')).unwrap_or(("", line));
        let text = text.find("AH").map_or(text, |at| &text[at..]);
        // Ours says besides what to do about it.
        let words = "post-handshake authentication";
        let text = text.find(words).map_or(text, |at| &text[..at + words.len()]);
        format!("{level} {}", text.replace(site.path(), "ROOT").replace(&site.ip.to_string(), "IP"))
    };
    lines.map(neutral).collect()
}

/// Checks that the lines are the same in any order.
pub fn assert_same_lines(what: &str, ours: Vec<String>, theirs: Vec<String>) {
    let mut theirs = theirs;
    let is_ours_alone = |line: &String| match theirs.iter().position(|one| one == line) {
        Some(at) => {
            theirs.remove(at);
            false
        }
        None => true,
    };
    let ours: Vec<_> = ours.into_iter().filter(is_ours_alone).collect();
    assert!(ours.is_empty() && theirs.is_empty(), "{what}: only ours: {ours:#?}, only Apache's: {theirs:#?}");
}

/// The TLS variables in the script's answer, except for those that must differ.
fn variables(body: &str) -> Vec<String> {
    // Days are over while the servers are asked one after the other.
    let own = ["SSL_SESSION_ID=", "SSL_VERSION_LIBRARY=", "SSL_CLIENT_V_REMAIN="];
    let is_own = |line: &str| own.iter().any(|start| line.starts_with(start));
    let wanted = ["SSL_", "HTTPS", "HTTP_X", "REWRITTEN"];
    let lines = body.lines().filter(|line| wanted.iter().any(|start| line.starts_with(start)) && !is_own(line));
    lines.map(str::to_string).collect()
}

/// Each variable, in the environment and wherever else it may be asked for.
#[test]
fn variables_are_those_of_apache() {
    let configuration = "SSLEngine on\nSSLCACertificateFile ${ROOT}/certs/root.pem\nSSLVerifyClient optional_no_ca\nSSLVerifyDepth 4\n\
        <Location /cgi/>\nSSLOptions +StdEnvVars\n</Location>\n<Location /cgi/env/all>\nSSLOptions +ExportCertData\n</Location>\n\
        <Location /cgi/env/old>\nSSLOptions +LegacyDNStringFormat\n</Location>\n\
        <Location /cgi/env/less>\nSSLOptions -StdEnvVars\n</Location>\n<Location /cgi/env/only>\nSSLOptions ExportCertData\n</Location>\n\
        RequestHeader set X-Of-Tls \"%{SSL_PROTOCOL}s %{HTTPS}s %{SSL_CLIENT_S_DN_CN}s\"\n\
        RequestHeader set X-Expr \"expr=%{SSL_CLIENT_S_DN_OU_1}|%{SSL_CLIENT_S_DN_CN_RAW}|%{SSL_CLIENT_SAN_DNS_0}|%{SSL_NO}|%{HTTPS}\"\n\
        RequestHeader set X-More \"expr=%{SSL_CLIENT_CERT_RFC4523_CEA}|%{SSL_SERVER_I_DN_CN}|%{SSL_CLIENT_S_DN_SP}|%{SSL_CIPHER_EXPORT}\"\n\
        RequestHeader set X-List \"yes\" \"expr='special' in PeerExtList('1.2.3.4.5') && 'A comment' in PeerExtList('nsComment')\"\n\
        RewriteEngine on\nRewriteCond \"%{SSL:SSL_CIPHER} %{HTTPS} %{SSL:SSL_CLIENT_S_DN} %{SSL:REQUEST_METHOD}\" (.+)\n\
        RewriteRule ^/cgi/ - [E=REWRITTEN:%1]\n\
        LogFormat \"%{SSL_PROTOCOL}x %{HTTPS}x %{SSL_CLIENT_S_DN}x %{version}c %{cipher}c %{subjectdn}c %{issuerdn}c %{clientcert}c \
        %{cacert}c %{errcode}c %{errstr}c %{none}c\" t\nCustomLog logs/t t\n";
    let certificates = ["", "good", "plain", "odd", "chain", "foreign", "self"];
    let paths = ["", "/all", "/old", "/less", "/only"];
    let cases = || {
        let versions = [&["--tlsv1.3"][..], &["--tls-max", "1.2"]];
        let with = move |version| certificates.map(|certificate| paths.map(|path| (version, certificate, path)));
        versions.into_iter().flat_map(with).flatten()
    };
    let both = beside("variables_are_those_of_apache", configuration, |site| {
        let ask = |(version, certificate, path): (&[&str], &str, &str)| {
            let (body, status) = said(&curl(site, certificate, version, &format!("/cgi/env{path}")));
            (status, variables(&body))
        };
        let answers: Vec<_> = cases().map(ask).collect();
        let logged = || Some(site.read("logs/t")).filter(|text| text.lines().count() == answers.len());
        let text = until("the access log", logged);
        (answers, text)
    });
    let Some([(ours, our_log), (theirs, their_log)]) = both else { return };
    for ((case, ours), theirs) in cases().zip(ours).zip(theirs) {
        assert_same_lines(&format!("{case:?}"), ours.1, theirs.1);
        assert_eq!((&*ours.0, &*theirs.0), ("200", "200"), "{case:?}");
    }
    assert_eq!(our_log, their_log);
    assert!(our_log.contains("CN=Root,O=Root CA,C=DE"), "{our_log}");
}

/// Good and bad certificates where the server requests one, and the variables that describe them.
#[test]
fn certificates_are_judged_as_by_apache() {
    let files = "SSLEngine on\nSSLCACertificateFile ${ROOT}/certs/root.pem\n";
    let modes = [
        "SSLVerifyClient require",
        "SSLVerifyClient optional\nSSLVerifyDepth 2",
        "SSLVerifyClient optional_no_ca",
        "SSLVerifyClient require\nSSLCARevocationFile ${ROOT}/certs/crl.pem\nSSLCARevocationCheck leaf",
        "SSLVerifyClient require\nSSLVerifyDepth 2\nSSLCARevocationFile ${ROOT}/certs/crl.pem\n\
         SSLCARevocationCheck chain no_crl_for_cert_ok",
        "SSLVerifyClient require\nSSLVerifyDepth 0\nSSLCACertificateFile ${ROOT}/certs/self.pem",
        "SSLVerifyClient require\nSSLCACertificateFile ${ROOT}/certs/inter.pem",
        "SSLVerifyClient require\nSSLCACertificateFile ${ROOT}/certs/other.pem\nSSLCACertificatePath ${ROOT}/certs/hashed\n\
         SSLCARevocationPath ${ROOT}/certs/hashed\nSSLCARevocationCheck leaf no_crl_for_cert_ok",
    ];
    let certificates = ["", "good", "plain", "deep", "chain", "inter", "expired", "revoked", "foreign", "self"];
    for mode in modes {
        let both =
            beside(&format!("certificates_are_judged_as_by_apache: {mode}"), &format!("{files}{mode}\n"), |site| {
                let ask = |version: &[&str], certificate| said(&curl(site, certificate, version, "/")).1;
                let answers: Vec<_> = [&["--tlsv1.3"][..], &["--tls-max", "1.2"]]
                    .iter()
                    .flat_map(|version| certificates.map(|certificate| (certificate, ask(version, certificate))))
                    .collect();
                (answers, told(site))
            });
        let Some([ours, theirs]) = both else { return };
        assert_eq!(ours.0, theirs.0, "{mode}");
        assert_same_lines(mode, ours.1, theirs.1);
        assert!(ours.0.iter().any(|(_, status)| status == "000"), "{mode}: somebody has to be refused");
    }
}

/// A certificate's name, and `password` as mod_ssl's manual hashes it.
const USERS: &str = "/CN=plain:xxj31ZMTZzkVA\n";

/// Sections that want more than the connection has, and log-ins by certificate.
const SECTIONS: &str = "SSLEngine on\nSSLCACertificateFile ${ROOT}/certs/root.pem\nSSLVerifyClient optional\n\
    <Location /cgi/env/require-ssl>\nSSLRequireSSL\n</Location>\n\
    <Location /cgi/env/unfulfilled>\nSSLRequire %{SSL_CLIENT_S_DN_O} eq \"Nobody\"\n</Location>\n\
    <Location /cgi/env/fulfilled>\nSSLRequire %{SSL_CIPHER} !~ m/^(EXP|NULL)/ and %{SSL_CLIENT_S_DN_OU} in {\"X\", \"Z\"}\n</Location>\n\
    <Location /cgi/env/optional>\nSSLVerifyClient optional\n</Location>\n\
    <Location /cgi/env/user>\nSSLUserName SSL_CLIENT_S_DN_CN\n</Location>\n\
    <Location /cgi/env/nobody>\nSSLUserName SSL_CLIENT_S_DN_DC\n</Location>\n\
    <Location /cgi/env/fake>\nSSLOptions +FakeBasicAuth\nAuthType Basic\nAuthName x\nAuthBasicProvider file\n\
    AuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>\n\
    <Location /cgi/env/strict>\nSSLOptions +StrictRequire\nSSLRequire false\nSatisfy any\nRequire all granted\n</Location>\n\
    <Location /cgi/env/lenient>\nSSLRequire false\nSatisfy any\nRequire all granted\n</Location>\n\
    <Location /cgi/env/ssl>\nRequire ssl\n</Location>\n\
    <Location /cgi/env/verified>\nRequire ssl-verify-client\n</Location>\n\
    <Location /cgi/env/wanted>\nSSLVerifyClient require\n</Location>\n";

#[test]
fn sections_are_guarded_as_by_apache() {
    let paths = [
        "require-ssl",
        "unfulfilled",
        "fulfilled",
        "optional",
        "user",
        "nobody",
        "fake",
        "strict",
        "lenient",
        "ssl",
        "verified",
    ];
    let both = beside("sections_are_guarded_as_by_apache", SECTIONS, |site| {
        site.file("users", USERS);
        let ask = |certificate: &str, more: &[&str], path: &str| {
            let (body, status) = said(&curl(site, certificate, more, &format!("/cgi/env/{path}")));
            let is_about = |line: &&str| ["REMOTE_USER=", "AUTH_TYPE="].iter().any(|name| line.starts_with(name));
            let lines: Vec<_> = body.lines().filter(is_about).map(str::to_string).collect();
            (format!("{certificate} {path} {more:?}"), status, lines)
        };
        let mut answers: Vec<_> = ["", "good", "plain"]
            .iter()
            .flat_map(|certificate| paths.map(|path| ask(certificate, &[], path)))
            .collect();
        // A client cannot claim a certificate's user by its name and password, in any form.
        answers.push(ask("", &["-u", "/CN=plain:password"], "fake"));
        let typed = STANDARD.encode("/CN=plain:password");
        for field in [format!("{typed}!"), format!("\t{typed}===")] {
            answers.push(ask("", &["-H", &format!("Authorization: bAsic {field}")], "fake"));
        }
        answers.push(ask("", &[], "wanted"));
        (answers, told(site))
    });
    let Some([ours, theirs]) = both else { return };
    assert_eq!(ours.0, theirs.0);
    assert_same_lines("sections", ours.1, theirs.1);
}

/// Where Apache would renegotiate, ours refuses, unless the handshake has already met the requirement.
#[test]
fn sections_have_what_the_handshake_brought() {
    let test = "sections_have_what_the_handshake_brought";
    if !is_there(test) {
        return;
    }
    let site = site();
    let section = "<Location /cgi/env/wanted>\nSSLVerifyClient require\n</Location>\n\
        <Location /cgi/env/suite>\nSSLCipherSuite ECDHE-ECDSA-AES128-GCM-SHA256\n</Location>\n\
        <Location /cgi/env/short>\nSSLVerifyClient require\nSSLVerifyDepth 1\n</Location>\n\
        <Location /cgi/env/fake>\nSSLOptions +FakeBasicAuth\nAuthType Basic\nAuthName x\nAuthBasicProvider file\n\
        AuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>\n";
    site.file("users", USERS);
    let base = "SSLEngine on\nSSLCACertificateFile ${ROOT}/certs/root.pem\nSSLVerifyDepth 3\n";
    let old: &[&str] = &["--tls-max", "1.2"];
    {
        let server =
            Server::start(Mpm::Event, &site, &format!("{COMMON}{base}SSLVerifyClient optional_no_ca\n{section}"));
        server.announce("AH10158: cannot perform post-handshake authentication: ");
        server.allow("AH02568: ");
        server.announce("AH02009: SSL client authentication failed, accepting certificate based on \"SSLVerifyClient optional_no_ca\"");
        server.announce("AH02264: SSL cipher suite not renegotiated: access to ");
        server.announce("AH02035: Encountered FakeBasicAuth spoof: /CN=plain");
        server.announce("AH02036: Faking HTTP Basic Auth header: ");
        let cases = [
            ("", &[][..], "wanted", "403"),
            ("good", &[], "wanted", "200"),
            ("foreign", &[], "wanted", "403"),
            ("chain", &[], "wanted", "200"),
            ("chain", &[], "short", "403"),
            ("good", &[], "short", "200"),
            ("good", old, "wanted", "200"),
            ("", old, "wanted", "403"),
            ("", old, "suite", "403"),
            ("", &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"], "suite", "200"),
            ("", &[], "suite", "200"),
            ("plain", &[], "fake", "200"),
            // The hash is one of the first eight characters.
            ("", &["-u", "/CN=plain:password1"], "fake", "403"),
        ];
        for (certificate, more, path, status) in cases {
            let output = said(&curl(&site, certificate, more, &format!("/cgi/env/{path}")));
            assert_eq!(output.1, status, "{certificate} {more:?} {path}");
        }
    }
    // Where only a `.htaccess` file wants a certificate, nobody was asked.
    let late = "<Directory ${ROOT}/htdocs/late>\nAllowOverride AuthConfig\n</Directory>\n";
    site.page("late/.htaccess", "SSLVerifyClient require\n");
    site.page("late/x", "late\n");
    let server = Server::start(Mpm::Event, &site, &format!("{COMMON}{base}{late}"));
    server.allow_everything("lines of the earlier server are still in the log");
    server.announce("AH10158: cannot perform post-handshake authentication: ");
    let (body, status) = said(&curl(&site, "good", &[], "/late/x"));
    assert_eq!(status, "403", "nobody was asked");
    assert!(body.contains("Reason: Cannot perform Post-Handshake Authentication.<br />"), "{body}");
    assert!(server.log().contains("set SSLVerifyClient optional in the virtual host"), "{}", server.log());
}

/// A host that is open to everybody, and sections of it that want certificates: all clients are asked, none has to have
/// one elsewhere, and one that is not valid counts as none everywhere. This works with any version and with HTTP/2.
#[test]
fn sections_alone_may_want_certificates() {
    if !is_there("sections_alone_may_want_certificates") {
        return;
    }
    let site = site();
    site.file("users", USERS);
    let sections = "SSLEngine on\nProtocols h2 http/1.1\nSSLCACertificateFile ${ROOT}/certs/root.pem\nSSLOptions +StdEnvVars\n\
        <Location /cgi/env/wanted>\nSSLVerifyClient require\nSSLVerifyDepth 2\n</Location>\n\
        <Directory ${ROOT}/cgi-bin>\n<Files none>\nSSLVerifyClient require\n</Files>\n</Directory>\n\
        <Location /cgi/env/short>\nSSLVerifyClient require\n</Location>\n\
        <Location /cgi/env/maybe>\nSSLVerifyClient optional\n</Location>\n\
        <Location /cgi/env/fake>\nSSLOptions +FakeBasicAuth\nAuthType Basic\nAuthName x\nAuthBasicProvider file\n\
        AuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>\n";
    let server = Server::start(Mpm::Event, &site, &format!("{COMMON}{sections}"));
    server.announce("AH10158: cannot perform post-handshake authentication: ");
    server.announce("the client's certificate is not valid, and counts as none");
    ["AH02276: ", "AH02568: ", "AH02036: ", "AH02040: "].iter().for_each(|text| server.allow(*text));
    let versions = [&["--tlsv1.3", "--http2"][..], &["--tls-max", "1.2", "--http1.1"]];
    for version in versions {
        for (certificate, path, status, is_seen) in [
            ("", "", "200", false),
            ("", "/maybe", "200", false),
            ("", "/wanted", "403", false),
            ("", "/fake", "401", false),
            ("good", "", "200", true),
            ("good", "/wanted", "200", true),
            ("good", "/maybe", "200", true),
            ("plain", "/fake", "200", true),
            ("chain", "/wanted", "200", true),
            ("chain", "/short", "403", true),
            ("expired", "", "200", false),
            ("expired", "/wanted", "403", false),
            ("foreign", "", "200", false),
            ("foreign", "/maybe", "200", false),
            ("foreign", "/wanted", "403", false),
            ("foreign", "/fake", "401", false),
            ("self", "/wanted", "403", false),
        ] {
            let (body, answered) = said(&curl(&site, certificate, version, &format!("/cgi/env{path}")));
            assert_eq!(answered, status, "{version:?} {certificate} {path}: {body}");
            if status == "200" {
                let verified = if is_seen { "SSL_CLIENT_VERIFY=SUCCESS\n" } else { "SSL_CLIENT_VERIFY=NONE\n" };
                assert!(body.contains(verified), "{version:?} {certificate} {path}: {body}");
                assert_eq!(body.contains("SSL_CLIENT_S_DN"), is_seen, "{version:?} {certificate} {path}: {body}");
            }
        }
    }
    // A session that goes on does not make a certificate valid.
    for version in ["-tls1_3", "-tls1_2"] {
        for (certificate, status) in [("foreign", "403"), ("good", "200")] {
            for session in ["-sess_out", "-sess_in"] {
                let command = format!(
                    "printf 'GET /cgi/env/wanted HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' | openssl s_client -connect {}:{PORT} \
                     -servername localhost -cert {certificate}.pem -key {certificate}.key -quiet {version} {session} s{version}{certificate}",
                    site.ip
                );
                let output =
                    Command::new("/bin/sh").args(["-c", &command]).current_dir(site.root.join("certs")).output();
                let text = String::from_utf8_lossy(&output.expect("openssl").stdout).into_owned();
                assert!(text.contains(&format!("HTTP/1.1 {status} ")), "{version} {certificate} {session}: {text}");
            }
        }
    }
}

/// Sections of the main server are those of its virtual hosts. One without authorities asks nobody.
#[test]
fn sections_of_the_main_server_want_certificates_too() {
    if !is_there("sections_of_the_main_server_want_certificates_too") {
        return;
    }
    let site = site();
    site.page("staff/x", "staff\n");
    let host = |name: &str, more: &str| {
        format!("<VirtualHost *:{PORT}>\nServerName {name}\nSSLEngine on\n{more}</VirtualHost>\n")
    };
    let authority = "SSLCACertificateFile ${ROOT}/certs/root.pem\n";
    let hosts = host("localhost", authority) + &host("other.example", "");
    let section = "<Directory ${ROOT}/htdocs/staff>\nSSLVerifyClient require\n</Directory>\n";
    let server = Server::start(Mpm::Event, &site, &format!("{COMMON}{section}{hosts}"));
    server.announce("AH10158: cannot perform post-handshake authentication: ");
    server.announce("sections want clients' certificates, and none is asked for: no CAs are known");
    ["AH02568: ", "AH01909: "].iter().for_each(|text| server.allow(*text));
    let elsewhere = format!("https://other.example:{PORT}");
    for (certificate, url, status) in [
        ("good", "/staff/x", "200"),
        ("", "/staff/x", "403"),
        ("", "/", "200"),
        ("good", &format!("{elsewhere}/staff/x"), "403"),
        ("good", &format!("{elsewhere}/"), "200"),
    ] {
        assert_eq!(said(&curl(&site, certificate, &[], url)).1, status, "{certificate} {url}");
    }
    // A connection that was made for one of them is none for the other.
    let other = ["-H", "Host: other.example"];
    server.announce("AH02032: ");
    assert_eq!(said(&curl(&site, "good", &other, "/")).1, "421");
}

/// A client without a certificate where one is required, in the words that its version of TLS has for it.
#[test]
fn a_missing_certificate_is_told_by_the_right_alert() {
    if !is_there("a_missing_certificate_is_told_by_the_right_alert") {
        return;
    }
    let site = site();
    let lines = "SSLEngine on\nSSLCACertificateFile ${ROOT}/certs/root.pem\nSSLVerifyClient require\n";
    let server = Server::start(Mpm::Event, &site, &format!("{COMMON}{lines}"));
    server.announce("AH02008: SSL library error 1 in handshake");
    server.allow("AH02568: ");
    for (version, alert) in [("-tls1_2", "SSL alert number 40"), ("-tls1_3", "SSL alert number 116")] {
        let mut client = Command::new("openssl")
            .args(["s_client", "-connect", &server.address().to_string(), version])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl");
        // As long as it may be told something, it reads.
        let words = client.stdin.take();
        let output = client.wait_with_output().expect("openssl");
        drop(words);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(alert), "{version}: {text}");
    }
}

/// Unsupported settings are reported at the start.
#[test]
fn unverifiable_settings_are_refused_at_start() {
    if !is_there("unverifiable_settings_are_refused_at_start") {
        return;
    }
    let site = site();
    site.file("nothing.pem", "no certificate\n");
    let cases = [
        (
            "SSLOCSPEnable leaf\nSSLOCSPResponderCertificateFile ${ROOT}/nothing.pem",
            "SSLOCSPResponderCertificateFile: ROOT/nothing.pem: there is no certificate in it",
        ),
        (
            "SSLCARevocationCheck chain",
            "AH01899: Host localhost:443: CRL checking has been enabled, but neither SSLCARevocationFile nor \
             SSLCARevocationPath is configured",
        ),
        ("SSLCACertificateFile ${ROOT}/nothing.pem", "AH02210: Failed to load SSLCACertificateFile: ROOT/nothing.pem"),
        (
            "SSLCARevocationCheck leaf\nSSLCARevocationFile ${ROOT}/nothing.pem",
            "AH01901: unable to configure X.509 CRL storage for certificate revocation: ROOT/nothing.pem: there is no list in it",
        ),
    ];
    for (line, message) in cases {
        let base = "SSLEngine on\nSSLVerifyClient require\nSSLCACertificateFile ${ROOT}/certs/root.pem\n";
        site.configure(Mpm::Event, &format!("{COMMON}{base}{line}\n"));
        let output = Start::new(&site, Mpm::Event).command().output().expect("run");
        let (out, errors, status) = crate::mpm::control::said(&output);
        let text = format!("{out}{errors}").replace(site.path(), "ROOT");
        assert_eq!(status, Some(1), "{line}: {text}");
        assert!(text.contains(message), "{line}: {text}");
    }
}

under_percore_and! { worker:
    /// A client with a certificate is known, also when its session goes on; one without is not served.
    fn clients_are_known_by_their_certificates(mpm: Mpm) {
        if !is_there("clients_are_known_by_their_certificates") {
            return;
        }
        let site = site();
        let configuration = format!(
            "{COMMON}SSLEngine on\nSSLCACertificateFile ${{ROOT}}/certs/root.pem\nSSLVerifyClient require\nSSLOptions +StdEnvVars\n"
        );
        let server = Server::start(mpm, &site, &configuration);
        server.announce("AH02276: Certificate Verification: Error (10): certificate has expired [subject: CN=expired / ");
        server.allow("AH02008: SSL library error 1 in handshake");
        server.allow("AH02568: ");
        for (certificate, status) in [("good", "200"), ("", "000"), ("expired", "000"), ("plain", "200")] {
            assert_eq!(said(&curl(&site, certificate, &[], "/cgi/env")).1, status, "{certificate}");
        }
        for version in ["-tls1_3", "-tls1_2"] {
            let [first, second] = ["-sess_out", "-sess_in"].map(|session| {
                let command = format!(
                    "printf 'GET /cgi/env HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' | openssl s_client -connect {}:{PORT} \
                     -servername localhost -cert good.pem -key good.key -quiet {version} {session} session{version}",
                    site.ip
                );
                let output = Command::new("/bin/sh").args(["-c", &command]).current_dir(site.root.join("certs")).output();
                String::from_utf8_lossy(&output.expect("openssl").stdout).into_owned()
            });
            let line = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_string);
            assert!(first.contains("\nSSL_SESSION_RESUMED=Initial\n"), "{version}: {first}");
            assert!(second.contains("\nSSL_SESSION_RESUMED=Resumed\n"), "{version}: {second}");
            let days = line(&first, "SSL_CLIENT_V_REMAIN=");
            assert!(days.as_deref().is_some_and(|days| days.ends_with("=399") || days.ends_with("=400")), "{days:?}");
            let same = ["SSL_CLIENT_S_DN=", "SSL_SERVER_S_DN=", "SSL_CLIENT_VERIFY=SUCCESS", "SSL_SESSION_ID="];
            for name in same {
                assert!(line(&first, name).is_some(), "{version}: {name}: {first}");
                assert_eq!(line(&first, name), line(&second, name), "{version}: {name}");
            }
        }
    }
}

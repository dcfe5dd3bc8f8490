//! Certificates and keys: every file format, faulty files, and the choice of certificate for a client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::oracle;
use crate::harness::server::{Server, Start};
use crate::harness::site::{PORT, Site};
use crate::harness::tls::{NAME, trusting};
use crate::harness::wait::{DEADLINE, until};
use crate::mpm::control::said;

/// Runs `openssl` in the root of a site.
pub fn openssl(site: &Site, line: &str) -> String {
    let output =
        Command::new("openssl").args(line.split_whitespace()).current_dir(&site.root).stdin(Stdio::null()).output();
    let output = output.expect("openssl");
    assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes `NAME.pem` and `NAME.key`: kind of key, further words of `openssl req`.
pub fn make(site: &Site, name: &str, kind: &str, more: &str) {
    let key = match kind {
        "ec" => "ec -pkeyopt ec_paramgen_curve:prime256v1",
        kind => kind,
    };
    openssl(site, &format!("req -x509 -nodes -newkey {key} -keyout {name}.key -out {name}.pem {more}"));
}

/// Extensions of a certificate for the tests' name.
pub const LEAF: &str =
    "-days 90 -subj /CN=localhost -addext basicConstraints=CA:FALSE -addext subjectAltName=DNS:localhost";

/// A site with an RSA and an ECDSA certificate of its own.
pub fn site() -> Option<Site> {
    if !needs::OPENSSL.is_there("certificates") {
        return None;
    }
    let site = Site::with([("index.html", "hello\n")]);
    make(&site, "rsa", "rsa:2048", LEAF);
    make(&site, "ec", "ec", LEAF);
    Some(site)
}

/// A virtual host with these pairs of files below the root.
pub fn host(pairs: &[(&str, &str)], more: &str) -> String {
    let lines: String = pairs
        .iter()
        .map(|(certificate, key)| {
            format!("SSLCertificateFile ${{ROOT}}/{certificate}\nSSLCertificateKeyFile ${{ROOT}}/{key}\n")
        })
        .collect();
    format!("<VirtualHost *:{PORT}>\nServerName {NAME}:{PORT}\nSSLEngine on\n{lines}{more}\n</VirtualHost>\n")
}

/// Output of `openssl s_client` for a server.
fn seen(address: SocketAddr, words: &str) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-servername", NAME])
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A client that believes the certificates of these files.
pub fn client(site: &Site, files: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for file in files {
        openssl(site, &format!("x509 -in {file} -outform DER -out one.der"));
        roots.add(CertificateDer::from(std::fs::read(site.root.join("one.der")).expect("DER"))).expect("root");
    }
    trusting(roots)
}

/// The answer to one request on its own connection, the parameters of the handshake, and the certificate.
pub fn ask(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> Result<(String, HandshakeKind, CertificateDer<'static>), String> {
    let mut stream = connect(address, config)?;
    let failed = |error: std::io::Error| error.to_string();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let certificate =
        stream.conn.peer_certificates().and_then(<[_]>::first).ok_or("no certificate")?.clone().into_owned();
    Ok((answer, stream.conn.handshake_kind().ok_or("no handshake")?, certificate))
}

/// A connection on which `/` was asked for.
pub fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let socket = TcpStream::connect(address).map_err(failed)?;
    socket.set_read_timeout(Some(DEADLINE)).map_err(failed)?;
    let name = ServerName::try_from(NAME).expect("a name");
    let mut stream = StreamOwned::new(ClientConnection::new(config.clone(), name).expect("client"), socket);
    stream.write_all(format!("GET / HTTP/1.0\r\nHost: {NAME}\r\n\r\n").as_bytes()).map_err(failed)?;
    Ok(stream)
}

under_percore_and! { event:
    /// The client's order counts; in TLS 1.2 also what its cipher suites allow.
    fn a_client_gets_the_certificate_that_it_likes(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &host(&[("rsa.pem", "rsa.key"), ("ec.pem", "ec.key")], ""));
        for (words, signature) in [
            ("-sigalgs RSA-PSS+SHA256:ECDSA+SHA256", "RSA-PSS"),
            ("-sigalgs ECDSA+SHA256:RSA-PSS+SHA256", "ECDSA"),
            ("-sigalgs RSA-PSS+SHA256", "RSA-PSS"),
            ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", "RSA-PSS"),
            ("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "ECDSA"),
        ] {
            let seen = seen(server.address(), words);
            assert!(seen.contains(&format!("Peer signature type: {signature}")), "{words}: {seen}");
        }
        let (answer, _, _) = ask(server.address(), &client(&site, &["rsa.pem", "ec.pem"])).expect("an answer");
        assert!(answer.ends_with("hello\n"), "{answer}");
    }
}

#[test]
fn keys_may_have_any_form() {
    let Some(site) = site() else { return };
    for line in [
        "rsa -in rsa.key -traditional -out rsa.pkcs1",
        "ec -in ec.key -out ec.sec1",
        "rsa -in rsa.key -outform DER -out rsa.key.der",
        "x509 -in rsa.pem -outform DER -out rsa.der",
        "rsa -in rsa.key -aes256 -passout pass:secret -traditional -out rsa.aes",
        "rsa -in rsa.key -des3 -passout pass:secret -traditional -out rsa.des3",
        "ec -in ec.key -aes128 -passout pass:secret -out ec.aes",
        "pkcs8 -topk8 -in rsa.key -v2 aes256 -v2prf hmacWithSHA512 -passout pass:secret -out rsa.pkcs8",
        "pkcs8 -topk8 -in ec.key -v2 des3 -v2prf hmacWithSHA1 -passout pass:secret -out ec.pkcs8",
        "pkcs8 -topk8 -in ec.key -v2 aes192 -passout pass:secret -outform DER -out ec.pkcs8.der",
    ] {
        openssl(&site, line);
    }
    site.file("both.pem", site.read("ec.sec1") + &site.read("ec.pem"));
    let program = site.script("secret", "#!/bin/sh\necho secret\n");
    let dialog = format!("SSLPassPhraseDialog exec:{}\n", program.display());
    for (certificate, key) in [
        ("rsa.pem", "rsa.pkcs1"),
        ("ec.pem", "ec.sec1"),
        ("rsa.der", "rsa.key.der"),
        ("rsa.pem", "rsa.aes"),
        ("rsa.pem", "rsa.des3"),
        ("ec.pem", "ec.aes"),
        ("rsa.pem", "rsa.pkcs8"),
        ("ec.pem", "ec.pkcs8"),
        ("ec.pem", "ec.pkcs8.der"),
        ("both.pem", "both.pem"),
    ] {
        let server = Server::start(Mpm::Percore, &site, &(dialog.clone() + &host(&[(certificate, key)], "")));
        let trusted = if certificate == "rsa.der" { "rsa.pem" } else { certificate };
        let (answer, ..) =
            ask(server.address(), &client(&site, &[trusted])).unwrap_or_else(|why| panic!("{key}: {why}"));
        assert!(answer.ends_with("hello\n"), "{key}: {answer}");
    }
}

/// A file with further certificates, and one for all.
#[test]
fn chains_are_sent() {
    let Some(site) = site() else { return };
    make(&site, "ca", "ec", "-days 90 -subj /CN=authority -addext keyUsage=critical,keyCertSign,cRLSign");
    openssl(&site, "req -new -key rsa.key -subj /CN=localhost -out leaf.csr");
    site.file("leaf.ext", "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n");
    openssl(
        &site,
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 90 -extfile leaf.ext -out leaf.pem",
    );
    site.file("chain.pem", site.read("leaf.pem") + &site.read("ca.pem"));
    for (file, more) in [("chain.pem", ""), ("leaf.pem", "SSLCertificateChainFile ${ROOT}/ca.pem")] {
        let server = Server::start(Mpm::Percore, &site, &host(&[(file, "rsa.key")], more));
        let seen = seen(server.address(), "-showcerts");
        assert_eq!(seen.matches("BEGIN CERTIFICATE").count(), 2, "{file}: {seen}");
        let (answer, ..) = ask(server.address(), &client(&site, &["ca.pem"])).expect("an answer");
        assert!(answer.ends_with("hello\n"), "{file}: {answer}");
    }
}

/// Both servers refuse the same, under the same numbers; ours says where the line is.
#[test]
fn unusable_files_are_refused_as_by_apache() {
    let test = "unusable_files_are_refused_as_by_apache";
    let Some(site) = site().filter(|_| oracle::is_there(test)) else { return };
    make(&site, "weak", "rsa:1024", LEAF);
    make(&site, "other", "rsa:2048", LEAF);
    openssl(&site, "rsa -in rsa.key -aes256 -passout pass:secret -traditional -out locked.key");
    site.file("junk", "not a certificate\n");
    let wrong = site.script("wrong", "#!/bin/sh\necho wrong\n");
    let wrong = format!("SSLPassPhraseDialog exec:{}\n", wrong.display());
    let files = |certificate: &str, key: &str| {
        format!("SSLCertificateFile ${{ROOT}}/{certificate}\nSSLCertificateKeyFile ${{ROOT}}/{key}")
    };
    let alone = |certificate: &str| format!("SSLCertificateFile ${{ROOT}}/{certificate}");
    for (first, lines, numbers, line) in [
        ("", String::new(), &["AH02572"][..], 7),
        ("", alone("junk"), &["AH02562"], 8),
        ("", alone("rsa.pem"), &["AH02579", "AH02564"], 8),
        ("", files("rsa.pem", "ec.key"), &["AH02565"], 9),
        ("", files("rsa.pem", "other.key"), &["AH02565"], 9),
        ("", files("rsa.pem", "junk"), &["AH02579", "AH02564"], 9),
        ("", files("weak.pem", "weak.key"), &["AH02562", "ee key too small"], 8),
        ("", files("junk", "rsa.key") + "\nSSLCertificateChainFile ${ROOT}/rsa.pem", &["AH02561"], 8),
        (&wrong, files("rsa.pem", "locked.key"), &["AH02580", "AH02564"], 10),
        ("", files("rsa.pem", "locked.key"), &["AH02578", "AH02564"], 9),
        ("", files("rsa.pem", "rsa.key") + "\nSSLProtocol -all", &["AH02231"], 10),
        ("", files("rsa.pem", "rsa.key") + "\nSSLSessionTicketKeyFile ${ROOT}/junk", &["AH02287"], 10),
        ("", files("rsa.pem", "rsa.key") + "\nSSLOpenSSLConfCmd Groups nonsense", &["AH02407"], 10),
    ] {
        let text = format!(
            "{first}<VirtualHost *:{PORT}>\nServerName {NAME}:{PORT}\n\nLogLevel warn\nSSLEngine on\n{lines}\n</VirtualHost>"
        );
        let modules = oracle::load_lines() + &crate::harness::beside::modules(&["ssl"]);
        site.configure_with(&modules, &text);
        site.file("logs/error_log", "");
        let mut theirs = Command::new(oracle::APACHE);
        theirs.args(["-d", site.path(), "-f", "conf/httpd.conf", "-DFOREGROUND"]).stdin(Stdio::null());
        let theirs = said(&without_terminal(theirs));
        assert_eq!(theirs.2, Some(1), "{lines}: {theirs:?}");
        let logged = site.read("logs/error_log");
        site.configure(Mpm::Event, &text);
        let ours = said(&without_terminal(Start::new(&site, Mpm::Event).command()));
        assert_eq!(ours.2, Some(1), "{lines}: {ours:?}");
        for number in numbers {
            assert!(logged.contains(number), "{lines}: {number}: {logged}");
            assert!(ours.1.contains(number), "{lines}: {number}: {}", ours.1);
        }
        let place = format!("conf/httpd.conf:{}", line - 1);
        assert!(ours.1.contains(&place) || lines.is_empty(), "{lines}: {place}: {}", ours.1);
    }
}

/// Features of Apache that Tsubame lacks cause an error instead of silently different behaviour.
#[test]
fn unsupported_features_are_refused() {
    let Some(site) = site() else { return };
    openssl(&site, "pkcs8 -topk8 -in rsa.key -scrypt -passout pass:secret -out scrypt.key");
    openssl(&site, "pkcs8 -topk8 -in rsa.key -v1 PBE-SHA1-3DES -passout pass:secret -out pbes1.key");
    for (lines, wanted) in [
        ("SSLCertificateFile pkcs11:object=x", "pkcs11:object=x at"),
        (
            "SSLCertificateFile ${ROOT}/rsa.pem\nSSLCertificateKeyFile ${ROOT}/scrypt.key",
            "openssl pkcs8 -topk8 -v2 aes256",
        ),
        (
            "SSLCertificateFile ${ROOT}/rsa.pem\nSSLCertificateKeyFile ${ROOT}/pbes1.key",
            "openssl pkcs8 -topk8 -v2 aes256",
        ),
        ("SSLOpenSSLConfCmd VerifyMode Peer", "is not supported"),
        ("SSLSRPVerifierFile ${ROOT}/rsa.pem", "SSLSRPVerifierFile at"),
        ("SSLProtocol TLSv1", "TLSv1 and TLSv1.1 are not offered"),
        ("SSLCipherSuite RC4-SHA\nSSLProtocol TLSv1.2", "AH01898"),
    ] {
        let usual = if lines.starts_with("SSLCertificate") { &[][..] } else { &[("rsa.pem", "rsa.key")] };
        site.configure(Mpm::Event, &host(usual, lines));
        let (_, errors, status) = said(&without_terminal(Start::new(&site, Mpm::Event).command()));
        assert!(errors.contains(wanted) && errors.contains("conf/httpd.conf:"), "{lines}: {errors}");
        assert_eq!(status, Some(1), "{lines}");
    }
    site.configure(Mpm::Event, &format!("SSLFIPS on\n{}", host(&[("rsa.pem", "rsa.key")], "")));
    let (_, errors, status) = said(&without_terminal(Start::new(&site, Mpm::Event).command()));
    assert!(errors.contains("AH01885") && status == Some(1), "{errors}");
}

/// What stands in many configurations and can be done, or has nothing to be done about.
#[test]
fn usual_commands_of_openssl_are_accepted() {
    let Some(site) = site() else { return };
    let parameters = "-----BEGIN DH PARAMETERS-----\nMAYCAQUCAQI=\n-----END DH PARAMETERS-----\n";
    site.file("with-dh.pem", format!("{}{parameters}", site.read("rsa.pem")));
    site.file("dh.pem", parameters);
    let lines = "SSLOpenSSLConfCmd ECDHParameters Automatic\nSSLOpenSSLConfCmd Curves prime256v1:secp384r1\n\
        SSLOpenSSLConfCmd DHParameters ${ROOT}/dh.pem\nSSLOpenSSLConfCmd Options -SessionTicket,ServerPreference\n\
        SSLOpenSSLConfCmd Protocol -ALL,TLSv1.2,TLSv1.3\nSSLOpenSSLConfCmd NumTickets 1";
    let server = Server::start(Mpm::Event, &site, &host(&[("with-dh.pem", "rsa.key")], lines));
    assert!(ask(server.address(), &client(&site, &["rsa.pem"])).expect("an answer").0.ends_with("hello\n"));
    let said = Command::new("openssl")
        .args(["s_client", "-connect", &server.address().to_string(), "-tls1_2", "-curves", "X25519:P-384"])
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("Server Temp Key: ECDH, secp384r1") && !said.contains("session ticket:"), "{said}");
}

/// Runs a command that finds no terminal to ask at.
fn without_terminal(command: Command) -> std::process::Output {
    let mut detached = Command::new("setsid");
    detached.arg("-w").arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        detached.env(name, value.unwrap_or_default());
    }
    if let Some(directory) = command.get_current_dir() {
        detached.current_dir(directory);
    }
    detached.output().expect("run")
}

/// A program that provides a pass phrase gets Apache's words as arguments, and is run once for all keys that it opens.
#[test]
fn programs_are_asked_as_by_apache() {
    let test = "programs_are_asked_as_by_apache";
    let Some(site) = site().filter(|_| oracle::is_there(test)) else { return };
    openssl(&site, "rsa -in rsa.key -aes256 -passout pass:secret -traditional -out locked.key");
    openssl(&site, "pkcs8 -topk8 -in ec.key -passout pass:secret -out locked-ec.key");
    let program = format!("#!/bin/sh\necho \"$@\" >>{}/asked\necho secret\n", site.path());
    let program = site.script("program", &program);
    let text = format!("SSLPassPhraseDialog exec:{}\n", program.display());
    let text = text + &host(&[("rsa.pem", "locked.key"), ("ec.pem", "locked-ec.key")], "");
    let asked = || {
        let asked = site.read("asked");
        let _ = std::fs::remove_file(site.root.join("asked"));
        asked
    };
    let wanted = format!("{NAME}:{PORT} RSA\n");
    {
        let modules = oracle::load_lines() + &crate::harness::beside::modules(&["ssl"]);
        let _apache = oracle::Apache::start_with(&site, &modules, &text);
        // Apache listens before it reads keys.
        until("apache2 to ask", || Some(site.read("asked")).filter(|asked| !asked.is_empty()));
        until("apache2", || site.read("logs/error_log").contains("AH00489").then_some(()));
        assert_eq!(asked(), wanted);
    }
    site.file("logs/error_log", "");
    let mut server = Server::start(Mpm::Event, &site, &text);
    assert_eq!(asked(), wanted);
    server.restart(Signal::USR1);
    assert_eq!(site.read("asked"), "", "a key whose file is the same is remembered");
    let (answer, ..) = ask(server.address(), &client(&site, &["rsa.pem", "ec.pem"])).expect("an answer");
    assert!(answer.ends_with("hello\n"), "{answer}");
    // A mere check asks for no pass phrase.
    let looked = Start::new(&site, Mpm::Event).arguments(&["-t"]).command().output().expect("run");
    assert_eq!(said(&looked).1, "Syntax OK\n");
    assert_eq!(site.read("asked"), "");
}

/// The administrator types the pass phrase at the start, after a mistake; a restart does not ask again.
#[test]
fn pass_phrases_are_typed_at_a_terminal() {
    let Some(site) = site() else { return };
    openssl(&site, "rsa -in rsa.key -aes256 -passout pass:secret -traditional -out locked.key");
    site.configure(Mpm::Event, &host(&[("rsa.pem", "locked.key")], ""));
    let command = Start::new(&site, Mpm::Event).arguments(&["-k", "start"]).command();
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy()).collect();
    let mut terminal = Command::new("script")
        .args(["-qefc", &words.join(" "), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script");
    let mut keyboard = terminal.stdin.take().expect("input");
    let mut screen = terminal.stdout.take().expect("output");
    let mut shown = String::new();
    for pass_phrase in ["wrong\n", "secret\n"] {
        shown.clear();
        while !shown.ends_with("Enter pass phrase:") {
            let mut piece = [0; 512];
            let read = screen.read(&mut piece).expect("a question");
            assert!(read > 0, "{shown}");
            shown.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        assert!(shown.contains(&format!("Private key {NAME}:{PORT}:0 ({}/locked.key)", site.path())), "{shown}");
        keyboard.write_all(pass_phrase.as_bytes()).expect("type");
    }
    let mut rest = String::new();
    screen.read_to_string(&mut rest).expect("the end");
    assert!(terminal.wait().expect("script").success(), "{shown}{rest}");
    assert!(shown.contains("Pass phrase incorrect (5 more retries permitted)") && !shown.contains("wrong"), "{shown}");
    let (answer, ..) = ask(site.address(), &client(&site, &["rsa.pem"])).expect("an answer");
    assert!(answer.ends_with("hello\n"), "{answer}");
    let (_, _, before) = ctl(&site, &["reload-certificates"]);
    assert_eq!(before, Some(0));
    let pid = crate::mpm::control::pid_of(&site).expect("pid");
    pid.kill(Signal::USR1).expect("signal");
    until("the restart", || site.read("logs/error_log").contains("AH00493").then_some(()));
    let (answer, ..) = ask(site.address(), &client(&site, &["rsa.pem"])).expect("an answer");
    assert!(answer.ends_with("hello\n"), "{answer}");
    pid.kill(Signal::TERM).expect("signal");
    until("the end", || (!pid.exists()).then_some(()));
}

/// Odd properties of a certificate are reported at the start, as by Apache.
#[test]
fn strange_certificates_get_apaches_lines() {
    let test = "strange_certificates_get_apaches_lines";
    let Some(site) = site().filter(|_| oracle::is_there(test)) else { return };
    make(&site, "ca", "rsa:2048", "-days 90 -subj /CN=other -addext basicConstraints=critical,CA:TRUE,pathlen:2");
    make(
        &site,
        "wild",
        "ec",
        "-days 90 -subj /CN=x -addext basicConstraints=CA:FALSE -addext subjectAltName=DNS:*.example.org",
    );
    let text = host(&[("ca.pem", "ca.key")], "")
        + &host(&[("wild.pem", "wild.key")], "").replace(&format!("ServerName {NAME}"), "ServerName www.example.org")
        + &host(&[("wild.pem", "wild.key")], "").replace(&format!("ServerName {NAME}"), "ServerName a.b.example.org")
        + &host(&[("rsa.pem", "rsa.key")], "").replace(&format!("ServerName {NAME}:{PORT}"), "ServerName localhost:80")
        + &format!("<VirtualHost *:{PORT}>\nServerName plain:443\n</VirtualHost>\n");
    let of = |log: &str| {
        let lines =
            log.lines().filter_map(|line| Some(format!("AH{}", line.split_once("[ssl:warn]")?.1.split_once("AH")?.1)));
        let mut lines: Vec<_> = lines.filter(|line| line.starts_with("AH0190") || line.starts_with("AH0191")).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    let theirs = {
        let modules = oracle::load_lines() + &crate::harness::beside::modules(&["ssl"]);
        let _apache = oracle::Apache::start_with(&site, &modules, &text);
        // It listens before it reads certificates.
        until("apache2", || site.read("logs/error_log").contains("AH00489").then_some(()));
        of(&site.read("logs/error_log"))
    };
    site.file("logs/error_log", "");
    let server = Server::start(Mpm::Event, &site, &text);
    assert_eq!(of(&server.log()), theirs);
    assert_eq!(theirs.len(), 6, "{theirs:?}");
    theirs.into_iter().for_each(|line| server.announce(line));
}

/// OpenSSL's words for versions, suites, groups and signatures, as a client sees them.
#[test]
fn less_is_offered_where_lines_say_so() {
    let Some(site) = site() else { return };
    for (lines, words, wanted) in [
        ("SSLProtocol TLSv1.3", "-tls1_2", "alert protocol version"),
        ("SSLProtocol -all +TLSv1.2", "-tls1_3", "alert protocol version"),
        ("SSLCipherSuite ECDHE-RSA-CHACHA20-POLY1305", "-tls1_2", "Cipher is ECDHE-RSA-CHACHA20-POLY1305"),
        ("SSLCipherSuite TLSv1.3 TLS_CHACHA20_POLY1305_SHA256", "", "Cipher is TLS_CHACHA20_POLY1305_SHA256"),
        ("", "-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384", "Cipher is TLS_AES_128_GCM_SHA256"),
        (
            "SSLHonorCipherOrder on",
            "-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384",
            "Cipher is TLS_AES_256_GCM_SHA384",
        ),
        ("SSLOpenSSLConfCmd Groups P-384", "", "secp384r1"),
        ("SSLOpenSSLConfCmd Curves P-521:prime256v1", "", "prime256v1"),
        ("SSLOpenSSLConfCmd MinProtocol TLSv1.3", "-tls1_2", "alert protocol version"),
        ("SSLOpenSSLConfCmd MaxProtocol TLSv1.2", "", "New, TLSv1.2"),
        ("SSLOpenSSLConfCmd CipherString AES128+ECDHE", "-tls1_2", "Cipher is ECDHE-RSA-AES128-GCM-SHA256"),
        ("SSLOpenSSLConfCmd Ciphersuites TLS_AES_128_GCM_SHA256", "", "Cipher is TLS_AES_128_GCM_SHA256"),
        ("SSLOpenSSLConfCmd SignatureAlgorithms RSA-PSS+SHA384", "", "Peer signing digest: SHA384"),
    ] {
        let server = Server::start(Mpm::Percore, &site, &host(&[("rsa.pem", "rsa.key")], lines));
        server.allow("is not offered");
        let seen = seen(server.address(), words);
        assert!(seen.contains(wanted), "{lines} {words}: {seen}");
    }
    site.file("logs/error_log", "");
    let text = "SSLProtocol all -TLSv1.3 -TLSv1\nSSLCipherSuite RC4-SHA:AES128-SHA:HIGH";
    let server = Server::start(Mpm::Percore, &site, &host(&[("rsa.pem", "rsa.key")], text));
    let place = |line| format!("{}/conf/httpd.conf:{line}", site.path());
    server.announce(format!("protocol TLSv1.1 at {} is not offered", place(7)));
    server.announce(format!("suites RC4-SHA, AES128-SHA at {} are not offered", place(8)));
}

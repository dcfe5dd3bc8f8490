//! A certificate authority of a test's own: Pebble, which is made to test clients of ACME, with a name server that gives every
//! name the same address. Both are Go programs, and are installed below the directory for what tests make.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::harness::site::Site;
use crate::harness::tls::{Secure, trusting};
use crate::harness::wait::until;

const VERSION: &str = "v2.10.1";
/// Its ports, at the address of a site.
const ACME: u16 = 14000;
const MANAGEMENT: u16 = 15000;
const DNS: u16 = 8053;
/// The management port of the name server, through which tests change its answers.
pub const NAMES_MANAGEMENT: u16 = 8055;

/// The directory of the programs, which are installed if they are missing. `None`: that cannot be done.
pub fn programs() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(install).as_deref()
}

fn install() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pebble").join(VERSION);
    let names = ["pebble", "pebble-challtestsrv"];
    let all_there = || names.iter().all(|name| place.join(name).exists());
    if !all_there() {
        let module = |name: &str| format!("github.com/letsencrypt/pebble/v2/cmd/{name}@{VERSION}");
        // A machine without a network is not waited for.
        let mut go = Command::new("timeout");
        go.args(["180", "go", "install"]).args(names.map(module)).env("GOBIN", &place).stderr(Stdio::null());
        go.status().ok()?;
    }
    all_there().then_some(place)
}

/// A running authority.
pub struct Pebble {
    ip: Ipv4Addr,
    /// Believes the authority itself, not what it signs.
    config: Arc<ClientConfig>,
    processes: Vec<Child>,
}

/// The settings of the authority.
pub struct Wanted {
    /// The port on which it looks for proofs, at the address that all names have.
    pub http_port: u16,
    pub tls_port: u16,
    /// How long its certificates are good, in seconds.
    pub life: u32,
}

impl Pebble {
    /// The lines of a configuration that have certificates ordered there. The authority need not run yet.
    pub fn lines(site: &Site) -> String {
        let key = KeyPair::generate().expect("key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("certificate");
        let own = KeyPair::generate().expect("key");
        let leaf = CertificateParams::new(vec![site.ip.to_string()]).expect("parameters");
        let leaf = leaf.signed_by(&own, &Issuer::new(params, key)).expect("certificate");
        site.file("ca/root.pem", root.pem());
        site.file("ca/own.pem", leaf.pem());
        site.file("ca/own.key", own.serialize_pem());
        format!(
            "MDCertificateAuthority https://{}:{ACME}/dir\nMDCACertificateFile ca/root.pem\nMDCertificateAgreement accepted\n\
             MDContactEmail admin@example.org\nMDStoreDir md\n",
            site.ip
        )
    }

    /// Starts the authority that [`lines`](Pebble::lines) are about.
    pub fn start(site: &Site, wanted: &Wanted) -> Pebble {
        let programs = programs().expect("pebble");
        let (ip, root) = (site.ip, site.path());
        let Wanted { http_port, tls_port, life } = wanted;
        let text = format!(
            r#"{{"pebble": {{"listenAddress": "{ip}:{ACME}", "managementListenAddress": "{ip}:{MANAGEMENT}",
            "certificate": "{root}/ca/own.pem", "privateKey": "{root}/ca/own.key", "httpPort": {http_port}, "tlsPort": {tls_port},
            "profiles": {{"default": {{"description": "a test's", "validityPeriod": {life}}}}}}}}}"#
        );
        let file = site.file("ca/pebble.json", text);
        let log = |name: &str| std::fs::File::create(site.root.join("logs").join(name)).expect("log");
        let names = Command::new(programs.join("pebble-challtestsrv"))
            .args(["-defaultIPv4", &ip.to_string(), "-defaultIPv6", "", "-dnsserver", &format!("{ip}:{DNS}")])
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
            .args(["-management", &format!("{ip}:{NAMES_MANAGEMENT}")])
            .stdout(log("names"))
            .stderr(log("names.err"))
            .spawn()
            .expect("name server");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(site.root.join("ca/root.pem")).expect("root")).expect("root");
        // If anything below fails, they end.
        let mut pebble = Pebble { ip, config: trusting(roots), processes: vec![names] };
        until("the name server", || TcpStream::connect((ip, NAMES_MANAGEMENT)).ok());
        let authority = Command::new(programs.join("pebble"))
            .args(["-config", file.to_str().expect("path"), "-dnsserver", &format!("{ip}:{DNS}")])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .stdout(log("pebble"))
            .stderr(log("pebble.err"))
            .spawn()
            .expect("authority");
        pebble.processes.push(authority);
        until("the authority", || {
            let ended = pebble.processes[1].try_wait().expect("wait");
            assert!(ended.is_none(), "it does not start: {}", site.read("logs/pebble.err"));
            TcpStream::connect((ip, ACME)).ok()
        });
        pebble
    }

    /// A client that believes what the authority signs.
    pub fn client(&self) -> Arc<ClientConfig> {
        let address = SocketAddr::from((self.ip, MANAGEMENT));
        let answer = Secure::named(address, &self.config, &self.ip.to_string()).get("/roots/0");
        let (_, pem) = answer.split_once("\r\n\r\n").expect("a head");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("root");
        trusting(roots)
    }

    /// How many orders it has taken; one that it refuses for its nonce, as it does by chance, is sent again.
    pub fn orders(site: &Site) -> usize {
        ["logs/pebble", "logs/pebble.err"].map(|name| site.read(name).matches("Added order ").count()).iter().sum()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().expect("kill");
            process.wait().expect("wait");
        }
    }
}

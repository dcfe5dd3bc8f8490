//! What a request knows of its TLS connection, certificates of clients, and virtual hosts by name (SNI): ours beside Apache's.
//!
//! Both get the same certificates, made by openssl, and the same configuration; curl and `openssl s_client` are the clients.

use std::process::{Command, Output};

use crate::mpm::{Mpm, under_every_mpm};
use crate::needs;
use crate::oracle::{self, Apache, MODULES};
use crate::server::Server;
use crate::site::{PORT, Site};
use crate::wait::until;

/// A place with certificates: `root` has issued `server`, `good`, `plain` (version 1), `revoked`, `expired` and `inter`, which has
/// issued `deep`; `other` has issued `foreign`; `self` nobody but itself.
fn site() -> Site {
    let site = Site::new();
    site.file("certs/ext.cnf", EXTENSIONS);
    site.file("certs/ca.cnf", AUTHORITY);
    site.file("certs/make", MAKE);
    let made = Command::new("/bin/sh").arg("make").current_dir(site.root.join("certs")).output().expect("sh");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    site.script("env", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv -0 | tr '\\n' '~' | tr '\\0' '\\n' | sort\n");
    site.page("index.html", "hello\n");
    site
}

const EXTENSIONS: &str = "[none]\n[ca]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\n[server]\nbasicConstraints=CA:FALSE\n\
    subjectAltName=DNS:localhost,DNS:*.example,email:admin@example.org,otherName:1.3.6.1.5.5.7.8.7;IA5:_https.localhost\n\
    [client]\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=clientAuth\n\
    subjectAltName=email:jo@example.org,email:jo2@example.org,DNS:c.example,otherName:1.3.6.1.4.1.311.20.2.3;UTF8:jo@upn.example\n\
    nsComment=\"A comment\"\n1.2.3.4.5=ASN1:UTF8String:special\n";

const AUTHORITY: &str = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\ncrlnumber=crlnumber\nnew_certs_dir=.\ncertificate=root.pem\n\
    private_key=root.key\ndefault_md=sha256\npolicy=p\ndefault_crl_days=300\nunique_subject=no\n[p]\ncommonName=supplied\n\
    [req]\ndistinguished_name=n\n[n]\n";

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
own root "/C=DE/O=Root CA/CN=Root" ca
own other "/C=DE/O=Other CA/CN=Other" ca
own self "/CN=self" none
sign inter "/C=DE/O=Root CA/CN=Intermediate" root ca 0x10
sign server "/C=DE/ST=Bayern/L=Ort/O=Firma, Inc./OU=A/OU=B/CN=localhost/emailAddress=web@example.org" root server 0x1234
sign good "/C=DE/O=Firma/OU=X/OU=Y/CN=Jö \\ <b>/emailAddress=jo@example.org/title=Dr/initials=J/GN=Jo/SN=Name/description=D/UID=u1" root client 0x80ff01
sign plain "/CN=plain" root "" 0x21
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
chmod a+r *.pem *.key
"#;

/// What every configuration of a test has in front.
const COMMON: &str = "<IfModule !ssl_module>\nLoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n</IfModule>\n\
    LogLevel ssl:info\nSSLSessionCache none\n\
    SSLCertificateFile ${ROOT}/certs/server.pem\nSSLCertificateKeyFile ${ROOT}/certs/server.key\n\
    ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n";

fn is_there(test: &str) -> bool {
    needs::OPENSSL.is_there(test) && needs::CURL.is_there(test)
}

/// One request with curl: the certificate to show, arguments of curl, a path.
fn curl(site: &Site, certificate: &str, more: &[&str], path: &str) -> Output {
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
fn said(output: &Output) -> (String, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    (body.to_string(), status.to_string())
}

/// Does the same with ours under event and with Apache, each in a place of its own; gives what both came to, if both are there.
fn beside<T>(test: &str, configuration: &str, ask: impl Fn(&Site) -> T) -> Option<[T; 2]> {
    if !is_there(test) || !oracle::is_there(test) {
        return None;
    }
    let configuration = format!("{COMMON}{configuration}");
    let ours = site();
    let ours = {
        let server = Server::start(Mpm::Event, &ours, &configuration);
        server.allow("");
        ask(&ours)
    };
    let theirs = site();
    // Apache's certificates are another openssl's work, but for the same words.
    let _apache = Apache::start(&theirs, &configuration);
    Some([ours, ask(&theirs)])
}

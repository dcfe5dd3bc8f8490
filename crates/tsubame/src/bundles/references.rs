//! The files that a configuration names and a bundle does not hold: certificates, keys, lists of users.

use std::io::Read as _;

use conf::Node;
use server::Server;
use server::module::fingerprints;
use server::paths::os_path;

use super::manifest::Reference;

/// The largest file whose certificates are looked at, in bytes.
const SIZE_MAX: u64 = 4 << 20;

/// Directives whose first word names such a file, and whether certificates are in it.
const DIRECTIVES: [(&str, bool); 17] = [
    ("SSLCertificateFile", true),
    ("SSLCertificateChainFile", true),
    ("SSLCACertificateFile", true),
    ("SSLCADNRequestFile", true),
    ("SSLProxyCACertificateFile", true),
    ("SSLProxyMachineCertificateFile", true),
    ("SSLProxyMachineCertificateChainFile", true),
    ("SSLOCSPResponderCertificateFile", true),
    ("MDCertificateFile", true),
    ("SSLCertificateKeyFile", false),
    ("MDCertificateKeyFile", false),
    ("SSLSessionTicketKeyFile", false),
    ("SSLCARevocationFile", false),
    ("SSLProxyCARevocationFile", false),
    ("AuthUserFile", false),
    ("AuthGroupFile", false),
    ("SessionCryptoPassphraseFile", false),
];

/// The files that a configuration names, in its order, each once. `Err`: one that is not there, or cannot be read.
pub(crate) fn referenced(server: &Server) -> Result<Vec<Reference>, String> {
    let mut found = Vec::new();
    collect(&server.tree, &mut found);
    let mut all: Vec<Reference> = Vec::new();
    for (directive, path, has_certificates) in found {
        if !all.iter().any(|one| one.directive == directive && one.path == path) {
            let fingerprints = look(&server.language.server_root, &path, has_certificates)
                .map_err(|why| format!("{directive} {path}: {why}"))?;
            all.push(Reference { directive: directive.into(), path, fingerprints });
        }
    }
    Ok(all)
}

/// What is wrong with these files on a machine with this `ServerRoot`, a text for each.
pub(crate) fn missing(root: &str, references: &[Reference]) -> Vec<String> {
    let wrong = |Reference { directive, path, fingerprints }: &Reference| {
        let why = match look(root, path, !fingerprints.is_empty()) {
            Ok(found) if found == *fingerprints => return None,
            Ok(found) => {
                let short = |all: &[String]| {
                    let all: Vec<&str> = all.iter().map(|one| one.get(..16).unwrap_or(one)).collect();
                    if all.is_empty() { "none".to_string() } else { all.join(", ") }
                };
                format!(
                    "other certificates than in the bundle: fingerprints {} instead of {}",
                    short(&found),
                    short(fingerprints)
                )
            }
            Err(why) => why,
        };
        Some(format!("{directive} {path}: {why}"))
    };
    references.iter().filter_map(wrong).collect()
}

fn collect(nodes: &[Node], found: &mut Vec<(&'static str, String, bool)>) {
    for node in nodes {
        if let Some((name, certificates)) = DIRECTIVES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&node.name))
            && let Some(path) = conf::words::words(&node.args).into_iter().next()
        {
            found.push((*name, path, *certificates));
        }
        collect(node.children.as_deref().unwrap_or_default(), found);
    }
}

/// The fingerprints of a file's certificates.
fn look(root: &str, path: &str, has_certificates: bool) -> Result<Vec<String>, String> {
    let path = os_path(&conf::paths::join(root, path));
    let problem = |error: std::io::Error| sys::describe(&error);
    if !std::fs::metadata(&path).map_err(problem)?.is_file() {
        return Err("not a regular file".into());
    }
    if !has_certificates {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(&path).and_then(|file| file.take(SIZE_MAX).read_to_end(&mut bytes)).map_err(problem)?;
    fingerprints(&bytes)
}

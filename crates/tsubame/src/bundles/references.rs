//! The files that a configuration names and a bundle does not hold: certificates, keys, lists of users.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::Path;

use conf::Node;
use server::Server;
use server::module::fingerprints;
use server::paths::os_path;
use sys::cred::Identity;

use super::manifest::Reference;

/// The largest file whose certificates are looked at, in bytes.
const SIZE_MAX: u64 = 4 << 20;

/// What is in such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Certificates,
    /// A key, a secret, a list: the start reads it.
    Other,
    /// Lines with a name and a colon, which children read when somebody logs in.
    Names,
}

/// Directives whose first word names such a file, and what is in it.
const DIRECTIVES: [(&str, Holds); 17] = [
    ("SSLCertificateFile", Holds::Certificates),
    ("SSLCertificateChainFile", Holds::Certificates),
    ("SSLCACertificateFile", Holds::Certificates),
    ("SSLCADNRequestFile", Holds::Certificates),
    ("SSLProxyCACertificateFile", Holds::Certificates),
    ("SSLProxyMachineCertificateFile", Holds::Certificates),
    ("SSLProxyMachineCertificateChainFile", Holds::Certificates),
    ("SSLOCSPResponderCertificateFile", Holds::Certificates),
    ("MDCertificateFile", Holds::Certificates),
    ("SSLCertificateKeyFile", Holds::Other),
    ("MDCertificateKeyFile", Holds::Other),
    ("SSLSessionTicketKeyFile", Holds::Other),
    ("SSLCARevocationFile", Holds::Other),
    ("SSLProxyCARevocationFile", Holds::Other),
    ("AuthUserFile", Holds::Names),
    ("AuthGroupFile", Holds::Names),
    ("SessionCryptoPassphraseFile", Holds::Other),
];

fn holds(directive: &str) -> Option<&'static (&'static str, Holds)> {
    DIRECTIVES.iter().find(|(name, _)| name.eq_ignore_ascii_case(directive))
}

/// The files that a configuration names, in its order, each once. `Err`: one that is missing or cannot be used; those that
/// the user of this process may not read count as usable, except for certificates.
pub(crate) fn referenced(server: &Server, children: Option<&Identity>) -> Result<Vec<Reference>, String> {
    let mut found = Vec::new();
    collect(&server.tree, &mut found);
    let root = &server.language.server_root;
    let mut all: Vec<Reference> = Vec::new();
    for (directive, path, holds) in found {
        if all.iter().any(|one| one.directive == directive && one.path == path) {
            continue;
        }
        let named = |why: &dyn std::fmt::Display| format!("{directive} {path}: {why}");
        let fingerprints = look(root, &path, holds == Holds::Certificates).map_err(|why| named(&why))?;
        match use_as(root, &path, holds, children) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && children.is_none() => {}
            used => used.map_err(|error| named(&sys::describe(&error)))?,
        }
        all.push(Reference { directive: directive.into(), path, fingerprints });
    }
    Ok(all)
}

/// Which of these files are missing or others than they were, on a machine with this `ServerRoot`; a text for each.
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

/// Which of these files a server could not use whose children are this user, a text for each.
pub(crate) fn unusable(root: &str, references: &[Reference], children: Option<&Identity>) -> Vec<String> {
    let wrong = |Reference { directive, path, .. }: &Reference| {
        let (_, holds) = holds(directive)?;
        let error = use_as(root, path, *holds, children).err()?;
        Some(format!("{directive} {path}: {}", sys::describe(&error)))
    };
    references.iter().filter_map(wrong).collect()
}

fn collect(nodes: &[Node], found: &mut Vec<(&'static str, String, Holds)>) {
    for node in nodes {
        if let Some((name, holds)) = holds(&node.name)
            && let Some(path) = conf::words::words(&node.args).into_iter().next()
        {
            found.push((*name, path, *holds));
        }
        collect(node.children.as_deref().unwrap_or_default(), found);
    }
}

/// The fingerprints of a file's certificates.
fn look(root: &str, path: &str, has_certificates: bool) -> Result<Vec<String>, String> {
    let path = os_path(&conf::paths::join(root, path));
    let problem = |error: io::Error| sys::describe(&error);
    if !std::fs::metadata(&path).map_err(problem)?.is_file() {
        return Err("not a regular file".into());
    }
    if !has_certificates {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    File::open(&path).and_then(|file| file.take(SIZE_MAX).read_to_end(&mut bytes)).map_err(problem)?;
    fingerprints(&bytes)
}

/// Reads a file as the server would. What is in keys and certificates, the modules have looked at.
fn use_as(root: &str, path: &str, holds: Holds, children: Option<&Identity>) -> io::Result<()> {
    let path = os_path(&conf::paths::join(root, path));
    match (holds, children) {
        (Holds::Names, Some(children)) => children.act(|| names(&path))?.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                io::Error::other(format!("the user of the server's children may not read it ({})", children.uid))
            }
            _ => error,
        }),
        (Holds::Names, None) => names(&path),
        _ => File::open(&path)?.read(&mut [0]).map(drop),
    }
}

/// Reads a file of users or groups. `Err`: it cannot be read, or has a line that names nobody.
fn names(path: &Path) -> io::Result<()> {
    for (number, line) in BufReader::new(File::open(path)?).split(b'\n').enumerate() {
        let line = line?;
        let line = line.trim_ascii();
        if !line.is_empty()
            && !line.starts_with(b"#")
            && line.iter().position(|byte| *byte == b':').is_none_or(|at| at == 0)
        {
            return Err(io::Error::other(format!("line {} is no name with a colon", number + 1)));
        }
    }
    Ok(())
}

//! Configuration shown in the documents is accepted unchanged, by Tsubame and, if it has the modules, by Apache.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::tables::infos;
use crate::harness::oracle;
use crate::harness::site::{MANAGED, Site};

/// A piece of configuration in a document.
struct Shown {
    /// Its place, for the person who has to correct it.
    from: String,
    text: String,
    /// Identifiers of the modules that Tsubame is to have; empty is all of them.
    modules: Vec<String>,
    /// `LoadModule` lines for Apache; none if Apache does not check it.
    theirs: Option<String>,
    /// The text without what Apache does not have.
    common: String,
    /// There is nothing to warn of.
    is_plain: bool,
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// How blocks and recipes begin that only Tsubame accepts.
const OWN: &str = "Tsubame only";

#[test]
fn examples_of_directives_are_accepted() {
    all_are_accepted("examples_of_directives_are_accepted", &examples());
}

#[test]
fn recipes_are_accepted() {
    all_are_accepted("recipes_are_accepted", &recipes());
}

/// The examples of each module's directives.
fn examples() -> Vec<Shown> {
    let files = std::fs::read_dir(Path::new(ROOT).join("docs/examples")).expect("docs/examples");
    let shown = files.map(|file| {
        let path = file.expect("a file").path();
        let module = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_string();
        let text = std::fs::read_to_string(&path).expect("text");
        let common: Vec<&str> = text.split("\n\n").filter(|block| !block.starts_with(&format!("# {OWN}"))).collect();
        let common = common.join("\n\n");
        Shown {
            from: format!("docs/examples/{module}.conf"),
            theirs: apache_with(&module),
            text,
            common,
            modules: Vec::new(),
            is_plain: false,
        }
    });
    shown.collect()
}

/// The recipes.
fn recipes() -> Vec<Shown> {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/recipes.md")).expect("docs/recipes.md");
    let shown: Vec<Shown> = page.split("\n## ").skip(1).flat_map(recipe).collect();
    assert!(shown.len() > 20, "{} recipes", shown.len());
    shown
}

/// What the documents show is answered as by Apache, as far as the program can tell that administrators ask before they switch.
#[test]
fn what_is_shown_is_answered_as_apache_does() {
    let test = "what_is_shown_is_answered_as_apache_does";
    let lab = Path::new(env!("CARGO_BIN_EXE_tsubame")).with_file_name("tsubame-lab");
    if !oracle::is_there(test) {
        return;
    }
    assert!(lab.exists(), "cargo build -p tsubame-lab");
    let shown: Vec<Shown> = examples()
        .into_iter()
        .chain(recipes())
        .filter(|shown| shown.theirs.is_some() && !shown.common.trim().is_empty())
        .collect();
    all_pass(&shown, &|shown| differs(shown, &lab));
}

/// The blocks of the tutorial, one after the other, are what its reader ends with.
#[test]
fn the_tutorial_ends_with_a_configuration_that_is_accepted() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/tutorial.md")).expect("docs/tutorial.md");
    let site = Site::new();
    let text: String = blocks(&page).map(|(_, code)| code).collect();
    site.file("first/conf/httpd.conf", text);
    for directory in ["htdocs", "cgi-bin", "logs"] {
        std::fs::create_dir_all(site.root.join("first").join(directory)).expect("directory");
    }
    for name in ["pem", "key"] {
        site.file(format!("first/conf/localhost.{name}"), pem());
    }
    let mut tsubame = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    let file = site.root.join("first/conf/httpd.conf");
    let output = tsubame.env("HOME", &site.root).arg("-f").arg(file).arg("-t").output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "Syntax OK\n");
}

/// The blocks of configuration in a page, each with the text before it.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut parts = page.split("```");
    let mut before = parts.next().unwrap_or_default();
    std::iter::from_fn(move || {
        let (code, after) = (parts.next()?, parts.next()?);
        Some((std::mem::replace(&mut before, after), code))
    })
    .filter_map(|(before, code)| Some((before, code.strip_prefix("apache\n")?)))
}

/// Each block of configuration of a recipe, with the modules that the recipe names and those that Debian enables by itself.
fn recipe(text: &str) -> Vec<Shown> {
    const DEFAULT: [&str; 18] = [
        "access_compat",
        "alias",
        "auth_basic",
        "authn_core",
        "authn_file",
        "authz_core",
        "authz_host",
        "authz_user",
        "autoindex",
        "deflate",
        "dir",
        "env",
        "filter",
        "mime",
        "mpm_event",
        "negotiation",
        "setenvif",
        "status",
    ];
    let title = text.lines().next().unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("Modules: ")).unwrap_or_default();
    let named = named.split_whitespace().map(|name| name.trim_matches('`'));
    // The modules that a2enmod enables together with a module.
    let with = named.flat_map(|name| match name {
        "proxy_fcgi" => vec!["proxy", name],
        "ssl" => vec!["socache_shmcb", name],
        "md" => vec!["watchdog", name],
        "authnz_ldap" => vec!["ldap", name],
        _ => vec![name],
    });
    let mut names: Vec<&str> = DEFAULT.into_iter().chain(with).collect();
    names.dedup();
    let theirs = names.iter().filter(|name| Path::new(oracle::MODULES).join(format!("mod_{name}.so")).exists());
    let theirs: String =
        theirs.map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", oracle::MODULES)).collect();
    let block = |(before, block): (&str, &str)| Shown {
        from: format!("docs/recipes.md, {title}"),
        text: block.into(),
        modules: names.iter().map(|name| format!("{name}_module")).collect(),
        theirs: (!before.trim_end().ends_with(&format!("<!-- {OWN} -->"))).then(|| theirs.clone()),
        common: block.into(),
        is_plain: true,
    };
    blocks(text).map(block).collect()
}

/// `LoadModule` lines for an Apache that has the module, and for everything else it can load; none if it lacks the
/// module.
fn apache_with(module: &str) -> Option<String> {
    const LINKED: [&str; 8] =
        ["core", "http_core", "mod_log_config", "mod_logio", "mod_so", "mod_unixd", "mod_version", "mod_watchdog"];
    let file = |name: &str| Path::new(oracle::MODULES).join(format!("{name}.so"));
    let mpm = module.strip_prefix("mpm_").filter(|_| file(&format!("mod_{module}")).exists());
    let mpm = format!("mpm_{}_module", mpm.unwrap_or("event"));
    let own = infos().into_iter().find(|info| info.source.trim_end_matches(".c") == module);
    let is_there =
        LINKED.contains(&module) || module == "util_ldap" || module.starts_with("mpm_") || file(module).exists();
    // suEXEC is a separate program, in another package of Debian.
    if module == "mod_suexec" && !Path::new("/usr/lib/apache2/suexec").exists() {
        return None;
    }
    let more = own.filter(|info| MANAGED.contains(&info.id)).map(|info| info.id);
    let more = [Some("ssl_module"), more].into_iter().flatten().map(|id| {
        let name = id.trim_end_matches("_module");
        format!("LoadModule {id} {}/mod_{name}.so\n", oracle::MODULES)
    });
    let lines = oracle::load_lines().replace("mpm_event", mpm.trim_end_matches("_module"));
    is_there.then(|| lines + &more.collect::<String>())
}

/// Runs both programs on each piece, and shows all that is refused.
fn all_are_accepted(test: &str, shown: &[Shown]) {
    let has_apache = oracle::is_there(test);
    all_pass(shown, &|shown| refused(shown, has_apache));
}

/// Checks the pieces, several at a time, and shows what all checks say.
fn all_pass(shown: &[Shown], check: &(dyn Fn(&Shown) -> Option<String> + Sync)) {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut said = Vec::new();
        while let Some(one) = shown.get(next.fetch_add(1, Ordering::Relaxed)) {
            said.extend(check(one));
        }
        said
    };
    let said: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(said.is_empty(), "{} of {}:\n{}", said.len(), shown.len(), said.join("\n"));
}

/// What `tsubame-lab switch` finds that is unexplained, or why it cannot compare.
fn differs(shown: &Shown, lab: &Path) -> Option<String> {
    let site = Site::new();
    let modules = shown.theirs.as_deref().unwrap_or_default();
    let text = placed(&site, &shown.common);
    let listen = if text.lines().any(|line| line.trim() == "Listen 80") { "" } else { "Listen 80\n" };
    site.file("conf/shown.conf", text);
    site.file(
        "conf/httpd.conf",
        format!(
            "{modules}ServerRoot {root}\nServerName www.example.org\n{listen}User www-data\nGroup www-data\n\
             TypesConfig {root}/conf/mime.types\nDocumentRoot {root}/htdocs\nPidFile run/pid\nErrorLog logs/error_log\n\
             Include conf/shown.conf\n",
            root = site.path()
        ),
    );
    let mut command = Command::new(lab);
    command.args(["switch", "--rounds", "0", "--json", "--from", "configuration,files", "--tsubame"]);
    let output = command.arg(env!("CARGO_BIN_EXE_tsubame")).arg("-f").arg(site.root.join("conf/httpd.conf")).output();
    let output = output.expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    let Ok(report) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
        return Some(format!("{}: {said}", shown.from));
    };
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{}: {}", shown.from, report["asked"]);
    }
    let findings = report["findings"].as_array().into_iter().flatten().filter(|one| one["meant"].is_null());
    let findings: Vec<String> =
        findings.chain(report["misread"].as_array().into_iter().flatten()).map(|one| format!("{one:#}")).collect();
    (!findings.is_empty()).then(|| format!("{}:\n{}", shown.from, findings.join("\n")))
}

/// A program's objection to a piece.
fn refused(shown: &Shown, has_apache: bool) -> Option<String> {
    let site = Site::new();
    let ours: String = shown.modules.iter().map(|id| format!("LoadModule {id} modules/any.so\n")).collect();
    let mut said = Vec::new();
    let mut ask = |program: &str, modules: &str, text: &str| {
        let text = placed(&site, text);
        let base = "ServerName localhost\nListen 127.0.0.1:9\nDefaultRuntimeDir run\nPidFile logs/pid\nErrorLog logs/error_log\n";
        site.file("conf/httpd.conf", format!("{modules}{base}Include conf/shown.conf\n"));
        site.file("conf/shown.conf", text);
        let output =
            Command::new(program).args(["-d", site.path(), "-f", "conf/httpd.conf", "-t"]).output().expect("run");
        let errors = String::from_utf8_lossy(&output.stderr).replace(site.path(), "");
        if !output.status.success() || shown.is_plain && errors != "Syntax OK\n" {
            said.push(format!("{}, by {program}:\n{errors}", shown.from));
        }
    };
    ask(env!("CARGO_BIN_EXE_tsubame"), &ours, &shown.text);
    if let Some(theirs) = shown.theirs.as_ref().filter(|_| has_apache) {
        ask(oracle::APACHE, theirs, &shown.common);
    }
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Moves the directories that the text names below the site's root, and creates the named files there: a name with a
/// dot is a file, any other a directory.
fn placed(site: &Site, text: &str) -> String {
    const TREES: [&str; 4] = ["/etc/", "/srv/", "/usr/local/", "/var/"];
    let is_before = |c: char| c.is_whitespace() || matches!(c, '"' | ':' | '|');
    let is_after = |c: char| c.is_whitespace() || matches!(c, '"' | ':' | '(' | '>');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        out += before;
        let is_path = TREES.iter().any(|tree| path.starts_with(tree)) && out.ends_with(is_before);
        let length = if is_path { path.find(is_after).unwrap_or(path.len()) } else { 1 };
        if is_path {
            make(site, &path[1..length]);
            out += site.path();
        }
        out += &path[..length];
        rest = &path[length..];
    }
    out + rest
}

fn make(site: &Site, path: &str) {
    const PATTERN: [char; 4] = ['*', '%', '$', '['];
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        _ if path.contains(PATTERN) => {}
        None => {
            std::fs::create_dir_all(site.root.join(path)).expect("directory");
            // A directory of authorities must not be empty.
            if path.starts_with("etc/ssl/") {
                site.file(format!("{path}/ca.pem"), pem());
            }
        }
        Some((_, kind)) => {
            let file = site.file(path, content(kind));
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("mode");
        }
    }
}

/// The content of a file of this kind that must not be empty.
fn content(kind: &str) -> &'static [u8] {
    match kind {
        "pem" => pem().as_bytes(),
        "secret" => b"a secret",
        "sh" => b"#!/bin/sh\necho a secret\n",
        // Keys for the tickets of TLS.
        "bin" => &[7; 80],
        // Languages and their charsets.
        "conv" => b"utf-8 UTF-8\nen ISO-8859-1\n",
        // Perl wants a true value of a file that it requires.
        "pl" => b"1;\n",
        _ => b"",
    }
}

/// A certificate, its key, and a list of what it has revoked.
fn pem() -> &'static str {
    static PEM: OnceLock<String> = OnceLock::new();
    PEM.get_or_init(|| {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["example.org".to_string()]).expect("names");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let list = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2026, 1, 1),
            next_update: rcgen::date_time_ymd(2126, 1, 1),
            crl_number: rcgen::SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&rcgen::Issuer::from_params(&params, &key)).expect("a list").pem().expect("text");
        certificate + &key.serialize_pem() + &list
    })
}

//! The configuration of a server that runs beside the live one: everything it writes goes to a directory of its own, and it
//! listens on endpoints of its own.

mod quiet;

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use quiet::Quiet;

use super::ask::NUMBER_FIELD;
use super::endpoints::{Endpoints, Network, Written};
use super::sites::Sites;
use super::tree::{Directive, Installed, all, quoted};
use crate::machine::error::{Context as _, Result, write_file};
use crate::machine::identity::Identity;

/// The field that carries a client's address: mod_remoteip believes it, because it comes from the loopback network. Its name is
/// another one in each run, so that no other user of the machine can say where a request comes from.
pub(crate) static CLIENT_FIELD: LazyLock<String> = LazyLock::new(|| {
    let by_chance = RandomState::new().hash_one(std::process::id());
    format!("X-Tsubame-Switch-Client-{by_chance:016x}")
});

/// The directory of files that the server's children write.
const CHILDREN: &str = "children";

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// It is left out, for this reason.
    LeftOut(&'static str),
    /// Its first argument is a file that is written while the server still is root: one of this name and the line's number.
    PrivateFile(&'static str),
    /// Its first argument is a file that the server's children write.
    ChildrensFile(&'static str),
    /// Its first argument is a directory that is written.
    Directory(&'static str),
    /// Its first argument is a directory that is read and written: a copy is used.
    Copied(&'static str),
    /// Its first argument is a log: a file, a command, or a provider such as `syslog`.
    Log(&'static str),
    /// Parts of it would start a program, ask a backend, or run a script by themselves: those are left out.
    Quieted,
    /// Its first argument is a cache, such as `shmcb:/path(512000)`.
    Cache,
}

/// The directives that make a server write, listen, or speak to others by itself.
const TREATMENTS: &[(&str, Treatment)] = {
    use Treatment::{Cache, ChildrensFile, Copied, Directory, LeftOut, Log, PrivateFile, Quieted};
    &[
        ("AddHandler", Quieted),
        ("AddOutputFilter", Quieted),
        ("AddOutputFilterByType", Quieted),
        ("AuthnCacheSOCache", Cache),
        ("BalancerMember", Quieted),
        ("BalancerPersist", LeftOut("no state of balancers is kept")),
        ("CacheLockPath", Directory("cache-lock")),
        ("CacheRoot", Directory("cache")),
        ("CacheSocache", Cache),
        ("ChrootDir", LeftOut("the servers see the whole file system")),
        ("CoreDumpDirectory", LeftOut("no core is dumped")),
        ("CustomLog", Log("access")),
        ("DavGenericLockDB", ChildrensFile("dav-locks")),
        ("DavLockDB", ChildrensFile("dav-locks")),
        ("DavLockDBType", LeftOut("the locks are in a directory of their own")),
        ("DBDInitSQL", Quieted),
        ("ErrorDocument", Quieted),
        ("ErrorLog", Log("error")),
        ("ExtFilterDefine", Quieted),
        ("FcgidIPCDir", Directory("fcgid")),
        ("FcgidProcessTableFile", PrivateFile("fcgid-table")),
        ("ForensicLog", Log("forensic")),
        ("GlobalLog", Log("access")),
        ("HeartbeatAddress", LeftOut("nobody hears of these servers")),
        ("HeartbeatListen", LeftOut("nobody hears of these servers")),
        ("HeartbeatStorage", ChildrensFile("heartbeats")),
        ("LDAPSharedCacheFile", PrivateFile("ldap-cache")),
        ("Listen", LeftOut("")),
        ("MDChallengeDns01", LeftOut("no authority is asked")),
        ("MDMessageCmd", LeftOut("no authority is asked")),
        ("MDNotifyCmd", LeftOut("no authority is asked")),
        ("MDRenewMode", LeftOut("no authority is asked")),
        ("MDStapleOthers", LeftOut("no authority is asked")),
        ("MDStapling", LeftOut("no authority is asked")),
        ("MDStoreDir", Copied("md")),
        ("Mutex", LeftOut("locks are where they are by default")),
        ("NameVirtualHost", LeftOut("")),
        ("PidFile", LeftOut("")),
        ("ProxyHCExpr", LeftOut("no backend is asked by itself")),
        ("ProxyHCTemplate", LeftOut("no backend is asked by itself")),
        ("ProxyPass", Quieted),
        ("ProxyPassMatch", Quieted),
        ("ProxySet", Quieted),
        ("RewriteMap", Quieted),
        ("ScoreBoardFile", LeftOut("")),
        ("ScriptLog", ChildrensFile("scripts")),
        ("ScriptSock", PrivateFile("cgid")),
        ("SessionDBDCookieName", Quieted),
        ("SessionDBDCookieName2", Quieted),
        ("SessionDBDPerUser", Quieted),
        ("SetHandler", Quieted),
        ("SetOutputFilter", Quieted),
        ("SSLRandomSeed", Quieted),
        ("SSLSessionCache", Cache),
        ("SSLStaplingCache", Cache),
        ("SSLUseStapling", LeftOut("no authority is asked")),
        ("TransferLog", Log("access")),
        ("XBitHack", Quieted),
    ]
};

/// What was redirected or left out, once for each directive and target.
pub(crate) type Redirections = BTreeSet<Redirection>;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub(crate) struct Redirection {
    /// The directive, and its value in the configuration.
    pub(crate) directive: String,
    /// What is used instead, or why nothing is.
    pub(crate) instead: String,
}

/// Writes the configuration of one server.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) installed: &'a Installed,
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) network: Network,
    /// The server's directory.
    pub(crate) directory: &'a Path,
    pub(crate) sites: &'a Sites,
    /// Who owns what the server's children write.
    pub(crate) owner: Option<(u32, u32)>,
    /// What stands for all certificates, if a key may not be read.
    pub(crate) identity: Option<&'a Identity>,
    /// Whether scripts, programs and backends may be started and asked.
    pub(crate) runs_scripts: bool,
    /// Error documents that a script or a backend makes.
    pub(crate) pages_that_run: &'a BTreeSet<String>,
    pub(crate) redirections: Redirections,
    /// How many access logs were met.
    pub(crate) logs: usize,
}

impl Writer<'_> {
    /// Writes it, and returns its file.
    pub(crate) fn write(&mut self) -> Result<PathBuf> {
        let mut text = self.head()?;
        self.level(&self.installed.tree, None, 0, &mut text)?;
        let file = self.directory.join("httpd.conf");
        // Passwords may be in there, as in the administrator's own files, which others may not read.
        let opened = File::options().write(true).create_new(true).mode(0o600).open(&file);
        let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
        written.context(|| format!("write {}", file.display()))?;
        Ok(file)
    }

    /// Whether a certificate or a key may not be read by this process, so that others must stand for them.
    pub(crate) fn needs_identity(installed: &Installed) -> bool {
        let named = all(&installed.tree).filter(|directive| is_certificate(directive));
        let mut paths = named.flat_map(Directive::words).map(|path| installed.root.join(path));
        paths.any(|path| File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied))
    }

    /// The file of the error log.
    fn error_log(&self) -> PathBuf {
        self.directory.join("error.log")
    }

    /// The file of an access log.
    pub(crate) fn access_log(directory: &Path, number: usize) -> PathBuf {
        directory.join("logs").join(format!("access.{number}"))
    }

    /// The lines that come first: what Apache has already acted upon when it prints its tree, and the server's own places.
    fn head(&mut self) -> Result<String> {
        let installed = self.installed;
        let mut text = format!("ServerRoot {}\n", quoted(&installed.root.to_string_lossy()));
        let mut line = |name: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let _ = writeln!(text, "{name} {}", words.join(" "));
        };
        for (name, value) in &installed.variables {
            if value.is_empty() { line("Define", &[name]) } else { line("Define", &[name, value]) }
        }
        for library in &installed.libraries {
            line("LoadFile", &[&library.to_string_lossy()]);
        }
        for (id, path) in &installed.modules {
            line("LoadModule", &[id, &path.to_string_lossy()]);
        }
        // Here the servers write as root: whoever could write here could let them write anywhere.
        self.make("logs")?;
        let run = self.make("run")?;
        self.make_for_children(CHILDREN)?;
        write_file(run.join("empty-map"), "")?;
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        line("DefaultRuntimeDir", &[&shown(&run)]);
        line("PidFile", &[&shown(&run.join("pid"))]);
        line("ErrorLog", &[&shown(&self.error_log())]);
        if installed.loads("fcgid_module") {
            line("FcgidIPCDir", &[&shown(&self.make_for_children("fcgid")?)]);
            line("FcgidProcessTableFile", &[&shown(&run.join("fcgid-table"))]);
        }
        if installed.loads("md_module") {
            line("MDRenewMode", &["manual"]);
        }
        if self.knows_clients() {
            if let Some(module) = installed.module("mod_remoteip.so").filter(|_| !installed.loads("remoteip_module")) {
                line("LoadModule", &["remoteip_module", &shown(&module)]);
            }
            line("RemoteIPHeader", &[CLIENT_FIELD.as_str()]);
            line("RemoteIPInternalProxy", &["127.0.0.0/8"]);
        }
        text += &self.endpoints.listen(self.network);
        Ok(text)
    }

    /// Whether the servers believe what we say about the address of a client: not if the configuration believes another field.
    pub(crate) fn knows_clients(&self) -> bool {
        let has_own =
            all(&self.installed.tree).any(|directive| directive.name.to_ascii_lowercase().starts_with("remoteip"));
        !has_own && self.installed.module("mod_remoteip.so").is_some()
    }

    /// Writes the directives of a section. `port` is that of its virtual host, if it has only one.
    fn level(&mut self, tree: &[Directive], port: Option<u16>, depth: usize, out: &mut String) -> Result<()> {
        let indent = "  ".repeat(depth);
        for directive in tree {
            let name = &directive.name;
            let Some(children) = &directive.children else {
                if let Some(arguments) = self.arguments(directive, port)? {
                    let name = if directive.is("TransferLog") { "CustomLog" } else { name };
                    let _ = writeln!(out, "{indent}{name} {arguments}");
                }
                continue;
            };
            let (arguments, port) = match directive.is("VirtualHost") {
                true => self.virtual_host(&directive.words()),
                false => (directive.arguments.clone(), port),
            };
            let blank = if arguments.is_empty() { "" } else { " " };
            let _ = writeln!(out, "{indent}<{name}{blank}{arguments}>");
            if directive.is("VirtualHost") && !children.iter().any(|child| child.is("ServerName")) {
                self.name_host(port, out);
            }
            self.level(children, port, depth + 1, out)?;
            let _ = writeln!(out, "{indent}</{name}>");
        }
        Ok(())
    }

    /// The addresses of a virtual host, and its port in the configuration, if all of them have the same one.
    fn virtual_host(&self, words: &[String]) -> (String, Option<u16>) {
        let own: Vec<String> = words.iter().map(|word| self.endpoints.virtual_host(word, self.network)).collect();
        let mut ports: Vec<Option<u16>> = words.iter().map(|word| Written::read(word).port).collect();
        ports.dedup();
        let port = if let [port] = ports[..] { port } else { None };
        (own.join(" "), port)
    }

    /// A host without a name has that of the main server; with its port, it says what it says behind its real one.
    fn name_host(&self, port: Option<u16>, out: &mut String) {
        let main = self.installed.tree.iter().rfind(|directive| directive.is("ServerName"));
        if let (Some(name), Some(port)) = (main.and_then(|main| main.words().first().cloned()), port) {
            let bare = name.rsplit_once(':').map_or(name.as_str(), |(bare, _)| bare);
            let _ = writeln!(out, "  ServerName {bare}:{port}");
        }
    }

    /// The arguments of a directive for this server; none if it is left out.
    fn arguments(&mut self, directive: &Directive, port: Option<u16>) -> Result<Option<String>> {
        let mut words = directive.words();
        let Some(first) = words.first().cloned() else { return Ok(Some(directive.arguments.clone())) };
        if directive.is("ServerName") {
            // Behind its real port a host names that port in redirections, and in SERVER_PORT.
            let has_port = first.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            return Ok(Some(match port.filter(|_| !has_port) {
                Some(port) => format!("{first}:{port}"),
                None => directive.arguments.clone(),
            }));
        }
        if directive.is("RemoteIPProxyProtocol") {
            return Ok(Some("Off".to_owned()));
        }
        if let Some(identity) = self.identity.filter(|_| is_certificate(directive)) {
            return Ok(Some(self.identity_for(directive, &first, identity)));
        }
        let found = TREATMENTS.iter().find(|(name, _)| directive.is(name));
        let Some((_, treatment)) = found else { return Ok(Some(directive.arguments.clone())) };
        let (instead, told) = match *treatment {
            Treatment::Quieted => return Ok(self.quieted(directive, &words)),
            Treatment::LeftOut(why) => {
                self.note(directive, why);
                return Ok(None);
            }
            Treatment::PrivateFile(name) => (self.file("run", name, directive), name),
            Treatment::ChildrensFile(name) => (self.file(CHILDREN, name, directive), name),
            Treatment::Directory(name) => (self.make_for_children(name)?.display().to_string(), name),
            Treatment::Copied(name) => (self.copy(name, &first)?, name),
            Treatment::Log(name) => (self.log(name, directive), name),
            Treatment::Cache => match cache(&first, &self.directory.join("run")) {
                Some(instead) => (instead, "run"),
                None => return Ok(Some(directive.arguments.clone())),
            },
        };
        self.note(directive, &format!("in {told}"));
        words[0] = instead;
        if *treatment == Treatment::Log("access") {
            // The format in which lines can be compared, whatever the log's own one is.
            let format = self.sites.log(self.logs - 1).map(|log| stable(&log.format)).unwrap_or_default();
            let conditions = words.split_off(words.len().min(if directive.is("TransferLog") { 1 } else { 2 }));
            words.truncate(1);
            words.push(format!("%{{{NUMBER_FIELD}}}i {format}"));
            words.extend(conditions);
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            return Ok(Some(words.join(" ")));
        }
        Ok(Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")))
    }

    /// The arguments without what acts by itself; none if nothing is left.
    fn quieted(&mut self, directive: &Directive, words: &[String]) -> Option<String> {
        let empty_map = self.directory.join("run/empty-map");
        let quiet =
            Quiet { runs_scripts: self.runs_scripts, pages_that_run: self.pages_that_run, empty_map: &empty_map };
        let left = quiet.left(&directive.name, words.to_vec());
        if left == words {
            return Some(directive.arguments.clone());
        }
        self.note(directive, "nothing is started or asked by itself");
        (!left.is_empty()).then(|| left.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
    }

    /// The certificate and key that stand for those that may not be read.
    fn identity_for(&mut self, directive: &Directive, path: &str, identity: &Identity) -> String {
        let instead = if directive.is("SSLCertificateKeyFile") { &identity.key } else { &identity.certificate };
        let (directive, instead) = (format!("{} {path}", directive.name), instead.display().to_string());
        let told = "one that was made for this run: only root may read the key".to_owned();
        self.redirections.insert(Redirection { directive, instead: told });
        quoted(&instead)
    }

    fn note(&mut self, directive: &Directive, instead: &str) {
        if !instead.is_empty() {
            let directive = format!("{} {}", directive.name, directive.words().first().cloned().unwrap_or_default());
            self.redirections.insert(Redirection { directive, instead: instead.to_owned() });
        }
    }

    /// A file for what a line writes.
    fn file(&self, directory: &str, name: &str, directive: &Directive) -> String {
        self.directory.join(directory).join(format!("{name}.{}", directive.origin.line)).display().to_string()
    }

    /// A file for a log. Access logs are told apart by their number.
    fn log(&mut self, name: &str, directive: &Directive) -> String {
        if name == "access" {
            self.logs += 1;
            return Self::access_log(self.directory, self.logs - 1).display().to_string();
        }
        match name {
            "error" => self.error_log().display().to_string(),
            _ => self.directory.join("logs").join(format!("{name}.{}", directive.origin.line)).display().to_string(),
        }
    }

    /// Makes a directory.
    fn make(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        std::fs::create_dir_all(&path).context(|| format!("create {}", path.display()))?;
        Ok(path)
    }

    /// Makes a directory for the server's children to write to.
    fn make_for_children(&self, name: &str) -> Result<PathBuf> {
        let path = self.make(name)?;
        if let Some((user, group)) = self.owner {
            let given = std::os::unix::fs::chown(&path, Some(user), Some(group));
            given.context(|| format!("give {} to the servers' user", path.display()))?;
        }
        Ok(path)
    }

    /// Copies a directory.
    fn copy(&self, name: &str, from: &str) -> Result<String> {
        let from = self.installed.root.join(from);
        let to = self.make(name)?;
        let copied = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(&to).output();
        let copied = copied.context(|| format!("copy {}", from.display()))?;
        if !copied.status.success() {
            let said = String::from_utf8_lossy(&copied.stderr).trim().to_owned();
            return Err(crate::machine::error::Error::new(format!("cannot copy {}: {said}", from.display())));
        }
        Ok(to.display().to_string())
    }
}

/// Whether the line names a certificate or its key.
fn is_certificate(directive: &Directive) -> bool {
    directive.is("SSLCertificateKeyFile") || directive.is("SSLCertificateFile")
}

/// Directives of a log's format whose values belong to one moment, one process or one connection, or count the bytes of a
/// server's name: bodies are compared themselves.
const UNSTABLE: &str = "tDTPkIOSLXbB";

/// A log's format without what differs from one moment to the next.
fn stable(format: &str) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        // Modifiers, the part in braces, and the letter.
        let mut end =
            behind.find(|char: char| !(char.is_ascii_digit() || "!,<>".contains(char))).unwrap_or(behind.len());
        let mut argument = "";
        if behind[end..].starts_with('{') {
            let close = behind[end..].find('}').map_or(behind.len(), |close| end + close + 1);
            argument = &behind[end..close];
            end = close;
        }
        let letters = if behind[end..].starts_with('^') { 3 } else { 1 };
        let stop = behind[end..].char_indices().nth(letters).map_or(behind.len(), |(at, _)| end + at);
        let letter = &behind[end..stop];
        let is_unstable = letter.len() == 1 && UNSTABLE.contains(letter)
            || matches!((argument, letter), ("{UNIQUE_ID}", "e") | ("{remote}", "p"))
            || letter.starts_with('^');
        if is_unstable {
            out.push('~');
        } else {
            out.push('%');
            out.push_str(&behind[..stop]);
        }
        rest = &behind[stop..];
    }
    out + rest
}

/// A cache of the same kind in another directory; none if it is in no file.
fn cache(argument: &str, directory: &Path) -> Option<String> {
    let (provider, path) = argument.split_once(':')?;
    match provider {
        // A store that other servers share: ours would change what the live one finds there.
        "redis" | "memcache" | "dc" => Some("shmcb:".to_owned() + &directory.join("cache").display().to_string()),
        _ => {
            let name = path.rsplit('/').next().unwrap_or("cache");
            Some(format!("{provider}:{}", directory.join(name).display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn treatments_are_in_order() {
        assert!(TREATMENTS.is_sorted_by_key(|(name, _)| name.to_ascii_lowercase()));
    }

    #[test]
    fn formats_lose_what_changes() {
        let format =
            r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" %{%s}t %!200,304{X}o %D %{UNIQUE_ID}e %^FB %% 100%"#;
        let expected = r#"%v:%p %h %l %u ~ "%r" %>s ~ "%{Referer}i" ~ %!200,304{X}o ~ ~ ~ %% 100%"#;
        assert_eq!(stable(format), expected);
    }

    #[test]
    fn caches_keep_their_kind_and_size() {
        for (argument, expected) in [
            ("shmcb:/var/run/ssl_scache(512000)", Some("shmcb:/run/ssl_scache(512000)")),
            ("redis:127.0.0.1:6379", Some("shmcb:/run/cache")),
            ("none", None),
            ("shmcb", None),
        ] {
            assert_eq!(cache(argument, Path::new("/run")).as_deref(), expected, "{argument}");
        }
    }
}

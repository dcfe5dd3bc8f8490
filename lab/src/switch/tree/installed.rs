//! The installed servers, asked what they read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::directive::{Directive, words};
use super::dump;
use super::stand_ins::StandIns;
use crate::machine::error::{Context as _, Error, Result};

/// A server's program, and what it is started with.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The program.
    pub(crate) path: PathBuf,
    /// The variables of its environment; Debian's are in `envvars`, beside the configuration.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The names of `-D`.
    pub(crate) defines: Vec<String>,
    stand_ins: StandIns,
}

/// The configuration that a program has read.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    /// `ServerRoot`.
    pub(crate) root: PathBuf,
    /// Everything but what decides what is read.
    pub(crate) tree: Vec<Directive>,
    /// The modules that it loads: identifier and file, in the order of their lines.
    pub(crate) modules: Vec<(String, PathBuf)>,
    /// What `LoadFile` loads.
    pub(crate) libraries: Vec<PathBuf>,
    /// `Define`d names with their values; `.htaccess` files may use them.
    pub(crate) variables: BTreeMap<String, String>,
}

/// Where systems keep Apache's modules.
const MODULES: [&str; 5] = [
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/local/apache2/modules",
    "/usr/libexec/apache2",
    "/usr/local/libexec/apache24",
];

impl Program {
    /// The program with the environment that `apache2ctl` would give it.
    pub(crate) fn new(path: PathBuf, configuration: &Path, defines: &[String]) -> Result<Self> {
        // A shell looks for a name without a directory in its PATH.
        let file = std::path::absolute(configuration).context(|| format!("find {}", configuration.display()))?;
        let file = file.with_file_name("envvars");
        let environment = if file.is_file() { environment_of(&file)? } else { std::env::vars_os().collect() };
        Ok(Self { path, environment, defines: defines.to_vec(), stand_ins: StandIns::default() })
    }

    /// A command of it for a configuration; `first` is what comes before httpd's options.
    pub(crate) fn command(&self, first: &[&str], configuration: &Path) -> Command {
        let mut command = self.stand_ins.command(&self.path);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(first).arg("-f").arg(configuration).stdin(Stdio::null());
        for name in &self.defines {
            command.arg("-D").arg(name);
        }
        command
    }

    /// Lets a key of our own stand for each key that this user may not read, so that the configuration can be read at all.
    ///
    /// # Errors
    /// There is another reason to refuse the configuration.
    pub(crate) fn replace_keys(&mut self, configuration: &Path, directory: &Path) -> Result<()> {
        while let Err(error) = self.print(configuration, &[]) {
            if rustix::process::geteuid().is_root() || !self.stand_ins.take(&error.to_string(), directory)? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes over the keys of another program's.
    pub(crate) fn with_keys_of(mut self, other: &Program) -> Self {
        self.stand_ins = other.stand_ins.clone();
        self
    }

    /// The keys that this user may not read.
    pub(crate) fn replaced_keys(&self) -> &[PathBuf] {
        self.stand_ins.files()
    }

    /// What it prints with `-t` and these arguments.
    ///
    /// # Errors
    /// It refuses the configuration; the error is its own.
    fn print(&self, configuration: &Path, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(&[], configuration);
        let output = command.arg("-t").args(arguments).output();
        let output = output.context(|| format!("start {}", self.path.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let (program, shown) = (self.path.display(), configuration.display());
                Err(Error::new(format!("{program} refuses {shown}:\n{}", said.trim())))
            }
        }
    }

    /// The tree that it reads.
    ///
    /// # Errors
    /// It refuses the configuration, or there is no mod_info, which prints the tree.
    pub(crate) fn tree(&self, configuration: &Path) -> Result<Vec<Directive>> {
        // A module that the configuration loads again is passed over with a warning.
        let info = MODULES.iter().map(|directory| Path::new(directory).join("mod_info.so")).find(|path| path.is_file());
        let info = info.ok_or_else(|| Error::new("Apache's mod_info.so is not here: it prints what Apache reads"))?;
        let load = format!("LoadModule info_module {}", info.display());
        Ok(dump::tree(&self.print(configuration, &["-C", &load, "-D", "DUMP_CONFIG"])?))
    }

    /// Everything that it reads.
    ///
    /// # Errors
    /// As for [`Program::tree`].
    pub(crate) fn read(&self, configuration: &Path) -> Result<Installed> {
        let tree = self.tree(configuration)?;
        let about = self.print(configuration, &["-D", "DUMP_INCLUDES", "-D", "DUMP_RUN_CFG", "-D", "DUMP_MODULES"])?;
        let variables = variables(&about);
        let root = about.lines().find_map(|line| line.strip_prefix("ServerRoot: \"")?.strip_suffix('"'));
        let root = PathBuf::from(root.unwrap_or("/"));
        let loaded: Vec<&str> = about.lines().filter_map(|line| line.trim().strip_suffix(" (shared)")).collect();
        let known = |name: &str| {
            let own = self.environment.iter().find(|(own, _)| own == name);
            variables.get(name).cloned().or_else(|| Some(own?.1.to_string_lossy().into_owned()))
        };
        let (mut modules, mut libraries) = (Vec::<(String, PathBuf)>::new(), Vec::new());
        for file in about.lines().filter_map(included) {
            for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
                let words = words(&expanded(line, &known));
                match &words[..] {
                    [name, id, path] if name.eq_ignore_ascii_case("LoadModule") => {
                        let is_new = loaded.contains(&id.as_str()) && !modules.iter().any(|(known, _)| known == id);
                        modules.extend(is_new.then(|| (id.clone(), root.join(path))));
                    }
                    [name, paths @ ..] if name.eq_ignore_ascii_case("LoadFile") => {
                        libraries.extend(paths.iter().map(|path| root.join(path)));
                    }
                    _ => {}
                }
            }
        }
        Ok(Installed { root, tree, modules, libraries, variables })
    }
}

impl Installed {
    /// The directory of its modules; the usual one if it loads none.
    pub(crate) fn module(&self, file: &str) -> Option<PathBuf> {
        let own = self.modules.iter().filter_map(|(_, path)| path.parent());
        let mut places = own.chain(MODULES.iter().map(Path::new)).map(|directory| directory.join(file));
        places.find(|path| path.is_file())
    }

    /// Whether it loads a module.
    pub(crate) fn loads(&self, id: &str) -> bool {
        self.modules.iter().any(|(own, _)| own == id)
    }
}

/// What a shell's environment is after it has read the file.
fn environment_of(file: &Path) -> Result<Vec<(OsString, OsString)>> {
    use std::os::unix::ffi::OsStringExt as _;
    let output = Command::new("sh").args(["-c", ". \"$1\" && env -0", "sh"]).arg(file).stdin(Stdio::null()).output();
    let output = output.context(|| format!("read {}", file.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!("a shell cannot read {}: {}", file.display(), said.trim())));
    }
    let pairs = output.stdout.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((OsString::from_vec(pair[..at].to_vec()), OsString::from_vec(pair[at + 1..].to_vec())))
    });
    Ok(pairs.collect())
}

/// The file in `    (146) /etc/apache2/x.conf`.
fn included(line: &str) -> Option<&str> {
    let (number, file) = line.trim_start().strip_prefix('(')?.split_once(") ")?;
    (number == "*" || number.parse::<u32>().is_ok()).then_some(file)
}

/// The lines `Define: NAME=VALUE`, without those that print something.
fn variables(about: &str) -> BTreeMap<String, String> {
    let lines = about.lines().filter_map(|line| line.strip_prefix("Define: "));
    let own = lines.filter(|line| !line.starts_with("DUMP_"));
    own.map(|line| line.split_once('=').unwrap_or((line, "")))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// A line with the values of its `${NAME}`s; what is unknown stays.
fn expanded(line: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        match behind.split_once('}') {
            Some((name, after)) => {
                out.push_str(&known(name).unwrap_or_else(|| format!("${{{name}}}")));
                rest = after;
            }
            None => {
                out.push_str("${");
                rest = behind;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced() {
        let known = |name: &str| (name == "A").then(|| "x".to_owned());
        assert_eq!(expanded("LoadModule a ${A}/${B}/${A}.so ${", &known), "LoadModule a x/${B}/x.so ${");
    }

    #[test]
    fn printed_lines_are_understood() {
        assert_eq!(included("    (146) /etc/a b.conf"), Some("/etc/a b.conf"));
        assert_eq!(included("  (*) /etc/a.conf"), Some("/etc/a.conf"));
        assert_eq!(included(" core_module (static)"), None);
        let found = variables("Define: DUMP_MODULES\nDefine: A\nDefine: B=c=d\nUser: x\n");
        assert_eq!(found.into_iter().map(|(a, b)| a + "|" + &b).collect::<Vec<_>>(), ["A|", "B|c=d"]);
    }
}

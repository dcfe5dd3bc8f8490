//! The scripts that servers run: kept as sources, compiled or installed here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context as _, Error, Result, write_file};
use crate::programs;

/// A program that answers a request through a server.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its name below `/cgi-bin/`.
    pub(crate) name: &'static str,
    source: &'static str,
    made: Made,
    /// The body of its answer.
    pub(crate) answer: &'static str,
}

/// How a source becomes a program.
#[derive(Debug)]
enum Made {
    /// By [`COMPILER`], with these options.
    Compiled(&'static [&'static str]),
    /// By its first line, which names [`PERL`] wherever that is.
    Interpreted,
}

/// The C compiler and its Debian package.
pub(crate) const COMPILER: &str = "gcc";
/// The interpreter and its Debian package.
pub(crate) const PERL: &str = "perl";

const HELLO: &str = "<html><head><title>hello</title></head><body><p>hello world</p></body></html>\n";

/// Says hello; nothing is looked for when it starts.
pub(crate) static HELLO_STATIC: Script = hello_in_c("hello-static", &["-static"]);
/// The same, with the C library to be found and linked.
pub(crate) static HELLO_DYNAMIC: Script = hello_in_c("hello-dynamic", &[]);
/// The same in Perl.
pub(crate) static HELLO_PERL: Script =
    Script { name: "hello-perl", source: include_str!("../scripts/hello.pl"), made: Made::Interpreted, answer: HELLO };

const fn hello_in_c(name: &'static str, options: &'static [&'static str]) -> Script {
    Script { name, source: include_str!("../scripts/hello.c"), made: Made::Compiled(options), answer: HELLO }
}

impl Script {
    /// Where it is in `directory`: made there when it was not yet.
    pub(crate) fn prepare(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join(self.name);
        if !path.exists() {
            match self.made {
                Made::Compiled(options) => self.compile(&path, options)?,
                Made::Interpreted => self.install(&path)?,
            }
        }
        Ok(path)
    }

    fn compile(&self, path: &Path, options: &[&str]) -> Result<()> {
        let source = path.with_extension("c");
        write_file(&source, self.source)?;
        let mut command = Command::new(tool(COMPILER)?);
        command.args(["-O2", "-Wall", "-Werror"]).args(options).arg("-o").arg(path).arg(&source);
        let output = command.output().context(|| format!("run {COMPILER}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(format!(
                "{COMPILER} does not compile {}: {}",
                self.name,
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    }

    fn install(&self, path: &Path) -> Result<()> {
        let rest = self.source.split_once('\n').map_or("", |(_, rest)| rest);
        write_file(path, format!("#!{}\n{rest}", tool(PERL)?.display()))?;
        let all_may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, all_may_run).context(|| format!("make {} executable", path.display()))
    }
}

fn tool(name: &str) -> Result<PathBuf> {
    programs::find(&[name])
        .ok_or_else(|| Error::new(format!("{name} is not here")).advise(format!("apt-get install {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn every_script_can_be_made_and_says_its_answer() {
        let scratch = Scratch::new().unwrap();
        for script in [&HELLO_STATIC, &HELLO_DYNAMIC, &HELLO_PERL] {
            match script.prepare(scratch.path()) {
                Ok(path) => {
                    let output = Command::new(path).output().unwrap();
                    let text = String::from_utf8(output.stdout).unwrap();
                    assert_eq!(text.split_once("\n\n").map(|(_, body)| body), Some(script.answer), "{}", script.name);
                }
                Err(error) => assert!(error.to_string().contains("apt-get install"), "{error}"),
            }
        }
    }
}

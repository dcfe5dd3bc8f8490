//! The scripts that servers run: stored as sources, compiled or installed here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::programs;

/// A program that answers a request through a server.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its name below `/cgi-bin/`.
    pub(crate) name: &'static str,
    source: &'static str,
    made: Preparation,
    /// The body of its response.
    pub(crate) response: &'static str,
}

/// The way from a source to a program.
#[derive(Debug)]
enum Preparation {
    /// Compiled by [`COMPILER`], with these options.
    Compiled(&'static [&'static str]),
    /// Run by its first line, which names the path of [`PERL`].
    Interpreted,
    /// Read by the server itself: it is not a program.
    Read,
}

/// The C compiler and its Debian package.
pub(crate) const COMPILER: &str = "gcc";
/// The interpreter and its Debian package.
pub(crate) const PERL: &str = "perl";

const HELLO: &str = "<html><head><title>hello</title></head><body><p>hello world</p></body></html>\n";

/// Prints hello; needs no libraries at its start.
pub(crate) static HELLO_STATIC: Script = hello_in_c("hello-static", &["-static"]);
/// The same without a C library: what remains is the kernel and the server.
pub(crate) static HELLO_BARE: Script = Script {
    name: "hello-bare",
    source: include_str!("../../scripts/bare.c"),
    made: Preparation::Compiled(&["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector"]),
    response: HELLO,
};
/// The same, dynamically linked with the C library.
pub(crate) static HELLO_DYNAMIC: Script = hello_in_c("hello-dynamic", &[]);
/// The same in Perl.
pub(crate) static HELLO_PERL: Script = Script {
    name: "hello-perl",
    source: include_str!("../../scripts/hello.pl"),
    made: Preparation::Interpreted,
    response: HELLO,
};

/// An application with CGI.pm and a dozen modules.
pub(crate) static APPLICATION: Script = Script {
    name: "app.pl",
    source: include_str!("../../scripts/app.pl"),
    made: Preparation::Interpreted,
    response: include_str!("../../scripts/app.html"),
};

/// A page in PHP.
pub(crate) static PAGE: Script = Script {
    name: "page.php",
    source: include_str!("../../scripts/page.php"),
    made: Preparation::Read,
    response: include_str!("../../scripts/page.html"),
};

/// A FastCGI application that serves one request in 50 ms.
pub(crate) static NAP: Script = Script {
    name: "nap.pl",
    source: include_str!("../../scripts/nap.pl"),
    made: Preparation::Interpreted,
    response: "well rested\n",
};

/// Takes 200 MB.
pub(crate) static LOAD_200: Script = load("load-200", &["-DMEGABYTES=200"]);
/// Takes 200 MB, and keeps them for a second.
pub(crate) static HOLD_200: Script = load("hold-200", &["-DMEGABYTES=200", "-DHOLD_MS=1000"]);
/// Takes 170 MB, and keeps them for a minute.
pub(crate) static HOG: Script = load("hog", &["-DMEGABYTES=170", "-DHOLD_MS=60000"]);
/// Adds its query to the file `counted`, then works for a moment.
pub(crate) static COUNT: Script = Script {
    name: "count",
    source: include_str!("../../scripts/count.c"),
    made: Preparation::Compiled(&[]),
    response: "OK\n",
};
/// Takes more in every run.
pub(crate) static GROWING: Script = load("load-growing", &["-DGROWING"]);
/// Another process takes 200 MB for it.
pub(crate) static CHILD: Script = load("load-child", &["-DCHILD", "-DMEGABYTES=200"]);
/// Take 20 to 200 MB.
pub(crate) static LOADS: [&Script; 10] = [
    &load("load-20", &["-DMEGABYTES=20"]),
    &load("load-40", &["-DMEGABYTES=40"]),
    &load("load-60", &["-DMEGABYTES=60"]),
    &load("load-80", &["-DMEGABYTES=80"]),
    &load("load-100", &["-DMEGABYTES=100"]),
    &load("load-120", &["-DMEGABYTES=120"]),
    &load("load-140", &["-DMEGABYTES=140"]),
    &load("load-160", &["-DMEGABYTES=160"]),
    &load("load-180", &["-DMEGABYTES=180"]),
    &LOAD_200,
];

const fn load(name: &'static str, options: &'static [&'static str]) -> Script {
    Script {
        name,
        source: include_str!("../../scripts/load.c"),
        made: Preparation::Compiled(options),
        response: "OK\n",
    }
}

const fn hello_in_c(name: &'static str, options: &'static [&'static str]) -> Script {
    Script {
        name,
        source: include_str!("../../scripts/hello.c"),
        made: Preparation::Compiled(options),
        response: HELLO,
    }
}

impl Script {
    /// Its path in `directory`; makes it there if it does not exist yet.
    pub(crate) fn prepare(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join(self.name);
        if !path.exists() {
            match self.made {
                Preparation::Compiled(options) => self.compile(&path, options)?,
                Preparation::Interpreted => self.install(&path)?,
                Preparation::Read => write_file(&path, self.source)?,
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
    use crate::machine::scratch::Scratch;

    /// A machine may lack a compiler, if the message says what to install; with `CI` there has to be one.
    fn is_forgiven(error: &Error) {
        assert!(std::env::var_os("CI").is_none() && error.to_string().contains("apt-get install"), "{error}");
    }

    #[test]
    fn the_compiler_does_not_save_the_memory() {
        let scratch = Scratch::for_test("memory");
        let path = match LOADS[0].prepare(scratch.path()) {
            Ok(path) => path,
            Err(error) => return is_forgiven(&error),
        };
        let limited = |kib: u32| {
            let line = format!("ulimit -v {kib} && exec {}", path.display());
            Command::new("sh").args(["-c", &line]).output().unwrap().status
        };
        assert!(limited(100_000).success());
        assert_eq!(limited(15_000).code(), Some(3));
    }

    #[test]
    fn every_script_can_be_made_and_says_its_response() {
        let scratch = Scratch::for_test("script");
        write_file(scratch.path().join("runs"), "0\n").unwrap();
        write_file(scratch.path().join("counted"), "").unwrap();
        let all =
            [&HELLO_STATIC, &HELLO_BARE, &HELLO_DYNAMIC, &HELLO_PERL, LOADS[0], &GROWING, &CHILD, &HOLD_200, &COUNT];
        for script in all {
            match script.prepare(scratch.path()) {
                Ok(path) => {
                    let output = Command::new(path).current_dir(scratch.path()).output().unwrap();
                    let text = String::from_utf8(output.stdout).unwrap();
                    assert_eq!(text.split_once("\n\n").map(|(_, body)| body), Some(script.response), "{}", script.name);
                }
                Err(error) => is_forgiven(&error),
            }
        }
    }
}

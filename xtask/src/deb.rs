//! `cargo xtask deb`: a Debian package, by dpkg's own tools.
//!
//! What is built already needs a table of files and nothing more. debhelper would build everything again in a directory of its
//! own, and cargo-deb is one more thing to install for the same table.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pgo;
use crate::tidy::links::{links, resolve};
use crate::tree::{cargo, root};

/// Programs, and where they go.
const PROGRAMS: [(&str, &str); 2] = [("tsubame", "usr/sbin/tsubame"), ("tsubame-lab", "usr/bin/tsubame-lab")];
/// Files as they are in the repository.
const FILES: [(&str, &str); 6] = [
    ("packaging/tsubame.service", "usr/lib/systemd/system/tsubame.service"),
    ("packaging/tsubame.socket", "usr/lib/systemd/system/tsubame.socket"),
    ("packaging/debian/tmpfiles", "usr/lib/tmpfiles.d/tsubame.conf"),
    ("README.md", "usr/share/doc/tsubame/README.md"),
    ("CHANGELOG.md", "usr/share/doc/tsubame/CHANGELOG.md"),
    ("lab/README.md", "usr/share/doc/tsubame/lab/README.md"),
];
/// Pages for people who read, as in the repository; what else they link to there stays there.
const PAGES: &str = "usr/share/doc/tsubame/";
/// Completion: what `completions SHELL` of each program prints.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/{}"),
    ("zsh", "usr/share/zsh/vendor-completions/_{}"),
    ("fish", "usr/share/fish/vendor_completions.d/{}.fish"),
];
/// Whole directories: from where, the ends of the names of their files, and to where.
const DIRECTORIES: [(&str, &str, &str); 5] = [
    ("docs", ".md", "usr/share/doc/tsubame/docs"),
    ("docs/pictures", ".png", "usr/share/doc/tsubame/docs/pictures"),
    ("docs/examples", ".conf", "usr/share/doc/tsubame/docs/examples"),
    ("docs/man", ".1", "usr/share/man/man1"),
    ("docs/man", ".8", "usr/share/man/man8"),
];
/// What is installed below this is packed, as Debian wants it.
const PACKED: &str = "usr/share/man/";
/// What dpkg runs when the package is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The section that BOLT writes.
const BOLT_NOTE: &[u8] = b".note.bolt_info";

const USAGE: &str = "Usage: cargo xtask deb [--programs DIR]";

/// Builds the package, and says where it is.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (programs, level) = match args {
        [] => (pgo::build()?, "-Zxz"),
        // Somebody who has built them before wants to try something: it need not be small.
        [option, directory] if option == "--programs" => (PathBuf::from(directory), "-Znone"),
        _ => return Err(USAGE.into()),
    };
    let work = root().join("target/debian");
    let stage = Stage(work.join("tsubame"));
    let _ = fs::remove_dir_all(&work);
    stage.programs(&programs)?;
    for (from, to) in FILES {
        stage.put(to, &read(from)?, 0o644)?;
    }
    DIRECTORIES.iter().try_for_each(|directory| stage.directory(*directory))?;
    stage.unlink()?;
    let about = About::new()?;
    stage.put("usr/share/doc/tsubame/copyright", &copyright(&about)?, 0o644)?;
    stage.put("usr/share/doc/tsubame/changelog", changelog(&about).as_bytes(), 0o644)?;
    stage.pack("usr/share/doc/tsubame/changelog")?;
    stage.control(&about, &work)?;
    let package = work.join(format!("tsubame_{}_{}.deb", about.version, about.architecture));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", level, "--build"]).args([&stage.0, &package]);
    output(dpkg.env("SOURCE_DATE_EPOCH", &about.seconds))?;
    println!("{}", package.display());
    Ok(())
}

/// The directory that becomes the package.
struct Stage(PathBuf);

impl Stage {
    fn put(&self, name: &str, content: &[u8], mode: u32) -> Result<(), String> {
        let path = self.0.join(name);
        let write = || {
            // Whatever the umask is, everybody may read what is installed.
            for directory in path.ancestors().skip(1).take_while(|directory| directory.starts_with(&self.0)) {
                fs::create_dir_all(directory)?;
                fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
            }
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Programs without what only a debugger reads, and their completion, which a program that is broken does not print.
    fn programs(&self, built: &Path) -> Result<(), String> {
        for (name, to) in PROGRAMS {
            let program = built.join(name);
            let content = fs::read(&program).map_err(|error| format!("{}: {error}", program.display()))?;
            // BOLT has left out what a debugger reads, and strip breaks what BOLT has laid out.
            let is_laid_out = content.windows(BOLT_NOTE.len()).any(|bytes| bytes == BOLT_NOTE);
            self.put(to, &content, 0o755)?;
            let staged = self.0.join(to);
            if !is_laid_out {
                output(Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(&staged))?;
            }
            for (shell, to) in COMPLETIONS {
                let text = output(Command::new(&staged).args(["completions", shell]))?;
                self.put(&to.replace("{}", name), &text, 0o644)?;
            }
        }
        Ok(())
    }

    /// The files of a directory whose names end so.
    fn directory(&self, (from, suffix, to): (&str, &str, &str)) -> Result<(), String> {
        let listed = fs::read_dir(root().join(from)).map_err(|error| format!("{from}: {error}"))?;
        for name in listed.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            if name.ends_with(suffix) {
                let to = format!("{to}/{name}");
                self.put(&to, &read(&format!("{from}/{name}"))?, 0o644)?;
                if to.starts_with(PACKED) {
                    self.pack(&to)?;
                }
            }
        }
        Ok(())
    }

    /// Leaves of a link on a page only its words, if what it leads to is not in the package.
    fn unlink(&self) -> Result<(), String> {
        let of_directory = fs::read_dir(self.0.join(PAGES).join("docs")).into_iter().flatten().flatten();
        let names = of_directory.filter_map(|entry| Some(format!("docs/{}", entry.file_name().to_str()?)));
        let others = ["README.md", "CHANGELOG.md", "lab/README.md"].map(str::to_string);
        for name in names.filter(|name| name.ends_with(".md")).chain(others) {
            let path = format!("{PAGES}{name}");
            let text = fs::read_to_string(self.0.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            let is_there = |target: &str| self.0.join(PAGES).join(resolve(&name, target)).exists();
            self.put(&path, unlinked(&text, is_there).as_bytes(), 0o644)?;
        }
        Ok(())
    }

    fn pack(&self, name: &str) -> Result<(), String> {
        output(Command::new("gzip").args(["-9", "--no-name"]).arg(self.0.join(name))).map(drop)
    }

    /// What dpkg reads.
    fn control(&self, about: &About, work: &Path) -> Result<(), String> {
        for name in SCRIPTS {
            self.put(&format!("DEBIAN/{name}"), &read(&format!("packaging/debian/{name}"))?, 0o755)?;
        }
        let sums = shell(&self.0, "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum")?;
        self.put("DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
        let size = shell(&self.0, "du --apparent-size -k -s usr | cut -f1")?;
        let text = String::from_utf8_lossy(&read("packaging/debian/control")?)
            .replace("{version}", about.version)
            .replace("{architecture}", &about.architecture)
            .replace("{maintainer}", &about.maintainer)
            .replace("{size}", size.trim())
            .replace("{depends}", &self.depends(work)?);
        self.put("DEBIAN/control", text.as_bytes(), 0o644)
    }

    /// The packages of the libraries that the programs are linked with.
    fn depends(&self, work: &Path) -> Result<String, String> {
        // dpkg-shlibdeps wants to know in whose name it looks.
        let write = || {
            fs::create_dir_all(work.join("debian"))?;
            fs::write(work.join("debian/control"), "Source: tsubame\n\nPackage: tsubame\nArchitecture: any\n")
        };
        write().map_err(|error| format!("{}: {error}", work.display()))?;
        let mut shlibdeps = Command::new("dpkg-shlibdeps");
        shlibdeps.arg("-O").args(PROGRAMS.map(|(_, to)| format!("-e{}", self.0.join(to).display())));
        let text = output(shlibdeps.current_dir(work))?;
        let text = String::from_utf8_lossy(&text);
        let depends = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
        depends.map(str::to_string).ok_or_else(|| "dpkg-shlibdeps names no libraries".into())
    }
}

/// A page whose links lead only to what is there, and to other sites.
fn unlinked(text: &str, is_there: impl Fn(&str) -> bool) -> String {
    let mut text = text.to_string();
    for (_, link) in links(&text) {
        let target = link.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains(':') || is_there(target) {
            continue;
        }
        let end = format!("]({link})");
        let place = text.find(&end).and_then(|end| Some((text[..end].rfind('[')?, end)));
        if let Some((start, at)) = place {
            text.replace_range(at..at + end.len(), "");
            // A picture has a mark in front.
            let begin = if text[..start].ends_with('!') { start - 1 } else { start };
            text.replace_range(begin..=start, "");
        }
    }
    text
}

/// What several files say.
struct About {
    version: &'static str,
    architecture: String,
    /// Who made the last commit, unless `DEBFULLNAME` and `DEBEMAIL` name somebody.
    maintainer: String,
    /// When that was, for the change log, and in seconds since 1970.
    date: String,
    seconds: String,
}

impl About {
    fn new() -> Result<About, String> {
        let commit = |format: &str| {
            let mut git = Command::new("git");
            git.args(["-c", "safe.directory=*", "log", "-1", &format!("--format={format}")]).current_dir(root());
            output(&mut git).map(|text| String::from_utf8_lossy(&text).trim().to_string())
        };
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
        let named = |name: &str, format: &str| std::env::var(name).or_else(|_| commit(format));
        Ok(About {
            version: env!("CARGO_PKG_VERSION"),
            architecture: String::from_utf8_lossy(&architecture).trim().to_string(),
            maintainer: format!("{} <{}>", named("DEBFULLNAME", "%an")?, named("DEBEMAIL", "%ae")?),
            date: commit("%cD")?,
            seconds: commit("%ct")?,
        })
    }
}

fn changelog(about: &About) -> String {
    let About { version, maintainer, date, .. } = about;
    let text = "What has changed is in CHANGELOG.md.";
    format!("tsubame ({version}) unstable; urgency=medium\n\n  * {text}\n\n -- {maintainer}  {date}\n")
}

/// Ours, and that of each library which is in the programs.
fn copyright(about: &About) -> Result<Vec<u8>, String> {
    let mut tree = cargo();
    tree.args(["tree", "--package", "tsubame", "--package", "tsubame-lab", "--edges", "normal"]);
    let listed = output(tree.args(["--prefix", "none", "--format", "{p}: {l}"]))?;
    let listed = String::from_utf8_lossy(&listed);
    // Our own have a path behind them, and what was shown before a star.
    let is_library = |line: &&str| !line.is_empty() && !line.contains(['(', '*']);
    let mut lines: Vec<&str> = listed.lines().filter(is_library).collect();
    lines.sort_unstable();
    lines.dedup();
    let own = String::from_utf8_lossy(&read("packaging/debian/copyright")?).into_owned();
    // `Wed, 25 Nov 2026 ...`
    let year = about.date.split(' ').nth(3).unwrap_or_default();
    Ok(own.replace("{year}", year).replace("{libraries}", &lines.join("\n ")).into_bytes())
}

fn read(name: &str) -> Result<Vec<u8>, String> {
    fs::read(root().join(name)).map_err(|error| format!("{name}: {error}"))
}

/// What a command prints, if it succeeds.
fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}

fn shell(directory: &Path, line: &str) -> Result<String, String> {
    let text = output(Command::new("/bin/sh").args(["-c", line]).current_dir(directory))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_a_link_stay() {
        let page = "See [one](docs/one.md#a), [two](docs/two.md), ![a picture](two.png) and [all](https://x/docs/two.md).\n[here](#a)\n";
        let want = "See [one](docs/one.md#a), two, a picture and [all](https://x/docs/two.md).\n[here](#a)\n";
        assert_eq!(unlinked(page, |target| target == "docs/one.md"), want);
    }
}

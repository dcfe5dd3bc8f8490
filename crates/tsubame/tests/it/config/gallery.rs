//! Broken configurations, and all that `-t` says of them: `listing/gallery.txt`.
//!
//! A picture begins with `=== NAME`; its configuration follows, further files each after `--- file NAME`, and after `---` what is
//! said. Where Apache says the same, its words are the first lines; pictures of what only we say or lack are `=== alone NAME`.
//! `UPDATE=1` writes what is said now.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::harness::beside::{modules, without_help};
use crate::harness::oracle;
use crate::harness::site::Site;

const GALLERY: &str = include_str!("../listing/gallery.txt");

/// The modules that every picture loads: mod_headers is not among them.
const MODULES: [&str; 6] = ["mpm_event", "authz_core", "alias", "dir", "macro", "rewrite"];

struct Picture<'a> {
    title: &'a str,
    /// Name and text; the first is the configuration itself.
    files: Vec<(&'a str, &'a str)>,
    said: &'a str,
}

impl<'a> Picture<'a> {
    fn of(text: &'a str) -> Picture<'a> {
        let (title, rest) = text.split_once('\n').expect("a title");
        let (files, said) = rest.split_once("---\n").expect("what is said");
        let mut parts = files.split("--- file ");
        let first = ("c.conf", parts.next().unwrap_or_default());
        let others = parts.map(|part| part.split_once('\n').expect("a name"));
        Picture { title, files: std::iter::once(first).chain(others).collect(), said }
    }

    /// Standard error of `-t`, in a place of its own.
    fn shown(&self, program: &Path) -> String {
        let site = Site::new();
        let real = |text: &str| text.replace("ROOT", site.path()).replace("MODULES", oracle::MODULES);
        for (name, text) in &self.files {
            site.file(name, real(text));
        }
        let base = format!("ServerName localhost\nUser www-data\nGroup www-data\n{}", modules(&MODULES));
        site.file("base.conf", base);
        let mut command = Command::new(program);
        command.arg0("apache2").args(["-d", site.path(), "-f", "c.conf", "-C", "Include base.conf", "-t"]);
        let output = command.env_remove("APACHE_RUN_DIR").output().expect("run");
        assert_eq!(output.status.code(), Some(1), "{}", self.title);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = text.replace(site.path(), "ROOT").replace(oracle::MODULES, "MODULES");
        // Warnings have the time in front.
        text.lines().filter(|line| !line.starts_with('[')).map(|line| format!("{line}\n")).collect()
    }
}

#[test]
fn every_error_is_a_picture() {
    let (head, pictures) = GALLERY.split_once("=== ").expect("pictures");
    let pictures: Vec<Picture<'_>> = pictures.split("\n=== ").map(Picture::of).collect();
    let has_apache = oracle::is_there("every_error_is_a_picture");
    let mut written = head.to_string();
    let mut wrong = String::new();
    for (number, picture) in pictures.iter().enumerate() {
        let ours = picture.shown(Path::new(env!("CARGO_BIN_EXE_tsubame")));
        if ours.trim_end() != picture.said.trim_end() {
            wrong += &format!("{}: now\n{ours}and not\n{}\n", picture.title, picture.said);
        }
        if has_apache && !picture.title.starts_with("alone ") {
            let theirs = picture.shown(Path::new(oracle::APACHE));
            let own: String = without_help(&ours).map(|line| format!("{line}\n")).collect();
            if own != theirs {
                wrong += &format!("{}: Apache says\n{theirs}and we\n{own}\n", picture.title);
            }
        }
        let files = picture.files.iter().enumerate().map(|(place, (name, text))| match place {
            0 => text.to_string(),
            _ => format!("--- file {name}\n{text}"),
        });
        let space = if number > 0 { "\n" } else { "" };
        written += &format!("{space}=== {}\n{}---\n{ours}", picture.title, files.collect::<String>());
    }
    if std::env::var_os("UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/listing/gallery.txt");
        std::fs::write(path, written).expect("write");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Twenty errors are shown, and the number of the others.
#[test]
fn no_more_errors_than_a_screen_has() {
    for (count, last) in [(20, "      |"), (21, "and 1 more error"), (50, "and 30 more errors")] {
        let text: String = (1..=count).map(|number| format!("NoSuchThing{number} x\n")).collect();
        let shown = Picture { title: "", files: vec![("c.conf", &text)], said: "" }
            .shown(Path::new(env!("CARGO_BIN_EXE_tsubame")));
        assert_eq!(shown.matches("Invalid command").count(), 20);
        assert!(shown.lines().last().is_some_and(|line| line.starts_with(last)), "{shown}");
        assert!(shown.contains(&format!("\n{} more errors:\n", count - 1)), "{shown}");
    }
}

/// Colours are for terminals, and not for those that want none.
#[test]
fn colours_are_for_terminals() {
    let site = Site::new();
    site.file("c.conf", "Listne 80\n");
    let words = format!("{} -t -d {} -f c.conf", env!("CARGO_BIN_EXE_tsubame"), site.path());
    let on_a_terminal = |no_color: &str| {
        let mut command = Command::new("script");
        command.args(["-qec", &words, "/dev/null"]).env("NO_COLOR", no_color);
        String::from_utf8(command.output().expect("script").stdout).expect("text")
    };
    assert!(on_a_terminal("").contains("\x1b[31m^^^^^^\x1b[0m"));
    let plain = on_a_terminal("1");
    assert!(plain.contains("      | ^^^^^^") && !plain.contains('\x1b'), "{plain}");
}

//! docs/moving.md, command by command, in a copy of this machine that is thrown away.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the machine must have.
const PROGRAMS: [(&str, &str); 8] = [
    ("/usr/sbin/apache2ctl", "apache2"),
    ("/usr/sbin/logrotate", "logrotate"),
    ("/usr/bin/systemctl", "systemd"),
    ("/usr/bin/systemd-analyze", "systemd"),
    ("/usr/bin/dpkg-shlibdeps", "dpkg-dev"),
    ("/usr/bin/curl", "curl"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/bin/pgrep", "procps"),
];

/// Checks at the end of a section, beside those that the page has itself.
const CHECKS: [(&str, &str); 7] = [
    ("## 1.", "test -z \"$(pgrep -x tsubame)\"; man -w tsubame tsubame-ctl >/dev/null"),
    ("## 1.", "systemd-analyze verify /usr/lib/systemd/system/tsubame.service /usr/lib/systemd/system/tsubame.socket"),
    (
        "## 4.",
        "test \"$(cat /run/apache2/apache2.pid)\" = \"$(cat /run/main.tsubame)\"; test -z \"$(pgrep -x apache2)\"",
    ),
    ("## 5.", "grep -q 'log files were renamed' /var/log/apache2/error.log"),
    ("## 5.", BROKEN),
    ("## 6.", "test \"$(systemctl is-enabled tsubame apache2 | paste -s)\" = \"enabled\tdisabled\""),
    ("## 8.", "test ! -e /usr/sbin/tsubame; systemctl is-enabled apache2"),
];

/// A command of the page, and what is tried in its place: what requests cost is measured on a machine that has nothing else to do.
const QUICKER: (&str, &str) = ("tsubame-lab switch ", "tsubame-lab switch --rounds 0 ");

/// What the page says of a reload with an error in the configuration.
const BROKEN: &str = "echo Nonsense > /etc/apache2/conf-enabled/broken.conf
if systemctl reload tsubame 2>/run/reload; then exit 1; fi
grep -q 'conf-enabled/broken.conf' /run/reload
curl -sf -o /dev/null http://localhost/
rm /etc/apache2/conf-enabled/broken.conf";

/// Before the first command: the server that is to be moved, as after a boot. Packages do not wait for man's index.
const BEGIN: &str = "cd /srv
rm -f /var/lib/man-db/auto-update
mv systemctl /usr/local/sbin/systemctl
rm -f /var/log/apache2/*
grep -q APACHE_HTTPD=/ /etc/apache2/envvars && exit 1
printf 'ServerName localhost\\n' > /etc/apache2/conf-enabled/name.conf
systemctl start apache2
";

#[test]
fn every_step_of_the_page_works() {
    if let Some(missing) = missing() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci == "false"), "docs/moving.md needs {missing}");
        eprintln!("docs/moving.md is not tried: {missing} is missing");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let work = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("moving");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).expect("directory");
    let built = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().expect("its directory");
    let package = run(Command::new(env!("CARGO_BIN_EXE_xtask")).args(["deb", "--programs"]).arg(built));
    let package = Path::new(package.trim());
    fs::copy(package, work.join(package.file_name().expect("name"))).expect("copy");
    let here = root.join("xtask/tests/moving");
    fs::copy(here.join("systemctl.sh"), work.join("systemctl")).expect("copy");
    fs::set_permissions(work.join("systemctl"), fs::Permissions::from_mode(0o755)).expect("mode");
    let page = fs::read_to_string(root.join("docs/moving.md")).expect("the page");
    fs::write(work.join("inside"), script(&page)).expect("script");
    let mut machine = Command::new("timeout");
    machine.args(["120", "unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh"]);
    run(machine.arg(here.join("machine.sh")).arg(&work));
}

/// What is missing, if anything is.
fn missing() -> Option<&'static str> {
    if let Some((_, package)) = PROGRAMS.iter().find(|(path, _)| !Path::new(path).exists()) {
        return Some(package);
    }
    let namespaces = Command::new("unshare").args(["--mount", "--net", "--pid", "--fork", "true"]).output();
    (!namespaces.is_ok_and(|output| output.status.success())).then_some("the right to make namespaces")
}

/// The commands of a page: what is indented by four blanks. Each says where it stands before it runs.
fn script(page: &str) -> String {
    let mut script = String::from(BEGIN);
    let mut section = "";
    let checks = |section: &str| -> String {
        let here = CHECKS.iter().filter(|(of, _)| *of == section);
        here.map(|(_, line)| format!("echo 'checks of {section}' >&2\n{line}\n")).collect()
    };
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("## ") {
            script.push_str(&checks(section));
            section = &line[..line.len().min(5)];
        }
        let command = line.strip_prefix("    ");
        if let (Some(_), false) = (command, inside) {
            script.push_str(&format!("echo 'docs/moving.md, line {}' >&2\n", number + 1));
        }
        inside = command.is_some();
        if let Some(command) = command {
            script.push_str(&command.replace(QUICKER.0, QUICKER.1));
            script.push('\n');
        }
    }
    script.push_str(&checks(section));
    script.push_str("systemctl stop apache2\n");
    script
}

/// What a command prints, which must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("run");
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{errors}", output.status);
    out
}

#[test]
fn commands_are_those_of_the_page() {
    let page = "# Title\n\n## 1. One\n\ntext `x`\n\n    one\n    two\n\nmore\n\n## 2. Two\n\n    three\n";
    let commands = script(page);
    let wanted = ["line 7' >&2\none\ntwo\n", "checks of ## 1.", "line 14' >&2\nthree\n"];
    let found: Vec<Option<usize>> = wanted.iter().map(|part| commands.find(part)).collect();
    assert!(found.is_sorted() && found.iter().all(Option::is_some), "{commands}");
}

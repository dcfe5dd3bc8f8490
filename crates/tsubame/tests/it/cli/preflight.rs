//! Errors that would stop the start are reported before it: by `-t`, which leaves no trace, and by `tsubame check`.

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::server::Start;
use crate::harness::site::Site;
use crate::mpm::control::said;

/// Lines that prevent the start, and their messages.
const STOPS: [(&str, &str); 10] = [
    ("ErrorLog conf", "(21)Is a directory: AH00091: could not open error log file ROOT/conf."),
    ("CustomLog conf common", "(21)Is a directory: AH00649: could not open transfer log file ROOT/conf."),
    ("CustomLog |/nosuch/program common", "AH00104: unable to start piped log program '/nosuch/program'"),
    ("Listen 192.0.2.1:8081", "AH00072: make_sock: could not bind to address 192.0.2.1:8081"),
    (
        "Listen 9\nListen 127.0.0.1:9",
        "AH00072: make_sock: could not bind to address 127.0.0.1:9 (ROOT/conf/httpd.conf:",
    ),
    ("PidFile nosuch/pid", "(2)No such file or directory: AH00099: could not create ROOT/nosuch/pid"),
    ("TypesConfig nosuch", "AH01597: could not open mime types config file ROOT/nosuch."),
    ("ScriptSock ${DOCS}/index.html/sock", "AH01242: Couldn't bind unix domain socket ROOT/htdocs/index.html/sock"),
    ("CustomLog nosuch/log common", "AH02297: Cannot access directory 'ROOT/nosuch/'"),
    (
        "<VirtualHost *:8080>\nSSLEngine on\n</VirtualHost>",
        "AH02572: Failed to configure at least one certificate and key",
    ),
];

#[test]
fn obstacles_to_the_start_are_found_before_it() {
    let site = Site::with([("index.html", "hello\n")]);
    let mut wrong = Vec::new();
    for (line, want) in STOPS {
        let want = want.replace("ROOT", site.path());
        site.configure(Mpm::Event, line);
        let run = |arguments: &[&str]| {
            said(&Start::new(&site, Mpm::Event).arguments(arguments).command().output().expect("run"))
        };
        let (_, looked, status) = run(&["-t"]);
        if !looked.contains(&want) || looked.contains("Syntax OK") || status != Some(1) {
            wrong.push(format!("{line}: -t says {looked} and ends with {status:?}"));
        }
        let (_, started, status) = run(&["-DFOREGROUND"]);
        if status == Some(0) {
            wrong.push(format!("{line}: it starts, and says {started}"));
        }
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let check =
            check.args(["check", "--no-files", "-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
        if check.status.code() != Some(2) {
            wrong.push(format!("{line}: check says {}", String::from_utf8_lossy(&check.stdout)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Directories that the server can make at its start are no error, and are not made before.
#[test]
fn a_look_leaves_no_trace() {
    let site = Site::new();
    site.configure(
        Mpm::Event,
        "ErrorLog logs/new_error\nCustomLog logs/new_access common\nCustomLog \"|/bin/cat\" common",
    );
    let looked = Start::new(&site, Mpm::Event).arguments(&["-t"]).command().output().expect("run");
    assert_eq!(said(&looked), (String::new(), "Syntax OK\n".into(), Some(0)));
    for name in ["new_error", "new_access", "pid"] {
        assert!(!site.root.join("logs").join(name).exists(), "{name} was made");
    }
}

/// Actions reserved to root do not make a configuration wrong when another user checks it.
#[test]
fn things_that_only_root_may_do_are_warnings() {
    if !needs::ROOT.is_there("things_that_only_root_may_do_are_warnings") {
        return;
    }
    let site = Site::new();
    site.configure(Mpm::Event, "LoadModule fcgid_module modules/mod_fcgid.so\nListen 127.0.0.1:81");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(String::from).to_vec();
    let looked = Start::new(&site, Mpm::Event).arguments(&["-t"]).by(nobody).command().output().expect("run");
    let (_, errors, status) = said(&looked);
    assert!(errors.ends_with("Syntax OK\n") && status == Some(0), "{errors}");
    assert!(errors.contains("AH00091: could not open error log file"), "{errors}");
    assert!(errors.contains("the process manager cannot make its directory in"), "{errors}");
    if std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").is_ok_and(|text| text.trim() == "1024")
    {
        assert_eq!(errors.matches("CAP_NET_BIND_SERVICE, may listen at 127.0.0.1:81 (").count(), 1, "{errors}");
    }
}

/// A user who may have the port gets no warning.
#[test]
fn a_port_that_others_may_have_is_no_warning() {
    if !needs::ROOT.is_there("a_port_that_others_may_have_is_no_warning") {
        return;
    }
    let site = Site::new();
    site.configure(Mpm::Event, "Listen 127.0.0.1:81");
    let capable = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+net_bind_service \
                   --ambient-caps=+net_bind_service";
    let free = "unshare --net sh -c 'ip link set lo up; echo 80 > /proc/sys/net/ipv4/ip_unprivileged_port_start; \
                exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"' sh";
    let words = |line: &str| line.split_whitespace().map(String::from).collect();
    let quoted = |line: &str| vec!["sh".into(), "-c".into(), format!("{line} \"$@\""), "sh".into()];
    for by in [words(capable), quoted(free)] {
        let looked = Start::new(&site, Mpm::Event).arguments(&["-t"]).by(by).command().output().expect("run");
        let (_, errors, _) = said(&looked);
        assert!(errors.ends_with("Syntax OK\n") && !errors.contains("may listen"), "{errors}");
    }
}

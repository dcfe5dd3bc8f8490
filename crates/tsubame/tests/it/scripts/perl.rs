//! Perl scripts that stay, and scripts that are compiled once and forked.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_every_mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;

pub const CONFIGURATION: &str = "LoadModule perl_module modules/mod_perl.so\n\
    LoadModule speedycgi_module modules/mod_speedycgi.so\n\
    PerlOptions +ParseHeaders\nPerlInterpMax 1\n\
    <Directory ${ROOT}/cgi-bin>\nOptions +ExecCGI\nRequire all granted\n</Directory>\n\
    Alias /registry/ ${ROOT}/cgi-bin/\nAlias /prefork/ ${ROOT}/cgi-bin/\nAlias /run/ ${ROOT}/cgi-bin/\n\
    Alias /fork/ ${ROOT}/cgi-bin/\nAlias /speedy/ ${ROOT}/cgi-bin/\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
    <Location /registry>\nSetHandler perl-script\nPerlResponseHandler ModPerl::Registry\n</Location>\n\
    <Location /prefork>\nSetHandler perl-script\nPerlResponseHandler ModPerl::RegistryPrefork\n</Location>\n\
    <Location /run>\nSetHandler perl-script\nPerlResponseHandler ModPerl::PerlRunPrefork\n</Location>\n\
    <Location /fork>\nSetHandler perl-fork\n</Location>\n\
    <Location /speedy>\nSetHandler speedycgi-script\n</Location>\n";

const COUNTER: &str = "#!/usr/bin/perl -w\nuse strict; use Cwd ();\nour $count; $count++;\n\
    print \"Content-Type: text/plain\\n\\n\";\n\
    my $body = join '', <STDIN>;\n\
    print \"$count \", Cwd::getcwd(), \" $ENV{REQUEST_METHOD} $ENV{QUERY_STRING} $body $$\\n\";\n";

fn site() -> Site {
    let site = Site::new();
    site.script("counter", COUNTER);
    site.script("shebang", &COUNTER.replacen("/usr/bin/perl -w", "/usr/bin/speedy -w -- -M1", 1));
    site.script("wrong", "#!/usr/bin/perl\nuse strict;\nprint $nothing;\n");
    site.script("dies", "#!/usr/bin/perl\nwarn \"about to\\n\"; die \"it is over\\n\";\n");
    site.script("exits", "#!/usr/bin/perl\nprint \"Status: 403\\n\\nno\"; eval { exit 0 }; print \"not reached\";\n");
    site.script("killed", "#!/usr/bin/perl\nkill 9, $$;\n");
    site
}

/// The counter's output: how often it has run in this interpreter, where, with what, and in which process.
fn counted(server: &Server<'_>, request: &str) -> (u64, String, String, i32) {
    let text = server.client().request(request).text();
    let words: Vec<&str> = text.trim_end().split(' ').collect();
    let [count, directory, middle @ .., process] = &words[..] else { panic!("{text:?}") };
    let number = count.parse().unwrap_or_else(|_| panic!("{text:?}"));
    (number, directory.to_string(), middle.join(" "), process.parse().expect("a process"))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

under_percore_and! { prefork:
    /// The state that a class keeps of a script between requests, and the script's working directory.
    fn classes_keep_what_they_say(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let here = site.root.join("cgi-bin").to_str().expect("a path").to_string();
        for (path, keeps, directory) in [
            ("registry", true, site.path()),
            ("prefork", true, here.as_str()),
            ("run", false, here.as_str()),
            ("fork", false, here.as_str()),
            ("speedy", true, here.as_str()),
        ] {
            let path = format!("/{path}/counter?a=b");
            let seen: Vec<_> = (0..3).map(|_| counted(&server, &get(&path))).collect();
            let counts: Vec<u64> = seen.iter().map(|(count, ..)| *count).collect();
            assert_eq!(counts, if keeps { [1, 2, 3] } else { [1, 1, 1] }, "{path}");
            assert!(seen.iter().all(|(_, at, said, _)| at == directory && said == "GET a=b "), "{path} {seen:?}");
            let one = seen.iter().all(|(.., process)| *process == seen[0].3);
            assert_eq!(one, !path.starts_with("/fork"), "{path} {seen:?}");
        }
        let post = "POST /fork/counter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        assert_eq!(counted(&server, post).2, "POST  hello");
    }

    /// A CGI script whose first line asks for SpeedyCGI stays, without any program of that name.
    fn a_first_line_is_enough(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let [one, two] = [(); 2].map(|()| counted(&server, &get("/cgi/shebang")));
        assert_eq!((one.0, two.0, one.3), (1, 2, two.3));
    }

    /// Each has its cause in the log, and the interpreter goes on, or is replaced.
    fn failures_are_reported(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for more in ["about to", "by signal 9", "due to compilation errors", "the script ended with status 255"] {
            server.allow(more);
        }
        for class in ["registry", "run", "fork", "speedy"] {
            assert_eq!(server.get(&format!("/{class}/wrong")).status, 500, "{class}");
            server.logged("Global symbol \"$nothing\"");
            assert_eq!(server.get(&format!("/{class}/dies")).status, 500, "{class}");
            server.logged("it is over");
            let exits = server.get(&format!("/{class}/exits"));
            assert_eq!((exits.status, exits.text()), (403, "no".into()), "{class}");
            server.allow("before it answered");
            assert_eq!(server.get(&format!("/{class}/killed")).status, 500, "{class}");
            assert_eq!(counted(&server, &get(&format!("/{class}/counter"))).0, 1, "{class}");
        }
    }

    /// A changed script is what the next request gets.
    fn a_changed_script_is_compiled_again(mpm: Mpm) {
        let site = site();
        let module = site.file("cgi-bin/Output.pm", "package Output; sub said { 'old' } 1;\n");
        let text = |own: &str| {
            format!(
                "#!/usr/bin/perl\nuse lib '{}';\nuse Output;\nprint \"Content-Type: text/plain\\n\\n{own} \", Output::said();\n",
                site.root.join("cgi-bin").display()
            )
        };
        site.script("changes", &text("one"));
        let server = Server::start(mpm, &site, CONFIGURATION);
        let said = |class: &str| server.get(&format!("/{class}/changes")).text();
        for class in ["registry", "run", "fork", "speedy"] {
            assert_eq!(said(class), "one old", "{class}");
        }
        // A time of change that differs, whatever the clock of the file system counts in.
        let change = |path: &std::path::Path, text: &str| {
            std::fs::write(path, text).expect("write");
            let file = std::fs::File::options().write(true).open(path).expect("open");
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).expect("time");
        };
        change(&site.root.join("cgi-bin/changes"), &text("two"));
        for class in ["registry", "run", "fork", "speedy"] {
            assert_eq!(said(class), "two old", "{class}");
        }
        change(&module, "package Output; sub said { 'new' } 1;\n");
        assert_eq!(said("fork"), "two new", "a template knows all files it was made of");
    }
}

under_every_mpm! {
    /// Interpreters of an earlier configuration leave with its children, and no request fails.
    fn a_graceful_restart_replaces_them(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, CONFIGURATION);
        let before = counted(&server, &get("/registry/counter")).3;
        server.restart(Signal::USR1);
        let after = until("a new interpreter", || {
            let (count, .., process) = counted(&server, &get("/registry/counter"));
            (process != before).then_some((count, process))
        });
        assert_eq!(after.0, 1);
        until("the old one has gone", || (!Pid::new(before).is_some_and(Pid::exists)).then_some(()));
    }
}

/// If perl cannot run a script, the rest of the server is not affected.
#[test]
fn refusals() {
    let site = site();
    let configuration = format!(
        "{CONFIGURATION}<Location /none>\nSetHandler perl-script\n</Location>\nAlias /none/ ${{ROOT}}/cgi-bin/\n\
         Alias /plain/ ${{ROOT}}/htdocs/\n<Location /plain>\nSetHandler perl-script\nPerlResponseHandler ModPerl::Registry\n\
         </Location>\n<Directory ${{ROOT}}/htdocs>\nRequire all granted\n</Directory>\n"
    );
    site.page("page.pl", "print 1;");
    let server = Server::start(Mpm::Event, &site, &configuration);
    for (path, status, said) in [
        ("/none/counter", 500, "SetHandler perl-script needs a PerlResponseHandler"),
        ("/plain/page.pl", 403, "Options ExecCGI is off in this directory"),
        ("/registry/missing", 404, "script not found or unable to stat"),
        ("/fork/", 404, "attempt to invoke directory as script"),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
        server.logged(said);
    }
}

/// Which pool a request would be served by, and as what.
#[test]
fn pools_are_explained() {
    let site = site();
    site.configure(Mpm::Event, CONFIGURATION);
    for (path, said) in [
        ("/registry/counter", "ModPerl::Registry, in the pool 'perl' of at most 1 interpreters"),
        ("/speedy/shebang", "cgi-bin/shebang' of at most 1 interpreters"),
        ("/cgi/shebang", "a script that stays, in the pool 'speedy "),
        ("/fork/counter", "forked off its compiled template, in the pool 'perl-fork "),
    ] {
        let (output, errors, _) = crate::cli::explain::explain(&site, &[path]);
        assert!(output.contains(said), "{path}: {output}{errors}");
    }
}

/// If a handler leaves the response to the server, the client gets the server's own page, as in Apache.
#[test]
fn error_documents_are_the_servers() {
    let site = site();
    site.file("lib/My.pm", "package My;\nsub handler { my $r = shift; return $r->args || -1 }\n1;\n");
    let configuration = format!(
        "{CONFIGURATION}PerlSwitches -I${{ROOT}}/lib\nErrorDocument 403 \"not for you\"\n\
         <Location /my>\nSetHandler perl-script\nPerlModule My\nPerlResponseHandler My\n</Location>\n"
    );
    let server = Server::start(Mpm::Percore, &site, &configuration);
    let forbidden = server.get("/my?403");
    assert_eq!((forbidden.status, forbidden.text()), (403, "not for you".into()));
    for (path, status) in [("/my?404", 404), ("/my", 404)] {
        let missing = server.get(path);
        assert_eq!((missing.status, missing.text().contains("not found on this server")), (status, true), "{path}");
    }
}

/// A client cannot choose that a handler's answer is sent raw, and `-SetupEnv` leaves little.
#[test]
fn handlers_without_a_file() {
    let site = site();
    site.file(
        "lib/My.pm",
        "package My;\nsub handler { print \"Content-Type: text/plain\\n\\n\", join ',', sort keys %ENV; 0 }\n1;\n",
    );
    let configuration = format!(
        "{CONFIGURATION}PerlSwitches -I${{ROOT}}/lib\n\
         <Location /my>\nSetHandler perl-script\nPerlModule My\nPerlResponseHandler My\n</Location>\n\
         PerlSetEnv A b\nSetEnv B c\nPerlPassEnv PATH\n\
         <Location /my/bare>\nPerlOptions -SetupEnv\nPerlSetEnv C d\n</Location>\n"
    );
    let server = Server::start(Mpm::Event, &site, &configuration);
    let raw = server.get("/my/nph-foo");
    assert_eq!((raw.status, raw.text().contains("REQUEST_URI")), (200, true));
    let bare = server.get("/my/bare").text();
    assert_eq!(bare, "A,C,MOD_PERL,MOD_PERL_API_VERSION,PATH");
}

/// Scripts of a group share interpreters, each in a package of its own.
#[test]
fn groups_share_interpreters() {
    let site = site();
    let text = |own: &str| {
        format!(
            "#!/usr/bin/speedy -- -gshared -M1\nour $n++;\nprint \"Content-Type: text/plain\\n\\n{own} $n $$ \", __PACKAGE__;\n"
        )
    };
    site.script("one", &text("one"));
    site.script("two", &text("two"));
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let said = |name: &str| {
        let text = server.get(&format!("/speedy/{name}")).text();
        text.split(' ').map(str::to_string).collect::<Vec<_>>()
    };
    let [one, two, again] = ["one", "two", "one"].map(said);
    assert_eq!((one[1].as_str(), two[1].as_str(), again[1].as_str()), ("1", "1", "2"));
    assert!(one[2] == two[2] && one[2] == again[2] && one[3] != "main" && one[3] != two[3], "{one:?} {two:?}");
}

/// A request that has ended its interpreter is not given to the next one.
#[test]
fn a_request_that_ends_its_interpreter_runs_once() {
    let site = site();
    let mark = site.file("runs", "");
    std::fs::set_permissions(&mark, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("mode");
    let text = format!("open my $f, '>>', '{}' or die; print $f 'x'; close $f; kill 9, $$;\n", mark.display());
    site.script("ends", &text);
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    assert_eq!(counted(&server, &get("/registry/counter")).0, 1);
    server.announce("before it answered");
    server.allow("by signal 9");
    assert_eq!(server.get("/registry/ends").status, 500);
    assert_eq!(site.read("runs"), "x");
}

/// Requests whose clients have gone while they waited take no interpreter's time.
#[test]
fn clients_that_have_gone_are_not_served() {
    let site = site();
    let mark = site.file("runs", "");
    std::fs::set_permissions(&mark, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("mode");
    let fifo = site.root.join("go");
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    // A script that opens the pipe before the one who wrote for another has closed it finds its end, and looks again.
    let text = format!(
        "open my $f, '>>', '{}' or die; print $f 'x'; close $f;\nmy $x;\n\
         do {{ open my $go, '<', '{}' or die; $x = <$go>; close $go }} until defined $x;\n\
         print \"Content-Type: text/plain\\n\\nserved\\n\";\n",
        mark.display(),
        fifo.display()
    );
    site.script("waits", &text);
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let ask = || {
        let mut client = server.client();
        client.send(get("/registry/waits"));
        client
    };
    let mut first = ask();
    until("the first one runs", || (site.read("runs") == "x").then_some(()));
    let gone: Vec<_> = (0..4).map(|_| ask()).collect();
    let status = || crate::cli::ctl::json(&site, &["status"])["pools"][0]["waiting"].as_u64();
    until("four wait", || (status() == Some(4)).then_some(()));
    drop(gone);
    let mut last = ask();
    let go = || std::fs::write(&fifo, "go\n").expect("the script reads");
    go();
    assert_eq!(first.response().text(), "served\n");
    go();
    assert_eq!(last.response().text(), "served\n");
    assert_eq!(site.read("runs"), "xx");
}

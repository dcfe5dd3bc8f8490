//! The fate of scripts whose starting process ends.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::under_every_mpm;
use crate::harness::server::{Server, is_gone};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n\
    </Directory>\nStartServers 3\n";

fn site() -> Site {
    let site = Site::with([("a.txt", "0123456789")]);
    for (name, trap) in [("obeys", ""), ("stays", "trap '' TERM")] {
        let text = format!("#!/bin/sh\n{trap}\nprintf '\\n%s\\n' $$\nwhile :; do sleep 60; done\n");
        site.script(name, &text);
    }
    // The processes that it has started end with it.
    site.script("parent", "#!/bin/sh\n(trap '' TERM; while :; do sleep 60; done) &\nprintf '\\n%s\\n' $!\nwait\n");
    site
}

/// Asks for a script that says the number of a process, and does not end.
fn ask(server: &Server<'_>, name: &str) -> (Client, Pid) {
    let mut client = server.client();
    client.send(format!("GET /cgi/{name} HTTP/1.0\r\n\r\n"));
    let mut said = String::new();
    while !said.contains("\r\n\r\n") || !said.ends_with('\n') || said.ends_with("\r\n\r\n") {
        said.push(char::from(client.bytes(1)[0]));
    }
    let pid = said.lines().last().and_then(|line| line.parse().ok()).and_then(Pid::new);
    (client, pid.expect("a number"))
}

under_every_mpm! {
    /// The server's end is the end of all scripts, whether they obey signals or not, and nothing is logged as an error.
    fn a_stop_ends_scripts(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, CONFIGURATION);
        let asked = ["obeys", "stays", "parent"].map(|name| ask(&server, name));
        server.signal(Signal::TERM);
        assert!(server.ends().success());
        for (_, pid) in &asked {
            until("the end of a script", || is_gone(*pid).then_some(()));
        }
    }

    /// A child that has served its last request sees to the end of what it has started.
    fn a_child_ends_its_scripts(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}MaxConnectionsPerChild 1\n"));
        server.allow("server seems busy");
        let (client, pid) = ask(&server, "stays");
        client.reset();
        until("the end of the script", || is_gone(pid).then_some(()));
        until("a new child", || (server.get("/a.txt").status == 200).then_some(()));
    }
}

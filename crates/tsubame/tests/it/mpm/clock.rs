//! The monotonic clock says anything: the machine was started a moment ago, or a lifetime ago.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::under_every_mpm;
use crate::harness::needs;
use crate::harness::server::Start;
use crate::harness::site::Site;
use crate::harness::wait::until;

/// Runs a program in a time namespace whose monotonic clock shows this; the wall clock cannot be changed for some alone.
fn at(seconds: i64) -> Vec<String> {
    let offset = (seconds - i64::try_from(sys::time::monotonic().as_secs()).expect("a time")).to_string();
    ["unshare", "--time", "--monotonic", &offset].map(str::to_string).to_vec()
}

under_every_mpm! {
    /// Nothing is reckoned from a moment before the clock began, and nothing overflows: deadlines, restarts, replacements.
    fn any_uptime_will_do(mpm: Mpm) {
        if !needs::TIME_NAMESPACES.is_there("any_uptime_will_do") {
            return;
        }
        for seconds in [1, 3_000_000_000] {
            let site = Site::with([("index.html", "hello\n")]);
            site.configure(mpm, "RequestReadTimeout header=1");
            let mut server = Start::new(&site, mpm).by(at(seconds)).run();
            server.announce("exit signal Killed (9)");
            let mut slow = server.client();
            slow.send("GET / HTTP/1.1\r\nHost: loc");
            let mut kept = server.client();
            assert_eq!(kept.get("/").text(), "hello\n");
            assert_eq!(slow.response().status, 408);
            drop((slow, kept));
            let victim = *server.children().first().expect("a child");
            Pid::new(victim).expect("pid").kill(Signal::KILL).expect("kill");
            until("its end", || (!server.children().contains(&victim)).then_some(()));
            server.restart(Signal::USR1);
            assert_eq!(server.get("/").text(), "hello\n");
        }
    }
}

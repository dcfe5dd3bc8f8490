//! Backends and scripts with `-X`, and after the server was killed.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::under_every_mpm;
use crate::harness::server::Start;
use crate::harness::wait::until;
use crate::scripts::fcgid::{CONFIGURATION, site, who};
use crate::scripts::fcgid_pools::{applications, is_gone};

under_every_mpm! {
    /// The process manager is a process of its own with `-X` too, and ends with the server.
    fn one_process_has_backends(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.configure(mpm, CONFIGURATION);
        let mut server = Start::new(&site, mpm).arguments(&["-X"]).run();
        let helpers = server.children();
        assert_eq!(helpers.len(), 1, "the process manager, and nobody who serves");
        let (process, ..) = who(&server.get("/a.fcgi?who"));
        let (again, served, _) = who(&server.get("/a.fcgi?who"));
        assert_eq!((again, served, applications(&server).contains(&process)), (process, 2, true));
        server.signal(Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
        for pid in helpers.into_iter().chain([process]) {
            until("the end of its helper and its application", || is_gone(pid).then_some(()));
        }
    }

    /// No backend outlives a server that is killed.
    fn backends_end_with_a_killed_server(mpm: Mpm) {
        for argument in ["-DFOREGROUND", "-X"] {
            let Some(site) = site() else { return };
            site.configure(mpm, CONFIGURATION);
            let mut server = Start::new(&site, mpm).arguments(&[argument]).run();
            let (process, ..) = who(&server.get("/a.fcgi?who"));
            let mut gone: Vec<i32> = server.children().into_iter().chain([process]).collect();
            // One that is in the middle of a request is no exception.
            let mut client = server.client();
            client.send(crate::harness::wire::get("/a.fcgi?wait=w"));
            gone.push(site.reached("w"));
            server.allow("the backend");
            server.killed();
            for pid in gone {
                until("the end of all that it has started", || is_gone(pid).then_some(()));
            }
            assert!(Pid::new(process).is_none_or(|pid| !pid.exists()), "{argument}");
        }
    }
}

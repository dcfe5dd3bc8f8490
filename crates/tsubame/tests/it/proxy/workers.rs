//! What a line says about a server behind this one: how many connections at a time, how long it rests after a failure. And members of
//! a balancer that come and go.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::cli::ctl;
use crate::harness::mpm::{Mpm, under_every_mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};
use crate::proxy::origin::{Origin, PORT};

const ONE_CHILD: &str = "<IfModule !mpm_prefork_module>\nStartServers 1\nServerLimit 1\n</IfModule>\n<IfModule worker.c>\n\
    ThreadsPerChild 12\nMaxRequestWorkers 12\nMinSpareThreads 1\n</IfModule>\n<IfModule event.c>\nThreadsPerChild 12\n\
    MaxRequestWorkers 12\nMinSpareThreads 1\n</IfModule>\n<IfModule mpm_prefork_module>\nStartServers 10\nMaxSpareServers 20\n</IfModule>\n";

/// How many requests are on their way to a server.
fn busy(site: &Site, server: &str) -> u64 {
    let all = ctl::json(site, &["proxy"]);
    let one = all["servers"].as_array().into_iter().flatten().find(|one| one["server"] == server);
    one.and_then(|one| one["busy"].as_u64()).unwrap_or_default()
}

/// A request whose body does not come: it has a connection to the backend until the client goes away.
fn unfinished(server: &Server<'_>, path: &str) -> Client {
    let mut client = server.client();
    client.send(format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na"));
    client
}

under_every_mpm! {
    /// A child uses no more connections than `max` says; who waits in vain gets a 503, as in Apache. A child of prefork has one request
    /// at a time.
    fn connections_are_limited(mpm: Mpm) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = format!(
            "{ONE_CHILD}ProxyPass /short/ http://{0}/short/ max=1 acquire=100\nProxyPass /long/ http://{0}/long/ max=1 acquire=20s\n\
             ProxyPass /two/ http://{0}/two/ max=2\n",
            origin.address
        );
        let server = Server::start(mpm, &site, &text);
        server.allow("Error reading request entity data");
        // Nobody waits where a free child has a connection of its own.
        let is_limited = mpm != Mpm::Prefork;
        let children = if is_limited { server.children().len() } else { 1 };
        // Each child has as many connections as it may have.
        let hold_all = |path: &str| {
            let (name, mut held) = (format!("http://{}{path}", origin.address), Vec::new());
            until("all connections are in use", || {
                held.push(unfinished(&server, &format!("{path}x")));
                (busy(&site, &name) >= children as u64).then_some(())
            });
            held
        };
        let held = hold_all("/short/");
        if is_limited {
            server.announce(format!(
                "(70007)The timeout specified has expired: AH00941: http: failed to acquire connection for ({})",
                origin.address
            ));
        }
        let began = Instant::now();
        let status = server.get("/short/bare").status;
        assert_eq!(status, if is_limited { 503 } else { 200 });
        assert_eq!(began.elapsed() >= Duration::from_millis(100), is_limited);
        drop(held);
        until("the connection is free", || (server.get("/short/bare").status == 200).then_some(()));
        let held = hold_all("/long/");
        let mut waiting = [server.client(), server.client(), server.client()];
        waiting.iter_mut().for_each(|client| client.send(get("/long/bare")));
        drop(held);
        for client in &mut waiting {
            assert_eq!(client.response_to("GET").text(), "hi", "whoever waits gets one once it is free");
        }
        if is_limited {
            let before = origin.connections.load(Ordering::Relaxed);
            let clients: Vec<_> = (0..8).map(|_| server.client()).collect();
            std::thread::scope(|scope| {
                for mut client in clients {
                    scope.spawn(move || (0..12).for_each(|_| assert_eq!(client.get("/two/bare").text(), "hi")));
                }
            });
            let made = origin.connections.load(Ordering::Relaxed) - before;
            assert!(made <= 2 * children, "{made} connections");
        }
    }
}

under_percore_and! {
    event:
    /// A server outside balancers rests after a failure only if its line says that errors count.
    fn a_server_rests_if_errors_count(mpm: Mpm) {
        let site = Site::new();
        let address = SocketAddr::new(site.ip.into(), PORT);
        let text = format!(
            "ProxyPass /rests/ http://{address}/rests/ status=-I retry=1\nProxyPass /long/ http://{address}/long/ status=-I\n\
             ProxyPass /never/ http://{address}/never/ retry=100\n"
        );
        let server = Server::start(mpm, &site, &text);
        server.allow("attempt to connect to");
        server.allow("failed to make connection to backend");
        server.announce(format!("AH00959: ap_proxy_connect_backend disabling worker for ({address}) for 1s"));
        server.announce(format!("AH00959: ap_proxy_connect_backend disabling worker for ({address}) for 60s"));
        server.announce(format!("AH00940: http: disabled connection for ({address})"));
        let statuses = || ["/rests/bare", "/long/bare", "/never/bare"].map(|path| server.get(path).status);
        assert_eq!(statuses(), [503; 3]);
        let origin = Origin::start(site.ip);
        assert_eq!(server.get("/never/bare").status, 200, "its errors do not count");
        assert_eq!(server.get("/long/bare").status, 503);
        let (text, ..) = ctl::ctl(&site, &["proxy"]);
        assert!(text.contains(&format!("out  http://{address}/long/ (Init Err)")), "{text}");
        until("its rest is over", || (server.get("/rests/bare").status == 200).then_some(()));
        assert_eq!(server.get("/long/bare").status, 503);
        assert!(origin.count() >= 2);
    }
}

/// A server that can be killed, and come back, at any time.
struct Member {
    address: SocketAddr,
    slowness: Arc<Slowness>,
    /// Its listener and its connections, while it is there.
    open: Arc<Mutex<Vec<TcpStream>>>,
    listener: Option<TcpListener>,
    /// How many connections have been cut off.
    cut: AtomicUsize,
}

/// While it is slow, requests wait.
#[derive(Default)]
struct Slowness {
    is_slow: Mutex<bool>,
    is_over: Condvar,
    waiting: AtomicUsize,
}

impl Slowness {
    fn set(&self, is_slow: bool) {
        *self.is_slow.lock().expect("no panic") = is_slow;
        self.is_over.notify_all();
    }

    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let is_slow = self.is_slow.lock().expect("no panic");
        drop(self.is_over.wait_while(is_slow, |is_slow| *is_slow));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Member {
    fn start(ip: Ipv4Addr, port: u16) -> Member {
        let (slowness, open) = (Arc::default(), Arc::default());
        let address = SocketAddr::new(ip.into(), port);
        let mut member = Member { address, slowness, open, listener: None, cut: AtomicUsize::new(0) };
        member.revive();
        member
    }

    fn revive(&mut self) {
        let listener = TcpListener::bind(self.address).expect("bind");
        self.listener = Some(listener.try_clone().expect("clone"));
        let (open, slowness) = (self.open.clone(), self.slowness.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                open.lock().expect("no panic").push(stream.try_clone().expect("clone"));
                let slowness = slowness.clone();
                std::thread::spawn(move || answer(stream, &slowness));
            }
        });
    }

    /// Ends its listener and all its connections at once.
    fn kill(&mut self) {
        self.listener.take().iter().for_each(|listener| _ = sys::socket::shutdown(listener));
        for stream in self.open.lock().expect("no panic").drain(..) {
            self.cut.fetch_add(usize::from(stream.shutdown(Shutdown::Both).is_ok()), Ordering::Relaxed);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.slowness.set(false);
        self.kill();
    }
}

fn answer(mut stream: TcpStream, slowness: &Slowness) -> Option<()> {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&piece[..count]);
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            slowness.wait();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").ok()?;
        }
    }
}

/// Ends the clients, also if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

under_percore_and! {
    prefork:
    /// One of three members is killed, or slow, at any time: no request fails that may be sent twice.
    fn no_request_fails_while_members_do(mpm: Mpm) {
        const CLIENTS: usize = 20;
        const TURNS: usize = 24;
        let site = Site::new();
        let mut members = [PORT, 9110, 9111].map(|port| Member::start(site.ip, port));
        let lines: String = members.iter().map(|one| format!("BalancerMember http://{} retry=0\n", one.address)).collect();
        let text = format!(
            "<IfModule mpm_prefork_module>\nStartServers 24\nMinSpareServers 1\nMaxSpareServers 30\nMaxRequestWorkers 30\nServerLimit 30\n\
             </IfModule>\nMaxKeepAliveRequests 0\n<Proxy balancer://b>\n{lines}</Proxy>\nProxyPass / balancer://b/\n"
        );
        let server = Server::start(mpm, &site, &text);
        server.allow_everything("members are killed");
        let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        std::thread::scope(|scope| {
            for mut client in clients {
                let (is_over, answered) = (&is_over, &answered);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let response = client.get("/x");
                        assert_eq!((response.status, &*response.text()), (200, "hello"));
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _end = End(&is_over);
            for turn in 0..TURNS {
                let member = &mut members[turn % 3];
                let (is_killed, before) = (turn % 2 == 0, answered.load(Ordering::Relaxed));
                if is_killed { member.kill() } else { member.slowness.set(true) }
                until("others answer, or the slow one has many requests", || {
                    let others = answered.load(Ordering::Relaxed) - before;
                    (others >= 10 * CLIENTS || member.slowness.waiting.load(Ordering::Relaxed) >= CLIENTS / 2).then_some(())
                });
                if is_killed { member.revive() } else { member.slowness.set(false) }
            }
        });
        let cut = members.iter().map(|one| one.cut.load(Ordering::Relaxed)).sum::<usize>();
        assert!(cut > TURNS / 2, "only {cut} connections were cut off");
        assert!(server.log().contains("AH00957"), "somebody had to find out");
    }
}

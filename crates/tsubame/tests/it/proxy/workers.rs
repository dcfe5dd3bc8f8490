//! What a line says about a server behind this one: how many connections at a time, how long it rests after a failure. And members of
//! a balancer that come and go.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
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
                (busy(&site, &name) == children as u64).then_some(())
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
    /// How long its answers take.
    is_slow: Arc<AtomicBool>,
    /// Its listener and its connections, while it is there.
    open: Arc<Mutex<Vec<TcpStream>>>,
    listener: Option<TcpListener>,
    /// How many connections have been cut off.
    cut: AtomicUsize,
}

impl Member {
    fn start(ip: Ipv4Addr, port: u16) -> Member {
        let (is_slow, open) = (Arc::default(), Arc::default());
        let address = SocketAddr::new(ip.into(), port);
        let mut member = Member { address, is_slow, open, listener: None, cut: AtomicUsize::new(0) };
        member.revive();
        member
    }

    fn revive(&mut self) {
        let listener = TcpListener::bind(self.address).expect("bind");
        self.listener = Some(listener.try_clone().expect("clone"));
        let (open, is_slow) = (self.open.clone(), self.is_slow.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                open.lock().expect("no panic").push(stream.try_clone().expect("clone"));
                let is_slow = is_slow.clone();
                std::thread::spawn(move || answer(stream, &is_slow));
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
        self.kill();
    }
}

fn answer(mut stream: TcpStream, is_slow: &AtomicBool) -> Option<()> {
    let (_never, tick) = channel::<()>();
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&piece[..count]);
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if is_slow.load(Ordering::Relaxed) {
                assert_eq!(tick.recv_timeout(Duration::from_millis(80)), Err(RecvTimeoutError::Timeout));
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").ok()?;
        }
    }
}

under_percore_and! {
    prefork:
    /// One of three members is killed, or slow, at any time: no request fails that may be sent twice.
    fn no_request_fails_while_members_do(mpm: Mpm) {
        const CLIENTS: usize = 20;
        let site = Site::new();
        let mut members = [PORT, 9110, 9111].map(|port| Member::start(site.ip, port));
        let lines: String = members.iter().map(|one| format!("BalancerMember http://{} retry=0\n", one.address)).collect();
        let text = format!(
            "<IfModule mpm_prefork_module>\nStartServers 24\nMinSpareServers 1\nMaxSpareServers 30\nMaxRequestWorkers 30\nServerLimit 30\n\
             </IfModule>\nMaxKeepAliveRequests 0\n<Proxy balancer://b>\n{lines}</Proxy>\nProxyPass / balancer://b/\n"
        );
        let server = Server::start(mpm, &site, &text);
        server.allow_everything("members are killed");
        let (is_over, (end, ended)) = (AtomicBool::new(false), channel::<()>());
        let clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        let answered = std::thread::scope(|scope| {
            let is_over = &is_over;
            let all: Vec<_> = clients
                .into_iter()
                .map(|mut client| {
                    scope.spawn(move || {
                        let mut count = 0_usize;
                        while !is_over.load(Ordering::Relaxed) {
                            let response = client.get("/x");
                            assert_eq!((response.status, &*response.text()), (200, "hello"), "request {count}");
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            for turn in 0..12 {
                let member = &mut members[turn % 3];
                let is_killed = turn % 2 == 0;
                if is_killed { member.kill() } else { member.is_slow.store(true, Ordering::Relaxed) }
                assert_eq!(ended.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout));
                if is_killed { member.revive() } else { member.is_slow.store(false, Ordering::Relaxed) }
            }
            is_over.store(true, Ordering::Relaxed);
            all.into_iter().map(|one| one.join().expect("no request fails")).collect::<Vec<_>>()
        });
        drop(end);
        assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
        let cut = members.iter().map(|one| one.cut.load(Ordering::Relaxed)).sum::<usize>();
        assert!(cut > 6, "only {cut} connections were cut off");
        assert!(server.log().contains("AH00957"), "somebody had to find out");
    }
}

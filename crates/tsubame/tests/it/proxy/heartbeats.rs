//! Servers that say how busy they are, and a balancer that goes by it.

use std::fs::Permissions;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::proxy::origin::Origin;

/// What is sent once a second has Apache's form.
#[test]
fn heartbeats_have_apache_s_form() {
    if !oracle::is_there("heartbeats_have_apache_s_form") {
        return;
    }
    let heard = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut message = [0; 100];
        loop {
            let (length, from) = socket.recv_from(&mut message).expect("a heartbeat");
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            assert!(from.ip().is_loopback(), "{from}");
            // The workers may not have started yet.
            if !text.contains("ready=0&") {
                return text;
            }
        }
    };
    let configuration = |socket: &UdpSocket| {
        let address = socket.local_addr().expect("an address");
        format!(
            "HeartbeatAddress {address}\nStartServers 1\nMinSpareThreads 4\nMaxSpareThreads 20\nThreadsPerChild 4\nMaxRequestWorkers 4\nServerLimit 1\n"
        )
    };
    let site = Site::new();
    let socket = UdpSocket::bind((site.ip, 0)).expect("a socket");
    let theirs = {
        let _apache = Apache::start(&site, &configuration(&socket));
        heard(&socket)
    };
    assert_eq!(theirs, "v=1&ready=4&busy=0");
    let site = Site::new();
    let socket = UdpSocket::bind((site.ip, 0)).expect("a socket");
    let _server = Server::start(Mpm::Event, &site, &configuration(&socket));
    assert_eq!(heard(&socket), theirs);
}

/// The member that says it has workers gets the requests: where this server hears it itself, and where a file says so.
#[test]
fn members_that_say_they_have_workers_get_requests() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let directory = site.file("heartbeats/hb.dat", "");
        let directory = directory.parent().expect("a directory");
        // The children's user writes it.
        std::fs::set_permissions(directory, Permissions::from_mode(0o777)).expect("permissions");
        let origin = Origin::start(site.ip);
        let port = UdpSocket::bind((site.ip, 0)).and_then(|socket| socket.local_addr()).expect("an address").port();
        let balancer = format!(
            "<Proxy balancer://b>\nBalancerMember http://{}\nBalancerMember http://{}:1\nProxySet lbmethod=heartbeat\n</Proxy>\nProxyPass /b/ balancer://b/\n",
            origin.address, site.ip
        );
        let listen =
            format!("LogLevel warn heartmonitor:debug\nHeartbeatListen {}:{port}\nHeartbeatMaxServers 0\n", site.ip);
        let server =
            Server::start(mpm, &site, &format!("{balancer}{listen}HeartbeatStorage ${{ROOT}}/heartbeats/hb.dat\n"));
        server.allow_everything("nobody has said anything yet");
        assert_eq!(server.get("/b/x").status, 503);
        let socket = UdpSocket::bind((site.ip, 0)).expect("a socket");
        for message in ["nonsense", "v=1&ready=3", "v=1&ready=5&busy=2&port=9108"] {
            socket.send_to(message.as_bytes(), (site.ip, port)).expect("sent");
        }
        until("a member", || Some(()).filter(|()| server.get("/b/bare").status == 200));
        assert!(server.logged("AH02086").contains(" busy=2 ready=5"), "{mpm}");
        let line =
            until("the file", || Some(site.read_lines("heartbeats/hb.dat")).filter(|text| text.contains("ready")));
        assert!(
            line.starts_with(&format!("{} &ready=5&busy=2&lastseen=", site.ip)) && line.ends_with("&port=9108\n"),
            "{line}"
        );
        drop(server);
        let other = Site::with([]);
        let origin = Origin::start(other.ip);
        other.file("hb.dat", format!("{} &ready=5&busy=2&lastseen=1&port=80\n", other.ip));
        let text = balancer.replace(&site.ip.to_string(), &other.ip.to_string());
        let server = Server::start(mpm, &other, &format!("{text}HeartbeatStorage ${{ROOT}}/hb.dat\n"));
        server.allow_everything("the file has not been read yet");
        until("a member", || Some(()).filter(|()| server.get("/b/bare").status == 200));
        drop(origin);
    }
}

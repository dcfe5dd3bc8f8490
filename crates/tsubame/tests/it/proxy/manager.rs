//! What the page balancer-manager changes, compared with Apache: new members, settings of balancers and members, and what outlives the
//! server (`BalancerPersist`).

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use sys::signal::Signal;

use crate::harness::mpm::Mpm;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};
use crate::proxy::origin::Origin;

/// The balancers, whose members are at one server: the path tells which one was elected.
const BALANCERS: &str = "<Proxy balancer://b>\nBalancerMember http://ORIGIN/m1 route=r1\nBalancerMember http://ORIGIN/m2 loadfactor=3\n\
    ProxySet nonce=once growth=3\n</Proxy>\nProxyPass /b balancer://b\n\
    <Proxy balancer://none>\nProxySet nonce=once growth=1\n</Proxy>\nProxyPass /none balancer://none\n\
    <Proxy balancer://fixed>\nBalancerMember http://ORIGIN/m1\nProxySet nonce=once\n</Proxy>\n\
    <Location /manager>\nSetHandler balancer-manager\n</Location>\n<Location /metrics>\nSetHandler metrics\n</Location>\n";

fn balancers(origin: &Origin) -> String {
    let text = BALANCERS.replace("ORIGIN", &origin.address.to_string());
    // Apache has no such handler.
    format!("ProxyRequests Off\n{text}")
}

/// Sends a form to the page, from the page itself.
fn send(address: SocketAddr, form: &str) -> Response {
    Client::connect(address).request(format!(
        "POST /manager HTTP/1.1\r\nHost: localhost\r\nReferer: http://localhost/manager\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    ))
}

/// Starts a server whose log may tell, also of a former one, what forms have changed.
fn start<'s>(mpm: Mpm, site: &'s Site, text: &str) -> Server<'s> {
    let server = Server::start(mpm, site, text);
    for line in ["is a new member, and disabled", "is now Init", ": now lbmethod=", "failed to add worker"] {
        server.allow(line);
    }
    server
}

/// What a page says about each balancer and each member, up to the status of a member.
fn facts(page: &str) -> Vec<String> {
    let is_fact = |line: &&str| line.contains(" Used]</td>") || line.starts_with("<td><a ");
    let cells = |line: &str| {
        let texts: Vec<&str> = line.split("<td>").skip(1).take(6).collect();
        texts.iter().map(|text| plain(text)).collect::<Vec<_>>().join("|")
    };
    let rest_of_balancer = |line: &str| {
        let all = page.split_once(line).map_or("", |(_, rest)| rest);
        all.lines().take(4).map(plain).collect::<Vec<_>>().join("|")
    };
    page.lines()
        .filter(is_fact)
        .map(|line| match line.contains(" Used]") {
            true => format!("{} {}", cells(line), rest_of_balancer(line)),
            false => cells(line),
        })
        .collect()
}

/// A text without its elements.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for piece in text.split('<') {
        out += piece.split_once('>').map_or(piece, |(_, rest)| rest);
        out.push(' ');
    }
    out.trim().to_string()
}

/// Forms, each with the balancer it is about.
fn forms(origin: &Origin) -> Vec<String> {
    let address = origin.address;
    let new = |url: &str| format!("b_nwrkr={url}&b_wyes=1&b=b");
    let of_member = |member: &str, changes: &str| format!("{changes}&w=http://{address}/{member}&b=b");
    let mut all = vec![
        new(&format!("http://{address}/m3")),
        new(&format!("http://{address}/m3")),
        new(&format!("http://{address}/m1/")),
        format!("b_nwrkr=http://{address}/m4&b_wyes=2&b=b"),
        format!("b_nwrkr=http://{address}/m4&b=b"),
        new("nonsense"),
        new("http://"),
        new(""),
        new("AJP://Elsewhere:8009"),
        new("fcgi://[::1]:9000/x"),
        new("http://no.room.left"),
        "b_nwrkr=http://one.example&b_wyes=1&b=fixed".into(),
        format!("b_nwrkr=http://{address}/m1&b_wyes=1&b=none"),
    ];
    for changes in [
        "w_lf=2.5",
        "w_lf=0.5",
        "w_lf=101",
        "w_lf=x",
        "w_ls=7",
        "w_ls=100",
        "w_ls=-1",
        "w_wr=new",
        "w_rr=r1",
        "w_wr=",
        "w_status_D=0",
        "w_status_N=1&w_status_H=1",
        "w_status_D=2",
        "w_status_E=1",
        "w_status_I=1&w_status_N=0",
        "w_status_H=0",
        "w_wr=x%22y&w_lf=4&w_ls=0",
    ] {
        all.push(of_member("m3", changes));
    }
    all.push(of_member("m2", &format!("w_wr={}", "x".repeat(63))));
    all.push(of_member("m2", &format!("w_wr={}", "x".repeat(64))));
    all.push(of_member("m1", "w_wr=r9&w_status_S=1"));
    all.push(of_member("m9", "w_lf=2"));
    for changes in [
        "b_tmo=9",
        "b_tmo=7201",
        "b_tmo=-1",
        "b_tmo=7200",
        "b_max=5",
        "b_max=100",
        "b_max=-1",
        "b_sforce=1",
        "b_sforce=2",
        "b_ss=SID|sid",
        "b_ss=",
        "b_ss=SID",
        "b_lbm=bytraffic",
        "b_lbm=nonsense",
        "b_sforce=0&b_max=1&b_tmo=0",
    ] {
        all.push(format!("{changes}&b=b"));
    }
    all.push(format!("b_ss={}&b=b", "x".repeat(62)));
    all.push(format!("b_ss={}&b=b", "y".repeat(63)));
    all.push("b_ss=-&b=b".into());
    all.push("b_ss=LAST&b=b".into());
    all
}

/// What each form leads to.
fn answers(address: SocketAddr, origin: &Origin) -> Vec<String> {
    let answer = |form: String| {
        let response = send(address, &format!("{form}&nonce=once"));
        let facts = if response.status == 200 { facts(&response.text()) } else { Vec::new() };
        format!("{form}: {} {facts:#?}", response.status).replace(&origin.address.to_string(), "ORIGIN")
    };
    forms(origin).into_iter().map(answer).collect()
}

fn page(address: SocketAddr) -> String {
    Client::connect(address).get("/manager").text()
}

/// What is there after a restart, without the number of members: Apache then counts only those of the configuration.
fn facts_without_count(address: SocketAddr, origin: &Origin) -> Vec<String> {
    let strip = |fact: String| fact.split_once(" Used]").map_or(fact.clone(), |(_, rest)| rest.to_string());
    facts(&page(address)).into_iter().map(|fact| strip(fact).replace(&origin.address.to_string(), "ORIGIN")).collect()
}

/// Forms change what they change in Apache, and what they have changed outlives the server as there.
#[test]
fn forms_do_what_they_do_in_apache() {
    if !oracle::is_there("forms_do_what_they_do_in_apache") {
        return;
    }
    let text = |origin: &Origin| format!("BalancerPersist On\n{}", balancers(origin));
    let (theirs, theirs_later) = {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let apache = Apache::start(&site, &text(&origin));
        let answers = answers(site.address(), &origin);
        drop(apache);
        let _apache = Apache::start(&site, &text(&origin));
        (answers, facts_without_count(site.address(), &origin))
    };
    assert!(theirs_later.iter().any(|fact| fact.contains("/m3")), "{theirs_later:#?}");
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = start(mpm, &site, &text(&origin));
        let ours = answers(site.address(), &origin);
        let wrong: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
        assert!(wrong.is_empty(), "{mpm}: {} differences, ours and Apache's:\n{wrong:#?}", wrong.len());
        drop(server);
        let _server = start(mpm, &site, &text(&origin));
        assert_eq!(facts_without_count(site.address(), &origin), theirs_later, "{mpm}");
    }
}

/// The member that gets a request.
fn elected(server: &Server<'_>, path: &str) -> String {
    let response = server.get(path);
    let text = response.text();
    text.split(' ').nth(1).unwrap_or_default().to_string()
}

/// A member that is added gets requests from all processes, once it is enabled; nobody but the page of this host can add one.
#[test]
fn a_new_member_is_known_to_all() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = start(mpm, &site, &balancers(&origin));
        server.allow("AH01171: balancer://none: No workers in balancer");
        server.announce("AH01167: balancer://none: All workers are in error state");
        server.announce("AH10163: balancer://none: failed to add worker");
        server.announce("AH10164: balancer://none: failed to add worker");
        let url = format!("http://{}/new", origin.address);
        let new = format!("b_nwrkr={url}&b_wyes=1&b=none");
        assert_eq!(server.get("/none/x").status, 503);
        for (referer, form) in [
            ("http://elsewhere.example/manager", format!("{new}&nonce=once")),
            ("http://localhost@elsewhere.example/manager", format!("{new}&nonce=once")),
            ("", format!("{new}&nonce=once")),
            ("http://localhost/manager", format!("{new}&nonce=wrong")),
            ("http://localhost/manager", new.clone()),
        ] {
            let response = server.client().request(format!(
                "POST /manager HTTP/1.1\r\nHost: localhost\r\nReferer: {referer}\r\nContent-Length: {}\r\n\r\n{form}",
                form.len()
            ));
            assert_eq!((response.status, response.text().contains(&url)), (200, false), "{referer} {form}");
        }
        let link = format!(
            "GET /manager?{new}&nonce=once HTTP/1.1\r\nHost: localhost\r\nReferer: http://localhost/manager\r\n\r\n"
        );
        let shown = server.client().request(link).text();
        assert!(shown.contains("Add New Worker:") && !shown.contains(&url), "a link only shows the form: {shown}");
        for (url, why) in [
            ("gopher://h", "Tsubame does not speak gopher to backends"),
            ("balancer://b", "Tsubame does not speak balancer to backends"),
            ("http://a%20b", "the URL has blanks or control characters in it"),
            ("http://h/%0ax", "the URL has blanks or control characters in it"),
            ("http://user:word@h", "http://user:word@h is no absolute URL"),
            ("http://<h", "http://&lt;h is no absolute URL"),
            (&format!("http://{}", "h".repeat(249)), "the URL is longer than 255 bytes"),
        ] {
            let response = send(site.address(), &format!("b_nwrkr={url}&b_wyes=1&b=none&nonce=once"));
            let is_said = response.text().contains(why);
            assert_eq!((response.status, is_said), (400, true), "{url}: {}", response.text());
        }
        assert_eq!(send(site.address(), &format!("{new}&nonce=once")).status, 200);
        let again = send(site.address(), &format!("{new}&nonce=once"));
        assert!(again.text().contains("is a member already"), "{}", again.text());
        let full = send(site.address(), "b_nwrkr=http://h&b_wyes=1&b=none&nonce=once");
        assert!(full.text().contains("balancer://none has no room for another member"), "{}", full.text());
        assert_eq!(server.get("/none/x").status, 503, "it is disabled at first");
        send(site.address(), &format!("w={url}&w_status_D=0&w_wr=<r>&b=none&b_ss=SID&nonce=once"));
        for _ in 0..8 {
            assert_eq!(elected(&server, "/none/x"), "/new/x");
        }
        let page = page(site.address());
        assert!(page.contains("<td>1 [1 Used]</td>") && page.contains("<td>&lt;r&gt;</td>"), "{page}");
        let metrics = server.get("/metrics").text();
        for line in [
            format!("tsubame_balancer_requests_total{{balancer=\"none\",member=\"{url}\"}} 8\n"),
            format!("tsubame_balancer_members_usable{{balancer=\"none\",member=\"{url}\"}} 1\n"),
            format!("tsubame_proxy_server_usable{{balancer=\"none\",server=\"{url}\"}} 1\n"),
        ] {
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
        send(site.address(), &format!("w=http://{}/m1&w_status_D=1&b=b&nonce=once", origin.address));
        send(site.address(), &format!("w=http://{}/m2&w_wr=r2&b=b&b_ss=SID&b_sforce=1&nonce=once", origin.address));
        let with_session = |route: &str| {
            let request = format!("GET /b/x HTTP/1.1\r\nHost: localhost\r\nCookie: SID=a.{route}\r\n\r\n");
            server.client().request(request).status
        };
        server.announce("AH01166: balancer://b: All workers are in error state for route (r1)");
        assert_eq!(
            [with_session("r2"), with_session("r1")],
            [200, 503],
            "a route that the page has set, and a session that ends"
        );
    }
}

/// The file of the state.
fn state_file(site: &Site) -> Option<PathBuf> {
    let all = fs::read_dir(site.root.join("run")).ok()?;
    all.map(|entry| entry.expect("an entry").path()).find(|path| path.extension().is_some_and(|end| end == "json"))
}

/// With `BalancerPersist` a restart goes on with what the page has changed, and without it begins with the configuration.
#[test]
fn a_restart_keeps_what_is_to_persist() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = balancers(&origin);
        let mut server = start(mpm, &site, &text);
        let change = || {
            send(site.address(), &format!("b_nwrkr=http://{}/m3&b_wyes=1&b=b&nonce=once", origin.address));
            send(site.address(), &format!("w=http://{}/m3&w_status_D=0&b=b&nonce=once", origin.address));
            send(site.address(), &format!("w=http://{}/m2&w_status_D=1&w_lf=7&b=b&nonce=once", origin.address));
            facts(&page(site.address()))
        };
        let before = facts(&page(site.address()));
        let after = change();
        assert_ne!(before, after);
        server.replace(Signal::USR1);
        assert_eq!(facts(&page(site.address())), before);
        assert_eq!(state_file(&site), None);
        site.configure(mpm, &format!("BalancerPersist On\n{text}"));
        server.replace(Signal::USR1);
        assert_eq!(change(), after);
        let shown = page(site.address());
        assert!(shown.contains("Balancer changes will be persisted on restart."), "{shown}");
        for signal in [Signal::USR1, Signal::HUP] {
            server.replace(signal);
            assert_eq!(facts(&page(site.address())), after, "{mpm} {signal:?}");
            let elected: Vec<String> = (0..4).map(|_| elected(&server, "/b/x")).collect();
            assert!(elected.contains(&"/m3/x".to_string()) && !elected.contains(&"/m2/x".to_string()), "{elected:?}");
        }
        // A change of the last moment, and members that come and go.
        send(site.address(), "b_max=9&b=b&nonce=once");
        drop(server);
        let state = fs::read_to_string(state_file(&site).expect("a state")).expect("a text");
        assert!(state.contains("/m3\"") && !state.contains("once"), "{state}");
        let text = text.replace(
            &format!("BalancerMember http://{}/m2 loadfactor=3\n", origin.address),
            &format!("BalancerMember http://{0}/m4\nBalancerMember http://{0}/m3 loadfactor=2\n", origin.address),
        );
        let server = start(mpm, &site, &format!("BalancerPersist On\n{text}"));
        let page = page(site.address());
        assert!(page.contains("<td>6 [3 Used]</td>") && page.contains("<td>9</td>"), "{page}");
        let of = |member: &str| {
            facts(&page).into_iter().find(|fact| fact.contains(&format!("/{member}|"))).unwrap_or_default()
        };
        assert_eq!([of("m2"), of("m4")].map(|fact| fact.contains("1.00|0|Init Ok")), [false, true], "{page}");
        assert!(of("m3").ends_with("|2.00|0|Init Ok"), "now it has a line: {page}");
        drop(server);
    }
}

/// A file that is damaged, or that others may have written, changes nothing; the next end replaces it.
#[test]
fn a_bad_state_is_ignored() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let text = format!("BalancerPersist On\n{}", balancers(&origin));
    let server = start(Mpm::Percore, &site, &text);
    let before = facts(&page(site.address()));
    let new = format!("b_nwrkr=http://{}/m3&b_wyes=1&b=b&nonce=once", origin.address);
    assert_ne!(facts(&send(site.address(), &new).text()), before);
    drop(server);
    let file = state_file(&site).expect("a state");
    let good = fs::read(&file).expect("a state");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let bad: [(&[u8], u32, &str); 5] = [
        (&good[..good.len() / 2], 0o600, "it is no JSON"),
        (b"{}", 0o600, "it was made by another program, or is damaged"),
        (
            b"{\"format\":\"Tsubame balancers 1\",\"balancers\":[{\"members\":[1]}]}",
            0o600,
            "it was made by another program, or is damaged",
        ),
        (&good, 0o666, "others may have written it"),
        (&good, 0o620, "others may have written it"),
    ];
    for (bytes, permissions, why) in bad {
        fs::write(&file, bytes).expect("a file");
        mode(permissions);
        let server = start(Mpm::Percore, &site, &text);
        server.announce(format!("is ignored: {why}"));
        assert_eq!(facts(&page(site.address())), before, "{why}");
        drop(server);
        fs::remove_file(site.root.join("logs/error_log")).expect("a log");
        // What is there now is good.
        let _server = start(Mpm::Percore, &site, &text);
    }
    // A URL that the page would not take.
    let state = String::from_utf8(good)
        .expect("a text")
        .replace(&format!("http://{}/m3", origin.address), "file:///etc/passwd");
    fs::write(&file, state).expect("a file");
    let server = start(Mpm::Percore, &site, &text);
    server.announce("balancer://b: file:///etc/passwd: ");
    assert_eq!(facts(&page(site.address())), before);
}

/// What a page says about the checks of a member.
fn checks(page: &str, member: &str) -> Vec<String> {
    let row = page.lines().find(|line| line.contains(&format!("/{member}</a>"))).unwrap_or_default();
    let cells: Vec<String> = row.split("<td>").skip(12).map(plain).collect();
    // Apache's page also has the checks in a row so far.
    cells.into_iter().map(|cell| cell.split(" (").next().unwrap_or_default().to_string()).collect()
}

/// The page changes how members are checked as in Apache, also of a member that it has added.
#[test]
fn health_checks_change_as_in_apache() {
    if !oracle::is_there("health_checks_change_as_in_apache") {
        return;
    }
    let text = |origin: &Origin| {
        format!(
            "BalancerPersist On\nProxyHCExpr ok \"%{{REQUEST_STATUS}} =~ /^2/\"\nProxyHCExpr found \"%{{REQUEST_STATUS}} =~ /^4/\"\n\
             <Proxy balancer://b>\nBalancerMember http://{0}/m1 hcmethod=TCP hcinterval=60\nBalancerMember http://{0}/m2\n\
             ProxySet nonce=once growth=1\n</Proxy>\nProxyPass /b balancer://b\n\
             <Location /manager>\nSetHandler balancer-manager\n</Location>\n",
            origin.address
        )
    };
    let (fits, too_long) = (format!("w_hu=/{}", "x".repeat(62)), format!("w_hu=/{}", "y".repeat(63)));
    let forms = [
        "w_hm=GET",
        "w_he=ok",
        "w_he=nope",
        "w_he=found",
        "w_he=",
        "w_he=ok",
        "w_hm=TCP",
        "w_he=ok",
        "w_hm=head11&w_hu=/missing",
        "w_hm=XX",
        "w_hi=99",
        "w_hi=100000",
        "w_hi=x",
        "w_hi=20min",
        "w_hp=0",
        "w_hp=3",
        "w_hf=x",
        "w_hf=2",
        &fits,
        &too_long,
        "w_hu=/a%20b",
        "w_hm=OPTIONS&w_he=found",
        "w_hm=NONE",
        "w_hi=300s&w_hm=GET11&w_hu=/bare&w_he=ok",
    ];
    let answers = |site: &Site, origin: &Origin| -> Vec<Vec<String>> {
        let answer = |changes: &&str| {
            let form = format!("{changes}&w=http://{}/m2&b=b&nonce=once", origin.address);
            checks(&send(site.address(), &form).text(), "m2")
        };
        forms.iter().map(answer).collect()
    };
    let theirs = {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let _apache = Apache::start(&site, &text(&origin));
        answers(&site, &origin)
    };
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let server = start(Mpm::Percore, &site, &text(&origin));
    server.allow("balancer://b: Health check ");
    let ours = answers(&site, &origin);
    for (form, (ours, theirs)) in forms.iter().zip(ours.iter().zip(&theirs)) {
        assert_eq!(ours, theirs, "{form}");
    }
    let member = format!("http://{}/new", origin.address);
    send(site.address(), &format!("b_nwrkr={member}&b_wyes=1&b=b&nonce=once"));
    send(site.address(), &format!("w={member}&w_status_D=0&w_hm=GET&w_hu=/missing&w_hi=100&b=b&nonce=once"));
    let is = |word: &'static str| {
        let has_word =
            || facts(&page(site.address())).into_iter().any(|fact| fact.contains("/new|") && fact.ends_with(word));
        until(word, || has_word().then_some(()));
    };
    is("Init HcFl");
    send(site.address(), &format!("w={member}&w_hu=/bare&b=b&nonce=once"));
    is("Init Ok");
    let before = ["m2", "new"].map(|member| checks(&page(site.address()), member));
    drop(server);
    let server = start(Mpm::Percore, &site, &text(&origin));
    server.allow("balancer://b: Health check ");
    assert_eq!(["m2", "new"].map(|member| checks(&page(site.address()), member)), before);
}

//! `Listen` lines and the sockets made from them.

use std::os::fd::AsRawFd;

use conf::{Origin, Source};

use super::*;

fn settings(lines: &[(&[&str], u16)]) -> SettingsMap {
    let origin = Origin { source: Arc::new(Source::new("f")), line: 1 };
    let mut slots = SettingsMap::default();
    for (addresses, port) in lines {
        let addresses = addresses.iter().map(|text| text.parse().expect("address")).collect();
        let line = Listen { addresses, port: *port, protocol: None };
        slots.edit::<MpmSettings>().listen.push(line, &origin);
    }
    slots
}

#[test]
fn sockets_stay_where_their_address_stays() {
    let first = Listeners::open(&settings(&[(&["127.55.0.3:0"], 0)]), Vec::new()).expect("open");
    let address = first.addresses()[0];
    // As after a start with the port given.
    let started = Listeners(vec![Listener { address, ..first.0[0].clone() }]);
    let text = address.to_string();
    let wanted = settings(&[(&[&text], address.port()), (&["127.55.0.4:0"], 0)]);
    let second = started.follow(&wanted).expect("open");
    assert_eq!(second.0[0].fd.as_raw_fd(), first.0[0].fd.as_raw_fd());
    assert_eq!(second.iter().len(), 2);

    let error = Listeners::default().follow(&wanted).expect_err("taken");
    let bound = format!("(98)Address already in use: AH00072: make_sock: could not bind to address {text}");
    assert_eq!(error.lines, [bound.as_str(), "no listening sockets available, shutting down"]);
}

#[test]
fn every_address_is_one_socket_and_its_failure_two_lines() {
    let Ok(any) = Listeners::open(&settings(&[(&[], 0)]), Vec::new()) else { panic!("cannot listen at all") };
    let port = any.addresses()[0].port();
    if any.addresses()[0].is_ipv6() {
        let error = Listeners::default().follow(&settings(&[(&[], port)])).expect_err("taken");
        let line =
            |any| format!("(98)Address already in use: AH00072: make_sock: could not bind to address {any}:{port}");
        assert_eq!(error.lines[..2], [line("[::]"), line("0.0.0.0")]);
        let both = Listeners(vec![Listener { address: any.addresses()[0], ..any.0[0].clone() }]);
        let address = format!("0.0.0.0:{port}");
        let one = both.follow(&settings(&[(&[], port), (&[&address], port)])).expect("open");
        assert_eq!(one.iter().len(), 1, "0.0.0.0 is part of [::]");
    }
    assert_eq!(any.iter().len(), 1);
}

#[test]
fn passed_sockets_are_matched_by_address() {
    let made = listen("127.55.0.5:0".parse().expect("address"), ListenOptions::default()).expect("listen");
    let address = local_address(&made).expect("name");
    let (number, text) = (made.as_raw_fd(), address.to_string());
    let opened = Listeners::open(&settings(&[(&[&text], address.port())]), vec![made]).expect("open");
    assert_eq!(opened.0[0].fd.as_raw_fd(), number);
    assert!(Listeners::open(&settings(&[]), Vec::new()).is_err());
    let error = Listeners::default().follow(&settings(&[(&["192.0.2.1:8077"], 8077)])).expect_err("not ours");
    let text = "(99)Cannot assign requested address: AH00072: make_sock: could not bind to address 192.0.2.1:8077";
    assert_eq!(error.lines[0], text);
}

//! What frames do to the requests of a connection.

use super::*;

/// A connection with one request, whose response has begun.
fn begun() -> (Connection<Slot>, At) {
    let mut protocol = Connection::new(CONFIG);
    let asked = protocol.request::<()>(true, false, |_| Ok(())).expect("valid");
    // SETTINGS, and a head with status 200.
    for frame in [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88]] {
        receive(&mut protocol, frame, Instant::now());
    }
    (protocol, asked.expect("room"))
}

fn receive(protocol: &mut Connection<Slot>, frame: &[u8], now: Instant) {
    let Ok(Some((_, event))) = protocol.receive(frame) else { panic!("{frame:?}") };
    took(protocol, event, now);
}

#[test]
fn data_without_content_are_silence() {
    let (mut protocol, at) = begun();
    let mut active = |frame: &[u8], now| {
        receive(&mut protocol, frame, now);
        protocol.stream(at).and_then(|slot| slot.active) == Some(now)
    };
    let later = |seconds| Instant::now() + Duration::from_secs(seconds);
    assert!(!active(&[0, 0, 0, 0, 0, 0, 0, 0, 1], later(1)));
    assert!(!active(&[0, 0, 2, 0, 8, 0, 0, 0, 1, 1, 0], later(2)), "padding is no content");
    assert!(active(&[0, 0, 1, 0, 0, 0, 0, 0, 1, b'x'], later(3)));
    assert!(active(&[0, 0, 0, 0, 1, 0, 0, 0, 1], later(4)), "the end");
}

#[test]
fn what_comes_for_streams_that_are_over_is_bounded() {
    let mut given_up = GivenUp { streams: 2, received: 0 };
    let window = CONFIG.window as usize;
    assert!(given_up.receive(3 * window) && given_up.receive(0));
    assert!(!given_up.receive(1));
}

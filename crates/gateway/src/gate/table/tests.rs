//! The table: places, expectations, the lock.

use super::*;

#[test]
fn entries_come_and_go() {
    let table = Table::new().expect("memory");
    let locked = table.lock();
    let script = locked.script("/srv/a.cgi");
    assert_eq!((locked.script("/srv/a.cgi"), locked.expected(script)), (script, None));
    assert_ne!(locked.script("/srv/b.cgi"), script);
    let first = locked.enter(script, "a", 9).expect("room");
    let second = locked.enter(script, "a", 9).expect("room");
    assert_eq!((locked.waiting(), table.is_running(first)), (2, false));
    locked.admit(first);
    assert_eq!((locked.waiting(), table.is_running(first)), (1, true));
    assert_eq!(locked.guests(State::Waiting).0, [second]);
    table.set_process(first, Pid::own());
    assert_eq!(locked.processes(), [(first, Pid::own())]);
    locked.weigh(first, Pid::own(), 70);
    assert_eq!(locked.guests(State::Running).1[0].has, 70);
    locked.learn(first, Run { peak: 50, took: Duration::from_millis(3), ..Run::default() });
    assert_eq!(locked.expected(script), Some(70), "what was weighed counts too");
    locked.leave(first);
    locked.sweep();
    assert_eq!(locked.guests(State::Waiting).0, [second], "its owner lives");
    locked.leave(second);
    assert_eq!(locked.waiting(), 0);
    let all = locked.scripts();
    assert_eq!(all.iter().map(|script| script.runs).sum::<u64>(), 1);
    let known = all.iter().find(|known| known.name == "/srv/a.cgi").expect("known");
    assert!(known.median >= Duration::from_millis(3) && known.median < Duration::from_millis(5), "{known:?}");
}

#[test]
fn there_is_an_end_to_it() {
    let table = Table::new().expect("memory");
    let locked = table.lock();
    assert!((0..ENTRIES).all(|_| locked.enter(0, "a", 9).is_some()));
    assert_eq!(locked.enter(0, "a", 9), None);
    let rows: std::collections::BTreeSet<usize> =
        (0..2 * SCRIPTS).map(|index| locked.script(&format!("/srv/{index}"))).collect();
    assert_eq!(rows.len(), SCRIPTS);
    assert_eq!(locked.scripts().len(), SCRIPTS - 1, "nobody has run in the last one");
}

#[test]
fn allowances_are_kept() {
    let table = Table::new().expect("memory");
    assert_eq!(table.lock().allowance(), Allowance::Auto);
    for allowance in [Allowance::Bytes(u64::MAX >> 2), Allowance::Percent(75), Allowance::Unlimited, Allowance::Auto] {
        table.set_allowance(allowance);
        assert_eq!(table.lock().allowance(), allowance);
    }
}

#[test]
fn expectations_rise_at_once_and_fall_slowly() {
    assert_eq!((expect(0, 100), expect(100, 300), expect(300, 100), expect(300, 300)), (100, 300, 275, 300));
}

#[test]
fn steps_of_durations() {
    let cases = [(0, 0), (100, 0), (101, 1), (141, 1), (142, 2), (200, 2), (3_600_000_000, STEPS - 1)];
    for (micros, want) in cases {
        assert_eq!(step(Duration::from_micros(micros)), want, "{micros}");
    }
    assert!((0..STEPS).all(|index| step(duration_of(index)) == index));
}

#[test]
fn a_lock_of_the_dead_is_taken() {
    let table = Table::new().expect("memory");
    // No process can have this number.
    table.header(Header::Lock).store(0x7fff_ffff, Relaxed);
    drop(table.lock());
    assert_eq!(table.header(Header::Lock).load(Relaxed), 0);
}

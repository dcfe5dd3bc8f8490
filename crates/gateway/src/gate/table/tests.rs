//! The table: entries, expectations, the lock.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::process::Pid;
use sys::shared_lock::{NUMBER_BITS, is_there, own};

use super::layout::{ENTRIES, EntryField, EntryState, HeaderField, SCRIPTS, Table};
use super::usage::Usage;
use crate::gate::policy::{self, Job, UNLIMITED};
use crate::gate::rules::Allowance;

#[test]
fn entries_come_and_go() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    let script = locked.script("/srv/a.cgi");
    assert_eq!((locked.script("/srv/a.cgi"), locked.expected(script)), (script, None));
    assert_ne!(locked.script("/srv/b.cgi"), script);
    let first = locked.enter(script, "a", 9).expect("room");
    let second = locked.enter(script, "a", 9).expect("room");
    assert_eq!((locked.waiting(), table.is_running(first)), (2, false));
    locked.admit(first);
    assert_eq!((locked.waiting(), table.is_running(first)), (1, true));
    assert_eq!(locked.jobs(EntryState::Waiting).0, [second]);
    table.process(first).store(u64::from(std::process::id()), Relaxed);
    assert_eq!(locked.processes(Duration::ZERO), [(first, Pid::own())]);
    locked.weigh(first, Pid::own(), 70);
    assert_eq!(locked.jobs(EntryState::Running).1[0].has, 70);
    locked.learn(first, Usage { took: Duration::from_millis(3), ..run(Some(50)) });
    assert_eq!(locked.expected(script), Some(70), "what was weighed counts too");
    locked.weigh(first, Pid::own(), 0);
    assert!(locked.jobs(EntryState::Running).0.is_empty(), "it has ended");
    locked.leave(first);
    locked.sweep();
    assert_eq!(locked.jobs(EntryState::Waiting).0, [second], "its owner lives");
    locked.leave(second);
    assert_eq!(locked.waiting(), 0);
    let all = locked.scripts();
    assert_eq!(all.iter().map(|script| script.runs).sum::<u64>(), 1);
    locked.refuse(script);
    assert_eq!(locked.totals(), [1, 0, 1]);
    let known = all.iter().find(|known| known.name == "/srv/a.cgi").expect("known");
    assert_eq!((known.median, known.p99), (Duration::from_millis(3), Duration::from_millis(3)));
}

/// Whatever happens, the numbers that are kept are those that a count finds, and ample room is room by the policy.
#[test]
fn numbers_that_are_kept_are_right() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    let mut seed = 1_u64;
    let mut chance = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let kept = [HeaderField::Waiting, HeaderField::Running, HeaderField::Unknown];
    let numbers = || kept.map(|field| table.header(field).load(Relaxed));
    let (mut entries, mut ample) = (Vec::new(), 0);
    for step in 0..40_000 {
        let any = |entries: &[usize], number: u64| entries.get(number as usize % entries.len().max(1)).copied();
        let some = any(&entries, chance(1000));
        match (chance(7), some) {
            (0, _) if entries.len() < 15 => {
                let most = if chance(4) == 0 { 1 } else { u64::MAX };
                // Three scripts at a time, which are new now and then, so that their needs are unknown.
                let script = locked.script(&(step / 1000 * 3 + chance(3)).to_string());
                let entry = locked.enter(script, "host", most).expect("room");
                assert!(!entries.contains(&entry));
                entries.push(entry);
            }
            (1 | 2 | 6, _) if locked.waiting() > 0 => match (locked.jobs(EntryState::Waiting).0[0], chance(9)) {
                (entry, 0) => locked.turn_away(entry),
                (entry, _) => locked.admit(entry),
            },
            (3, Some(entry)) if table.is_running(entry) => {
                table.process(entry).store(u64::from(std::process::id()), Relaxed);
                locked.weigh(entry, Pid::own(), chance(200));
            }
            (4, Some(entry)) if table.is_running(entry) && chance(8) == 0 => locked.learn(entry, run(Some(200))),
            (5, Some(entry)) if chance(2) == 0 => {
                entries.retain(|other| *other != entry);
                locked.leave(entry);
            }
            _ => {}
        }
        let [waiting, running] = [EntryState::Waiting, EntryState::Running].map(|state| locked.jobs(state));
        for free in [200 * locked.running() as u64 + chance(250), chance(3000), UNLIMITED] {
            let Some(entry) = waiting.0.first().filter(|entry| locked.has_ample_room(**entry, free)) else { continue };
            ample += 1;
            // As the gate sees those whose needs are unknown.
            let seen = |job: &Job| if job.known { *job } else { Job { needs: free / 4, ..*job } };
            let [waiting, running] = [&waiting, &running].map(|jobs| jobs.1.iter().map(seen).collect::<Vec<Job>>());
            assert_eq!(policy::next(&waiting, &running, free, 0), Some(0), "{entry} {waiting:?} {running:?} {free}");
        }
        if step % 8 == 0 {
            let before = numbers();
            locked.recount();
            assert_eq!(numbers(), before);
        }
    }
    assert!(ample > 500, "{ample}");
}

#[test]
fn durations_are_those_of_the_runs() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    let script = locked.script("a");
    let entry = locked.enter(script, "a", 9).expect("room");
    let times = || {
        let known = locked.described(script, 0, 0);
        (known.median.as_millis(), known.p99.as_millis())
    };
    let took = |millis| locked.learn(entry, Usage { took: Duration::from_millis(millis), ..run(None) });
    assert_eq!(times(), (0, 0));
    locked.fail(entry);
    assert_eq!(times(), (0, 0), "it did not run");
    took(25_000);
    assert_eq!(times(), (25_000, 25_000));
    // Durations of one step, which cannot be told apart.
    took(20_000);
    assert_eq!(times(), (22_500, 22_500));
    (0..97).for_each(|_| took(10));
    assert_eq!(times(), (10, 22_500));
    took(10);
    assert_eq!(times(), (10, 22_500));
    (0..100).for_each(|_| took(10));
    assert_eq!(times(), (10, 10));
    let known = locked.described(script, 0, 0);
    assert_eq!((known.runs, known.failures, locked.totals()), (201, 1, [201, 1, 0]));
}

/// A run that ended well.
fn run(peak: Option<u64>) -> Usage {
    let none = Duration::ZERO;
    Usage {
        status: sys::process::Status::Exited(0),
        given_up: false,
        peak,
        floor: 40,
        cpu: none,
        took: none,
        queued: none,
    }
}

#[test]
fn runs_teach() {
    use sys::process::Status;
    use sys::signal::Signal;
    let killed = |peak| Usage { status: Status::Signaled { signal: Signal::KILL, core: false }, ..run(peak) };
    let cases: &[(&str, &[Usage], Option<u64>)] = &[
        ("it rises at once", &[run(Some(100)), run(Some(300))], Some(300)),
        ("it falls slowly", &[run(Some(300)), run(Some(100))], Some(275)),
        ("one that was ended says nothing at first", &[killed(Some(100))], None),
        ("and later only that it may be more", &[run(Some(100)), killed(Some(50))], Some(100)),
        ("", &[run(Some(100)), killed(Some(200))], Some(200)),
        ("what its parent had is the most that it had", &[run(None)], Some(40)),
        ("a parent that grows says nothing", &[run(Some(30)), Usage { floor: 90, ..run(None) }], Some(30)),
        ("but one that had less does", &[run(Some(120)), run(None)], Some(110)),
    ];
    for (what, runs, want) in cases {
        let table = Table::new().expect("memory");
        let locked = table.lock().expect("lock");
        let script = locked.script("a");
        let entry = locked.enter(script, "a", 9).expect("room");
        runs.iter().for_each(|run| locked.learn(entry, *run));
        assert_eq!(locked.expected(script), *want, "{what}");
    }
}

#[test]
fn a_script_of_long_ago_makes_room() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    let busy = locked.script("busy");
    let entry = locked.enter(busy, "a", 9).expect("room");
    for index in 0..SCRIPTS {
        locked.script(&format!("/srv/{index}"));
    }
    assert_eq!(locked.script("busy"), busy);
    let row = locked.script(&format!("/srv/{}", SCRIPTS - 1));
    assert_eq!(locked.described(row, 0, 0).name, format!("/srv/{}", SCRIPTS - 1));
    locked.leave(entry);
}

#[test]
fn a_lock_that_nobody_lets_go_of_is_not_waited_for() {
    let table = Table::new().expect("memory");
    let held = table.lock().expect("lock");
    assert!(table.lock().is_none());
    drop(held);
    assert!(table.lock().is_some());
}

#[test]
fn there_is_an_end_to_it() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    assert!((0..ENTRIES).all(|_| locked.enter(0, "a", 9).is_some()));
    assert_eq!(locked.enter(0, "a", 9), None);
    assert_eq!(locked.script("/srv/last of all"), locked.script("/srv/last of all"));
}

#[test]
fn allowances_are_kept() {
    let table = Table::new().expect("memory");
    assert_eq!(table.lock().expect("lock").allowance(), Allowance::Auto);
    for allowance in [Allowance::Bytes(u64::MAX >> 2), Allowance::Percent(75), Allowance::Unlimited, Allowance::Auto] {
        table.set_allowance(allowance);
        assert_eq!(table.lock().expect("lock").allowance(), allowance);
    }
}

#[test]
fn a_lock_of_the_dead_is_taken() {
    let table = Table::new().expect("memory");
    // No process can have this number.
    table.header(HeaderField::Lock).store(0x7fff_ffff, Relaxed);
    drop(table.lock().expect("lock"));
    assert_eq!(table.header(HeaderField::Lock).load(Relaxed), 0);
}

#[test]
fn a_number_that_was_used_again_is_somebody_else() {
    let table = Table::new().expect("memory");
    let (number, later) = (u64::from(Pid::own().number().unsigned_abs()), 1 << NUMBER_BITS);
    assert!(is_there(own()) && !is_there(own() + later) && !is_there(0));
    // The holder of the lock is gone, and this process now has its number.
    table.header(HeaderField::Lock).store(own() - later, Relaxed);
    let locked = table.lock().expect("the lock of the dead");
    // Entries and their scripts, too, may belong to a process whose number another one has by now.
    let script = locked.script("a");
    let [waits, runs, ended] = [(); 3].map(|()| locked.enter(script, "a", 9).expect("room"));
    for entry in [waits, runs, ended] {
        table.set(entry, EntryField::Holder, own() - later);
    }
    for entry in [runs, ended] {
        locked.admit(entry);
        table.process(entry).store(number, Relaxed);
    }
    let long_ago = sys::process::started(Pid::own()).expect("stat").expect("it runs") - 1000;
    table.set(ended, EntryField::StartedBy, long_ago);
    locked.sweep();
    assert_eq!(locked.jobs(EntryState::Running).0, [runs], "its script runs");
    assert_eq!((locked.waiting(), locked.jobs(EntryState::Waiting).0), (0, vec![]));
}

#[test]
fn a_script_that_was_about_to_end_makes_room_when_it_has() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    let script = locked.script("a");
    let [runs, ended] = [(); 2].map(|()| locked.enter(script, "a", 9).expect("room"));
    let mut child = std::process::Command::new("true").spawn().expect("spawn");
    for (entry, number) in [(runs, std::process::id()), (ended, child.id())] {
        locked.admit(entry);
        table.process(entry).store(number.into(), Relaxed);
    }
    child.wait().expect("it ends");
    assert!(!table.is_any_exiting() && !locked.end_exited(), "nobody has said so");
    table.note_exiting(runs);
    table.note_exiting(ended);
    assert!(table.is_any_exiting() && locked.end_exited());
    assert_eq!(locked.jobs(EntryState::Running).0, [runs]);
    assert!(!locked.end_exited());
}

#[test]
fn an_entry_that_was_abandoned_is_free_once_the_lock_is() {
    let table = Table::new().expect("memory");
    let locked = table.lock().expect("lock");
    let script = locked.script("a");
    let [gone, admitted, stays] = [(); 3].map(|()| locked.enter(script, "a", 9).expect("room"));
    // Their requests end while another process has stopped with the lock; then that goes on.
    table.abandon(gone);
    table.abandon(admitted);
    locked.admit(admitted);
    drop(locked);
    let locked = table.lock().expect("lock");
    assert_eq!(locked.waiting(), 1);
    assert_eq!(locked.jobs(EntryState::Waiting).0, [stays]);
    assert_eq!(locked.jobs(EntryState::Running).0, []);
    let again = [(); 2].map(|()| locked.enter(script, "a", 9).expect("room"));
    assert_eq!((again, locked.waiting()), ([gone, admitted], 3));
    drop(locked);
    assert_eq!(table.lock().expect("lock").waiting(), 3);
}

//! Decides about a pool: how many backends start, and which end. Pure.
//!
//! Backends start when requests wait and too few backends will be free soon: as many at a time as there are processors,
//! since those that have not answered yet are busy with their own start. If backends need a processor while they serve,
//! there are only as many as keep all processors busy.

use std::time::Duration;

use super::class::PoolSettings;
use super::reason::Reason;
use super::throttle::{Failures, ScoreState};

/// The most time a backend needs for its start. After that, its first request is what takes so long, and others need
/// not wait for it.
const BEGINNING: Duration = Duration::from_millis(100);
/// If a request takes longer than this, others need not wait for its backend, even without a processor for one more.
const LONG: Duration = Duration::from_millis(500);
/// The most requests in one lease.
const REQUESTS_PER_LEASE: u64 = 64;

/// How many backends may serve their last requests for each one that there may be. If there are more, the oldest end.
const DRAINING_PER_BACKEND: u64 = 3;

/// What a backend is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Has no request to serve.
    Idle,
    /// Serves a request, or several.
    Busy,
    /// Serves its last requests, of several.
    Draining,
    /// Has an order to end.
    Ending,
}

/// A backend, as the policy sees it. Times count from some fixed moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackendView {
    pub(super) activity: Activity,
    /// When it began to do so.
    pub(super) since: Duration,
    pub(super) born: Duration,
    pub(super) served: u64,
    /// Its program's file has changed.
    pub(super) outdated: bool,
    /// Its memory in bytes, if known.
    pub(super) memory: Option<u64>,
    /// How much more or less memory and life than others it may have, in thousandths.
    pub(super) jitter: i64,
}

/// A pool, as the policy sees it.
#[derive(Clone, Debug)]
pub(super) struct PoolView<'a> {
    pub(super) settings: &'a PoolSettings,
    /// Whether a backend serves several requests at once.
    pub(super) many: bool,
    pub(super) backends: &'a [BackendView],
    /// How many requests wait for a backend.
    pub(super) waiting: usize,
    /// Backends that wait at the gate.
    pub(super) starting: usize,
    /// Backends of all classes that count together.
    pub(super) of_all: u64,
    /// How many may start at once.
    pub(super) processors: usize,
    /// How much of their serving time backends need a processor, in thousandths, if known.
    pub(super) share: Option<u64>,
    pub(super) score: ScoreState,
    pub(super) failures: Failures,
    pub(super) now: Duration,
}

/// What should happen to the backends of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// How many to start.
    pub(super) start: usize,
    /// Which ones end, by their places in the view.
    pub(super) end: Vec<(usize, Reason)>,
    /// When to decide again, unless something happens before.
    pub(super) next_check: Option<Duration>,
}

pub(super) fn decide(view: &PoolView<'_>) -> Decision {
    let PoolView { settings, backends, now, .. } = *view;
    let mut decision = Decision::default();
    let mut next_check =
        |at: Duration| decision.next_check = Some(decision.next_check.map_or(at, |other| other.min(at)));
    let count = |activity| backends.iter().filter(|seen| seen.activity == activity).count() as u64;
    let draining = count(Activity::Draining);
    let mut alive = backends.len() as u64 - count(Activity::Ending) - draining;
    let mut ended_idle = 0;
    // The longest idle first: the last used stays warm.
    let mut idle: Vec<usize> =
        (0..backends.len()).filter(|index| backends[*index].activity == Activity::Idle).collect();
    idle.sort_by_key(|index| backends[*index].since);
    // One that serves several is perhaps never idle.
    let many = (0..backends.len()).filter(|index| view.many && backends[*index].activity == Activity::Busy);
    for index in idle.iter().copied().chain(many) {
        let seen = &backends[index];
        let spread = |value: u64| value.saturating_add_signed((value as i64 / 1000).saturating_mul(seen.jitter));
        let old = settings.lifetime.map(|lifetime| seen.born + lifetime);
        let may_be_unused = seen.activity == Activity::Idle && alive > settings.min.max(settings.keep);
        let unused = settings.idle.map(|idle| seen.since + idle).filter(|_| may_be_unused);
        let reason = match () {
            () if seen.outdated => Some(Reason::Changed),
            () if settings.requests.is_some_and(|requests| seen.served >= requests) => Some(Reason::Requests),
            () if settings.memory.zip(seen.memory).is_some_and(|(most, has)| has > spread(most)) => {
                Some(Reason::Memory)
            }
            // An old one among those that are kept is replaced when it is needed.
            () if old.is_some_and(|at| now >= at) && seen.served > 0 => Some(Reason::Lifetime),
            () if view.waiting == 0 && unused.is_some_and(|at| now >= at) => Some(Reason::Idle),
            () => None,
        };
        match reason {
            Some(reason) => {
                decision.end.push((index, reason));
                alive -= 1;
                ended_idle += usize::from(seen.activity == Activity::Idle);
            }
            None => [old.filter(|_| seen.served > 0), unused].into_iter().flatten().for_each(&mut next_check),
        }
    }
    let free = idle.len() - ended_idle;
    let mut last: Vec<usize> =
        (0..backends.len()).filter(|index| backends[*index].activity == Activity::Draining).collect();
    last.sort_by_key(|index| backends[*index].since);
    let too_many = draining.saturating_sub(settings.max.saturating_mul(DRAINING_PER_BACKEND));
    for (place, index) in last.into_iter().enumerate() {
        match settings.graceful.map(|graceful| backends[index].since + graceful) {
            // Why is known since it serves its last requests.
            _ if (place as u64) < too_many => decision.end.push((index, Reason::Own)),
            Some(at) if now >= at => decision.end.push((index, Reason::Own)),
            Some(at) => next_check(at),
            None => {}
        }
    }
    // Backends that have not answered yet count as free: they soon will be.
    let begins_until = |seen: &&BackendView| {
        Some(seen.born + BEGINNING).filter(|until| seen.activity == Activity::Busy && seen.served == 0 && now < *until)
    };
    let young = backends.iter().filter(|seen| begins_until(seen).is_some()).count();
    if view.waiting > free {
        backends.iter().filter_map(|seen| begins_until(&seen)).for_each(&mut next_check);
    }
    let useful = useful(view);
    if view.waiting > free && useful == 0 {
        let long_at =
            |seen: &BackendView| Some(seen.since + LONG).filter(|at| seen.activity == Activity::Busy && now < *at);
        backends.iter().filter_map(long_at).for_each(&mut next_check);
    }
    let needed = view.waiting.saturating_sub(free).min(view.processors.saturating_sub(young)).min(useful);
    let wanted = (settings.min.saturating_sub(alive) as usize).max(needed).saturating_sub(view.starting);
    // A backend with an order to end counts until it has ended; one that serves its last requests has a successor already.
    let room = settings
        .max
        .saturating_sub(backends.len() as u64 - draining)
        .min(settings.max_of_all.saturating_sub(view.of_all));
    let wanted = wanted.min(usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(view.starting));
    if wanted == 0 {
        return decision;
    }
    let from = starts_from(view);
    match now >= from {
        true => decision.start = wanted.min(affordable(view)),
        false => next_check(from),
    }
    decision
}

/// How many more may be busy before all processors are.
fn useful(view: &PoolView<'_>) -> usize {
    let Some(share) = view.share else { return usize::MAX };
    let soon_free = |seen: &&BackendView| match seen.activity {
        Activity::Idle => true,
        Activity::Busy => view.now < seen.since + LONG,
        Activity::Draining | Activity::Ending => false,
    };
    let most = (view.processors as u64 * 1000).div_ceil(share.max(1));
    usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(view.backends.iter().filter(soon_free).count())
}

/// How many may start now before the score reaches its limit; those about to start already count.
fn affordable(view: &PoolView<'_>) -> usize {
    let Some(limits) = view.settings.score.filter(|limits| limits.start > 0) else { return usize::MAX };
    let score = view.score.points_at(view.now, limits).saturating_add(view.starting as u64 * limits.start);
    usize::try_from(limits.limit.saturating_sub(score).div_ceil(limits.start)).unwrap_or(usize::MAX)
}

/// When the next backend may be started.
fn starts_from(view: &PoolView<'_>) -> Duration {
    let score = view.settings.score.map_or(Duration::ZERO, |score| view.score.allows_start_at(score));
    view.failures.allow_start_at().max(score)
}

/// How many more requests a lease may cover, for a backend that has served this many: not many more than those, so that
/// a young backend is soon weighed, and one that others wait for is soon given back.
pub(super) fn requests_left(settings: &PoolSettings, served: u64) -> u64 {
    match settings.memory {
        // Memory is measured after each request.
        Some(_) => 0,
        None => {
            let left = settings.requests.map_or(u64::MAX, |requests| requests.saturating_sub(served + 1));
            served.min(REQUESTS_PER_LEASE - 1).min(left)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Score;
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn seen(activity: Activity, seconds: u64, served: u64) -> BackendView {
        let since = NOW - Duration::from_secs(seconds);
        BackendView { activity, since, born: since, served, outdated: false, memory: None, jitter: 0 }
    }

    fn view_of<'a>(settings: &'a PoolSettings, backends: &'a [BackendView]) -> PoolView<'a> {
        PoolView {
            settings,
            many: false,
            backends,
            waiting: 0,
            starting: 0,
            of_all: backends.len() as u64,
            processors: 2,
            share: None,
            score: ScoreState::default(),
            failures: Failures::default(),
            now: NOW,
        }
    }

    fn decision_for(settings: &PoolSettings, backends: &[BackendView], waiting: usize, starting: usize) -> Decision {
        decide(&PoolView { waiting, starting, ..view_of(settings, backends) })
    }

    #[test]
    fn one_that_serves_several_ends_while_it_is_busy() {
        let graceful = Some(Duration::from_secs(15));
        let settings = PoolSettings { max: 1, requests: Some(9), graceful, ..PoolSettings::default() };
        let full = seen(Activity::Busy, 1, 9);
        let of = |backends: &[BackendView], waiting| {
            let decision = decide(&PoolView { many: true, waiting, ..view_of(&settings, backends) });
            (decision.start, decision.end)
        };
        assert_eq!(decision_for(&settings, &[full], 1, 0).end, [], "it serves one, and is idle soon");
        assert_eq!(of(&[seen(Activity::Busy, 1, 8)], 1), (0, vec![]));
        assert_eq!(of(&[full], 1), (0, vec![(0, Reason::Requests)]));
        let draining = |seconds| seen(Activity::Draining, seconds, 9);
        assert_eq!(of(&[draining(1)], 1), (1, vec![]), "its successor does not wait for it");
        assert_eq!(of(&[draining(1), draining(2), draining(3)], 1), (1, vec![]), "even if others change soon after");
        let four = [draining(1), draining(2), draining(4), draining(3)];
        assert_eq!(of(&four, 1), (1, vec![(2, Reason::Own)]), "but there are not more and more of them");
        assert_eq!(of(&[draining(15)], 0), (0, vec![(0, Reason::Own)]));
        assert_eq!(of(&[draining(1), full], 0), (0, vec![(1, Reason::Requests)]));
    }

    #[test]
    fn as_many_start_as_are_needed_and_processors_bear() {
        let settings = PoolSettings::default();
        let busy = seen(Activity::Busy, 1, 9);
        let young = seen(Activity::Busy, 0, 0);
        let slow = seen(Activity::Busy, 1, 0);
        let just_slow = BackendView { born: NOW - BEGINNING, ..slow };
        let idle = seen(Activity::Idle, 1, 9);
        let outdated = BackendView { outdated: true, ..idle };
        for (backends, waiting, starting, want) in [
            (&[][..], 0, 0, 0),
            (&[], 1, 0, 1),
            (&[], 9, 0, 2),
            (&[], 9, 1, 1),
            (&[], 9, 2, 0),
            (&[busy], 9, 0, 2),
            (&[young], 9, 0, 1),
            (&[young, young], 9, 0, 0),
            (&[slow, slow], 9, 0, 2),
            (&[just_slow, young], 9, 0, 1),
            (&[idle], 1, 0, 0),
            (&[outdated], 1, 0, 1),
            (&[busy, busy, busy], 9, 0, 1),
            (&[busy, busy, busy, busy], 9, 0, 0),
        ] {
            assert_eq!(
                decision_for(&settings, backends, waiting, starting).start,
                want,
                "{backends:?} {waiting} {starting}"
            );
        }
    }

    #[test]
    fn no_more_start_than_have_a_processor() {
        let settings = PoolSettings { max: 99, ..PoolSettings::default() };
        let recent =
            |served| BackendView { since: NOW - Duration::from_millis(200), ..seen(Activity::Busy, 9, served) };
        let (short, long) = (recent(9), seen(Activity::Busy, 1, 9));
        let just_long = BackendView { since: NOW - LONG, ..long };
        for (share, backends, want) in [
            (None, &[short, short][..], 2),
            (Some(1000), &[short], 1),
            (Some(1000), &[short, short], 0),
            (Some(1000), &[recent(0), recent(0)], 0),
            (Some(700), &[short, short], 1),
            (Some(700), &[short, short, short], 0),
            (Some(10), &[short, short, short], 2),
            (Some(1000), &[short, long], 1),
            (Some(1000), &[short, just_long], 1),
            (Some(1000), &[long, long], 2),
            (Some(1000), &[long, long, short, short], 0),
        ] {
            let view = PoolView { waiting: 9, share, ..view_of(&settings, backends) };
            assert_eq!(decide(&view).start, want, "{share:?} {backends:?}");
        }
        let busy = [short, short];
        let decision = decide(&PoolView { waiting: 9, share: Some(1000), ..view_of(&settings, &busy) });
        assert_eq!(decision.next_check, Some(short.since + LONG), "their requests may be long ones");
        let settings = PoolSettings { idle: None, ..settings };
        let next_check = |share, waiting, backends: &[BackendView]| {
            decide(&PoolView { waiting, share: Some(share), ..view_of(&settings, backends) }).next_check
        };
        assert_eq!(next_check(1000, 9, &[short, short, just_long]), Some(short.since + LONG), "one is long already");
        let idle = BackendView { activity: Activity::Idle, since: short.since - Duration::from_millis(100), ..short };
        assert_eq!(next_check(1000, 2, &[idle, short]), Some(short.since + LONG), "an idle one has no request");
        assert_eq!(next_check(1000, 1, &[idle, short]), None, "nobody needs another one");
        assert_eq!(next_check(10, 9, &[short, short]), None, "the processors have time, whatever those two do");
        let decision = decide(&PoolView { share: Some(1000), ..view_of(&PoolSettings { min: 5, ..settings }, &busy) });
        assert_eq!(decision.start, 3, "a minimum is a minimum");
    }

    #[test]
    fn a_minimum_is_kept_and_a_maximum_of_all() {
        let settings = PoolSettings { min: 3, max: 9, max_of_all: 2, ..PoolSettings::default() };
        assert_eq!(decision_for(&settings, &[], 0, 0).start, 2);
        assert_eq!(decision_for(&PoolSettings { max_of_all: 9, ..settings }, &[], 0, 0).start, 3);
        assert_eq!(decision_for(&PoolSettings { max_of_all: 9, ..settings }, &[], 0, 3).start, 0);
        let old = [seen(Activity::Idle, 999, 1); 4];
        let decision = decision_for(&PoolSettings { max_of_all: 9, ..settings }, &old, 0, 0);
        assert_eq!(decision.end, [(0, Reason::Idle)], "down to the minimum");
        let kept = PoolSettings { min: 0, keep: 3, max_of_all: 9, ..settings };
        assert_eq!(decision_for(&kept, &[], 0, 0).start, 0, "nobody needs them yet");
        assert_eq!(decision_for(&kept, &old, 0, 0).end, [(0, Reason::Idle)], "down to what is kept");
    }

    #[test]
    fn how_long_a_child_may_keep_a_backend() {
        let settings = PoolSettings::default();
        let limited = PoolSettings { requests: Some(10), ..settings };
        for (settings, served, want) in [
            (settings, 0, 0),
            (settings, 1, 1),
            (settings, 1_000_000, REQUESTS_PER_LEASE - 1),
            (limited, 4, 4),
            (limited, 7, 2),
            (limited, 9, 0),
            (limited, 10, 0),
            (PoolSettings { memory: Some(1), ..settings }, 100, 0),
        ] {
            assert_eq!(requests_left(&settings, served), want, "{served}");
        }
    }

    #[test]
    fn why_backends_end() {
        let ends = |settings: PoolSettings, seen: BackendView| {
            decision_for(&settings, &[seen], 0, 0).end.first().map(|end| end.1)
        };
        let settings = PoolSettings { idle: None, ..PoolSettings::default() };
        let idle = seen(Activity::Idle, 100, 10);
        assert_eq!(ends(settings, idle), None);
        assert_eq!(ends(PoolSettings { requests: Some(10), ..settings }, idle), Some(Reason::Requests));
        assert_eq!(ends(PoolSettings { requests: Some(11), ..settings }, idle), None);
        assert_eq!(ends(settings, BackendView { outdated: true, ..idle }), Some(Reason::Changed));
        let hundred = Some(Duration::from_secs(100));
        assert_eq!(ends(PoolSettings { lifetime: hundred, ..settings }, idle), Some(Reason::Lifetime));
        let longer = PoolSettings { lifetime: Some(Duration::from_secs(101)), ..settings };
        assert_eq!(ends(longer, idle), None, "it is not that old");
        assert_eq!(ends(PoolSettings { lifetime: hundred, ..settings }, seen(Activity::Idle, 200, 0)), None, "unused");
        assert_eq!(ends(PoolSettings { idle: hundred, ..settings }, idle), Some(Reason::Idle));
        assert_eq!(
            ends(PoolSettings { lifetime: hundred, ..settings }, seen(Activity::Busy, 200, 1)),
            None,
            "it serves"
        );
        let memory = PoolSettings { memory: Some(100_000), ..settings };
        let grown = |memory, jitter| BackendView { memory: Some(memory), jitter, ..idle };
        assert_eq!(ends(memory, grown(100_000, 0)), None);
        assert_eq!(ends(memory, grown(100_001, 0)), Some(Reason::Memory));
        assert_eq!(ends(memory, grown(110_000, 100)), None);
        assert_eq!(ends(memory, grown(110_001, 100)), Some(Reason::Memory));
        assert_eq!(ends(memory, grown(95_000, -100)), Some(Reason::Memory));
    }

    #[test]
    fn it_is_looked_at_again_in_time() {
        let settings = PoolSettings { idle: Some(Duration::from_secs(30)), ..PoolSettings::default() };
        assert_eq!(
            decision_for(&settings, &[seen(Activity::Idle, 10, 1)], 0, 0).next_check,
            Some(NOW + Duration::from_secs(20))
        );
        assert_eq!(decision_for(&settings, &[seen(Activity::Busy, 10, 1)], 0, 0).next_check, None);
        let settings = PoolSettings { idle: None, lifetime: Some(Duration::from_secs(30)), ..settings };
        let of_age = |served| decision_for(&settings, &[seen(Activity::Idle, 10, served)], 0, 0).next_check;
        assert_eq!((of_age(0), of_age(1)), (None, Some(NOW + Duration::from_secs(20))), "one that was used gets old");
        let young = [seen(Activity::Busy, 0, 0); 2];
        assert_eq!(
            decision_for(&settings, &young, 1, 0).next_check,
            Some(NOW + BEGINNING),
            "somebody waits for its beginning"
        );
        assert_eq!(decision_for(&settings, &young, 0, 0).next_check, None);
    }

    #[test]
    fn starts_are_limited_by_a_score_and_by_failures() {
        let score = Score { start: 1, end: 2, second: 1, limit: 10 };
        let settings = PoolSettings { score: Some(score), ..PoolSettings::default() };
        let view = |score, failures| PoolView {
            many: false,
            settings: &settings,
            backends: &[],
            waiting: 1,
            starting: 0,
            of_all: 0,
            processors: 2,
            share: None,
            score,
            failures,
            now: NOW,
        };
        let (none, no_score) = (Failures::default(), ScoreState::default());
        let points = |points: u64, at: Duration| {
            let mut state = no_score;
            state.add(points, at, score);
            state
        };
        assert_eq!(decide(&view(points(9, NOW), none)).start, 1);
        let costly = PoolSettings { score: Some(Score { start: 9, ..score }), min: 5, ..PoolSettings::default() };
        for (starting, start) in [(0, 2), (1, 1), (2, 0)] {
            let view = PoolView { settings: &costly, starting, ..view(no_score, none) };
            assert_eq!(decide(&view).start, start, "{starting} about to be started");
        }
        let free = PoolSettings { score: Some(Score { start: 0, ..score }), min: 5, ..PoolSettings::default() };
        assert_eq!(
            decide(&PoolView { settings: &free, ..view(points(9, NOW), none) }).start,
            4,
            "only the maximum limits them"
        );
        let blocked = decide(&view(points(10, NOW), none));
        assert_eq!((blocked.start, blocked.next_check), (0, Some(NOW + Duration::from_secs(1))));
        assert_eq!(decide(&view(points(12, NOW - Duration::from_secs(3)), none)).start, 1);
        let mut failures = none;
        failures.add(NOW);
        let failed = decide(&view(no_score, failures));
        assert_eq!((failed.start, failed.next_check), (0, Some(failures.allow_start_at())));
    }
}

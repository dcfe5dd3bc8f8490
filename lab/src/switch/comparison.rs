//! Asks both servers all requests, and finds what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::answer::{Asker, Fault};
use super::ask::{Ask, Sample, Source};
use super::difference::{Difference, Told, What, around_difference, differences, leave_out_what_varies, short};
use super::endpoints::Endpoints;
use super::explain::{Explainer, Explanation};
use super::findings::{Count, Example, Findings};
use super::meant::{self, Case};
use super::pair::{Pair, Side};
use super::private::Writer;
use super::reduce::reduced;
use super::sites::Sites;
use crate::machine::error::Result;
use crate::machine::interrupt;
use crate::screen::progress;

/// Pages show the time to a second: a second answer that comes later than this shows whether it does.
const SECOND: Duration = Duration::from_millis(1100);

/// Statuses that depend on fields which logs do not have: conditions and ranges.
const CONDITIONAL: [u16; 4] = [206, 304, 412, 416];

/// How many requests that differ are asked again at once, a second later.
const ASKED_AGAIN: usize = 64;

/// The most bytes of their bodies.
const KEPT_MAX: usize = 256 * 1024 * 1024;

/// How often a script is asked again, as long as its answers differ.
const SCRIPTS_ASKED: usize = 5;

/// The same for other pages.
const PAGES_ASKED: usize = 2;

/// How many findings are reduced.
const REDUCED_MAX: usize = 50;

/// The most lines of access logs that are compared, so that their memory is bounded.
const LINES_MAX: usize = 2_000_000;

/// How many answers below one path may come too late, before nothing more is asked there: each costs the whole time that a server
/// has.
const LATE_MAX: u32 = 5;

/// How to compare.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) sites: &'a Sites,
    /// How long a server may take to answer.
    pub(crate) patience: Duration,
}

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) findings: Findings,
    /// What Apache itself answers differently when it is asked twice, and how many requests have that.
    pub(crate) varying: BTreeMap<What, u64>,
    /// Lines of access logs that were compared.
    pub(crate) lines: u64,
    /// Access logs whose lines cannot be told apart.
    pub(crate) unread: Vec<String>,
    /// Requests that Apache answers with another status here than its log has, and one of them.
    pub(crate) otherwise: Count,
    pub(crate) example: Option<String>,
    /// How late a request was sent at most, if requests were due.
    pub(crate) latest: Duration,
    /// Paths below which nothing more was asked, since answers there came too late, and the requests that were not sent.
    pub(crate) given_up: BTreeMap<String, Count>,
    /// How many answers came too late, by site and path.
    late: BTreeMap<(usize, String), u32>,
    /// The numbers of requests whose answers differ, or vary: their lines do, too.
    differing: BTreeSet<usize>,
}

/// A request to ask, with its explanation.
pub(crate) type Explained = (Sample, Rc<Explanation>);

/// The first answers to a request that differ.
struct Doubtful<'s> {
    number: usize,
    sample: &'s Explained,
    apache: Told,
    tsubame: Told,
}

impl Comparison<'_> {
    /// Asks all of them. Ends both servers, because their logs are complete only then.
    pub(crate) fn run(&self, pair: &mut Pair, samples: &[Explained], explainer: &mut Explainer) -> Result<Compared> {
        let mut compared = Compared::default();
        let mut askers = [Asker::new(self.patience), Asker::new(self.patience)];
        // On connections of its own, or those of the first time would have carried another number of requests.
        let mut again = Asker::new(self.patience);
        let bar = progress::bar(samples.len());
        progress::announce(&bar, &format!("asking {} requests", samples.len()));
        let mut doubtful = Vec::new();
        let began = Instant::now();
        for (number, sample) in samples.iter().enumerate() {
            interrupt::check()?;
            let place = (sample.0.ask.site, first_part(&sample.0.ask));
            if compared.late.get(&place).is_some_and(|late| *late >= LATE_MAX) {
                compared.given_up.entry(place.1).or_default().add(sample.0.weight);
                bar.inc(1);
                continue;
            }
            if let Some(due) = sample.0.due {
                compared.latest = compared.latest.max(wait_until(began, due)?);
            }
            let [apache, tsubame] = self.ask(pair, &mut askers, sample, Some(number));
            for (side, told) in pair.sides.iter().zip([&apache, &tsubame]) {
                if told.answer.fault == Some(Fault::NoConnection) {
                    side.check_alive()?;
                }
            }
            if [&apache, &tsubame].iter().any(|told| told.answer.fault == Some(Fault::Late)) {
                *compared.late.entry(place).or_default() += 1;
            }
            compared.findings.asked.add(sample.0.weight);
            if let Source::Log { status: Some(logged), .. } = sample.0.source
                && logged != apache.answer.status
                && !CONDITIONAL.contains(&logged)
            {
                compared.otherwise.add(sample.0.weight);
                let now = apache.answer.status;
                compared.example.get_or_insert_with(|| format!("{}: {logged} then, {now} here", sample.0.ask.shown()));
            }
            if differences(&sample.0.ask.method, &apache, &tsubame).is_empty() {
                compared.findings.same.add(sample.0.weight);
            } else {
                doubtful.push(Doubtful { number, sample, apache, tsubame });
            }
            let kept: usize = doubtful.iter().map(|one| one.apache.size() + one.tsubame.size()).sum();
            if doubtful.len() >= ASKED_AGAIN || kept > KEPT_MAX {
                self.ask_again(pair, &mut again, std::mem::take(&mut doubtful), &mut compared)?;
            }
            bar.inc(1);
        }
        self.ask_again(pair, &mut again, doubtful, &mut compared)?;
        bar.finish_and_clear();
        self.reduce(pair, &mut compared.findings, explainer)?;
        drop((askers, again));
        pair.stop();
        self.compare_logs(pair, samples, &mut compared);
        Ok(compared)
    }

    fn ask(&self, pair: &Pair, askers: &mut [Asker; 2], sample: &Explained, number: Option<usize>) -> [Told; 2] {
        let ask = &sample.0.ask;
        // Both connections have carried the same number of requests, always: a limit on them ends both at the same time.
        let ready = [0, 1].map(|at| askers[at].has_connection(ask, pair.sides[at].socket(self.endpoints, ask)));
        if ready[0] != ready[1] {
            askers.iter_mut().for_each(Asker::close_all);
        }
        let [apache, tsubame] = askers;
        let told = [
            pair.sides[0].ask(apache, self.endpoints, ask, number),
            pair.sides[1].ask(tsubame, self.endpoints, ask, number),
        ];
        if told[0].answer.keeps != told[1].answer.keeps {
            askers.iter_mut().for_each(Asker::close_all);
        }
        told
    }

    /// Asks the second Apache what the first one answered differently than Tsubame: what both Apaches have differently is the
    /// work of time, of chance, or of the process that answers.
    fn ask_again(
        &self,
        pair: &Pair,
        asker: &mut Asker,
        doubtful: Vec<Doubtful<'_>>,
        compared: &mut Compared,
    ) -> Result<()> {
        if doubtful.is_empty() {
            return Ok(());
        }
        sleep(SECOND);
        for Doubtful { number, sample, mut apache, mut tsubame } in doubtful {
            let Some(twin) = &pair.twin else { continue };
            let mut varying = BTreeSet::new();
            let mut different = Vec::new();
            // A script that mixes two lines by chance mixes them alike half of the time.
            let times = match (apache.answer.fault, tsubame.answer.fault) {
                // Nothing came, and nothing can be left out of that.
                (Some(one), Some(other)) if one == other => 1,
                _ if sample.1.runs => SCRIPTS_ASKED,
                _ => PAGES_ASKED,
            };
            for _ in 0..times {
                interrupt::check()?;
                let again = twin.ask(asker, self.endpoints, &sample.0.ask, Some(number));
                varying.extend(leave_out_what_varies(&mut apache, &again, &mut tsubame));
                different = differences(&sample.0.ask.method, &apache, &tsubame);
                if different.is_empty() {
                    break;
                }
            }
            if different.iter().any(|difference| difference.what == What::Persistence) {
                // The limit of requests of a connection may have ended one: on new ones the request alone decides.
                let mut askers = [Asker::new(self.patience), Asker::new(self.patience)];
                let [apache, tsubame] = self.ask(pair, &mut askers, sample, None);
                if apache.answer.keeps == tsubame.answer.keeps {
                    different.retain(|difference| difference.what != What::Persistence);
                }
            }
            if !varying.is_empty() {
                compared.differing.insert(number);
            }
            for what in varying {
                *compared.varying.entry(what).or_default() += 1;
            }
            let differences = different;
            if differences.is_empty() {
                compared.findings.same.add(sample.0.weight);
                continue;
            }
            compared.differing.insert(number);
            let (ask, source) = (sample.0.ask.clone(), sample.0.source.clone());
            let example = Example { ask, source, apache, tsubame, differences, errors: Default::default() };
            compared.findings.add(&sample.0, &sample.1, example);
        }
        Ok(())
    }

    /// Finds the smallest request for each unexplained finding, and what both servers write into their error logs about it. What
    /// runs scripts is left as it is.
    fn reduce(&self, pair: &Pair, findings: &mut Findings, explainer: &mut Explainer) -> Result<()> {
        let mut askers = [Asker::new(self.patience), Asker::new(self.patience)];
        let unexplained = findings.unexplained().filter(|finding| !finding.explanation.runs);
        for example in unexplained.take(REDUCED_MAX).filter_map(|finding| finding.examples.first_mut()) {
            let mut ask_both = |ask: &Ask| {
                let mut side = |at: usize| pair.sides[at].ask(&mut askers[at], self.endpoints, ask, None);
                [side(0), side(1)]
            };
            let whats: Vec<What> = example.differences.iter().map(|difference| difference.what.clone()).collect();
            let shows = |ask: &Ask| {
                if interrupt::is_asked() {
                    return false;
                }
                // A smaller request may be about something else: a script, for one.
                let explanation = explainer.explain(ask, self.endpoints).ok();
                let Some(explanation) = explanation.filter(|explanation| !explanation.runs) else { return false };
                let [apache, tsubame] = ask_both(ask);
                let found = differences(&ask.method, &apache, &tsubame);
                let is_meant = |difference: &Difference| {
                    let case = Case { ask, difference, apache: &apache, tsubame: &tsubame, explanation: &explanation };
                    meant::entry(&case).is_some()
                };
                !found.iter().any(is_meant)
                    && found.iter().map(|difference| difference.what.clone()).collect::<Vec<_>>() == whats
            };
            let small = reduced(&example.ask, shows);
            interrupt::check()?;
            let before = pair.sides.each_ref().map(Side::errors_length);
            let [apache, tsubame] = ask_both(&small);
            let differences = differences(&small.method, &apache, &tsubame);
            if differences.iter().map(|difference| &difference.what).eq(&whats) {
                (example.ask, example.apache, example.tsubame, example.differences) =
                    (small, apache, tsubame, differences);
            }
            example.errors = [0, 1].map(|at| pair.sides[at].errors_from(before[at]));
        }
        Ok(())
    }

    /// Compares what both wrote into each access log about each request.
    fn compare_logs(&self, pair: &Pair, samples: &[Explained], compared: &mut Compared) {
        let logs = self.sites.all().iter().flat_map(|site| &site.logs);
        for log in logs {
            let [apache, tsubame] = pair.sides.each_ref().map(|side| lines(side, log.number));
            let has_lines = |side: &Side| {
                Writer::access_log(&side.directory, log.number).metadata().is_ok_and(|meta| meta.len() > 0)
            };
            if apache.is_empty() && tsubame.is_empty() && pair.sides.iter().any(has_lines) {
                compared.unread.push(log.origin.to_string());
            }
            for (number, (sample, explanation)) in samples.iter().enumerate() {
                let (theirs, ours) = (apache.get(&number), tsubame.get(&number));
                compared.lines += u64::from(theirs.is_some());
                if theirs == ours || compared.differing.contains(&number) {
                    continue;
                }
                let (apache, tsubame) = match (theirs, ours) {
                    (Some(theirs), Some(ours)) => around_difference(theirs, ours),
                    _ => {
                        [theirs, ours].map(|line| line.map_or_else(|| "no line".to_owned(), |line| short(line))).into()
                    }
                };
                let difference = Difference { what: What::AccessLog, apache, tsubame };
                let (ask, source) = (sample.ask.clone(), sample.source.clone());
                let example = Example {
                    ask,
                    source,
                    apache: Told::default(),
                    tsubame: Told::default(),
                    differences: vec![difference],
                    errors: Default::default(),
                };
                compared.findings.add(sample, explanation, example);
            }
        }
    }
}

/// The host of a request, and the first part of its path: `www.example.org/a` of `/a/b`.
fn first_part(ask: &Ask) -> String {
    let path = String::from_utf8_lossy(&ask.target);
    let path = path.split('?').next().unwrap_or_default();
    let end = path.match_indices('/').nth(1).map_or(path.len(), |(at, _)| at);
    format!("{}{}", ask.host.as_deref().unwrap_or_default(), &path[..end])
}

/// Waits until a request is due, and returns how late it is.
fn wait_until(began: Instant, due: Duration) -> Result<Duration> {
    const LOOK: Duration = Duration::from_millis(100);
    loop {
        interrupt::check()?;
        let left = due.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        sleep(left.min(LOOK));
    }
    Ok(began.elapsed().saturating_sub(due))
}

/// The lines of an access log, by the number of the request.
fn lines(side: &Side, number: usize) -> BTreeMap<usize, String> {
    let path = Writer::access_log(&side.directory, number);
    let read = |path: &Path| std::fs::read(path).unwrap_or_default();
    let text = read(&path);
    let lines = text.split(|byte| *byte == b'\n').take(LINES_MAX).filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (number, rest) = line.split_once(' ')?;
        Some((number.parse().ok()?, side.neutral(rest)))
    });
    lines.collect()
}

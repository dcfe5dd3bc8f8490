//! What is compared: each family's statuses, sizes and durations, and what came or went.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::families::Family;
use super::reading::Read;
use super::statistics::{ASSUMED_DISPERSION, Evidence, Moments, Share, holm, median};

/// A difference that chance would make in less than this share of all such runs is a finding.
const ALPHA: f64 = 0.01;

/// The fewest requests of a family, after and before, that are compared.
const AFTER_MIN: u64 = 10;
const BEFORE_MIN: u64 = 20;

/// A status that occurs less often in all windows together cannot differ beyond chance.
const PART_MIN: u64 = 4;

/// With fewer days it does not show how days vary.
pub(super) const DAYS_MIN: usize = 3;

/// A share that differs by less is of no interest, unless there are server errors.
const SHARE_MIN: f64 = 0.002;

/// The logarithm of the least factor between sizes, and between durations, that is of interest.
const FACTOR_MIN: f64 = 0.095;

/// With fewer families, what all of them do together is that of a few.
const FAMILIES_MIN: usize = 5;

/// The standard deviation of logarithms that is assumed where all values are alike.
const ALIKE: f64 = 0.02;

/// What a comparison is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// All requests, but those of families that came or went.
    All,
    /// A host.
    Host(String),
    /// A family, by its index.
    Family(usize),
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The share of a status.
    Status(u16),
    /// The share of statuses that begin with this digit.
    Class(u16),
    /// The share of the errors of a new family among all requests, by the first digit of the status.
    NewErrors(u16),
    /// How long requests take, beyond what all families together do.
    Duration,
    /// How long the requests of all families take, as a factor.
    Pace,
    /// The share of requests that take a second or more.
    Slow,
    /// The length of bodies with status 200.
    Size,
    /// Whether there still are requests.
    Gone,
    /// The share of a host that did not occur before among all requests.
    NewHost,
    /// The share of a method among all requests.
    Method(String),
}

/// What has a usual variation between days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Yardstick {
    ServerErrors,
    ClientErrors,
    Shares,
    Slow,
    Durations,
    Sizes,
    Traffic,
}

/// Values before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Values {
    /// Of all days together.
    pub(super) before: f64,
    /// Of single days.
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) after: f64,
}

impl Values {
    /// Those of each day.
    pub(super) fn of(days: impl Iterator<Item = f64>, before: f64, after: f64) -> Self {
        let (least, most) = days.fold((f64::MAX, f64::MIN), |(least, most), day| (least.min(day), most.max(day)));
        Self { before, least, most, after }
    }
}

/// A difference beyond chance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) scope: Scope,
    pub(super) kind: Kind,
    pub(super) values: Values,
    /// The probability that chance alone makes any difference like this, in all that was compared.
    pub(super) chance: f64,
}

impl Difference {
    /// Whether it is more than before.
    pub(super) fn is_more(&self) -> bool {
        self.values.after > self.values.before
    }
}

/// A comparison.
#[derive(Debug)]
struct Comparison {
    scope: Scope,
    kind: Kind,
    values: Values,
    evidence: Evidence,
}

/// A share of all doubt, and which comparisons it is about.
type Doubt = (f64, fn(&Comparison) -> bool);

/// Which share of all doubt is about which comparisons. Server errors are few and the worst, and what is about all requests
/// must not have to stand out among hundreds of families.
const DOUBTS: [Doubt; 3] = [
    (0.5, |one| one.kind.is_server_error()),
    (0.25, |one| one.scope == Scope::All && !one.kind.is_server_error()),
    (0.25, |one| one.scope != Scope::All && !one.kind.is_server_error()),
];

/// All comparisons.
#[derive(Debug)]
pub(super) struct Comparisons<'r> {
    read: &'r Read,
    /// How much longer all families take in the window after and on each day before: a factor's logarithm.
    paces: Option<(f64, Vec<f64>)>,
    made: Vec<Comparison>,
}

/// Compares everything; the differences beyond chance, and how many comparisons there were.
pub(super) fn differences(read: &Read) -> (Vec<Difference>, usize) {
    let mut all = Comparisons { read, paces: None, made: Vec::new() };
    all.pace();
    for (index, family) in read.families.iter().enumerate() {
        all.family(index, family);
    }
    all.hosts();
    all.everything();
    all.methods();
    (all.beyond_chance(), all.made.len())
}

impl Kind {
    /// What varies in the same way from day to day.
    fn yardstick(&self) -> Yardstick {
        match self {
            kind if kind.is_server_error() => Yardstick::ServerErrors,
            Self::Status(400..) | Self::Class(4) | Self::NewErrors(_) => Yardstick::ClientErrors,
            Self::Status(_) | Self::Class(_) | Self::NewHost | Self::Method(_) => Yardstick::Shares,
            Self::Slow => Yardstick::Slow,
            Self::Duration | Self::Pace => Yardstick::Durations,
            Self::Size => Yardstick::Sizes,
            Self::Gone => Yardstick::Traffic,
        }
    }

    /// Whether it is about errors of the server.
    fn is_server_error(&self) -> bool {
        matches!(self, Self::Status(500..) | Self::Class(5) | Self::NewErrors(5))
    }
}

impl Comparison {
    /// That chance makes such a difference. What is common to all requests on a day shows more in all of them than in a
    /// family, so the variation of families is no support there.
    fn probability(&self, usual: &BTreeMap<Yardstick, f64>) -> f64 {
        let usual = usual.get(&self.kind.yardstick()).copied();
        let is_alone = self.scope == Scope::All && self.evidence.dispersion.is_some();
        self.evidence.probability(usual.filter(|_| !is_alone))
    }

    /// Whether the difference is large enough to be told, if it is one.
    fn matters(&self) -> bool {
        let Values { before, after, .. } = self.values;
        match self.kind {
            Kind::Duration | Kind::Size => (after.ln_1p() - before.ln_1p()).abs() >= FACTOR_MIN,
            Kind::Pace => after.ln().abs() >= FACTOR_MIN,
            Kind::Gone => after == 0.0,
            _ => self.kind.is_server_error() || (after - before).abs() >= SHARE_MIN || before == 0.0,
        }
    }
}

impl<'r> Comparisons<'r> {
    /// The window after, and those before, of what `pick` takes from a cell.
    fn days<T>(&self, family: &'r Family, pick: impl Fn(&Cell) -> T) -> (T, Vec<T>) {
        let days = self.read.days.numbers.iter().map(|day| pick(family.counts.cell(*day)));
        let days = days.collect();
        (pick(family.counts.cell(0)), days)
    }

    /// The same, of several families together.
    fn sum(&self, families: &[&'r Family], pick: impl Fn(&Cell) -> Share) -> (Share, Vec<Share>) {
        let mut sum = (Share::default(), vec![Share::default(); self.read.days.numbers.len()]);
        for family in families {
            let (after, days) = self.days(family, &pick);
            sum.0 = sum.0.and(after);
            sum.1.iter_mut().zip(days).for_each(|(sum, day)| *sum = sum.and(day));
        }
        sum
    }

    /// The windows that are compared.
    fn windows(&self) -> Vec<usize> {
        [0].into_iter().chain(self.read.days.numbers.iter().copied()).collect()
    }

    fn family(&mut self, index: usize, family: &'r Family) {
        let scope = Scope::Family(index);
        let before = family.counts.requests(&self.read.days.numbers);
        let after = family.counts.cell(0).requests;
        if before < BEFORE_MIN {
            if after >= AFTER_MIN {
                self.new_family(index, family);
            }
            return;
        }
        let (gone, days) = self.days(family, |cell| cell.requests);
        self.absence(scope.clone(), gone, &days);
        if after < AFTER_MIN {
            return;
        }
        self.statuses(&scope, &[family], |_| true);
        let (after, days) = self.days(family, |cell| cell.sizes);
        self.mean(scope.clone(), Kind::Size, after, &days, None);
        if self.read.has_fine_durations == Some(true) {
            let (after, days) = self.days(family, |cell| cell.durations);
            let paces = self.paces.clone();
            self.mean(scope.clone(), Kind::Duration, after, &days, paces);
        }
        let (after, days) = self.days(family, Cell::slow);
        self.share(scope, Kind::Slow, after, &days);
    }

    /// Each status, and each class of several statuses.
    fn statuses(&mut self, scope: &Scope, families: &[&'r Family], is_meant: impl Fn(u16) -> bool) {
        let windows = self.windows();
        let mut all: Vec<u16> = families.iter().flat_map(|family| family.counts.statuses(&windows)).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|status| is_meant(*status));
        for status in &all {
            let (after, days) = self.sum(families, |cell| cell.share(|one| one == *status));
            self.share(scope.clone(), Kind::Status(*status), after, &days);
        }
        for class in all.chunk_by(|one, other| one / 100 == other / 100).filter(|class| class.len() > 1) {
            let class = class[0] / 100;
            let (after, days) = self.sum(families, |cell| cell.share(|one| one / 100 == class));
            self.share(scope.clone(), Kind::Class(class), after, &days);
        }
    }

    /// A family that hardly anybody asked for before: its errors are compared with all requests.
    fn new_family(&mut self, index: usize, family: &'r Family) {
        let (all_after, all_days) = self.all_requests();
        for class in [4, 5] {
            let (after, days) = self.days(family, |cell| cell.share(|status| status / 100 == class).part);
            let days: Vec<Share> =
                days.into_iter().zip(&all_days).map(|(part, all)| Share { part, all: *all }).collect();
            let after = Share { part: after, all: all_after };
            self.share(Scope::Family(index), Kind::NewErrors(class), after, &days);
        }
    }

    /// All requests of each window.
    fn all_requests(&self) -> (u64, Vec<u64>) {
        let of = |day: usize| self.read.families.iter().map(|family| family.counts.cell(day).requests).sum();
        (of(0), self.read.days.numbers.iter().map(|day| of(*day)).collect())
    }

    /// Hosts that came or went.
    fn hosts(&mut self) {
        let mut hosts: BTreeMap<&str, Vec<&Family>> = BTreeMap::new();
        for family in self.read.families.iter().filter(|family| !family.host.is_empty()) {
            hosts.entry(&family.host).or_default().push(family);
        }
        let (all_after, all_days) = self.all_requests();
        for (host, families) in hosts {
            let scope = Scope::Host(host.to_owned());
            let (after, days) = self.sum(&families, |cell| Share { part: cell.requests, all: cell.requests });
            let counts: Vec<u64> = days.iter().map(|day| day.part).collect();
            if counts.iter().sum::<u64>() >= BEFORE_MIN {
                self.absence(scope, after.part, &counts);
            } else if after.part >= AFTER_MIN {
                let of_all = |(part, all): (&u64, &u64)| Share { part: *part, all: *all };
                let days: Vec<Share> = counts.iter().zip(&all_days).map(of_all).collect();
                self.share(scope, Kind::NewHost, Share { part: after.part, all: all_after }, &days);
            }
        }
    }

    /// The errors of all requests together.
    fn everything(&mut self) {
        let is_on_both_sides = |family: &&Family| {
            family.counts.cell(0).requests > 0 && family.counts.requests(&self.read.days.numbers) > 0
        };
        let families: Vec<&Family> = self.read.families.iter().filter(is_on_both_sides).collect();
        self.statuses(&Scope::All, &families, |status| status >= 400);
    }

    fn methods(&mut self) {
        let (all_after, all_days) = self.all_requests();
        for (method, counts) in &self.read.methods {
            let of = |day: usize, all: u64| Share { part: counts.get(day).copied().unwrap_or_default().min(all), all };
            let days: Vec<Share> =
                self.read.days.numbers.iter().zip(&all_days).map(|(day, all)| of(*day, *all)).collect();
            if !self.read.methods_before.contains(method) {
                self.share(Scope::All, Kind::Method(method.clone()), of(0, all_after), &days);
            }
        }
    }

    fn share(&mut self, scope: Scope, kind: Kind, after: Share, days: &[Share]) {
        let before = days.iter().copied().fold(Share::default(), Share::and);
        let both = before.and(after);
        if after.all < AFTER_MIN || before.all < BEFORE_MIN || both.part < PART_MIN || both.part == both.all {
            return;
        }
        let full = days.iter().filter(|day| day.all > 0).map(|day| day.value());
        let values = Values::of(full, before.value(), after.value());
        self.made.push(Comparison { scope, kind, values, evidence: Evidence::of_shares(days, after) });
    }

    /// A mean of logarithms, without what is common to all families.
    fn mean(&mut self, scope: Scope, kind: Kind, after: Moments, days: &[Moments], common: Option<(f64, Vec<f64>)>) {
        let before = days.iter().copied().fold(Moments::NONE, Moments::and);
        if after.number < AFTER_MIN || before.number < BEFORE_MIN {
            return;
        }
        let shown = |moments: Moments| moments.mean().exp_m1();
        let full = days.iter().filter(|day| day.number > 0).map(|day| shown(*day));
        let values = Values::of(full, shown(before), shown(after));
        let evidence = match common {
            None => Evidence::of_means(days, after, ALIKE),
            Some((common, each)) => {
                let days: Vec<Moments> = days.iter().zip(each).map(|(day, common)| day.less(common)).collect();
                Evidence::of_means(&days, after.less(common), ALIKE)
            }
        };
        self.made.push(Comparison { scope, kind, values, evidence });
    }

    /// What makes all families slower or faster at a time, such as another load of the machine: the median of what each
    /// family does.
    fn pace(&mut self) {
        let numbers = &self.read.days.numbers;
        let is_known = |family: &&Family| {
            let before = family.counts.requests(numbers);
            family.counts.cell(0).durations.number >= AFTER_MIN && before >= BEFORE_MIN
        };
        let families: Vec<&Family> = self.read.families.iter().filter(is_known).collect();
        if self.read.has_fine_durations != Some(true) || families.len() < FAMILIES_MIN || numbers.len() < 2 {
            return;
        }
        let usual = |family: &Family| {
            let days = numbers.iter().map(|day| family.counts.cell(*day).durations);
            days.fold(Moments::NONE, Moments::and).mean()
        };
        let usual: Vec<f64> = families.iter().map(|family| usual(family)).collect();
        let pace = |window: usize| {
            let all = families.iter().zip(&usual).filter_map(|(family, usual)| {
                let durations = family.counts.cell(window).durations;
                (durations.number > 0).then(|| durations.mean() - usual)
            });
            median(all.collect()).unwrap_or_default()
        };
        let (after, days) = (pace(0), numbers.iter().map(|day| pace(*day)).collect::<Vec<f64>>());
        let values = Values::of(days.iter().map(|day| day.exp()), 1.0, after.exp());
        let evidence = Evidence::of_days(&days, after, ALIKE);
        self.made.push(Comparison { scope: Scope::All, kind: Kind::Pace, values, evidence });
        self.paces = Some((after, days));
    }

    /// Whether there are no requests any more, in requests a window.
    fn absence(&mut self, scope: Scope, after: u64, days: &[u64]) {
        if days.contains(&0) || self.read.ends_early.is_some() {
            return;
        }
        let before = days.iter().sum::<u64>() as f64 / days.len() as f64;
        let values = Values::of(days.iter().map(|day| *day as f64), before, after as f64);
        let mut evidence = Evidence::of_absence(days);
        if after > 0 {
            // More or less traffic is no fault; that this was looked at still counts.
            evidence = Evidence { chance: 1.0, ..evidence };
        }
        self.made.push(Comparison { scope, kind: Kind::Gone, values, evidence });
    }

    /// The differences that chance does not explain.
    fn beyond_chance(&self) -> Vec<Difference> {
        let usual = self.usual_dispersions();
        let mut found = Vec::new();
        for (doubt, is_meant) in DOUBTS {
            let meant: Vec<&Comparison> = self.made.iter().filter(|one| is_meant(one)).collect();
            let probability = |one: &&Comparison| one.probability(&usual) / doubt;
            let chances = holm(&meant.iter().map(probability).collect::<Vec<_>>());
            let beyond = meant.iter().zip(chances).filter(|(one, chance)| *chance < ALPHA && one.matters());
            found.extend(beyond.map(|(one, chance)| Difference {
                scope: one.scope.clone(),
                kind: one.kind.clone(),
                values: one.values,
                chance,
            }));
        }
        found
    }

    /// How much days usually vary. Where nothing varies they agree, unless they are too few to tell.
    fn usual_dispersions(&self) -> BTreeMap<Yardstick, f64> {
        let mut known: BTreeMap<Yardstick, Vec<f64>> = BTreeMap::new();
        for one in &self.made {
            known.entry(one.kind.yardstick()).or_default().extend(one.evidence.dispersion);
        }
        let least = if self.read.days.numbers.len() < DAYS_MIN { ASSUMED_DISPERSION } else { 1.0 };
        known.into_iter().map(|(yardstick, known)| (yardstick, median(known).unwrap_or(1.0).max(least))).collect()
    }
}

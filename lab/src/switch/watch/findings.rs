//! What was found: the differences of one family are one finding, the most important first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cell::Clients;
use super::comparison::{Difference, Kind, Scope, Values};
use super::families::Family;
use super::reading::Read;

/// How important a finding is; the first is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Importance {
    /// Statuses from 500 on where there were none.
    NewServerErrors,
    /// More of them.
    ServerErrors,
    /// More statuses from 400 to 499.
    ClientErrors,
    /// Requests take longer.
    Slower,
    /// A host gets no requests any more.
    HostGone,
    /// Another status.
    OtherStatus,
    /// Other lengths.
    Size,
    /// A family gets no requests any more.
    Gone,
    /// A host or a method that did not occur before.
    New,
    /// More client errors, all for one client: nobody else has them.
    OneClient,
    /// Fewer errors, or shorter durations.
    Better,
}

/// In what a value is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unit {
    /// From 0 to 1.
    Share,
    /// From 0 to 1, of all requests of the window.
    ShareOfAll,
    /// A multiple.
    Factor,
    Bytes,
    Microseconds,
    /// In the window.
    Requests,
    RequestsPerMinute,
}

/// A value before and after.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) before: f64,
    /// The least and the most of a day.
    pub(super) range: [f64; 2],
    pub(super) after: f64,
}

/// A finding.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) importance: Importance,
    /// Whether it makes the run fail.
    pub(super) is_worse: bool,
    /// Host and path, or what else it is about.
    pub(super) family: String,
    pub(super) changes: Vec<Change>,
    /// A line of a log.
    pub(super) example: Option<String>,
    /// `FILE:LINE`
    pub(super) line: Option<String>,
    /// Chance alone would make any finding like this less than once in so many runs.
    pub(super) once_in: f64,
    /// The command that explains the response.
    pub(super) explain: Option<String>,
    #[serde(skip)]
    chance: f64,
}

impl Change {
    /// One of these values.
    pub(super) fn new(what: String, unit: Unit, values: Values) -> Self {
        let Values { before, least, most, after } = values;
        Self { what, unit, before, range: [least, most], after }
    }
}

/// The findings of these differences.
pub(super) fn findings(read: &Read, mut differences: Vec<Difference>) -> Vec<Finding> {
    let known = differences.clone();
    differences.retain(|one| !is_told_elsewhere(one, &known, &read.families));
    let mut groups: BTreeMap<(Scope, u8), Vec<Difference>> = BTreeMap::new();
    for difference in differences {
        groups.entry((difference.scope.clone(), group(&difference.kind))).or_default().push(difference);
    }
    let mut findings: Vec<Finding> = groups.into_values().filter_map(|group| finding(read, group)).collect();
    findings
        .sort_by(|one, other| one.importance.cmp(&other.importance).then_with(|| one.chance.total_cmp(&other.chance)));
    findings
}

/// What belongs together.
fn group(kind: &Kind) -> u8 {
    match kind {
        Kind::Status(_) | Kind::Class(_) | Kind::NewErrors(_) => 0,
        Kind::Duration | Kind::Pace | Kind::Slow => 1,
        Kind::Size => 2,
        Kind::Gone | Kind::NewHost | Kind::Method(_) => 3,
    }
}

/// Whether another difference says the same more precisely: a status says more than its class, a family more than all
/// requests; but where all of a host is gone, its families are, too.
fn is_told_elsewhere(one: &Difference, all: &[Difference], families: &[Family]) -> bool {
    let is_same_way = |other: &&Difference| other.is_more() == one.is_more();
    let class = |kind: &Kind| match kind {
        Kind::Status(status) => Some(status / 100),
        Kind::Class(class) | Kind::NewErrors(class) => Some(*class),
        _ => None,
    };
    let mut alike = all.iter().filter(is_same_way);
    match (&one.scope, &one.kind) {
        (Scope::All, Kind::Status(_) | Kind::Class(_)) => alike.any(|other| {
            let is_narrower = other.scope != Scope::All && class(&other.kind) == class(&one.kind);
            is_narrower || matches!(one.kind, Kind::Class(_)) && other.scope == one.scope && is_status_of(other, one)
        }),
        (_, Kind::Class(_)) => alike.any(|other| other.scope == one.scope && is_status_of(other, one)),
        (Scope::Family(index), Kind::Gone) => {
            let host = Scope::Host(families[*index].host.clone());
            alike.any(|other| other.kind == Kind::Gone && other.scope == host)
        }
        _ => false,
    }
}

/// Whether the first is of a status of the second one's class.
fn is_status_of(one: &Difference, class: &Difference) -> bool {
    matches!((&one.kind, &class.kind), (Kind::Status(status), Kind::Class(class)) if status / 100 == *class)
}

/// The finding of what belongs together.
fn finding(read: &Read, mut group: Vec<Difference>) -> Option<Finding> {
    group.sort_by(|one, other| {
        importance(one).cmp(&importance(other)).then_with(|| distance(other).total_cmp(&distance(one)))
    });
    let first = group.first()?;
    let is_meant = |status: u16| match first.kind {
        Kind::Status(own) => own == status,
        Kind::Class(own) | Kind::NewErrors(own) => own == status / 100,
        Kind::Size => status == 200,
        _ => false,
    };
    let families: Vec<&Family> = read
        .families
        .iter()
        .enumerate()
        .filter(|(index, family)| match &first.scope {
            Scope::All => true,
            Scope::Host(host) => family.host == *host,
            Scope::Family(own) => own == index,
        })
        .map(|(_, family)| family)
        .collect();
    let has_method = matches!(first.kind, Kind::Method(_));
    let has_meant = |family: &&&Family| family.counts.statuses(&[0]).into_iter().any(is_meant);
    let shown = families
        .iter()
        .find(has_meant)
        .or_else(|| families.iter().max_by_key(|family| family.counts.requests(&read.days.numbers)));
    let (example, clients) = shown.map(|family| family.counts.example(is_meant)).unwrap_or_default();
    let example = example.filter(|_| !has_method);
    let mut own = importance(first);
    if own == Importance::ClientErrors && is_of_one(read, &first.scope, clients) {
        own = Importance::OneClient;
    }
    let is_status = matches!(first.kind, Kind::Status(_) | Kind::Class(_) | Kind::NewErrors(_));
    let place = |(file, line): (usize, u64)| Some(format!("{}:{line}", read.files.get(file)?.display()));
    let chance = group.iter().map(|one| one.chance).fold(1.0, f64::min);
    Some(Finding {
        importance: own,
        is_worse: own <= Importance::Slower,
        family: match &first.scope {
            Scope::All => "all requests".to_owned(),
            Scope::Host(host) => host.clone(),
            Scope::Family(index) => read.families[*index].name(),
        },
        changes: group.iter().map(change).collect(),
        example: example.map(|example| example.text.clone()),
        line: example.and_then(|example| place(example.place)),
        once_in: once_in(chance),
        explain: example.filter(|_| is_status).map(|example| format!("tsubame explain '{}'", example.url)),
        chance,
    })
}

/// Whether a single client gets all of these, though others ask the server, too.
fn is_of_one(read: &Read, scope: &Scope, clients: Clients) -> bool {
    let mut others = read.families.iter().map(|family| family.counts.clients);
    matches!(scope, Scope::Family(_))
        && clients.is_one()
        && others.any(|other| other != clients && other != Clients::default())
}

fn importance(one: &Difference) -> Importance {
    match (&one.kind, one.is_more()) {
        (kind, true) if is_error(kind, 5) && one.values.before == 0.0 => Importance::NewServerErrors,
        (kind, true) if is_error(kind, 5) => Importance::ServerErrors,
        (kind, true) if is_error(kind, 4) => Importance::ClientErrors,
        (kind, false) if is_error(kind, 5) || is_error(kind, 4) => Importance::Better,
        (Kind::Duration | Kind::Pace | Kind::Slow, is_more) => {
            if is_more {
                Importance::Slower
            } else {
                Importance::Better
            }
        }
        (Kind::Size, _) => Importance::Size,
        (Kind::Gone, _) if matches!(one.scope, Scope::Host(_)) => Importance::HostGone,
        (Kind::Gone, _) => Importance::Gone,
        (Kind::NewHost | Kind::Method(_), _) => Importance::New,
        (Kind::Status(_) | Kind::Class(_) | Kind::NewErrors(_), _) => Importance::OtherStatus,
    }
}

fn is_error(kind: &Kind, class: u16) -> bool {
    matches!(kind, Kind::Status(status) if status / 100 == class)
        || matches!(kind, Kind::Class(own) | Kind::NewErrors(own) if *own == class)
}

/// How far the values are apart; what is more now comes before what is less.
fn distance(one: &Difference) -> f64 {
    let distance = one.values.after - one.values.before;
    if distance > 0.0 { distance + 1.0 } else { -distance }
}

fn change(one: &Difference) -> Change {
    let (what, unit) = match &one.kind {
        Kind::Status(status) => (format!("status {status}"), Unit::Share),
        Kind::Class(class) => (format!("statuses {class}xx"), Unit::Share),
        Kind::NewErrors(class) => (format!("statuses {class}xx where hardly anybody asked before"), Unit::ShareOfAll),
        Kind::Duration => ("duration (geometric mean)".to_owned(), Unit::Microseconds),
        Kind::Pace => ("duration, as a factor of the usual one".to_owned(), Unit::Factor),
        Kind::Slow => ("requests of a second or more".to_owned(), Unit::Share),
        Kind::Size => ("bytes with status 200 (geometric mean)".to_owned(), Unit::Bytes),
        Kind::Gone => ("requests".to_owned(), Unit::Requests),
        Kind::NewHost => ("a host that was not asked before".to_owned(), Unit::ShareOfAll),
        Kind::Method(method) => (format!("the method {method}, which did not occur before"), Unit::ShareOfAll),
    };
    Change::new(what, unit, one.values)
}

/// 1 divided by a probability, with one digit that is not 0, and not more than a thousand million.
fn once_in(chance: f64) -> f64 {
    const MOST: f64 = 1e9;
    let times = (1.0 / chance).clamp(1.0, MOST);
    let unit = 10_f64.powf(times.log10().floor());
    (times / unit).floor() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_told_in_round_numbers() {
        for (chance, expected) in [(0.0099, 100.0), (1.0, 1.0), (0.000_21, 4000.0), (0.0, 1e9)] {
            assert!((once_in(chance) - expected).abs() < 1e-6 * expected, "{chance}: {}", once_in(chance));
        }
    }

    #[test]
    fn what_is_told_twice_is_told_once() {
        let families = [Family { host: "h".to_owned(), path: "/a".to_owned(), ..Family::default() }];
        let difference = |scope: Scope, kind: Kind, after: f64| Difference {
            scope,
            kind,
            values: Values { before: 0.1, least: 0.1, most: 0.1, after },
            chance: 0.001,
        };
        let all = [
            difference(Scope::Family(0), Kind::Status(404), 0.2),
            difference(Scope::Family(0), Kind::Class(4), 0.2),
            difference(Scope::All, Kind::Status(404), 0.2),
            difference(Scope::All, Kind::Class(5), 0.2),
            difference(Scope::Family(0), Kind::Gone, 0.0),
            difference(Scope::Host("h".to_owned()), Kind::Gone, 0.0),
        ];
        let told: Vec<bool> = all.iter().map(|one| is_told_elsewhere(one, &all, &families)).collect();
        assert_eq!(told, [false, true, true, false, true, false]);
    }
}

//! Recycling: when a child has done enough, and how many children may be replaced at a time. Pure.
//!
//! Each child has limits of its own, drawn when it starts, so that children that began together do not end together. A
//! child that has reached a limit serves until its turn comes; then its successor is started, and only when that one
//! accepts does the old child get the order to leave.

use std::fmt;

use conf::SettingsMap;
use runtime::BumpyLife;

use crate::settings::MpmSettings;

/// A quantity that limits a child's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Connections it has accepted.
    Connections,
    /// Requests it has answered.
    Requests,
    /// Bytes by which its memory has grown.
    Memory,
}

impl Measure {
    const ALL: [Measure; 3] = [Measure::Connections, Measure::Requests, Measure::Memory];
}

/// A value for each measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Each<T> {
    /// See [`Measure::Connections`].
    pub connections: T,
    /// See [`Measure::Requests`].
    pub requests: T,
    /// See [`Measure::Memory`].
    pub memory: T,
}

impl<T: Copy> Each<T> {
    fn of(&self, measure: Measure) -> T {
        match measure {
            Measure::Connections => self.connections,
            Measure::Requests => self.requests,
            Measure::Memory => self.memory,
        }
    }

    fn map<U>(self, mut f: impl FnMut(T) -> U) -> Each<U> {
        Each { connections: f(self.connections), requests: f(self.requests), memory: f(self.memory) }
    }
}

/// The range that the limits of children are drawn from, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest limit, 1 or more.
    pub least: u64,
    /// The largest limit.
    pub most: u64,
}

impl Range {
    /// The uppermost quarter, so that the maximum stays a maximum and children differ.
    fn below(most: u64) -> Range {
        Range { least: most - most / 4, most }
    }

    fn draw(self, random: u64) -> u64 {
        self.least + random % (self.most - self.least + 1)
    }
}

/// The limits of a child; `None` is without limit.
pub type Limits = Each<Option<u64>>;

/// The ranges that the directives ask for; `None` is without limit.
pub fn ranges(settings: &SettingsMap) -> Each<Option<Range>> {
    let s = settings.get::<MpmSettings>();
    let bumpy = settings.get::<BumpyLife>();
    let maximum = |most: u64| (most > 0).then(|| Range::below(most));
    let connections = u64::try_from(s.max_connections_per_child.value_or(0)).unwrap_or(0);
    let connections = match (bumpy.min.get(), bumpy.max.get()) {
        (None, None) => maximum(connections),
        (min, max) => {
            // If one of them is missing, the plain limit replaces it, if there is one.
            let given = |end: Option<&u64>| end.copied().or(Some(connections).filter(|limit| *limit > 0));
            let (min, max) = (given(min), given(max));
            let (least, end) = (min.or(max).unwrap_or(1), max.or(min).unwrap_or(1));
            Some(Range { least, most: end.saturating_sub(1).max(least) })
        }
    };
    Each {
        connections,
        requests: maximum(s.max_requests_served.value_or(0)),
        memory: maximum(s.max_memory_growth.value_or(0)),
    }
}

/// The limits of one child.
pub fn draw(ranges: Each<Option<Range>>, mut random: impl FnMut() -> u64) -> Limits {
    ranges.map(|range| range.map(|range| range.draw(random())))
}

/// Whether any limit is configured at all.
pub fn is_configured(ranges: Each<Option<Range>>) -> bool {
    Measure::ALL.into_iter().any(|measure| ranges.of(measure).is_some())
}

/// The reason to replace a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    measure: Measure,
    spent: u64,
    limit: u64,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason { spent, limit, .. } = self;
        match self.measure {
            Measure::Connections => write!(f, "has accepted {spent} connections, its limit is {limit}"),
            Measure::Requests => write!(f, "has served {spent} requests, its limit is {limit}"),
            Measure::Memory => {
                write!(f, "has grown by {} KiB, its limit is {} KiB", spent / 1024, limit / 1024)
            }
        }
    }
}

/// The first limit that a child has reached.
pub fn reached(limits: Limits, spent: Each<u64>) -> Option<Reason> {
    Measure::ALL.into_iter().find_map(|measure| {
        let (limit, spent) = (limits.of(measure)?, spent.of(measure));
        (spent >= limit).then_some(Reason { measure, spent, limit })
    })
}

/// How many more of `children` may begin to be replaced while `under_way` are: one in ten at a time, at least one.
pub fn turns(children: usize, under_way: usize) -> usize {
    (children / 10).max(1).saturating_sub(under_way)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use conf::{Origin, Source};

    use super::*;

    /// The range from MaxConnectionsPerChild and mod_bumpy_life's two directives, which are 0 where there is no such
    /// line.
    fn connections(plain: i64, min: u64, max: u64) -> Option<(u64, u64)> {
        let origin = Origin { source: Arc::new(Source::new("f")), line: 1 };
        let mut slots = SettingsMap::default();
        slots.edit::<MpmSettings>().max_connections_per_child.set(plain, &origin);
        let bumpy = slots.edit::<BumpyLife>();
        [(&mut bumpy.min, min), (&mut bumpy.max, max)]
            .into_iter()
            .filter(|(_, value)| *value > 0)
            .for_each(|(setting, value)| setting.set(value, &origin));
        ranges(&slots).connections.map(|range| (range.least, range.most))
    }

    #[test]
    fn ranges_of_connections() {
        let cases = [
            ((0, 0, 0), None),
            ((-5, 0, 0), None),
            ((1, 0, 0), Some((1, 1))),
            ((3, 0, 0), Some((3, 3))),
            ((1000, 0, 0), Some((750, 1000))),
            ((0, 150, 200), Some((150, 199))),
            ((5, 150, 200), Some((150, 199))),
            ((0, 150, 150), Some((150, 150))),
            ((200, 150, 0), Some((150, 199))),
            ((150, 0, 200), Some((150, 199))),
            ((100, 150, 0), Some((150, 150))),
            ((0, 150, 0), Some((150, 150))),
            ((0, 0, 200), Some((200, 200))),
        ];
        for ((plain, min, max), range) in cases {
            assert_eq!(connections(plain, min, max), range, "{plain}, from {min} to {max}");
        }
    }

    #[test]
    fn limits_are_spread_over_the_whole_range() {
        let ranges = Each { connections: Some(Range { least: 150, most: 199 }), requests: None, memory: None };
        let drawn: Vec<u64> = (0..100).filter_map(|random| draw(ranges, || random).connections).collect();
        assert_eq!(drawn.iter().min().zip(drawn.iter().max()), Some((&150, &199)));
        assert!((150..200).all(|limit| drawn.iter().filter(|drawn| **drawn == limit).count() == 2));
        assert_eq!(draw(ranges, || u64::MAX).requests, None);
        assert_eq!((is_configured(ranges), is_configured(Each::default())), (true, false));
    }

    #[test]
    fn reasons() {
        let limits = Each { connections: Some(10), requests: None, memory: Some(4096) };
        let why = |connections, requests, memory| {
            reached(limits, Each { connections, requests, memory }).map(|reason| reason.to_string())
        };
        assert_eq!(why(9, u64::MAX, 4095), None);
        assert_eq!(why(10, 0, 0).as_deref(), Some("has accepted 10 connections, its limit is 10"));
        assert_eq!(why(0, 0, 8192).as_deref(), Some("has grown by 8 KiB, its limit is 4 KiB"));
        assert_eq!(reached(Limits::default(), Each { connections: 1, requests: 1, memory: 1 }), None);
    }

    #[test]
    fn one_in_ten_at_a_time() {
        let cases = [(1, 0, 1), (1, 1, 0), (19, 0, 1), (20, 1, 1), (256, 0, 25), (256, 20, 5), (256, 30, 0), (0, 0, 1)];
        for (children, under_way, more) in cases {
            assert_eq!(turns(children, under_way), more, "{under_way} of {children}");
        }
    }
}

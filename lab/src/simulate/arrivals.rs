//! When requests come, and what they ask for: a Poisson process whose rate follows a curve.

use super::random::Random;
use super::request::{Kind, Nanos, Request, SECOND};

/// How the rate of requests changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// The same rate all the time
    Constant,
    /// A day from midnight to midnight, squeezed into --duration: --rate is the evening's, at night a fifth of it
    Day,
    /// --rate, and after a third of the time --crowd times as many requests within ten seconds, for a sixth of the time
    Crowd,
}

/// The rate of each hour as a share of the highest, from midnight: a site whose visitors live in a few time zones.
const DAY: [f64; 25] = [
    0.50, 0.37, 0.28, 0.23, 0.20, 0.22, 0.30, 0.44, 0.58, 0.70, 0.78, 0.83, 0.85, 0.84, 0.83, 0.83, 0.84, 0.87, 0.91,
    0.96, 1.00, 0.98, 0.86, 0.67, 0.50,
];

/// How long a crowd takes to come.
const RUSH: Nanos = 10 * SECOND;

/// The rate in requests per second at some moments; between them it changes evenly.
#[derive(Clone, Debug)]
pub(super) struct Curve(Vec<(Nanos, f64)>);

impl Curve {
    /// The curve of a shape, with its usual rate, over a time.
    pub(super) fn of(shape: Shape, rate: f64, crowd: f64, duration: Nanos) -> Self {
        let points = match shape {
            Shape::Constant => vec![(0, rate), (duration, rate)],
            Shape::Day => {
                let hour = |(hour, share): (usize, f64)| (duration / 24 * hour as u64, rate * share);
                DAY.into_iter().enumerate().map(hour).collect()
            }
            Shape::Crowd => {
                let (begin, end) = (duration / 3, duration / 2);
                let rush = RUSH.min((end - begin) / 2);
                let high = rate * crowd;
                vec![(0, rate), (begin, rate), (begin + rush, high), (end, high), (end + rush, rate), (duration, rate)]
            }
        };
        Self(points)
    }
}

/// How the times that requests take differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Spread {
    /// All take the same time
    Constant,
    /// Many take less, few take much more
    Exponential,
}

/// What requests ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// The share of static files, from 0 to 1.
    pub(super) files: f64,
    /// What requests take on average.
    pub(super) file_work: Nanos,
    pub(super) script_work: Nanos,
    pub(super) script_pause: Nanos,
    pub(super) spread: Spread,
}

/// The requests in the order of their arrival. The same seed makes the same requests, whatever becomes of them.
#[derive(Debug)]
pub(super) struct Arrivals {
    curve: Curve,
    mix: Mix,
    random: Random,
    /// For the clients who ask again: what they do must not change the others' requests.
    clients: Random,
    now: Nanos,
    /// The stretch of the curve that `now` is in, by the index of its end.
    stretch: usize,
}

impl Arrivals {
    pub(super) fn new(curve: Curve, mix: Mix, seed: u64) -> Self {
        Self { curve, mix, random: Random::new(seed), clients: Random::new(!seed), now: 0, stretch: 1 }
    }

    /// The next request; `None`: the curve is over.
    pub(super) fn next(&mut self) -> Option<Request> {
        let born = self.next_moment()?;
        let is_file = self.random.unit() < self.mix.files;
        let (kind, work, pause) = match is_file {
            true => (Kind::File, self.mix.file_work, 0),
            false => (Kind::Script, self.mix.script_work, self.mix.script_pause),
        };
        let mut time = |mean| time(mean, self.mix.spread, &mut self.random);
        Some(Request { kind, born, work: time(work), pause: time(pause), again: false })
    }

    /// The next script of a client who asks for one after the other.
    pub(super) fn of_client(&mut self, born: Nanos) -> Request {
        let mut time = |mean| time(mean, self.mix.spread, &mut self.clients);
        let (work, pause) = (time(self.mix.script_work), time(self.mix.script_pause));
        Request { kind: Kind::Script, born, work, pause, again: true }
    }

    /// Thinning (Lewis and Shedler, 1979): moments at the highest rate of the stretch, of which the curve's share counts.
    fn next_moment(&mut self) -> Option<Nanos> {
        loop {
            let (from, first) = *self.curve.0.get(self.stretch - 1)?;
            let (to, last) = *self.curve.0.get(self.stretch)?;
            let highest = first.max(last);
            let distance = SECOND as f64 / highest * self.random.exponential();
            // A Poisson process has no memory, so it may begin again with each stretch.
            if distance >= (to - self.now) as f64 {
                self.now = to;
                self.stretch += 1;
                continue;
            }
            self.now += distance as Nanos;
            if first == last {
                return Some(self.now);
            }
            let rate = first + (last - first) * (self.now - from) as f64 / (to - from) as f64;
            if self.random.unit() * highest < rate {
                return Some(self.now);
            }
        }
    }
}

fn time(mean: Nanos, spread: Spread, random: &mut Random) -> Nanos {
    match spread {
        _ if mean == 0 => 0,
        Spread::Constant => mean,
        Spread::Exponential => (mean as f64 * random.exponential()) as Nanos,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIX: Mix = Mix {
        files: 0.25,
        file_work: 1_000,
        script_work: 2_000_000,
        script_pause: 3_000_000,
        spread: Spread::Exponential,
    };

    /// The requests of each of so many equal parts of the time.
    fn counts(shape: Shape, rate: f64, parts: u64) -> Vec<f64> {
        let duration = 240 * SECOND;
        let mut arrivals = Arrivals::new(Curve::of(shape, rate, 5.0, duration), MIX, 4);
        let mut counts = vec![0.0; parts as usize];
        while let Some(request) = arrivals.next() {
            counts[(request.born * parts / duration) as usize] += 1.0;
        }
        counts
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 5.0 * expected.sqrt()
    }

    #[test]
    fn rates_follow_their_curves() {
        assert!(counts(Shape::Constant, 1000.0, 4).iter().all(|count| is_near(*count, 60_000.0)));
        let hours = counts(Shape::Day, 1000.0, 24);
        for (hour, count) in hours.iter().enumerate() {
            assert!(is_near(*count, 10_000.0 * (DAY[hour] + DAY[hour + 1]) / 2.0), "{hour}: {count}");
        }
        // The first, second and last third; the crowd begins with the second, and ends within it.
        let crowd = counts(Shape::Crowd, 1000.0, 3);
        assert!(
            is_near(crowd[0], 80_000.0) && is_near(crowd[1], 80_000.0 + 4.0 * 40_000.0) && is_near(crowd[2], 80_000.0)
        );
    }

    #[test]
    fn requests_are_mixed_as_asked() {
        let mut arrivals = Arrivals::new(Curve::of(Shape::Constant, 1000.0, 1.0, 100 * SECOND), MIX, 4);
        let all: Vec<Request> = std::iter::from_fn(|| arrivals.next()).collect();
        let files = all.iter().filter(|request| request.kind == Kind::File).count() as f64;
        assert!(is_near(files, 25_000.0));
        let scripts = all.len() as f64 - files;
        let work =
            all.iter().filter(|request| request.kind == Kind::Script).map(|request| request.work as f64).sum::<f64>();
        let pause = all.iter().map(|request| request.pause as f64).sum::<f64>();
        assert!((work / scripts / 2e6 - 1.0).abs() < 0.02 && (pause / scripts / 3e6 - 1.0).abs() < 0.02);
    }
}

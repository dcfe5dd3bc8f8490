//! Counts which requests occur how often, in bounded memory.
//!
//! When there are too many distinct requests, the rarest quarter goes. Among requests that occurred equally often, a hash
//! of each decides: whether a request stays does not depend on when it came, so those that stay are a fair sample, and
//! their counts are exact as long as they were never dropped. The hash is the same in every run, and so is the result.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Distinct requests.
    pub requests: usize,
    /// Bytes of their methods, targets, hosts and fields.
    pub bytes: usize,
}

impl Default for Limits {
    /// A replay of 200 000 requests takes minutes, and what comes after them is too rare to say anything. With fields,
    /// requests have about 300 bytes: both limits are reached together.
    fn default() -> Self {
        Self { requests: 200_000, bytes: 64 * 1024 * 1024 }
    }
}

/// What makes a request distinct.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a, Value> {
    /// `GET`
    pub method: &'a [u8],
    /// As in the request line.
    pub target: &'a [u8],
    /// Whom it was sent to.
    pub host: Option<&'a [u8]>,
    /// All fields that may change the response.
    pub fields: &'a [(&'a str, Value)],
}

/// How many different statuses of a request are told apart.
const STATUSES: usize = 4;

/// How often a request was logged with which status.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statuses {
    /// Statuses in the order in which they occurred first; those that never occurred are 0.
    counts: [(u16, u64); STATUSES],
}

impl Statuses {
    /// Statuses after the fourth are not told apart from no status at all.
    fn add(&mut self, status: u16) {
        if let Some(known) = self.counts.iter_mut().find(|(known, count)| *known == status || *count == 0) {
            *known = (status, known.1 + 1);
        }
    }

    /// Each status with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        self.counts.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// A distinct request and what was counted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tallied {
    /// `GET`
    pub method: Vec<u8>,
    /// As in the request line.
    pub target: Vec<u8>,
    /// Whom it was sent to.
    pub host: Option<Vec<u8>>,
    /// All fields that may change the response.
    pub fields: Vec<(String, Vec<u8>)>,
    /// How many lines are of this request.
    pub count: u64,
    /// The number of the first of them.
    pub first_line: u64,
    /// What the server answered.
    pub statuses: Statuses,
    /// The mean of the logged bytes, if there are any.
    pub mean_bytes: Option<u64>,
}

impl Tallied {
    /// A request that occurred once.
    pub(crate) fn once<Value: AsRef<[u8]>>(request: &Request<'_, Value>, line: u64, status: Option<u16>) -> Self {
        let mut statuses = Statuses::default();
        status.into_iter().for_each(|status| statuses.add(status));
        Self {
            method: request.method.to_vec(),
            target: request.target.to_vec(),
            host: request.host.map(<[u8]>::to_vec),
            fields: request.fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_ref().to_vec())).collect(),
            count: 1,
            first_line: line,
            statuses,
            mean_bytes: None,
        }
    }
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tallies {
    /// The most frequent first; then in the order of their first lines.
    pub requests: Vec<Tallied>,
    /// All lines that were counted.
    pub lines: u64,
    /// Lines of requests that occurred too rarely to be kept.
    pub dropped_lines: u64,
}

/// What is counted of a request.
#[derive(Debug, Clone, Copy)]
struct Counted {
    count: u64,
    /// Decides among requests that occurred equally often.
    lot: u64,
    first_line: u64,
    statuses: Statuses,
    /// The sum of the logged bytes, and of how many lines.
    bytes: (u64, u64),
}

impl Counted {
    /// Counts a line.
    fn add(&mut self, status: Option<u16>, bytes: Option<u64>) {
        self.count += 1;
        status.into_iter().for_each(|status| self.statuses.add(status));
        let (sum, number) = self.bytes;
        self.bytes = bytes.map_or((sum, number), |bytes| (sum.saturating_add(bytes), number + 1));
    }
}

/// Counts requests.
#[derive(Debug)]
pub(crate) struct Tally {
    limits: Limits,
    known: HashMap<Box<[u8]>, Counted>,
    /// The length of all keys.
    key_bytes: usize,
    lines: u64,
    /// The key of the request at hand.
    key: Vec<u8>,
}

impl Tally {
    /// Nothing was counted yet.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, known: HashMap::new(), key_bytes: 0, lines: 0, key: Vec::new() }
    }

    /// Counts a line.
    pub(crate) fn add<Value: AsRef<[u8]>>(
        &mut self,
        request: &Request<'_, Value>,
        line: u64,
        status: Option<u16>,
        bytes: Option<u64>,
    ) {
        self.lines += 1;
        self.key.clear();
        write_key(request, &mut self.key);
        match self.known.get_mut(self.key.as_slice()) {
            Some(counted) => counted.add(status, bytes),
            None => {
                let (lot, statuses) = (hash(&self.key), Statuses::default());
                let mut counted = Counted { count: 0, lot, first_line: line, statuses, bytes: (0, 0) };
                counted.add(status, bytes);
                self.known.insert(self.key.as_slice().into(), counted);
                self.key_bytes += self.key.len();
            }
        }
        if self.known.len() > self.limits.requests || self.key_bytes > self.limits.bytes {
            self.drop_rarest();
        }
    }

    /// Keeps the most frequent requests that need three quarters of the limits.
    fn drop_rarest(&mut self) {
        let rank = |key: &[u8], counted: &Counted| (counted.count, counted.lot, key.len());
        let mut ranks: Vec<(u64, u64, usize)> = self.known.iter().map(|(key, counted)| rank(key, counted)).collect();
        ranks.sort_unstable_by(|one, other| other.cmp(one));
        let (mut requests, mut bytes) = (0, 0);
        let dropped = ranks.iter().find(|(.., length)| {
            requests += 1;
            bytes += length;
            requests > self.limits.requests / 4 * 3 || bytes > self.limits.bytes / 4 * 3
        });
        let Some(&dropped) = dropped else { return };
        self.known.retain(|key, counted| rank(key, counted) > dropped);
        self.key_bytes = self.known.keys().map(|key| key.len()).sum();
    }

    /// What was counted.
    pub(crate) fn finish(self) -> Tallies {
        let mut requests: Vec<Tallied> =
            self.known.into_iter().filter_map(|(key, counted)| tallied(&key, &counted)).collect();
        requests.sort_unstable_by_key(|request| (std::cmp::Reverse(request.count), request.first_line));
        let kept: u64 = requests.iter().map(|request| request.count).sum();
        Tallies { requests, lines: self.lines, dropped_lines: self.lines - kept }
    }
}

/// The same in every run and on every machine, unlike that of the map, for which nobody can make collisions.
fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Writes a request as one text: its parts with their lengths.
fn write_key<Value: AsRef<[u8]>>(request: &Request<'_, Value>, key: &mut Vec<u8>) {
    let mut part = |text: &[u8]| {
        // A part is shorter than a line, which has 64 KiB at most.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        key.extend_from_slice(&length.to_le_bytes());
        key.extend_from_slice(text);
    };
    part(request.method);
    part(request.target);
    part(if request.host.is_some() { b"h" } else { b"" });
    part(request.host.unwrap_or_default());
    for (name, value) in request.fields {
        part(name.as_bytes());
        part(value.as_ref());
    }
}

/// The request of a key.
fn tallied(key: &[u8], counted: &Counted) -> Option<Tallied> {
    let mut rest = key;
    let mut part = || {
        let (length, after) = rest.split_first_chunk()?;
        let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        Some(text)
    };
    let (method, target) = (part()?.to_vec(), part()?.to_vec());
    let (has_host, host) = (!part()?.is_empty(), part()?);
    let host = has_host.then(|| host.to_vec());
    let fields =
        std::iter::from_fn(|| Some((String::from_utf8_lossy(part()?).into_owned(), part()?.to_vec()))).collect();
    let &Counted { count, first_line, statuses, bytes: (sum, number), .. } = counted;
    Some(Tallied { method, target, host, fields, count, first_line, statuses, mean_bytes: sum.checked_div(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_FIELDS: [(&str, &[u8]); 0] = [];

    fn get(target: &[u8]) -> Request<'_, &'static [u8]> {
        Request { method: b"GET", target, host: None, fields: &NO_FIELDS }
    }

    /// Numbers by chance between 0 and 1, the same in every run (xorshift64*).
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn what_differs_in_anything_is_distinct() {
        let fields: [(&str, &[u8]); 2] = [("Accept", b"a"), ("X", b"")];
        let base = Request { method: b"GET", target: b"/a", host: Some(b"h"), fields: &fields };
        let requests = [
            base,
            Request { method: b"HEAD", ..base },
            Request { target: b"/", ..base },
            Request { host: None, ..base },
            Request { host: Some(b""), ..base },
            Request { fields: &fields[..1], ..base },
            Request { fields: &[], ..base },
            Request { fields: &[("Accept", b"b")], ..base },
            Request { fields: &[("Accept", b"aX")], ..base },
        ];
        let mut tally = Tally::new(Limits::default());
        for (line, request) in (1..).zip(requests.iter().chain(&requests[..1])) {
            tally.add(request, line, None, None);
        }
        let tallies = tally.finish();
        assert_eq!((tallies.lines, tallies.dropped_lines, tallies.requests.len()), (10, 0, 9));
        let first = &tallies.requests[0];
        assert_eq!(
            (first.method.as_slice(), first.target.as_slice(), first.host.as_deref()),
            (b"GET".as_slice(), b"/a".as_slice(), Some(b"h".as_slice()))
        );
        assert_eq!(first.fields, [("Accept".to_owned(), b"a".to_vec()), ("X".to_owned(), vec![])]);
        assert_eq!((first.count, first.first_line), (2, 1));
        assert_eq!(tallies.requests[4].host.as_deref(), Some(b"".as_slice()));
    }

    #[test]
    fn statuses_and_bytes_are_counted() {
        let mut tally = Tally::new(Limits::default());
        let logged =
            [(200, Some(10)), (304, None), (200, Some(21)), (404, None), (500, None), (503, None), (503, Some(2))];
        for (line, (status, bytes)) in (7..).zip(logged) {
            tally.add(&get(b"/"), line, Some(status), bytes);
        }
        tally.add(&get(b"/x"), 100, None, None);
        let tallies = tally.finish();
        let [first, second] = tallies.requests.as_slice() else { panic!("{tallies:?}") };
        assert_eq!(first.statuses.iter().collect::<Vec<_>>(), [(200, 2), (304, 1), (404, 1), (500, 1)]);
        assert_eq!((first.count, first.first_line, first.mean_bytes), (7, 7, Some(11)));
        assert_eq!((second.statuses.iter().count(), second.mean_bytes), (0, None));
    }

    #[test]
    fn the_frequent_requests_of_a_zipf_stream_stay_with_their_counts() {
        const LINES: u64 = 1_000_000;
        let limits = Limits { requests: 20_000, bytes: usize::MAX };
        let mut chance = Chance(1);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        let mut tally = Tally::new(limits);
        for line in 1..=LINES {
            // The inverse of the distribution: how frequent a rank is falls with the rank, over ten million ranks.
            let rank = 1e7_f64.powf(chance.next()) as u64;
            *exact.entry(rank).or_default() += 1;
            let target = format!("/{rank}");
            tally.add(&get(target.as_bytes()), line, Some(200), None);
            assert!(tally.known.len() <= limits.requests);
        }
        assert!(exact.len() > 10 * limits.requests, "{}", exact.len());
        let tallies = tally.finish();
        assert!(tallies.requests.len() > limits.requests / 2);
        let kept: u64 = tallies.requests.iter().map(|request| request.count).sum();
        assert_eq!((tallies.lines, tallies.dropped_lines), (LINES, LINES - kept));
        let rank = |request: &Tallied| String::from_utf8_lossy(&request.target[1..]).parse::<u64>().unwrap();
        let counts: HashMap<u64, u64> = tallies.requests.iter().map(|request| (rank(request), request.count)).collect();
        assert!(counts.iter().all(|(rank, count)| *count <= exact[rank]));
        // The three hundredth occurs 200 times, the thousandth 60 times, and only 20 000 of 340 000 are kept.
        let is_exact = |rank: &u64| counts.get(rank) == Some(&exact[rank]);
        assert!((1..=300).all(|rank| is_exact(&rank)));
        assert!((1..=1_000).all(|rank| counts.contains_key(&rank)));
        assert!((1..=1_000).filter(is_exact).count() > 900);
    }

    #[test]
    fn a_tally_is_the_same_in_every_run() {
        let tallies = [(), ()].map(|()| {
            let (mut chance, mut tally) = (Chance(7), Tally::new(Limits { requests: 500, bytes: usize::MAX }));
            for line in 1..=20_000 {
                let target = format!("/{}", 1e5_f64.powf(chance.next()) as u64);
                tally.add(&get(target.as_bytes()), line, None, None);
            }
            tally.finish()
        });
        assert!(tallies[0].dropped_lines > 0);
        assert_eq!(tallies[0], tallies[1]);
    }

    #[test]
    fn what_occurs_once_is_sampled_from_all_of_the_log() {
        let mut tally = Tally::new(Limits { requests: 1_000, bytes: usize::MAX });
        for line in 1..=100_000_u64 {
            tally.add(&get(format!("/{line}").as_bytes()), line, None, None);
        }
        let tallies = tally.finish();
        let early = tallies.requests.iter().filter(|request| request.first_line <= 50_000).count();
        let share = early as f64 / tallies.requests.len() as f64;
        assert!((0.35..0.6).contains(&share), "{share}");
        assert_eq!(tallies.dropped_lines, 100_000 - tallies.requests.len() as u64);
    }

    #[test]
    fn long_targets_take_no_more_than_their_room() {
        let limits = Limits { requests: usize::MAX, bytes: 1 << 20 };
        let mut tally = Tally::new(limits);
        for line in 1..=1_000_u64 {
            let target = format!("/{line}{}", "x".repeat(60_000));
            tally.add(&get(target.as_bytes()), line, None, None);
            tally.add(&get(b"/"), line, None, None);
            assert!(tally.key_bytes <= limits.bytes);
            assert_eq!(tally.key_bytes, tally.known.keys().map(|key| key.len()).sum::<usize>());
        }
        let tallies = tally.finish();
        assert_eq!((tallies.requests[0].target.as_slice(), tallies.requests[0].count), (b"/".as_slice(), 1_000));
        assert!(tallies.requests.len() > 5);
    }
}

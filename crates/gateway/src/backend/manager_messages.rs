//! The messages between children and the process manager. Both are the same program, so numbers are in the machine's
//! own byte order; each message is a packet.

use std::time::Duration;

use sys::process::Pid;

use super::class::{Class, Concurrency, PoolSettings, Program, Runtime, Score, Version};
use crate::process::daemon_messages as command;
use crate::protocol::Protocol;

/// The longest packet, in bytes: as much as a socket takes by default.
pub(super) const PACKET_MAX: usize = 128 * 1024;
const NUMBER: usize = size_of::<u64>();
/// The most backends of a class, and the most points of a score.
const COUNT_MAX: u64 = 1 << 20;

/// What a child tells the process manager.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromChild<'a> {
    /// Wants a backend.
    Backend(Question<'a>),
    /// Does not need its backend any more.
    Done(Outcome),
}

/// What a child wants of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question<'a> {
    /// Since when its request has been waiting ([`Instant::nanoseconds`](sys::time::Instant::nanoseconds)).
    pub(super) came: u64,
    /// The version that the program's file has now.
    pub(super) version: Version,
    /// The bytes of the class.
    pub(super) class: &'a [u8],
}

/// The state in which a request left its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Ready for the next one, on the same connection.
    Ready,
    /// Ready for the next one, on another connection.
    Closed,
    /// Has announced its end.
    Last,
    /// Nobody waits for the rest of its response, which continues at this position
    /// ([`Frames`](crate::protocol::Frames)).
    Abandoned(Vec<u8>),
    /// The rest of its request does not come. The backend, a runtime, closes the connection when it learns that, and is ready
    /// for the next one on another.
    Cut,
    /// The request was given up, and the state of the backend is unknown.
    Broken,
    /// The backend did not answer properly.
    Failed,
}

/// What the process manager tells a child.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromManager {
    /// Here is a connection to a backend.
    Granted(Grant),
    /// There is none: the status for the client, and why.
    Refused { status: u16, why: String },
}

/// A lease at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// The backend's process.
    pub(super) pid: Pid,
    /// How many requests it served before.
    pub(super) served: u64,
    /// Whether another request had to end first.
    pub(super) queued: bool,
    /// The lease's number.
    pub(super) lease: u64,
    /// The row of the pool's numbers; the largest number means none.
    pub(super) row: u64,
    /// The place of the lease's cell in that row; the largest number means none.
    pub(super) place: u64,
    /// How many more requests the lease may cover.
    pub(super) more: u64,
}

impl FromChild<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            FromChild::Backend(Question { came, version: [device, number, time], class }) => {
                let numbers = [*came, *device, *number, *time].map(u64::to_ne_bytes).concat();
                [&[0], &numbers[..], class].concat()
            }
            FromChild::Done(Outcome::Ready) => vec![1],
            FromChild::Done(Outcome::Closed) => vec![2],
            FromChild::Done(Outcome::Last) => vec![3],
            FromChild::Done(Outcome::Abandoned(position)) => [&[4], &position[..]].concat(),
            FromChild::Done(Outcome::Broken) => vec![5],
            FromChild::Done(Outcome::Failed) => vec![6],
            FromChild::Done(Outcome::Cut) => vec![7],
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<FromChild<'_>> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            0 => {
                let mut numbers = [0; 4];
                let mut rest = rest;
                for number in &mut numbers {
                    let (bytes, behind) = rest.split_first_chunk()?;
                    (*number, rest) = (u64::from_ne_bytes(*bytes), behind);
                }
                let [came, version @ ..] = numbers;
                FromChild::Backend(Question { came, version, class: rest })
            }
            1 => FromChild::Done(Outcome::Ready),
            2 => FromChild::Done(Outcome::Closed),
            3 => FromChild::Done(Outcome::Last),
            4 => FromChild::Done(Outcome::Abandoned(rest.to_vec())),
            5 => FromChild::Done(Outcome::Broken),
            6 => FromChild::Done(Outcome::Failed),
            7 => FromChild::Done(Outcome::Cut),
            _ => return None,
        })
    }
}

impl FromManager {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            FromManager::Granted(Grant { pid, served, queued, lease, row, place, more }) => {
                let pid = u64::from(pid.number().unsigned_abs());
                let numbers = [pid, *served, u64::from(*queued), *lease, *row, *place, *more];
                [0].into_iter().chain(numbers.into_iter().flat_map(u64::to_ne_bytes)).collect()
            }
            FromManager::Refused { status, why } => [&[1], &status.to_ne_bytes()[..], why.as_bytes()].concat(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<FromManager> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            0 => {
                let bytes: &[u8; 7 * NUMBER] = rest.try_into().ok()?;
                let at = |index: usize| bytes[index * NUMBER..].first_chunk().map(|number| u64::from_ne_bytes(*number));
                FromManager::Granted(Grant {
                    pid: Pid::new(i32::try_from(at(0)?).ok()?)?,
                    served: at(1)?,
                    queued: at(2)? != 0,
                    lease: at(3)?,
                    row: at(4)?,
                    place: at(5)?,
                    more: at(6)?,
                })
            }
            1 => {
                let (status, why) = rest.split_first_chunk()?;
                let (status, why) = (u16::from_ne_bytes(*status), String::from_utf8_lossy(why).into_owned());
                FromManager::Refused { status, why }
            }
            _ => return None,
        })
    }
}

/// A time; the largest number means none.
fn micros(time: Option<Duration>) -> u64 {
    time.map_or(u64::MAX, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1))
}

fn time(micros: u64) -> Option<Duration> {
    (micros != u64::MAX).then(|| Duration::from_micros(micros))
}

/// A number that may be missing.
fn number(number: Option<u64>) -> u64 {
    number.unwrap_or(u64::MAX)
}

fn given(number: u64) -> Option<u64> {
    (number != u64::MAX).then_some(number)
}

/// The protocols, by their numbers.
const PROTOCOLS: [Protocol; 3] = [Protocol::FastCgi, Protocol::Runtime, Protocol::Plain];
/// The numbers of a class, and its texts.
const NUMBERS: usize = 20;
const TEXTS: usize = 4;

impl Class {
    /// The class as bytes: the same for the same class, whatever the version of its program's file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let PoolSettings {
            max,
            min,
            keep,
            max_of_all,
            idle,
            lifetime,
            requests,
            busy,
            graceful,
            memory,
            score,
            wait,
            queue,
        } = self.settings;
        let points = score.unwrap_or(Score { start: 0, end: 0, second: 0, limit: 0 });
        let protocol = match self.protocol {
            Protocol::FastCgi => 0,
            Protocol::Runtime => 1,
            Protocol::Plain => 2,
        };
        let numbers: [u64; NUMBERS] = [
            protocol,
            match self.concurrency {
                Concurrency::One => 0,
                Concurrency::Many(most) => most.max(1),
            },
            max,
            min,
            max_of_all,
            micros(idle),
            micros(lifetime),
            number(requests),
            number(memory),
            u64::from(score.is_some()),
            points.start,
            points.end,
            points.second,
            points.limit,
            micros(Some(wait)),
            queue,
            match self.program.runtime {
                None => 0,
                Some(Runtime::Perl) => 1,
                Some(Runtime::Text(_)) => 2,
                Some(Runtime::Python) => 3,
                Some(Runtime::Ruby) => 4,
            },
            keep,
            micros(busy),
            micros(graceful),
        ];
        let given = match &self.program.runtime {
            Some(Runtime::Text(text)) => text,
            _ => "",
        };
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
        for text in [&self.name, &self.module, &self.host, given] {
            bytes.extend_from_slice(&(text.len() as u64).to_ne_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(&command::encode(&self.program.command));
        bytes
    }

    /// The class encoded in these bytes; `None` if they are invalid.
    pub(super) fn decode(bytes: &[u8]) -> Option<Class> {
        let at = |index: usize| Some(u64::from_ne_bytes(*bytes.get(NUMBER * index..)?.first_chunk()?));
        let mut rest = bytes.get(NUMBER * NUMBERS..)?;
        let mut texts = Vec::with_capacity(TEXTS);
        for _ in 0..TEXTS {
            let (length, behind) = rest.split_first_chunk()?;
            let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
            texts.push(std::str::from_utf8(behind.get(..length)?).ok()?.to_string());
            rest = &behind[length..];
        }
        let [name, module, host, text] = texts.try_into().ok()?;
        // The manager must be able to count whatever a child sends.
        let count = |index: usize| at(index).map(|number| number.min(COUNT_MAX));
        let score = Score { start: count(10)?, end: count(11)?, second: count(12)?, limit: count(13)? };
        let settings = PoolSettings {
            max: count(2)?,
            min: count(3)?,
            keep: count(17)?,
            max_of_all: at(4)?,
            idle: time(at(5)?),
            lifetime: time(at(6)?),
            requests: given(at(7)?),
            busy: time(at(18)?),
            graceful: time(at(19)?),
            memory: given(at(8)?),
            score: (at(9)? == 1).then_some(score),
            wait: time(at(14)?)?,
            queue: at(15)?,
        };
        Some(Class {
            name,
            module,
            host,
            protocol: *PROTOCOLS.get(usize::try_from(at(0)?).ok()?)?,
            concurrency: match at(1)? {
                0 => Concurrency::One,
                most => Concurrency::Many(most),
            },
            program: Program {
                command: command::decode(rest)?,
                runtime: match at(16)? {
                    0 => None,
                    1 => Some(Runtime::Perl),
                    2 => Some(Runtime::Text(text)),
                    3 => Some(Runtime::Python),
                    4 => Some(Runtime::Ruby),
                    _ => return None,
                },
                version: Version::default(),
            },
            settings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> Class {
        let program =
            Program::new("/srv/x.fcgi", &["-a".into()], [c"A=1"].into_iter().collect(), "/srv/", Some((1, 2)));
        Class {
            name: "fcgid /srv/x.fcgi".into(),
            module: "fcgid".into(),
            host: "www.example.org".into(),
            protocol: Protocol::FastCgi,
            concurrency: Concurrency::One,
            program: program.expect("a program").with_runtime(Runtime::Text("a = 'b'".into())),
            settings: PoolSettings {
                score: Some(Score { start: 1, end: 2, second: 1, limit: 10 }),
                lifetime: Some(Duration::from_secs(3600)),
                graceful: Some(Duration::from_secs(15)),
                ..PoolSettings::default()
            },
        }
    }

    #[test]
    fn a_class_arrives_as_it_was_sent() {
        let bytes = class().encode();
        assert_eq!(Class::decode(&bytes), Some(class()));
        for length in 0..bytes.len() {
            assert_eq!(Class::decode(&bytes[..length]), None, "{length}");
        }
        for index in 0..bytes.len() {
            for value in [0, 1, 0xff] {
                let mut broken = bytes.clone();
                broken[index] = value;
                // Whatever the result, it does not panic.
                let _ = Class::decode(&broken);
            }
        }
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let outcomes = [
            Outcome::Ready,
            Outcome::Closed,
            Outcome::Last,
            Outcome::Abandoned(vec![1, 2]),
            Outcome::Broken,
            Outcome::Failed,
            Outcome::Cut,
        ];
        let question = Question { came: 7, version: [1, 2, u64::MAX], class: b"xyz" };
        for message in outcomes.map(FromChild::Done).into_iter().chain([FromChild::Backend(question)]) {
            assert_eq!(FromChild::decode(&message.encode()), Some(message));
        }
        let grant = Grant { pid: Pid::own(), served: 7, queued: true, lease: 1, row: 2, place: u64::MAX, more: 3 };
        for message in [FromManager::Granted(grant), FromManager::Refused { status: 503, why: "why".into() }] {
            assert_eq!(FromManager::decode(&message.encode()), Some(message));
        }
        assert_eq!((FromChild::decode(&[]), FromChild::decode(&[9])), (None, None));
        assert_eq!((FromManager::decode(&[0, 1]), FromManager::decode(&[9])), (None, None));
    }
}

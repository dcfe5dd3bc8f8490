//! The messages between a child and a daemon. Both are the same program, so numbers are in the machine's own byte
//! order.
//!
//! The child begins with a command: its length, then numbers, then texts that end with 0. After that, each byte it
//! sends is the number of a signal for the script's group. The daemon sends [`Message`]s, all of the same length.

use std::ffi::{CStr, CString};
use std::io;
use std::time::Duration;

use sys::process::{Pid, Reaped, Status};
use sys::rlimit::{Bounds, Limit};
use sys::signal::Signal;

use crate::command::Command;
use crate::environment::Environment;

/// How long a daemon waits for a command to begin, and then for its rest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest command, in bytes: more than a request can make.
pub(crate) const COMMAND_MAX: usize = 16 << 20;
/// The length of a number.
const NUMBER: usize = size_of::<u64>();
/// The numbers at the beginning of a command, the one of its length first.
const NUMBERS: usize = 9;
/// The numbers of a message, and its length in bytes.
const MESSAGE_NUMBERS: usize = 6;
pub(crate) const MESSAGE: usize = MESSAGE_NUMBERS * NUMBER;

const LIMITS: [Limit; 3] = [Limit::Cpu, Limit::Memory, Limit::Processes];

/// A daemon's report on a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The script runs.
    Started {
        /// Its process.
        pid: Pid,
        /// When it was started, in nanoseconds of the monotonic clock.
        at: u64,
        /// An upper bound for that in clock ticks, as the system has it for each process.
        by: u64,
    },
    /// Could not be started: the error's number.
    Failed(i32),
    /// May not run as its owner: the reason, as a number.
    Refused(u64),
    /// The script has ended.
    Ended(Reaped),
}

fn number(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(index * NUMBER..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

/// The length of a whole command that begins with these bytes; `None` while that is unknown.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(number(bytes, 0)?).ok()
}

/// A command as bytes.
pub(crate) fn encode(command: &Command) -> Vec<u8> {
    let Command { program, directory, arguments, environment, limits, nicer, owner } = command;
    let (uid, gid) = owner.unwrap_or_default();
    let mut numbers: Vec<u64> = vec![
        0,
        arguments.len() as u64,
        environment.len() as u64,
        limits.len() as u64,
        u64::from(directory.is_some()),
        u64::from(owner.is_some()),
        uid.into(),
        gid.into(),
        (*nicer).into(),
    ];
    for (limit, bounds) in limits {
        let index = LIMITS.iter().position(|known| known == limit).unwrap_or(LIMITS.len());
        numbers.extend([index as u64, bounds.soft.unwrap_or(u64::MAX), bounds.hard.unwrap_or(u64::MAX)]);
    }
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
    for text in [program].into_iter().chain(directory).chain(arguments) {
        bytes.extend_from_slice(text.to_bytes_with_nul());
    }
    bytes.extend_from_slice(environment.as_bytes());
    let length = (bytes.len() as u64).to_ne_bytes();
    bytes[..NUMBER].copy_from_slice(&length);
    bytes
}

/// The command encoded in these bytes; `None` if they are invalid.
pub(crate) fn decode(bytes: &[u8]) -> Option<Command> {
    let count = |index: usize| number(bytes, index).and_then(|count| usize::try_from(count).ok());
    let (argc, envc, limitc) = (count(1)?, count(2)?, count(3)?);
    if limitc > LIMITS.len() {
        return None;
    }
    let owner = match number(bytes, 5)? {
        0 => None,
        _ => Some((u32::try_from(number(bytes, 6)?).ok()?, u32::try_from(number(bytes, 7)?).ok()?)),
    };
    let bound = |index: usize| number(bytes, index).map(|bound| Some(bound).filter(|bound| *bound != u64::MAX));
    let limit = |index: usize| {
        let at = NUMBERS + 3 * index;
        let limit = *LIMITS.get(count(at)?)?;
        Some((limit, Bounds { soft: bound(at + 1)?, hard: bound(at + 2)? }))
    };
    let nicer = u8::try_from(number(bytes, 8)?).ok()?;
    let limits = (0..limitc).map(limit).collect::<Option<Vec<_>>>()?;
    let mut rest = bytes.get((NUMBERS + 3 * limitc) * NUMBER..)?;
    let mut text = || {
        let text = CStr::from_bytes_until_nul(rest).ok()?;
        rest = &rest[text.to_bytes_with_nul().len()..];
        Some(CString::from(text))
    };
    let program = text()?;
    let directory = if number(bytes, 4)? == 0 { None } else { Some(text()?) };
    let arguments = (0..argc).map(|_| text()).collect::<Option<Vec<_>>>()?;
    let environment = Environment::from_bytes(rest).filter(|environment| environment.len() == envc)?;
    Some(Command { program, directory, arguments, environment, limits, nicer, owner })
}

impl Message {
    pub(crate) fn encode(&self) -> [u8; MESSAGE] {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let signed = |number: i32| u64::from(number.unsigned_abs());
        let numbers = match *self {
            Message::Started { pid, at, by } => [0, signed(pid.number()), at, by, 0, 0],
            Message::Failed(error) => [1, signed(error), 0, 0, 0, 0],
            Message::Refused(why) => [2, why, 0, 0, 0, 0],
            Message::Ended(Reaped { pid, status, user, system, max_rss }) => {
                let status = match status {
                    Status::Exited(status) => signed(status),
                    Status::Signaled { signal, core } => (1 << 8 | u64::from(core)) << 8 | signed(signal.number()),
                };
                [3, signed(pid.number()), status, micros(user), micros(system), max_rss]
            }
        };
        let mut bytes = [0; MESSAGE];
        for (place, number) in bytes.chunks_exact_mut(NUMBER).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; MESSAGE]) -> io::Result<Message> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let number = |index: usize| number(bytes, index).unwrap_or_default();
        let small = |number: u64| i32::try_from(number).map_err(|_| wrong());
        let pid = || small(number(1)).and_then(|pid| Pid::new(pid).ok_or_else(wrong));
        Ok(match number(0) {
            0 => Message::Started { pid: pid()?, at: number(2), by: number(3) },
            1 => Message::Failed(small(number(1))?),
            2 => Message::Refused(number(1)),
            3 => {
                let status = match number(2) {
                    exited if exited >> 16 == 0 => Status::Exited(small(exited)?),
                    signaled => Status::Signaled {
                        signal: Signal::new(small(signaled & 0xff)?).ok_or_else(wrong)?,
                        core: signaled >> 8 & 1 == 1,
                    },
                };
                let (user, system) = (Duration::from_micros(number(3)), Duration::from_micros(number(4)));
                Message::Ended(Reaped { pid: pid()?, status, user, system, max_rss: number(5) })
            }
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let text = |text: &str| CString::new(text).expect("no zero");
        Command {
            program: text("/srv/x"),
            directory: Some(text("/srv/")),
            arguments: vec![text("a"), text("")],
            environment: [c"A=1", c"B="].into_iter().collect(),
            limits: vec![(Limit::Memory, Bounds { soft: Some(5), hard: None })],
            nicer: 7,
            owner: Some((1000, 100)),
        }
    }

    #[test]
    fn a_command_arrives_as_it_was_sent() {
        for owner in [None, Some((1000, 100))] {
            for directory in [None, Some(c"/srv".to_owned())] {
                let command = Command { owner, directory, ..command() };
                let bytes = encode(&command);
                assert_eq!((length(&bytes), decode(&bytes)), (Some(bytes.len()), Some(command)));
            }
        }
    }

    #[test]
    fn malformed_commands_are_refused() {
        let bytes = encode(&command());
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        for index in 0..bytes.len() {
            for value in [0, 1, 0xff] {
                let mut broken = bytes.clone();
                broken[index] = value;
                // Whatever the result, it does not panic.
                let _ = decode(&broken);
            }
        }
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let pid = Pid::own();
        let statuses = [Status::Exited(0), Status::Exited(255), Status::Signaled { signal: Signal::KILL, core: true }];
        let time = Duration::from_micros(1_234_567);
        let ended =
            statuses.map(|status| Message::Ended(Reaped { pid, status, user: time, system: time, max_rss: 99 }));
        let others = [Message::Started { pid, at: 1 << 60, by: 7 }, Message::Failed(13), Message::Refused(9)];
        for message in others.into_iter().chain(ended) {
            let again = Message::decode(&message.encode()).expect("a message");
            assert_eq!(format!("{again:?}"), format!("{message:?}"));
        }
        assert!(Message::decode(&[0xff; MESSAGE]).is_err());
    }
}

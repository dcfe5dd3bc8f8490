//! The sessions of httperf: those of `--wsess`, all alike, and those of a file (`--wsesslog`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::values::seconds;
use crate::load::scenario::{Burst, Step};
use crate::machine::error::{Error, Result, read_text};

/// The number of sessions, their requests, and the pause between bursts.
#[derive(Clone, Copy, Debug)]
pub(super) struct UniformSessions {
    pub(super) count: u64,
    pub(super) calls: u64,
    pub(super) think: Duration,
}

/// The number of sessions, the pause between bursts that have none of their own, and the file.
#[derive(Clone, Debug)]
pub(super) struct SessionLog {
    pub(super) count: u64,
    pub(super) think: Duration,
    pub(super) file: PathBuf,
}

/// The most requests of all different sessions.
const STEPS_MAX: u64 = 1_000_000;

/// No pause.
const NONE: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

/// A page and what belongs to it, and how long the user looks at them.
type Page = (Vec<Arc<Step>>, Duration);

impl UniformSessions {
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "sessions are N,N,X: how many, of how many requests, and seconds between bursts".to_owned();
        let [count, calls, think] = text.split(',').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong);
        Ok(Self { count: number(count)?, calls: number(calls)?, think: seconds(think)? })
    }

    /// The different sessions of requests that take turns; each has `burst` of them between two pauses.
    ///
    /// # Errors
    /// The sessions have too many requests.
    pub(super) fn sessions(self, steps: &[Arc<Step>], burst: usize) -> Result<Vec<Vec<Burst>>> {
        turns(steps, self.calls)?
            .map(|calls| Ok(paced(calls.chunks(burst).map(|page| (page.to_vec(), self.think)))))
            .collect()
    }
}

/// Connections as sessions: each carries `calls` of the requests that take turns, `burst` at once.
///
/// # Errors
/// The sessions have too many requests.
pub(super) fn connections(steps: &[Arc<Step>], calls: u64, burst: usize) -> Result<Vec<Vec<Burst>>> {
    let at_once = |page: &[Arc<Step>]| Burst { steps: page.to_vec(), think: NONE };
    Ok(turns(steps, calls)?.map(|calls| calls.chunks(burst).map(at_once).collect()).collect())
}

/// The requests of all sessions until they begin with the first request again.
fn turns(steps: &[Arc<Step>], calls: u64) -> Result<impl Iterator<Item = Vec<Arc<Step>>>> {
    let (mut divisor, mut rest) = (steps.len() as u64, calls);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    let sessions = steps.len() as u64 / divisor.max(1);
    if calls.saturating_mul(sessions) > STEPS_MAX {
        let text = format!("{sessions} different sessions of {calls} requests are more than {STEPS_MAX} requests");
        return Err(Error::new(text)
            .advise("fewer requests in a session, or a number that divides that of the paths in the log"));
    }
    let mut all = steps.iter().cycle().cloned();
    Ok((0..sessions).map(move |_| all.by_ref().take(calls as usize).collect()))
}

/// Bursts with pauses between them. What belongs to a page is requested when the page has come.
fn paced(pages: impl Iterator<Item = Page>) -> Vec<Burst> {
    let mut bursts = Vec::new();
    for (mut steps, think) in pages {
        let parts = steps.split_off(steps.len().min(1));
        bursts.push(Burst { steps, think: NONE });
        bursts.extend((!parts.is_empty()).then_some(Burst { steps: parts, think: NONE }));
        bursts.last_mut().into_iter().for_each(|burst| burst.think = (think, think));
    }
    bursts.last_mut().into_iter().for_each(|last| last.think = NONE);
    bursts
}

impl SessionLog {
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let parts: Vec<&str> = text.splitn(3, ',').collect();
        let count = parts.first().and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        match (count, &parts[1..]) {
            (Some(count), [think, file]) if !file.is_empty() => {
                Ok(Self { count, think: seconds(think)?, file: file.into() })
            }
            _ => Err("sessions of a file are N,X,FILE: how many, seconds between bursts, and the file".to_owned()),
        }
    }

    /// Reads the sessions. `step` makes a request of method, path and body.
    ///
    /// # Errors
    /// The file cannot be read, or a line is wrong: names file and line.
    pub(super) fn sessions(
        &self,
        step: impl Fn(&str, &str, Option<String>) -> std::result::Result<Step, String>,
    ) -> Result<Vec<Vec<Burst>>> {
        let mut sessions: Vec<Vec<Page>> = vec![Vec::new()];
        for (number, line) in lines(&read_text(&self.file)?) {
            let Some(session) = sessions.last_mut() else { break };
            if line.trim().is_empty() {
                if !session.is_empty() {
                    sessions.push(Vec::new());
                }
                continue;
            }
            let read = Call::parse(line.trim()).and_then(|call| {
                let step = Arc::new(step(call.method, call.uri, call.contents)?);
                match session.last_mut().filter(|_| line.starts_with([' ', '\t'])) {
                    Some((steps, think)) => {
                        steps.push(step);
                        *think = call.think.unwrap_or(*think);
                    }
                    None => session.push((vec![step], call.think.unwrap_or(self.think))),
                }
                Ok(())
            });
            read.map_err(|why| Error::new(format!("{}:{number}: {why}", self.file.display())))?;
        }
        sessions.retain(|session| !session.is_empty());
        if sessions.is_empty() {
            return Err(Error::new(format!("{} has no sessions", self.file.display())).advise("a path on each line"));
        }
        Ok(sessions.into_iter().map(|pages| paced(pages.into_iter())).collect())
    }
}

/// Lines with their numbers, without comments. A backslash at the end of a line makes the next one a part of it.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => {
                before.push('\n');
                before.push_str(line);
            }
            None if line.starts_with('#') => continue,
            None => lines.push((at + 1, line.to_owned())),
        }
        goes_on = line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    }
    lines
}

/// A line of the file.
#[derive(Debug, PartialEq)]
struct Call<'l> {
    uri: &'l str,
    method: &'l str,
    think: Option<Duration>,
    contents: Option<String>,
}

impl<'l> Call<'l> {
    fn parse(line: &'l str) -> std::result::Result<Self, String> {
        let (uri, mut rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let mut call = Call { uri, method: "GET", think: None, contents: None };
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(call);
            }
            if let Some(text) = rest.strip_prefix("contents=") {
                let (contents, behind) = contents(text)?;
                (call.contents, rest) = (Some(contents), behind);
                continue;
            }
            let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            match word.split_once('=') {
                Some(("method", name)) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                    call.method = name;
                }
                Some(("think", time)) => call.think = Some(seconds(time)?),
                _ => return Err(format!("{word:?} is none of method=NAME, think=SECONDS and contents='TEXT'")),
            }
            rest = behind;
        }
    }
}

/// The text after `contents=`, in quotes or up to a blank, with the escapes of C, and what follows.
fn contents(text: &str) -> std::result::Result<(String, &str), String> {
    let quote = text.chars().next().filter(|char| matches!(char, '"' | '\''));
    let start = quote.map_or(0, char::len_utf8);
    let mut out = String::new();
    let mut chars = text[start..].char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            _ if quote == Some(char) => return Ok((out, &text[start + at + 1..])),
            _ if quote.is_none() && char.is_whitespace() => return Ok((out, &text[start + at..])),
            '\\' => out.push(match chars.next().map_or('\\', |(_, char)| char) {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                char => char,
            }),
            _ => out.push(char),
        }
    }
    match quote {
        Some(quote) => Err(format!("contents={text} has no closing {quote}")),
        None => Ok((out, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read() {
        let read = UniformSessions::parse("10,5,0.1").unwrap();
        assert_eq!((read.count, read.calls, read.think), (10, 5, Duration::from_millis(100)));
        assert!(["10,5", "0,5,1", "a,5,1", "1,1,x"].into_iter().all(|text| UniformSessions::parse(text).is_err()));
        let read = SessionLog::parse("2,0.5,a,b").unwrap();
        assert_eq!((read.count, read.think, read.file), (2, Duration::from_millis(500), "a,b".into()));
        assert!(["1,2", "0,1,x", "1,x,y", "1,2,", ""].into_iter().all(|text| SessionLog::parse(text).is_err()));
    }

    #[test]
    fn lines_are_calls() {
        let lines = lines("# a\n/a think=2.0\n\n  /b contents='x\\\ny' method=POST\n/c\\\\\n/d");
        let numbers: Vec<usize> = lines.iter().map(|line| line.0).collect();
        assert_eq!(numbers, [2, 3, 4, 6, 7]);
        let call = Call::parse(lines[2].1.trim()).unwrap();
        assert_eq!((call.uri, call.method, call.contents.as_deref()), ("/b", "POST", Some("x\ny")));
        assert_eq!(Call::parse(&lines[0].1).unwrap().think, Some(Duration::from_secs(2)));
        let contents = |text: &str| Call::parse(&format!("/ contents={text}")).map(|call| call.contents.unwrap());
        assert_eq!(contents(r#""a\nb\\c\td\"" think=1"#).as_deref(), Ok("a\nb\\c\td\""));
        assert_eq!(contents(r"'it\'s' method=PUT").as_deref(), Ok("it's"));
        assert_eq!(contents("abc think=0").as_deref(), Ok("abc"));
        assert!(contents("'abc").unwrap_err().contains("no closing '"));
        for line in ["/ foo=1", "/ foo", "/ method=get", "/ think=x", "/ contents='a'b"] {
            assert!(Call::parse(line).is_err(), "{line}");
        }
    }
}

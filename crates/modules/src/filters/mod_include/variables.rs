//! The variables of a page, shared with the pages it includes.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use server::fields::Value;
use server::paths::base_name;
use server::{Fields, Request};

use super::settings::{IncludeDir, TIME_FORMAT};

/// Stands for a value that is computed on demand: dates, and the name of a user.
const LATER: &str = "\0";
const DATES: [&str; 3] = ["DATE_LOCAL", "DATE_GMT", "LAST_MODIFIED"];
/// The name of a user without one.
const UNKNOWN: &str = "<unknown>";
const USER_NAME: &str = "USER_NAME";

/// The most that the variables of a page may hold, in bytes, with those of the pages in it. Each program that the page starts
/// gets a copy.
pub(super) const VARIABLES_MAX: usize = 1 << 20;

/// The variables of the page that a client requested, and of everything in it.
pub(super) struct Variables {
    state: Mutex<State>,
    /// When the page's file was changed, in seconds; included files do not count.
    modified: i64,
}

struct State {
    /// Stands for the requested page; `None` while its environment is being made.
    base: Option<Box<Request>>,
    /// Takes precedence over the environment of the request; complete, once that was made.
    set: Fields,
    is_whole: bool,
    /// The number of changes so far.
    changes: u64,
    /// The bytes of the names and values that pages have set.
    held: usize,
}

impl State {
    fn set(&mut self, name: &str, value: String) {
        self.set.set(name.to_string(), value);
        self.changes += 1;
    }

    fn environment(&self) -> Fields {
        let mut all = match &self.base {
            Some(base) if !self.is_whole => {
                let mut all = base.env.clone();
                for (name, _) in self.set.iter() {
                    all.remove(name);
                }
                all
            }
            _ => Fields::default(),
        };
        all.extend(&self.set);
        for name in DATES.iter().chain(&[USER_NAME]) {
            if all.get(name) == Some(LATER) {
                all.set(*name, Value::Static(""));
            }
        }
        all
    }
}

impl Variables {
    /// The initial variables of a page.
    pub(super) fn of(request: &Request) -> Variables {
        let mut set = Fields::default();
        for name in &DATES[..2] {
            set.add(*name, Value::Static(LATER));
        }
        set.add(DATES[2], Value::Static(LATER));
        set.add("DOCUMENT_URI", &request.data.uri);
        set.add("DOCUMENT_ARGS", request.data.args.as_deref().unwrap_or_default());
        if !request.mapped.path_info.is_empty() {
            set.add("DOCUMENT_PATH_INFO", &request.mapped.path_info);
        }
        set.add(USER_NAME, Value::Static(LATER));
        let file = &request.mapped.filename;
        set.add("DOCUMENT_NAME", if file.contains('/') { base_name(file) } else { &request.data.uri });
        let modified = request.mapped.stat.map_or(0, |meta| meta.mtime.div_euclid(1_000_000_000) as i64);
        let state = State { base: Some(request.stand_in()), set, is_whole: false, changes: 0, held: 0 };
        Variables { state: Mutex::new(state), modified }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, name: &str, value: String) {
        self.lock().set(name, value);
    }

    /// Sets a variable as the page says. `false`: then the page would hold more than it may.
    pub(super) fn set_by_page(&self, name: &str, value: String) -> bool {
        let mut state = self.lock();
        let before = state.set.get(name).map_or(0, |value| name.len() + value.len());
        let held = state.held.saturating_sub(before) + name.len() + value.len();
        if held <= VARIABLES_MAX {
            state.held = held;
            state.set(name, value);
        }
        held <= VARIABLES_MAX
    }

    /// Sets the variables about the query of a page.
    pub(super) fn set_query(&self, args: &str) {
        let unescaped = http::uri::unescape_lenient(&http::text::to_bytes(args)).into_owned();
        let mut shell = Vec::with_capacity(unescaped.len());
        // Apache's ap_escape_shell_cmd.
        for byte in unescaped.split(|byte| *byte == 0).next().unwrap_or_default() {
            if b"&;`'\"|*?~<>^()[]{}$\\\n".contains(byte) {
                shell.push(b'\\');
            }
            shell.push(*byte);
        }
        self.set("QUERY_STRING", args.to_string());
        self.set("QUERY_STRING_UNESCAPED", http::text::from_bytes(&shell).into_owned());
    }

    /// `config timefmt`: from now on dates use this format.
    pub(super) fn set_dates(&self, page: &Request, format: &str) {
        for name in DATES {
            self.set(name, self.date(page, name, format));
        }
    }

    /// The value of a variable, if it has one.
    pub(super) async fn get(&self, page: &Request, name: &str) -> Option<String> {
        if !self.lock().set.contains(name) {
            self.complete().await;
        }
        let value = self.lock().set.get(name)?.to_string();
        if value != LATER {
            return Some(value);
        }
        let value = self.found_out(page, name).await;
        self.set(name, value.clone());
        Some(value)
    }

    /// Computes the values of those that a text names.
    pub(super) async fn find_out_those_in(&self, page: &Request, text: &str) {
        for name in DATES.iter().chain(&[USER_NAME]).filter(|name| text.contains(**name)) {
            self.get(page, name).await;
        }
    }

    /// All of them, as the environment of a program that the page starts. As in Apache, values not computed yet are
    /// empty.
    pub(super) fn environment(&self) -> Fields {
        self.lock().environment()
    }

    /// The environment for a page that has seen it after `seen` changes; `None` if nothing has changed since.
    pub(super) fn environment_since(&self, seen: &mut Option<u64>) -> Option<Fields> {
        let state = self.lock();
        (seen.replace(state.changes) != Some(state.changes)).then(|| state.environment())
    }

    /// All of them, with their values.
    pub(super) async fn all(&self, page: &Request) -> Vec<(String, String)> {
        self.complete().await;
        let names: Vec<String> = self.lock().set.iter().map(|(name, _)| name.to_string()).collect();
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            let value = self.get(page, &name).await.unwrap_or_default();
            all.push((name, value));
        }
        all
    }

    /// Adds a script's variables: most pages do not need them.
    pub(super) async fn complete(&self) {
        let base = match &mut *self.lock() {
            state if state.is_whole => None,
            state => state.base.take(),
        };
        let Some(mut base) = base else { return };
        gateway::env::add(&mut base).await;
        let mut state = self.lock();
        let mut all = base.env.clone();
        for (name, value) in state.set.iter() {
            all.set(name.to_string(), value);
        }
        (state.set, state.is_whole, state.base) = (all, true, Some(base));
        state.changes += 1;
    }

    async fn found_out(&self, page: &Request, name: &str) -> String {
        if name.eq_ignore_ascii_case(USER_NAME) {
            let Some(meta) = page.mapped.stat else { return UNKNOWN.into() };
            let user =
                runtime::offload(runtime::Load::Resolve, move || sys::cred::user_by_id(meta.uid).ok().flatten()).await;
            return user.map_or_else(|| UNKNOWN.into(), |user| user.name);
        }
        let format = page.dir::<IncludeDir>().time_format.get().map_or(TIME_FORMAT, String::as_str);
        self.date(page, name, format)
    }

    fn date(&self, page: &Request, name: &str, format: &str) -> String {
        let now = page.time().as_secs() as i64;
        let is_gmt = name.eq_ignore_ascii_case(DATES[1]);
        written(if name.eq_ignore_ascii_case(DATES[2]) { self.modified } else { now }, format, is_gmt)
    }
}

/// A moment in the format of strftime(3).
pub(super) fn written(seconds: i64, format: &str, is_gmt: bool) -> String {
    let format = CString::new(http::text::to_bytes(format)).unwrap_or_default();
    let mut out = Vec::new();
    match is_gmt {
        true => sys::time::strftime_utc(&mut out, &format, seconds),
        false => sys::time::strftime(&mut out, &format, seconds),
    }
    http::text::from_bytes(&out).into_owned()
}

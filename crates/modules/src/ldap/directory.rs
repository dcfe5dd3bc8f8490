//! A request's view of a directory: the counterpart of Apache's util_ldap for mod_authnz_ldap.
//!
//! Apache manual: mod_ldap; results and reasons measured on 2.4.71.

use std::ops::ControlFlow;
use std::sync::Arc;

use conf::Level;
use runtime::executor::sleep;
use runtime::release_worker;
use server::Request;
use upstream::Address;

use super::cache::{self, COMPARES, SEARCHES};
use super::code::Code;
use super::connection::{Connection, Identity, Response};
use super::filter::Filter;
pub(crate) use super::message::{Aliases, Scope, Search};
use super::message::{Entry, Question};
use super::mod_ldap::{Limits, limits};
use super::{pool, referral};
use crate::shared_cache::Key;
use crate::slots::Slot;

/// The part of the directory that a section queries.
#[derive(Clone, Debug)]
pub(crate) struct SearchBase {
    /// The URL as configured: cached results belong to it.
    pub(crate) url: String,
    pub(crate) hosts: Arc<[Address]>,
    pub(crate) base: String,
    pub(crate) scope: Scope,
    pub(crate) aliases: Aliases,
    /// The attributes in the URL.
    pub(crate) attributes: Vec<String>,
}

/// A user in the directory: the name of the entry, and the values of the URL's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) dn: String,
    pub(crate) values: Vec<String>,
}

/// How a query has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    /// The reason, in Apache's words.
    pub(crate) reason: &'static str,
}

impl Status {
    const fn new(code: Code, reason: &'static str) -> Status {
        Status { code, reason }
    }
}

/// A directory's answer to a search.
struct SearchResult {
    entries: Vec<Entry>,
    /// The latest reason, which says how the connection was opened.
    reason: &'static str,
}

/// The members of a group that are groups.
struct Subgroups {
    names: Vec<String>,
    /// The latest reason.
    reason: &'static str,
}

/// Nested groups: the attribute with their names, the classes that make an entry a group, and the maximum depth.
#[derive(Clone, Debug)]
pub(crate) struct Groups<'a> {
    pub(crate) attributes: &'a [String],
    pub(crate) classes: &'a [String],
    pub(crate) depth: i64,
}

/// The reasons why a query has no answer, in Apache's words.
#[derive(Clone, Copy)]
struct NoAnswer {
    /// The server closes the connection.
    down: &'static str,
    /// The server does not answer in time.
    timeout: &'static str,
}

/// A walk through nested groups.
struct GroupWalk<'a> {
    root: &'a str,
    attribute: &'a str,
    value: &'a str,
    groups: &'a Groups<'a>,
    /// The groups that were examined, or will be.
    seen: Vec<String>,
    /// The result for the last group.
    last: Code,
    /// The latest reason; as in Apache it may be that of a later query than the result.
    reason: &'static str,
    /// The last result that does not tell whether a group has the value.
    unsure: Option<Code>,
}

impl GroupWalk<'_> {
    fn note_unsure(&mut self, code: Code) {
        if code.is_unsure() {
            self.unsure = Some(code);
        }
    }
}

/// The most groups examined for one line: whoever writes them could keep the directory busy.
const GROUPS_MAX: usize = 1000;

/// The kinds of cached results.
#[derive(Clone, Copy)]
#[repr(u8)]
enum CacheKind {
    Found = 1,
    Compared,
    SameDn,
    Subgroups,
}

/// A directory queried as an identity. It has a connection while one is needed.
pub(crate) struct Directory<'a> {
    request: &'a Request,
    search_base: &'a SearchBase,
    identity: Identity,
    limits: Limits,
    connection: Option<Connection>,
    /// The right to query at all.
    slot: Option<Slot>,
}

impl Drop for Directory<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.limits.is_pooled() {
            pool::give(self.search_base.hosts.clone(), connection);
        } else {
            connection.close();
        }
    }
}

impl<'a> Directory<'a> {
    /// Queries as this identity; anonymous without a name.
    pub(crate) fn new(request: &'a Request, search_base: &'a SearchBase, identity: Identity) -> Directory<'a> {
        Directory { request, search_base, identity, limits: limits(request), connection: None, slot: None }
    }

    /// Gets a connection bound as the identity. Returns how, in Apache's words.
    async fn open(&mut self) -> Result<&'static str, Status> {
        const FAILED: &str = "LDAP: ldap_simple_bind() failed";
        if self.slot.is_none() {
            self.slot = pool::ASKING.take();
        }
        if self.slot.is_none() {
            self.request.log("ldap", Level::Error, "a directory is not asked: too many requests are asking already");
            return Err(Status::new(Code::TOO_MANY, "LDAP: no turn"));
        }
        if self.connection.is_none() && self.limits.is_pooled() {
            self.connection = pool::take(&self.search_base.hosts, &self.identity, self.limits.idle);
        }
        let mut failures = 0;
        loop {
            if self.connection.as_ref().is_some_and(|one| one.bound.as_ref() == Some(&self.identity)) {
                return Ok("LDAP: connection open successful (already bound)");
            }
            let is_reused = self.connection.is_some();
            let identity = self.identity.clone();
            let code = match self.bind(&identity).await {
                Ok(Code::SUCCESS) => {
                    self.connection.iter_mut().for_each(|one| one.bound = Some(identity.clone()));
                    return Ok("LDAP: connection open successful");
                }
                Ok(code) | Err(code) => code,
            };
            self.connection = None;
            failures += 1;
            let text = match code {
                Code::SERVER_DOWN => format!("ldap_simple_bind() failed with server down (try {failures})"),
                Code::TIMEOUT if is_reused => {
                    let text = "AH01284: ldap_simple_bind() timed out on reused connection, dropped by firewall?";
                    self.request.log("ldap", Level::Error, text);
                    text.into()
                }
                _ => return Err(Status::new(code, FAILED)),
            };
            self.request.log("ldap", Level::Trace2, text);
            if failures > self.limits.retries {
                return Err(Status::new(code, FAILED));
            }
            self.pause().await;
        }
    }

    /// Waits before the next attempt (`LDAPRetryDelay`).
    async fn pause(&self) {
        if !self.limits.delay.is_zero() {
            release_worker(sleep(self.limits.delay)).await;
        }
    }

    /// Binds. `Err`: there is no connection, or no longer.
    async fn bind(&mut self, identity: &Identity) -> Result<Code, Code> {
        if self.connection.is_none() {
            let open = release_worker(Box::pin(Connection::open(&self.search_base.hosts, self.limits.connect))).await;
            match open {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => {
                    let hosts: Vec<String> = self.search_base.hosts.iter().map(ToString::to_string).collect();
                    let text = format!("cannot connect to the directory at {}", hosts.join(" "));
                    self.request.log_os("ldap", Level::Debug, &error, text);
                    return Err(Code::SERVER_DOWN);
                }
            }
        }
        self.connection.iter_mut().for_each(|one| one.bound = None);
        let (dn, password) = identity;
        let (code, _) = self.exchange(&Question::Bind { dn, password }).await?;
        Ok(code)
    }

    /// Queries over the connection, which is lost on failure, or if nobody waits for the answer any more.
    async fn exchange(&mut self, question: &Question<'_>) -> Result<(Code, Response), Code> {
        let mut connection = self.connection.take().ok_or(Code::SERVER_DOWN)?;
        let result = release_worker(Box::pin(connection.exchange(question, self.limits.operation))).await;
        if result.is_ok() {
            self.connection = Some(connection);
        }
        result
    }

    /// Queries, with the configured number of retries after a lost connection, and follows referrals. The reason in the
    /// status of an answer says how the connection was opened.
    async fn ask_again(&mut self, question: &Question<'_>, no_answer: NoAnswer) -> Result<(Status, Response), Status> {
        let mut failures = 0;
        loop {
            let reason = Box::pin(self.open()).await?;
            let (code, response) = match self.exchange(question).await {
                Ok(answered) => answered,
                Err(Code::SERVER_DOWN) => {
                    failures += 1;
                    if failures > self.limits.retries {
                        return Err(Status::new(Code::SERVER_DOWN, no_answer.down));
                    }
                    self.pause().await;
                    continue;
                }
                Err(Code::TIMEOUT) => return Err(Status::new(Code::TIMEOUT, no_answer.timeout)),
                Err(code) => return Err(Status::new(code, no_answer.down)),
            };
            let followed = referral::follow(self.request, &self.identity, &self.limits, question, code, response);
            let (code, response) = Box::pin(followed).await;
            return Ok((Status::new(code, reason), response));
        }
    }

    /// The entries found by a search. `failed` is the reason if the server answers with an error.
    async fn search(
        &mut self,
        search: &Search<'_>,
        no_answer: NoAnswer,
        failed: &'static str,
    ) -> Result<SearchResult, Status> {
        let (Status { code, reason }, response) =
            Box::pin(self.ask_again(&Question::Search(search), no_answer)).await?;
        match code {
            // There are more than wanted, which is enough to know.
            Code::SUCCESS | Code::SIZE_LIMIT => Ok(SearchResult { entries: response.entries, reason }),
            code => Err(Status::new(code, failed)),
        }
    }

    /// The only entry that matches a filter.
    async fn find_one(&mut self, filter: &str) -> Result<Found, Status> {
        const FAILED: &str = "ldap_search_ext_s() for user failed";
        // In Apache's order: without a connection the filter is not examined.
        Box::pin(self.open()).await?;
        let Some(filter) = Filter::parse(filter) else { return Err(Status::new(Code::FILTER_ERROR, FAILED)) };
        let search_base = self.search_base;
        let search = Search {
            base: &search_base.base,
            scope: search_base.scope,
            aliases: search_base.aliases,
            filter: &filter,
            attributes: &search_base.attributes,
            most: 2,
            seconds: self.limits.seconds(),
        };
        let no_answer = NoAnswer {
            down: "ldap_search_ext_s() for user failed with server down",
            timeout: "ldap_search_ext_s() for user failed with timeout",
        };
        let entries = self.search(&search, no_answer, FAILED).await?.entries;
        match &entries[..] {
            [entry] => {
                let values = search_base.attributes.iter().map(|name| entry.values(name).join("; ")).collect();
                Ok(Found { dn: entry.dn.clone(), values })
            }
            [] => Err(Status::new(Code::NO_SUCH_OBJECT, "User not found")),
            _ => Err(Status::new(Code::NO_SUCH_OBJECT, "User is not unique (search found two or more matches)")),
        }
    }

    /// Finds a user, and checks the password.
    pub(crate) async fn check_user(&mut self, filter: &str, password: &[u8]) -> Result<Found, Status> {
        if let Some((found, mark)) = self.recall(filter)
            && cache::is_mark_of(&mark, password)
        {
            return Ok(found);
        }
        let mut failures = 0;
        loop {
            let found = self.find_one(filter).await?;
            // A bind without a password is anonymous, and succeeds (RFC 4513 section 5.1.2).
            if password.is_empty() {
                return Err(Status::new(Code::INVALID_CREDENTIALS, "Empty password not allowed"));
            }
            let bound = self.bind(&(found.dn.clone(), password.to_vec())).await;
            match bound {
                Ok(Code::SUCCESS) => {
                    self.remember(filter, &found, &cache::mark(password));
                    return Ok(found);
                }
                Ok(code) => {
                    return Err(Status::new(code, "ldap_simple_bind() to check user credentials failed"));
                }
                Err(code) => {
                    let once = if code == Code::TIMEOUT { 0 } else { self.limits.retries };
                    failures += 1;
                    if failures > once.max(1).min(self.limits.retries) {
                        let reason = match code {
                            Code::TIMEOUT => "ldap_simple_bind() to check user credentials timed out",
                            _ => "ldap_simple_bind() to check user credentials failed with server down",
                        };
                        return Err(Status::new(code, reason));
                    }
                    self.pause().await;
                }
            }
        }
    }

    /// Finds a user.
    pub(crate) async fn find_user(&mut self, filter: &str) -> Result<Found, Status> {
        if let Some((found, _)) = self.recall(filter) {
            return Ok(found);
        }
        let found = self.find_one(filter).await?;
        self.remember(filter, &found, &[]);
        Ok(found)
    }

    /// The cache key: the directory's answers to this identity under this URL.
    fn key(&self, words: &[&str], kind: CacheKind) -> Key {
        let attributes = self.search_base.attributes.join(",");
        let aliases = format!("{:?}", self.search_base.aliases);
        let own = [&*self.search_base.url, &*self.identity.0, &*attributes, &*aliases];
        Key::of(&own.iter().chain(words).copied().collect::<Vec<_>>(), kind as u8)
    }

    fn recall(&self, filter: &str) -> Option<(Found, Vec<u8>)> {
        let kept = SEARCHES.get(&self.key(&[filter], CacheKind::Found))?;
        let (&length, rest) = kept.split_first()?;
        let (mark, texts) = rest.split_at_checked(usize::from(length))?;
        let mut texts = cache::divided(texts)?.into_iter();
        Some((Found { dn: texts.next()?, values: texts.collect() }, mark.to_vec()))
    }

    fn remember(&self, filter: &str, found: &Found, mark: &[u8]) {
        const { assert!(cache::MARK < 256) };
        let texts: Vec<&str> = std::iter::once(&*found.dn).chain(found.values.iter().map(String::as_str)).collect();
        let kept = [&[mark.len() as u8], mark, &cache::joined(&texts)].concat();
        SEARCHES.put(&self.key(&[filter], CacheKind::Found), &kept, self.limits.found_for);
    }

    /// Whether an attribute of an entry has a value.
    pub(crate) async fn compare(&mut self, dn: &str, attribute: &str, value: &str) -> Status {
        let key = self.key(&[dn, attribute, value], CacheKind::Compared);
        if let Some(code) = COMPARES.get(&key).and_then(|kept| Some(Code(i32::from_ne_bytes(kept.try_into().ok()?)))) {
            let reason = match code {
                Code::COMPARE_TRUE => "Comparison true (cached)",
                Code::COMPARE_FALSE => "Comparison false (cached)",
                _ => "Comparison no such attribute (cached)",
            };
            return Status::new(code, reason);
        }
        let no_answer = NoAnswer {
            down: "ldap_compare_s() failed with server down",
            timeout: "ldap_compare_s() failed with timeout",
        };
        let code = match Box::pin(self.ask_again(&Question::Compare { dn, attribute, value }, no_answer)).await {
            Ok((Status { code, .. }, _)) => code,
            Err(status) => return status,
        };
        let text = || format!("ldap_compare_s({dn}, {attribute}, {value}) = {}", code.text());
        if self.request.logs("ldap", Level::Trace5) {
            self.request.log("ldap", Level::Trace5, text());
        }
        let known = match code {
            Code::COMPARE_TRUE => Some("Comparison true (adding to cache)"),
            Code::COMPARE_FALSE => Some("Comparison false (adding to cache)"),
            Code::NO_SUCH_ATTRIBUTE => Some("Comparison no such attribute (adding to cache)"),
            _ => None,
        };
        if known.is_some() {
            COMPARES.put(&key, &code.0.to_ne_bytes(), self.limits.compared_for);
        }
        Status::new(code, known.filter(|_| COMPARES.is_there()).unwrap_or("Comparison complete"))
    }

    /// Whether two names belong to the same entry. `on_server`: the server provides the canonical form of the second.
    pub(crate) async fn compare_dn(&mut self, dn: &str, other: &str, on_server: bool) -> Status {
        if !on_server {
            return match dn == other {
                true => Status::new(Code::COMPARE_TRUE, "DN Comparison TRUE (direct strcmp())"),
                false => Status::new(Code::COMPARE_FALSE, "DN Comparison FALSE (direct strcmp())"),
            };
        }
        let key = self.key(&[dn, other], CacheKind::SameDn);
        if COMPARES.get(&key).is_some() {
            return Status::new(Code::COMPARE_TRUE, "DN Comparison TRUE (cached)");
        }
        let no_answer = NoAnswer {
            down: "DN Comparison ldap_search_ext_s() failed with server down",
            timeout: "DN Comparison ldap_search_ext_s() failed with timeout",
        };
        let failed = "DN Comparison ldap_search_ext_s() failed";
        let any = Filter::Present("objectClass".into());
        let entries = match self.search(&self.base_search(other, &any, &[]), no_answer, failed).await {
            Ok(answer) => answer.entries,
            Err(status) => return status,
        };
        if entries.first().is_some_and(|entry| entry.dn == dn) {
            COMPARES.put(&key, &[], self.limits.compared_for);
            Status::new(Code::COMPARE_TRUE, "DN Comparison TRUE (checked on server)")
        } else {
            Status::new(Code::COMPARE_FALSE, "DN Comparison FALSE (checked on server)")
        }
    }

    /// A search for one entry.
    fn base_search<'s>(&self, base: &'s str, filter: &'s Filter, attributes: &'s [String]) -> Search<'s> {
        let (scope, aliases) = (Scope::Base, self.search_base.aliases);
        Search { base, scope, aliases, filter, attributes, most: 1, seconds: self.limits.seconds() }
    }

    /// Whether a group has subgroups with this value, at any depth. Each group is examined once, the nearest first. If
    /// none has it and some could not be examined, returns the code of that failure.
    pub(crate) async fn compare_in_subgroups(
        &mut self,
        group: &str,
        attribute: &str,
        value: &str,
        groups: &Groups<'_>,
    ) -> Status {
        let seen = vec![group.to_string()];
        let mut level = seen.clone();
        let last = Code::COMPARE_FALSE;
        let mut walk = GroupWalk { root: group, attribute, value, groups, seen, last, reason: "", unsure: None };
        for depth in 1..=groups.depth {
            let mut next = Vec::new();
            for parent in &level {
                match Box::pin(self.subgroups(parent, groups)).await {
                    Ok(Subgroups { names, reason }) => {
                        walk.reason = reason;
                        match self.compare_level(&mut walk, names, depth).await {
                            ControlFlow::Continue(new) => next.extend(new),
                            ControlFlow::Break(status) => return status,
                        }
                    }
                    Err(status) if depth == 1 => return status,
                    Err(Status { code, reason }) => {
                        walk.reason = reason;
                        walk.note_unsure(code);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
        Status::new(walk.unsure.unwrap_or(walk.last), walk.reason)
    }

    /// Looks for the value in the groups of one level that are new; returns these if none has it. `Break`: the result of
    /// the whole walk.
    async fn compare_level(
        &mut self,
        walk: &mut GroupWalk<'_>,
        below: Vec<String>,
        depth: i64,
    ) -> ControlFlow<Status, Vec<String>> {
        let mut new = Vec::new();
        for dn in below {
            if walk.seen.contains(&dn) {
                continue;
            }
            if walk.seen.len() >= GROUPS_MAX {
                let text = format!("there are more than {GROUPS_MAX} groups in {}: the rest is ignored", walk.root);
                self.request.log("ldap", Level::Error, text);
                return ControlFlow::Break(Status::new(Code::OTHER, walk.reason));
            }
            walk.seen.push(dn.clone());
            let status = self.compare(&dn, walk.attribute, walk.value).await;
            let code = status.code;
            (walk.last, walk.reason) = (code, status.reason);
            walk.note_unsure(code);
            let (value, most) = (walk.value, walk.groups.depth);
            if code == Code::COMPARE_TRUE {
                let text = format!("AH01295: Found user {value} in a subgroup ({dn}) at level {depth} of {most}.");
                self.request.log("ldap", Level::Debug, text);
                return ControlFlow::Break(status);
            }
            let text = format!("AH01296: User {value} not found in subgroup ({dn}) at level {depth} of {most}.");
            self.request.log("ldap", Level::Debug, text);
            new.push(dn);
        }
        ControlFlow::Continue(new)
    }

    /// The groups that are members of a group. `Err`: it is not a group, or the answer is unknown.
    async fn subgroups(&mut self, group: &str, groups: &Groups<'_>) -> Result<Subgroups, Status> {
        let mut status = Status::new(Code::COMPARE_FALSE, "");
        for class in groups.classes {
            status = self.compare(group, "objectClass", class).await;
            if status.code == Code::COMPARE_TRUE {
                break;
            }
        }
        if status.code != Code::COMPARE_TRUE {
            return Err(Status::new(status.code, "DN failed group verification."));
        }
        let (attributes, classes) = (groups.attributes.join(","), groups.classes.join(","));
        let key = self.key(&[group, &attributes, &classes], CacheKind::Subgroups);
        if let Some(names) = COMPARES.get(&key).and_then(|kept| cache::divided(&kept)) {
            return Ok(Subgroups { names, reason: status.reason });
        }
        self.request.log("ldap", Level::Debug, format!("AH01289: no cached SGL for {group}, retrieving from LDAP"));
        let any = Filter::Present("objectClass".into());
        let no_answer = NoAnswer {
            down: "ldap_search_ext_s() for subgroups failed with server down",
            timeout: "ldap_search_ext_s() for subgroups failed with timeout",
        };
        let failed = "ldap_search_ext_s() for subgroups failed";
        let search = self.base_search(group, &any, groups.attributes);
        let SearchResult { entries, mut reason } = self.search(&search, no_answer, failed).await?;
        let mut names = Vec::new();
        let mut members = Vec::new();
        for (entry, name) in entries.iter().flat_map(|entry| groups.attributes.iter().map(move |name| (entry, name))) {
            members.extend_from_slice(entry.values(name));
        }
        for dn in &members {
            for class in groups.classes {
                let status = self.compare(dn, "objectClass", class).await;
                reason = status.reason;
                match status.code {
                    Code::COMPARE_TRUE => {
                        names.push(dn.clone());
                        break;
                    }
                    Code::SERVER_DOWN | Code::TIMEOUT => return Err(status),
                    _ => {}
                }
            }
        }
        if names.is_empty() {
            self.request.log("ldap", Level::Debug, format!("AH01290: no subgroups for {group}"));
        }
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        COMPARES.put(&key, &cache::joined(&texts), self.limits.compared_for);
        Ok(Subgroups { names, reason })
    }
}

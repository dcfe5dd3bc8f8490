//! Which member of a balancer gets a request: the one of its session, or else the one whose turn it is.
//!
//! Apache manual: mod_proxy_balancer and mod_lbmethod_byrequests, _bytraffic, _bybusyness. The order of members was measured on
//! 2.4.71.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use server::Request;
use sys::time::Instant;
use upstream::UnderWay;

use super::balancer::Balancer;
use super::by_heartbeat;
use super::member::Member;
use super::method::Method;
use super::status::Status;

impl Method {
    /// The one of these whose turn it is, and which counts that, if it `counts`.
    fn best<'m>(self, members: impl Iterator<Item = (usize, &'m Member)> + Clone, counts: bool) -> Option<usize> {
        let (index, member) = self.choose(members.clone())?;
        if counts && !matches!(self, Method::Traffic | Method::Heartbeat) {
            let factors = members.map(|(_, one)| (one, i64::from(one.factor())));
            let all = factors.fold(0, |all, (one, factor)| {
                one.add_arrears(factor);
                all + factor
            });
            member.add_arrears(-all);
        }
        Some(index)
    }

    /// The one of these whose turn it is.
    fn choose<'m>(self, mut members: impl Iterator<Item = (usize, &'m Member)> + Clone) -> Option<(usize, &'m Member)> {
        if self == Method::Heartbeat {
            let index = by_heartbeat::elect(members.clone())?;
            return members.find(|(one, _)| *one == index);
        }
        let arrears = |member: &Member| member.arrears() + i64::from(member.factor());
        let mut best: Option<(usize, &Member)> = None;
        for (index, member) in members {
            let is_better = |best: &Member| match self {
                Method::Requests | Method::Heartbeat => arrears(member) > arrears(best),
                Method::Traffic => traffic(member) < traffic(best),
                Method::Busyness => {
                    let (ours, theirs) = (member.tally.busy(), best.tally.busy());
                    ours < theirs || ours == theirs && arrears(member) > arrears(best)
                }
            };
            if best.is_none_or(|(_, best)| is_better(best)) {
                best = Some((index, member));
            }
        }
        best
    }
}

/// The bytes that a member has received and sent, for each hundredth of its share; rounded as in Apache.
fn traffic(member: &Member) -> u64 {
    let share = |bytes: u64| bytes / u64::from(member.factor().max(1));
    share(member.sent().load(Relaxed)) + share(member.received().load(Relaxed))
}

/// The session that a request belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The name of the cookie, or of the parameter of the path.
    pub(crate) name: String,
    /// The member's route.
    pub(crate) route: String,
}

/// The session of a request, by the parameter of its URL or by its cookie.
pub(crate) fn session(balancer: &Balancer, request: &Request, url: &str) -> Option<Session> {
    let sticky = balancer.sticky()?;
    let (cookie, parameter) = &*sticky;
    let delimiters: &[char] = if balancer.semicolons { &[';', '?', '&'] } else { &['?', '&'] };
    let (name, id) = match in_url(url, parameter, delimiters) {
        Some(id) => (parameter, id.to_string()),
        None => (cookie, in_cookies(&request.header_joined("Cookie")?, cookie)?.to_string()),
    };
    let route = match balancer.separator {
        Some(separator) => id.split_once(separator)?.1.to_string(),
        None => id,
    };
    (!route.is_empty()).then(|| Session { name: name.clone(), route })
}

/// The value of `name=value` anywhere in a URL.
fn in_url<'u>(url: &'u str, name: &str, delimiters: &[char]) -> Option<&'u str> {
    let mut rest = url;
    while let Some(at) = rest.find(name).filter(|_| !name.is_empty()) {
        let after = &rest[at + name.len()..];
        if let Some(value) = after.strip_prefix('=').filter(|value| !value.is_empty()) {
            // As in Apache, delimiters at the beginning do not count.
            return value.trim_start_matches(delimiters).split(delimiters).next().filter(|value| !value.is_empty());
        }
        rest = after;
    }
    None
}

/// The value of a cookie. As in Apache, its name may stand behind a blank, too.
fn in_cookies<'c>(cookies: &'c str, name: &str) -> Option<&'c str> {
    let starts = cookies.match_indices(name).filter(|_| !name.is_empty());
    let value = starts.filter_map(|(at, _)| {
        let before = cookies[..at].chars().next_back();
        let is_name = before.is_none_or(|c| matches!(c, ';' | ',') || c.is_ascii_whitespace());
        cookies[at + name.len()..].trim_ascii_start().strip_prefix('=').filter(|_| is_name)
    });
    value.map(|value| value.split([';', ',']).next().unwrap_or_default()).next()
}

impl Balancer {
    /// The member that a request of a session goes to: the session's own one, or the one that takes its place. `tried`: those that
    /// did not answer it.
    pub(crate) fn of_session(&self, route: &str, tried: &[usize]) -> Option<usize> {
        let _held = self.lock();
        let now = Instant::now();
        let of_route = |member: &&Member| member.route().as_deref() == Some(route);
        self.members().filter(of_route).for_each(|member| member.recover(now));
        let chosen = self.of_route(route, tried, now, self.count())?;
        if self.method() == Method::Requests {
            let mut all = 0;
            for member in self.members().filter(|member| member.status().is_usable()) {
                member.add_arrears(i64::from(member.factor()));
                all += i64::from(member.factor());
            }
            self.member(chosen).add_arrears(-all);
        }
        Some(chosen)
    }

    /// The usable member of a route, or of the route that takes its place, within so many steps: one that is no standby, if there
    /// is one.
    fn of_route(&self, route: &str, tried: &[usize], now: Instant, steps: usize) -> Option<usize> {
        let is_of_route = |member: &Member| member.route().as_deref() == Some(route);
        let is_standby = |index: &usize| self.member(*index).status().has(Status::STANDBY);
        let of_route = self.members().enumerate().filter(|(_, member)| is_of_route(member));
        let mut all: Vec<usize> = of_route.map(|(index, _)| index).collect();
        all.sort_by_key(is_standby);
        all.into_iter().find_map(|index| {
            let member = self.member(index);
            if member.status_at(now).is_usable() && !tried.contains(&index) {
                return Some(index);
            }
            let other = member.redirect().filter(|_| steps > 1)?;
            self.of_route(&other, tried, now, steps - 1)
        })
    }

    /// The member whose turn it is, of those that can get requests and did not fail to answer this one.
    pub(crate) fn elect(&self, tried: &[usize]) -> Option<usize> {
        let _held = self.lock();
        let now = Instant::now();
        self.members().for_each(|member| member.recover(now));
        self.first_of_sets(true, now, tried)
    }

    /// The member that the next request would get, if all goes well. Changes nothing.
    pub(super) fn foresee(&self, route: Option<&str>) -> Option<usize> {
        let now = Instant::now();
        if let Some(index) = route.and_then(|route| self.of_route(route, &[], now, self.count())) {
            return Some(index);
        }
        if route.is_some() && self.no_failover() { None } else { self.first_of_sets(false, now, &[]) }
    }

    /// The member whose turn it is, of the lowest set that has one. Whether it `counts` that.
    fn first_of_sets(&self, counts: bool, now: Instant, tried: &[usize]) -> Option<usize> {
        let numbers = || self.members().map(Member::set_number);
        let mut set = numbers().min()?;
        loop {
            if let Some(index) = self.best_of_set(set, counts, now, tried) {
                return Some(index);
            }
            set = numbers().filter(|number| *number > set).min()?;
        }
    }

    /// The member whose turn it is, of those of a set that can get a request. Standbys get it if no other does.
    fn best_of_set(&self, set: u8, counts: bool, now: Instant, tried: &[usize]) -> Option<usize> {
        let of_set = || self.members().enumerate().filter(move |(_, member)| member.set_number() == set);
        let is = |member: &Member, status| member.status_at(now).has(status);
        let is_free = |index: usize, member: &Member| {
            member.status_at(now).is_usable() && !is(member, Status::DRAINING) && !tried.contains(&index)
        };
        let is_usual = |member: &Member| !is(member, Status::SPARE) && !is(member, Status::STANDBY);
        let missing = of_set().filter(|(index, member)| is_usual(member) && !is_free(*index, member)).count();
        let usual = of_set().filter(|(index, member)| is_usual(member) && is_free(*index, member));
        let spares = of_set().filter(|(index, member)| is(member, Status::SPARE) && is_free(*index, member));
        let standbys = of_set().filter(|(index, member)| {
            is(member, Status::STANDBY) && !is(member, Status::SPARE) && is_free(*index, member)
        });
        let method = self.method();
        method.best(usual.chain(spares.take(missing)), counts).or_else(|| method.best(standbys, counts))
    }

    /// Gives all members another try if none is left. Returns whether it did.
    pub(crate) fn recover(&self) -> bool {
        let now = Instant::now();
        let is_out = |member: &Member| {
            member.recover(now);
            member.status().has(Status::IN_ERROR)
        };
        let force = self.force_recovery && self.count() > 0 && self.members().all(is_out);
        if force {
            self.members().for_each(|member| member.set(Status::IN_ERROR, false));
        }
        force
    }
}

/// A request on its way to a member. The member counts as busy with it as long as this lives.
#[derive(Debug)]
pub(crate) struct Election {
    balancer: Arc<Balancer>,
    index: usize,
    under_way: UnderWay,
}

impl Election {
    /// The member with this index gets the request.
    pub(crate) fn new(balancer: &Arc<Balancer>, index: usize) -> Election {
        let member = balancer.member(index);
        member.elected().fetch_add(1, Relaxed);
        Election { balancer: balancer.clone(), index, under_way: member.tally.begin() }
    }

    pub(crate) fn member(&self) -> &Member {
        self.balancer.member(self.index)
    }

    /// Its request.
    pub(super) fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Counts bytes of the request.
    pub(crate) fn sent(&self, bytes: u64) {
        self.member().sent().fetch_add(bytes, Relaxed);
    }

    /// Counts bytes of the response.
    pub(crate) fn received(&self, bytes: u64) {
        self.member().received().fetch_add(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_sessions() {
        let usual = &['?', '&'];
        assert_eq!(in_url("balancer://x/a;sid=1.a?b", "sid", usual), Some("1.a"));
        assert_eq!(in_url("balancer://x/a?sid=1.a&c=d", "sid", usual), Some("1.a"));
        assert_eq!(in_url("balancer://x/sid/a;sid=1.a;q", "sid", &[';', '?', '&']), Some("1.a"));
        assert_eq!(in_url("balancer://x/a;sid=1.a;q", "sid", usual), Some("1.a;q"));
        assert_eq!(in_url("balancer://x/a;sid=", "sid", usual), None);
        assert_eq!(in_url("balancer://x/a", "", usual), None);
        assert_eq!(in_cookies("a=b; SID=foo.r2; c", "SID"), Some("foo.r2"));
        assert_eq!(in_cookies("XSID=1; SID = x.a", "SID"), Some(" x.a"));
        assert_eq!(in_cookies("foo SID=x.b", "SID"), Some("x.b"));
        assert_eq!(in_cookies("a=b", "SID"), None);
    }
}

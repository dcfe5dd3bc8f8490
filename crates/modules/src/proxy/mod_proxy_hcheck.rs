//! Health checks: a process of its own asks the members of balancers whether they work, and takes those out that do not.
//!
//! Apache manual: mod_proxy_hcheck. Unlike in Apache, the path of a check is joined to the member's with one slash, and a check
//! takes no longer than the member may take to answer a request.

mod check;
mod response;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use conf::directive::Args::{Raw, Take1, Words};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, row};
use runtime::HelperProcess;
use runtime::executor::sleep;
use server::{HelperHook, Hook, Module, Server};
use sys::cred::Identity;
use sys::event_loop::EventLoop;
use sys::signal_fd::SignalFd;
use sys::time::Instant;
use sys::watch::{Interest, watch};

use self::check::Failure;
use super::mod_proxy::{Balancer, Member, Status, add_health_expr, add_health_template, all, has_checks};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_hcheck_module", source: "mod_proxy_hcheck.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::HelperProcess(&HELPER)],
};

/// As in Apache, though a line counts only before the server starts.
const ANYWHERE: Allowed = Allowed::FILEINFO.or(Allowed::KEPT_NOWHERE);

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ProxyHCTemplate", ANYWHERE, Words(add_health_template), "", "Health check template").differs("Not in `.htaccess`."),
    row("ProxyHCExpr", ANYWHERE, Raw(add_health_expr), "", "Define a health check condition ruleset expression").differs("Not in `.htaccess`."),
    row("ProxyHCTPsize", Allowed::GLOBAL, Take1(check_size), "16", "Set size of health check thread pool").without_effect("One thread makes all checks, sixteen at the same moment."),
];

fn check_size(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        0.. => Ok(()),
        _ => Err("Invalid ProxyHCTPsize parameter. Parameter must be >= 0".into()),
    }
}

static HELPER: HelperHook = helper;

/// Starts the process if a member is to be checked, now or later.
fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    if !has_checks(server) {
        return Ok(None);
    }
    let balancers = all(server);
    Ok(Some(HelperProcess {
        name: "health checks",
        count: 1,
        privileged: false,
        starts_scripts: false,
        life: Box::new(move |orders| EventLoop::new(|| ())?.run(live(&balancers, orders))?),
    }))
}

/// Checks until an order from the parent arrives.
async fn live(balancers: &[Arc<Balancer>], orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let members = balancers.iter().flat_map(|balancer| (0..balancer.count_max()).map(move |index| (balancer, index)));
    let mut all: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for (number, (balancer, index)) in members.enumerate() {
        // Not all at once, if there are many.
        let delay = APART * u32::try_from(number / AT_ONCE).unwrap_or(u32::MAX);
        all.push(Box::pin(watch_over(balancer, index, delay)));
    }
    let mut order =
        pin!(poll_fn(|cx| match order.poll_read_ready(cx).is_ready() && matches!(orders.read(), Ok(Some(_))) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }));
    poll_fn(|cx| {
        let ordered = order.as_mut().poll(cx);
        if ordered.is_pending() {
            all.iter_mut().for_each(|one| {
                let _ = one.as_mut().poll(cx);
            });
        }
        ordered
    })
    .await;
    Ok(())
}

/// How many members are checked at the same moment, and how far apart the others are.
const AT_ONCE: usize = 16;
const APART: Duration = Duration::from_millis(100);

/// How often to look whether the page has changed how a member is checked, or added it.
const LOOK: Duration = Duration::from_secs(1);

/// Checks the member with this index again and again, once there is one.
async fn watch_over(balancer: &Balancer, index: usize, delay: Duration) {
    let (mut passed, mut failed) = (0, 0);
    sleep(delay).await;
    while index >= balancer.count() {
        sleep(LOOK).await;
    }
    let member = balancer.member(index);
    loop {
        let health = member.health();
        if let (Some(method), false) = (health.method(), member.status().has(Status::STOPPED)) {
            let result = check::check(member, &health, method).await;
            let is_out = member.status().has(Status::UNHEALTHY);
            let (name, url) = (balancer.url(), &member.url);
            match result {
                Ok(()) => {
                    (passed, failed) = (passed + 1, 0);
                    if is_out && passed >= health.passes() {
                        passed = 0;
                        member.set(Status::UNHEALTHY, false);
                        member.set(Status::IN_ERROR, false);
                        runtime::log!("proxy_hcheck", Info, "AH03302: {name}: Health check ENABLING {url}");
                    }
                }
                Err(Failure::Member(why)) => {
                    (passed, failed) = (0, failed + 1);
                    if !is_out && failed >= health.fails() {
                        failed = 0;
                        member.set(Status::UNHEALTHY, true);
                        runtime::log!("proxy_hcheck", Warn, "AH03303: {name}: Health check DISABLING {url}: {why}");
                    }
                }
                Err(Failure::Shortage(why)) => {
                    runtime::log!("proxy_hcheck", Error, "{name}: {url} is not checked: {why}")
                }
            }
        }
        wait(member).await;
    }
}

/// Waits until a member that has just been checked is to be checked again, or might be.
async fn wait(member: &Member) {
    let began = Instant::now();
    loop {
        let health = member.health();
        let left = match health.method() {
            Some(_) => health.interval().saturating_sub(began.elapsed()),
            None => LOOK.saturating_sub(began.elapsed()),
        };
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK)).await;
    }
}

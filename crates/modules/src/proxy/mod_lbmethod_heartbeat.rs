//! Balances by what the members say about themselves: the more workers of one wait, the more requests it gets.
//!
//! Apache manual: mod_lbmethod_heartbeat. If this server hears the members itself (mod_heartmonitor), it knows what they say. Otherwise
//! another program writes a file, which a process of its own reads.

use std::future::poll_fn;
use std::io::{self, Read};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use conf::directive::Args::Take1;
use conf::{Allowed, Directive, ModuleInfo, row};
use runtime::HelperProcess;
use runtime::executor::sleep;
use server::{HelperHook, Hook, Module, Server};
use sys::cred::Identity;
use sys::event_loop::EventLoop;
use sys::signal_fd::SignalFd;
use sys::watch::{Interest, watch};

use super::mod_proxy::{Method, all};
use crate::cluster::heartbeats::{Heartbeat, listens, note, set_storage, share, storage};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "lbmethod_heartbeat_module",
        source: "mod_lbmethod_heartbeat.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::Repeatable, Hook::Provider("proxylbmethod", "heartbeat"), Hook::HelperProcess(&HELPER)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("HeartbeatStorage", Allowed::GLOBAL, Take1(set_storage), "logs/hb.dat", "Path to read heartbeat data."),
];

/// How often the file is read.
const READ: Duration = Duration::from_secs(1);
/// The most of the file that is read, in bytes: a thousand servers.
const FILE_MAX: u64 = 128 * 1024;

static HELPER: HelperHook = helper;

/// Starts the process if a balancer needs it.
fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    share()?;
    if listens(server) || !all(server).iter().any(|balancer| balancer.method() == Method::Heartbeat) {
        return Ok(None);
    }
    let file = storage(server);
    Ok(Some(HelperProcess {
        name: "heartbeat file",
        count: 1,
        privileged: false,
        starts_scripts: false,
        life: Box::new(move |orders| EventLoop::new(|| ())?.run(live(Path::new(&file), orders))?),
    }))
}

/// Reads until an order from the parent arrives.
async fn live(file: &Path, orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let mut reading = pin!(async {
        let mut complained = false;
        loop {
            let result = read(file);
            if let (Err(error), false) = (&result, complained) {
                let why = sys::describe(error);
                runtime::log!(
                    "lbmethod_heartbeat",
                    Warn,
                    "{why}: no heartbeats from {} (HeartbeatStorage)",
                    file.display()
                );
            }
            complained = result.is_err();
            sleep(READ).await;
        }
    });
    poll_fn(|cx| match order.poll_read_ready(cx).is_ready() && matches!(orders.read(), Ok(Some(_))) {
        true => Poll::Ready(()),
        false => reading.as_mut().poll(cx).map(|()| ()),
    })
    .await;
    Ok(())
}

/// Reads the file. What it says is as old as the file, and older.
fn read(file: &Path) -> io::Result<()> {
    let file = std::fs::File::open(file)?;
    let age = sys::time::system_time().duration_since(file.metadata()?.modified()?).unwrap_or_default();
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text)?;
    for heartbeat in text.lines().filter_map(Heartbeat::of_line) {
        note(Heartbeat { age: heartbeat.age + age, ..heartbeat }, usize::MAX);
    }
    Ok(())
}

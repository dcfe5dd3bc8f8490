//! Starts backends, and follows each one to its end.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;

use http::text::from_bytes;
use runtime::executor::{sleep, timeout, yield_now};
use sys::local::Unnamed;
use sys::process::{Pid, Reaped, Status, end_of, reap};
use sys::signal::Signal;
use sys::watch::{Interest, Watched, watch};

use super::shared::{PIECE, PRESSURE, Shared, TERM_GRACE};
use crate::backend::class::{Class, Runtime};
use crate::backend::reason::Reason;
use crate::command::StartOptions;
use crate::daemon::NotStarted;
use crate::gate::{self, Permit, Rules};

/// How many connections may wait until a backend accepts them, as far as the system lets them (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Starts a backend once there is memory for it, and follows it to its end.
pub(super) async fn start(shared: Arc<Shared>, index: usize) {
    let class = shared.state().pools[index].class.clone();
    let rules = Rules { most: None, queue: usize::MAX, total: usize::MAX, timeout: class.settings.wait };
    let permit = match gate::enter(&class.name, &class.host, &rules, || false).await {
        Ok(permit) => permit,
        Err(refusal) => {
            runtime::log!(&class.module, Error, "{} is not started: {}", class.name, refusal.reason);
            shared.state().pools[index].not_started(503, &refusal.reason);
            return shared.settle(index);
        }
    };
    // The need for it may be over.
    let spare = {
        let mut state = shared.state();
        let spare = state.leaving || state.pools[index].spare();
        if spare {
            state.pools[index].not_started(503, "the server is about to stop");
        }
        spare
    };
    if spare {
        return;
    }
    let (number, version) = {
        let mut state = shared.state();
        (state.number(), state.pools[index].version())
    };
    match launch(&shared, &class, number, &permit).await {
        Ok(Launched { pid, address, errors, end }) => {
            permit.started(pid);
            runtime::log!(&class.module, Debug, "{} was started as process {pid}", class.name);
            shared.state().pools[index].started(number, pid, version, address, permit);
            shared.settle(index);
            Shared::go(&shared, complain(class.module.clone(), class.name.clone(), errors));
            attend_end(&shared, index, number, pid, end).await;
        }
        Err(text) => {
            permit.not_started();
            runtime::log!(&class.module, Error, "{} cannot be started: {text}", class.name);
            shared.state().pools[index].failed_to_start(&text);
            shared.settle(index);
        }
    }
}

/// A backend that has started.
struct Launched {
    pid: Pid,
    address: Unnamed,
    /// Its standard error.
    errors: Watched,
    /// Becomes readable when it has ended.
    end: Watched,
}

async fn launch(shared: &Shared, class: &Class, number: u64, permit: &Permit) -> Result<Launched, String> {
    let failed = |error: io::Error| sys::describe(&error);
    let address = Unnamed::listen(&shared.directory, &format!("backend.{number}"), BACKLOG).map_err(failed)?;
    let (errors, its_errors) = io::pipe().map_err(failed)?;
    let errors = OwnedFd::from(errors);
    sys::file::set_nonblocking(&errors).map_err(failed)?;
    let errors = watch(Arc::new(errors), Interest::READABLE).map_err(failed)?;
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(failed)?;
    let stdio = [address.listener(), nowhere.as_fd(), its_errors.as_fd()];
    let text = class.program.runtime.as_ref().map(Runtime::text).transpose().map_err(failed)?;
    let more = text.as_ref().map(|text| text.as_fd());
    let options = StartOptions { stdio, more: more.as_slice(), ends_with_us: true };
    let pid = shared.users.start(class.program.command.clone(), options).await.map_err(|refused| match refused {
        NotStarted::Owner(why) => format!("it may not run as its owner (reason {why})"),
        NotStarted::System(error) => sys::describe(&error),
    })?;
    permit.started(pid);
    let end = end_of(pid).and_then(|end| watch(Arc::new(end), Interest::READABLE)).map_err(|error| {
        // Otherwise nobody would notice its end.
        let _ = pid.kill_group(Signal::KILL);
        sys::describe(&error)
    })?;
    Ok(Launched { pid, address, errors, end })
}

/// Waits for the end of a backend; kills one that does not follow the order to end.
async fn attend_end(shared: &Arc<Shared>, index: usize, number: u64, pid: Pid, end: Watched) {
    let end_ordered = shared.state().pools[index].end_ordered(number);
    let ended = async {
        while !has_ended(pid) {
            match end.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => sleep(PRESSURE).await,
            }
        }
    };
    let mut ended = std::pin::pin!(ended);
    let is_ordered = match &end_ordered {
        Some(ordered) => {
            let mut ordered = std::pin::pin!(ordered.wait());
            poll_fn(|cx| match ended.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(false),
                Poll::Pending => ordered.as_mut().poll(cx).map(|()| true),
            })
            .await
        }
        None => false,
    };
    if is_ordered && timeout(TERM_GRACE, ended.as_mut()).await.is_err() {
        let _ = pid.kill(Signal::KILL);
        ended.await;
    }
    // Its own children go with it. The group number stays its own until it is reaped.
    let _ = pid.kill_group(Signal::KILL);
    let reaped = reap(Some(pid)).ok().flatten();
    let how = reaped.map_or_else(|| "is gone".to_string(), |reaped| how_it_ended(&reaped));
    let well = reaped.as_ref().is_some_and(|reaped| reaped.status == Status::Exited(0));
    let ended = shared.state().pools[index].ended(number, &how, well);
    if let Some((mut backend, reason)) = ended {
        let class = shared.state().pools[index].class.clone();
        if let (Some(permit), Some(reaped)) = (backend.permit.take(), &reaped) {
            permit.ended(reaped, 0);
        }
        match reason {
            Reason::Died => runtime::log!(&class.module, Error, "{} (process {pid}) {how}", class.name),
            reason => {
                runtime::log!(&class.module, Info, "{} (process {pid}) {how}; why: {}", class.name, reason.name());
            }
        }
    }
    shared.settle_all(index);
}

/// Whether a child has ended; it stays to be reaped.
fn has_ended(pid: Pid) -> bool {
    sys::process::has_ended(pid).unwrap_or(true)
}

fn how_it_ended(reaped: &Reaped) -> String {
    match reaped.status {
        Status::Exited(status) => format!("ended with exit status {status}"),
        Status::Signaled { signal, .. } => {
            format!("was ended by signal {} ({})", signal.number(), signal.description())
        }
    }
}

/// Logs a backend's standard error.
async fn complain(module: String, name: String, errors: Watched) {
    let (mut piece, mut line) = (vec![0; PIECE], Vec::new());
    loop {
        match sys::file::read(errors.get_ref(), &mut piece) {
            Ok(0) => break,
            Ok(length) => {
                line.extend_from_slice(&piece[..length]);
                for whole in crate::script::take_lines(&mut line) {
                    runtime::log!(&module, Error, "{name}: {}", from_bytes(&whole));
                }
                // Endless output must not starve the others.
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match errors.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => break,
            },
            Err(_) => break,
        }
    }
    if !line.is_empty() {
        runtime::log!(&module, Error, "{name}: {}", from_bytes(&line));
    }
}

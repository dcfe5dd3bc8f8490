//! The connections of a child: those that requests share, and those that rest between two requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use foldhash::{HashMap, HashMapExt as _};
use runtime::executor::{Task, spawn, timeout_at};
use server::Request;
use sys::time::Instant;

use super::link::{Greeting, Wire, drive};
use crate::connect::{NoConnection, connect};
use crate::remote::{Keep, Key, Kind, RemoteServer};

/// The most connections to all servers together that are shared or rest, whatever is configured. Others have one request, and end.
const LINKS_MAX: usize = 1024;
/// The protocol's name in messages.
const NAME: &str = "H2";

/// A connection for a request.
pub struct Link(pub(super) Borrowed);

impl Link {
    /// Whether it has carried other requests.
    pub fn is_kept(&self) -> bool {
        self.0.is_kept
    }
}

/// A connection, and what becomes of it after a request.
pub(super) struct Borrowed {
    pub(super) wire: Arc<Wire>,
    is_kept: bool,
    after: After,
}

/// What becomes of a connection after a request.
enum After {
    /// Others share it.
    Goes,
    /// It rests until a later request.
    Rests(Kind, Keep),
    Ends,
}

/// The connections that are alike.
#[derive(Default)]
struct Alike {
    shared: Vec<Shared>,
    resting: Vec<(Arc<Wire>, Instant)>,
    /// A request makes a connection that others wait for.
    greeting: Option<Greeting>,
}

/// A connection that requests share.
struct Shared {
    wire: Arc<Wire>,
    #[expect(dead_code, reason = "the task ends with it")]
    task: Task,
}

impl Alike {
    fn len(&self) -> usize {
        self.shared.len() + self.resting.len()
    }

    /// Forgets connections that have ended, or have been idle for too long.
    fn tidy(&mut self, keep: Keep) {
        self.shared.retain(|one| !one.wire.lock().is_done());
        self.resting.retain(|(wire, since)| {
            let stays = keep.allows(*since);
            if !stays {
                wire.lock().close();
            }
            stays
        });
    }

    fn is_empty(&self) -> bool {
        self.len() == 0 && self.greeting.as_ref().is_none_or(|greeting| greeting.get().is_some())
    }
}

static LINKS: Mutex<Option<HashMap<Key, Alike>>> = Mutex::new(None);

fn links() -> MutexGuard<'static, Option<HashMap<Key, Alike>>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection for a request: one that others share, if this thread polls many tasks, or one that has rested, or a new one. The
/// server may take its [time](RemoteServer::connect) to accept that, and to send its settings if others wait for them. `keep`:
/// whether it stays open.
///
/// # Errors
/// There is none; the reason is logged.
pub async fn link(
    request: &Request,
    server: &RemoteServer,
    kind: &Kind,
    keep: Option<Keep>,
) -> Result<Link, NoConnection> {
    let borrowed = match keep {
        None => alone(request, server, After::Ends).await?,
        Some(keep) if sys::watch::serves_many() => shared(request, server, kind, keep).await?,
        Some(keep) => match rested(kind, keep).await {
            Some(wire) => Borrowed { wire, is_kept: true, after: After::Rests(kind.clone(), keep) },
            None => alone(request, server, After::Rests(kind.clone(), keep)).await?,
        },
    };
    Ok(Link(borrowed))
}

/// Makes a connection for one request.
async fn alone(request: &Request, server: &RemoteServer, after: After) -> Result<Borrowed, NoConnection> {
    let connection = connect(request, server, NAME).await?;
    Ok(Borrowed { wire: Wire::new(connection, false, None), is_kept: false, after })
}

/// The connection that has rested for the shortest time.
async fn rested(kind: &Kind, keep: Keep) -> Option<Arc<Wire>> {
    loop {
        let (wire, since) = links().as_mut()?.get_mut(&kind.key)?.resting.pop()?;
        if !keep.allows(since) {
            wire.lock().close();
            continue;
        }
        // What has come meanwhile says whether it can still be used.
        std::future::poll_fn(|cx| Poll::Ready(wire.lock().drive_alone(cx))).await;
        if wire.lock().has_room() {
            return Some(wire);
        }
    }
}

/// How a request gets a connection that it shares.
enum Step {
    Take(Arc<Wire>),
    Wait(Greeting),
    Make(Making),
    /// There are enough.
    Alone,
}

/// A request makes a connection that others wait for. If its client leaves, one of those makes it.
struct Making(Option<Greeting>);

impl Making {
    /// Those who wait hear of the failure.
    fn fail(mut self, why: NoConnection) -> NoConnection {
        self.0.take().into_iter().for_each(|greeting| greeting.set(Err(why)));
        why
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|greeting| greeting.set(Ok(())));
    }
}

async fn shared(request: &Request, server: &RemoteServer, kind: &Kind, keep: Keep) -> Result<Borrowed, NoConnection> {
    let deadline = Instant::now() + server.connect;
    loop {
        match step(kind, keep) {
            Step::Take(wire) => return Ok(Borrowed { wire, is_kept: true, after: After::Goes }),
            Step::Alone => return alone(request, server, After::Ends).await,
            Step::Wait(greeting) => {
                let late = Err(NoConnection::Unreachable(503));
                timeout_at(deadline, greeting.wait()).await.unwrap_or(late)?;
            }
            Step::Make(mut making) => {
                let connection = match connect(request, server, NAME).await {
                    Ok(connection) => connection,
                    Err(why) => return Err(making.fail(why)),
                };
                let wire = Wire::new(connection, true, making.0.take());
                let task = spawn(drive(wire.clone(), keep.usual_idle()));
                let one = Shared { wire: wire.clone(), task };
                links().get_or_insert_with(HashMap::new).entry(kind.key.clone()).or_default().shared.push(one);
                return Ok(Borrowed { wire, is_kept: false, after: After::Goes });
            }
        }
    }
}

fn step(kind: &Kind, keep: Keep) -> Step {
    let mut links = links();
    let links = links.get_or_insert_with(HashMap::new);
    if !links.contains_key(&kind.key) {
        links.insert(kind.key.clone(), Alike::default());
    }
    let Some(alike) = links.get_mut(&kind.key) else { return Step::Alone };
    if let Some(one) = alike.shared.iter().find(|one| one.wire.lock().has_room()) {
        return Step::Take(one.wire.clone());
    }
    if let Some(greeting) = alike.greeting.as_ref().filter(|greeting| greeting.get().is_none()) {
        return Step::Wait(greeting.clone());
    }
    let greeting = Greeting::default();
    alike.greeting = Some(greeting.clone());
    // A new connection is rare: the others get a look.
    // Connections of other kinds may be idle for another time.
    let usual = Keep { idle: None, ..keep };
    links.values_mut().for_each(|alike| alike.tidy(usual));
    links.retain(|_, alike| !alike.is_empty());
    let count = links.values().map(Alike::len).sum::<usize>();
    let Some(alike) = links.get_mut(&kind.key) else { return Step::Alone };
    if count >= LINKS_MAX || alike.shared.len() >= keep.max {
        alike.greeting = None;
        return Step::Alone;
    }
    Step::Make(Making(Some(greeting)))
}

/// A request is over: its connection rests, or ends.
pub(super) fn give(borrowed: &Borrowed) {
    let After::Rests(kind, keep) = &borrowed.after else {
        if matches!(borrowed.after, After::Ends) {
            borrowed.wire.lock().close();
        }
        return;
    };
    let mut links = links();
    let links = links.get_or_insert_with(HashMap::new);
    let count = links.values().map(Alike::len).sum::<usize>();
    let alike = links.entry(kind.key.clone()).or_default();
    let mut state = borrowed.wire.lock();
    if !state.is_idle() || count >= LINKS_MAX || alike.resting.len() >= keep.max {
        state.close();
        return;
    }
    state.rest();
    alike.resting.push((borrowed.wire.clone(), Instant::now()));
}

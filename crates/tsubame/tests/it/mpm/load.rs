//! Load: several clients at once.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

/// The content of every requested page.
pub const TEXT: &str = "0123456789";

/// Between a response and the next request of a client. Tests run side by side: clients without a pause would leave no processor to
/// the others.
const REST: Duration = Duration::from_millis(1);

/// Between the parts of a slow request.
const PAUSE: Duration = Duration::from_millis(40);

/// Clients that send hundreds of requests a second each, over connections that are kept.
pub struct Load {
    end: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<Failure>>>,
    clients: Vec<JoinHandle<()>>,
}

/// A connection that ended without being announced.
#[derive(Debug)]
pub struct Failure {
    /// The client's address; `None` if there was no connection.
    pub client: Option<SocketAddr>,
    pub why: String,
    /// It ended between two requests. HTTP allows that at any time, and a request that got no byte of an answer on a
    /// connection that was kept may be sent again (RFC 9112 section 9.5).
    pub between: bool,
}

impl Load {
    /// They ask for `/a.txt`, which has this [`TEXT`].
    pub fn start(address: SocketAddr, clients: usize) -> Load {
        Load::over(address, clients, &["/a.txt".to_string()])
    }

    /// The same with clients that take their time over every request: its head comes in three parts. Until all are there the
    /// server has nothing to say.
    pub fn slow(address: SocketAddr, clients: usize) -> Load {
        Load::with(address, clients, &["/a.txt".to_string()], |client, request| {
            let third = request.len() / 3;
            for part in [&request[..third], &request[third..2 * third]] {
                client.send(part);
                client.hears_nothing_for(PAUSE);
            }
            client.send(&request[2 * third..]);
        })
    }

    /// They ask for these pages in turn, which all have this [`TEXT`].
    pub fn over(address: SocketAddr, clients: usize, pages: &[String]) -> Load {
        Load::with(address, clients, pages, |client, request| client.send(request))
    }

    fn with(address: SocketAddr, clients: usize, pages: &[String], send: fn(&mut Client, &str)) -> Load {
        let (end, answered, failures) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let client = || {
            let pages = pages.to_vec();
            let (end, answered, failures) = (end.clone(), answered.clone(), failures.clone());
            move || {
                while !end.load(Ordering::Relaxed) {
                    if let Err(why) = converse(address, &pages, send, &end, &answered) {
                        failures.lock().expect("failures").push(why);
                    }
                }
            }
        };
        let clients = (0..clients).map(|_| std::thread::spawn(client())).collect();
        Load { end, answered, failures, clients }
    }

    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits for so many more answers.
    pub fn goes_on(&self, count: usize) {
        let goal = self.answered() + count;
        until("answers", || (self.answered() >= goal).then_some(()));
    }

    /// Ends it; returns what failed. An end between two requests is not a failure.
    pub fn end(self) -> Vec<String> {
        let failed = self.end_with_every_loss().into_iter().filter(|failure| !failure.between);
        failed.map(|failure| failure.why).collect()
    }

    /// Ends it; returns every connection that the server ended without having said so.
    pub fn end_with_every_loss(self) -> Vec<Failure> {
        self.end.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().expect("client"));
        std::mem::take(&mut *self.failures.lock().expect("failures"))
    }
}

/// Requests over one connection until the server ends it.
fn converse(
    address: SocketAddr,
    pages: &[String],
    send: fn(&mut Client, &str),
    end: &AtomicBool,
    answered: &AtomicUsize,
) -> Result<(), Failure> {
    let stream = TcpStream::connect(address).map_err(|error| Failure {
        client: None,
        why: format!("connect: {error}"),
        between: false,
    })?;
    let client_address = stream.local_addr().ok();
    let mut client = Client::over(stream);
    let mut served = 0;
    while !end.load(Ordering::Relaxed) {
        send(&mut client, &get(&pages[answered.load(Ordering::Relaxed) % pages.len()]));
        let response = client.try_response_to("GET").map_err(|why| Failure {
            client: client_address,
            between: served > 0 && why.ends_with("after \"\""),
            why: format!("request {served} on its connection: {why}"),
        })?;
        if (response.status, response.text().as_str()) != (200, TEXT) {
            return Err(Failure { client: client_address, why: format!("{response:?}"), between: false });
        }
        answered.fetch_add(1, Ordering::Relaxed);
        served += 1;
        if response.closes() {
            return Ok(());
        }
        client.hears_nothing_for(REST);
    }
    Ok(())
}

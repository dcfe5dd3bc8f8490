//! Load: several clients at once.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::wait::until;
use crate::wire::{Client, get};

/// What every page that is asked for has.
pub const TEXT: &str = "0123456789";

/// Clients that ask as fast as they can, over connections that are kept.
pub struct Load {
    end: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// They ask for `/a.txt`, which has this [`TEXT`].
    pub fn start(address: SocketAddr, clients: usize) -> Load {
        Load::over(address, clients, &["/a.txt".to_string()])
    }

    /// They ask for these pages in turn, which all have this [`TEXT`].
    pub fn over(address: SocketAddr, clients: usize, pages: &[String]) -> Load {
        let (end, answered, failures) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let client = || {
            let pages = pages.to_vec();
            let (end, answered, failures) = (end.clone(), answered.clone(), failures.clone());
            move || {
                while !end.load(Ordering::Relaxed) {
                    if let Err(why) = converse(address, &pages, &end, &answered) {
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

    /// Ends it; returns what failed.
    pub fn end(self) -> Vec<String> {
        self.end.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().expect("client"));
        std::mem::take(&mut *self.failures.lock().expect("failures"))
    }
}

/// Requests over one connection until the server ends it. An end between two requests is not a failure: HTTP allows it
/// at any time, and a request on it that got no byte of an answer may be sent again (RFC 9112 section 9.5).
fn converse(address: SocketAddr, pages: &[String], end: &AtomicBool, answered: &AtomicUsize) -> Result<(), String> {
    let stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    let mut client = Client::over(stream);
    let mut served = 0;
    while !end.load(Ordering::Relaxed) {
        client.send(get(&pages[answered.load(Ordering::Relaxed) % pages.len()]));
        let response = match client.try_response_to("GET") {
            Ok(response) => response,
            Err(why) if served > 0 && why.ends_with("after \"\"") => return Ok(()),
            Err(why) => return Err(format!("request {served} on its connection: {why}")),
        };
        if (response.status, response.text().as_str()) != (200, TEXT) {
            return Err(format!("{response:?}"));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        served += 1;
        if response.closes() {
            return Ok(());
        }
    }
    Ok(())
}

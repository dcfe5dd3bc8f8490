//! Repeats: a request whose head an earlier request had gets the response that the earlier one got.
//!
//! What the phases decide, they decide by the head, by the configuration, and by what they ask beyond the two: a file, the
//! client's address, the time, a password. Where the code asks that, the request records it
//! ([`asks_beyond_head`](Request::asks_beyond_head)), and is never repeated. A hook whose module does not promise to record
//! what it asks ([`Hook::Repeatable`](crate::Hook::Repeatable)) is taken to ask everything: while such a module is loaded,
//! nothing is repeated at all.
//!
//! So a redirect that was decided before any file was looked at depends on the bytes of the head and the address at which it
//! arrived; the response to a plain file also on the file's identity and the access files on the way. A repeat checks the last
//! two exactly as the phases would. Date, the fields about the connection, and everything that logs and the status page show are
//! made anew: the finished [`Request`] itself is kept, and ends once more, with another client and another account.
//!
//! Each thread remembers a few requests, once it has seen their head twice. The table holds no connection and no open
//! file: the file's content is that of the [`FileCache`](crate::site::file_cache::FileCache), for as long as it is there.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::hash::BuildHasher;
use std::mem;
use std::net::SocketAddr;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Weak};

use bytes::Bytes;
use foldhash::fast::RandomState;
use http::KnownField;
use http::h1::framing::{Framing, Persistence};
use http::h1::response::BadField;
use http::h2::FieldList;

use crate::exchange::describe::Shown;
use crate::message::fields::Fields;
use crate::message::response::{Body, FilePart};
use crate::message::sent::{Delimiter, Persist};
use crate::paths::c_path;
use crate::request::client::Announced;
use crate::request::fields_out::{FieldSink, with_date};
use crate::request::hooks::SetVariable;
use crate::request::{Account, Client, Login, Request, RequestKind, StreamId};
use crate::site::directory_cache::Walked;
use crate::site::file_cache::{CachedFile, Content};
use crate::site::server::Server;
use crate::transport::endpoint::NoConnection;
use crate::transport::tls::session::{Named, Session};

/// How many requests a thread remembers.
const PLACES: usize = 32;
/// How many hashes of heads a thread keeps that it has seen once.
const SEEN: usize = 256;
/// The longest heads of a request and of its response that are remembered, in bytes.
const HEAD_MAX: usize = 2048;
/// The most text that a remembered request may have beside its head, and the most in the access files on its way, in bytes: a
/// file `.htaccess` can make megabytes.
const TEXT_MAX: usize = 8 * 1024;
const ACCESS_FILES_MAX: u64 = 16 * 1024;

/// How to send a response again.
pub(crate) struct Repeat {
    /// The hash of the request's head.
    hash: u64,
    /// The address at which the request arrived.
    local: SocketAddr,
    /// What its client has asked for in the TLS handshake, if there was one.
    named: Option<Named>,
    content: Repeated,
    pub(crate) head: SentHead,
    pub(crate) delimiter: Delimiter,
    /// What the status page shows.
    pub(super) shown: Shown,
    /// How much text the configuration had made when the head was written.
    made: usize,
    /// The client of nobody's request, while the request has a client.
    nobody: Option<Arc<Client>>,
    /// Sets the variables that each request has anew, unless the configuration has set or removed them.
    renewed: Vec<SetVariable>,
}

/// The head of a response as it went out.
pub(crate) enum SentHead {
    Http1 {
        text: Vec<u8>,
        /// Where its date is.
        date: usize,
        /// What it says about the connection.
        persist: Persist,
        /// The client's wish for the connection.
        wish: Persistence,
    },
    Http2 {
        /// The text of the request's fields.
        asked: Vec<u8>,
        /// The response's fields without Date, and without compression.
        fields: FieldList,
    },
}

/// The content of a response that may be sent again.
enum Repeated {
    /// A file at a path; the part of it, if there is a body; and the findings on the way to its directory.
    File { file: Weak<CachedFile>, path: CString, part: Option<Range<u64>>, walked: Arc<Walked> },
    /// The page of a redirect that was decided before anything was looked at.
    Redirect(Bytes),
}

/// A request, and how to send its response again.
struct Remembered {
    request: Box<Request>,
    repeat: Box<Repeat>,
}

/// The requests that a thread remembers.
struct Repeats {
    /// Begins with random numbers: a client cannot know which heads displace each other.
    hasher: RandomState,
    places: [Option<Remembered>; PLACES],
    seen: [u32; SEEN],
}

thread_local! {
    static REPEATS: RefCell<Repeats> = RefCell::new(Repeats {
        hasher: RandomState::default(),
        places: [const { None }; PLACES],
        seen: [0; SEEN],
    });
}

/// The client of a request that is only remembered.
static NOBODY: LazyLock<Arc<Client>> = LazyLock::new(|| {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    Arc::new(Client::new(nowhere, Arc::new(NoConnection { local: nowhere, session: None })))
});

impl Repeats {
    /// The two places of a hash.
    fn places_of(hash: u64) -> [usize; 2] {
        let first = hash as usize % PLACES;
        [first, first ^ 1]
    }

    fn take(&mut self, hash: u64, head: &[u8], server: &Server, client: &Client) -> Option<Remembered> {
        let place = Self::places_of(hash).into_iter().find(|place| {
            self.places[*place].as_ref().is_some_and(|one| {
                one.repeat.hash == hash
                    && ptr::eq(one.request.server, server)
                    && one.repeat.asked(&one.request) == head
                    && one.repeat.is_for(client)
            })
        })?;
        self.places[place].take()
    }

    /// Whether a head with this hash was seen before.
    fn sees(&mut self, hash: u64) -> bool {
        let [first, second] = [hash as usize / PLACES % SEEN, (hash >> 32) as usize % SEEN];
        let mark = (hash >> 32) as u32 | 1;
        let known = self.seen[first] == mark || self.seen[second] == mark;
        // The mark stays in one of two places, so that two heads do not displace each other.
        if !known {
            self.seen[if mark & 2 == 0 { first } else { second }] = mark;
        }
        known
    }

    /// Puts a request in its place. Returns the one that was there.
    fn put(&mut self, remembered: Remembered) -> Option<Remembered> {
        let [first, second] = Self::places_of(remembered.repeat.hash);
        let is_free =
            |place: usize| self.places[place].as_ref().is_none_or(|old| old.repeat.hash == remembered.repeat.hash);
        let place = match (is_free(first), is_free(second)) {
            (true, _) => first,
            (_, true) => second,
            // As good as at random, since the hash is.
            _ if remembered.repeat.hash >> 63 == 0 => first,
            _ => second,
        };
        self.places[place].replace(remembered)
    }
}

/// What a thread knows of a head.
pub(crate) enum Known {
    /// Nothing, or nothing that holds.
    Nothing,
    /// It was seen before, and has this hash: its response may be worth remembering.
    Seen(u64),
    /// The request that had it, and its response, for a new request.
    Request(Box<Request>, Box<Repeat>, Body),
}

/// What this thread knows of a head that this client has sent. `head`: its text, or that of its fields over HTTP/2, which cannot
/// be taken for each other; `stream`: the one in which it came.
pub(crate) fn recall(
    head: &[u8],
    server: &'static Server,
    client: &Arc<Client>,
    stream: Option<StreamId>,
    account: impl FnOnce() -> Account,
) -> Known {
    if head.len() > HEAD_MAX || !is_plain(client) {
        return Known::Nothing;
    }
    let (hash, found) = REPEATS.with_borrow_mut(|repeats| {
        let hash = repeats.hasher.hash_one(head);
        (hash, repeats.take(hash, head, server, client).ok_or_else(|| repeats.sees(hash)))
    });
    let Remembered { mut request, mut repeat, .. } = match found {
        Ok(remembered) => remembered,
        Err(true) => return Known::Seen(hash),
        Err(false) => return Known::Nothing,
    };
    request.account = account();
    let Some(body) = repeat.content.of(&request) else { return Known::Seen(hash) };
    repeat.nobody = Some(mem::replace(&mut request.client, client.clone()));
    request.data.stream = stream;
    *request.made.get_mut() = repeat.made;
    for set in &repeat.renewed {
        set(&mut request);
    }
    if let SentHead::Http1 { text, date, .. } = &mut repeat.head {
        with_date(request.account.time, |now| text[*date..*date + now.len()].copy_from_slice(now));
    }
    Known::Request(request, repeat, body)
}

/// Whether requests of this client's may be repeats. Who has changed the levels of messages wants to see those of the phases.
fn is_plain(client: &Client) -> bool {
    !client.is_misdirected() && client.announced() == Announced::Nobody && !runtime::log_levels::are_changed()
}

/// The functions for the variables that each request has anew, as far as this request has its own in them.
fn renewed(request: &Request) -> Vec<SetVariable> {
    let is_own = |name: &str| {
        request.own_variables.iter().any(|(own, value)| *own == name && request.env.get(name) == Some(value))
    };
    let all = request.hooks.own_variables.iter();
    all.filter(|(name, _)| is_own(name)).map(|(_, set)| *set).collect()
}

/// How much text a request has beside its head, in bytes.
fn text_of(request: &Request) -> usize {
    let Request { data, mapped, response, env, notes, .. } = request;
    let tables =
        [Some(env), Some(notes), Some(&response.headers_out), Some(&response.err_headers_out), data.changed_fields()];
    let lists = [&response.output_filters, &response.content_languages, &mapped.input_filters];
    let texts = [&mapped.filename, &mapped.path_info, &data.uri];
    tables.into_iter().flatten().map(Fields::size).sum::<usize>()
        + lists.into_iter().flatten().chain(texts).map(String::len).sum::<usize>()
        + response.allowed.iter().flatten().map(String::len).sum::<usize>()
}

/// Whether the file and the way to it are as they were, by the same questions that the phases ask.
fn holds(request: &Request, file: &CachedFile, path: &CStr, walked: &Walked) -> bool {
    let Account { tick, start, .. } = request.account;
    let is_there = file.look.holds(tick, start) || {
        let same = sys::file::stat(path).is_ok_and(|meta| meta == file.meta);
        if same {
            file.look.renew(start);
        }
        same
    };
    is_there && walked.way.as_ref().is_none_or(|way| way.holds(&request.server.watched, tick, start))
}

impl Repeat {
    /// How to send a response again whose head was just written; `None`: it must be made anew. `hash`: that of the
    /// request's head.
    pub(crate) fn of(
        hash: u64,
        request: &Request,
        head: SentHead,
        body: &Body,
        delimiter: Delimiter,
    ) -> Option<Box<Repeat>> {
        let Request { data, response, login, account, .. } = request;
        let asked = data.head.text();
        let is_plain = request.hooks.are_repeatable
            && !request.beyond_head.load(Ordering::Relaxed)
            && !request.undecided.load(Ordering::Relaxed)
            && matches!(request.kind, RequestKind::Main)
            && request.trace.is_none()
            && request.kept_body.is_none()
            && request.page.is_none()
            && matches!(data.head.method(), b"GET" | b"HEAD")
            && response.status_line().is_none()
            && response.rate_limit.is_none()
            && matches!(login, Login { user: None, auth_type: None, proof: None, known: None })
            && account.script.is_none()
            && account.user.is_none()
            && !account.watches
            && account.sent.interim == 0
            && account.sent.trailers_out.is_empty()
            && is_plain(&request.client);
        if !is_plain || asked.len() > HEAD_MAX || head.len() > HEAD_MAX {
            return None;
        }
        let content = Repeated::content(request, body)?;
        let (table, text) = data.head.parts();
        let is_alone = Framing::of(table, text) == Ok(Framing::None)
            && !data.head.has(KnownField::Expect)
            && !data.head.has(KnownField::Upgrade);
        if !is_alone || text_of(request) > TEXT_MAX {
            return None;
        }
        let client = &request.client;
        Some(Box::new(Repeat {
            hash,
            local: client.local(),
            named: client.session().map(Session::named),
            content,
            head,
            delimiter,
            shown: Shown::of(request),
            made: request.made.load(Ordering::Relaxed),
            nobody: None,
            renewed: renewed(request),
        }))
    }

    /// What the client has sent.
    fn asked<'a>(&'a self, request: &'a Request) -> &'a [u8] {
        match &self.head {
            SentHead::Http1 { .. } => request.data.head.text(),
            SentHead::Http2 { asked, .. } => asked,
        }
    }

    /// Whether this client has reached the same address, and has asked for the same in its handshake.
    fn is_for(&self, client: &Client) -> bool {
        let is_same = match (&self.named, client.session()) {
            (None, None) => true,
            (Some(named), Some(session)) => session.is_named(named),
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same && self.local == client.local()
    }

    /// Remembers a request that has ended.
    pub(crate) fn remember(mut self: Box<Repeat>, mut request: Box<Request>) {
        request.client = self.nobody.take().unwrap_or_else(|| NOBODY.clone());
        request.mapped.served = None;
        request.mapped.walked = None;
        let old = REPEATS.with_borrow_mut(|repeats| repeats.put(Remembered { request, repeat: self }));
        drop(old);
    }
}

impl SentHead {
    /// That of a response over HTTP/1. `None`: it has no date.
    pub(crate) fn http1(text: &[u8], persist: Persist, wish: Persistence) -> Option<SentHead> {
        const DATE: &[u8] = b"\r\nDate: ";
        let date = memchr::memmem::find(text, DATE)? + DATE.len();
        Some(SentHead::Http1 { text: text.to_vec(), date, persist, wish })
    }

    /// That of a response over HTTP/2 to the request with these fields. `None`: it cannot be sent again.
    pub(crate) fn http2(asked: Vec<u8>, request: &Request, length: Option<u64>) -> Option<SentHead> {
        let mut recorder = Recorder { fields: FieldList::default(), length };
        request.fields_out(&mut recorder).ok()?;
        let fields = recorder.fields;
        let is_whole = fields.text().is_some() && fields.check_trailers().is_ok();
        is_whole.then_some(SentHead::Http2 { asked, fields })
    }

    /// How much memory it takes, in bytes.
    fn len(&self) -> usize {
        match self {
            SentHead::Http1 { text, .. } => text.len(),
            SentHead::Http2 { asked, fields } => asked.len().max(fields.text().map_or(usize::MAX, <[u8]>::len)),
        }
    }
}

/// Records the fields of a response.
struct Recorder {
    fields: FieldList,
    /// The length of the body, if the head states it.
    length: Option<u64>,
}

impl FieldSink for Recorder {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        let name = name.to_ascii_lowercase();
        if name != "date" && !http::h2::concerns_http1(&name) {
            self.fields.push(name.as_bytes(), value.trim_ascii(), usize::MAX);
        }
        Ok(())
    }

    fn own_fields(&mut self) -> Result<(), BadField> {
        self.length.map_or(Ok(()), |length| self.field("content-length", length.to_string().as_bytes()))
    }
}

impl Repeated {
    /// The content of this response. `None`: it is not repeated.
    fn content(request: &Request, body: &Body) -> Option<Repeated> {
        let Request { data, mapped, response, .. } = request;
        let is_bodyless = data.header_only || http::status::is_bodyless(response.status());
        match (response.status(), &mapped.served) {
            (200 | 206 | 304, Some(file)) => {
                let walked = mapped.walked.clone()?;
                let is_small = walked.way.as_ref().is_none_or(|way| way.size() <= ACCESS_FILES_MAX);
                let part = match body {
                    Body::Empty if is_bodyless || file.meta.size == 0 => None,
                    Body::Empty | Body::Parts(_) | Body::Stream(_) => return None,
                    Body::Bytes(bytes) => Some(file.part_of_bytes(bytes)?),
                    Body::File(part) => Some(file.part_of_file(part)?),
                };
                let (file, path) = (Arc::downgrade(file), c_path(&mapped.filename)?);
                (is_small && !mapped.is_directory).then_some(Repeated::File { file, path, part, walked })
            }
            (301 | 302 | 303 | 307 | 308, None) => {
                let looked = mapped.kept.is_some() || mapped.walked.is_some() || mapped.is_directory;
                match body {
                    _ if looked => None,
                    Body::Empty if is_bodyless => Some(Repeated::Redirect(Bytes::new())),
                    Body::Bytes(bytes) if bytes.len() <= TEXT_MAX => Some(Repeated::Redirect(bytes.clone())),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The body for another request, if the content is as it was.
    fn of(&self, request: &Request) -> Option<Body> {
        let (file, path, part, walked) = match self {
            Repeated::Redirect(page) if page.is_empty() => return Some(Body::Empty),
            Repeated::Redirect(page) => return Some(Body::Bytes(page.clone())),
            Repeated::File { file, path, part, walked } => (file.upgrade()?, path, part, walked),
        };
        if !holds(request, &file, path, walked) {
            return None;
        }
        let Some(part) = part else { return Some(Body::Empty) };
        Some(match &file.content {
            Content::Small(bytes) => Body::Bytes(bytes.slice(part.start as usize..part.end as usize)),
            Content::Open(file) => {
                Body::File(FilePart { file: file.clone(), offset: part.start, length: part.end - part.start })
            }
        })
    }
}

impl CachedFile {
    /// The part of the content that these bytes are, without comparing any.
    fn part_of_bytes(&self, bytes: &[u8]) -> Option<Range<u64>> {
        let Content::Small(all) = &self.content else { return None };
        let first = (bytes.as_ptr() as usize).checked_sub(all.as_ptr() as usize)?;
        let end = first.checked_add(bytes.len())?;
        (end <= all.len()).then_some(first as u64..end as u64)
    }

    /// The part of the content that this part of an open file is.
    fn part_of_file(&self, part: &FilePart) -> Option<Range<u64>> {
        let Content::Open(file) = &self.content else { return None };
        Arc::ptr_eq(file, &part.file).then_some(part.offset..part.offset + part.length)
    }
}

//! Repeats: a request that asks what an earlier request asked gets the response that the earlier one got.
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
//! Of the head, a response depends on the request line and on the fields that were looked up, which the [head
//! records](RequestHead::asked), and on what was [asked of others](crate::TestedField). So a request is a repeat if its head
//! is, byte for byte, one that had this response before, which is found without reading it, or else if it agrees in those: the
//! heads of two browsers rarely are the same.
//!
//! Each thread remembers requests, within limits, once it has met their line and host twice. If another thread ends a request, as
//! a worker does under event after the listener has met it, the request [goes back](inbox) to the thread that looked for it. The
//! table holds no connection and no open file: the file's content is that of the
//! [`FileCache`](crate::site::file_cache::FileCache), for as long as it is there.

mod heads;
mod inbox;
mod seen;
mod sent_head;
mod settled;
mod size;
mod stored;

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use foldhash::fast::RandomState;
use http::KnownField;
use http::h1::framing::Framing;
use http::name::FieldSet;
use sys::time::Instant;

use self::heads::KeptHeads;
use self::inbox::Inbox;
use self::seen::Seen;
pub(crate) use self::sent_head::SentHead;
pub(crate) use self::settled::{Settled, Slot};
use self::size::{HEAD_MAX, text_of};
use self::stored::KeptStored;
use crate::exchange::describe::Shown;
use crate::message::head::RequestHead;
use crate::message::response::{Body, FilePart};
use crate::message::sent::Delimiter;
use crate::message::tested_field::{Outcome, are_alike};
use crate::paths::c_path;
use crate::request::client::{self, Announced};
use crate::request::fields_out::with_date;
use crate::request::hooks::WriteVariable;
use crate::request::prepared::Prepared;
use crate::request::recurring::Recurrence;
use crate::request::{Account, Client, Request, StreamId};
use crate::site::directory_cache::Walked;
use crate::site::file_cache::{CachedFile, Content};
use crate::site::server::Server;
use crate::transport::tls::session::{Named, Session};

/// How many requests of each set a thread remembers.
const WAYS: usize = 4;
/// How much a thread remembers, and how much if it serves all connections of its process: there are few such processes, and each
/// serves a whole site.
const SMALL: Size = Size { sets: 16, memory: 384 * 1024 };
const LARGE: Size = Size { sets: 256, memory: 6 * 1024 * 1024 };
/// About what a request takes, in bytes.
const USUAL: usize = 4 * 1024;
/// The fields in which heads agree that have the same response, whether they were looked up or not: the second decides about the
/// connection.
const AGREED: FieldSet = FieldSet::of(Some(KnownField::Host)).and(FieldSet::of(Some(KnownField::Connection)));
/// The most text that a remembered request may have beside its head, and the most in the access files on its way, in bytes: a
/// file `.htaccess` can make megabytes.
const TEXT_MAX: usize = 8 * 1024;
const ACCESS_FILES_MAX: u64 = 16 * 1024;

/// How to send a response again.
pub(crate) struct Repeat {
    /// Heads that had this response.
    heads: KeptHeads,
    /// The hash of the request's own head, and over HTTP/2 the text of its fields, if it shall be kept.
    new_head: Option<(u64, Option<Vec<u8>>)>,
    /// Where the thread has had it before, as far as its heads can be found there.
    place: Option<u16>,
    /// That of the thread whose table its hashes and its place are of.
    inbox: Arc<Inbox>,
    /// It has not been in the table yet.
    is_new: bool,
    /// How much memory it takes together with its request, in bytes; without the heads.
    own_memory: usize,
    /// All that it takes, in bytes; 0 if it has another head since that was worked out.
    memory: usize,
    /// The hash of what all heads with this response have in common, whatever was looked up.
    key: u64,
    /// The hash of everything that those heads have in common.
    agreed: u64,
    /// The fields that they have in common, and what other fields of theirs match.
    asked: FieldSet,
    outcomes: Vec<Outcome>,
    /// The address at which the request arrived, and whether it came over HTTP/2.
    local: SocketAddr,
    is_http2: bool,
    /// What its client has asked for in the TLS handshake, if there was one.
    named: Option<Named>,
    content: Repeated,
    pub(crate) head: SentHead,
    pub(crate) delimiter: Delimiter,
    /// What the status page shows.
    pub(super) shown: Arc<Shown>,
    /// How much text the configuration had made when the head was written.
    made: usize,
    /// The client of nobody's request, while the request has a client.
    nobody: Option<Arc<Client>>,
    /// The variables that each request has anew, unless the configuration has set or removed them.
    renewed: Vec<(&'static str, usize, WriteVariable)>,
}

/// The content of a response that may be sent again.
enum Repeated {
    /// A file at a path; the part of it, if there is a body; and the findings on the way to its directory.
    File { file: Weak<CachedFile>, path: CString, part: Option<Range<u64>>, walked: Arc<Walked> },
    /// The page of a redirect that was decided before anything was looked at.
    Redirect(Bytes),
    /// What a cache has answered.
    Stored(KeptStored),
    /// Each request has another one, which a handler makes.
    Prepared,
}

/// A request, and how to send its response again. If a handler makes another one for each, the request is that before the handler.
struct Remembered {
    request: Box<Request>,
    repeat: Box<Repeat>,
}

/// What the table has for a request.
enum Found {
    /// One that had the same response, taken from its place.
    Taken(Remembered),
    /// The request itself.
    Prepared(Begun),
    /// One whose file is another by now, taken from its place.
    Gone(Remembered),
}

/// The limits of [`Repeats`].
struct Size {
    /// A power of two.
    sets: usize,
    /// What the remembered requests take at most, in bytes.
    memory: usize,
}

impl Size {
    fn of_this_process() -> &'static Size {
        if runtime::scoreboard::one_thread_serves_all() { &LARGE } else { &SMALL }
    }
}

/// What a request has in common with all that may have its response, in the table of the thread that looked for it.
pub(crate) struct Key {
    hash: u64,
    inbox: Arc<Inbox>,
}

/// The requests that a thread remembers.
struct Repeats {
    /// Begins with random numbers: a client cannot know which heads displace each other.
    hasher: RandomState,
    /// Where other threads put what this one shall remember.
    inbox: Arc<Inbox>,
    /// One set after the other.
    places: Box<[Option<Remembered>]>,
    /// For the rest of the hash of each kept head, the place of the request that had it.
    known: Box<[u16]>,
    seen: Seen,
    seen_heads: Seen,
    /// How much memory the requests in their places take, in bytes, and how much they may.
    memory: usize,
    most: usize,
    /// The place that is emptied next if they take more.
    hand: usize,
}

const _: () = assert!(LARGE.sets * WAYS <= 1 << 16 && SMALL.sets.is_power_of_two() && LARGE.sets.is_power_of_two());

thread_local! {
    static REPEATS: RefCell<Repeats> = RefCell::new(Repeats::new(Size::of_this_process()));
}

impl Repeats {
    fn new(Size { sets, memory, .. }: &Size) -> Repeats {
        let (places, hasher) = (sets * WAYS, RandomState::default());
        Repeats {
            inbox: Arc::new(Inbox::new(hasher.clone())),
            hasher,
            places: (0..places).map(|_| None).collect(),
            known: vec![0; places * 16].into(),
            seen: Seen::new(places * 4),
            seen_heads: Seen::new(places * 4),
            memory: 0,
            most: *memory,
            hand: 0,
        }
    }

    /// The places of a key.
    fn places_of(&self, key: u64) -> Range<usize> {
        let first = (key as usize & (self.places.len() / WAYS - 1)) * WAYS;
        first..first + WAYS
    }

    /// The number of the entry about a kept head with this hash.
    fn known_of(&self, hash: u64) -> usize {
        hash as usize & (self.known.len() - 1)
    }

    /// Takes the request that had this head before, or makes one that begins where that one did.
    fn take_same(&mut self, text: &[u8], recall: &Recall<'_>) -> Option<Found> {
        let place = usize::from(self.known[self.known_of(recall.hash)]);
        let Remembered { request, repeat } = self.places[place].as_mut()?;
        let kept = repeat.heads.get(recall.hash, text).filter(|_| repeat.is_for(request, recall))?;
        if let Repeated::Prepared = repeat.content {
            if !recall.finds_file(request) {
                return self.take(place).map(Found::Gone);
            }
            return Some(Found::Prepared(repeat.begin(request, kept.head.clone(), kept.slot.clone(), recall)));
        }
        if !Arc::ptr_eq(&request.data.head, &kept.head) {
            request.data.head = kept.head.clone();
        }
        self.take(place).map(Found::Taken)
    }

    /// Takes the request with whose head this one agrees, or makes one that begins where that one did, and takes the head.
    /// `fields`: the text of its fields, over HTTP/2.
    fn take_similar(
        &mut self,
        key: u64,
        head: &mut RequestHead,
        fields: Option<&[u8]>,
        recall: &Recall<'_>,
    ) -> Option<Found> {
        let is_it = |Remembered { request, repeat }: &Remembered| {
            repeat.key == key
                && request.data.head.agrees(head, repeat.asked)
                && repeat.is_for(request, recall)
                && are_alike(&repeat.outcomes, head)
        };
        let place = self.places_of(key).find(|place| self.places[*place].as_ref().is_some_and(is_it))?;
        let Remembered { request, repeat } = self.places[place].as_mut()?;
        if !matches!(repeat.content, Repeated::Prepared) {
            return self.take(place).map(Found::Taken);
        }
        if !recall.finds_file(request) {
            return self.take(place).map(Found::Gone);
        }
        let head = Arc::new(mem::take(head));
        let begun = repeat.begin(request, head.clone(), None, recall);
        if self.seen_heads.has_met(recall.hash) {
            let before = mem::take(&mut repeat.memory);
            repeat.heads.keep(recall.hash, &head, fields.map(<[u8]>::to_vec), repeat.new_slot());
            repeat.memory = repeat.own_memory + request.data.head.memory() + repeat.heads.memory();
            self.memory = self.memory + repeat.memory - before;
            let number = self.known_of(recall.hash);
            self.known[number] = place as u16;
        }
        Some(Found::Prepared(begun))
    }

    /// Empties a place.
    fn take(&mut self, place: usize) -> Option<Remembered> {
        let taken = self.places[place].take();
        self.without(taken)
    }

    /// No longer counts a request that was taken from its place.
    fn without(&mut self, taken: Option<Remembered>) -> Option<Remembered> {
        self.memory -= taken.as_ref().map_or(0, |taken| taken.repeat.memory);
        taken
    }

    /// Whether a request is worth its place: nothing is forgotten for it, or the same was asked before. Otherwise requests that
    /// nobody asks again, as those of ever new users, would displace all others.
    fn welcomes(&mut self, key: u64, agreed: u64) -> bool {
        let has_room = self.memory + USUAL <= self.most;
        has_room && self.places[self.places_of(key)].iter().any(Option::is_none) || self.seen.has_met(agreed)
    }

    /// Puts a request in its place. Returns the one that was there.
    fn put(&mut self, mut remembered: Remembered) -> Option<Remembered> {
        remembered.repeat.is_new = false;
        let Repeat { ref heads, place, key, agreed, memory, .. } = *remembered.repeat;
        let places = self.places_of(key);
        let is_same = |place: &Option<Remembered>| place.as_ref().is_some_and(|old| old.repeat.agreed == agreed);
        let all = &self.places[places.clone()];
        let at = match place {
            // Nobody was there meanwhile.
            Some(place) if self.places[usize::from(place)].is_none() => usize::from(place),
            _ => {
                let at = all.iter().position(is_same).or_else(|| all.iter().position(Option::is_none));
                // As good as at random, since the hash is.
                places.start + at.unwrap_or((agreed >> 61) as usize % WAYS)
            }
        };
        if place != Some(at as u16) {
            heads.hashes().for_each(|hash| {
                let number = self.known_of(hash);
                self.known[number] = at as u16;
            });
            remembered.repeat.place = Some(at as u16);
        }
        self.memory += memory;
        let old = self.places[at].replace(remembered);
        self.without(old)
    }

    /// Puts a request in its place that another thread has ended, if it is still worth one. Returns the request that is forgotten.
    fn put_returned(&mut self, returned: Remembered) -> Option<Remembered> {
        let Repeat { is_new, key, agreed, .. } = *returned.repeat;
        if is_new && !self.welcomes(key, agreed) { Some(returned) } else { self.put(returned) }
    }

    /// Takes a request whose memory is needed for others, if it is.
    fn make_room(&mut self) -> Option<Remembered> {
        if self.memory <= self.most {
            return None;
        }
        // Round and round: what is asked for often comes back after one way through the phases.
        let from = self.hand;
        let at = (from..self.places.len()).chain(0..from).find(|at| self.places[*at].is_some())?;
        self.hand = at + 1;
        let taken = self.places[at].take();
        self.without(taken)
    }
}

/// The hash of the address at which a head arrived, its request line, its fields of these names besides those in which all agree,
/// and these outcomes.
fn hash_of(hasher: &RandomState, client: &Client, head: &RequestHead, names: FieldSet, outcomes: &[Outcome]) -> u64 {
    let mut hasher = hasher.build_hasher();
    client.local().hash(&mut hasher);
    hasher.write(head.line());
    for field in head.fields_of(names.and(AGREED)) {
        field.hash(&mut hasher);
    }
    for outcome in outcomes {
        hasher.write_u8(outcome.is_match().into());
    }
    hasher.finish()
}

/// Changes the table. What is forgotten for that ends while nobody holds the table.
fn change(change: impl FnOnce(&mut Repeats) -> Option<Remembered>) {
    let (old, is_full) = REPEATS.with_borrow_mut(|repeats| {
        let old = change(repeats);
        (old, repeats.memory > repeats.most)
    });
    drop(old);
    while is_full && REPEATS.with_borrow_mut(Repeats::make_room).is_some() {}
}

/// A request that may be a repeat.
pub(crate) struct Recall<'a> {
    pub(crate) server: &'static Server,
    pub(crate) client: &'a Arc<Client>,
    /// The stream in which it came, over HTTP/2.
    stream: Option<StreamId>,
    /// The tick that announced it.
    pub(crate) tick: Option<NonZeroU64>,
    /// When it came in, once that is known.
    pub(crate) arrived: Option<Instant>,
    hash: u64,
}

/// What is known of a request that may be a repeat.
pub(crate) enum Recalled {
    /// Its response.
    Again(Again),
    /// All but its response: a handler makes that. The request has its head already.
    Prepared(Begun),
}

/// A request right before its handler, and what the status page shows of it.
pub(crate) struct Begun {
    pub(crate) request: Box<Request>,
    pub(super) shown: Arc<Shown>,
    /// For what becomes known of its response.
    pub(super) slot: Option<Arc<Slot>>,
    /// What its response will be if the other server answers as expected; the request has that response already.
    pub(crate) settled: Option<Arc<Settled>>,
}

/// A request that had the same response, for a new one, and that response.
pub(crate) struct Again {
    pub(crate) request: Box<Request>,
    pub(crate) repeat: Box<Repeat>,
    pub(crate) body: Body,
}

impl<'a> Recall<'a> {
    /// A request of this client with this head: `text` is that of the head, or that of its fields over HTTP/2. `None`: nothing is
    /// repeated for it.
    pub(crate) fn new(
        server: &'static Server,
        client: &'a Arc<Client>,
        stream: Option<StreamId>,
        text: &[u8],
    ) -> Option<Recall<'a>> {
        if text.len() > HEAD_MAX || !is_plain(client) {
            return None;
        }
        let hash = REPEATS.with_borrow(|repeats| repeats.hasher.hash_one(text));
        Some(Recall { server, client, stream, tick: None, arrived: None, hash })
    }

    /// What an earlier request with this head leads to.
    pub(crate) fn same(&mut self, text: &[u8]) -> Option<Recalled> {
        self.arrived.get_or_insert_with(Instant::now);
        let found = REPEATS.with_borrow_mut(|repeats| repeats.take_same(text, self))?;
        self.recalled(found)
    }

    /// What requests lead to that asked the same as this one. If that is their response, this one has yet to
    /// [become](Again::with_head) one of them. `Err`: there is none; the key, if the response may be worth remembering. `fields`: the
    /// text of its fields, over HTTP/2.
    pub(crate) fn similar(&mut self, head: &mut RequestHead, fields: Option<&[u8]>) -> Result<Recalled, Option<Key>> {
        if !is_alone(head) {
            return Err(None);
        }
        for returned in REPEATS.with_borrow(|repeats| repeats.inbox.take()) {
            change(|repeats| repeats.put_returned(returned));
        }
        let (hash, found) = REPEATS.with_borrow_mut(|repeats| {
            let hash = hash_of(&repeats.hasher, self.client, head, FieldSet::default(), &[]);
            (hash, repeats.take_similar(hash, head, fields, self).ok_or_else(|| repeats.seen.has_met(hash)))
        });
        let key = || Key { hash, inbox: REPEATS.with_borrow(|repeats| repeats.inbox.clone()) };
        match found {
            Ok(found) => self.recalled(found).ok_or_else(|| Some(key())),
            Err(is_known) => Err(is_known.then(key)),
        }
    }

    /// Whether the file that the phases looked at for a prepared request is as it was, if there is one.
    fn finds_file(&self, prepared: &Request) -> bool {
        let file = prepared.prepared.as_ref().and_then(|prepared| prepared.file.as_ref());
        file.is_none_or(|file| {
            let start = self.arrived.unwrap_or_else(Instant::now);
            file.holds(&self.server.watched, self.tick, start)
        })
    }

    fn recalled(&mut self, found: Found) -> Option<Recalled> {
        match found {
            Found::Taken(remembered) => self.again(remembered).map(Recalled::Again),
            Found::Prepared(begun) => Some(Recalled::Prepared(begun)),
            Found::Gone(gone) => {
                drop(gone);
                None
            }
        }
    }

    /// Makes a remembered request a new one. `None`: its response no longer holds.
    fn again(&mut self, Remembered { mut request, mut repeat }: Remembered) -> Option<Again> {
        let start = *self.arrived.get_or_insert_with(Instant::now);
        request.account = Account::new(start).announced_in(self.tick);
        let body = match &mut repeat.content {
            Repeated::Stored(kept) => kept.renew(&mut request, &mut repeat.head)?,
            content => {
                let body = content.of(&request)?;
                with_date(request.account.time, |date| repeat.head.tell(date));
                body
            }
        };
        repeat.nobody = Some(mem::replace(&mut request.client, self.client.clone()));
        request.data.stream = self.stream;
        *request.made.get_mut() = repeat.made;
        repeat.renew(&mut request);
        Some(Again { request, repeat, body })
    }
}

impl Again {
    /// Makes this the head of the request, and gives it what memory the former one can spare. A head that was met before is kept
    /// for the next request with it. `fields`: the text of its fields, over HTTP/2.
    pub(crate) fn with_head(mut self, head: &mut RequestHead, fields: Option<&[u8]>, recall: &Recall<'_>) -> Again {
        let Again { request, repeat, .. } = &mut self;
        repeat.memory = 0;
        if let Some(kept) = repeat.heads.get(recall.hash, fields.unwrap_or_else(|| head.text())) {
            // It was not found, because another one has a hash like it.
            request.data.head = kept.head.clone();
            repeat.place = None;
            return self;
        }
        let is_known = REPEATS.with_borrow_mut(|repeats| repeats.seen_heads.has_met(recall.hash));
        match Arc::get_mut(&mut request.data.head) {
            Some(former) if !is_known => former.become_like(head),
            _ => request.data.head = Arc::new(mem::take(head)),
        }
        repeat.new_head = is_known.then(|| (recall.hash, fields.map(<[u8]>::to_vec)));
        self
    }

    /// Leaves the request where it was.
    pub(crate) fn leave(self) {
        self.repeat.remember(self.request);
    }
}

/// Whether this is a request without a body that asks for nothing but a response.
fn is_alone(head: &RequestHead) -> bool {
    let (table, text) = head.parts();
    matches!(table.method(text), b"GET" | b"HEAD")
        && Framing::of(table, text) == Ok(Framing::None)
        && !table.has(text, KnownField::Expect)
        && !table.has(text, KnownField::Upgrade)
}

/// Whether requests of this client's may be repeats. Who has changed the levels of messages wants to see those of the phases.
fn is_plain(client: &Client) -> bool {
    !client.is_misdirected() && client.announced() == Announced::Nobody && !runtime::log_levels::are_changed()
}

/// The variables that each request has anew, as far as this request has its own in them, and where they are.
fn renewed(request: &Request) -> Vec<(&'static str, usize, WriteVariable)> {
    let is_own = |name: &str| {
        request.own_variables.iter().any(|(own, value)| *own == name && request.env.get(name) == Some(value))
    };
    let all = request.hooks.own_variables.iter();
    let own = all.filter(|(name, _)| is_own(name));
    own.filter_map(|(name, write)| Some((*name, request.env.place(name)?, *write))).collect()
}

/// Whether the file and the way to it are as they were, by the same questions that the phases ask.
fn holds(request: &Request, file: &CachedFile, path: &CStr, walked: &Walked) -> bool {
    let Request { account, server, .. } = request;
    account.shares(&file.look, || sys::file::stat(path).is_ok_and(|meta| meta == file.meta))
        && walked.holds(&server.watched, account.tick, account.start)
}

impl Repeat {
    /// How to send a response again whose head was just written; `None`: it must be made anew. `fields`: the text of the request's
    /// fields, over HTTP/2.
    pub(crate) fn of(
        Key { hash: key, inbox }: Key,
        request: &Request,
        head: SentHead,
        fields: Option<Vec<u8>>,
        body: &Body,
        delimiter: Delimiter,
    ) -> Option<Box<Repeat>> {
        let Request { data, response, account, prepared, .. } = request;
        let remembered = match prepared {
            Some(_) => request.template.as_deref()?,
            None => request,
        };
        // If a handler makes the response, it may depend on anything.
        let is_same = prepared.is_some()
            || request.is_plain()
                && request.trace.is_none()
                && response.status_line().is_none()
                && response.rate_limit.is_none()
                && account.sent.trailers_out.is_empty();
        let size = text_of(remembered);
        let is_small = data.head.text().len() <= HEAD_MAX && head.len() <= HEAD_MAX && size <= TEXT_MAX;
        if !is_same || !is_small || !is_plain(&request.client) {
            return None;
        }
        let (asked, outcomes) = match prepared {
            Some(prepared) => (prepared.asked, prepared.outcomes.clone()),
            None if data.changed_fields().is_none() => (data.head.asked(), data.head.outcomes().get()),
            None => (FieldSet::ALL, data.head.outcomes().get()),
        };
        let asked = asked.and(AGREED);
        let agreed = hash_of(inbox.hasher(), &request.client, &data.head, asked, &outcomes);
        // Only the thread of the inbox knows whether it has room.
        let may_be_welcome = REPEATS.with_borrow_mut(|repeats| !inbox.is_of(repeats) || repeats.welcomes(key, agreed));
        if !may_be_welcome {
            return None;
        }
        let is_http2 = fields.is_some();
        let hash = inbox.hasher().hash_one(fields.as_deref().unwrap_or_else(|| data.head.text()));
        let file = prepared.as_ref().and_then(|prepared| prepared.file.as_ref());
        let of_file = file.map_or(Some(0), |file| file.memory(ACCESS_FILES_MAX))?;
        let content = match prepared {
            Some(_) => Repeated::Prepared,
            None => Repeated::content(request, body)?,
        };
        let client = &request.client;
        Some(Box::new(Repeat {
            heads: KeptHeads::default(),
            new_head: Some((hash, fields)),
            place: None,
            inbox,
            is_new: true,
            own_memory: size_of::<Request>() + size_of::<Repeat>() + size + head.len() + content.len() + of_file,
            memory: 0,
            key,
            agreed,
            asked,
            outcomes,
            local: client.local(),
            is_http2,
            named: client.session().map(Session::named),
            content,
            head,
            delimiter,
            shown: Arc::new(Shown::of(request)),
            made: remembered.made.load(Ordering::Relaxed),
            nobody: None,
            renewed: renewed(remembered),
        }))
    }

    /// Whether the client has reached the same address of the same server, and has asked for the same in its handshake.
    fn is_for(&self, request: &Request, Recall { server, client, stream, .. }: &Recall<'_>) -> bool {
        // Bytes that are no head of HTTP/1 may be the text of a head of HTTP/2.
        if stream.is_some() != self.is_http2 {
            return false;
        }
        let is_same = match (&self.named, client.session()) {
            (None, None) => true,
            (Some(named), Some(session)) => session.is_named(named),
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same && ptr::eq(request.server, *server) && self.local == client.local()
    }

    /// A place for the response to requests with one head, if it may recur: one that a handler makes.
    fn new_slot(&self) -> Option<Arc<Slot>> {
        matches!(self.content, Repeated::Prepared).then(Arc::default)
    }

    /// Gives a request the variables that each request has anew.
    fn renew(&self, request: &mut Request) {
        for (name, place, write) in &self.renewed {
            request.renew_own_variable(name, *place, *write);
        }
    }

    /// A request with this head, which begins where another one is before its handler. `slot`: for its response.
    fn begin(&self, prepared: &Request, head: Arc<RequestHead>, slot: Option<Arc<Slot>>, recall: &Recall<'_>) -> Begun {
        let start = recall.arrived.unwrap_or_else(Instant::now);
        let account = Account::new(start).announced_in(recall.tick);
        let settled = slot.as_ref().and_then(|slot| slot.get());
        let response = settled.as_ref().map(|settled| (settled.number, &settled.response));
        let mut request = prepared.again(head, recall.client.clone(), account, response);
        request.data.stream = recall.stream;
        if settled.is_none() && slot.as_ref().is_some_and(|slot| slot.is_wanted()) {
            request.recurrence = Recurrence::Wanted;
        }
        self.renew(&mut request);
        Begun { request, shown: self.shown.clone(), slot, settled }
    }

    /// A request gets the response.
    pub(crate) fn count(&self) {
        if let Repeated::Stored(kept) = &self.content {
            kept.count();
        }
    }

    /// Remembers a request that has ended.
    pub(crate) fn remember(mut self: Box<Repeat>, mut request: Box<Request>) {
        if let Some(template) = request.template.take() {
            request.recycle();
            request = template;
        }
        request.client = self.nobody.take().unwrap_or_else(client::nobody);
        request.mapped.served = None;
        request.mapped.walked = None;
        let new_head = self.new_head.take();
        if let Some(head) = Arc::get_mut(&mut request.data.head) {
            head.shrink(if new_head.is_some() { 0 } else { HEAD_MAX });
            if let Some((hash, fields)) = new_head {
                let slot = self.new_slot();
                self.heads.keep(hash, &request.data.head, fields, slot);
                self.place = None;
            }
        }
        if self.memory == 0 {
            self.memory = self.own_memory + request.data.head.memory() + self.heads.memory();
        }
        let remembered = Remembered { request, repeat: self };
        match REPEATS.with_borrow(|repeats| remembered.repeat.inbox.is_of(repeats)) {
            true => change(|repeats| repeats.put(remembered)),
            false => remembered.go_back(),
        }
    }
}

impl Repeated {
    /// The content of this response. `None`: it is not repeated.
    fn content(request: &Request, body: &Body) -> Option<Repeated> {
        let Request { data, mapped, response, .. } = request;
        let is_bodyless = data.header_only || http::status::is_bodyless(response.status());
        if mapped.looked.is_some() {
            return None;
        }
        let looked = mapped.kept.is_some() || mapped.walked.is_some() || mapped.is_directory;
        if let Some(stored) = &request.stored {
            // Nobody would look at the file again.
            let is_kept = !looked && matches!(response.status(), 200 | 206 | 304);
            return is_kept.then(|| KeptStored::of(request, stored, body)).flatten().map(Repeated::Stored);
        }
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
            (301 | 302 | 303 | 307 | 308, None) => match body {
                _ if looked => None,
                Body::Empty if is_bodyless => Some(Repeated::Redirect(Bytes::new())),
                Body::Bytes(bytes) if bytes.len() <= TEXT_MAX => Some(Repeated::Redirect(bytes.clone())),
                _ => None,
            },
            _ => None,
        }
    }

    /// How much memory it takes, in bytes.
    fn len(&self) -> usize {
        match self {
            Repeated::File { path, .. } => path.count_bytes(),
            Repeated::Redirect(page) => page.len(),
            Repeated::Stored(kept) => kept.len(),
            Repeated::Prepared => size_of::<Prepared>(),
        }
    }

    /// The body for another request, if the content is as it was.
    fn of(&self, request: &Request) -> Option<Body> {
        let (file, path, part, walked) = match self {
            Repeated::Redirect(page) if page.is_empty() => return Some(Body::Empty),
            Repeated::Redirect(page) => return Some(Body::Bytes(page.clone())),
            Repeated::Stored(_) | Repeated::Prepared => return None,
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

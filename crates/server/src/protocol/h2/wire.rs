//! What all streams of a connection share: the protocol's state, what has come, and what is to be sent.
//!
//! Streams append their frames to one buffer. The connection sends it when they have nothing more to write, so that many
//! small responses share one system call and one TLS record. As long as much is unsent, streams wait in a line, the urgent ones
//! first, and send one frame at a time while others wait.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::h2::{At, Connection, FieldList, Gone, HeadWriter, Reason};

use crate::message::buffers;
use crate::transport::endpoint::Transport;

/// Streams wait as long as so much of a connection is unsent, in bytes: four frames of the usual size.
const ROOM: usize = 64 * 1024;
/// Streams are woken when less than this is unsent.
const REFILL: usize = ROOM / 4;
/// The most that the heads of a connection's streams may take, in bytes. A few bytes of a compressed head can stand for
/// kilobytes.
const HEADS: usize = 1024 * 1024;
/// The size of the first read of several, and of the others, in bytes: requests are small, and bodies are not.
const FIRST: usize = 4 * 1024;
const PIECE: usize = 16 * 1024;

/// What a connection sends and receives, as all its streams see it.
pub(super) struct Wire {
    transport: Arc<dyn Transport>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) protocol: Connection<StreamState>,
    /// How much of the protocol's bytes is sent.
    sent: usize,
    /// Bytes sent and received so far.
    carried: (u64, u64),
    /// Received, and how much of it was used.
    input: Vec<u8>,
    used: usize,
    /// The number of reads since the connection was last polled.
    reads: u32,
    /// What streams hold because they have to wait, in bytes.
    held: usize,
    /// The heads of streams that were not released, in bytes.
    heads: usize,
    /// The streams that wait for room on the connection.
    line: VecDeque<(u8, At)>,
    /// The connection is over.
    is_over: bool,
}

/// What a stream has received, and who waits for it.
#[derive(Default)]
pub(super) struct StreamState {
    pieces: VecDeque<Vec<u8>>,
    pub(super) trailers: Option<FieldList>,
    /// The client has sent everything.
    pub(super) has_ended: bool,
    /// The client has given up sending the body, but not its response.
    pub(super) is_cut: bool,
    /// The stream has ended early.
    pub(super) gone: Option<Gone>,
    pub(super) reader: Option<Waker>,
    writer: Option<Waker>,
    /// From 0, the most urgent, to 7 (RFC 9218).
    pub(super) urgency: u8,
    /// What of its head is counted, in bytes.
    heads: usize,
}

impl StreamState {
    /// Keeps a piece of the body until it is read. Small ones share their memory: a client may send a frame for each byte.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(bytes.to_vec()),
        }
    }

    /// The next piece.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.pieces.pop_front().map(Bytes::from)
    }

    pub(super) fn wake(&mut self) {
        self.wake_reader();
        self.wake_writer();
    }

    pub(super) fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn wake_writer(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }
}

impl Wire {
    /// `input`: bytes already received.
    pub(super) fn new(transport: Arc<dyn Transport>, protocol: Connection<StreamState>, input: Vec<u8>) -> Arc<Wire> {
        Arc::new(Wire { transport, state: Mutex::new(State::new(protocol, input)) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is to be sent. Ready once nothing is left.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_flush(cx, &*self.transport)
    }

    /// Receives. `Ok(false)`: the client sends nothing more.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut state = self.lock();
        let State { input, used, carried, reads, .. } = &mut *state;
        input.drain(..std::mem::take(used));
        let size = if *reads == 0 { FIRST } else { PIECE };
        let read = ready!(self.transport.poll_read(cx, input, size))?;
        *reads += 1;
        carried.1 += read as u64;
        Poll::Ready(Ok(read > 0))
    }
}

impl State {
    fn new(protocol: Connection<StreamState>, input: Vec<u8>) -> State {
        State {
            protocol,
            sent: 0,
            carried: (0, input.len() as u64),
            input,
            used: 0,
            reads: 0,
            held: 0,
            heads: 0,
            line: VecDeque::new(),
            is_over: false,
        }
    }

    /// Prepares for a poll of the connection.
    pub(super) fn begin(&mut self) {
        self.reads = 0;
        if self.protocol.out().capacity() == 0 {
            *self.protocol.out() = buffers::take();
        }
    }

    /// Whether so much is unsent that nothing more is taken from the client.
    pub(super) fn is_paused(&self) -> bool {
        self.unsent() >= 2 * ROOM
    }

    /// Whether at most one read has returned data since [`begin`](Self::begin).
    pub(super) fn came_at_once(&self) -> bool {
        self.reads <= 1
    }

    /// The protocol, with what was received and not used.
    pub(super) fn received(&mut self) -> (&mut Connection<StreamState>, &[u8]) {
        (&mut self.protocol, &self.input[self.used..])
    }

    /// So much of what was received is used.
    pub(super) fn use_input(&mut self, bytes: usize) {
        self.used += bytes;
        if self.used == self.input.len() {
            self.used = 0;
            buffers::give(std::mem::take(&mut self.input));
        }
    }

    /// Bytes that are yet to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.protocol.unsent() - self.sent
    }

    /// Bytes that wait for the client, here and in the streams.
    pub(super) fn held(&self) -> usize {
        self.unsent() + self.held
    }

    /// Bytes sent and received so far.
    pub(super) fn traffic(&self) -> u64 {
        self.carried.0 + self.carried.1
    }

    /// Whether so many bytes may be sent on this stream at once.
    pub(super) fn has_room(&self, at: At, bytes: usize) -> bool {
        let (of_stream, of_connection) = self.protocol.room(at);
        let is_free = self.line.is_empty() && self.unsent() + bytes <= ROOM;
        is_free && bytes <= of_stream.min(of_connection)
    }

    /// Bytes sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.carried.0
    }

    /// Sends a head and the whole body after it, for which there is [room](Self::has_room). Returns the size of the head's
    /// fields in bytes, without compression; `None`: the stream has ended.
    pub(super) fn respond(
        &mut self,
        at: At,
        status: u16,
        body: &[u8],
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Option<u64> {
        let mut size = 0;
        let sent: Result<bool, Infallible> = self.protocol.head(at, status, body.is_empty(), |writer| {
            write(writer);
            size = writer.size();
            Ok(())
        });
        let is_sent = sent.unwrap_or_else(|never| match never {});
        if is_sent && !body.is_empty() {
            self.protocol.data(at, body, true);
        }
        is_sent.then_some(size)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, transport: &dyn Transport) -> Poll<io::Result<()>> {
        let State { protocol, sent, carried, .. } = self;
        while *sent < protocol.unsent() {
            let polled = transport.poll_send(cx, &protocol.out()[*sent..], false)?;
            let Poll::Ready(count) = polled else {
                // A client that reads slowly and without end must not make this grow.
                if *sent >= ROOM {
                    protocol.out().drain(..std::mem::take(sent));
                }
                return self.refill().map(Ok);
            };
            *sent += count;
            carried.0 += count as u64;
            protocol.sent(count);
        }
        *sent = 0;
        if !protocol.out().is_empty() {
            buffers::give(std::mem::take(protocol.out()));
        }
        let _ = self.refill();
        Poll::Ready(Ok(()))
    }

    /// Wakes the first stream in the line if there is room again.
    fn refill(&mut self) -> Poll<()> {
        if self.unsent() < REFILL {
            self.wake_first();
        }
        Poll::Pending
    }

    /// Wakes the first stream in the line, unless only the client can give it room: its window wakes all of them.
    fn wake_first(&mut self) {
        if !self.protocol.is_greeted() || self.protocol.connection_room() == 0 {
            return;
        }
        if let Some((_, at)) = self.line.front().copied()
            && let Some(stream) = self.protocol.stream(at)
        {
            stream.wake_writer();
        }
    }

    /// Leaves the line.
    fn leave_line(&mut self, at: At) {
        let place = self.line.iter().position(|(_, other)| *other == at);
        if let Some(place) = place {
            self.line.remove(place);
        }
        if place == Some(0) {
            self.wake_first();
        }
    }

    /// Ends a stream without the rest of its response.
    pub(super) fn reset(&mut self, at: At, reason: Reason) {
        self.protocol.reset(at, reason);
        self.leave_line(at);
    }

    /// How much was sent over the connection, if that is more than `before`, and the stream only waits for its turn.
    pub(super) fn progress(&self, at: At, before: u64) -> Option<u64> {
        let waits = self.line.iter().any(|(_, other)| *other == at);
        (waits && self.carried.0 > before).then_some(self.carried.0)
    }

    /// Counts the head that the protocol has just read. `false`: the connection holds too many.
    pub(super) fn holds_request(&mut self, at: At) -> bool {
        self.holds_head(at, self.protocol.fields().size())
    }

    /// Refuses a request: the client may send it again.
    pub(super) fn refuse(&mut self, at: At) {
        self.protocol.reset(at, Reason::REFUSED_STREAM);
        self.release(at);
    }

    /// Counts the bytes of a stream's head, or of the fields after its body, until it is released. `false`: the connection
    /// holds too many.
    pub(super) fn holds_head(&mut self, at: At, bytes: usize) -> bool {
        if self.heads + bytes > HEADS {
            return false;
        }
        if let Some(stream) = self.protocol.stream(at) {
            stream.heads += bytes;
            self.heads += bytes;
        }
        true
    }

    /// The client has opened a window, or all of them.
    pub(super) fn opened(&mut self, at: Option<At>) {
        match at {
            Some(at) => self.protocol.stream(at).into_iter().for_each(StreamState::wake_writer),
            None => self.protocol.streams().for_each(StreamState::wake_writer),
        }
    }

    /// How many of the `wanted` bytes may be sent on this stream now; `None`: it has ended.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>, at: At, wanted: usize) -> Poll<Option<usize>> {
        if self.is_over || !self.protocol.sends(at) {
            return Poll::Ready(None);
        }
        let (of_stream, of_connection) = self.protocol.room(at);
        let of_connection = match self.protocol.is_greeted() {
            true => of_connection.min(ROOM.saturating_sub(self.unsent())),
            // A client that has changed from HTTP/1.1 may not be ready for more than the head.
            false => 0,
        };
        let place = self.line.iter().position(|(_, other)| *other == at);
        let is_first = place.map_or(self.line.is_empty(), |place| place == 0);
        if of_stream > 0 && of_connection > 0 && is_first {
            if place.is_some() {
                self.line.pop_front();
                self.wake_first();
            }
            return Poll::Ready(Some(wanted.min(of_stream).min(of_connection)));
        }
        let Some(stream) = self.protocol.stream(at) else { return Poll::Ready(None) };
        stream.writer = Some(cx.waker().clone());
        let urgency = stream.urgency;
        match place {
            // It waits for its own window, and lets others pass.
            Some(_) if of_stream == 0 => self.leave_line(at),
            None if of_stream > 0 => {
                let behind = self.line.iter().rposition(|(other, _)| *other <= urgency).map_or(0, |last| last + 1);
                self.line.insert(behind, (urgency, at));
            }
            Some(_) | None => {}
        }
        Poll::Pending
    }

    /// Ready once the stream has ended early.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>, at: At) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        match self.protocol.stream(at) {
            Some(stream) if stream.gone.is_none() => {
                stream.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        }
    }

    /// Whether the connection is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The connection is over: all streams have ended.
    pub(super) fn over(&mut self) {
        self.is_over = true;
        self.protocol.streams().for_each(StreamState::wake);
    }

    pub(super) fn release(&mut self, at: At) {
        self.heads -= self.protocol.stream(at).map_or(0, |stream| stream.heads);
        self.protocol.release(at);
        self.leave_line(at);
    }

    /// Gives memory back while there are no streams.
    pub(super) fn rest(&mut self) {
        self.protocol.rest();
        self.line = VecDeque::new();
    }
}

/// Counts a piece that a stream holds while the client takes it.
pub(super) struct Holding<'w>(&'w Wire, usize);

impl<'w> Holding<'w> {
    pub(super) fn of(wire: &'w Wire, bytes: usize) -> Holding<'w> {
        wire.lock().held += bytes;
        Holding(wire, bytes)
    }

    /// So many bytes of it have been passed on.
    pub(super) fn less(&mut self, bytes: usize) {
        self.0.lock().held -= bytes;
        self.1 -= bytes;
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.lock().held -= self.1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use http::h2::{Config, Event, PREFACE};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const CONFIG: Config = Config {
        streams: 10,
        window: 65_535,
        connection_window: 65_535,
        header_list: 16_384,
        tunnels: false,
        faults: None,
    };

    fn receive(state: &mut State, bytes: &[u8]) {
        let mut used = 0;
        while let Some((length, event)) = state.protocol.receive(&bytes[used..]).expect("valid frames") {
            used += length;
            if let Event::Room(at) = event {
                state.opened(at);
            }
        }
    }

    /// A connection with streams whose own windows are large.
    fn greeted(streams: u8) -> (State, Vec<At>) {
        let mut state = State::new(Connection::new(CONFIG, Vec::new()), Vec::new());
        let mut open = vec![state.protocol.upgraded(&[0, 4, 0, 16, 0, 0]).expect("a stream")];
        receive(&mut state, &[PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat());
        for number in (3..).step_by(2).take(usize::from(streams) - 1) {
            // GET, http, / and a host: all of the static table but the last.
            let block = [0x82, 0x86, 0x84, 1, 1, b'h'];
            let frame = [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, number][..], &block].concat();
            match state.protocol.receive(&frame).expect("a valid frame") {
                Some((_, Event::Request { at, .. })) => open.push(at),
                other => panic!("{other:?}"),
            }
        }
        (state, open)
    }

    #[test]
    fn only_the_client_wakes_a_stream_that_waits_for_its_window() {
        let (mut state, open) = greeted(1);
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        assert_eq!(state.protocol.head::<()>(open[0], 200, false, |_| Ok(())), Ok(true));
        let mut sent = 0;
        while let Poll::Ready(room) = state.poll_room(&mut cx, open[0], 10_000) {
            let room = room.expect("it is open");
            state.protocol.data(open[0], &vec![0; room], false);
            sent += room;
            state.protocol.out().clear();
        }
        assert_eq!(sent, 65_535, "the window of the connection");
        let _ = state.refill();
        assert_eq!(count.0.load(Ordering::Relaxed), 0, "nothing has changed");
        receive(&mut state, &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(state.poll_room(&mut cx, open[0], 10_000), Poll::Ready(Some(9)));
    }

    #[test]
    fn streams_take_turns() {
        let (mut state, open) = greeted(3);
        let mut cx = Context::from_waker(Waker::noop());
        for at in &open {
            assert_eq!(state.protocol.head::<()>(*at, 200, false, |_| Ok(())), Ok(true));
        }
        state.protocol.data(open[0], &[0; 65_535], false);
        open.iter().for_each(|at| assert_eq!(state.poll_room(&mut cx, *at, 10), Poll::Pending));
        state.protocol.out().clear();
        receive(&mut state, &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        for _ in 0..3 {
            for at in &open {
                let others = open.iter().filter(|other| *other != at);
                others.for_each(|other| assert!(state.line.front().map(|(_, first)| first) != Some(other)));
                assert_eq!(state.poll_room(&mut cx, *at, 10), Poll::Ready(Some(10)), "{at:?}");
                state.protocol.data(*at, &[0; 10], false);
                assert_eq!(state.poll_room(&mut cx, *at, 10), Poll::Pending, "others wait");
            }
        }
        // Who leaves the line lets the next one pass.
        state.release(open[0]);
        assert!(state.poll_room(&mut cx, open[1], 10).is_ready());
    }

    #[test]
    fn small_pieces_share_their_memory() {
        let mut stream = StreamState::default();
        (0..PIECE + 10).for_each(|_| stream.push(b"x"));
        stream.push(b"");
        assert_eq!(
            (stream.pop().map(|piece| piece.len()), stream.pop().map(|piece| piece.len())),
            (Some(PIECE), Some(10))
        );
        assert_eq!(stream.pop(), None);
    }

    #[test]
    fn heads_have_a_limit() {
        let (mut state, open) = greeted(2);
        assert!(
            state.holds_head(open[0], HEADS - 10) && !state.holds_head(open[1], 11) && state.holds_head(open[1], 10)
        );
        state.release(open[0]);
        assert!(state.holds_head(open[1], HEADS - 10) && !state.holds_head(open[1], 1));
        state.release(open[1]);
        assert_eq!(state.heads, 0);
    }
}

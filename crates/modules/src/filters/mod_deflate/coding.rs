//! Bodies that are compressed or expanded while they are sent, a buffer at a time.

use std::collections::VecDeque;
use std::{io, mem};

use bytes::Bytes;
use flate2::{Compress, Compression, Decompress, DecompressError, FlushCompress, FlushDecompress, Status};
use runtime::{Load, offload};
use server::{Body, BodyStream, Piece};

/// The input to process before other connections get their turn, in bytes: a few milliseconds.
const TURN: usize = 256 * 1024;

/// An encoder or a decoder, as [`Coding`] drives it.
pub(in crate::filters) trait Coder: Send {
    /// Takes some of `input` and appends to `out`, within its capacity. Returns how much it took.
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize>;
    /// Appends everything that the input so far allows to read.
    fn flush(&mut self, _out: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
    /// Appends the rest at the end of the input.
    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
    /// Bytes in and out so far, without the frame of the format.
    fn totals(&self) -> (u64, u64);
    /// Whether a turn of it takes longer than other connections should wait: then it works beside the event loop.
    fn is_slow(&self) -> bool {
        false
    }
}

/// Stands for a slow coder while it works elsewhere, and for good if nobody waited for its return.
struct Absent;

impl Coder for Absent {
    fn feed(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<usize> {
        Err(io::ErrorKind::Interrupted.into())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Err(io::ErrorKind::Interrupted.into())
    }

    fn totals(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// The gzip encoder.
pub(in crate::filters) struct Deflater(Compress);

/// The overhead of the gzip format, in bytes.
const FRAME: u64 = 18;

impl Deflater {
    pub(in crate::filters) fn new(level: u32, window_bits: u8) -> Deflater {
        Deflater(Compress::new_gzip(Compression::new(level), window_bits))
    }
}

impl Coder for Deflater {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let before = self.0.total_in();
        self.0.compress_vec(input, out, FlushCompress::None)?;
        Ok((self.0.total_in() - before) as usize)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            out.reserve(4096);
            self.0.compress_vec(&[], out, FlushCompress::Sync)?;
            // Whatever did not fill the room was all.
            if out.len() < out.capacity() {
                return Ok(());
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            if self.0.compress_vec(&[], out, FlushCompress::Finish)? == Status::StreamEnd {
                return Ok(());
            }
            out.reserve(4096);
        }
    }

    fn totals(&self) -> (u64, u64) {
        (self.0.total_in(), self.0.total_out().saturating_sub(FRAME))
    }
}

/// The gzip decoder.
pub(in crate::filters) struct Inflater {
    stream: Decompress,
    ended: bool,
    limit: RatioLimit,
}

/// `DeflateInflateRatioLimit` and `DeflateInflateRatioBurst`: a small body must not become a flood.
pub(in crate::filters) struct RatioLimit {
    pub(in crate::filters) ratio: u64,
    pub(in crate::filters) burst: u32,
    pub(in crate::filters) hits: u32,
}

impl RatioLimit {
    pub(super) fn check(&mut self, taken: u64, made: u64) -> bool {
        if taken == 0 || made / taken < self.ratio {
            self.hits = 0;
            return true;
        }
        self.hits += 1;
        self.hits <= self.burst
    }
}

impl Inflater {
    pub(in crate::filters) fn new(window_bits: u8, limit: RatioLimit) -> Inflater {
        Inflater { stream: Decompress::new_gzip(window_bits), ended: false, limit }
    }
}

impl Coder for Inflater {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        if self.ended {
            // Bytes after the end are not part of the body.
            return Ok(input.len());
        }
        let before = self.stream.total_in();
        let status = self.stream.decompress_vec(input, out, FlushDecompress::None).map_err(broken)?;
        self.ended = status == Status::StreamEnd;
        if !self.limit.check(self.stream.total_in(), self.stream.total_out()) {
            let RatioLimit { ratio, burst, .. } = self.limit;
            return Err(io::Error::other(format!(
                "AH02650: Inflated content ratio is larger than the configured limit {ratio} by {burst} time(s)"
            )));
        }
        Ok((self.stream.total_in() - before) as usize)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while !self.ended {
            let before = self.stream.total_out();
            out.reserve(4096);
            let status = self.stream.decompress_vec(&[], out, FlushDecompress::Finish).map_err(broken)?;
            self.ended = status == Status::StreamEnd;
            if !self.ended && self.stream.total_out() == before {
                return Err(io::Error::other("AH01401: Zlib: Validation bytes not present"));
            }
        }
        Ok(())
    }

    fn totals(&self) -> (u64, u64) {
        (self.stream.total_in(), self.stream.total_out())
    }
}

fn broken(error: DecompressError) -> io::Error {
    io::Error::other(format!("AH01409: Zlib error -3 inflating data ({error})"))
}

/// Makes notes about a finished body from its bytes in and out.
pub(in crate::filters) type Tell = Box<dyn Fn(u64, u64) -> Vec<(String, String)> + Send>;
/// Reports the coder's errors: the response may already be on its way.
pub(in crate::filters) type Complain = Box<dyn Fn(&io::Error) + Send>;

/// A body on its way through a coder.
pub(in crate::filters) struct Coding {
    source: Box<dyn BodyStream>,
    input: Bytes,
    coder: Box<dyn Coder>,
    out: Vec<u8>,
    /// `DeflateBufferSize`
    size: usize,
    /// Whether each piece goes out at once.
    flushes: bool,
    /// Whether the coder may hold a part of the last piece.
    holds: bool,
    ended: bool,
    failed: Option<io::Error>,
    tell: Tell,
    complain: Complain,
}

impl Coding {
    pub(in crate::filters) fn new(
        source: Box<dyn BodyStream>,
        coder: Box<dyn Coder>,
        size: usize,
        tell: Tell,
        complain: Complain,
    ) -> Coding {
        let (input, out) = (Bytes::new(), Vec::new());
        let (flushes, holds, ended) = (false, false, false);
        Coding { source, input, coder, out, size, flushes, holds, ended, failed: None, tell, complain }
    }

    /// Lets each piece of the source go out at once, if that is wanted.
    pub(in crate::filters) fn flushing(self, flushes: bool) -> Coding {
        Coding { flushes, ..self }
    }

    /// Works until a buffer is full, or a piece goes out at once. `Some`: the body has ended before, and this is all of it.
    pub(in crate::filters) async fn start(&mut self) -> Option<Bytes> {
        match self.fill().await {
            Ok(()) if self.ended => Some(mem::take(&mut self.out).into()),
            Ok(()) => None,
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// Has the coder do a step, and says what it comes to.
    async fn code<T: Send + 'static>(
        &mut self,
        step: impl FnOnce(&mut dyn Coder, &mut Vec<u8>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let result = if self.coder.is_slow() {
            let (mut coder, mut out) = (mem::replace(&mut self.coder, Box::new(Absent)), mem::take(&mut self.out));
            let job = move || {
                let result = step(&mut *coder, &mut out);
                (coder, out, result)
            };
            let (coder, out, result) = offload(Load::Compute, job).await;
            (self.coder, self.out) = (coder, out);
            result
        } else {
            step(&mut *self.coder, &mut self.out)
        };
        result.inspect_err(&self.complain)
    }

    async fn fill(&mut self) -> io::Result<()> {
        let mut worked = 0;
        while self.out.len() < self.size {
            if self.input.is_empty() {
                if self.flushes && mem::take(&mut self.holds) {
                    self.code(|coder, out| coder.flush(out)).await?;
                    if !self.out.is_empty() {
                        return Ok(());
                    }
                }
                match self.source.next().await {
                    Some(piece) => self.input = piece?,
                    None => {
                        self.ended = true;
                        return self.code(|coder, out| coder.finish(out)).await;
                    }
                }
            }
            self.out.reserve_exact(self.size - self.out.len());
            let piece = self.input.slice(..self.input.len().min(TURN));
            let (had, room) = (self.out.len(), self.out.capacity());
            let taken = self.code(move |coder, out| coder.feed(&piece, out)).await?;
            if taken == 0 && self.out.len() == had && had < room {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.holds = true;
            let _ = self.input.split_to(taken);
            worked += taken.max(self.out.len() - had);
            if worked >= TURN {
                worked = 0;
                runtime::yield_now().await;
            }
        }
        Ok(())
    }
}

impl BodyStream for Coding {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            if self.out.is_empty() && !self.ended && self.failed.is_none() {
                self.failed = self.fill().await.err();
            }
            if let Some(error) = self.failed.take() {
                // Incomplete output must not look like the end.
                self.out.clear();
                self.ended = true;
                return Some(Err(error));
            }
            let piece = mem::take(&mut self.out);
            (!piece.is_empty()).then(|| Ok(piece.into()))
        })
    }

    fn notes(&self) -> Vec<(String, String)> {
        let (taken, made) = self.coder.totals();
        let mut notes = self.source.notes();
        notes.extend((self.tell)(taken, made));
        notes
    }
}

/// A body whose beginning was examined.
pub(in crate::filters) struct Begun {
    start: VecDeque<Bytes>,
    /// The length of the beginning, in bytes.
    pub(in crate::filters) seen: u64,
    /// The beginning is the whole body.
    pub(in crate::filters) is_all: bool,
    rest: Box<dyn BodyStream>,
    length: Option<u64>,
    /// The error that ended the beginning.
    failed: Option<io::Error>,
}

impl Begun {
    /// Waits for `count` bytes, or the end.
    pub(in crate::filters) async fn look(body: Body, count: u64) -> Begun {
        let (length, rest) = (body.length(), body.into_stream());
        let mut begun = Begun { start: VecDeque::new(), seen: 0, is_all: false, rest, length, failed: None };
        while begun.seen < count {
            match begun.rest.next().await {
                Some(Ok(piece)) => {
                    begun.seen += piece.len() as u64;
                    begun.start.push_back(piece);
                }
                Some(Err(error)) => {
                    begun.failed = Some(error);
                    break;
                }
                None => {
                    begun.is_all = true;
                    break;
                }
            }
        }
        begun
    }

    /// A byte of the beginning.
    pub(in crate::filters) fn byte(&self, at: usize) -> Option<u8> {
        self.start.iter().flatten().nth(at).copied()
    }

    /// The beginning in one piece, the error that ended it, and what follows.
    pub(in crate::filters) fn into_parts(self) -> (Vec<u8>, Option<io::Error>, Box<dyn BodyStream>) {
        (self.start.into_iter().flatten().collect(), self.failed, self.rest)
    }

    /// The body again, from its first byte. An empty body without a length stays that way: it answers HEAD.
    pub(in crate::filters) fn into_body(self) -> Body {
        if self.is_all && (self.seen > 0 || self.length == Some(0)) {
            return Body::Bytes(self.start.into_iter().flatten().collect());
        }
        Body::Stream(Box::new(self))
    }
}

impl BodyStream for Begun {
    fn next(&mut self) -> Piece<'_> {
        if let Some(piece) = self.start.pop_front() {
            return Box::pin(std::future::ready(Some(Ok(piece))));
        }
        match self.failed.take() {
            Some(error) => Box::pin(std::future::ready(Some(Err(error)))),
            None => self.rest.next(),
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn notes(&self) -> Vec<(String, String)> {
        self.rest.notes()
    }
}

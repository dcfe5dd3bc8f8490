//! Bodies of responses and requests in larger pieces: the filters `BUFFER`.
//!
//! Apache manual: mod_buffer.

use std::io;

use bytes::Bytes;
use conf::directive::Args::Take1;
use conf::values::strtol;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings, shown};
use server::{Body, BodyStream, Hook, InputBody, InputFilter, Module, OutputFilter, Piece, Rank, Request, RequestKind};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "buffer_module", source: "mod_buffer.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&BUFFER), Hook::InputFilter(&BODIES)],
};

static BUFFER: OutputFilter = OutputFilter {
    name: "BUFFER",
    rank: Rank::CONTENT_SET,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(buffer(request, body)),
};

static BODIES: InputFilter = InputFilter { name: "BUFFER", rank: Rank::CONTENT_SET, apply: buffer_body };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("BufferSize", Allowed::SECTION, Take1(set_size), shown!(SIZE), "Maximum size of the buffer used by the buffer filter"),
];

const SIZE: usize = 128 * 1024;

settings! {
    /// The module's settings of a section.
    pub struct BufferDir {
        size: Setting<usize> = SIZE,
    }
}

fn set_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = conf::values::number(value).map(|_| strtol(value)).and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size > 0).ok_or("BufferSize must be a size in bytes, and greater than zero")?;
    cmd.set(|d: &mut BufferDir| &mut d.size, size)
}

/// A complete body is already one piece, and a part of another answer is gathered with that.
async fn buffer(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    let Body::Stream(source) = body else { return body };
    if request.is_subrequest() || request.response.flushes() {
        return Body::Stream(source);
    }
    let length = source.length();
    let mut buffered = Buffered { source, size: request.dir::<BufferDir>().size(), length, is_over: false };
    match buffered.gather().await {
        Ok(all) if buffered.is_over && length.is_none() && !all.is_empty() => Body::Bytes(all),
        first => Body::Stream(Box::new(Begun { first: Some(first), rest: buffered })),
    }
}

/// Gathers nothing before it is asked for a piece.
fn buffer_body(request: &mut Request, source: InputBody) -> InputBody {
    if !matches!(request.kind, RequestKind::Main) {
        return source;
    }
    let (size, length) = (request.dir::<BufferDir>().size(), source.length());
    Box::new(Begun { first: None, rest: Buffered { source, size, length, is_over: false } })
}

struct Buffered {
    source: Box<dyn BodyStream>,
    size: usize,
    length: Option<u64>,
    is_over: bool,
}

impl Buffered {
    /// Gathers as much as fits into a buffer.
    async fn gather(&mut self) -> io::Result<Bytes> {
        let mut all: Vec<u8> = Vec::new();
        while all.len() < self.size {
            match self.source.next().await {
                // A piece that needs no buffering.
                Some(Ok(piece)) if all.is_empty() && piece.len() >= self.size => return Ok(piece),
                Some(piece) => all.extend_from_slice(&piece?),
                None => {
                    self.is_over = true;
                    break;
                }
            }
        }
        Ok(all.into())
    }
}

/// A body whose first buffer may be full.
struct Begun {
    first: Option<io::Result<Bytes>>,
    rest: Buffered,
}

impl BodyStream for Begun {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            let piece = match self.first.take() {
                Some(first) => first,
                None if self.rest.is_over => return None,
                None => self.rest.gather().await,
            };
            match piece {
                Ok(piece) if piece.is_empty() && self.rest.is_over => None,
                piece => Some(piece),
            }
        })
    }

    fn length(&self) -> Option<u64> {
        self.rest.length
    }

    fn notes(&self) -> Vec<(String, String)> {
        self.rest.source.notes()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        let wrong = "BufferSize must be a size in bytes, and greater than zero";
        crate::testing::check(&[
            ("<Location />\nBufferSize 10\n</Location>", ""),
            ("<Location />\nBufferSize 0\n</Location>", wrong),
            ("<Location />\nBufferSize 10k\n</Location>", wrong),
            ("BufferSize 10", "BufferSize not allowed here"),
        ]);
    }
}

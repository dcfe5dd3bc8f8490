//! Compression with Zstandard (RFC 8878, RFC 9659): the output filter `ZSTD_COMPRESS`, built like mod_brotli's.
//!
//! Apache has no such module; the names are those of third-party ones.

use std::io;

use conf::directive::Args::{Take1, Take12};
use conf::values::{atoi, one_of};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, Setting, row, settings, shown};
use server::{Body, Hook, Module, OutputFilter, Rank, Request};
use sys::zstd::{self, Compressor, LEVEL_MAX};

use super::compression::{AlterEtag, Choice, Notes, choose, code};
use super::mod_deflate::coding::Coder;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "zstd_module", source: "mod_zstd.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&ZSTD_COMPRESS)],
};

static ZSTD_COMPRESS: OutputFilter = OutputFilter {
    name: "ZSTD_COMPRESS",
    rank: Rank::CONTENT_SET,
    prepare: None,
    unmodified: Some(|request| {
        coding(request);
    }),
    apply: |request, body| Box::pin(compress(request, body)),
};

const SERVER: Allowed = Allowed::SERVER;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ZstdFilterNote", SERVER, Take12(set_note), "", "Set a note to report on compression ratio").syntax("[type] notename"),
    row("ZstdCompressionLevel", SERVER, Take1(set_level), shown!(LEVEL), "Compression level between 1 and 22 (higher levels compress better, but take more time and memory)").syntax("level"),
    row("ZstdAlterETag", SERVER, Take1(set_etag), "AddSuffix", "Set how mod_zstd should modify ETag response headers: 'AddSuffix' (default), 'NoChange', 'Remove'").syntax("AddSuffix|NoChange|Remove"),
];

/// The library's own default.
const LEVEL: i32 = 3;
/// From this level on, other connections would wait for too long: a quarter of a megabyte of text takes 25 ms, and 190 ms at the
/// highest one; some texts take twice as long.
const SLOW: i32 = 13;
/// The size of a piece to send, in bytes.
const BUFFER: usize = 8096;

settings! {
    /// The module's settings of a server.
    pub struct ZstdServer {
        notes: Notes,
        level: Setting<i32> = LEVEL,
        etag: Setting<AlterEtag>,
    }
}

fn set_note(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    let origin = cmd.origin();
    let set = cmd.server.edit::<ZstdServer>().notes.set(first, second, &origin);
    set.map_err(|kind| Refusal::argument(1, format!("Unknown ZstdFilterNote type '{kind}'")))?;
    Ok(library_is_there()?)
}

fn set_level(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let level = atoi(value);
    if !(1..=LEVEL_MAX).contains(&level) {
        return Err(format!("ZstdCompressionLevel must be between 1 and {LEVEL_MAX}").into());
    }
    library_is_there()?;
    cmd.server_set(|s: &mut ZstdServer| &mut s.level, level)
}

fn set_etag(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value =
        one_of(value, &AlterEtag::NAMES).ok_or("ZstdAlterETag accepts only 'AddSuffix', 'NoChange' and 'Remove'")?;
    library_is_there()?;
    cmd.server_set(|s: &mut ZstdServer| &mut s.etag, value)
}

fn library_is_there() -> Result<(), String> {
    zstd::load().map_err(|error| format!("mod_zstd needs libzstd.so.1 (apt-get install libzstd1): {error}"))
}

/// Decides whether the response is compressed, and sets its fields.
fn coding(request: &mut Request) -> Choice {
    if let Err(error) = zstd::load() {
        request.log("zstd", Level::Error, format!("the response is not compressed: {error}"));
        return Choice::AsIs;
    }
    let etag = request.vhost.settings.get::<ZstdServer>().etag.value_or(AlterEtag::AddSuffix);
    choose(request, "zstd", "no-zstd", "zstd", etag)
}

async fn compress(request: &mut Request, body: Body) -> Body {
    let conf = request.vhost.settings.get::<ZstdServer>();
    match coding(request) {
        Choice::AsIs => return body,
        Choice::Known => return Body::Empty,
        Choice::Coded => {}
    }
    let level = conf.level();
    let compressor = match Compressor::new(level, body.length()) {
        Ok(compressor) => compressor,
        Err(error) => {
            // The fields already say that it is.
            request.log("zstd", Level::Error, format!("the response cannot be compressed: {error}"));
            request.response.set_status(500);
            return Body::Empty;
        }
    };
    code(
        request,
        "zstd",
        body,
        Box::new(Zstd { compressor, is_slow: level >= SLOW, taken: 0, given: 0 }),
        BUFFER,
        conf.notes.tell(),
    )
    .await
}

/// The Zstandard encoder.
struct Zstd {
    compressor: Compressor,
    is_slow: bool,
    taken: u64,
    given: u64,
}

impl Zstd {
    /// Appends all that a step gives.
    fn give(
        &mut self,
        out: &mut Vec<u8>,
        step: fn(&mut Compressor, &mut Vec<u8>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let before = out.len();
        while !step(&mut self.compressor, out)? {
            out.reserve(4096);
        }
        self.given += (out.len() - before) as u64;
        Ok(())
    }
}

impl Coder for Zstd {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let before = out.len();
        let taken = self.compressor.feed(input, out)?;
        self.taken += taken as u64;
        self.given += (out.len() - before) as u64;
        Ok(taken)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.give(out, Compressor::flush)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.give(out, Compressor::finish)
    }

    fn totals(&self) -> (u64, u64) {
        (self.taken, self.given)
    }

    fn is_slow(&self) -> bool {
        self.is_slow
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_and_their_errors() {
        crate::testing::check(&[
            ("ZstdCompressionLevel 22\nZstdAlterETag remove\nZstdFilterNote r\nZstdFilterNote input i", ""),
            ("ZstdCompressionLevel 23", "ZstdCompressionLevel must be between 1 and 22"),
            ("ZstdCompressionLevel 0", "ZstdCompressionLevel must be between 1 and 22"),
            ("ZstdAlterETag x", "ZstdAlterETag accepts only 'AddSuffix', 'NoChange' and 'Remove'"),
            ("ZstdFilterNote in x", "Unknown ZstdFilterNote type 'in'"),
        ]);
    }
}

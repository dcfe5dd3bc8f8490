//! Compression with Brotli (RFC 7932): the output filter `BROTLI_COMPRESS`.
//!
//! Apache manual: mod_brotli.

use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use conf::directive::Args::{Take1, Take12};
use conf::values::{atoi, one_of};
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Refusal, Setting, row, settings, shown};
use server::{Body, Hook, Module, OutputFilter, Rank, Request};

use super::compression::{AlterEtag, Choice, Notes, choose, code};
use super::mod_deflate::coding::Coder;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "brotli_module", source: "mod_brotli.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&BROTLI_COMPRESS)],
};

static BROTLI_COMPRESS: OutputFilter = OutputFilter {
    name: "BROTLI_COMPRESS",
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
    row("BrotliFilterNote", SERVER, Take12(set_note), "", "Set a note to report on compression ratio"),
    row("BrotliCompressionQuality", SERVER, Take1(set_quality), shown!(QUALITY), "Compression quality between 0 and 11 (higher quality means slower compression)").differs("Another library compresses, so the bytes differ."),
    row("BrotliCompressionWindow", SERVER, Take1(set_window), shown!(WINDOW), "Sliding window size between 10 and 24 (larger windows can improve compression, but require more memory)"),
    row("BrotliCompressionMaxInputBlock", SERVER, Take1(set_block), "", "Maximum input block size between 16 and 24 (larger block sizes require more memory)"),
    row("BrotliAlterETag", SERVER, Take1(set_etag), "AddSuffix", "Set how mod_brotli should modify ETag response headers: 'AddSuffix' (default), 'NoChange', 'Remove'"),
];

const QUALITY: i32 = 5;
const WINDOW: i32 = 18;
/// From this quality on, other connections would wait for too long: a quarter of a megabyte of text takes 20 ms, and 350 ms at
/// the highest one.
const SLOW: i32 = 9;
/// The size of a piece to send, in bytes.
const BUFFER: usize = 8096;

settings! {
    /// The module's settings of a server.
    pub struct BrotliServer {
        notes: Notes,
        quality: Setting<i32> = QUALITY,
        window: Setting<i32> = WINDOW,
        block: Setting<i32>,
        etag: Setting<AlterEtag>,
    }
}

fn set_note(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    let origin = cmd.origin();
    let set = cmd.server.edit::<BrotliServer>().notes.set(first, second, &origin);
    set.map_err(|kind| Refusal::argument(1, format!("Unknown BrotliFilterNote type '{kind}'")))
}

fn set_quality(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        quality @ 0..=11 => cmd.server_set(|s: &mut BrotliServer| &mut s.quality, quality),
        _ => Err("BrotliCompressionQuality must be between 0 and 11".into()),
    }
}

fn set_window(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        window @ 10..=24 => cmd.server_set(|s: &mut BrotliServer| &mut s.window, window),
        _ => Err("BrotliCompressionWindow must be between 10 and 24".into()),
    }
}

fn set_block(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        block @ 16..=24 => cmd.server_set(|s: &mut BrotliServer| &mut s.block, block),
        _ => Err("BrotliCompressionMaxInputBlock must be between 16 and 24".into()),
    }
}

fn set_etag(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value =
        one_of(value, &AlterEtag::NAMES).ok_or("BrotliAlterETag accepts only 'AddSuffix', 'NoChange' and 'Remove'")?;
    cmd.server_set(|s: &mut BrotliServer| &mut s.etag, value)
}

/// Decides whether the response is compressed, and sets its fields.
fn coding(request: &mut Request) -> Choice {
    let etag = request.vhost.settings.get::<BrotliServer>().etag.value_or(AlterEtag::AddSuffix);
    choose(request, "brotli", "no-brotli", "br", etag)
}

async fn compress(request: &mut Request, body: Body) -> Body {
    let conf = request.vhost.settings.get::<BrotliServer>();
    match coding(request) {
        Choice::AsIs => return body,
        Choice::Known => return Body::Empty,
        Choice::Coded => {}
    }
    let mut parameters =
        BrotliEncoderParams { quality: conf.quality(), lgwin: conf.window(), ..BrotliEncoderParams::default() };
    if let Some(block) = conf.block.get() {
        parameters.lgblock = *block;
    }
    let coder = Brotli::new(&parameters);
    code(request, "brotli", body, Box::new(coder), BUFFER, conf.notes.tell()).await
}

/// The library's encoder, which writes into memory; `made` holds what the caller had no room for.
struct Brotli {
    /// `None`: it has ended.
    writer: Option<CompressorWriter<Vec<u8>>>,
    /// Output that did not fit.
    made: Vec<u8>,
    is_slow: bool,
    taken: u64,
    given: u64,
}

impl Brotli {
    fn new(parameters: &BrotliEncoderParams) -> Brotli {
        let writer = CompressorWriter::with_params(Vec::new(), BUFFER, parameters);
        Brotli { writer: Some(writer), made: Vec::new(), is_slow: parameters.quality >= SLOW, taken: 0, given: 0 }
    }

    fn give(&mut self, out: &mut Vec<u8>, room: usize) {
        let count = self.made.len().min(room);
        out.extend(self.made.drain(..count));
        self.given += count as u64;
    }
}

impl Coder for Brotli {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let room = out.capacity() - out.len();
        let taken = match &mut self.writer {
            Some(writer) if self.made.is_empty() => {
                let taken = writer.write(input)?;
                self.made.append(writer.get_mut());
                taken
            }
            _ => 0,
        };
        self.taken += taken as u64;
        self.give(out, room);
        Ok(taken)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.flush()?;
            self.made.append(writer.get_mut());
        }
        self.give(out, usize::MAX);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            self.made.append(&mut writer.into_inner());
        }
        self.give(out, usize::MAX);
        Ok(())
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
    use std::io::Read;

    use super::*;

    #[test]
    fn compressed_data_can_be_read() {
        let text: Vec<u8> = (0..200_000u32).flat_map(|n| (n * 7919 % 251).to_be_bytes()).collect();
        let mut coder = Brotli::new(&BrotliEncoderParams { quality: 5, lgwin: 18, ..BrotliEncoderParams::default() });
        let (mut all, mut rest) = (Vec::new(), &text[..]);
        while !rest.is_empty() {
            let mut out = Vec::with_capacity(1000);
            let taken = coder.feed(&rest[..rest.len().min(5000)], &mut out).expect("coded");
            assert!(out.len() <= 1000 && (taken > 0 || !out.is_empty()));
            rest = &rest[taken..];
            all.extend(out);
        }
        coder.finish(&mut all).expect("coded");
        assert_eq!(coder.totals(), (text.len() as u64, all.len() as u64));
        let mut read = Vec::new();
        brotli::Decompressor::new(&all[..], 4096).read_to_end(&mut read).expect("Brotli");
        assert!(read == text && all.len() < text.len());
    }

    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("BrotliCompressionQuality 11\nBrotliCompressionWindow 24\nBrotliCompressionMaxInputBlock 16", ""),
            ("BrotliCompressionQuality 12", "BrotliCompressionQuality must be between 0 and 11"),
            ("BrotliCompressionWindow 9", "BrotliCompressionWindow must be between 10 and 24"),
            ("BrotliCompressionMaxInputBlock 25", "BrotliCompressionMaxInputBlock must be between 16 and 24"),
            ("BrotliAlterETag x", "BrotliAlterETag accepts only 'AddSuffix', 'NoChange' and 'Remove'"),
            ("BrotliFilterNote in x", "Unknown BrotliFilterNote type 'in'"),
        ]);
    }
}

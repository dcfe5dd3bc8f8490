//! Stores a part of a request's body for the includes of its page.
//!
//! Apache manual: mod_request.

use std::io;

use conf::directive::Args::Take1;
use conf::values::number;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use server::{BodyStream, Hook, InputBody, InputChain, KeptBody, Module, Order, Piece, Rank, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "request_module", source: "mod_request.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::InsertInputFilters(Order::Last, insert)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("KeptBodySize", Allowed::SECTION, Take1(set_size), "0", "Maximum size of request bodies kept aside for use by filters").differs("Elements that a page includes get the body that was kept; an internal redirect does not."),
];

settings! {
    /// The module's settings of a section.
    pub struct RequestDir {
        /// In bytes; 0: nothing is stored.
        size: Setting<u64> = 0,
    }
}

fn set_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = number(value).and_then(|size| u64::try_from(size).ok());
    let size = size.ok_or("KeptBodySize must be a valid size in bytes, or zero.")?;
    cmd.set(|d: &mut RequestDir| &mut d.size, size)
}

fn insert(request: &mut Request, chain: &mut InputChain) {
    let limit = request.dir::<RequestDir>().size();
    // An included part already has the whole body.
    if limit > 0 && !request.is_subrequest() {
        chain.add(Rank::RESOURCE, Box::new(move |request, source| keep(request, source, limit)));
    }
}

fn keep(request: &mut Request, source: InputBody, limit: u64) -> InputBody {
    let kept = KeptBody::default();
    request.kept_body = Some(kept.clone());
    Box::new(Keeping { told: source.length(), source, kept, limit, speaker: request.speaker() })
}

/// A body that is stored while it is read.
struct Keeping {
    source: InputBody,
    /// Its length, if the client announced it.
    told: Option<u64>,
    kept: KeptBody,
    limit: u64,
    speaker: Box<Request>,
}

impl Keeping {
    /// A body that is too large is neither stored nor passed on.
    fn refuse(&self, number: &str, length: u64) -> io::Error {
        self.kept.forget();
        let limit = self.limit;
        let text =
            format!("{number}: Requested content-length of {length} is larger than the configured limit of {limit}");
        self.speaker.log("request", Level::Error, text);
        io::ErrorKind::FileTooLarge.into()
    }
}

impl BodyStream for Keeping {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            if let Some(told) = self.told.take().filter(|told| *told > self.limit) {
                return Some(Err(self.refuse("AH01412", told)));
            }
            let piece = match self.source.next().await? {
                Ok(piece) => piece,
                Err(error) => {
                    self.kept.forget();
                    return Some(Err(error));
                }
            };
            let kept = self.kept.keep(&piece) as u64;
            Some(if kept > self.limit { Err(self.refuse("AH01413", kept)) } else { Ok(piece) })
        })
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        let wrong = "KeptBodySize must be a valid size in bytes, or zero.";
        crate::testing::check(&[
            ("<Location />\nKeptBodySize 100\n</Location>", ""),
            ("<Location />\nKeptBodySize 0\n</Location>", ""),
            ("<Location />\nKeptBodySize -1\n</Location>", wrong),
            ("<Location />\nKeptBodySize 1k\n</Location>", wrong),
            ("KeptBodySize 100", "KeptBodySize not allowed here"),
        ]);
    }
}

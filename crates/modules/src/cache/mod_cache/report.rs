//! What the cache has done for a request: for logs, and if that is wanted for the client.

use std::borrow::Cow;

use conf::Level;
use server::Request;

use super::counts::{Counted, count};
use super::settings::CacheDir;

/// The kinds of what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Hit,
    Revalidate,
    Miss,
    Invalidate,
}

impl Outcome {
    /// The variable of the environment, and the word of `X-Cache`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Hit => ("cache-hit", "HIT"),
            Outcome::Revalidate => ("cache-revalidate", "REVALIDATE"),
            Outcome::Miss => ("cache-miss", "MISS"),
            Outcome::Invalidate => ("cache-invalidate", "INVALIDATE"),
        }
    }
}

/// Records an outcome, and why it is that one.
pub(super) fn report(request: &mut Request, outcome: Outcome, reason: impl Into<Cow<'static, str>>) {
    let (variable, word) = outcome.names();
    count(match outcome {
        Outcome::Hit => Counted::Hit,
        Outcome::Revalidate => Counted::Revalidate,
        Outcome::Miss => Counted::Miss,
        Outcome::Invalidate => Counted::Invalidate,
    });
    let reason = reason.into();
    if request.logs("cache", Level::Debug) {
        request.log("cache", Level::Debug, format!("{}: {reason}", request.data.unparsed_uri()));
    }
    for name in [variable, "cache-status"] {
        request.env.set(name, reason.to_string());
    }
    let dir = request.dir::<CacheDir>();
    let (header, detail) = (dir.header(), dir.detail_header());
    let name = &request.vhost.name;
    let fields = &mut request.response.headers_out;
    if header {
        fields.set("X-Cache", format!("{word} from {name}"));
    }
    if detail {
        fields.set("X-Cache-Detail", format!("\"{reason}\" from {name}"));
    }
}

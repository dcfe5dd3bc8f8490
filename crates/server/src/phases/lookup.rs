//! The phases of a look-up: all except the handler, and that too if its answer becomes a part of another one.

use crate::message::response::Body;
use crate::phases::{self, walk};
use crate::request::Request;
use crate::request::flow::{Flow, Waiting};
use crate::request::hooks::From;

/// Takes a look-up through the phases.
pub(crate) fn run(request: &mut Request, from: From) -> Waiting<'_, Result<(), Flow>> {
    Box::pin(async move {
        match from {
            From::Path => phases::map(request).await?,
            From::File => {
                phases::map_file(request).await?;
                walk::locations(request)?;
                walk::conditions(request).await?;
            }
        }
        phases::late(request).await
    })
}

impl Request {
    /// Makes the answer of a look-up's result, as a part of another one (a header of a listing, an include). `Err`:
    /// there is none, and this status says why.
    pub async fn answer(&mut self) -> Result<Body, u16> {
        phases::inner(self).await
    }
}

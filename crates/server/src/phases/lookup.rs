//! The phases of a look-up: all but the handler, and that too where its answer stands inside another one.

use crate::phases::{self, walk};
use crate::request::Request;
use crate::request::flow::{Flow, Waiting};
use crate::request::hooks::From;
use crate::request::response::Body;

/// Takes a look-up through the phases.
pub(crate) fn run(request: &mut Request, from: From) -> Waiting<'_, Result<(), Flow>> {
    Box::pin(async move {
        match from {
            From::Path => phases::map(request).await?,
            From::File => {
                phases::map_file(request)?;
                walk::locations(request)?;
                walk::conditions(request).await?;
            }
        }
        phases::late(request).await
    })
}

impl Request {
    /// Makes the answer of what a look-up found, to stand inside another one (a header of a listing, an include). `Err`:
    /// the status that says why there is none.
    pub async fn answer(&mut self) -> Result<Body, u16> {
        phases::inner(self).await
    }
}

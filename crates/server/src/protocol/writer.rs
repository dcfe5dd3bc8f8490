//! Sends the body of a response that is still being produced, whatever the protocol.

use std::io;

use bytes::Bytes;
use runtime::CoopBudget;

use crate::message::fields::Fields;
use crate::message::response::{BodyStream, Piece};

/// How a protocol frames the pieces of a body, and sends them as fast as its client reads.
pub(super) trait BodyWriter {
    /// Why a body was not sent completely.
    type Error;

    /// Waits until the client has room for a piece, where a piece without room would only occupy memory.
    async fn ready(&mut self) -> Result<(), Self::Error>;

    /// Passes on what comes next as it is, as long as its source and the connection can do that without this process.
    async fn splice(&mut self, _source: &mut dyn BodyStream) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Waits for the next piece without a limit, since its source has its own deadlines. `Err`: the client is gone.
    async fn next(&mut self, piece: Piece<'_>) -> Result<Option<io::Result<Bytes>>, Self::Error>;

    /// Sends a piece.
    async fn piece(&mut self, bytes: Bytes) -> Result<(), Self::Error>;

    /// Sends the end of the body, and the fields after it.
    async fn end(&mut self, trailers: Option<Fields>) -> Result<(), Self::Error>;

    /// The error for a source that failed: the client must not mistake a part for the whole.
    fn source_failed(error: io::Error) -> Self::Error;
}

/// Sends a body piece by piece, as it is produced.
pub(super) async fn pump<W: BodyWriter>(writer: &mut W, source: &mut dyn BodyStream) -> Result<(), W::Error> {
    let mut budget = CoopBudget::new();
    loop {
        // A body that costs time (compression) and a client that accepts everything must never keep each other busy
        // for ever.
        budget.step().await;
        writer.ready().await?;
        writer.splice(source).await?;
        match writer.next(source.next()).await? {
            None => return writer.end(source.trailers().filter(|fields| !fields.is_empty())).await,
            Some(Err(error)) => return Err(W::source_failed(error)),
            Some(Ok(bytes)) if bytes.is_empty() => {}
            Some(Ok(bytes)) => writer.piece(bytes).await?,
        }
    }
}

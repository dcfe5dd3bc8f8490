//! Bodies that a task writes, as fast as the client takes them.
//!
//! A filter that changes its body by more than a piece at a time is easier to read as a function that writes than as
//! one that is asked for pieces. The reader of the body polls the task, so the task is dropped with the body.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sys::event_loop::yields;

use crate::message::response::{Body, BodyStream, Piece};

/// How far the task may write ahead of the client, in bytes. A shorter body that needs no waiting is sent as a whole.
const ROOM: usize = 16 * 1024;

/// The task's output.
pub struct Writer(Arc<Mutex<Vec<u8>>>);

impl Writer {
    fn room(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a part of the body, and waits if the client has not taken enough yet.
    pub async fn write(&self, bytes: &[u8]) {
        self.room().extend_from_slice(bytes);
        // No wake-up is needed: the task is polled when the next piece of the body is wanted, and there is room then.
        poll_fn(|_| if self.room().len() < ROOM { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

type Work = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

struct Written {
    /// `None`: the task has ended.
    work: Option<Work>,
    room: Writer,
    failed: Option<io::Error>,
}

impl Written {
    /// Runs the task; its new output can then be taken.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        let Some(work) = &mut self.work else { return };
        if let Poll::Ready(ended) = work.as_mut().poll(cx) {
            self.failed = ended.err();
            self.work = None;
        }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.room.room())
    }
}

impl BodyStream for Written {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(poll_fn(|cx| {
            self.go_on(cx);
            let piece = self.take();
            match self.work {
                _ if !piece.is_empty() => Poll::Ready(Some(Ok(piece.into()))),
                Some(_) => Poll::Pending,
                None => Poll::Ready(self.failed.take().map(Err)),
            }
        }))
    }
}

/// A stream written by a task, which begins when the first piece is wanted.
pub fn written_later<W>(work: impl FnOnce(Writer) -> W) -> Box<dyn BodyStream>
where
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    Box::new(begin(work))
}

fn begin<W>(work: impl FnOnce(Writer) -> W) -> Written
where
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    let room = Arc::new(Mutex::default());
    let work: Work = Box::pin(work(Writer(room.clone())));
    Written { work: Some(work), room: Writer(room), failed: None }
}

/// A body written by a task, which begins at once. Its output up to its first wait is available, and if that is all of
/// it, the body has a length. Letting other tasks go first is no wait: how busy the machine is must not decide about the form of
/// a response.
pub async fn written<W>(work: impl FnOnce(Writer) -> W) -> Body
where
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut written = begin(work);
    poll_fn(|cx| {
        let before = yields();
        written.go_on(cx);
        if written.work.is_some() && yields() != before { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    match written.work.is_none() && written.failed.is_none() {
        true => Body::Bytes(written.take().into()),
        false => Body::Stream(Box::new(written)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<T>(future: impl Future<Output = T>) -> T {
        sys::block_on::block_on(future, || ()).expect("a reactor")
    }

    fn pieces(body: Body) -> Vec<Result<usize, io::ErrorKind>> {
        let mut stream = body.into_stream();
        block(async move {
            let mut all = Vec::new();
            while let Some(piece) = stream.next().await {
                all.push(piece.map(|piece| piece.len()).map_err(|error| error.kind()));
            }
            all
        })
    }

    #[test]
    fn short_answers_have_a_length() {
        let body = block(written(|out| async move {
            out.write(b"one ").await;
            out.write(b"two").await;
            Ok(())
        }));
        assert_eq!(body.length(), Some(7));
        assert_eq!(block(written(|_| async { Ok(()) })).length(), Some(0));
    }

    #[test]
    fn other_tasks_may_go_first() {
        let work = |count: usize| {
            written(move |out| async move {
                for _ in 0..count {
                    out.write(&[b'x'; ROOM / 2]).await;
                    sys::event_loop::yield_now().await;
                }
                Ok(())
            })
        };
        assert_eq!(block(work(1)).length(), Some(ROOM as u64 / 2));
        assert_eq!(pieces(block(work(3))), [Ok(ROOM), Ok(ROOM / 2)]);
    }

    #[test]
    fn long_answers_are_written_as_they_are_read() {
        let body = block(written(|out| async move {
            for _ in 0..5 {
                out.write(&[b'x'; ROOM / 2]).await;
            }
            Ok(())
        }));
        assert_eq!(body.length(), None);
        assert_eq!(pieces(body), [Ok(ROOM), Ok(ROOM), Ok(ROOM / 2)]);
    }

    #[test]
    fn a_failure_follows_the_output_before_it() {
        let body = block(written(|out| async move {
            out.write(b"half").await;
            Err(io::ErrorKind::TimedOut.into())
        }));
        assert_eq!(pieces(body), [Ok(4), Err(io::ErrorKind::TimedOut)]);
    }

    #[test]
    fn output_goes_out_while_the_writer_waits() {
        let body = block(written(|out| async move {
            out.write(b"begin").await;
            let mut first = true;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            out.write(b"end").await;
            Ok(())
        }));
        assert_eq!(pieces(body).len(), 1, "what was written by the first look for it goes with the rest");
    }
}

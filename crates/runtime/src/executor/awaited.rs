//! A result that several tasks wait for, and that another one finds out once.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The result, once it is there. Clones share it.
#[derive(Debug)]
pub struct Awaited<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
struct State<T> {
    result: Option<T>,
    /// The waiting tasks, by numbers of their own.
    wakers: HashMap<u64, Waker>,
    next: u64,
}

impl<T> Clone for Awaited<T> {
    fn clone(&self) -> Awaited<T> {
        Awaited(self.0.clone())
    }
}

impl<T> Default for Awaited<T> {
    fn default() -> Awaited<T> {
        Awaited(Arc::new(Mutex::new(State { result: None, wakers: HashMap::new(), next: 0 })))
    }
}

impl<T: Clone> Awaited<T> {
    /// Sets the result, and wakes all who wait.
    pub fn set(&self, result: T) {
        let wakers = {
            let mut state = lock(&self.0);
            state.result = Some(result);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    /// The result, if it is there.
    pub fn get(&self) -> Option<T> {
        lock(&self.0).result.clone()
    }

    /// Waits for the result, without holding a worker ([`release_worker`](crate::release_worker)). An abandoned wait
    /// leaves nothing over.
    pub async fn wait(&self) -> T {
        Waiting { awaited: self.clone(), number: None }.await
    }
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One waiting task.
struct Waiting<T> {
    awaited: Awaited<T>,
    number: Option<u64>,
}

impl<T: Clone> Future for Waiting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let awaited = self.awaited.clone();
        let mut state = lock(&awaited.0);
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        let number = *self.number.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        state.wakers.insert(number, cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            lock(&self.awaited.0).wakers.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_get_it_and_nobody_leaves_anything_behind() {
        let awaited = Awaited::default();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (Box::pin(awaited.wait()), Box::pin(awaited.wait()));
        assert!(first.as_mut().poll(&mut cx).is_pending() && first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert_eq!(lock(&awaited.0).wakers.len(), 2);
        drop(first);
        assert_eq!(lock(&awaited.0).wakers.len(), 1);
        awaited.set(7);
        assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(7));
        assert_eq!(Box::pin(awaited.wait()).as_mut().poll(&mut cx), Poll::Ready(7));
    }
}

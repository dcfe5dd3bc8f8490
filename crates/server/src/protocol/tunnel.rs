//! How long a tunnel lasts, whichever protocol has opened it.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use seam::executor::Timer;

use crate::transport::stream::Carried;

/// Waits until a handler has spoken to its end; `false`: the client is gone (`None`). It is looked at each time that `timeout` has
/// passed: a tunnel that has carried nothing since ends, and so does any when this process is to end.
pub(super) async fn until_silent(
    timer: &mut Timer,
    timeout: Duration,
    carried: &Carried,
    spoken: impl Future<Output = Option<()>>,
) -> bool {
    let mut spoken = pin!(spoken);
    let mut before = (carried.sent(), carried.received());
    loop {
        match timer.until(Instant::now() + timeout, &mut spoken).await {
            Some(spoken) => return spoken.is_some(),
            None => {
                let now = (carried.sent(), carried.received());
                if now == before || seam::draining() {
                    return true;
                }
                before = now;
            }
        }
    }
}

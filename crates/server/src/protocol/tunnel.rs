//! How long a tunnel lasts, in any protocol.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use runtime::executor::Timer;
use sys::time::Instant;

use crate::transport::stream::TunnelTraffic;

/// Waits until a handler has finished speaking; `false`: the client is gone (`None`). Checks after each `timeout`: a
/// tunnel that has carried nothing since the last check ends, and so does any tunnel when this process should end.
pub(super) async fn until_silent(
    timer: &mut Timer,
    timeout: Duration,
    carried: &TunnelTraffic,
    spoken: impl Future<Output = Option<()>>,
) -> bool {
    let mut spoken = pin!(spoken);
    let mut before = (carried.sent(), carried.received());
    loop {
        match timer.until(Instant::now() + timeout, &mut spoken).await {
            Some(spoken) => return spoken.is_some(),
            None => {
                let now = (carried.sent(), carried.received());
                if now == before || runtime::draining() {
                    return true;
                }
                before = now;
            }
        }
    }
}

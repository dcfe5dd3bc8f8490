//! Moments in messages between processes: nanoseconds of the machine's monotonic clock, on which `Instant` is based.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let (now, clock) = (Instant::now(), clock_gettime(ClockId::Monotonic));
        now.checked_sub(Duration::new(clock.tv_sec.cast_unsigned(), clock.tv_nsec as u32)).unwrap_or(now)
    })
}

pub(super) fn serialize<S: Serializer>(moment: &Instant, to: S) -> Result<S::Ok, S::Error> {
    (moment.saturating_duration_since(origin()).as_nanos() as u64).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
    u64::deserialize(from).map(|nanoseconds| origin() + Duration::from_nanos(nanoseconds))
}

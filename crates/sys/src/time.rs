//! Clocks, time zones, load, CPU time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Time since some fixed moment; never goes back. For waits and durations.
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// Time since 1970-01-01 00:00:00 UTC.
pub fn realtime() -> Duration {
    read(ClockId::Realtime)
}

/// As [`realtime`], up to 4 ms late and several times cheaper: the time of the last timer tick.
pub fn realtime_coarse() -> Duration {
    read(ClockId::RealtimeCoarse)
}

/// How far local time is ahead of UTC at a moment, in seconds (`/etc/localtime` or `TZ`).
pub fn local_offset(unix_seconds: i64) -> i32 {
    // SAFETY: `tm` is plain data for which zero is valid; localtime_r fills it and keeps no pointer.
    let (tm, known) = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        let known = !libc::localtime_r(&unix_seconds, &mut tm).is_null();
        (tm, known)
    };
    if known { i32::try_from(tm.tm_gmtoff).unwrap_or(0) } else { 0 }
}

/// The abbreviation of the local time zone at a moment (`CET`, `CEST`).
pub fn local_zone(unix_seconds: i64) -> String {
    // SAFETY: as in `local_offset`; `tm_zone` is null or a string of the C library that lives as long as the process.
    unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&unix_seconds, &mut tm).is_null() || tm.tm_zone.is_null() {
            return String::new();
        }
        std::ffi::CStr::from_ptr(tm.tm_zone).to_string_lossy().into_owned()
    }
}

/// The load averages over 1, 5 and 15 minutes, if the system tells them.
pub fn load() -> Option<[f64; 3]> {
    let mut averages = [0.0; 3];
    // SAFETY: the buffer has the three elements that are asked for.
    let got = unsafe { libc::getloadavg(averages.as_mut_ptr(), 3) };
    (got == 3).then_some(averages)
}

/// Whose CPU time [`cpu`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// This process.
    Own,
    /// Its children that ended and were waited for.
    Children,
}

/// CPU time used up, as (user, system).
pub fn cpu(who: Who) -> (Duration, Duration) {
    let who = match who {
        Who::Own => libc::RUSAGE_SELF,
        Who::Children => libc::RUSAGE_CHILDREN,
    };
    // SAFETY: `rusage` is plain data for which zero is valid; getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    (from_timeval(usage.ru_utime), from_timeval(usage.ru_stime))
}

pub(crate) fn from_timeval(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_usec * 1000).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_and_move() {
        let (fine, coarse) = (realtime(), realtime_coarse());
        assert!(fine.abs_diff(coarse) < Duration::from_secs(1));
        let before = monotonic();
        assert!(monotonic() >= before);
        assert!(local_offset(0).abs() <= 14 * 3600);
        assert!(!local_zone(0).is_empty());
        assert!(load().is_some());
    }
}

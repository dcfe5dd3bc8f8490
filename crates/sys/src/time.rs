//! Clocks, time zones, load, CPU time.

use std::cell::Cell;
use std::ffi::CStr;
use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Time since some fixed moment; never goes back. Use it for waits and durations.
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// A moment on the [monotonic](monotonic) clock, for waits and durations: as [`std::time::Instant`], but one number, so that
/// comparing and subtracting take an instruction each. Sums that are too large stay at the end of time, 584 years after the
/// machine's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

impl Instant {
    /// The present moment.
    pub fn now() -> Instant {
        Instant(nanoseconds(monotonic()))
    }

    /// Like [`now`](Instant::now), up to 4 ms late and several times cheaper: the moment of the last timer tick.
    fn coarse() -> Instant {
        Instant(nanoseconds(read(ClockId::MonotonicCoarse)))
    }

    /// Nanoseconds since a fixed moment: to keep it in an atomic number.
    pub fn nanoseconds(self) -> u64 {
        self.0
    }

    /// The time left until this deadline; nothing, once it has passed. By the cheaper clock while it is far away, so too long by
    /// a tick of the kernel's timer, which is 4 ms on most machines.
    pub(crate) fn left(self) -> Duration {
        const FAR: Duration = Duration::from_secs(1);
        let coarse = self - Instant::coarse();
        if coarse > FAR { coarse } else { self - Instant::now() }
    }

    /// The time since this moment.
    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }

    /// The time from an earlier moment to this one; nothing, if the other one is later.
    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self - earlier
    }

    /// This much later. `None`: there is no such moment.
    pub fn checked_add(self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(nanoseconds(duration)).map(Instant)
    }

    /// This much earlier. `None`: there is no such moment.
    pub fn checked_sub(self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(nanoseconds(duration)).map(Instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanoseconds(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Time since 1970-01-01 00:00:00 UTC.
pub fn realtime() -> Duration {
    read(ClockId::Realtime)
}

/// [`realtime`] as the standard library has it.
pub fn system_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + realtime()
}

/// How long the distance between the two clocks holds.
const HOLDS: Duration = Duration::from_millis(100);

/// The [wall clock's time](realtime) at a recent moment, from one reading of one clock: each thread looks at the distance between the two
/// clocks ten times a second, so it notices that soon that the wall clock was set.
pub fn wall_clock_at(moment: Instant) -> Duration {
    thread_local! {
        /// How far the wall clock is ahead, and until when that holds, in nanoseconds.
        static AHEAD: Cell<(u64, Instant)> = const { Cell::new((0, Instant(0))) };
    }
    let (mut ahead, until) = AHEAD.get();
    if moment >= until {
        ahead = how_far_ahead(moment);
        AHEAD.set((ahead, moment + HOLDS));
    }
    Duration::from_nanos(moment.0.wrapping_add(ahead))
}

/// How far the wall clock is ahead of the monotonic one, in nanoseconds, if this was the last reading of that: both are read
/// again if something came between the readings.
fn how_far_ahead(mut before: Instant) -> u64 {
    const APART: Duration = Duration::from_millis(1);
    const TRIES: usize = 5;
    let mut ahead = 0;
    for _ in 0..TRIES {
        let (wall, after) = (realtime(), Instant::now());
        ahead = nanoseconds(wall).wrapping_sub(after.0);
        if after - before < APART {
            break;
        }
        before = after;
    }
    ahead
}

/// Like [`realtime`], up to 4 ms late and several times cheaper: the time of the last timer tick.
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

/// The longest formatted time, in bytes.
const FORMATTED_MAX: usize = 8192;

/// Appends a moment in local time, formatted like strftime(3) in the locale "C", which is that of a program that never
/// sets another. Leaves out results longer than 8 KiB.
pub fn strftime(out: &mut Vec<u8>, format: &CStr, unix_seconds: i64) {
    // SAFETY: `tm` is plain data for which zero is valid; localtime_r fills it and keeps no pointer.
    let (tm, known) = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        let known = !libc::localtime_r(&unix_seconds, &mut tm).is_null();
        (tm, known)
    };
    if known {
        write(out, format, &tm);
    }
}

/// Writes a time in UTC, which `%Z` calls `GMT`.
pub fn strftime_utc(out: &mut Vec<u8>, format: &CStr, unix_seconds: i64) {
    // SAFETY: `tm` is plain data for which zero is valid; gmtime_r fills it and keeps no pointer.
    let (tm, known) = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        let known = !libc::gmtime_r(&unix_seconds, &mut tm).is_null();
        (tm, known)
    };
    if known {
        write(out, format, &tm);
    }
}

fn write(out: &mut Vec<u8>, format: &CStr, tm: &libc::tm) {
    let start = out.len();
    // The length does not tell what is missing: an empty text and one that does not fit look alike.
    for room in [256, FORMATTED_MAX] {
        out.resize(start + room, 0);
        let into = out[start..].as_mut_ptr().cast();
        // SAFETY: there is room for `room` bytes at `into`; the format ends with a NUL; the C library filled `tm`, and
        // keeps the name of the zone in it for as long as the process lives.
        let length = unsafe { libc::strftime(into, room, format.as_ptr(), tm) };
        out.truncate(start + length);
        if length > 0 {
            return;
        }
    }
}

/// The load averages over 1, 5 and 15 minutes, if the system provides them.
pub fn load() -> Option<[f64; 3]> {
    let mut averages = [0.0; 3];
    // SAFETY: the buffer has the three elements that the call fills.
    let got = unsafe { libc::getloadavg(averages.as_mut_ptr(), 3) };
    (got == 3).then_some(averages)
}

/// The process or processes whose CPU time [`cpu`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuOf {
    /// This process.
    Own,
    /// Its children that ended and were waited for.
    Children,
}

/// CPU time used up, as (user, system).
pub fn cpu(who: CpuOf) -> (Duration, Duration) {
    let who = match who {
        CpuOf::Own => libc::RUSAGE_SELF,
        CpuOf::Children => libc::RUSAGE_CHILDREN,
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
        assert!(load().is_some());
    }

    #[test]
    fn a_moment_has_its_time_on_the_wall_clock() {
        let now = Instant::now();
        let shown = wall_clock_at(now);
        assert!(realtime().abs_diff(shown) < Duration::from_secs(60));
        assert_eq!(wall_clock_at(now + Duration::from_millis(7)), shown + Duration::from_millis(7));
    }

    #[test]
    fn moments_have_an_order_and_an_end() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        assert!(now.saturating_duration_since(Instant::coarse()) < second && now.elapsed() < Duration::from_secs(60));
        assert_eq!((now + second) - now, second);
        assert_eq!(now - (now + second), Duration::ZERO);
        assert_eq!(now.checked_add(second).and_then(|later| later.checked_sub(second)), Some(now));
        assert_eq!((now.checked_add(Duration::MAX), Instant(5).checked_sub(second)), (None, None));
        assert!(now + Duration::MAX > now + second);
        assert!(
            now.left().is_zero() && (Instant::now() + Duration::from_millis(900)).left() <= Duration::from_millis(900)
        );
        assert!((now + 90 * second).left() > 30 * second);
    }

    fn utc(format: &CStr, moment: i64) -> String {
        let mut out = b">".to_vec();
        strftime_utc(&mut out, format, moment);
        String::from_utf8_lossy(&out[1..]).into_owned()
    }

    #[test]
    fn conversions_as_measured() {
        let format = c"%a %A %b %B %c %C %d %D %e %F %g %G %h %H %I %j %k %l %m %M %n %p %P %r %R %S %t %T %u %U %V %w %W %x %X %y %Y %% %E %Q %Ey %Od %_d %-d %^a";
        let want = "Sat Saturday Nov November Sat Nov 21 21:41:16 2026 20 21 11/21/26 21 2026-11-21 26 2026 Nov 21 09 325 21  9 11 41 \n PM pm 09:41:16 PM 21:41 16 \t 21:41:16 6 46 47 6 46 11/21/26 21:41:16 26 2026 % %E %Q 26 21 21 21 SAT";
        assert_eq!(utc(format, 1_795_297_276), want);
        assert_eq!(utc(c"%05d %_5d %z", 1_795_297_276), "00021    21 +0000");
        assert_eq!(utc(c"%Z", 0), "GMT");
        assert_eq!(utc(c"", 0), "");
        assert_eq!((utc(c"%1000d", 0).len(), utc(c"%9000d", 0).len()), (1000, 0));
        let mut out = Vec::new();
        strftime(&mut out, c"%s", 1_795_297_276);
        assert_eq!(out, b"1795297276");
    }
}

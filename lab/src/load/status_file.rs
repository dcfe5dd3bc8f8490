//! A running load's report to other programs of this user, such as `tsubame-lab top`: a small file, rewritten every
//! second.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::live::Live;
use super::plan::Plan;
use super::timeline::IntervalSummary;
use crate::machine::procfs;

/// The report of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadStatus {
    pub(crate) pid: u32,
    /// Seconds since 1970.
    pub(crate) written: i64,
    /// The first of its URLs, with the address being used.
    pub(crate) url: String,
    /// How long it has been running, in whole seconds.
    pub(crate) seconds: u64,
    /// Since it began.
    #[serde(rename = "answers")]
    pub(crate) responses: u64,
    pub(crate) failures: u64,
    /// In the last second.
    pub(crate) latest: IntervalSummary,
}

/// The status of all running loads, the oldest first: those of this user, and of the user who called `sudo`.
pub(crate) fn read() -> Vec<LoadStatus> {
    let invoker = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let users = [Some(geteuid().as_raw()), invoker];
    let places = users.into_iter().flatten().flat_map(|user| places(user).map(|place| (user, place)));
    let mut found: Vec<LoadStatus> = places.flat_map(|(user, place)| read_in(&place, user)).collect();
    found.sort_by_key(|status| (std::cmp::Reverse(status.seconds), status.pid));
    found.dedup_by_key(|status| status.pid);
    found
}

/// Removes files of this user's loads that were killed.
pub(crate) fn clear() {
    let user = geteuid().as_raw();
    for place in places(user) {
        let _ = read_in(&place, user);
        // Only if nothing else is in it.
        let _ = std::fs::remove_dir(&place);
    }
}

/// The file of one load; removed when it is over.
#[derive(Debug)]
pub(super) struct StatusFile {
    place: PathBuf,
    status: LoadStatus,
    told: Option<u64>,
}

/// A load that has reported nothing for so many seconds is not running, whoever has its number now.
const STALE: i64 = 10;

/// More than any status file.
const BYTES_MAX: u64 = 16 * 1024;

impl StatusFile {
    /// Makes one for this process. `None` if there is no place that belongs to this user: a load does not fail for
    /// that.
    pub(super) fn create(plan: &Plan) -> Option<Self> {
        clear();
        let place = places(geteuid().as_raw()).into_iter().find(|place| make(place))?;
        let (pid, url) = (std::process::id(), url(plan)?);
        Some(Self { place, status: LoadStatus { pid, url, ..LoadStatus::default() }, told: None })
    }

    /// Reports the last second, if it is not reported yet.
    pub(super) fn publish(&mut self, live: &Live) {
        let last = live.last_second();
        if last.is_none() || last == self.told {
            return;
        }
        self.told = last;
        {
            let progress = live.progress();
            self.status.latest = last
                .and_then(|last| progress.second(last))
                .map(|second| IntervalSummary::of(&second))
                .unwrap_or_default();
            self.status.responses = progress.whole.responses;
            self.status.failures = progress.whole.failures;
        }
        self.status.seconds = live.elapsed().as_secs();
        self.status.written = jiff::Timestamp::now().as_second();
        // Writing is tried again in a second.
        let _ = self.write();
    }

    fn path(&self) -> PathBuf {
        self.place.join(name(self.status.pid))
    }

    /// Readers see either the old text or the new one. The place is created again: another load, the last one when it
    /// ended, may have removed it.
    fn write(&self) -> std::io::Result<()> {
        if !make(&self.place) {
            return Ok(());
        }
        let path = self.path();
        let new = path.with_extension("new");
        let _ = std::fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.status)?)?;
        std::fs::rename(&new, &path)
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path());
        let _ = std::fs::remove_dir(&self.place);
    }
}

/// Places for a user's loads, the best first.
fn places(user: u32) -> [PathBuf; 2] {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| user == geteuid().as_raw()).map(PathBuf::from);
    let runtime = own.unwrap_or_else(|| Path::new("/run/user").join(user.to_string()));
    [runtime.join("tsubame-lab"), std::env::temp_dir().join(format!("tsubame-lab-{user}"))]
}

fn name(pid: u32) -> String {
    format!("{pid}.json")
}

/// Whether there is now a directory that only this user can have written to.
fn make(place: &Path) -> bool {
    let _ = DirBuilder::new().mode(0o700).create(place);
    is_private(place, geteuid().as_raw())
}

fn is_private(place: &Path, user: u32) -> bool {
    let found = std::fs::symlink_metadata(place);
    found.is_ok_and(|place| place.is_dir() && place.uid() == user && place.mode() & 0o077 == 0)
}

/// The status of the loads in a place; removes files of dead processes.
fn read_in(place: &Path, user: u32) -> Vec<LoadStatus> {
    if !is_private(place, user) {
        return Vec::new();
    }
    let files = std::fs::read_dir(place).into_iter().flatten().flatten();
    let living = files.filter_map(|file| {
        let path = file.path();
        let pid: u32 = path.file_stem()?.to_str()?.parse().ok()?;
        if procfs::stat(pid).is_none() {
            let _ = std::fs::remove_file(&path);
            return None;
        }
        read_file(&path, user).filter(|_| path.ends_with(name(pid)))
    });
    let now = jiff::Timestamp::now().as_second();
    living.filter(|status| (now - STALE..=now + STALE).contains(&status.written)).collect()
}

/// Follows no link, waits for no pipe, and reads no more than the size of a status file.
fn read_file(path: &Path, user: u32) -> Option<LoadStatus> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    (found.is_file() && found.uid() == user).then(|| serde_json::from_str(&text).ok())?
}

/// The first URL: the target of the first request, at the address it goes to.
fn url(plan: &Plan) -> Option<String> {
    let request = plan.requests.first()?;
    let mut words = request.bytes.split(|byte| *byte == b' ');
    let path = String::from_utf8_lossy(words.nth(1)?);
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    Some(format!("{scheme}://{}{path}", plan.servers.first()?))
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;
    use crate::machine::scratch::Scratch;

    fn board(place: &Path) -> StatusFile {
        let url = url(&plan(([127, 0, 0, 1], 8080).into())).unwrap();
        assert_eq!(url, "http://127.0.0.1:8080/");
        let written = jiff::Timestamp::now().as_second();
        let status = LoadStatus { pid: std::process::id(), url, written, responses: 7, ..LoadStatus::default() };
        StatusFile { place: place.to_owned(), status, told: None }
    }

    #[test]
    fn a_load_is_seen_while_it_runs() {
        let (scratch, user) = (Scratch::for_test("status-file"), geteuid().as_raw());
        let place = scratch.path().join("own");
        assert!(make(&place) && make(&place), "it is made once, and used again");
        let board = board(&place);
        board.write().unwrap();
        assert_eq!(read_in(&place, user), std::slice::from_ref(&board.status));
        drop(board);
        assert!(!place.exists(), "nothing is left");
    }

    #[test]
    fn stale_and_foreign_files_are_not_read() {
        let (scratch, user) = (Scratch::for_test("stale"), geteuid().as_raw());
        let place = scratch.path().join("own");
        assert!(make(&place));
        let mut board = board(&place);
        board.status.written -= 2 * STALE;
        board.write().unwrap();
        assert_eq!(read_in(&place, user), []);
        board.status.written += 2 * STALE;
        board.write().unwrap();
        // No process has this number.
        let dead = place.join("4294967295.json");
        std::fs::copy(board.path(), &dead).unwrap();
        std::os::unix::fs::symlink(board.path(), place.join("1.json")).unwrap();
        assert_eq!(read_in(&place, user).len(), 1);
        assert!(!dead.exists(), "nobody else would remove it");
        assert_eq!(read_in(&place, user + 1), [], "another user's");
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(!make(&link), "a link may lead anywhere");
    }
}

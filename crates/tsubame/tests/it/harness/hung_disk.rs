//! A file system that can be made to hang: FUSE, spoken by the test itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// The requests that matter here (`linux/fuse.h`).
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const NO_SUCH_FILE: i32 = -2;
const NOT_IMPLEMENTED: i32 = -38;

/// The head of a request, and the number of the root.
const HEAD: usize = 40;
const ROOT: u64 = 1;

/// A directory with a few files that can be written to, mounted until it is dropped.
pub struct HungDisk {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    hangs: bool,
    over: bool,
    /// The text of each file.
    files: BTreeMap<&'static str, Vec<u8>>,
}

/// Whether there can be one.
pub fn exists() -> bool {
    let site = crate::harness::site::Site::new();
    sys::cred::is_root()
        && Path::new("/dev/fuse").exists()
        && mount(&site.root.join("logs")).is_some_and(|device| {
            drop(device);
            unmount(&site.root.join("logs"));
            true
        })
}

fn mount(path: &Path) -> Option<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
    let options = "fd=0,rootmode=40755,user_id=0,group_id=0,allow_other";
    let status = Command::new("mount")
        .args(["-i", "-t", "fuse", "-o", options, "tsubame-test"])
        .arg(path)
        .stdin(device.try_clone().ok()?)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success()).then_some(device)
}

fn unmount(path: &Path) {
    let _ = Command::new("umount").arg("-l").arg(path).stderr(Stdio::null()).status();
}

impl HungDisk {
    /// Mounts one that answers, with these files, in an empty directory.
    pub fn new(path: &Path, names: &[&'static str]) -> HungDisk {
        let shared = Arc::new(Shared::default());
        shared.lock().files = names.iter().map(|name| (*name, Vec::new())).collect();
        let device = mount(path).expect("mount");
        let serving = shared.clone();
        let thread = std::thread::spawn(move || serving.serve(&device));
        // From the first close on, the kernel knows that closing needs no answer.
        drop(File::options().append(true).open(path.join(names[0])).expect("a file"));
        HungDisk { path: path.into(), shared, thread: Some(thread) }
    }

    /// From now on nothing is answered.
    pub fn hang(&self) {
        self.shared.lock().hangs = true;
    }

    /// Answers everything that waits, and goes on.
    pub fn go_on(&self) {
        self.shared.lock().hangs = false;
        self.shared.changed.notify_all();
    }

    /// What was written to a file.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.shared.lock().files[name]).into_owned()
    }
}

impl Drop for HungDisk {
    fn drop(&mut self) {
        self.go_on();
        unmount(&self.path);
        self.shared.lock().over = true;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Answers requests. One that comes while it hangs is not even taken, so a signal can end the process that waits.
    fn serve(&self, mut device: &File) {
        let mut request = vec![0; 256 << 10];
        loop {
            let _ = sys::poll::readable(device, Some(Duration::from_millis(20)));
            let mut state = self.changed.wait_while(self.lock(), |state| state.hangs).expect("no panic");
            if state.over {
                return;
            }
            if !sys::poll::readable(device, Some(Duration::ZERO)).unwrap_or(false) {
                continue;
            }
            // Nothing is mounted any more.
            let Ok(length) = device.read(&mut request) else { return };
            if let Some(answer) = state.answer(&request[..length]) {
                let _ = device.write(&answer);
            }
        }
    }
}

impl State {
    fn answer(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = request.split_at(HEAD);
        let (kind, node) = (number(head, 4), wide(head, 16));
        let body = match kind {
            FORGET | BATCH_FORGET | INTERRUPT => return None,
            INIT => Ok([words(&[7, 31, 0, 0, 0, 128 << 10, 1, 0, 0]), vec![0; 28]].concat()),
            LOOKUP => {
                let name = String::from_utf8_lossy(rest.strip_suffix(&[0]).unwrap_or(rest)).into_owned();
                let place = self.files.keys().position(|known| *known == name);
                place
                    .map(|place| place as u64 + ROOT + 1)
                    .map_or(Err(NO_SUCH_FILE), |node| Ok([wides(&[node, 0, 0, 0, 0]), self.attributes(node)].concat()))
            }
            GETATTR | SETATTR => Ok([wides(&[0, 0]), self.attributes(node)].concat()),
            OPEN => Ok(wides(&[0, 0])),
            WRITE => {
                let bytes = &rest[HEAD..];
                let file = usize::try_from(node - ROOT - 1).ok().and_then(|place| self.files.values_mut().nth(place));
                file.expect("a file").extend_from_slice(bytes);
                Ok(wides(&[bytes.len() as u64]))
            }
            RELEASE => Ok(Vec::new()),
            _ => Err(NOT_IMPLEMENTED),
        };
        let (error, body) = body.map_or_else(|error| (error, Vec::new()), |body| (0, body));
        let length = u32::try_from(16 + body.len()).expect("short");
        Some([&length.to_ne_bytes(), &error.to_ne_bytes(), &head[8..16], &*body].concat())
    }

    /// `struct fuse_attr`: a directory for the root, otherwise a file.
    fn attributes(&self, node: u64) -> Vec<u8> {
        let place = usize::try_from(node).expect("small").wrapping_sub(2);
        let (mode, size) = self.files.values().nth(place).map_or((0o40755, 0), |text| (0o100666, text.len() as u64));
        [wides(&[node, size, 0, 0, 0, 0]), words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn wides(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

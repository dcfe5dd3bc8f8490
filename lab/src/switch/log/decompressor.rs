//! Decompresses a log with the program that is installed for it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use crate::machine::error::{Context as _, Error, Result};
use crate::machine::{interrupt, programs};

/// What is kept of the messages of a program that decompresses.
const COMPLAINT: u64 = 4096;

/// A way to compress.
struct Compression {
    /// The first bytes of its files.
    magic: &'static [u8],
    /// The program that reads them, and its package.
    program: &'static str,
    package: &'static str,
}

const COMPRESSIONS: [Compression; 5] = [
    Compression { magic: b"\x1f\x8b", program: "gzip", package: "gzip" },
    // Made by compress.
    Compression { magic: b"\x1f\x9d", program: "gzip", package: "gzip" },
    Compression { magic: b"BZh", program: "bzip2", package: "bzip2" },
    Compression { magic: b"\xfd7zXZ\0", program: "xz", package: "xz-utils" },
    Compression { magic: b"\x28\xb5\x2f\xfd", program: "zstd", package: "zstd" },
];

/// A process that decompresses a file; dropping it ends the process.
#[derive(Debug)]
pub(super) struct Decompressor {
    program: &'static str,
    process: Child,
    output: ChildStdout,
    /// Reads the messages of the process, so that they never fill the pipe.
    complaints: Option<JoinHandle<String>>,
}

impl Decompressor {
    /// The process for a file, if its first bytes show that it is compressed. The position in the file becomes that of the
    /// process.
    pub(super) fn find(path: &Path, file: &File) -> Result<Option<Self>> {
        let mut begin = [0; 6];
        let length = file.read_at(&mut begin, 0).context(|| format!("read the log {}", path.display()))?;
        let compression = COMPRESSIONS.iter().find(|compression| begin[..length].starts_with(compression.magic));
        compression.map(|compression| Self::start(compression, path, file)).transpose()
    }

    /// What the process wrote next; its errors are those of a pipe.
    pub(super) fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        self.output.read(room)
    }

    fn start(compression: &Compression, path: &Path, file: &File) -> Result<Self> {
        let &Compression { program, package, .. } = compression;
        let executable = programs::find(&[program]).ok_or_else(|| {
            Error::new(format!("{} is compressed, and {program}, which reads it, is not installed", path.display()))
                .advise(format!("apt install {package}"))
        })?;
        let failed = || format!("read {} with {program}", path.display());
        let input = file.try_clone().context(failed)?;
        let mut command = Command::new(executable);
        command.arg("-dc").stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().context(failed)?;
        let (Some(output), Some(errors)) = (process.stdout.take(), process.stderr.take()) else {
            return Err(Error::new(format!("{program} has no pipes")));
        };
        let complaints = std::thread::spawn(move || {
            let mut errors = errors;
            let mut kept = Vec::new();
            let _ = errors.by_ref().take(COMPLAINT).read_to_end(&mut kept);
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            String::from_utf8_lossy(&kept).trim().to_owned()
        });
        Ok(Self { program, process, output, complaints: Some(complaints) })
    }

    /// After the end of its output: whether it could read all of the file.
    pub(super) fn finish(mut self, path: &Path) -> Result<()> {
        let program = self.program;
        let status = self.process.wait().context(|| format!("wait for {program}"))?;
        if status.success() {
            return Ok(());
        }
        // Ctrl-C in a terminal ends both programs.
        interrupt::check()?;
        let complaint = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let why = if complaint.is_empty() { status.to_string() } else { complaint };
        Err(Error::new(format!("{program} cannot read {}: {why}", path.display())).advise(format!(
            "{program} -t {} examines the file; move it away if it cannot be repaired",
            path.display()
        )))
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
impl Decompressor {
    /// The number of the process.
    pub(super) fn process_id(&self) -> u32 {
        self.process.id()
    }
}

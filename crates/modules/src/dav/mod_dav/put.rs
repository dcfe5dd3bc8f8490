//! `PUT`: a file has either its old content or the new one, never a mixture.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;

use runtime::{Load, offload, offload_apart};
use server::paths::{dir_name, os_path};
use server::{HandlerResult, Request};

use super::resource::{on_disk, resource};
use super::responses::created;
use crate::dav::claim::Claim;
use crate::dav::failure::Failure;
use crate::dav::store::{self, Draft};
use crate::dav::target::{Target, escaped};
use crate::dav::{properties, tree};

/// The size of a write, in bytes.
const PIECE: usize = 256 * 1024;

pub(super) async fn put(request: &mut Request) -> Result<HandlerResult, Failure> {
    let resource = resource(request)?;
    if resource.is_collection {
        return Err(Failure::page(409, "Cannot PUT to a collection."));
    }
    let start = range(request)?;
    let claim = Claim::of(request)?;
    let target = resource.target;
    let begun = {
        let (claim, target) = (claim.clone(), target.clone());
        on_disk(move || begin(&claim, &target, start)).await?
    };
    let upload = receive(request, begun, &target).await?;
    let replaced = {
        let target = target.clone();
        on_disk(move || upload.finish(&claim, &target)).await?
    };
    Ok(created(request, "Resource", &target.uri, replaced))
}

/// The body's position in the file (`Content-Range`, as Apache understands it); `None`: it is the whole file.
fn range(request: &Request) -> Result<Option<u64>, Failure> {
    let Some(field) = request.header("Content-Range") else { return Ok(None) };
    let parsed = || {
        let rest = field.get(..6).filter(|unit| unit.eq_ignore_ascii_case("bytes ")).map(|_| &field[6..])?;
        let (range, length) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
        let (first, last) = (number(first)?, number(last)?);
        let fits = length == "*" || number(length).is_some_and(|length| last < length);
        // A file cannot be longer than this.
        (first <= last && last <= i64::MAX as u64 && fits).then_some(first)
    };
    let malformed = || {
        let path = http::uri::escape_path(&request.data.uri);
        Failure::page(400, format!("Malformed Content-Range header for PUT {path}."))
    };
    parsed().map(Some).ok_or_else(malformed)
}

/// Checks whether the file may be written at all, before the client sends it, and opens the draft.
fn begin(claim: &Claim, target: &Target, start: Option<u64>) -> Result<Upload, Failure> {
    claim.check_to_write(target)?;
    let unable = |error: io::Error| {
        let status = tree::status_of(&error);
        let text = format!("An error occurred while opening a resource for writing: {}.", target.path);
        Failure::os(status, error, text).within(format!("Unable to PUT new contents for {}.", escaped(target)))
    };
    let mut upload = Upload(Some(Draft::new(&os_path(dir_name(&target.path)), store::NEW).map_err(unable)?));
    let Some(start) = start else { return Ok(upload) };
    let filled = upload.0.as_mut().map_or(Ok(()), |Draft { file, .. }| {
        let path = os_path(&target.path);
        match fs::metadata(&path) {
            Ok(meta) if !meta.is_file() => return Err(io::ErrorKind::InvalidInput.into()),
            Ok(_) => io::copy(&mut File::open(path)?, file).map(drop)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        file.seek(SeekFrom::Start(start)).map(drop)
    });
    filled.map_err(unable)?;
    Ok(upload)
}

/// A file that is being written beside the one that it replaces.
struct Upload(Option<Draft>);

/// Writes the body, a piece at a time.
async fn receive(request: &Request, mut upload: Upload, target: &Target) -> Result<Upload, Failure> {
    let mut piece: Vec<u8> = Vec::new();
    loop {
        let next = request.body.read().await.map_err(|error| {
            let text = format!("An error occurred while reading the request body (URI: {})", escaped(target));
            Failure::new(error.status(), text)
        })?;
        let is_end = next.is_none();
        piece.extend_from_slice(&next.unwrap_or_default());
        if piece.len() >= PIECE || is_end && !piece.is_empty() {
            let bytes = std::mem::take(&mut piece);
            let (back, written) = offload(Load::Wait, move || {
                let written = upload.0.as_mut().map_or(Ok(()), |draft| draft.file.write_all(&bytes));
                (upload, written)
            })
            .await;
            upload = back;
            written.map_err(|error| {
                Failure::os(500, error, "An error occurred while writing to a resource.")
                    .within(format!("Unable to PUT new contents for {}.", escaped(target)))
            })?;
        }
        if is_end {
            return Ok(upload);
        }
    }
}

impl Upload {
    /// Gives the file its name, if that is still allowed. Returns whether it replaced one.
    fn finish(mut self, claim: &Claim, target: &Target) -> Result<bool, Failure> {
        let unable = |error: io::Error| {
            Failure::os(500, error, "There was a problem writing the file atomically after writes.")
                .within(format!("Unable to PUT new contents for {}.", escaped(target)))
        };
        let _held = claim.hold_locks()?;
        // Of two writers with the same condition, only the first one succeeds.
        let _held = properties::hold(dir_name(&target.path)).map_err(unable)?;
        claim.check_to_write(target)?;
        let before = fs::metadata(os_path(&target.path)).ok();
        if before.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Failure::page(409, "Cannot PUT to a collection."));
        }
        match (&before, &self.0) {
            (Some(before), Some(Draft { file, .. })) => {
                let mode = before.permissions().mode() & 0o777;
                // Another user's file may have a mode that this process cannot set.
                let _ = file.set_permissions(fs::Permissions::from_mode(mode));
            }
            // Properties of an earlier resource do not apply to the new one.
            _ => properties::remove(&target.path, false).map_err(unable)?,
        }
        self.0.take().map_or(Ok(()), |draft| draft.put(&os_path(&target.path))).map_err(unable)?;
        Ok(before.is_some())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(draft) = self.0.take() {
            // Freeing a large file takes a while.
            offload_apart(Load::Wait, move || drop(draft));
        }
    }
}

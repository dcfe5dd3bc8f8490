//! Files that a FastCGI application turns into responses (FastCGI specification, section 6.4).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use runtime::{Load, offload};
use server::paths::c_path;
use server::{Request, RequestBody};

use crate::body_buffer::body_of;

/// A file that follows the body of a request.
#[derive(Clone, Debug)]
pub struct FilterData {
    file: Arc<OwnedFd>,
    length: u64,
}

impl FilterData {
    /// The request's file; the variables of the request then describe it.
    pub async fn of(request: &mut Request) -> io::Result<FilterData> {
        let path = c_path(&request.mapped.filename).ok_or(io::ErrorKind::InvalidFilename)?;
        let links = request.links();
        let opened: io::Result<_> = offload(Load::Wait, move || {
            let file = links.open(&path)?;
            let meta = sys::file::fstat(&file)?;
            Ok((file, meta))
        })
        .await;
        let (file, meta) = opened?;
        if !meta.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        request.env.set("FCGI_DATA_LENGTH", meta.size.to_string());
        request.env.set("FCGI_DATA_LAST_MOD", meta.mtime.div_euclid(1_000_000_000).to_string());
        Ok(FilterData { file: Arc::new(file), length: meta.size })
    }

    /// The content of the file, as the body of a request.
    pub(super) fn body(&self) -> RequestBody {
        body_of(self.file.clone(), self.length)
    }
}

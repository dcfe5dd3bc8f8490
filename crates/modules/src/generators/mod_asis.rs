//! Files that are responses: their own header fields, then the body.
//!
//! Apache manual: mod_asis. Doubtful cases were measured on 2.4.71.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use conf::{Level, ModuleInfo};
use gateway::response::{self, Fault, HEADER_MAX, Parser};
use server::paths::{base_name, c_path};
use server::{Body, FilePart, Handler, HandlerResult, Hook, Keep, Links, Module, Order, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "asis_module", source: "mod_asis.c", linked: false, directives: &[] },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Middle, Handler::Now(send))],
};

/// Its names as a handler.
const NAMES: [&str; 2] = ["send-as-is", "httpd/send-as-is"];

fn send(request: &mut Request) -> HandlerResult {
    let is_mine = request.handler_name().is_some_and(|name| NAMES.contains(&name));
    if !is_mine || !matches!(&*request.data.method, "GET" | "HEAD") {
        return HandlerResult::Declined;
    }
    let Some(meta) = request.mapped.stat else {
        request.log("asis", Level::Info, format!("AH01233: File does not exist: {}", request.mapped.filename));
        return HandlerResult::Status(404);
    };
    let (file, head) = match beginning(&request.mapped.filename, request.links()) {
        Ok(opened) => opened,
        Err(error) => {
            let text = format!("AH01234: file permissions deny server access: {}", request.mapped.filename);
            request.log_os("asis", Level::Error, &error, text);
            return HandlerResult::Status(403);
        }
    };
    let offset = match fields(request, &head) {
        Ok(length) => length as u64,
        // As in Apache, none of such a file is sent, and the response is not an error.
        Err(None) => meta.size,
        Err(Some(status)) => return HandlerResult::Status(status),
    };
    let status = request.response.status();
    let location = request.response.headers_out.get("Location").filter(|location| location.starts_with('/'));
    if let Some(uri) = location.map(str::to_string).filter(|_| status == 200 || (300..400).contains(&status)) {
        request.response.headers_out.remove("Location");
        request.response.set_status(200);
        return HandlerResult::Redirect { uri, keep: Keep::default() };
    }
    // The file determines the response, whatever the client has cached.
    request.response.no_local_copy = true;
    HandlerResult::Body(Body::File(FilePart { file: Arc::new(file), offset, length: meta.size.saturating_sub(offset) }))
}

/// The file, and as much of it as its fields may occupy.
fn beginning(path: &str, links: Links) -> io::Result<(OwnedFd, Vec<u8>)> {
    let path = c_path(path).ok_or(io::ErrorKind::NotFound)?;
    let file = links.open(&path)?;
    let mut head = vec![0; HEADER_MAX];
    let mut have = 0;
    while have < head.len() {
        match sys::file::read_at(&file, &mut head[have..], have as u64)? {
            0 => break,
            read => have += read,
        }
    }
    head.truncate(have);
    Ok((file, head))
}

/// Puts the fields into the response, and returns their length. `Err`: they are unreadable, or must not be sent, and this
/// is the status.
fn fields(request: &mut Request, head: &[u8]) -> Result<usize, Option<u16>> {
    let mut parser = Parser::default();
    let advanced = parser.advance(head);
    if let Ok(Some(length)) = advanced {
        response::apply(request, parser.into_header(), "asis", true).map_err(Some)?;
        return Ok(length);
    }
    let name = base_name(&request.mapped.filename);
    let fault = match advanced {
        Err(Fault::Malformed(line)) => {
            format!("malformed header from script '{name}': Bad header: {}", response::shown(&line))
        }
        _ if parser.has_begun() => format!("Premature end of script headers: {name}"),
        _ => format!("End of script output before headers: {name}"),
    };
    request.log("asis", Level::Error, fault);
    Err(None)
}

//! Files with header fields for the responses of the files beside them.
//!
//! Apache manual: mod_cern_meta. Doubtful cases were measured on 2.4.71.

use std::io;

use conf::directive::Args::{Flag, Take1};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use runtime::{Load, offload};
use server::paths::{base_name, dir_name, os_path};
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "cern_meta_module", source: "mod_cern_meta.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::Fixups,
            Order::Middle,
            PhaseHook::Later { claims: has_meta_file, run: |request| Box::pin(add_fields(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("MetaFiles", Allowed::INDEXES, Flag(set_files), on_or_off(FILES), "Limited to 'on' or 'off'"),
    row("MetaDir", Allowed::INDEXES, Take1(|c, v| { level(c); c.set(|d: &mut CernMetaDir| &mut d.directory, v.to_string()) }), DIRECTORY, "the name of the directory containing meta files"),
    row("MetaSuffix", Allowed::INDEXES, Take1(|c, v| { level(c); c.set(|d: &mut CernMetaDir| &mut d.suffix, v.to_string()) }), SUFFIX, "the filename suffix for meta files"),
];

const FILES: bool = false;
const DIRECTORY: &str = ".web";
const SUFFIX: &str = ".meta";

/// The largest such file, in bytes.
const MAX: u64 = 64 * 1024;

/// Fields that are the server's own.
const OURS: [&str; 7] = ["Transfer-Encoding", "Content-Length", "Connection", "Trailer", "Upgrade", "Keep-Alive", "TE"];

settings! {
    /// The module's settings of a section.
    pub struct CernMetaDir {
        /// As in Apache, a section with any of these lines also sets this.
        files: Setting<bool> = FILES,
        directory: Setting<String>,
        suffix: Setting<String>,
    }
}

fn set_files(cmd: &mut Cmd<'_>, on: bool) -> Outcome {
    cmd.set(|d: &mut CernMetaDir| &mut d.files, on)
}

fn level(cmd: &mut Cmd<'_>) {
    let origin = cmd.origin();
    let files = &mut cmd.dir.edit::<CernMetaDir>().files;
    if !files.is_set() {
        files.set(FILES, &origin);
    }
}

fn has_meta_file(request: &Request) -> bool {
    request.dir::<CernMetaDir>().files()
        && request.mapped.stat.is_some_and(|meta| !meta.is_dir())
        && !request.data.uri.ends_with('/')
}

async fn add_fields(request: &mut Request) -> Flow {
    let slots = request.dir.slots.clone();
    let conf = slots.get::<CernMetaDir>();
    let file = &request.mapped.filename;
    let of = |setting: &Setting<String>, default: &str| setting.get().map_or(default, String::as_str).to_string();
    let path =
        format!("{}{}/{}{}", dir_name(file), of(&conf.directory, DIRECTORY), base_name(file), of(&conf.suffix, SUFFIX));
    // Only a file that the client could access is used.
    match request.lookup_named(&path).await {
        Some(found) if found.response.status() == 200 => {}
        _ => return Flow::Declined,
    }
    let own = path.clone();
    let text = offload(Load::Wait, move || read(&own)).await;
    match text {
        Ok(text) => take(request, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Flow::Declined,
        Err(error) => {
            let text = format!("AH01562: meta file permissions deny server access: {path}");
            request.log_os("cern_meta", Level::Error, &error, text);
            Flow::Status(403)
        }
    }
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(os_path(path))?.take(MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn take(request: &mut Request, bytes: &[u8]) -> Flow {
    let text = http::text::from_bytes(bytes);
    let mut fields = Vec::new();
    for line in text.split_terminator('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)) {
        if line.is_empty() {
            // As in Apache, only type and status count then.
            return Flow::Ok;
        }
        let Some((name, value)) = line.split_once(':') else {
            let text = format!("AH01560: malformed header in meta file: {}", request.mapped.filename);
            request.log("cern_meta", Level::Error, text);
            return Flow::Status(500);
        };
        let value = value.trim_start();
        if name.eq_ignore_ascii_case("Content-type") {
            request.response.set_content_type(gateway::response::media_type(value));
        } else if name.eq_ignore_ascii_case("Status") {
            match u16::try_from(atoi(value)) {
                Ok(status @ 100..=999) if value.contains(' ') => {
                    request.response.set_status_line(status, value.to_string());
                }
                Ok(status @ 100..=999) => request.response.set_status(status),
                _ => {}
            }
        } else if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            let text =
                format!("AH10596: forbidden HTTP framing header '{name}' in meta file: {}", request.mapped.filename);
            request.log("cern_meta", Level::Error, text);
            return Flow::Status(500);
        } else {
            fields.push((name.to_string(), value.to_string()));
        }
    }
    for (name, value) in fields {
        request.response.headers_out.set(name, value);
    }
    Flow::Ok
}

//! `Options MultiViews`: the files of a directory are the variants.

use std::io;

use conf::Level;
use runtime::CoopBudget;
use server::core::options::MULTI;
use server::paths::{base_name, dir_name, os_path};
use server::{Flow, Request};

use super::accept::{Media, SCRIPT};
use super::decision::decide;
use super::map::{from_map, is_map, named_by_map};
use super::offer::Offer;
use super::report;
use super::select::{VARIANTS_MAX, Variant};
use crate::metadata::mod_mime::unclaimed;

/// Whether there is a name without a file, and `MultiViews` allows looking for similar ones.
pub(super) fn are_wanted(request: &Request) -> bool {
    request.mapped.stat.is_none() && request.options() & MULTI != 0 && request.mapped.filename.starts_with('/')
}

/// Finds the client's best file.
pub(super) async fn multiviews(request: &mut Request) -> Flow {
    // During the examination of variants, the path information is put aside.
    let uri = request.data.uri.clone();
    let bare = uri.len() - if uri.ends_with(&request.mapped.path_info) { request.mapped.path_info.len() } else { 0 };
    request.data.uri.truncate(bare);
    let flow = choose_file(request).await;
    if flow != Flow::Ok {
        request.data.uri = uri;
    }
    flow
}

async fn choose_file(request: &mut Request) -> Flow {
    let (offer, mut found) = match look_around(request).await {
        Ok(Some(around)) => around,
        Ok(None) => return Flow::Declined,
        Err(status) => return Flow::Status(status),
    };
    let scripts = !matches!(&*request.data.method, "GET" | "HEAD")
        || request.data.args.is_some()
        || !request.mapped.path_info.is_empty();
    let best = match decide(&offer, request, scripts).await {
        Ok(best) => best,
        Err(status) => return Flow::Status(status),
    };
    let found = match offer.multiviews {
        true => found.swap_remove(best),
        false => match named_by_map(request, &offer.variants[best].name).await {
            Ok(found) => found,
            Err(status) => return Flow::Status(status),
        },
    };
    if found.response.status() != 200 {
        return Flow::Status(found.response.status());
    }
    let (path_info, args) = (std::mem::take(&mut request.mapped.path_info), request.data.args.take());
    request.become_found(found);
    request.data.args = request.data.args.take().or(args);
    request.data.uri.push_str(&path_info);
    request.mapped.path_info = path_info;
    Flow::Ok
}

type Around = (Offer, Vec<Box<Request>>);

/// The files whose names begin with the requested one. `Ok(None)`: there are none.
async fn look_around(request: &mut Request) -> Result<Option<Around>, u16> {
    let dir = dir_name(&request.mapped.filename).to_string();
    let wanted = base_name(&request.mapped.filename).to_string();
    let question = (dir.clone(), wanted.clone());
    let names = runtime::offload(runtime::Load::Wait, move || names_like(&question.0, &question.1)).await;
    let names = names.map_err(|error| {
        request.log_os("negotiation", Level::Error, &error, format!("AH00686: cannot read directory for multi: {dir}"));
        403u16
    })?;
    if names.is_empty() {
        return Ok(None);
    }
    let (mut variants, mut looked_up) = (Vec::new(), Vec::new());
    let mut budget = CoopBudget::new();
    for name in names {
        budget.step().await;
        let found = request.lookup_file(&name).await;
        if !found.mapped.stat.is_some_and(|meta| meta.is_file())
            || !fits(&found, &wanted)
            || found.response.status() != 200
        {
            continue;
        }
        if is_map(&found) {
            let offer = from_map(request, &found.mapped.filename.clone(), &dir).await?;
            return Ok(Some((offer, Vec::new())));
        }
        let Some(variant) = variant(&found, name) else { continue };
        variants.push(variant);
        looked_up.push(found);
    }
    if variants.is_empty() {
        let text = format!(
            "AH00687: Negotiation: discovered file(s) matching request: {} (None could be negotiated).",
            request.mapped.filename
        );
        request.log("negotiation", Level::Error, text);
        return Err(404);
    }
    // The list of variants changes with the directory.
    request.response.vlist_validator = report::validator(&dir, None);
    Ok(Some((Offer { variants: variants.into(), dir, multiviews: true }, looked_up)))
}

/// Names of the form `wanted.*` that are not directories, in byte order: the choice may depend on it. More than
/// [`VARIANTS_MAX`] are an error.
fn names_like(dir: &str, wanted: &str) -> io::Result<Vec<String>> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = http::text::to_bytes(wanted);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(os_path(dir))? {
        let entry = entry?;
        let name = entry.file_name();
        let begins = name.as_bytes().strip_prefix(&*bytes).is_some_and(|rest| rest.starts_with(b"."));
        if begins && !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(http::text::from_bytes(name.as_bytes()).into_owned());
        }
        if names.len() > VARIANTS_MAX {
            return Err(io::Error::other(format!("more than {VARIANTS_MAX} files begin with {wanted}")));
        }
    }
    names.sort_unstable_by(|a, b| http::text::to_bytes(a).cmp(&http::text::to_bytes(b)));
    Ok(names)
}

/// Whether the unknown extensions of a name are parts of the wanted name, in the same order: the meaning of
/// `index.html.foo` is unknown.
fn fits(found: &Request, wanted: &str) -> bool {
    let mut wanted = wanted.split('.');
    unclaimed(found).is_some_and(|parts| parts.iter().all(|part| wanted.any(|have| have == part)))
}

fn variant(found: &Request, name: String) -> Option<Variant> {
    let media = match (found.response.content_type(), &found.mapped.handler) {
        (Some(text), _) => Media::parse(text),
        // A file with a handler is probably a script.
        (None, Some(_)) => Media::plain(SCRIPT, 1.0),
        (None, None) => return None,
    };
    Some(Variant {
        name,
        media,
        languages: found.response.content_languages.clone(),
        encoding: found.response.content_encoding.clone(),
        length: found.mapped.stat.map(|meta| meta.size).filter(|_| found.mapped.handler.is_none()),
        ..Variant::default()
    })
}

//! `PROPPATCH`: clients set and remove properties of a resource, everything in a request or nothing.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use server::paths::os_path;
use server::{Body, HandlerResult, Request};

use super::propfind::{APACHE, EXECUTABLE, LIVE};
use super::resource::{document, existing, on_disk};
use super::responses::document_response;
use crate::dav::claim::{Claim, Operation, RequiredPermission};
use crate::dav::failure::Failure;
use crate::dav::multistatus::{self, href};
use crate::dav::properties::{self, Property};
use crate::dav::target::{Target, escaped};
use crate::dav::tree;
use crate::dav::xml::{self, Element, Name, Prefixes};

/// A change of a property.
enum Change {
    Set(Element),
    Remove(Name),
}

impl Change {
    fn name(&self) -> &Name {
        match self {
            Change::Set(element) => &element.name,
            Change::Remove(name) => name,
        }
    }

    /// Why the server refuses this; `None`: it does not. `is_file`: the resource has its own executable bit.
    fn refusal(&self, is_file: bool) -> Option<PropertyRefusal> {
        let name = self.name();
        if !LIVE.contains(&(&*name.space, &*name.local)) {
            return None;
        }
        if !is_executable(name) || !is_file {
            return Some(PropertyRefusal::ReadOnly);
        }
        let Change::Set(element) = self else { return Some(PropertyRefusal::CannotRemove) };
        match element.text().as_str() {
            "T" | "F" => None,
            "" => Some(PropertyRefusal::NoValue),
            text if text.len() == 1 => Some(PropertyRefusal::InvalidValue),
            _ => Some(PropertyRefusal::TooLong),
        }
    }
}

/// Why a property is left as it is.
#[derive(Clone, Copy)]
enum PropertyRefusal {
    ReadOnly,
    CannotRemove,
    NoValue,
    InvalidValue,
    TooLong,
}

impl PropertyRefusal {
    fn text(self) -> &'static str {
        match self {
            PropertyRefusal::ReadOnly => "Property is read-only.",
            PropertyRefusal::CannotRemove => "The 'executable' property cannot be removed.",
            PropertyRefusal::NoValue => {
                "The 'executable' property expects a single character, valued 'T' or 'F'. There was no value submitted."
            }
            PropertyRefusal::InvalidValue => {
                "The 'executable' property expects a single character, valued 'T' or 'F'. The value submitted is invalid."
            }
            PropertyRefusal::TooLong => {
                "The 'executable' property expects a single character, valued 'T' or 'F'. The value submitted has too \
                 many characters."
            }
        }
    }

    /// The number of the error in Apache's log.
    fn number(self) -> u16 {
        if matches!(self, PropertyRefusal::ReadOnly) { 201 } else { 0 }
    }
}

fn is_executable(name: &Name) -> bool {
    &*name.space == APACHE && name.local == EXECUTABLE
}

pub(super) async fn proppatch(request: &mut Request) -> Result<HandlerResult, Failure> {
    let document = document(request).await?;
    let resource = existing(request)?;
    let changes = changes(document)?;
    let claim = Claim::of(request)?;
    let target = resource.target.clone();
    let refusals: Vec<Option<PropertyRefusal>> =
        changes.iter().map(|change| change.refusal(!resource.is_collection)).collect();
    let names: Vec<(Name, bool)> =
        changes.iter().map(|change| (change.name().clone(), matches!(change, Change::Set(_)))).collect();
    let is_refused = refusals.iter().any(Option::is_some);
    on_disk(move || {
        let _held = claim.hold_locks()?;
        let wanted = RequiredPermission { operation: Operation::Write, deep: false, parent: false, depends: false };
        claim.check(&target, wanted, &claim.read_locks()?)?;
        match is_refused {
            true => Ok(()),
            false => apply(&target, resource.is_collection, changes),
        }
    })
    .await?;
    for refusal in refusals.iter().flatten() {
        let (text, number) = (refusal.text(), refusal.number());
        request.log("dav", conf::Level::Error, format!("{text}  [409, #{number}]"));
    }
    let mut out = multistatus::begin();
    let prefixes = Prefixes::of(names.iter().map(|(name, _)| name));
    let (declarations, href) = (prefixes.declarations(), href(&resource.target.uri));
    out.push_str(&format!("<D:response{declarations}>\n<D:href>{href}</D:href>\n"));
    push_outcomes(&mut out, &prefixes, &names, &refusals, is_refused);
    out.push_str("</D:response>\n");
    out.push_str(multistatus::END);
    Ok(document_response(request, 207, Body::text(out)))
}

/// The changes in a document, in order.
fn changes(document: Option<Element>) -> Result<Vec<Change>, Failure> {
    let root = document.filter(|root| root.name.is_dav("propertyupdate")).ok_or_else(|| {
        Failure::message(400, "AH00587: The request body does not contain a \"propertyupdate\" element.")
    })?;
    let mut changes = Vec::new();
    for command in root.children() {
        let removes = command.name.is_dav("remove");
        if !removes && !command.name.is_dav("set") {
            continue;
        }
        let missing = "AH00588: A \"prop\" element is missing inside the propertyupdate command.";
        let prop = command.child("prop").ok_or_else(|| Failure::message(400, missing))?;
        // Properties inherit the language around them (RFC 4918, section 4.3).
        let language = [prop, command, &root].into_iter().find_map(Element::language);
        for property in prop.children() {
            changes.push(match removes {
                true => Change::Remove(property.name.clone()),
                false => {
                    let mut property = property.clone();
                    property.inherit_language(language);
                    Change::Set(property)
                }
            });
        }
    }
    Ok(changes)
}

fn apply(target: &Target, is_collection: bool, changes: Vec<Change>) -> Result<(), Failure> {
    let unable = |error: io::Error| {
        let text = format!("Could not open the property database for {}.", escaped(target));
        Failure::os(tree::status_of(&error), error, text)
    };
    let (mut mode, mut own) = (None, Vec::new());
    for change in changes {
        match change {
            Change::Set(element) if is_executable(&element.name) => mode = Some(element.text() == "T"),
            change => own.push(change),
        }
    }
    let undo = mode
        .map(|executable| make_executable(target, executable))
        .transpose()
        .map_err(|error| Failure::os(409, error, "Could not set the executable flag of the target resource."))?;
    if own.is_empty() {
        return Ok(());
    }
    // The last change of a property in a request counts.
    let mut named = HashSet::new();
    own.reverse();
    own.retain(|change| named.insert(change.name().clone()));
    own.reverse();
    let done = properties::change(&target.path, is_collection, |all| {
        all.retain(|property| !named.contains(&property.name));
        let mut size: usize = all.iter().map(Property::size).sum();
        for change in own {
            if let Change::Set(element) = change {
                let property = Property { xml: element.write(), name: element.name };
                size += property.size();
                if size > properties::SIZE_MAX {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                all.push(property);
            }
        }
        Ok(())
    });
    if done.is_err() {
        // All or nothing.
        undo.into_iter().for_each(|before| drop(fs::set_permissions(os_path(&target.path), before)));
    }
    done.map_err(unable)
}

/// Sets or clears the owner's executable bit, like Apache; returns the former permissions.
fn make_executable(target: &Target, executable: bool) -> io::Result<fs::Permissions> {
    let path = os_path(&target.path);
    let before = fs::metadata(&path)?.permissions();
    let mode = if executable { before.mode() | 0o100 } else { before.mode() & !0o100 };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    Ok(before)
}

fn push_outcomes(
    out: &mut String,
    prefixes: &Prefixes,
    names: &[(Name, bool)],
    refusals: &[Option<PropertyRefusal>],
    is_refused: bool,
) {
    if !is_refused {
        let all: String = names.iter().map(|(name, _)| prefixes.empty_element(name) + "\n").collect();
        let text = "<D:status>HTTP/1.1 200 OK</D:status>";
        out.push_str(&format!("<D:propstat>\n<D:prop>\n{all}</D:prop>\n{text}\n</D:propstat>\n"));
        return;
    }
    for ((name, sets), refusal) in names.iter().zip(refusals) {
        let verb = if *sets { "set" } else { "remove" };
        let (status, text) = match refusal {
            Some(refusal) => (409, refusal.text().to_string()),
            None => (424, format!("Attempted DAV:{verb} operation could not be completed due to other errors.")),
        };
        let name = prefixes.empty_element(name);
        out.push_str(&format!(
            "<D:propstat>\n<D:prop>{name}\n</D:prop>\n<D:status>HTTP/1.1 {status} (status)</D:status>\n\
             <D:responsedescription>\n{}</D:responsedescription>\n</D:propstat>\n",
            xml::escape(&text).replace("&quot;", "\"")
        ));
    }
}

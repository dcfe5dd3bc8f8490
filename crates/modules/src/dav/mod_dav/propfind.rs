//! `PROPFIND`: describes resources, and the properties that clients have given them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::{io, vec};

use conf::Level;
use runtime::{Load, offload};
use server::{HandlerResult, Request, written};
use sys::file::Meta;

use super::resource::{Depth, depth, document, on_disk, resource};
use super::responses::document_response;
use crate::dav::claim::Claim;
use crate::dav::failure::Failure;
use crate::dav::locks::{self, Lock};
use crate::dav::multistatus::{self, href};
use crate::dav::properties::{self, Property};
use crate::dav::settings::DavDir;
use crate::dav::target::Target;
use crate::dav::tree;
use crate::dav::xml::{DAV, Name, Prefixes, escape};

/// The namespace of Apache's own properties.
pub(super) const APACHE: &str = "http://apache.org/dav/props/";
/// The only property in [`APACHE`]: whether the owner may execute the file.
pub(super) const EXECUTABLE: &str = "executable";
/// How many members of a collection are read in one go.
const MEMBERS: usize = 64;
/// Roughly how many bytes of their properties and locks.
const MEMBERS_SIZE: usize = 1 << 20;
/// The media type of a collection, as in Apache.
const COLLECTION: &str = "httpd/unix-directory";

/// The live properties, in Apache's order. Clients cannot set those of RFC 4918.
pub(super) const LIVE: [(&str, &str); 10] = [
    (DAV, "resourcetype"),
    (DAV, "creationdate"),
    (DAV, "getcontentlength"),
    (DAV, "getlastmodified"),
    (DAV, "getetag"),
    (APACHE, EXECUTABLE),
    (DAV, "supportedlock"),
    (DAV, "lockdiscovery"),
    (DAV, "getcontenttype"),
    (DAV, "getcontentlanguage"),
];

/// What a client wants to know: everything, the names alone, or these properties.
enum Wanted {
    All,
    Names,
    /// Each once, with its text if it is missing, and the namespace declarations for all of that.
    These {
        names: Vec<(Name, String)>,
        declarations: String,
    },
}

impl Wanted {
    fn these<'a>(names: impl Iterator<Item = &'a Name> + Clone) -> Wanted {
        let mut seen = HashSet::new();
        let prefixes = Prefixes::of(names.clone());
        let names = names.filter(|name| seen.insert(*name));
        let names = names.map(|name| (name.clone(), prefixes.empty_element(name))).collect();
        Wanted::These { names, declarations: prefixes.declarations() }
    }
}

pub(super) async fn propfind(request: &mut Request) -> Result<HandlerResult, Failure> {
    let resource = resource(request)?;
    let claim = Claim::of(request)?;
    let facts = {
        let (claim, target) = (claim.clone(), resource.target.clone());
        on_disk(move || Facts::of(&claim, target, &claim.read_locks()?)).await?
    };
    if facts.meta.is_none() && facts.locks.is_empty() {
        return Err(Failure::status(404));
    }
    let depth = depth(request)?;
    if depth == Depth::Infinity && resource.is_collection && !request.dir::<DavDir>().depth_infinity() {
        let path = http::uri::escape_path(&request.data.uri);
        let text = format!("PROPFIND requests with a Depth of \"infinity\" are not allowed for {path}.");
        return Err(Failure::page(403, text));
    }
    let wanted = match document(request).await? {
        None => Wanted::All,
        Some(root) if !root.name.is_dav("propfind") => {
            return Err(Failure::message(400, "AH00585: The \"propfind\" element was not found."));
        }
        Some(root) if root.child("allprop").is_some() => Wanted::All,
        Some(root) if root.child("propname").is_some() => Wanted::Names,
        Some(root) => match root.child("prop") {
            Some(prop) => Wanted::these(prop.children().map(|child| &child.name)),
            None => {
                let text = "AH00586: The \"propfind\" element does not contain one of the required child elements (the \
                            specific command).";
                return Err(Failure::message(400, text));
            }
        },
    };
    let content = ContentMetadata::of(request);
    let discovery = request.dir::<DavDir>().lock_discovery();
    let walk = Walk { request: request.stand_in(), claim, wanted, discovery };
    let body = written(move |out| async move { walk.write(&out, facts, content, depth).await }).await;
    Ok(document_response(request, 207, body))
}

/// A resource's data from the disk.
struct Facts {
    target: Target,
    meta: Option<Meta>,
    etag: Option<String>,
    properties: Result<Vec<Property>, String>,
    locks: Vec<Lock>,
}

impl Facts {
    fn of(claim: &Claim, target: Target, locks: &[Lock]) -> Result<Facts, Failure> {
        let meta = tree::metadata(&target.path)?;
        let etag = meta.and_then(|meta| claim.tag(&target.path, &meta).ok().flatten());
        let properties = meta.map_or(Ok(Vec::new()), |meta| properties::read(&target.path, meta.is_dir()));
        let properties = properties.map_err(|error| sys::describe(&error).to_string());
        let locks = locks::of(locks, &target.path, meta.is_some()).into_iter().cloned().collect();
        Ok(Facts { target, meta, etag, properties, locks })
    }

    /// Its approximate size in memory, in bytes.
    fn size(&self) -> usize {
        let properties = self.properties.iter().flatten().map(Property::size);
        properties.chain(self.locks.iter().map(|lock| lock.owner.len())).sum()
    }

    fn is_collection(&self) -> bool {
        self.meta.is_some_and(|meta| meta.is_dir())
    }
}

/// A resource's metadata from the configuration.
#[derive(Default)]
struct ContentMetadata {
    media_type: Option<String>,
    languages: Vec<String>,
}

impl ContentMetadata {
    fn of(request: &Request) -> ContentMetadata {
        let media_type = request.response.content_type().map(str::to_string);
        ContentMetadata { media_type, languages: request.response.content_languages.clone() }
    }
}

/// Describes a resource and what is below it, a collection at a time.
struct Walk {
    request: Box<Request>,
    claim: Claim,
    wanted: Wanted,
    discovery: bool,
}

impl Walk {
    async fn write(self, out: &server::Writer, facts: Facts, content: ContentMetadata, depth: Depth) -> io::Result<()> {
        out.write(multistatus::begin().as_bytes()).await;
        let mut collections = Vec::new();
        if facts.is_collection() && depth != Depth::Zero {
            collections.push(facts.target.clone());
        }
        out.write(self.describe(&facts, &content).as_bytes()).await;
        while let Some(collection) = collections.pop() {
            let mut members = self.members(&collection).await.into_iter();
            while members.len() > 0 {
                let found;
                (found, members) = self.facts(members).await;
                for facts in found {
                    let Some(content) = self.content(&facts).await else { continue };
                    if facts.is_collection() && depth == Depth::Infinity {
                        collections.push(facts.target.clone());
                    }
                    out.write(self.describe(&facts, &content).as_bytes()).await;
                }
            }
        }
        out.write(multistatus::END.as_bytes()).await;
        Ok(())
    }

    /// The members of a collection, including names that are only locked.
    async fn members(&self, collection: &Target) -> Vec<Target> {
        let (claim, target) = (self.claim.clone(), collection.clone());
        let found = offload(Load::Wait, move || {
            let mut names = tree::list(&target.path)?;
            for lock in claim.read_locks().unwrap_or_default() {
                let name = server::paths::base_name(&lock.path);
                let is_in = server::paths::join(&target.path, name) == lock.path;
                if is_in && !names.iter().any(|known| known == name) && matches!(tree::metadata(&lock.path), Ok(None)) {
                    names.push(name.to_string());
                }
            }
            io::Result::Ok(names.iter().map(|name| target.child(name)).collect())
        });
        found.await.unwrap_or_else(|error| {
            let text = format!("AH10472: could not access file ({}) during directory walk", collection.path);
            self.request.log_os("dav_fs", Level::Error, &error, text);
            Vec::new()
        })
    }

    /// The data of the next members, and the rest of them.
    async fn facts(&self, mut members: vec::IntoIter<Target>) -> (Vec<Facts>, vec::IntoIter<Target>) {
        let claim = self.claim.clone();
        offload(Load::Wait, move || {
            let locks = claim.read_locks().unwrap_or_default();
            let (mut found, mut size) = (Vec::new(), 0);
            for facts in members.by_ref().take(MEMBERS).filter_map(|member| Facts::of(&claim, member, &locks).ok()) {
                // Members that have gone since the directory was read are skipped.
                if facts.meta.is_some() || !facts.locks.is_empty() {
                    size += facts.size();
                    found.push(facts);
                }
                if size > MEMBERS_SIZE {
                    break;
                }
            }
            (found, members)
        })
        .await
    }

    /// A member's metadata from the configuration; `None`: the client may not see it, or that is unknown.
    async fn content(&self, facts: &Facts) -> Option<ContentMetadata> {
        let slash = if facts.is_collection() { "/" } else { "" };
        let found = self.request.lookup_alike(&format!("{}{slash}", http::uri::escape_path(&facts.target.uri))).await;
        // A name that is only locked does not exist.
        matches!(found.response.status(), ..400 | 404).then(|| ContentMetadata::of(&found))
    }

    /// The `response` element of a resource.
    fn describe(&self, facts: &Facts, content: &ContentMetadata) -> String {
        let none = Vec::new();
        let own = facts.properties.as_ref().unwrap_or_else(|why| {
            let text = format!("{why}: Could not open the property database for {}.", facts.target.uri);
            self.request.log("dav", Level::Error, text);
            &none
        });
        let (mut found, mut missing, mut declarations) = (String::new(), String::new(), Cow::Borrowed(""));
        match &self.wanted {
            Wanted::All => {
                own.iter().for_each(|property| push_line(&mut found, &property.xml));
                let live = LIVE.iter().filter_map(|(space, local)| self.live(space, local, facts, content));
                live.for_each(|text| found.push_str(&text));
            }
            Wanted::Names => {
                let prefixes = Prefixes::of(own.iter().map(|property| &property.name));
                declarations = prefixes.declarations().into();
                own.iter().for_each(|property| push_line(&mut found, &prefixes.empty_element(&property.name)));
                let is_there = |(space, local): &&(&str, &str)| self.live(space, local, facts, content).is_some();
                LIVE.iter().filter(is_there).for_each(|(space, local)| {
                    push_line(&mut found, &format!("<{}:{local}/>", prefix(space)));
                });
            }
            Wanted::These { names, declarations: all } => {
                declarations = all.into();
                let own: HashMap<&Name, &Property> = own.iter().map(|property| (&property.name, property)).collect();
                for (name, empty) in names {
                    if let Some(text) = self.live(&name.space, &name.local, facts, content) {
                        found.push_str(&text);
                    } else if let Some(property) = own.get(name) {
                        push_line(&mut found, &property.xml);
                    } else {
                        push_line(&mut missing, empty);
                    }
                }
            }
        }
        let slash = if facts.is_collection() && !facts.target.uri.ends_with('/') { "/" } else { "" };
        let href = href(&format!("{}{slash}", facts.target.uri));
        let mut out =
            format!("<D:response xmlns:lp1=\"{DAV}\" xmlns:lp2=\"{APACHE}\"{declarations}>\n<D:href>{href}</D:href>\n");
        if !found.is_empty() || missing.is_empty() {
            push_properties(&mut out, &found, "200 OK");
        }
        if !missing.is_empty() {
            push_properties(&mut out, &missing, "404 Not Found");
        }
        out.push_str("</D:response>\n");
        out
    }

    /// A live property, as an element and a line.
    fn live(&self, space: &str, local: &str, facts: &Facts, content: &ContentMetadata) -> Option<String> {
        let file = facts.meta.filter(|meta| !meta.is_dir());
        let date = |nanoseconds: i128| nanoseconds.div_euclid(1_000_000_000) as i64;
        let has_locks = self.claim.locks.is_some();
        let value = match (space, local) {
            (DAV, "resourcetype") if facts.is_collection() => "<D:collection/>".to_string(),
            (DAV, "resourcetype") => String::new(),
            (DAV, "creationdate") => {
                let text = http::date::rfc3339(date(facts.meta?.ctime), 0);
                format!("{}Z", String::from_utf8_lossy(&text[..19]))
            }
            (DAV, "getcontentlength") => file?.size.to_string(),
            (DAV, "getlastmodified") => {
                String::from_utf8_lossy(&http::date::http_date(date(facts.meta?.mtime))).into_owned()
            }
            (DAV, "getetag") => escape(facts.etag.as_deref()?).replace("&quot;", "\""),
            (APACHE, EXECUTABLE) => if file?.mode & 0o100 != 0 { "T" } else { "F" }.to_string(),
            (DAV, "supportedlock") if has_locks => {
                let entry = |scope: &str| {
                    format!(
                        "<D:lockentry>\n<D:lockscope><D:{scope}/></D:lockscope>\n<D:locktype><D:write/></D:locktype>\n\
                         </D:lockentry>\n"
                    )
                };
                format!("\n{}{}", entry("exclusive"), entry("shared"))
            }
            (DAV, "lockdiscovery") if has_locks && self.discovery => {
                facts.locks.iter().map(|lock| lock.describe(locks::now())).collect()
            }
            (DAV, "getcontenttype") if facts.is_collection() => COLLECTION.to_string(),
            (DAV, "getcontenttype") => escape(content.media_type.as_deref().filter(|_| file.is_some())?),
            (DAV, "getcontentlanguage") if file.is_some() && !content.languages.is_empty() => {
                escape(&content.languages.join(", "))
            }
            _ => return None,
        };
        let prefix = prefix_of_live(space, local);
        Some(match value.as_str() {
            "" => format!("<{prefix}:{local}/>\n"),
            value => format!("<{prefix}:{local}>{value}</{prefix}:{local}>\n"),
        })
    }
}

fn prefix(space: &str) -> &'static str {
    if space == APACHE { "lp2" } else { "lp1" }
}

/// Apache uses another prefix of the same namespace for the properties about locks and types.
fn prefix_of_live(space: &str, local: &str) -> &'static str {
    let is_core = matches!(local, "supportedlock" | "lockdiscovery" | "getcontenttype" | "getcontentlanguage");
    if is_core { "D" } else { prefix(space) }
}

fn push_line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn push_properties(out: &mut String, properties: &str, status: &str) {
    out.push_str(&format!(
        "<D:propstat>\n<D:prop>\n{properties}</D:prop>\n<D:status>HTTP/1.1 {status}</D:status>\n</D:propstat>\n"
    ));
}

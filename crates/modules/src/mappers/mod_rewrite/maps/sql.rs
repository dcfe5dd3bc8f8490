//! Maps that are databases: `dbd` queries each time, `fastdbd` caches the results for the lifetime of the process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use conf::{Level, Origin};
use server::{Flow, Request};

use super::random::choice_of;
use crate::database::{self, Failure, text_of, text_value};
use crate::mappers::mod_rewrite::trace::Trace;

/// The most bytes of cached keys and values; beyond that all are forgotten. Clients choose the keys.
const REMEMBERED_MAX: usize = 4 << 20;

/// The statement of a `dbd:` map; `fastdbd:` remembers its results.
#[derive(Debug)]
pub(in crate::mappers::mod_rewrite) struct Sql {
    /// The statement's label in mod_dbd.
    label: String,
    known: Option<Mutex<CachedRows>>,
}

/// The values that were found, `None` if there is none, and how many bytes they and their keys have.
#[derive(Debug, Default)]
struct CachedRows {
    values: HashMap<String, Option<String>>,
    bytes: usize,
}

impl Sql {
    /// Makes a query; `remembers`: whether to cache its results.
    pub(in crate::mappers::mod_rewrite) fn new(label: String, remembers: bool) -> Sql {
        Sql { label, known: remembers.then(Mutex::default) }
    }

    /// The value of a key; `None`: there is none. `Err`: it could not be found out.
    pub(super) async fn look_up(
        &self,
        request: &Request,
        trace: Trace,
        name: &str,
        key: String,
        origin: &Origin,
    ) -> Result<Option<String>, Flow> {
        if let Some(known) = self.known() {
            if let Some(value) = known.values.get(&key).cloned() {
                drop(known);
                trace.log(request, 5, None, || {
                    format!("cache lookup OK: map={name}[SQL] key={key}, val={}", value.as_deref().unwrap_or_default())
                });
                return Ok(value);
            }
            drop(known);
            trace.log(request, 6, None, || "cache lookup FAILED, forcing new map lookup".into());
        }
        let rows = database::query(request, &self.label, vec![text_value(&key)]).await;
        let rows = rows.map_err(|failure| unanswered(request, name, &key, &failure, origin))?;
        if rows.rows.len() > 1 {
            trace.log(request, 3, None, || format!("Multiple values found for {key}"));
        }
        let row = choice_of(rows.rows.len()).and_then(|number| rows.rows.get(number));
        let value = row.and_then(|row| text_of(row.first()?));
        trace.log(request, 5, None, || match &value {
            Some(value) => format!("SQL map lookup OK: map {name} key={key}, val={value}"),
            None => format!("SQL map lookup FAILED: map {name} key={key}"),
        });
        if let Some(mut known) = self.known() {
            let bytes = key.len() + value.as_deref().map_or(0, str::len) + 64;
            if known.bytes + bytes > REMEMBERED_MAX {
                *known = CachedRows::default();
            }
            known.bytes += bytes;
            known.values.insert(key, value.clone());
        }
        Ok(value)
    }

    fn known(&self) -> Option<MutexGuard<'_, CachedRows>> {
        self.known.as_ref().map(|known| known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Refuses a request that depends on a database that does not answer.
fn unanswered(request: &Request, name: &str, key: &str, failure: &Failure, origin: &Origin) -> Flow {
    let text = match failure {
        Failure::Query(why) => format!("AH00657: rewritemap: error {why} querying for {key}"),
        Failure::NoConnection(_) | Failure::NoStatement => {
            format!("the database of RewriteMap {name} has not answered")
        }
    };
    request.log("rewrite", Level::Error, format!("{text}, so the line at {origin} cannot be evaluated"));
    request.fails_closed()
}

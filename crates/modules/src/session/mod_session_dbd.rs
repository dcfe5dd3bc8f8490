//! Sessions stored in a database: the client has a key in a cookie, or the key is the name of the user.
//!
//! Apache manual: mod_session_dbd; order of values, keys and messages measured on 2.4.71.

use conf::directive::Args::{Flag, Raw, Take1};
use conf::{Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, Setting, SettingsMap, on_or_off, row, settings};
use server::{Module, Request};

use super::data::{PLACES, Session, now};
use super::key::{KEY, Lost, is_key, new_key, shown};
use super::mod_session_cookie::{Cookie, parse, send, take};
use crate::database::{self, Failure, Rows, Value, text_of, text_value};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "session_dbd_module", source: "mod_session_dbd.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

const ONLY_OURS: &str = "A cookie is looked up only if its key looks like one of this server's: any other could be the name of another \
     user.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SessionDBDSelectLabel", PLACES, Take1(|c, v| c.set(|d: &mut DbdSessionDir| &mut d.select, v.to_string())), SELECT, "Query label used to select a new session"),
    row("SessionDBDInsertLabel", PLACES, Take1(|c, v| c.set(|d: &mut DbdSessionDir| &mut d.insert, v.to_string())), INSERT, "Query label used to insert a new session"),
    row("SessionDBDUpdateLabel", PLACES, Take1(|c, v| c.set(|d: &mut DbdSessionDir| &mut d.update, v.to_string())), UPDATE, "Query label used to update an existing session"),
    row("SessionDBDDeleteLabel", PLACES, Take1(|c, v| c.set(|d: &mut DbdSessionDir| &mut d.delete, v.to_string())), DELETE, "Query label used to delete an existing session"),
    row("SessionDBDPerUser", PLACES, Flag(|c, on| c.set(|d: &mut DbdSessionDir| &mut d.per_user, on)), on_or_off(false), "Save the session per user"),
    row("SessionDBDCookieRemove", PLACES, Flag(|c, on| c.set(|d: &mut DbdSessionDir| &mut d.remove, on)), on_or_off(REMOVE), "Remove the session cookie after session load. On by default."),
    row("SessionDBDCookieName", PLACES, Raw(|c, rest| set(c, rest, |d| &mut d.cookie)), "", "The name of the RFC2109 cookie carrying the session key").differs(ONLY_OURS),
    row("SessionDBDCookieName2", PLACES, Raw(|c, rest| set(c, rest, |d| &mut d.cookie2)), "", "The name of the RFC2965 cookie carrying the session key").differs(ONLY_OURS),
];

/// The default labels of statements.
const SELECT: &str = "selectsession";
const INSERT: &str = "insertsession";
const UPDATE: &str = "updatesession";
const DELETE: &str = "deletesession";
/// Whether the cookie is hidden from others by default.
const REMOVE: bool = true;

settings! {
    /// The module's settings of a section.
    pub struct DbdSessionDir {
        select: Setting<String>,
        insert: Setting<String>,
        update: Setting<String>,
        delete: Setting<String>,
        per_user: Setting<bool> = false,
        remove: Setting<bool> = REMOVE,
        cookie: Setting<Cookie>,
        cookie2: Setting<Cookie>,
    }
}

impl DbdSessionDir {
    fn has_cookie(&self) -> bool {
        self.cookie.is_set() || self.cookie2.is_set()
    }
}

fn set(cmd: &mut Cmd<'_>, rest: &str, field: fn(&mut DbdSessionDir) -> &mut Setting<Cookie>) -> Outcome {
    if rest.trim_ascii().is_empty() {
        return Err(Refusal::missing(format!("{} requires at least one argument!", cmd.row.name)));
    }
    let cookie = parse(rest).filter(|(name, _)| !name.contains(';'));
    let cookie = cookie.ok_or_else(|| format!("{} cannot contain '=', ';' or '&'.", cmd.row.name))?;
    cmd.set(field, cookie)
}

/// The text of the session, empty if there is none yet; `None`: none is stored here.
pub(super) async fn read(request: &mut Request, slots: &SettingsMap) -> Result<Option<String>, Lost> {
    let dir = slots.get::<DbdSessionDir>();
    let key = if let Some((name, _)) = dir.cookie2.get().or(dir.cookie.get()) {
        Some(take(request, name, dir.remove())).filter(|key| is_key(key))
    } else if let (true, Some(user)) = (dir.per_user(), &request.login.user) {
        Some(user.clone())
    } else {
        return Ok(None);
    };
    let Some(key) = key else { return Ok(Some(String::new())) };
    let label = dir.select.get().map_or(SELECT, String::as_str);
    let rows = query(request, label, vec![text_value(&key), Value::Integer(now())], |why| {
        format!(
            "AH01854: query execution error saving session '{}' in database using query '{label}': {why}",
            shown(&key)
        )
    });
    let rows = rows.await?;
    let text = rows.rows.first().and_then(|row| text_of(row.first()?));
    if text.is_some() && dir.has_cookie() {
        request.notes.set(KEY, key);
    }
    Ok(Some(text.unwrap_or_default()))
}

/// Whether the session of a request may be in a database.
pub(super) fn is_configured(request: &Request) -> bool {
    let dir = request.dir::<DbdSessionDir>();
    dir.has_cookie() || dir.per_user() && request.login.user.is_some()
}

/// Stores a session, and sends its key to the client.
pub(super) async fn write(
    request: &mut Request,
    slots: &SettingsMap,
    text: String,
    session: &Session,
    max_age: i64,
) -> Result<(), Lost> {
    if request.is_hypothetical() {
        return Ok(());
    }
    let dir = slots.get::<DbdSessionDir>();
    let expiry = session.expiry.unwrap_or(0);
    if !dir.has_cookie() {
        let Some(user) = request.login.user.clone() else { return Err(Lost) };
        super::mod_session::forbid_caches(request);
        return keep(request, dir, Some(&user), &user, &text, expiry).await;
    }
    let before = request.notes.get(KEY).map(str::to_string);
    // A changed session gets a new key: an intercepted one is soon useless.
    let key = before.clone().filter(|_| !session.dirty).unwrap_or_else(new_key);
    match text.is_empty() {
        true => remove(request, dir, before.as_deref()).await?,
        false => keep(request, dir, before.as_deref(), &key, &text, expiry).await?,
    }
    send(request, [dir.cookie.get(), dir.cookie2.get()], &key, max_age);
    Ok(())
}

/// Updates the database, or inserts a row.
async fn keep(
    request: &Request,
    dir: &DbdSessionDir,
    before: Option<&str>,
    key: &str,
    text: &str,
    expiry: i64,
) -> Result<(), Lost> {
    let mut values = vec![text_value(text), Value::Integer(expiry), text_value(key), old(before)];
    let label = dir.update.get().map_or(UPDATE, String::as_str);
    let changed = query(request, label, values.clone(), |why| {
        let (old, key) = (shown(before.unwrap_or_default()), shown(key));
        format!("AH01857: query execution error updating session '{old}' using database query '{key}': {label}/{why}")
    });
    if changed.await?.changed > 0 {
        return Ok(());
    }
    values.pop();
    let label = dir.insert.get().map_or(INSERT, String::as_str);
    let added = query(request, label, values, |why| {
        let key = shown(key);
        format!("AH01859: query execution error inserting session '{key}' in database with '{label}': {why}")
    });
    if added.await?.changed > 0 {
        return Ok(());
    }
    let text = "AH01860: the session insert query did not cause any rows to be added to the database for session";
    request.log("session_dbd", Level::Error, format!("{text} '{}', session not inserted", shown(key)));
    Err(Lost)
}

async fn remove(request: &Request, dir: &DbdSessionDir, before: Option<&str>) -> Result<(), Lost> {
    let label = dir.delete.get().map_or(DELETE, String::as_str);
    let removed = query(request, label, vec![old(before)], |why| {
        let key = shown(before.unwrap_or_default());
        format!("AH01864: query execution error removing session '{key}' from database ({why})")
    });
    removed.await.map(|_| ())
}

fn old(key: Option<&str>) -> Value {
    key.map_or(Value::Null, text_value)
}

/// Queries the database; failures are logged, a rejected statement with the text `refused`.
async fn query(
    request: &Request,
    label: &str,
    values: Vec<Value>,
    refused: impl Fn(&str) -> String,
) -> Result<Rows, Lost> {
    database::query(request, label, values).await.map_err(|failure| {
        let text = match failure {
            Failure::NoConnection(_) => "AH01851: failed to acquire database connection".into(),
            Failure::NoStatement => format!("AH01852: failed to find the prepared statement called '{label}'"),
            Failure::Query(why) => refused(&why),
        };
        request.log("session_dbd", Level::Error, text);
        Lost
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        crate::testing::check(&[
            ("SessionDBDCookieName", "SessionDBDCookieName requires at least one argument!"),
            ("SessionDBDCookieName a=b", "SessionDBDCookieName cannot contain '=', ';' or '&'."),
            ("SessionDBDCookieName2 a;b path=/", "SessionDBDCookieName2 cannot contain '=', ';' or '&'."),
            ("SessionDBDPerUser x", "SessionDBDPerUser must be On or Off"),
            ("SessionDBDCookieName a path=/;HttpOnly\nSessionDBDSelectLabel b\nSessionDBDCookieRemove Off", ""),
        ]);
    }
}

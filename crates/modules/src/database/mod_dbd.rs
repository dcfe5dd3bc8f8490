//! Connections to databases, for the modules that query them.
//!
//! Each child has a separate pool for each database. Virtual hosts with the same settings share it.
//!
//! Apache manual: mod_dbd; order of statements and messages measured on 2.4.71.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conf::directive::Args::{Flag, Take1, Take12};
use conf::values::atoi;
use conf::{
    Allowed, Cmd, Context, Directive, Error, Keyed, Level, ModuleInfo, Outcome, Setting, SettingsMap, Stacked,
    on_or_off, row, settings,
};
use server::core::CoreServer;
use server::{Draft, Hook, Module, Request, Server};
use sys::sql::{Rows, Value};

use super::connection::{Driver, Plan};
use super::pool::Pool;
use crate::derived::DerivedPerHost;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "dbd_module", source: "mod_dbd.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Check(make_pools), Hook::ChildInit(open), Hook::ChildEnd(close)],
};

const SIZES: &str = "Never more than `DBDMax` connections are opened or kept.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DBDriver", Allowed::SERVER, Take1(set_driver), "", "SQL Driver").differs("The drivers are `sqlite3` and `pgsql`. Each needs the library of its database, which is loaded when a line names it."),
    row("DBDParams", Allowed::SERVER, Take1(|c, v| c.server_set(|s: &mut DbdServer| &mut s.parameters, v.to_string())), "", "SQL Driver Params"),
    row("DBDPersist", Allowed::SERVER, Flag(|c, on| c.server_set(|s: &mut DbdServer| &mut s.persist, on)), on_or_off(PERSIST), "Use persistent connection/pool").differs("With `Off`, each query opens a connection and closes it."),
    row("DBDPrepareSQL", Allowed::SERVER, Take12(prepare_line), "", "SQL statement to prepare (or nothing, to override statement inherited from main server) and label"),
    row("DBDInitSQL", Allowed::SERVER, Take1(add_first), "", "SQL statement to be executed after connection is created").differs("A connection on which the statement fails is not used."),
    row("DBDMin", Allowed::SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.min)), "1", "Minimum number of connections").differs(SIZES),
    row("DBDKeep", Allowed::SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.keep)), "2", "Maximum number of sustained connections").differs(SIZES),
    row("DBDMax", Allowed::SERVER, Take1(set_max), "10", "Maximum number of connections").differs("0 is refused."),
    row("DBDExptime", Allowed::SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.expiry)), "300", "Keepalive time for idle connections"),
];

/// Whether connections are kept by default.
const PERSIST: bool = true;

settings! {
    /// The module's settings of a server.
    pub struct DbdServer {
        driver: Setting<Driver>,
        parameters: Setting<String>,
        persist: Setting<bool> = PERSIST,
        min: Setting<i32> = 1,
        keep: Setting<i32> = 2,
        max: Setting<i32> = 10,
        expiry: Setting<i32> = 300,
        first: Stacked<String>,
        statements: Keyed<String, String>,
        /// The pool for the server's lines; the check of the whole configuration makes it.
        pool: DerivedPerHost<Option<Arc<Pool>>>,
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection is available; the text says why, for the log.
    NoConnection(String),
    /// There is no statement with that label.
    NoStatement,
    /// The database rejects the statement, in these words.
    Query(String),
}

/// Whether the module is loaded, for other modules' directives.
pub(crate) fn is_loaded(cmd: &Cmd<'_>) -> bool {
    cmd.context.language.has_module(MODULE.info.id)
}

/// Prepares a statement for another module; returns the label for [`query`].
pub(crate) fn prepare(cmd: &mut Cmd<'_>, module: &str, sql: &str) -> String {
    // Virtual hosts inherit statements of others: the same text is the same statement anywhere.
    let label = format!("{module}: {sql}");
    let origin = cmd.origin();
    cmd.server.edit::<DbdServer>().statements.set(label.clone(), sql.to_string(), &origin);
    label
}

/// Queries the database of a request's virtual host. Logs why there is no connection.
pub(crate) async fn query(request: &Request, label: &str, values: Vec<Value>) -> Result<Rows, Failure> {
    let answer = match &request.host::<DbdServer>().pool.0 {
        Some(pool) => {
            let limit = request.host::<CoreServer>().timeout();
            pool.query(label.to_string(), values, limit).await
        }
        None => Err(Failure::NoConnection("AH02654: not configured".into())),
    };
    if let Err(Failure::NoConnection(text)) = &answer {
        request.log("dbd", Level::Error, text);
    }
    answer
}

fn set_driver(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let driver = Driver::load(name)?;
    cmd.server_set(|s: &mut DbdServer| &mut s.driver, driver)
}

fn prepare_line(cmd: &mut Cmd<'_>, sql: &str, label: Option<&str>) -> Outcome {
    // A label alone cancels the main server's statement.
    let (sql, label) = label.map_or(("", sql), |label| (sql, label));
    let origin = cmd.origin();
    let statements = &mut cmd.server.edit::<DbdServer>().statements;
    let is_other = statements.get(label).is_some_and(|known| known != sql);
    statements.set(label.to_string(), sql.to_string(), &origin);
    if is_other {
        cmd.context.note("dbd", Level::Warn, format!("AH02653: conflicting SQL statements with label {label}"));
    }
    Ok(())
}

fn add_first(cmd: &mut Cmd<'_>, sql: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.server.edit::<DbdServer>().first.push(sql.to_string(), &origin);
    Ok(())
}

fn set_number(cmd: &mut Cmd<'_>, text: &str, field: fn(&mut DbdServer) -> &mut Setting<i32>) -> Outcome {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("Argument must be numeric!".into());
    }
    cmd.server_set(field, atoi(text))
}

fn set_max(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    match text.bytes().all(|byte| byte == b'0') {
        true if !text.is_empty() => Err("DBDMax must be greater than zero".into()),
        _ => set_number(cmd, text, |s| &mut s.max),
    }
}

/// Makes one pool for all servers with the same settings.
fn make_pools(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    let mut pools: Vec<Arc<Pool>> = Vec::new();
    let hosts = draft.hosts.iter_mut().map(|host| &mut host.server);
    for settings in std::iter::once(&mut draft.main).chain(hosts) {
        let pool = plan(settings).map(|plan| match pools.iter().find(|pool| *pool.plan() == plan) {
            Some(pool) => pool.clone(),
            None => {
                pools.push(Arc::new(Pool::new(plan)));
                pools[pools.len() - 1].clone()
            }
        });
        settings.edit::<DbdServer>().pool = DerivedPerHost(pool);
    }
    Ok(())
}

fn plan(settings: &SettingsMap) -> Option<Plan> {
    let server = settings.get::<DbdServer>();
    let driver = server.driver.get().copied()?;
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    let max = count(server.max());
    let keep = count(server.keep()).min(max);
    let is_meant = |(_, sql): &(&String, &String)| !sql.is_empty();
    Some(Plan {
        driver,
        parameters: server.parameters.get().cloned().unwrap_or_default(),
        persist: server.persist(),
        min: count(server.min()).min(keep),
        keep,
        max,
        expiry: u64::try_from(server.expiry()).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs),
        first: server.first.iter().cloned().collect(),
        statements: server
            .statements
            .iter()
            .filter(is_meant)
            .map(|(label, sql)| (label.clone(), sql.clone()))
            .collect(),
    })
}

/// The pools of this child.
static OPEN: Mutex<Vec<Arc<Pool>>> = Mutex::new(Vec::new());

fn open(server: &Server) {
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    for host in &server.hosts {
        let Some(pool) = &host.settings.get::<DbdServer>().pool.0 else { continue };
        if !all.iter().any(|known| Arc::ptr_eq(known, pool)) {
            pool.prime(host.settings.get::<CoreServer>().timeout());
            all.push(pool.clone());
        }
    }
}

fn close() {
    let all = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    all.iter().for_each(|pool| pool.close());
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let refused = |name: &str| {
            format!(
                "Can't load driver file apr_dbd_{name}.so: this server supports SQLite (sqlite3) and PostgreSQL (pgsql)"
            )
        };
        crate::testing::check(&[
            ("DBDriver mysql", &refused("mysql")),
            ("DBDriver SQLite3", &refused("SQLite3")),
            ("DBDMin -1", "Argument must be numeric!"),
            ("DBDKeep 1.5", "Argument must be numeric!"),
            ("DBDExptime x", "Argument must be numeric!"),
            ("DBDMax 00", "DBDMax must be greater than zero"),
            ("DBDPersist maybe", "DBDPersist must be On or Off"),
            ("<Location />\nDBDMin 1\n</Location>", "DBDMin not allowed in <Location> context"),
            ("DBDParams a b", "DBDParams takes one argument, SQL Driver Params"),
            ("DBDParams \"dbname=a user=b\"\nDBDMin 5\nDBDMax 2\nDBDPrepareSQL \"select %s\" a\nDBDPrepareSQL a", ""),
        ]);
    }
}

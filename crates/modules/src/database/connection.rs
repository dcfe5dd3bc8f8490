//! A connection to a database, with any driver.

use std::collections::BTreeMap;
use std::time::Duration;

use sys::sql::{Rows, SqlError, Value, postgres, sqlite};
use sys::time::Instant;

use super::format::{Native, native};

/// `DBDriver`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `sqlite3`
    Sqlite,
    /// `pgsql`
    Postgres,
}

impl Driver {
    /// The driver's name after `DBDriver`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Driver::Sqlite => "sqlite3",
            Driver::Postgres => "pgsql",
        }
    }

    /// The driver of that name, with its library. `Err` is the message of a syntax error.
    pub(super) fn load(name: &str) -> Result<Driver, String> {
        let (driver, loaded, remedy) = match name {
            "sqlite3" => (Driver::Sqlite, sqlite::load(), "Debian's package libsqlite3-0"),
            "pgsql" => (Driver::Postgres, postgres::load(), "Debian's package libpq5"),
            other => {
                let known = "this server supports SQLite (sqlite3) and PostgreSQL (pgsql)";
                return Err(format!("Can't load driver file apr_dbd_{other}.so: {known}"));
            }
        };
        let failed = |why| format!("Failed to load driver apr_dbd_{name}_driver: {why} ({remedy} has it)");
        loaded.map(|()| driver).map_err(failed)
    }
}

/// What the lines of a server say about its database. Servers with equal plans share a pool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) driver: Driver,
    pub(super) parameters: String,
    pub(super) persist: bool,
    pub(super) min: usize,
    pub(super) keep: usize,
    pub(super) max: usize,
    /// After which time an idle connection may be closed; `None`: never.
    pub(super) expiry: Option<Duration>,
    /// Statements for each new connection.
    pub(super) first: Vec<String>,
    /// Statements to prepare, by their labels.
    pub(super) statements: BTreeMap<String, String>,
}

/// A connection with its prepared statements.
#[derive(Debug)]
pub(super) struct Connection {
    line: Line,
    /// For each label, the number of its statement, and how many values it takes.
    labels: BTreeMap<String, (usize, usize)>,
}

#[derive(Debug)]
enum Line {
    Sqlite(sqlite::Connection),
    Postgres(postgres::Connection),
}

impl Connection {
    /// Connects and prepares. `Err` is the line for the log.
    pub(super) fn open(plan: &Plan, deadline: Instant) -> Result<Connection, String> {
        let line = match plan.driver {
            Driver::Sqlite => sqlite::Connection::open(&plan.parameters).map(Line::Sqlite),
            Driver::Postgres => postgres::Connection::open(&plan.parameters, deadline).map(Line::Postgres),
        };
        let mut line =
            line.map_err(|error| format!("AH00629: Can't connect to {}: {}", plan.driver.name(), error.text))?;
        let mut labels = BTreeMap::new();
        for (index, (label, text)) in plan.statements.iter().enumerate() {
            let native = native(plan.driver, text);
            let prepared = line.prepare(index, &native, deadline);
            let failed =
                |error: SqlError| format!("AH00632: failed to prepare SQL statements: {} ({label})", error.text);
            prepared.map_err(failed)?;
            labels.insert(label.clone(), (index, native.types.len()));
        }
        for sql in &plan.first {
            let done = line.execute(sql, deadline);
            done.map_err(|error| format!("failed to execute DBDInitSQL \"{sql}\": {}", error.text))?;
        }
        Ok(Connection { line, labels })
    }

    /// Runs the statement with this label; `None`: there is none. Missing values are null, and surplus ones are
    /// ignored.
    pub(super) fn query(
        &mut self,
        label: &str,
        mut values: Vec<Value>,
        deadline: Instant,
    ) -> Option<Result<Rows, SqlError>> {
        let (index, count) = *self.labels.get(label)?;
        values.resize(count, Value::Null);
        Some(match &mut self.line {
            Line::Sqlite(line) => line.query(index, &values, deadline),
            Line::Postgres(line) => line.query(&name(index), &values, deadline),
        })
    }

    /// Whether it is still there, checked without waiting.
    pub(super) fn is_usable(&mut self) -> bool {
        match &mut self.line {
            Line::Sqlite(_) => true,
            Line::Postgres(line) => line.is_usable(),
        }
    }
}

impl Line {
    fn prepare(&mut self, index: usize, statement: &Native, deadline: Instant) -> Result<(), SqlError> {
        match self {
            Line::Sqlite(line) => line.prepare(&statement.sql).map(|_| ()),
            Line::Postgres(line) => {
                let types = statement.types.join(",");
                let types = if types.is_empty() { types } else { format!(" ({types})") };
                line.execute(&format!("PREPARE {}{types} AS {}", name(index), statement.sql), deadline).map(|_| ())
            }
        }
    }

    fn execute(&mut self, sql: &str, deadline: Instant) -> Result<Rows, SqlError> {
        match self {
            Line::Sqlite(line) => line.execute(sql, deadline),
            Line::Postgres(line) => line.execute(sql, deadline),
        }
    }
}

/// The name of a statement in PostgreSQL: a label may be any text.
fn name(index: usize) -> String {
    format!("statement_{index}")
}

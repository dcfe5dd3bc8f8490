//! Apache's answers, recorded in `tests/recorded`: a comparison whose configuration, files and requests have a record, from which ours
//! does not differ, starts no apache2.
//!
//! With `TSUBAME_ORACLE=apache` every comparison asks the program itself, and `TSUBAME_ORACLE=record` writes what the program answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, Case, modules, placeless};
use crate::harness::same_lines::Lines;
use crate::harness::site::Site;
use crate::harness::wire::{End, Framing, Response};

/// Tests without records: what they ask or what is answered depends on an address, on the environment, on the machine's users or on
/// chance, or there are thousands of answers.
const LIVE: [&str; 9] = [
    "all_that_chance_has_written",
    "directories_of_virtual_hosts",
    "headers_that_chance_has_written",
    "how_scripts_answer",
    "other_directories_and_charsets_as_in_apache",
    "rights_as_in_apache",
    "rules_of_a_server",
    "scripts_answer_as_under_apache",
    "variables_of_scripts",
];

/// Fields of a response that no comparison reads.
const IGNORED: [&str; 2] = ["date", "server"];

/// The records of one test: answers as JSON by the key of what was asked. In the file each has a line, and gzip makes a fiftieth of them.
type Records = BTreeMap<String, String>;

/// The files that this run has written.
static WRITTEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The place of a comparison's record.
pub(super) struct Record {
    /// `None`: the test has no records.
    file: Option<PathBuf>,
    key: String,
}

impl Record {
    pub(super) fn of(test: &str, site: &Site, configuration: &str, cases: &[Case]) -> Record {
        // What follows the name of a test tells its comparisons apart.
        let name = test.split([':', ' ', ',']).next().expect("a name");
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
        let file = (!LIVE.contains(&name)).then(|| dir.join(format!("{name}.gz")));
        Record { file, key: key(site, configuration, cases) }
    }

    /// The recorded answers, unless Apache itself is to be asked.
    pub(super) fn find(&self) -> Option<Vec<Answer>> {
        match std::env::var("TSUBAME_ORACLE").as_deref() {
            Ok("apache" | "record") => return None,
            Ok(other) => panic!("TSUBAME_ORACLE={other}: there are apache and record"),
            Err(_) => {}
        }
        let file = self.file.as_ref()?;
        let answers = read(file).remove(&self.key)?;
        let answers: Value =
            serde_json::from_str(&answers).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Some(list(&answers).iter().map(decoded).collect())
    }

    /// Records Apache's answers, if that is wanted.
    pub(super) fn keep(&self, answers: &[Answer]) {
        if let (Ok("record"), Some(file)) = (std::env::var("TSUBAME_ORACLE").as_deref(), &self.file) {
            record(file, self.key.clone(), answers);
        }
    }
}

fn read(file: &Path) -> Records {
    let Ok(packed) = std::fs::read(file) else { return Records::new() };
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let record = |line: &str| line.split_once(' ').map(|(key, answers)| (key.to_string(), answers.to_string()));
    text.lines().map(|line| record(line).unwrap_or_else(|| panic!("{}: {line}", file.display()))).collect()
}

/// Adds answers to the file. The first of a run replaces all that was there.
fn record(file: &Path, key: String, answers: &[Answer]) {
    let mut written = WRITTEN.lock().expect("no test has failed while it wrote");
    let mut records = if written.insert(file.to_path_buf()) { Records::new() } else { read(file) };
    records.insert(key, Value::from_iter(answers.iter().map(encoded)).to_string());
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    records.iter().try_for_each(|(key, answers)| writeln!(packed, "{key} {answers}")).expect("memory");
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("directory");
    std::fs::write(file, packed.finish().expect("memory")).expect("record");
}

/// A digest of what decides the answers, wherever the site is.
fn key(site: &Site, configuration: &str, cases: &[Case]) -> String {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    modules().iter().for_each(|(id, _)| add(id.as_bytes()));
    add(placeless(&site.base(), site).as_bytes());
    add(placeless(configuration, site).as_bytes());
    cases.iter().for_each(|case| add(&case.bytes));
    add_tree(&site.root, site, &mut add);
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Adds the names, permissions and content of all files below a directory, in the order of their names.
fn add_tree(dir: &Path, site: &Site, add: &mut impl FnMut(&[u8])) {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("directory").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    for path in paths {
        let meta = std::fs::symlink_metadata(&path).expect("a file");
        add(path.strip_prefix(&site.root).expect("below the root").as_os_str().as_bytes());
        add(&meta.permissions().mode().to_le_bytes());
        if meta.is_symlink() {
            add(placeless(&std::fs::read_link(&path).expect("link").to_string_lossy(), site).as_bytes());
        } else if meta.is_dir() {
            add_tree(&path, site, add);
        } else if meta.is_file() {
            let bytes = std::fs::read(&path).expect("file");
            match std::str::from_utf8(&bytes) {
                Ok(text) => add(placeless(text, site).as_bytes()),
                Err(_) => add(&bytes),
            }
        }
    }
}

fn encoded(answer: &Answer) -> Value {
    let response = |one: &Response| {
        let fields: Vec<_> =
            one.fields.iter().filter(|(name, _)| !IGNORED.contains(&&*name.to_ascii_lowercase())).collect();
        json!({
            "version": one.minor_version, "status": one.status, "reason": one.reason, "fields": fields, "body": latin1(&one.body),
            "trailers": one.trailers, "interim": one.interim, "framing": format!("{:?}", one.framing),
        })
    };
    let responses: Vec<Value> = answer.responses.iter().map(response).collect();
    json!({
        "responses": responses, "rest": answer.rest, "end": format!("{:?}", answer.end), "lengths": answer.lengths,
        "access": answer.lines.access, "error": answer.lines.error,
    })
}

fn decoded(answer: &Value) -> Answer {
    let response = |one: &Value| Response {
        minor_version: small(&one["version"]),
        status: small(&one["status"]),
        reason: text(&one["reason"]),
        fields: list(&one["fields"]).iter().map(pair).collect(),
        body: text(&one["body"]).chars().map(|char| u8::try_from(char).expect("a byte")).collect(),
        trailers: list(&one["trailers"]).iter().map(pair).collect(),
        interim: list(&one["interim"]).iter().map(small).collect(),
        framing: of_name(&one["framing"], &[Framing::None, Framing::Length, Framing::Chunked, Framing::Close]),
    };
    Answer {
        responses: list(&answer["responses"]).iter().map(response).collect(),
        rest: text(&answer["rest"]),
        end: of_name(&answer["end"], &[End::Closed, End::Reset]),
        lengths: list(&answer["lengths"]).iter().map(text).collect(),
        lines: Lines {
            access: list(&answer["access"]).iter().map(|line| list(line).iter().map(text).collect()).collect(),
            error: list(&answer["error"]).iter().map(text).collect(),
        },
    }
}

/// Bytes as the characters with these numbers.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_string()
}

fn small<N: TryFrom<u64>>(value: &Value) -> N {
    value.as_u64().and_then(|number| N::try_from(number).ok()).unwrap_or_else(|| panic!("not such a number: {value}"))
}

fn pair(value: &Value) -> (String, String) {
    (text(&value[0]), text(&value[1]))
}

/// The one of these values whose name was recorded.
fn of_name<T: Copy + std::fmt::Debug>(name: &Value, values: &[T]) -> T {
    let of_it = values.iter().find(|value| name.as_str() == Some(&format!("{value:?}")));
    *of_it.unwrap_or_else(|| panic!("not one of {values:?}: {name}"))
}

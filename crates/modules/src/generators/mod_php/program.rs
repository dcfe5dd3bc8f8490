//! `php-cgi`: finds it, and starts it with the settings of a request as PHP's own.
//!
//! Processes of one class have the same settings, so no setting of one request can affect the next in another directory
//! or virtual host. An administrator's values form a section `[PATH=/...]` of `php.ini`, which applies to every script
//! below that directory and locks its settings; the others are like a `.user.ini`, so PHP itself refuses those that
//! cannot be set per directory.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::time::Duration;

use gateway::backend::{Class, Concurrency, Head, PoolSettings, Program, Runtime};
use gateway::protocol::fastcgi::Role;
use server::Request;

use super::settings::{PhpDir, PhpServer};

/// The part of the server's own environment that PHP inherits.
const INHERITED: [&str; 3] = ["LANG", "LC_ALL", "TMPDIR"];
/// The maximum depth of a script's directory: this many steps up lead from anywhere to the root directory.
const DEPTH_MAX: usize = 200;
/// The longest name of a script, in bytes: PHP has 4096 for it together with those steps.
const NAME_MAX: usize = 4096 - 3 * DEPTH_MAX - 64;

/// The inherited variables, read once: the server's own environment does not change while it runs.
fn inherited() -> &'static [(&'static str, String)] {
    static VARIABLES: OnceLock<Vec<(&str, String)>> = OnceLock::new();
    VARIABLES.get_or_init(|| INHERITED.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?))).collect())
}

/// The class of processes that may run the request's script. `Err`: there is none, and this is why.
pub(super) fn class(request: &Request) -> Result<Class, String> {
    let conf = request.server.main().settings.get::<PhpServer>();
    let file = &request.mapped.filename;
    let php = conf.found.0.as_ref().ok_or_else(|| format!("{file}: PHP is not installed"))?;
    let values = &request.dir::<PhpDir>().values;
    let (admin, others) = (values.lines(true), values.lines(false));
    if file.len() > NAME_MAX || file.matches('/').count() > DEPTH_MAX {
        return Err(format!("{file}: its name is too long for PHP"));
    }
    // PHP opens it as a file of the script's directory.
    let user_ini = match others.is_empty() {
        true => String::new(),
        false => format!("{}{}", "../".repeat(DEPTH_MAX), &Runtime::PATH[1..]),
    };
    let early = values.early_lines();
    let mut settings =
        format!("cgi.fix_pathinfo=1\nfastcgi.logging=1\nuser_ini.filename=\"{user_ini}\"\n{early}{admin}");
    if !admin.is_empty() {
        let top = file[1..].split_once('/').map(|(top, _)| top);
        let top = top.filter(|top| top.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)));
        let top = top.ok_or_else(|| {
            format!("{file}: php_admin_value cannot be enforced in this directory; put the script below another one")
        })?;
        settings.push_str(&format!("[PATH=/{top}]\n{admin}"));
    }
    let ini = php.ini.iter().flat_map(|ini| ["-c".to_string(), ini.clone()]);
    let arguments: Vec<String> = ini.chain(["-d".to_string(), settings]).collect();
    let mut environment = vec![
        ("PATH", gateway::env::path_for(request)),
        ("PHP_FCGI_CHILDREN", "0".to_string()),
        // The pool counts them.
        ("PHP_FCGI_MAX_REQUESTS", "0".to_string()),
    ];
    environment.extend(php.scan.iter().map(|scan| ("PHP_INI_SCAN_DIR", scan.clone())));
    environment.extend(inherited().iter().cloned());
    let program =
        gateway::env::lines(&environment).and_then(|lines| Program::new(&php.program, &arguments, lines, "/", None));
    let mut program = program.ok_or_else(|| format!("{file}: no program can be started with these settings of PHP"))?;
    if !others.is_empty() {
        program = program.with_runtime(Runtime::Text(others.clone()));
    }
    let host = request.vhost.name.clone();
    Ok(Class {
        name: name(&host, &admin, &others),
        module: "php".into(),
        host,
        protocol: Head::FastCgi(Role::Responder).protocol(),
        concurrency: Concurrency::One,
        program: program.limited_for(request),
        settings: PoolSettings {
            max: conf.processes.get().copied().unwrap_or(8 * sys::affinity::processors() as u64).max(1),
            idle: seconds(conf.idle()),
            requests: Some(conf.requests()).filter(|requests| *requests > 0),
            ..PoolSettings::default()
        },
    })
}

/// The name of a class in logs and on pages: settings are distinguished, but not shown.
fn name(host: &str, admin: &str, others: &str) -> String {
    if admin.is_empty() && others.is_empty() {
        return format!("php {host}");
    }
    let mut hasher = DefaultHasher::new();
    (admin, others).hash(&mut hasher);
    format!("php {host} #{:06x}", hasher.finish() & 0xff_ffff)
}

/// The duration of so many seconds; 0 is for ever.
fn seconds(number: u64) -> Option<Duration> {
    Some(number).filter(|number| *number > 0).map(Duration::from_secs)
}

//! The names and versions by which the server identifies itself.

use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use conf::VERSION;
use server::core::Tokens;
use server::identity::Identity;

use crate::output;

/// The version of Tsubame; `conf::VERSION` is the one of Apache.
pub(crate) const OWN: &str = env!("CARGO_PKG_VERSION");
/// The default `ServerRoot`, as in Debian's package.
pub(crate) const SERVER_ROOT: &str = "/etc/apache2";
/// The names of the main file below `ServerRoot`, in the order in which they are tried.
pub(crate) const CONFIG_FILES: [&str; 3] = ["apache2.conf", "conf/httpd.conf", "httpd.conf"];
/// The module magic number of Apache 2.4.71.
const MAGIC: &str = "20120211:142";
/// The default of `PidFile`, below `ServerRoot`.
pub(crate) const PID_FILE: &str = "logs/httpd.pid";

/// The text of the `Server` field (`ServerTokens`).
pub(crate) fn software(tokens: Tokens) -> String {
    let mut parts = OWN.split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    match tokens {
        Tokens::Prod => "Tsubame".into(),
        Tokens::Major => format!("Tsubame/{major}"),
        Tokens::Minor => format!("Tsubame/{major}.{minor}"),
        Tokens::Min => format!("Tsubame/{OWN}"),
        Tokens::Os | Tokens::Full => format!("Tsubame/{OWN} (Unix)"),
    }
}

/// Name, version, and the version of Apache whose configuration is understood, which tools look for.
pub(crate) fn full() -> String {
    let (major, minor, patch) = VERSION;
    format!("Tsubame/{OWN} Apache/{major}.{minor}.{patch} (Unix)")
}

/// The identity of the program on pages for administrators.
pub(crate) fn identity() -> Identity {
    Identity { version: full(), built: built(), magic: MAGIC, built_with: built_with() }
}

/// The build time of this program: the modification time of its file.
pub(crate) fn built() -> String {
    let modified = std::env::current_exe().and_then(std::fs::metadata).and_then(|meta| meta.modified());
    let seconds = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_secs()) as i64;
    // `21/Nov/2026:20:38:24 +0000`
    let date = String::from_utf8_lossy(&http::date::log_date(seconds, 0)).into_owned();
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == &date[3..6]).unwrap_or(0) + 1;
    format!("{}-{month:02}-{}T{}", &date[7..11], &date[0..2], &date[12..20])
}

/// Prints `-v`, and with `mpm` the rest of `-V`.
pub(crate) fn print(mpm: Option<&mpm::Chosen>) -> ExitCode {
    output::line(&format!("Server version: {}", full()));
    output::line(&format!("Server built:   {}", built()));
    let Some(mpm) = mpm else { return ExitCode::SUCCESS };
    let (threaded, forked) =
        (if mpm.is_threaded() { "yes (fixed thread count)" } else { "no" }, "yes (variable process count)");
    output::print(&format!(
        "Server's Module Magic Number: {MAGIC}
Server loaded:  tsubame {OWN}
Compiled using: tsubame {OWN}
Architecture:   {}-bit
Server MPM:     {}
  threaded:     {threaded}
    forked:     {forked}
Server compiled with....
{}",
        usize::BITS,
        mpm.name(),
        built_with(),
    ));
    ExitCode::SUCCESS
}

fn built_with() -> String {
    format!(
        " -D APR_HAS_SENDFILE
 -D APR_HAVE_IPV6 (IPv4-mapped addresses enabled)
 -D SINGLE_LISTEN_UNSERIALIZED_ACCEPT
 -D APR_HAS_OTHER_CHILD
 -D AP_HAVE_RELIABLE_PIPED_LOGS
 -D DYNAMIC_MODULE_LIMIT=256
 -D HTTPD_ROOT=\"{SERVER_ROOT}\"
 -D DEFAULT_PIDLOG=\"{PID_FILE}\"
 -D DEFAULT_SCOREBOARD=\"logs/apache_runtime_status\"
 -D DEFAULT_ERRORLOG=\"logs/error_log\"
 -D AP_TYPES_CONFIG_FILE=\"conf/mime.types\"
 -D SERVER_CONFIG_FILE=\"{}\"
",
        CONFIG_FILES[0],
    )
}

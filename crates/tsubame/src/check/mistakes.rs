//! Mistakes that Apache accepts in silence: the configuration is correct, and does not do what it seems to.
//!
//! Each check is one function over all lines. A check says nothing where it is not sure: a report that is wrong once is not
//! read again.

mod access;
mod line;
mod listed;
mod logs;
mod numbers;
mod paths;
mod rewrite;
mod shadows;
mod unheard;

use conf::Node;
use server::Server;

use self::line::{Config, lines_of_access_file};
use super::report::Report;

/// The checks, in the order of the report.
const CHECKS: [fn(&Config<'_>, &mut Report); 15] = [
    numbers::without_digits,
    logs::unknown_nicknames,
    access::no_name,
    access::missing_password_files,
    access::rules_of_mixed_kinds,
    listed::certificates_without_engine,
    listed::unknown_filters,
    paths::missing_targets,
    paths::missing_error_pages,
    paths::missing_sockets,
    rewrite::slash_in_a_directory,
    rewrite::engine_is_off,
    shadows::never_reached,
    unheard::conditions_without_a_rule,
    unheard::nobody_listens,
];

/// Runs all checks.
pub(super) fn all(report: &mut Report, server: &Server) {
    let config = Config::of(server);
    CHECKS.iter().for_each(|check| check(&config, report));
}

/// Checks the lines of an `.htaccess` file on their own.
pub(super) fn of_access_file(report: &mut Report, tree: &[Node]) {
    lines_of_access_file(tree).iter().for_each(|line| rewrite::slash(line, report));
}

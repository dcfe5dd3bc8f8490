//! What keeps a file from running as a script. Each module looks in the order of its original, and has words of its own.

use server::Request;
use server::core::options::EXEC_CGI;

use crate::mappers::mod_alias::is_script_aliased;

/// What keeps a file from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// `Options` without `ExecCGI`.
    NoExecCgi,
    /// `Options` without `ExecCGI`, and no `ScriptAlias` leads to the file.
    NeitherExecCgiNorAlias,
    /// The file does not exist.
    Missing,
    /// The file is a directory.
    Directory,
    /// The path goes on behind the file, and `AcceptPathInfo` is off.
    PathInfo,
}

/// A module's words about a file, for the log.
pub(super) type FileText = fn(&str) -> String;

impl Obstacle {
    /// The first of these obstacles that a request meets, with the status of the response, and the module's words.
    pub(super) fn first<'o, T>(request: &Request, order: &'o [(Obstacle, u16, T)]) -> Option<&'o (Obstacle, u16, T)> {
        order.iter().find(|(obstacle, ..)| obstacle.is_met(request))
    }

    fn is_met(self, request: &Request) -> bool {
        let mapped = &request.mapped;
        let no_exec_cgi = || request.options() & EXEC_CGI == 0;
        match self {
            Obstacle::NoExecCgi => no_exec_cgi(),
            Obstacle::NeitherExecCgiNorAlias => no_exec_cgi() && !is_script_aliased(request),
            Obstacle::Missing => mapped.stat.is_none(),
            Obstacle::Directory => mapped.stat.is_some_and(|meta| meta.is_dir()),
            Obstacle::PathInfo => mapped.accept_path_info == Some(false) && !mapped.path_info.is_empty(),
        }
    }
}

//! The names by which rules mark requests: handlers, prefixes of file names, and notes.

use server::Request;

/// The handler for a path changed by a section's rules: it starts again with the new one.
pub(crate) const REDIRECT_HANDLER: &str = "redirect-handler";

/// The prefix of a file name that is the path to start again with.
pub(super) const REDIRECT: &str = "redirect:";

/// Notes: the type and the handler that a rule sets, and that no rule should process the request again.
pub(super) const FORCED_TYPE: &str = "rewrite-forced-mimetype";
pub(super) const FORCED_HANDLER: &str = "rewrite-forced-handler";
pub(super) const END: &str = "rewrite_really_last";
/// The note of a subrequest that no rule should process again. A request that continues as the subrequest's result
/// (`DirectoryIndex`) may still be rewritten.
pub(super) const END_OF_LOOK_UP: &str = "rewrite_really_last_of_look_up";

/// Whether a rule with `END` has matched, for this path or for an earlier one.
pub(super) fn has_ended(request: &Request) -> bool {
    let before = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    let has_look_up = request.is_subrequest() && request.notes.contains(END_OF_LOOK_UP);
    has_look_up || request.notes.contains(END) || before.into_iter().any(|one| one.notes.contains(END))
}

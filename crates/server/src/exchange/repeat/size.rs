//! How much memory a remembered request takes.

use crate::message::fields::Fields;
use crate::request::Request;

/// The longest heads of a request and of its response that are remembered, in bytes.
pub(super) const HEAD_MAX: usize = 2048;
/// What a field takes beside its name and its value, in bytes.
const EACH_FIELD: usize = 48;

/// How much text a request has beside its head, in bytes.
pub(super) fn text_of(request: &Request) -> usize {
    let Request { data, mapped, response, env, notes, .. } = request;
    let tables =
        [Some(env), Some(notes), Some(&response.headers_out), Some(&response.err_headers_out), data.changed_fields()];
    let lists = [&response.output_filters, &response.content_languages, &mapped.input_filters];
    let texts = [&mapped.filename, &mapped.path_info, &data.uri];
    let optional = [&data.args, &data.hostname, &response.vlist_validator];
    let size = |fields: &Fields| fields.size() + fields.iter().count() * EACH_FIELD;
    tables.into_iter().flatten().map(size).sum::<usize>()
        + optional.into_iter().flatten().map(String::len).sum::<usize>()
        + lists.into_iter().flatten().chain(texts).map(String::len).sum::<usize>()
        + response.allowed.iter().flatten().map(String::len).sum::<usize>()
}

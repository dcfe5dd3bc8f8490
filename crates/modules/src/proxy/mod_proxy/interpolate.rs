//! Variables of a request in the texts of lines (`ProxyPassInterpolateEnv`).

use conf::pattern::TooLong;
use server::Request;

/// Replaces `${NAME}` in a text by variables of the request.
pub(super) fn interpolated(request: &Request, text: &str) -> Result<String, TooLong> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, (name, behind))) =
        rest.split_once("${").and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        out.extend([before, request.env_value(name).unwrap_or_default()]);
        rest = behind;
        TooLong::check(out.len(), server::TEXT_MAX)?;
    }
    Ok(out + rest)
}

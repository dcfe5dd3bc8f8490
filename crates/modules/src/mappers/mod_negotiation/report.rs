//! The client's information about a negotiation: fields, and the list of variants.

use server::Request;
use server::paths::os_path;

use super::offer::Offer;
use super::select::Variant;

/// A name as one part of a URL path.
pub(super) fn escape_segment(name: &str) -> String {
    http::uri::escape_path(name).replace('/', "%2f").replace(';', "%3b")
}

/// The validator of the list of variants: it changes with the directory or map.
pub(super) fn validator(path: &str, map: Option<&Request>) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(os_path(path)).ok()?;
    let modified = meta.mtime() * 1_000_000 + meta.mtime_nsec() / 1000;
    Some(match map {
        Some(_) => format!("{:x}-{modified:x}", meta.len()),
        None => format!("{modified:x}"),
    })
}

/// Sets `Alternates`, `Vary` and `TCN`. `tcn` is `None` if the client may not choose itself.
pub(super) fn set_fields(request: &mut Request, offer: &Offer, alternates: bool, tcn: Option<&str>) {
    let variants = &offer.variants;
    if alternates && !variants.is_empty() {
        let all: Vec<String> = (0..variants.len()).map(|index| alternate(offer, index)).collect();
        request.response.err_headers_out.merge("Alternates", &all.join(", "));
    }
    let differ = |of: fn(&Variant) -> String| variants.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
    let vary = [
        (tcn.is_some(), "negotiate"),
        (differ(|v| v.media.name.clone()), "accept"),
        (differ(|v| v.languages.join(",")), "accept-language"),
        (differ(|v| v.media.charset.clone()), "accept-charset"),
        (differ(|v| v.encoding.clone().unwrap_or_default()), "accept-encoding"),
    ];
    let vary: Vec<&str> = vary.iter().filter(|(varies, _)| *varies).map(|(_, name)| *name).collect();
    if !vary.is_empty() {
        request.response.err_headers_out.merge("Vary", &vary.join(","));
    }
    if let Some(tcn) = tcn {
        request.response.err_headers_out.set("TCN", tcn);
    }
}

/// A variant in the form of RFC 2295.
fn alternate(offer: &Offer, index: usize) -> String {
    let variant = &offer.variants[index];
    let quality = format!("{:.3}", variant.media.quality);
    let quality = quality.trim_end_matches('0').trim_end_matches('.');
    let quality = if quality.is_empty() { "0" } else { quality };
    let mut text = format!("{{\"{}\" {quality}", escape_segment(&variant.name));
    let mut attribute = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!(" {{{name} {value}}}"));
        }
    };
    attribute("type", &variant.media.name);
    attribute("charset", &variant.media.charset);
    attribute("language", &variant.languages.join(","));
    attribute("encoding", variant.encoding.as_deref().unwrap_or_default());
    // The length of a script is not that of its output.
    let is_script = offer.multiviews && variant.length.is_none();
    if let Some(length) = if is_script { None } else { offer.length(index) } {
        attribute("length", &length.to_string());
    }
    text.push('}');
    text
}

/// The list for pages with status 300 and 406.
pub(super) fn list(variants: &[Variant]) -> String {
    let mut out = "Available variants:\n<ul>\n".to_string();
    for variant in variants {
        let name = http::uri::escape_html(&variant.name);
        out.push_str(&format!("<li><a href=\"{}\">{name}</a> {}", escape_segment(&variant.name), variant.description));
        let mut detail = |name: &str, value: &str| {
            if !value.is_empty() {
                out.push_str(&format!(", {name} {value}"));
            }
        };
        detail("type", &variant.media.name);
        detail("language", &variant.languages.join(","));
        detail("charset", &variant.media.charset);
        detail("encoding", variant.encoding.as_deref().unwrap_or_default());
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n");
    out
}

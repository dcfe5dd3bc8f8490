//! What a page says in the place of a header field: `<meta http-equiv="Refresh" content="5">`.

use super::attributes::{attributes, decoded, tag_end};

/// Fields about the message itself: a page cannot know them.
const REFUSED: [&str; 6] = ["connection", "date", "keep-alive", "server", "trailer", "transfer-encoding"];

/// The fields in the beginning of a page.
pub(super) fn fields(page: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'<', &page[from..]).map(|at| from + at) {
        from = at + 1;
        if page.get(from..from + 4).is_some_and(|name| name.eq_ignore_ascii_case(b"meta")) {
            // If this one has no end, no other has.
            let Some(end) = tag_end(&page[at..]) else { break };
            found.extend(field(&page[at..at + end]));
            from = at + end;
        }
    }
    found
}

/// The field of an element.
fn field(tag: &[u8]) -> Option<(String, String)> {
    let all = attributes(tag, "<meta".len());
    let value = |name: &str| {
        let one = all.iter().find(|one| tag[one.name.clone()].eq_ignore_ascii_case(name.as_bytes()))?;
        Some(String::from_utf8_lossy(&decoded(&tag[one.value.clone()])?).into_owned())
    };
    let (name, content) = (value("http-equiv")?, value("content")?);
    let lower = name.to_ascii_lowercase();
    let is_refused = lower.starts_with("content-") || REFUSED.contains(&&*lower);
    let is_field = http::name::is_valid(name.as_bytes()) && !content.contains(char::is_control);
    (is_field && !is_refused).then_some((name, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_pages() {
        let page = b"<meta http-equiv=Refresh content='5; url=/x'><META CONTENT=\"a&amp;b\" HTTP-EQUIV=X-A /><meta name=a content=b>\
            <meta http-equiv=Content-Type content=x><meta http-equiv='X A' content=x><meta http-equiv=X content='a\nb'>\
            <meta http-equiv=Transfer-Encoding content=x><meta http-equiv=Y";
        let want =
            [("Refresh", "5; url=/x"), ("X-A", "a&b")].map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(fields(page), want);
        // A look at each tag that does not end would take the square of their number.
        assert_eq!(fields("<meta".repeat(1_000_000).as_bytes()), []);
    }
}

//! Makes the request of a finding as small as it can be, and nameless, so that it can be shown to others.

use super::ask::Ask;

/// The most requests that one reduction asks.
const TRIES: usize = 60;

/// Fields whose values are about the answer, not about who asks: only those are shown to others.
const SHOWN: [&str; 19] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "depth",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The request without anything that it does not need: without fields, query, and the end of its path, as long as `shows` says
/// that what is left shows the same differences.
pub(crate) fn reduced(ask: &Ask, mut shows: impl FnMut(&Ask) -> bool) -> Ask {
    let mut best = ask.clone();
    let mut tries = 0;
    let mut keep = |best: &mut Ask, candidate: Ask| {
        tries += 1;
        if candidate != *best && tries <= TRIES && shows(&candidate) {
            *best = candidate;
        }
    };
    let bare = Ask { fields: Vec::new(), client: None, ..best.clone() };
    keep(&mut best, bare);
    for name in ask.fields.iter().map(|(name, _)| name.clone()) {
        let mut less = best.clone();
        less.fields.retain(|(own, _)| *own != name);
        keep(&mut best, less);
    }
    let nobody = Ask { client: None, ..best.clone() };
    keep(&mut best, nobody);
    if let Some(at) = best.target.iter().position(|byte| *byte == b'?') {
        let bare = Ask { target: best.target[..at].to_vec(), ..best.clone() };
        keep(&mut best, bare);
    }
    // Parts of the query, one after the other.
    while let Some(at) = best.target.iter().rposition(|byte| *byte == b'&') {
        let shorter = Ask { target: best.target[..at].to_vec(), ..best.clone() };
        let before = best.target.len();
        keep(&mut best, shorter);
        if best.target.len() == before {
            break;
        }
    }
    let newer = Ask { minor: 1, ..best.clone() };
    keep(&mut best, newer);
    best
}

/// The request with other names: hosts, users, cookies and addresses of clients are nobody's, and so is what a query or a body
/// says. The characters of a query are of the same kind, because a rule may depend on that.
pub(crate) fn anonymous(ask: &Ask) -> Ask {
    let value = |(name, value): &(String, Vec<u8>)| {
        let is_shown = SHOWN.contains(&name.to_ascii_lowercase().as_str());
        (name.clone(), if is_shown { value.clone() } else { b"(left out)".to_vec() })
    };
    Ask {
        target: nameless(&ask.target),
        body: vec![b'x'; ask.body.len()],
        host: ask.host.as_ref().map(|_| "www.example.org".to_owned()),
        fields: ask.fields.iter().map(value).collect(),
        client: ask.client.map(|client| {
            if client.is_ipv4() { [192, 0, 2, 1].into() } else { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() }
        }),
        ..ask.clone()
    }
}

/// A target with other letters and digits behind each `=` of its query.
fn nameless(target: &[u8]) -> Vec<u8> {
    let mut is_value = false;
    let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let other = |(at, byte): (usize, &u8)| {
        is_value = at > query && (*byte == b'=' || (is_value && *byte != b'&'));
        match byte {
            _ if !is_value => *byte,
            // An escape stays one.
            _ if target[..at].ends_with(b"%") || (at > 1 && target[..at - 1].ends_with(b"%")) => *byte,
            b'0'..=b'9' => b'0',
            b'A'..=b'Z' => b'X',
            b'a'..=b'z' => b'x',
            _ => *byte,
        }
    };
    target.iter().enumerate().map(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::ask::tests::ask;

    #[test]
    fn what_is_not_needed_goes() {
        let fields = ["Range", "Cookie", "Accept"].map(|name| (name.to_owned(), b"x".to_vec())).to_vec();
        let given = Ask { fields, client: Some([10, 0, 0, 1].into()), ..ask("GET /a/b?c=d&e=f") };
        let needs_range = |ask: &Ask| ask.fields.iter().any(|(name, _)| name == "Range") && ask.target.contains(&b'c');
        let small = reduced(&given, needs_range);
        assert_eq!(small.shown(), "GET http://localhost/a/b?c=d (Range: x)");
        assert_eq!((small.fields.len(), small.client), (1, None));
        let mut asked = 0;
        let same = reduced(&given, |_| {
            asked += 1;
            false
        });
        assert_eq!(same, given);
        assert!(asked <= TRIES);
    }

    #[test]
    fn names_are_replaced() {
        let fields = ["Cookie", "Accept"].map(|name| (name.to_owned(), b"x".to_vec())).to_vec();
        let given =
            Ask { fields, client: Some([10, 0, 0, 1].into()), host: Some("secret.org".into()), ..ask("GET /a") };
        let text = String::from_utf8(anonymous(&given).bytes(None)).unwrap();
        assert!(text.contains("Host: www.example.org\r\nCookie: (left out)\r\nAccept: x\r\n"), "{text}");
        assert!(text.contains("192.0.2.1") && !text.contains("10.0.0.1"), "{text}");
        let fields =
            ["X-Api-Key", "Authorization", "From", "X-Real-IP"].map(|name| (name.to_owned(), b"secret".to_vec()));
        let given = Ask {
            fields: fields.to_vec(),
            body: b"password=secret".to_vec(),
            ..ask("POST /reset?token=Secret42%3d-secret&secret=1&plain")
        };
        let text = String::from_utf8(anonymous(&given).bytes(None)).unwrap();
        assert!(text.starts_with("POST /reset?token=Xxxxxx00%3d-xxxxxx&secret=0&plain HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with("Content-Length: 15\r\n\r\nxxxxxxxxxxxxxxx"), "{text}");
        assert_eq!(text.matches("secret").count(), 1, "{text}");
    }
}

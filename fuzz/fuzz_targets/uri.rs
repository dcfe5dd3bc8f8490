//! A decoded path stays below the root, decoding its escaped form returns it, and texts keep every byte.

#![no_main]

use http::uri::{EncodedSlashes, PathOptions, decode_path, escape_html, escape_path, unescape_lenient};
use http::{Authority, date, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    assert_eq!(&*text::to_bytes(&text::from_bytes(data)), data);
    assert_eq!(&*unescape_lenient(escape_path(&text::from_bytes(data)).as_bytes()), data);
    assert!(!escape_html(&text::from_bytes(data)).contains(['<', '>', '"']));

    for merge_slashes in [true, false] {
        for encoded_slashes in [EncodedSlashes::Off, EncodedSlashes::On, EncodedSlashes::NoDecode] {
            check_path(data, &PathOptions { merge_slashes, encoded_slashes });
        }
    }

    if let Some(authority) = Authority::parse(data, true) {
        assert!(Authority::parse(data, false).is_some());
        assert!(!authority.host.contains(&b'/'));
    }
    if let Some(seconds) = date::parse_http_date(data) {
        assert_eq!(date::parse_http_date(&date::http_date(seconds)), Some(seconds));
    }
});

fn check_path(raw: &[u8], options: &PathOptions) {
    let Ok(path) = decode_path(raw, options) else {
        return;
    };
    if path == "*" {
        return;
    }
    assert!(path.starts_with('/') && !path.starts_with("//"));
    assert!(path.split('/').all(|segment| segment != "." && segment != ".."));
    assert!(!path.contains('\0'));
    assert!(!options.merge_slashes || !path.contains("//"));
    // Escaping turns the percent sign of a kept `%2F` into `%25`, so this holds under every policy.
    assert_eq!(decode_path(escape_path(&path).as_bytes(), options), Ok(path));
}

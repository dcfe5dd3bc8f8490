//! HAR 1.2, in which browsers save what they have asked.

use serde::Deserialize;

use super::told::Told;
use super::url::Url;

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    http_version: String,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(default)]
    cookies: Vec<Pair>,
    post_data: Option<Data>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    text: String,
}

/// The requests of an archive. Those of other protocols, such as `data:`, are passed over.
///
/// # Errors
/// It is no archive; the error names the entry.
pub(super) fn read(text: &str) -> Result<Vec<Told>, String> {
    let archive: Archive = serde_json::from_str(text).map_err(|error| format!("this is no HAR: {error}"))?;
    let mut all = Vec::new();
    for (at, entry) in archive.log.entries.into_iter().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let entry: Entry = serde_json::from_value(entry).map_err(|error| format!("entry {number}: {error}"))?;
        all.extend(entry.request.told(number));
    }
    Ok(all)
}

impl Request {
    fn told(self, line: u32) -> Option<Told> {
        // Without a scheme it would be one that curl completes.
        let url = Url::read(&self.url).filter(|_| self.url.contains("://"))?;
        let mut fields: Vec<(String, String)> = self.headers.into_iter().map(|pair| (pair.name, pair.value)).collect();
        let has_cookies = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        if !has_cookies && !self.cookies.is_empty() {
            let cookies: Vec<String> =
                self.cookies.iter().map(|pair| format!("{}={}", pair.name, pair.value)).collect();
            fields.push(("Cookie".to_owned(), cookies.join("; ")));
        }
        Some(Told {
            line,
            url,
            method: self.method,
            minor: u8::from(!self.http_version.eq_ignore_ascii_case("HTTP/1.0")),
            fields,
            body: self.post_data.map(|data| data.text.into_bytes()).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_read() {
        let text = r#"{"log": {"version": "1.2", "entries": [
            {"request": {"method": "POST", "url": "https://a/x?y=1", "httpVersion": "HTTP/2",
             "headers": [{"name": ":authority", "value": "a"}, {"name": "accept", "value": "*/*"}],
             "cookies": [{"name": "id", "value": "1"}, {"name": "b", "value": "2"}],
             "postData": {"mimeType": "text/plain", "text": "ü"}}},
            {"request": {"method": "GET", "url": "data:,x"}},
            {"request": {"method": "GET", "url": "http://a/", "httpVersion": "HTTP/1.0"}}]}}"#;
        let all = read(text).unwrap();
        assert_eq!(all.iter().map(|told| (told.line, told.minor)).collect::<Vec<_>>(), [(1, 1), (3, 0)]);
        let fields: Vec<String> = all[0].fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(fields, [":authority: a", "accept: */*", "Cookie: id=1; b=2"]);
        assert_eq!((all[0].method.as_str(), &all[0].body[..]), ("POST", "ü".as_bytes()));
    }

    #[test]
    fn errors_name_the_entry() {
        for (text, expected) in [
            ("{", "this is no HAR"),
            (r#"{"log": {}}"#, "this is no HAR"),
            (r#"{"log": {"entries": [{"request": {"method": "GET", "url": "http://a/"}}, {}]}}"#, "entry 2: "),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.starts_with(expected), "{wrong}");
        }
    }
}

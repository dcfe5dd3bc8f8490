//! Requests that the administrator gives in a file: HAR, as browsers save it, lines of curl, as they copy it, and plain URLs.

mod curl;
mod har;
mod told;
mod url;

use std::path::Path;
use std::sync::Arc;

use super::collection::{Collected, Given};
use crate::machine::error::{Context as _, Error, Result};
use crate::switch::ask::{Ask, Sample, Source, is_left_out};
use crate::switch::tree::Origin;
use told::Told;
pub(super) use url::basic;

/// The most bytes of a file of requests.
const FILE_MAX: u64 = 512 * 1024 * 1024;

/// Adds the requests of a file.
///
/// # Errors
/// It cannot be read or understood; the error names the line or entry.
pub(super) fn collect(given: &Given<'_>, file: &Path, collected: &mut Collected) -> Result<()> {
    let shown = file.display();
    let size = file.metadata().context(|| format!("read {shown}"))?.len();
    if size > FILE_MAX {
        return Err(Error::new(format!("{shown} has more than {} MiB", FILE_MAX / 1024 / 1024)));
    }
    let text = std::fs::read(file).context(|| format!("read {shown}"))?;
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_start_matches('\u{feff}');
    let told = if text.trim_start().starts_with('{') { har::read(text) } else { curl::read(text) };
    let told = told.map_err(|wrong| Error::new(format!("{shown}: {wrong}")))?;
    let name: Arc<str> = shown.to_string().into();
    let mut lost = 0;
    for told in told {
        let origin = Origin { file: Arc::clone(&name), line: told.line };
        match given.ask_told(told) {
            Some(ask) => collected.add(Sample { ask, weight: 0, due: None, source: Source::Given(origin) }),
            None => lost += 1,
        }
    }
    if lost > 0 {
        collected.notes.push(format!("requests of {shown} for ports on which nothing listens: {lost}"));
    }
    Ok(())
}

impl Given<'_> {
    /// The request to the site that it reaches; none if nothing listens for it.
    fn ask_told(&self, told: Told) -> Option<Ask> {
        let own =
            |name: &str| told.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let authority = own(":authority").or_else(|| own("host")).unwrap_or(&told.url.authority).clone();
        let name = url::host(&authority);
        let port = told.url.port();
        let has_port = self.endpoints.all().any(|(endpoint, _)| endpoint.port == port);
        // A server behind another one that speaks TLS knows the name, but not the port.
        let number = self.sites.named(0, Some(name), has_port.then_some(port));
        let site = self.sites.all().get(number)?;
        let mut ask = self.ask(number, &told.url.target)?;
        ask.endpoint = site.endpoints.iter().find(|endpoint| endpoint.port == port).copied().unwrap_or(ask.endpoint);
        ask.host = Some(authority);
        ask.minor = told.minor;
        ask.body = told.body;
        let is_kept = |name: &str| !name.starts_with(':') && !name.eq_ignore_ascii_case("host") && !is_left_out(name);
        let fields = told.fields.into_iter().filter(|(name, _)| is_kept(name));
        ask.fields = fields.map(|(name, value)| (name, value.into_bytes())).collect();
        ask.method = told.method;
        Some(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::scratch::Scratch;
    use crate::switch::sources::collection::tests::{found, with_given};

    #[test]
    fn requests_reach_their_sites() {
        let scratch = Scratch::for_test("requests");
        let file = scratch.path().join("requests");
        let text = "https://a/x\nhttp://A/\nhttp://b:81/\ncurl http://nobody/ -H 'Host: a' -H 'TE: x'\nhttps://nobody/";
        std::fs::write(&file, text).unwrap();
        let configuration = "Listen 80\nListen 443\n\
            <VirtualHost *:80>\nServerName b\n</VirtualHost>\n\
            <VirtualHost *:80>\nServerName a\n</VirtualHost>\n\
            <VirtualHost *:443>\nServerName a\n</VirtualHost>";
        with_given(configuration, &[], |given| {
            let mut collected = Collected::default();
            collect(given, &file, &mut collected).unwrap();
            let sites: Vec<(usize, u16)> =
                collected.found.iter().map(|one| (one.ask.site, one.ask.endpoint.port)).collect();
            assert_eq!(sites, [(3, 443), (2, 80), (1, 80), (2, 80), (3, 443)]);
            let (last, source) = found(&collected).swap_remove(3);
            assert_eq!(last, "GET /, Host: a, User-Agent: curl/8, Accept: */*");
            assert!(source.ends_with("requests:4"), "{source}");
        });
    }
}

//! Requests that each line of the configuration is about, and requests that just miss that line.

mod access;
mod conditions;
mod content;
mod line;
mod paths;
mod protocol;
mod rewriting;
mod scope;

use super::collection::{Collected, Given, in_turn};
use super::walk::Ground;
use crate::switch::ask::{Sample, Source};
use crate::switch::tree::Directive;
use line::{Known, Line, Wanted};
use scope::Scope;

/// The most requests about one line; fewer if there are very many lines.
const LINE_MAX: usize = 60;
/// The most requests about all lines: as many as two servers answer within a few minutes.
const REQUESTS_MAX: usize = 20_000;

/// What to ask about a line.
type Wants = fn(&Line<'_>) -> Vec<Wanted>;

/// What to ask about each directive that decides something.
const TABLE: &[(&str, Wants)] = &[
    ("AcceptPathInfo", paths::behind),
    ("AddAlt", paths::listing),
    ("AddCharset", content::extension),
    ("AddDefaultCharset", content::scope),
    ("AddDescription", paths::listing),
    ("AddEncoding", content::encoded),
    ("AddHandler", content::extension),
    ("AddIcon", paths::listing),
    ("AddLanguage", content::language),
    ("AddOutputFilter", content::extension),
    ("AddOutputFilterByType", content::compression),
    ("AddType", content::extension),
    ("Alias", paths::prefix),
    ("AliasMatch", paths::pattern),
    ("Allow", access::address),
    ("AllowEncodedSlashes", protocol::encoded_slashes),
    ("AllowMethods", protocol::methods),
    ("AllowOverride", paths::overridden),
    ("AuthType", access::credentials),
    ("BrowserMatch", conditions::browser),
    ("BrowserMatchNoCase", conditions::browser),
    ("CacheDisable", paths::prefix),
    ("CacheEnable", paths::prefix),
    ("CharsetDefault", content::scope),
    ("CheckSpelling", paths::misspelled),
    ("ContentDigest", content::scope),
    ("Dav", protocol::dav),
    ("DefaultType", content::scope),
    ("DeflateAlterETag", content::compression),
    ("Deny", access::address),
    ("DirectoryIndex", paths::index),
    ("DirectoryIndexRedirect", paths::index),
    ("DirectorySlash", paths::index),
    ("ErrorDocument", access::error_document),
    ("ExpiresByType", content::scope),
    ("ExpiresDefault", content::scope),
    ("FallbackResource", paths::fallback),
    ("FileETag", content::conditional),
    ("FilterChain", content::compression),
    ("ForceLanguagePriority", content::negotiation),
    ("ForceType", content::scope),
    ("Header", content::scope),
    ("IndexIgnore", paths::listing),
    ("IndexOptions", paths::listing),
    ("IndexOrderDefault", paths::listing),
    ("LanguagePriority", content::negotiation),
    ("LimitRequestFields", protocol::many_fields),
    ("LimitRequestFieldSize", protocol::long_field),
    ("LimitRequestLine", protocol::long_line),
    ("Listen", protocol::general),
    ("MaxRangeOverlaps", content::ranges),
    ("MaxRangeReversals", content::ranges),
    ("MaxRanges", content::ranges),
    ("MergeSlashes", paths::slashes),
    ("MetaFiles", content::scope),
    ("MimeMagicFile", content::magic),
    ("Options", paths::options),
    ("Order", access::address),
    ("Protocols", protocol::upgrades),
    ("ProxyPass", paths::prefix),
    ("ProxyPassMatch", paths::pattern),
    ("Redirect", paths::prefix),
    ("RedirectMatch", paths::pattern),
    ("RedirectPermanent", paths::prefix),
    ("RedirectTemp", paths::prefix),
    ("RemoveHandler", content::extension),
    ("RemoveType", content::extension),
    ("RequestHeader", content::scope),
    ("Require", access::address),
    ("RewriteRule", rewriting::rule),
    ("Satisfy", access::credentials),
    ("ScriptAlias", paths::prefix),
    ("ScriptAliasMatch", paths::pattern),
    ("ServerAlias", protocol::names),
    ("ServerName", protocol::names),
    ("ServerSignature", content::scope),
    ("SetEnvIf", conditions::set_env_if),
    ("SetEnvIfNoCase", conditions::set_env_if),
    ("SetHandler", content::handler),
    ("SetOutputFilter", content::compression),
    ("SSLRequireSSL", paths::without_tls),
    ("Substitute", content::scope),
    ("TraceEnable", protocol::methods),
    ("UseCanonicalName", paths::redirected),
    ("UseCanonicalPhysicalPort", paths::redirected),
    ("UserDir", paths::users),
    ("VirtualDocumentRoot", protocol::names),
    ("XBitHack", content::scope),
];

/// The same for sections.
const SECTIONS: &[(&str, Wants)] = &[
    ("Directory", content::scope),
    ("DirectoryMatch", content::scope),
    ("ElseIf", conditions::expression),
    ("Files", content::scope),
    ("FilesMatch", content::scope),
    ("If", conditions::expression),
    ("Limit", protocol::methods),
    ("LimitExcept", protocol::methods),
    ("Location", paths::prefix),
    ("LocationMatch", paths::pattern),
];

/// Adds them for each site.
pub(super) fn collect(given: &Given<'_>, grounds: &[Ground], collected: &mut Collected) {
    let mut tours = Vec::new();
    let mut lines = 0;
    // Lines of the main server hold for all hosts: one host shows what becomes of them there.
    let sites = given.sites.all().iter().enumerate().zip(grounds);
    let first_host = given.sites.all().iter().skip(1).position(|site| site.endpoint().is_some()).map(|at| at + 1);
    for ((number, site), ground) in sites {
        let Some(base) = given.ask(number, "/") else { continue };
        let host =
            given.installed.tree.iter().find(|one| one.is("VirtualHost") && site.origin.as_ref() == Some(&one.origin));
        let mut levels: Vec<&[Directive]> = host.map(Directive::inside).into_iter().collect();
        if number == 0 || Some(number) == first_host {
            levels.push(&given.installed.tree);
        }
        let tour = Tour { given, site, ground, base };
        let mut known = Known::default();
        tour.visit_all(&levels, &Known::default(), &mut |line| {
            lines += usize::from(wants(line).is_some());
            known.learn(line);
        });
        tours.push((tour, levels, known));
    }
    let line_max = (4 * REQUESTS_MAX / lines.max(1)).clamp(1, LINE_MAX);
    let mut lists = Vec::new();
    for (tour, levels, known) in &tours {
        tour.visit_all(levels, known, &mut |line| lists.push(samples(line, line_max)));
    }
    let all = lists.iter().map(Vec::len).sum::<usize>();
    if all > REQUESTS_MAX {
        collected.notes.push(format!("of {all} requests about lines of the configuration, {REQUESTS_MAX} were asked"));
    }
    for sample in in_turn(lists, REQUESTS_MAX) {
        collected.add(sample);
    }
}

/// What to ask about a line, if it decides something.
fn wants(line: &Line<'_>) -> Option<Wants> {
    let table = if line.directive.children.is_some() { SECTIONS } else { TABLE };
    table.iter().find(|(name, _)| line.directive.is(name)).map(|(_, wants)| *wants)
}

/// The requests about a line.
fn samples(line: &Line<'_>, max: usize) -> Vec<Sample> {
    let sample = |wanted: Wanted| Sample {
        ask: wanted.ask,
        weight: 0,
        due: None,
        source: Source::Configuration(line.directive.origin.clone(), wanted.what),
    };
    let wanted = wants(line).map(|wants| wants(line)).unwrap_or_default();
    wanted.into_iter().take(max).map(sample).collect()
}

/// Goes through all lines that hold for a site.
struct Tour<'a> {
    given: &'a Given<'a>,
    site: &'a crate::switch::sites::Site,
    ground: &'a Ground,
    base: crate::switch::ask::Ask,
}

impl Tour<'_> {
    fn visit_all(&self, levels: &[&[Directive]], known: &Known, each: &mut dyn FnMut(&Line<'_>)) {
        let scope = Scope::of_site(self.ground);
        for level in levels {
            self.visit(level, &scope, known, each);
        }
    }

    fn visit(&self, level: &[Directive], scope: &Scope, known: &Known, each: &mut dyn FnMut(&Line<'_>)) {
        for (at, directive) in level.iter().enumerate().filter(|(_, one)| !one.is("VirtualHost")) {
            let inner = directive.children.as_ref().map(|_| scope.within(directive, self.ground));
            let line = Line {
                directive,
                words: directive.words(),
                before: &level[..at],
                // A section is about what is in it.
                scope: inner.as_ref().unwrap_or(scope),
                known,
                given: self.given,
                site: self.site,
                ground: self.ground,
                base: &self.base,
            };
            each(&line);
            if let Some(inner) = &inner {
                self.visit(directive.inside(), inner, known, each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::private::CLIENT_FIELD;
    use crate::switch::sources::collection::tests::{found, with_given};
    use crate::switch::sources::walk::Ground;

    /// The requests for a configuration whose sites serve no files.
    fn requests(text: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        with_given(text, &["--user", "me:secret"], |given| {
            let grounds = vec![Ground::default(); given.sites.all().len()];
            let mut collected = Collected::default();
            collect(given, &grounds, &mut collected);
            all = found(&collected);
        });
        all
    }

    #[test]
    fn lines_give_requests() {
        for (text, request) in [
            ("Alias /a /nowhere", "GET /a, Host: localhost"),
            ("Alias /a /nowhere", "GET /ax, Host: localhost"),
            ("Alias /a /nowhere", "GET /a/no-such-name, Host: localhost"),
            ("Redirect gone /g", "GET /g?a=b&c=%20d, Host: localhost"),
            (r"RedirectMatch 302 ^/m/(\d+)$ /n/$1", "GET /m/1, Host: localhost"),
            (r"RedirectMatch 302 ^/m/(\d+)$ /n/$1", "GET /m/1x, Host: localhost"),
            (
                "RewriteCond %{HTTP_HOST} ^www\\.a$\nRewriteCond %{QUERY_STRING} ^q=\\d$\nRewriteRule ^/x$ /y",
                "GET /x?q=1, Host: www.a",
            ),
            ("RewriteCond %{HTTP_HOST} ^www\\.a$\nRewriteRule ^/x$ /y", "GET /x, Host: www.ax"),
            ("<Location /p>\nRequire ip 192.0.2.0/24\n</Location>", "GET /p, Host: localhost, CLIENT: 192.0.2.1"),
            ("<Location /p>\nRequire ip 192.0.2.0/24\n</Location>", "GET /p, Host: localhost, CLIENT: 192.0.3.0"),
            (
                "<Location /p>\nAuthType Basic\n</Location>",
                "GET /p, Host: localhost, Authorization: Basic bWU6c2VjcmV0",
            ),
            ("<Location /p>\nRequire valid-user\n</Location>\nErrorDocument 401 /x", "GET /p, Host: localhost"),
            ("SetEnvIf User-Agent ^Bad x", "GET /, Host: localhost, User-Agent: Bad"),
            ("<If \"%{HTTP_USER_AGENT} =~ /^Bad/\">\n</If>", "GET /, Host: localhost, User-Agent: Bad"),
            ("<Location /s>\nSetHandler server-status\n</Location>", "GET /s?auto, Host: localhost"),
            ("ServerAlias *.example.org", "GET /, Host: x.example.org"),
            ("<Location /p>\n<LimitExcept GET>\n</LimitExcept>\n</Location>", "TRACE /p, Host: localhost"),
            ("LimitRequestFieldSize 20", "GET /, Host: localhost, X-Long: xxxxxxxxxxxx"),
            ("LanguagePriority fr", "GET /, Host: localhost, Accept-Language: fr"),
            ("SetOutputFilter DEFLATE", "GET /, Host: localhost, Accept-Encoding: br"),
        ] {
            let all = requests(&format!("Listen 80\n{text}"));
            let request = request.replace("CLIENT", &CLIENT_FIELD);
            let is_about = |(own, source): &(String, String)| *own == request && !source.starts_with("a:1 ");
            assert!(all.iter().any(is_about), "{text} gives no {request}: {all:#?}");
        }
    }

    #[test]
    fn lines_of_the_main_server_are_asked_at_one_host() {
        let host = |name: &str| format!("<VirtualHost *:80>\nServerName {name}\nAlias /own /x\n</VirtualHost>\n");
        let all = requests(&format!("Listen 80\nListen 81\nAlias /main /x\n{}{}{}", host("a"), host("b"), host("c")));
        let has = |request: &str| all.iter().any(|(own, _)| own == request);
        assert!(has("GET /main, Host: localhost") && has("GET /main, Host: a") && !has("GET /main, Host: b"));
        assert!(has("GET /own, Host: a") && has("GET /own, Host: c") && !has("GET /own, Host: localhost"));
    }

    #[test]
    fn tables_are_sorted() {
        for table in [TABLE, SECTIONS] {
            let names: Vec<String> = table.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
            assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
        }
    }
}

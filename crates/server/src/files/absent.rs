//! Known handlers that are not available. A file meant for one of them is never sent: its source may hold passwords.
//!
//! An unknown name works as in Apache: the file is sent.

use conf::{Cause, Language, Level, Node, Notice};

/// A handler's name, in which `*` stands for anything, its module in Apache's world, and those of our modules that
/// provide it too.
struct Absent(&'static str, &'static str, &'static [&'static str]);

const CGI: &[&str] = &["cgi_module", "cgid_module"];

const PERL: &[&str] = &["perl_module"];

const PHP: &[&str] = &["php_module", "php7_module", "php5_module"];

const TABLE: &[Absent] = &[
    Absent("application/x-httpd-cgi", "mod_cgi or mod_cgid", CGI),
    Absent("application/x-httpd-php*", "mod_php", PHP),
    Absent("application/x-lsphp*", "mod_lsapi", &[]),
    Absent("asgi-script", "mod_wsgi", &["wsgi_module"]),
    Absent("cgi-script", "mod_cgi or mod_cgid", CGI),
    Absent("fastcgi-filter", "mod_fastcgi", &["fastcgi_module"]),
    Absent("fastcgi-script", "mod_fastcgi", &["fastcgi_module"]),
    Absent("fcgid-script", "mod_fcgid", &["fcgid_module"]),
    Absent("lsapi-script", "mod_lsapi", &[]),
    Absent("lua-script", "mod_lua", &[]),
    Absent("metrics", "mod_metrics", &["metrics_module"]),
    Absent("modperl", "mod_perl", PERL),
    Absent("perl-fork", "mod_perl", PERL),
    Absent("perl-script", "mod_perl", PERL),
    Absent("php*-script", "mod_php", PHP),
    Absent("proxy-server", "mod_proxy", &["proxy_module"]),
    Absent("proxy:*", "mod_proxy", &["proxy_module"]),
    Absent("psgi-script", "mod_perl", PERL),
    Absent("python-fork", "mod_wsgi", &["wsgi_module"]),
    Absent("python-program", "mod_python", &[]),
    Absent("rack-script", "mod_passenger", &["passenger_module"]),
    Absent("scgi-handler", "mod_scgi", &["scgi_module"]),
    Absent("server-parsed", "mod_include", &["include_module"]),
    Absent("speedycgi-script", "mod_speedycgi", &["speedycgi_module"]),
    Absent("uwsgi-handler", "mod_uwsgi", &[]),
    Absent("wsgi-script", "mod_wsgi", &["wsgi_module"]),
];

/// The directives that name a handler in their first word. A media type is also a handler's name.
const NAMED_BY: [&str; 4] = ["AddHandler", "AddType", "ForceType", "SetHandler"];

impl Absent {
    fn is(&self, name: &str) -> bool {
        match self.0.split_once('*') {
            None => name.eq_ignore_ascii_case(self.0),
            Some((start, end)) => {
                let (name, start, end) = (name.as_bytes(), start.as_bytes(), end.as_bytes());
                name.len() >= start.len() + end.len()
                    && name[..start.len()].eq_ignore_ascii_case(start)
                    && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
            }
        }
    }
}

/// The initials of the names in the table, one bit for each.
const INITIALS: u32 = {
    let (mut initials, mut at) = (0, 0);
    while at < TABLE.len() {
        initials |= initial(TABLE[at].0.as_bytes());
        at += 1;
    }
    initials
};

/// The bit for a name's initial, in either case.
const fn initial(name: &[u8]) -> u32 {
    match name.first() {
        Some(first) => 1 << (*first & 0x1f),
        None => 0,
    }
}

/// The module that a handler would need, if the handler is one of these.
pub(crate) fn module_of(handler: &str) -> Option<&'static str> {
    // Called for every file, and most have types with other initials (`text/…`, `image/…`).
    if INITIALS & initial(handler.as_bytes()) == 0 {
        return None;
    }
    TABLE.iter().find(|absent| absent.is(handler)).map(|absent| absent.1)
}

/// Notices about a configuration that names such handlers.
pub(crate) fn notices(tree: &[Node], language: &Language) -> Vec<Notice> {
    let mut named = Vec::new();
    collect(tree, &mut named);
    let loaded = language.loaded();
    let is_action = |name: &str| {
        named.iter().any(|(node, word)| node.name.eq_ignore_ascii_case("Action") && word.eq_ignore_ascii_case(name))
    };
    let notice = |(node, name): &(&Node, String)| {
        let absent = TABLE.iter().find(|absent| absent.is(name))?;
        let is_there = loaded.iter().any(|info| absent.2.contains(&info.id)) || is_action(name);
        let is_naming = NAMED_BY.iter().any(|directive| node.name.eq_ignore_ascii_case(directive));
        (is_naming && !is_there).then(|| {
            let text = format!(
                "{} at {}: nothing handles {name}, which needs {}; requests for it are answered with 500",
                node.name, node.origin, absent.1
            );
            let notice = Notice::new("core", Level::Warn, text).bare().because(Cause::NoHandler);
            Notice { origin: Some(node.origin.clone()), ..notice }
        })
    };
    named.iter().filter_map(notice).collect()
}

/// The lines that name a handler, with that name, including those in sections.
fn collect<'a>(tree: &'a [Node], into: &mut Vec<(&'a Node, String)>) {
    for node in tree {
        match &node.children {
            Some(children) => collect(children, into),
            None if NAMED_BY.iter().chain(&["Action"]).any(|name| node.name.eq_ignore_ascii_case(name)) => {
                into.extend(conf::words::words(&node.args).into_iter().next().map(|word| (node, word)));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names() {
        let cases = [
            ("fcgid-script", Some("mod_fcgid")),
            ("FCGID-Script", Some("mod_fcgid")),
            ("proxy:unix:/run/php.sock|fcgi://localhost", Some("mod_proxy")),
            ("application/x-httpd-php", Some("mod_php")),
            ("application/x-httpd-php-source", Some("mod_php")),
            ("php5-script", Some("mod_php")),
            ("php-script", Some("mod_php")),
            ("ph-script", None),
            ("default-handler", None),
            ("nobody-knows-it", None),
            ("text/html", None),
        ];
        for (name, module) in cases {
            assert_eq!(module_of(name), module, "{name}");
        }
    }
}

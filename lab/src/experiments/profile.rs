//! The configurations under which a server is measured, and a server under one of them.

use serde::{Deserialize, Serialize};

/// The configuration of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Profile {
    /// The minimum that serves the documents, without an access log.
    Bare,
    /// Bare, with `.htaccess` files that may say anything.
    Htaccess,
    /// Debian's default configuration of Apache: sections, modules, access log.
    Debian,
    /// Bare, with a fixed number of workers and children that live for ever.
    Steady,
    /// The same with children that are replaced every second or two.
    Recycling,
    /// Bare, with four workers in total if there are workers, room for thousands of connections, and so little room for
    /// unsent bytes that the server, not the kernel, has to deal with slow clients.
    Crowded,
    /// Bare, with 400 workers in 16 children.
    ManyWorkers,
    /// Bare, with the settings that event had when Apache 2.4.3 was installed.
    Event243,
    /// Bare, with the settings found best for 100 connections in a comparison of Apache 2.4.3 with nginx.
    EventSmall,
    /// The same with four workers instead of two, in one child.
    #[serde(rename = "event-four")]
    Event4Workers,
    /// The same with one.
    #[serde(rename = "event-one")]
    Event1Worker,
    /// The same with four children that have one each.
    #[serde(rename = "event-singles")]
    Event4Children,
    /// Bare, with that comparison's first settings for thousands of connections: many small children.
    EventChildren,
    /// Bare, with its settings of brute force: a thread for each connection.
    EventThreads,
    /// Bare, with its last settings, for 20 000 connections.
    EventLarge,
    /// Bare, with room for 60 000 connections in a process: that comparison's settings of nginx.
    ManyConnections,
    /// Bare, with 256 workers if there are workers, and scripts started by the worker itself.
    Cgi,
    /// The same with scripts started by a daemon.
    Cgid,
    /// Bare, with 16 workers if there are workers, and a Perl script as CGI.
    PerlCgi,
    /// The same as `ModPerl::Registry`.
    Registry,
    /// The same as `ModPerl::PerlRun`.
    PerlRun,
    /// The same under SpeedyCGI.
    Speedy,
    /// The same compiled once and forked per request.
    PerlFork,
    /// The same as a FastCGI application of mod_fcgid.
    Fcgid,
    /// Bare, with PHP behind php-fpm, as in each server's documentation: a connection for each request.
    PhpFpm,
    /// The same over persistent connections.
    PhpKept,
    /// Bare, with everything passed on to an HTTP server over connections that stay open.
    Proxied,
    /// The same; clients speak TLS.
    ProxiedTls,
    /// The same with HTTP/2.
    ProxiedHttp2,
    /// The same in the clear; the HTTP server speaks TLS, and its certificate is verified.
    ProxiedToTls,
    /// In the clear on both sides, with 100 children.
    ProxiedChildren,
    /// In the clear on both sides, with three HTTP servers, of which the one with the fewest requests is next.
    Balanced,
    /// Everything is passed on to one, with responses that are stored in files.
    Cached,
    /// Bare, with one process of mod_fcgid.
    OneBackend,
    /// Bare, with the right number of workers for scripts of 200 MB in 1 GB.
    FourWorkers,
    /// Bare, without any number of workers.
    Unconfigured,
    /// Bare over TLS 1.2 and 1.3, with tickets for sessions.
    Tls,
    /// The same with HTTP/2.
    Http2,
    /// Bare, with many virtual hosts.
    ManyHosts,
    /// The same; each has a name with a star.
    ManyStars,
    /// Bare, with a map of many lines from paths to files.
    ManyMapped,
    /// Bare, with many redirects.
    ManyRedirects,
    /// Over TLS, with many virtual hosts that have a certificate each.
    ManyCertificates,
}

impl Profile {
    /// The name in raw.csv and the words that distinguish it in tables; the bare profile needs none.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Bare => ("bare", ""),
            Self::Htaccess => ("htaccess", ".htaccess files"),
            Self::Debian => ("debian", "Debian's configuration"),
            Self::Steady => ("steady", "without recycling"),
            Self::Recycling => ("recycling", "recycling"),
            Self::Crowded => ("crowded", ""),
            Self::ManyWorkers => ("many-workers", "400 workers"),
            Self::Event243 => ("event243", "defaults of 2.4.3"),
            Self::EventSmall => ("event-small", "2 workers"),
            Self::Event4Workers => ("event-four", "4 workers"),
            Self::Event1Worker => ("event-one", "1 worker"),
            Self::Event4Children => ("event-singles", "4 children of 1 thread"),
            Self::EventChildren => ("event-children", "children of 2 threads"),
            Self::EventThreads => ("event-threads", "children of 100 threads"),
            Self::EventLarge => ("event-large", "children of 256 threads"),
            Self::ManyConnections => ("many-connections", "60 000 connections"),
            Self::Cgi => ("cgi", "mod_cgi"),
            Self::Cgid => ("cgid", "mod_cgid"),
            Self::PerlCgi => ("perl-cgi", "mod_cgi"),
            Self::Registry => ("registry", "ModPerl::Registry"),
            Self::PerlRun => ("perl-run", "ModPerl::PerlRun"),
            Self::Speedy => ("speedy", "SpeedyCGI"),
            Self::PerlFork => ("perl-fork", "perl-fork"),
            Self::Fcgid => ("fcgid", "mod_fcgid"),
            Self::PhpFpm => ("php-fpm", "php-fpm"),
            Self::PhpKept => ("php-kept", "php-fpm, connections kept"),
            Self::Proxied => ("proxied", ""),
            Self::ProxiedTls => ("proxied-tls", ""),
            Self::ProxiedHttp2 => ("proxied-http2", ""),
            Self::ProxiedToTls => ("proxied-to-tls", ""),
            Self::ProxiedChildren => ("proxied-children", ""),
            Self::Balanced => ("balanced", ""),
            Self::Cached => ("cached", "from the store"),
            Self::OneBackend => ("one-backend", "mod_fcgid"),
            Self::FourWorkers => ("four-workers", "MaxRequestWorkers 4"),
            Self::Unconfigured => ("unconfigured", ""),
            Self::Tls => ("tls", ""),
            Self::Http2 => ("http2", ""),
            Self::ManyHosts => ("many-hosts", ""),
            Self::ManyStars => ("many-stars", ""),
            Self::ManyMapped => ("many-mapped", ""),
            Self::ManyRedirects => ("many-redirects", ""),
            Self::ManyCertificates => ("many-certificates", ""),
        }
    }

    /// Whether all clients speak TLS, with one certificate for all of the server.
    pub(crate) fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::ProxiedTls) || self.has_http2()
    }

    /// Whether they may speak HTTP/2.
    pub(crate) fn has_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::ProxiedHttp2)
    }

    /// How many HTTP servers requests are passed on to.
    pub(crate) fn origins(self) -> usize {
        match self {
            Self::Proxied
            | Self::ProxiedTls
            | Self::ProxiedHttp2
            | Self::ProxiedToTls
            | Self::ProxiedChildren
            | Self::Cached => 1,
            Self::Balanced => 3,
            _ => 0,
        }
    }
}

/// One subject under one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The subject's identifier.
    pub(crate) subject: &'static str,
    /// Its configuration.
    pub(crate) profile: Profile,
}

/// On whose side a subject stands in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Tsubame, under one of its modules.
    Own,
    /// A floor: the least work that a server could do.
    Floor,
    /// Another server.
    Other,
}

impl Entry {
    /// The side of the subject, by its identifier.
    pub(crate) fn side(self) -> Side {
        match self.subject {
            own if own.starts_with("tsubame-") => Side::Own,
            floor if floor.starts_with("floor") => Side::Floor,
            _ => Side::Other,
        }
    }
}

/// A subject under the bare configuration.
pub(crate) const fn bare(subject: &'static str) -> Entry {
    Entry { subject, profile: Profile::Bare }
}

/// A subject under another configuration.
pub(crate) const fn under(profile: Profile, subject: &'static str) -> Entry {
    Entry { subject, profile }
}

/// A subject under Debian's configuration.
pub(crate) const fn debian(subject: &'static str) -> Entry {
    under(Profile::Debian, subject)
}

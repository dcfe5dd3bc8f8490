//! The options of `load` for TLS and HTTP/2.

use std::path::PathBuf;

use clap::Args;

use super::values::positive;
use crate::load::tls::{Tls, Trust, Versions};
use crate::load::url::Url;
use crate::machine::error::{Error, Result};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "TLS and HTTP/2")]
pub(super) struct TlsOptions {
    /// Speak HTTP/2, negotiated by TLS (ALPN)
    #[arg(long, conflicts_with = "pipeline")]
    http2: bool,

    /// Speak HTTP/2 in the clear, without negotiation (prior knowledge)
    #[arg(long, conflicts_with_all = ["http2", "pipeline"])]
    h2c: bool,

    /// Streams in progress at a time on each connection, up to the server's limit; with HTTP/2, `-m 100` means the same
    #[arg(long, visible_alias = "max-concurrent-streams", value_name = "N", conflicts_with = "rate", value_parser = positive)]
    streams: Option<usize>,

    /// Make a full handshake for each connection, instead of resuming an earlier session
    #[arg(long)]
    no_resume: bool,

    /// Speak this version of TLS only
    #[arg(long = "tls", value_name = "VERSION", value_parser = ["1.2", "1.3"])]
    version: Option<String>,

    /// Offer these cipher suites, in OpenSSL's words
    #[arg(long, value_name = "LIST")]
    ciphers: Option<String>,

    /// Offer these groups of key exchange [default: X25519:P-256:P-384]
    #[arg(long, visible_alias = "curves", value_name = "LIST")]
    groups: Option<String>,

    /// Tell the server this name (SNI) instead of the host of the URL
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,

    /// Trust only servers with a certificate signed by one of the machine's authorities; by default, any certificate is
    /// trusted
    #[arg(long)]
    verify: bool,

    /// Trust only servers with a certificate signed by those in this file
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    cacert: Option<PathBuf>,

    /// A file with our own certificate, its chain, and its key
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
}

impl TlsOptions {
    /// Whether to speak HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2 || self.h2c
    }

    /// How many requests are in progress at a time on each connection; `method` is that number if `-m` means that.
    pub(super) fn streams(&self, method: &str) -> Option<usize> {
        self.streams.or_else(|| method.parse().ok().filter(|number| *number > 0)).filter(|_| self.is_http2())
    }

    /// The TLS options for connections to a URL.
    ///
    /// # Errors
    /// The URL and the options contradict each other, or the options do.
    pub(super) fn tls(&self, url: &Url) -> Result<Option<Tls>> {
        match (url.is_secure, self.http2, self.h2c) {
            (true, _, true) => return Err(Error::new("over https:// HTTP/2 is agreed on").advise("--http2")),
            (false, true, _) => return Err(Error::new("HTTP/2 is not used over http://").advise("--h2c")),
            (false, ..) => return Ok(None),
            _ => {}
        }
        let tls = Tls {
            resumes: !self.no_resume,
            versions: match self.version.as_deref() {
                Some("1.2") => Versions::Only12,
                Some(_) => Versions::Only13,
                None => Versions::Both,
            },
            suites: self.ciphers.clone(),
            groups: self.groups.clone(),
            protocols: vec![if self.http2 { "h2" } else { "http/1.1" }.to_owned()],
            trust: match &self.cacert {
                Some(path) => Trust::File(path.clone()),
                None if self.verify => Trust::System,
                None => Trust::Any,
            },
            identity: self.cert.clone(),
            ..Tls::to(self.sni.as_ref().unwrap_or(&url.host))
        };
        // Report its errors before anything begins.
        tls.client().map(|_| Some(tls))
    }
}

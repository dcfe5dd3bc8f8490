//! The options of ab that describe the request, its destination and its proxy; weighttp 0.5 has them too.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::load::destination;
use crate::load::plan::Request;
use crate::load::request_builder::{RequestBuilder, base64};
use crate::load::url::Url;
use crate::machine::error::{Context as _, Error, Result};

#[derive(Args, Clone, Debug)]
pub(super) struct RequestOptions {
    /// A file to POST
    #[arg(short = 'p', value_name = "FILE")]
    pub(super) post: Option<PathBuf>,

    /// A file to PUT
    #[arg(short = 'u', value_name = "FILE")]
    pub(super) put: Option<PathBuf>,

    /// The media type of that file [default: text/plain]
    #[arg(short = 'T', value_name = "TYPE")]
    content_type: Option<String>,

    /// HEAD instead of GET
    #[arg(short = 'i', conflicts_with_all = ["post", "put"])]
    head: bool,

    /// The method
    #[arg(short = 'm', value_name = "METHOD", conflicts_with_all = ["head", "post", "put"])]
    method: Option<String>,

    /// A cookie, as name=value; may be given more than once
    #[arg(short = 'C', value_name = "COOKIE")]
    cookies: Vec<String>,

    /// A field of the request, as `Name: value`; may be given more than once
    #[arg(short = 'H', value_name = "FIELD")]
    fields: Vec<String>,

    /// user:password for the server
    #[arg(short = 'A', value_name = "USER")]
    user: Option<String>,

    /// user:password for the proxy
    #[arg(short = 'P', value_name = "USER")]
    proxy_user: Option<String>,

    /// A proxy: it gets the whole URL, and its address is the one that has to be on this machine
    #[arg(short = 'X', value_name = "HOST:PORT")]
    pub(super) proxy: Option<String>,

    /// Load this host although it is not on this machine: it is yours
    #[arg(long, value_name = "HOST")]
    i_own_this_target: Option<String>,
}

impl RequestOptions {
    /// The request for a URL, and its destination. Anything these options do not set is as in `manner`.
    ///
    /// # Errors
    /// A file cannot be read, a field is invalid, the server may not be loaded, or it has no address: then the exit status
    /// is `unresolved`.
    pub(super) fn request(
        &self,
        url: &Url,
        only_six: bool,
        unresolved: u8,
        manner: RequestBuilder<'_>,
    ) -> Result<(Request, SocketAddr)> {
        let path = self.post.as_ref().or(self.put.as_ref());
        let body = path.map(|path| std::fs::read(path).context(|| format!("read {}", path.display()))).transpose()?;
        let fields = self.fields()?;
        let build = RequestBuilder {
            method: self.method(),
            fields: &fields,
            body: body.as_deref().unwrap_or_default(),
            content_type: self.content_type.as_deref().unwrap_or("text/plain"),
            ..manner
        };
        let proxy = self.proxy.as_deref().map(Url::parse).transpose()?;
        let asked = match &proxy {
            Some(_) if url.is_secure => {
                return Err(
                    Error::new("a tunnel through a proxy is not supported").advise("the server itself, without -X")
                );
            }
            Some(proxy) if proxy.is_secure => return Err(Error::new("a proxy is spoken to over http://")),
            Some(_) => Url { path: format!("http://{}{}", url.authority(), url.path), ..url.clone() },
            None => url.clone(),
        };
        // A proxy looks up the server's name itself: here it may mean nothing.
        let next = proxy.as_ref().unwrap_or(url);
        let server = next.resolve(only_six).map_err(|error| error.ending_with(unresolved))?;
        let owned = self.i_own_this_target.as_deref();
        destination::check(&next.host, &[server], owned)?;
        if let (Some(_), Ok(beyond)) = (&proxy, url.host.parse::<IpAddr>()) {
            // The proxy passes the load on, though, and this address needs no looking up.
            destination::check(&url.host, &[SocketAddr::new(beyond, url.port)], owned)?;
        }
        Ok((build.of(&asked), server))
    }

    /// Whether more is set than weighttp 0.4 supports: it has only request fields.
    pub(super) fn is_more_than_fields(&self) -> bool {
        let Self {
            post,
            put,
            content_type,
            head,
            method,
            cookies,
            user,
            proxy_user,
            proxy,
            fields: _,
            i_own_this_target: _,
        } = self;
        let texts = [content_type, method, user, proxy_user, proxy];
        post.is_some() || put.is_some() || *head || !cookies.is_empty() || texts.iter().any(|text| text.is_some())
    }

    fn method(&self) -> &str {
        match (&self.method, &self.post, &self.put) {
            (Some(method), _, _) => method,
            (_, Some(_), _) => "POST",
            (_, _, Some(_)) => "PUT",
            _ if self.head => "HEAD",
            _ => "GET",
        }
    }

    fn fields(&self) -> Result<Vec<String>> {
        let mut fields = Vec::new();
        if !self.cookies.is_empty() {
            fields.push(format!("Cookie: {}", self.cookies.join("; ")));
        }
        for (name, user) in [("Authorization", &self.user), ("Proxy-Authorization", &self.proxy_user)] {
            fields.extend(user.as_ref().map(|user| format!("{name}: Basic {}", base64(user))));
        }
        fields.extend(self.fields.iter().cloned());
        match fields.iter().find(|field| !field.contains(':') || field.contains(['\r', '\n', '\0'])) {
            Some(bad) => Err(Error::new(format!("{bad:?} is not a field of a request")).advise("-H 'Name: value'")),
            None => Ok(fields),
        }
    }
}

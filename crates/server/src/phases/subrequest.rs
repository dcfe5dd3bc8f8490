//! Subrequests: on behalf of a request: all phases except the handler, and nothing is sent.

use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::message::body::RequestBody;
use crate::message::response::Body;
use crate::paths::dir_name;
use crate::request::hooks::SubrequestTarget;
use crate::request::{Request, RequestKind, Source};
use crate::site::directory_cache::Walked;
use crate::trace::Step;

/// The result of a subrequest: the request as it would be, with `status` 200 if it would be served.
pub type Subrequest = Box<Request>;

/// The result of work that does not wait, except to yield to others a few times.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    (0..100).find_map(|_| match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

/// The path and the query of a target.
fn split(target: &str) -> (&str, Option<String>) {
    target.split_once('?').map_or((target, None), |(path, args)| (path, Some(args.to_string())))
}

/// The log message for requests that lead to more and more others.
pub(crate) fn beyond(id: &str, limit: &str) -> String {
    format!(
        "{id}: Request exceeded the limit of {limit} due to probable configuration error. Use 'LimitInternalRecursion' to \
         increase the limit if necessary. Use 'LogLevel debug' to get a backtrace."
    )
}

impl Request {
    /// Looks up a URL path (with query): absolute, or relative to this request's.
    pub async fn lookup_uri(&self, target: &str) -> Subrequest {
        let (path, args) = split(target);
        self.lookup_path(path, args).await
    }

    /// Looks up a path that this request is going to [become](Request::become_found). If it does not, the caller records the
    /// question ([`asks_beyond_head`](Request::asks_beyond_head)).
    pub async fn lookup_to_become(&self, target: &str) -> Subrequest {
        let (path, args) = split(target);
        self.asking_itself().for_path(self, Cow::Borrowed("GET"), path, args).await
    }

    /// Looks up a target as written in a page, escaped: absolute, or relative to this request's.
    pub async fn lookup_link(&self, target: &str) -> Subrequest {
        self.lookup_link_by(Cow::Borrowed("GET"), target).await
    }

    /// Looks up a target as written in a page, with this request's method: whether its action is allowed there, or for a
    /// part that gets its body.
    pub async fn lookup_alike(&self, target: &str) -> Subrequest {
        self.lookup_link_by(self.data.method.clone(), target).await
    }

    async fn lookup_link_by(&self, method: Cow<'static, str>, target: &str) -> Subrequest {
        let (path, args) = split(target);
        let path = match path.starts_with('/') {
            true => Cow::Borrowed(path),
            false => format!("{}{path}", http::uri::escape_path(dir_name(&self.data.uri))).into(),
        };
        match http::decode_path(&http::text::to_bytes(&path), &self.vhost.plan.path) {
            Ok(path) => self.lookup_path_by(method, &path, args).await,
            Err(error) => {
                let mut found = self.asking();
                found.response.set_status(error.status());
                if error.status() == 400 {
                    self.log("core", conf::Level::Error, format!("AH10244: invalid URI path ({path})"));
                }
                found
            }
        }
    }

    /// Looks up a decoded path, in which a `?` is an ordinary character.
    pub async fn lookup_path(&self, path: &str, args: Option<String>) -> Subrequest {
        self.lookup_path_by(Cow::Borrowed("GET"), path, args).await
    }

    async fn lookup_path_by(&self, method: Cow<'static, str>, path: &str, args: Option<String>) -> Subrequest {
        self.asking().for_path(self, method, path, args).await
    }

    async fn for_path(
        mut self: Box<Self>,
        asker: &Request,
        method: Cow<'static, str>,
        path: &str,
        args: Option<String>,
    ) -> Subrequest {
        self.data.method = method;
        let path =
            if path.starts_with('/') { path.to_string() } else { format!("{}{path}", dir_name(&asker.data.uri)) };
        self.data.args = args;
        self.data.uri = conf::paths::join("/", &path);
        if path.ends_with('/') && !self.data.uri.ends_with('/') {
            self.data.uri.push('/');
        }
        self.data.target = Some(self.data.uri.clone());
        self.run(asker, SubrequestTarget::Path).await
    }

    /// Looks up a file in this request's directory by name.
    pub async fn lookup_file(&self, name: &str) -> Subrequest {
        self.lookup_entry(name, false).await
    }

    /// Looks up an entry found in this request's directory: the path of a directory gets a slash at its end.
    pub async fn lookup_entry(&self, name: &str, is_dir: bool) -> Subrequest {
        let mut found = self.asking();
        let slash = if is_dir { "/" } else { "" };
        found.data.uri = format!("{}{name}{slash}", dir_name(&self.data.uri));
        found.data.target = Some(found.data.uri.clone());
        found.mapped.filename = format!("{}{name}{slash}", self.directory());
        found.mapped.context.clone_from(&self.mapped.context);
        found.run(self, SubrequestTarget::File).await
    }

    /// Looks up a file by its path: absolute, or relative to this request's directory, and then not above it. A file
    /// elsewhere has no URL path, so no `<Location>` applies to it.
    pub async fn lookup_named(&self, path: &str) -> Option<Subrequest> {
        let dir = self.directory();
        let full = conf::paths::join(&dir, path);
        match full.strip_prefix(dir.as_ref()) {
            Some(name) if !name.contains('/') => return Some(self.lookup_file(name).await),
            None if !path.starts_with('/') => return None,
            _ => {}
        }
        let mut found = self.asking();
        found.mapped.filename = full;
        Some(found.run(self, SubrequestTarget::File).await)
    }

    /// The directory of this request's file, with a slash at its end.
    fn directory(&self) -> Cow<'_, str> {
        if self.mapped.stat.is_some_and(|meta| meta.is_dir()) && !self.mapped.filename.ends_with('/') {
            format!("{}/", self.mapped.filename).into()
        } else {
            dir_name(&self.mapped.filename).into()
        }
    }

    /// A copy of this request for the error log after this one has gone on: for responses that are still being made while
    /// they are sent.
    pub fn speaker(&self) -> Box<Request> {
        let mut speaker = self.asking();
        speaker.kind = self.kind.clone();
        speaker.data.method = self.data.method.clone();
        speaker.data.uri.clone_from(&self.data.uri);
        speaker.data.target.clone_from(&self.data.target);
        speaker.data.args.clone_from(&self.data.args);
        speaker.mapped.filename.clone_from(&self.mapped.filename);
        speaker.dir = self.dir.clone();
        speaker.response.set_status(self.response.status());
        speaker
    }

    /// A stand-in with the settings and the mapping of this request: for subrequests on its behalf after it has gone on.
    pub fn stand_in(&self) -> Box<Request> {
        let mut stand_in = self.speaker();
        stand_in.data.header_only = self.data.header_only;
        stand_in.mapped.path_info.clone_from(&self.mapped.path_info);
        stand_in.mapped.context.clone_from(&self.mapped.context);
        stand_in.mapped.stat = self.mapped.stat;
        stand_in
    }

    /// The limit that forbids another subrequest, after too many nested ones or redirects (`LimitInternalRecursion`).
    fn limit_reached(&self) -> Option<(&'static str, String)> {
        let RequestKind::Subrequest { depth, redirects, .. } = self.kind else { return None };
        let plan = &self.vhost.plan;
        if redirects >= plan.redirects_max {
            return Some(("AH00124", format!("{} internal redirects", plan.redirects_max)));
        }
        (depth > plan.lookups_max).then(|| ("AH00125", format!("{} subrequest nesting levels", plan.lookups_max)))
    }

    async fn run(mut self: Box<Self>, asker: &Request, from: SubrequestTarget) -> Subrequest {
        let path = Step::Path(self.data.uri.clone(), "a look-up");
        self.trace.iter_mut().for_each(|trace| trace.note(path.clone()));
        let status = if let Some((id, limit)) = self.limit_reached() {
            self.log("core", conf::Level::Error, beyond(id, &limit));
            500
        } else {
            let hooks = self.hooks;
            match (hooks.run_subrequest)(&mut self, from).await {
                Ok(()) => 200,
                Err(flow) => flow.status(),
            }
        };
        self.response.set_status(status);
        if self.is_undecided() {
            asker.fails_closed();
        }
        if let Some(id) = self.account.log_id() {
            // Messages on behalf of a request are logged as its own.
            asker.account.name(|| id.to_string());
        }
        self
    }

    /// A request on behalf of this one, without a target yet.
    fn asking(&self) -> Box<Request> {
        self.asks_beyond_head();
        self.asking_itself()
    }

    /// [`asking`](Request::asking), without a record of the question.
    fn asking_itself(&self) -> Box<Request> {
        let depth = match &self.kind {
            RequestKind::Subrequest { depth, .. } => depth + 1,
            _ => 1,
        };
        let source = Source { server: self.server, hooks: self.hooks, vhost: self.vhost, client: self.client.clone() };
        let (asker, redirects) = (self.data.uri.as_str().into(), self.redirects());
        let kind = RequestKind::Subrequest { dir: self.dir.clone(), asker, depth, redirects };
        let mut asking = Request::new(source, kind, self.data.again(), self.account.again());
        asking.trace = self.trace.as_ref().map(|trace| Box::new(trace.of_lookup()));
        asking.env = self.env.clone();
        asking.login = self.login.clone();
        if let Some(kept) = &self.kept_body
            && let Some(bytes) = kept.bytes()
        {
            asking.body = RequestBody::of(Body::Bytes(bytes).into_stream());
            asking.kept_body = Some(kept.clone());
        }
        asking
    }

    /// Continues as a subrequest's result: the same response as if the client had requested it (`DirectoryIndex`,
    /// MultiViews).
    pub fn become_found(&mut self, found: Subrequest) {
        let mut found = *found;
        let is_same = |(one, other): (&Arc<Walked>, &Arc<Walked>)| Arc::ptr_eq(one, other);
        let ways = self.mapped.walked.as_ref().zip(found.mapped.walked.as_ref());
        if found.beyond_head.load(Ordering::Relaxed) || !ways.is_some_and(is_same) {
            self.asks_beyond_head();
        }
        if let (Some(own), Some(theirs)) = (&mut self.trace, found.trace.take()) {
            own.adopt(*theirs);
        }
        self.data.uri = found.data.uri;
        self.data.args = found.data.args;
        self.mapped = found.mapped;
        self.dir = found.dir;
        self.response.adopt(found.response);
        self.env = found.env;
        self.login = found.login;
        for (name, value) in found.notes.iter() {
            self.notes.set(name.to_string(), value);
        }
    }
}

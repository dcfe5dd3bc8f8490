//! Looking something up on behalf of a request: all phases but the handler, nothing is sent.

use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::explain::trace::Step;
use crate::files::paths::dir_name;
use crate::request::hooks::From;
use crate::request::{Kind, Request, Source};

/// What a look-up found: the request as it would be, with `status` 200 if it would be served.
pub type Found = Box<Request>;

/// What comes of something that does not wait, if only to let others go first a few times.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    (0..100).find_map(|_| match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

impl Request {
    /// Looks up a URL path (with query): absolute, or relative to this request's.
    pub async fn lookup_uri(&self, target: &str) -> Found {
        match target.split_once('?') {
            Some((path, args)) => self.lookup_path(path, Some(args.to_string())).await,
            None => self.lookup_path(target, None).await,
        }
    }

    /// The same for a path that is decoded, so that a `?` in it is a part of it.
    pub async fn lookup_path(&self, path: &str, args: Option<String>) -> Found {
        let mut found = self.asking();
        let path = if path.starts_with('/') { path.to_string() } else { format!("{}{path}", dir_name(&self.uri)) };
        found.args = args;
        found.uri = conf::paths::join("/", &path);
        if path.ends_with('/') && !found.uri.ends_with('/') {
            found.uri.push('/');
        }
        found.unparsed_uri.clone_from(&found.uri);
        found.run(self, From::Path).await
    }

    /// Looks up a file of this request's directory by name.
    pub async fn lookup_file(&self, name: &str) -> Found {
        self.lookup_entry(name, false).await
    }

    /// The same for an entry that was found in the directory: the path of one that is itself a directory ends with a slash.
    pub async fn lookup_entry(&self, name: &str, is_dir: bool) -> Found {
        let mut found = self.asking();
        let slash = if is_dir { "/" } else { "" };
        found.uri = format!("{}{name}{slash}", dir_name(&self.uri));
        found.unparsed_uri.clone_from(&found.uri);
        found.filename = format!("{}{name}{slash}", self.directory());
        found.context.clone_from(&self.context);
        found.run(self, From::File).await
    }

    /// Looks up a file by its path: absolute, or relative to this request's directory, and then not above it. A file
    /// elsewhere has no URL path, so no `<Location>` is about it.
    pub async fn lookup_named(&self, path: &str) -> Option<Found> {
        let dir = self.directory();
        let full = conf::paths::join(&dir, path);
        match full.strip_prefix(dir.as_ref()) {
            Some(name) if !name.contains('/') => return Some(self.lookup_file(name).await),
            None if !path.starts_with('/') => return None,
            _ => {}
        }
        let mut found = self.asking();
        found.filename = full;
        Some(found.run(self, From::File).await)
    }

    /// The directory of this request's file, with a slash at its end.
    fn directory(&self) -> Cow<'_, str> {
        if self.stat.is_some_and(|meta| meta.is_dir()) && !self.filename.ends_with('/') {
            format!("{}/", self.filename).into()
        } else {
            dir_name(&self.filename).into()
        }
    }

    /// A request that speaks for this one in the error log after this one has gone on: for answers that are still being
    /// made while they are sent.
    pub fn speaker(&self) -> Box<Request> {
        let mut speaker = self.asking();
        speaker.kind = self.kind.clone();
        speaker.method = self.method.clone();
        speaker.uri.clone_from(&self.uri);
        speaker.unparsed_uri.clone_from(&self.unparsed_uri);
        speaker.args.clone_from(&self.args);
        speaker.filename.clone_from(&self.filename);
        speaker.dir = self.dir.clone();
        speaker.status = self.status;
        speaker
    }

    async fn run(mut self: Box<Self>, asker: &Request, from: From) -> Found {
        let path = Step::Path(self.uri.clone(), "a look-up");
        self.trace.iter_mut().for_each(|trace| trace.note(path.clone()));
        let Kind::Lookup { depth, .. } = self.kind else { return self };
        self.status = if depth > self.vhost.plan.lookups_max {
            let limit = self.vhost.plan.lookups_max;
            self.log(
                "core",
                conf::Level::Error,
                format!("AH00125: Request exceeded the limit of {limit} subrequest nesting levels due to probable configuration error. Use 'LimitInternalRecursion' to increase the limit if \
                     necessary. Use 'LogLevel debug' to get a backtrace."),
            );
            500
        } else {
            let hooks = self.hooks;
            match (hooks.look_up)(&mut self, from).await {
                Ok(()) => 200,
                Err(flow) => flow.status(),
            }
        };
        if let Some(id) = self.log_id.get() {
            // What was logged on behalf of a request was logged of it.
            let _ = asker.log_id.set(id.clone());
        }
        self
    }

    /// A request on behalf of this one, for nothing yet.
    fn asking(&self) -> Box<Request> {
        let depth = match &self.kind {
            Kind::Lookup { depth, .. } => depth + 1,
            _ => 1,
        };
        let origin = Source {
            server: self.server,
            hooks: self.hooks,
            vhost: self.vhost,
            client: self.client.clone(),
            head: self.head.clone(),
        };
        let mut asking = Request::new(origin, Kind::Lookup { dir: self.dir.clone(), depth }, self.time, self.start);
        asking.version = self.version;
        asking.hostname.clone_from(&self.hostname);
        asking.headers_in.clone_from(&self.headers_in);
        asking.trace = self.trace.as_ref().map(|_| Box::default());
        asking.tick = self.tick;
        asking.env = self.env.clone();
        asking.user.clone_from(&self.user);
        asking.auth_type.clone_from(&self.auth_type);
        asking.log_id = self.log_id.clone();
        asking
    }

    /// Goes on as what a look-up found: the same answer as if it had been asked for (`DirectoryIndex`, MultiViews).
    pub fn become_found(&mut self, found: Found) {
        let mut found = *found;
        if let (Some(own), Some(theirs)) = (&mut self.trace, found.trace.take()) {
            own.adopt(*theirs);
        }
        self.uri = found.uri;
        self.args = found.args.or_else(|| self.args.take());
        self.filename = found.filename;
        self.path_info = found.path_info;
        self.stat = found.stat;
        self.kept = found.kept;
        self.context = found.context;
        self.dir = found.dir;
        self.handler = found.handler;
        self.content_type = found.content_type;
        self.type_by_script = found.type_by_script;
        self.content_encoding = found.content_encoding;
        self.content_languages = found.content_languages;
        self.accept_path_info = found.accept_path_info;
        self.output_filters = found.output_filters;
        self.headers_out.extend(&found.headers_out);
        self.err_headers_out.extend(&found.err_headers_out);
        self.env = found.env;
        self.user = found.user;
        self.auth_type = found.auth_type;
        for (name, value) in found.notes.iter() {
            self.notes.set(name.to_string(), value);
        }
        self.no_local_copy |= found.no_local_copy;
    }
}

//! A request as the phases have left it, right before its handler: later requests about which they would decide the same may
//! begin there.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use http::name::FieldSet;

use crate::message::head::RequestHead;
use crate::request::client::{self, Client};
use crate::request::prepared::{FileBefore, Prepared};
use crate::request::recurring::Recurrence;
use crate::request::{Account, Login, Request, RequestBody, RequestData, RequestKind, ResponseHead, Source};

/// How many requests that have ended a thread keeps for new ones.
const SPARE_MAX: usize = 128;

/// The most room for texts that a spare request has, in bytes.
const TEXT_MAX: usize = 8 * 1024;

/// The head of a request that has ended.
static NO_HEAD: LazyLock<Arc<RequestHead>> = LazyLock::new(Arc::default);

thread_local! {
    /// Requests that have ended. Their texts are those of the last request each of them was, and leave their memory to the next.
    #[expect(clippy::vec_box, reason = "a request is too large to be moved")]
    static SPARE: RefCell<Vec<Box<Request>>> = const { RefCell::new(Vec::new()) };
}

impl Request {
    /// Lets later requests begin where the phases have left this one, if what they have decided depends on the head and the
    /// configuration alone. `handler`: the place of the handler that comes next.
    pub(crate) fn prepare_others(&mut self, handler: usize) {
        let is_plain = self.is_plain() && self.trace.is_none() && self.body.is_none();
        if !is_plain {
            return;
        }
        let Ok(file) = FileBefore::of(&self.mapped) else { return };
        let asked = if self.data.changed_fields().is_none() { self.data.head.asked() } else { FieldSet::ALL };
        let outcomes = self.data.head.outcomes().get();
        self.prepared = Some(Arc::new(Prepared::new(handler, asked, outcomes, &self.response, file)));
        let mut template = self.blank();
        template.become_like(self);
        template.response.become_like(&self.response);
        template.data.head = self.data.head.clone();
        self.template = Some(template);
    }

    /// Whether what was decided about it so far depends on its head, the configuration and the requested file alone.
    pub(crate) fn is_plain(&self) -> bool {
        self.hooks.are_repeatable
            && !self.beyond_head.load(Ordering::Relaxed)
            && !self.undecided.load(Ordering::Relaxed)
            && matches!(self.kind, RequestKind::Main)
            && self.kept_body.is_none()
            && self.page.is_none()
            && self.caching.is_none()
            && matches!(self.login, Login { user: None, auth_type: None, proof: None, known: None })
            && self.account.script.is_none()
            && self.account.user.is_none()
            && !self.account.watches
            && self.account.sent.interim == 0
    }

    /// A new request with this head, which begins where the phases have left this one, and perhaps with a response that is
    /// settled: its number and its head.
    pub(crate) fn again(
        &self,
        head: Arc<RequestHead>,
        client: Arc<Client>,
        account: Account,
        settled: Option<(NonZeroU64, &ResponseHead)>,
    ) -> Box<Request> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut request = spare.unwrap_or_else(|| self.blank());
        match settled {
            // It was just like this when it ended.
            Some((number, _)) if request.settled.take() == Some(number) => request.forget_questions(),
            _ => {
                request.become_like(self);
                request.response.become_like(settled.map_or(&self.response, |(_, response)| response));
            }
        }
        request.data.head = head;
        request.client = client;
        request.account = account;
        request
    }

    /// Ends, and leaves its memory to a new request.
    pub(crate) fn leave_memory(mut self: Box<Request>) {
        if let Ok(head) = Arc::try_unwrap(mem::replace(&mut self.data.head, NO_HEAD.clone())) {
            head.recycle();
        }
        self.client = client::nobody();
        if self.settled.is_none() {
            // Open files, and what others share, stay with nobody.
            self.mapped.clear();
            self.body = RequestBody::default();
            (self.kept_body, self.page, self.caching, self.interim, self.prepared) = (None, None, None, None, None);
            self.recurrence = Recurrence::None;
            self.stored = None;
        }
        if self.data.uri.capacity() + self.mapped.filename.capacity() > TEXT_MAX {
            return;
        }
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(self);
            }
        });
    }

    /// What the handler has worked out for all requests that begin where this one began; `make` does that once. It may depend on
    /// nothing but the configuration and what the phases have left in the request.
    pub fn plan<T: Any + Send + Sync>(&self, make: impl FnOnce(&Request) -> T) -> Arc<T> {
        // After an internal redirect it is about another path.
        let prepared = self.prepared.as_ref().filter(|_| matches!(self.kind, RequestKind::Main));
        let Some(prepared) = prepared else { return Arc::new(make(self)) };
        if let Some(plan) = prepared.plan.get().and_then(|plan| plan.clone().downcast().ok()) {
            return plan;
        }
        let plan = Arc::new(make(self));
        // If another thread was faster, this one has the same.
        let _ = prepared.plan.set(plan.clone());
        plan
    }

    /// A request of nobody for the same server, without content.
    fn blank(&self) -> Box<Request> {
        let Request { server, hooks, vhost, .. } = *self;
        let source = Source { server, hooks, vhost, client: client::nobody() };
        let data = RequestData::new(NO_HEAD.clone());
        Request::new(source, RequestKind::Main, data, Account::new(self.account.start))
    }

    /// Becomes like a request that is plain, except for response, client, account and body.
    fn become_like(&mut self, other: &Request) {
        let Request {
            hooks,
            server,
            vhost,
            client: _,
            kind: _,
            data,
            mapped,
            dir,
            response: _,
            login: _,
            env,
            notes,
            body: _,
            kept_body: _,
            page: _,
            caching: _,
            interim: _,
            account: _,
            trace: _,
            made,
            undecided: _,
            own_variables,
            beyond_head: _,
            prepared,
            template: _,
            may_prepare_others: _,
            recurrence: _,
            stored: _,
            settled: _,
        } = other;
        (self.hooks, self.server, self.vhost) = (hooks, server, vhost);
        self.kind = RequestKind::Main;
        self.data.become_like(data);
        self.mapped.become_like(mapped);
        if self.dir.id != dir.id || !std::ptr::eq(self.server, *server) {
            self.dir = dir.clone();
        }
        self.env.become_like(env);
        self.notes.become_like(notes);
        self.login = Login::default();
        self.body = RequestBody::default();
        (self.kept_body, self.page, self.caching, self.interim, self.trace) = (None, None, None, None, None);
        *self.made.get_mut() = made.load(Ordering::Relaxed);
        self.forget_questions();
        self.own_variables.clone_from(own_variables);
        self.prepared.clone_from(prepared);
        self.template = None;
        self.may_prepare_others = false;
        self.recurrence = Recurrence::None;
        self.stored = None;
        self.settled = None;
    }

    /// Nobody has asked anything yet.
    fn forget_questions(&mut self) {
        *self.undecided.get_mut() = false;
        *self.beyond_head.get_mut() = false;
    }
}

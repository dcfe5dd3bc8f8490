//! Filters that the configuration names: of responses, between the handler and the steps of every response, and of request
//! bodies, between client and handler.
//!
//! A module lists a filter ([`Hook::NamedFilter`](crate::Hook), [`Hook::InputFilter`](crate::Hook)); `SetOutputFilter`,
//! `SetInputFilter` and the like, and modules such as mod_filter, put it into the chain of a request. Answers that the server
//! makes itself (errors) pass through none.

use conf::Level;

use crate::request::Request;
use crate::request::hooks::{InputChain, InputLink, OutputFilter, ResponseChain};
use crate::settings::core::CoreDir;

/// The filters of a request's response.
pub(crate) fn of(request: &mut Request) -> ResponseChain {
    let configured = request.dir::<CoreDir>().output_filters.is_set();
    if request.response.output_filters.is_empty() && !configured && request.hooks.insert_filters.is_empty() {
        return ResponseChain::default();
    }
    chain(request)
}

/// Lets the named filters announce their effect on the response.
pub(crate) fn prepare(request: &mut Request) {
    for_each_named(request, |filter| filter.prepare);
}

/// Lets the named filters change the fields of a 304, which has no body for them.
pub(crate) fn unmodified(request: &mut Request) {
    for_each_named(request, |filter| filter.unmodified);
}

/// Runs this part of each filter that the configuration names.
fn for_each_named(request: &mut Request, part: impl Fn(&OutputFilter) -> Option<fn(&mut Request)>) {
    let dir = request.dir::<CoreDir>();
    if request.response.output_filters.is_empty() && !dir.output_filters.is_set() {
        return;
    }
    let (hooks, by_extension) = (request.hooks, request.response.output_filters.clone());
    let dir = request.dir.slots.clone();
    let configured = dir.get::<CoreDir>().output_filters.get();
    for name in by_extension.iter().chain(configured.into_iter().flatten()) {
        if let Some(run) = hooks.named_filter(name).and_then(&part) {
            run(request);
        }
    }
}

fn chain(request: &mut Request) -> ResponseChain {
    let hooks = request.hooks;
    let mut chain = ResponseChain::default();
    let by_extension = std::mem::take(&mut request.response.output_filters);
    let dir = request.dir.slots.clone();
    let configured = dir.get::<CoreDir>().output_filters.get();
    for name in by_extension.iter().chain(configured.into_iter().flatten()) {
        match hooks.named_filter(name) {
            Some(filter) => {
                request.note_step("core", None, |_| format!("output filter {}", filter.name));
                chain.add_named(name, filter.rank, Box::new(filter.apply));
            }
            None => match hooks.find_filter.iter().find_map(|find| find(request, name)) {
                Some((rank, link)) => chain.add_named(name, rank, link),
                None => unknown(request, name),
            },
        }
    }
    for insert in &hooks.insert_filters {
        insert(request, &mut chain);
    }
    chain
}

fn unknown(request: &Request, name: &str) {
    request.log("core", Level::Error, format!("AH00082: an unknown filter was not added: {name}"));
}

/// Puts the request's filters in front of its body, before a handler runs. Without a body there is nothing to filter.
pub(crate) fn on_input(request: &mut Request) {
    let named = request.dir::<CoreDir>().input_filters.is_set() || !request.mapped.input_filters.is_empty();
    let inserted = !request.body.is_none() && !request.hooks.insert_input_filters.is_empty();
    if !named && !inserted {
        return;
    }
    let hooks = request.hooks;
    let mut chain = InputChain::default();
    let by_extension = std::mem::take(&mut request.mapped.input_filters);
    let dir = request.dir.slots.clone();
    let configured = dir.get::<CoreDir>().input_filters.get();
    for name in by_extension.iter().chain(configured.into_iter().flatten()) {
        let by_name = hooks.input_filters.iter().find(|filter| filter.name.eq_ignore_ascii_case(name));
        let found = match by_name {
            Some(filter) => Some((filter.rank, Box::new(filter.apply) as InputLink)),
            None => hooks.find_input_filter.iter().find_map(|find| find(request, name)),
        };
        let Some((rank, link)) = found else {
            unknown(request, name);
            continue;
        };
        request.note_step("core", None, |_| format!("input filter {name}"));
        chain.add_named(name, rank, link);
    }
    for insert in &hooks.insert_input_filters {
        insert(request, &mut chain);
    }
    if !chain.is_empty() && !request.body.is_none() {
        let stream = chain.run(request, request.body.stream());
        request.body = request.body.filtered(stream);
    }
}

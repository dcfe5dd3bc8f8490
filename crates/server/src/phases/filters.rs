//! Output filters that configuration names, between a handler's answer and what every answer goes through.
//!
//! A module lists a filter ([`Hook::NamedFilter`](crate::Hook)); `SetOutputFilter`, `AddOutputFilter` and modules such as
//! mod_filter put it into the chain of a request. Answers that the server makes itself (errors) pass through none.

use conf::Level;

use crate::config::core::CoreDir;
use crate::request::Request;
use crate::request::hooks::Chain;

/// The filters of a request's answer.
pub(crate) fn of(request: &mut Request) -> Chain {
    let dir = request.dir::<CoreDir>();
    let configured = dir.output_filters.is_set() || dir.input_filters.is_set();
    if request.answer.output_filters.is_empty() && !configured && request.hooks.insert_filters.is_empty() {
        return Chain::default();
    }
    chain(request)
}

/// Has the filters that are named say beforehand what they say of the answer.
pub(crate) fn prepare(request: &mut Request) {
    let dir = request.dir::<CoreDir>();
    if request.answer.output_filters.is_empty() && !dir.output_filters.is_set() {
        return;
    }
    let (hooks, by_extension) = (request.hooks, request.answer.output_filters.clone());
    let dir = request.dir.slots.clone();
    let configured = dir.get::<CoreDir>().output_filters.get();
    for name in by_extension.iter().chain(configured.into_iter().flatten()) {
        if let Some(prepare) = hooks.named_filter(name).and_then(|filter| filter.prepare) {
            prepare(request);
        }
    }
}

fn chain(request: &mut Request) -> Chain {
    let hooks = request.hooks;
    let mut chain = Chain::default();
    let by_extension = std::mem::take(&mut request.answer.output_filters);
    let dir = request.dir.slots.clone();
    let configured = dir.get::<CoreDir>().output_filters.get();
    for name in by_extension.iter().chain(configured.into_iter().flatten()) {
        match hooks.named_filter(name) {
            Some(filter) => {
                request.note_step("core", None, |_| format!("output filter {}", filter.name));
                chain.add(filter.rank, Box::new(filter.apply));
            }
            None => match hooks.find_filter.iter().find_map(|find| find(request, name)) {
                Some((rank, link)) => chain.add(rank, link),
                None => {
                    request.log("core", Level::Error, format!("AH00082: an unknown filter was not added: {name}"));
                }
            },
        }
    }
    // No module filters the bodies of requests: to say nothing would look as if one did.
    let on_input = dir.get::<CoreDir>().input_filters.get().filter(|_| !request.body.is_none());
    for name in on_input.into_iter().flatten() {
        request.log("core", Level::Error, format!("AH00082: an unknown filter was not added: {name}"));
    }
    for insert in &hooks.insert_filters {
        insert(request, &mut chain);
    }
    chain
}

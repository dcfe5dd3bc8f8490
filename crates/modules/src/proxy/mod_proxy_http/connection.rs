//! Connections that carry one request after the other.

use std::sync::Arc;

use upstream::http1::Exchange;
use upstream::{Connection, Keep, pool};

use crate::proxy::mod_proxy::Destination;

/// The module's name in log lines.
pub(super) const NAME: &str = "proxy_http";

/// How a connection goes back to those that are kept.
pub(super) struct Back {
    /// What its connections have in common.
    pub(super) destination: Arc<Destination>,
    pub(super) keep: Keep,
}

/// Ends an exchange whose response is complete: gives its connection back, if that can carry another one.
pub(super) fn free(exchange: Exchange, back: Option<Back>) {
    let (is_reusable, is_over) = (exchange.is_reusable(), exchange.has_sent_request());
    match back.filter(|_| is_reusable) {
        Some(Back { destination, keep }) => pool::give_stream(&destination.kind, keep, exchange.into_stream(), false),
        None if is_over => exchange.into_connection().into_iter().for_each(Connection::close),
        None => {}
    }
}

//! What a browser shows: the frame of a page, and plots.

pub(crate) mod curves;
pub(crate) mod html;
pub(crate) mod plot;

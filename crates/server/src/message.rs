//! Messages, whatever protocol carries them: heads, fields, bodies, interim responses and tunnels.

pub mod body;
pub(crate) mod buffers;
pub mod fields;
pub mod head;
pub mod interim;
pub mod response;
pub mod response_head;
pub mod sent;
pub mod tested_field;
pub mod tunnel;
pub mod written;

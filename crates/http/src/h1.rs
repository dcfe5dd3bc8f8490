//! HTTP/1.1 as it stands on the wire (RFC 9112): heads, framing and the chunked coding.

pub mod chunked;
pub mod framing;
pub mod head;
pub mod received;
pub mod response;
pub mod whole_chunks;

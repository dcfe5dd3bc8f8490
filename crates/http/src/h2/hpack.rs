//! HPACK, the compression of HTTP/2 heads (RFC 7541): a [`Decoder`] of what the client sends and an [`Encoder`] of what
//! the server sends.
//!
//! Each is the state of one direction of one connection: a table of recent fields, which both ends keep equal. Field
//! blocks are therefore decoded in the order in which they arrive, every one of them, even those of requests that are
//! refused, and sent in the order in which they were encoded.
//!
//! Neither holds memory before it needs any. A table then holds up to twice the bytes that its entries may have.

mod decode;
mod encode;
mod form;
mod huffman;
mod table;

pub use decode::Decoder;
pub use encode::Encoder;
pub use form::Broken;

#[cfg(test)]
mod tests;

//! The forms of fields in a block, and its limits.
//!
//! The first byte of a field or a size update says which form follows (RFC 7541 section 6): each constant here has the value of
//! that byte, and how many of its bits a number takes.

/// A field block that cannot be decoded. The table is then in an unknown state: the connection must end with
/// COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// The size of the dynamic tables of a new connection, in bytes (RFC 9113 section 6.5.2). We never use more.
pub(super) const TABLE_SIZE: usize = 4096;

/// A field of the tables.
pub(super) const INDEXED: (u8, u32) = (0x80, 7);
/// A field that enters the table.
pub(super) const ADDED: (u8, u32) = (0x40, 6);
/// A new size of the table.
pub(super) const RESIZE: (u8, u32) = (0x20, 5);
/// A field that no proxy may put into a table either.
pub(super) const NEVER: (u8, u32) = (0x10, 4);
/// A field that does not enter the table.
pub(super) const PLAIN: (u8, u32) = (0x00, 4);
/// A string in Huffman code; 0 instead of 0x80 stands for plain bytes.
pub(super) const HUFFMAN: (u8, u32) = (0x80, 7);

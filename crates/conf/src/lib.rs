//! The Apache configuration language without I/O: lines, tree, tables, values, merge, expressions.

#![forbid(unsafe_code)]

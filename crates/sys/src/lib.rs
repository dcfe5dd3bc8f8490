//! Everything that needs unsafe code: processes, shared memory, descriptors, sendfile, credentials, limits.

#![deny(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

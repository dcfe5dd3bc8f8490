//! The entry point of the fuzz target `frames`.

use super::message::InvalidFrame;
use super::{Frames, Messages, Protocol};

/// What a response consists of: output, errors, notes, end. `Err`: why it is invalid.
type Decoded = Result<(Vec<u8>, Vec<u8>, usize, bool), InvalidFrame>;

/// Reads a response whole and in pieces of this size, between which another reader takes over.
///
/// # Panics
/// If the results differ.
pub fn frames(protocol: Protocol, bytes: &[u8], piece: usize) {
    let whole = decoded(protocol, bytes, bytes.len().max(1));
    assert_eq!(decoded(protocol, bytes, piece.max(1)), whole);
    // A position that nobody has written.
    let _ = Frames::at(protocol, bytes).map(|mut frames| {
        let mut output = Vec::new();
        let _ = frames.read(bytes, &mut output, &mut Messages::default());
        assert!(output.len() <= bytes.len());
    });
}

fn decoded(protocol: Protocol, bytes: &[u8], piece: usize) -> Decoded {
    let (mut frames, mut output, mut messages) = (Frames::new(protocol), Vec::new(), Messages::default());
    for piece in bytes.chunks(piece) {
        frames.read(piece, &mut output, &mut messages)?;
        frames = Frames::at(protocol, &frames.position()).expect("a position that was just written");
    }
    Ok((output, messages.errors, messages.notes.len(), messages.end.is_some()))
}

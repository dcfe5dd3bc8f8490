//! The fields of an HTTP/2 head, encoded and decoded, are the same again, and no block makes the decoder panic or its
//! table larger than announced.
//!
//! An input is the size of the decoder's table in two bytes, then blocks, each after its length in one byte.

#![no_main]

use http::h2::hpack::{Decoder, Encoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((size, mut rest)) = data.split_first_chunk() else { return };
    let size = u16::from_le_bytes(*size);
    // The table checks its size itself, in builds with assertions.
    let mut received = Decoder::new(size.into());
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    while let Some((len, tail)) = rest.split_first() {
        let (block, tail) = tail.split_at(tail.len().min((*len).into()));
        rest = tail;
        encoder.limit(u32::from(size) * u32::from(*len) / 64);
        let mut fields = Vec::new();
        if decode(&mut received, block, &mut fields) {
            is_encoded(&mut encoder, &mut decoder, &fields);
        }
    }
});

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Decodes a block, which costs nothing but look-ups if the table did not change.
fn decode(decoder: &mut Decoder, block: &[u8], fields: &mut Fields) -> bool {
    let before = decoder.changes();
    let decoded = decoder.decode(block, |name, value, ()| fields.push((name.to_vec(), value.to_vec())));
    if decoded.is_ok() && decoder.changes() == before {
        let mut again = Fields::new();
        decoder.decode(block, |name, value, ()| again.push((name.to_vec(), value.to_vec()))).expect("an equal block");
        assert_eq!((&again, decoder.changes()), (&*fields, before));
    }
    decoded.is_ok()
}

fn is_encoded(encoder: &mut Encoder, decoder: &mut Decoder, fields: &Fields) {
    // What entered the table in the first round is found in the second.
    for _ in 0..2 {
        let mut block = Vec::new();
        encoder.status(404, &mut block);
        fields.iter().for_each(|(name, value)| encoder.field(name, value, &mut block));
        let mut decoded = Fields::new();
        assert!(decode(decoder, &block, &mut decoded));
        let lower = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        let status = (b":status".to_vec(), b"404".to_vec());
        assert!(std::iter::once(status).chain(lower).eq(decoded));
    }
}

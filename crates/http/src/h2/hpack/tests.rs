//! Tests of encoder and decoder together, and the examples of RFC 7541 appendix C.

mod examples;

use super::{Broken, Decoder, Encoder};

pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A small generator of random numbers (xorshift), so that every run is the same.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Broken> {
    let mut fields = Fields::new();
    decoder.decode(block, |name, value, ()| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

fn fresh(block: &[u8]) -> Result<Fields, Broken> {
    decode(&mut Decoder::new(4096), block)
}

fn owned(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn lower(mut fields: Fields) -> Fields {
    fields.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    fields
}

fn encode(encoder: &mut Encoder, status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.status(status, &mut block);
    fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

/// A response as Apache would have it.
const RESPONSE: &[(&str, &str)] = &[
    ("Date", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ("Server", "Tsubame"),
    ("Last-Modified", "Mon, 11 Jun 2007 18:53:14 GMT"),
    ("ETag", "\"2d-432a5e4a73a80\""),
    ("Accept-Ranges", "bytes"),
    ("X-Mine", "A Value"),
    ("Content-Length", "45"),
    ("Content-Type", "text/html"),
];

#[test]
fn a_response_is_written_in_lower_case_and_repeats_in_a_byte_per_field() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let mut expected = lower(owned(RESPONSE));
    expected.insert(0, (b":status".to_vec(), b"200".to_vec()));

    let first = encode(&mut encoder, 200, RESPONSE);
    assert_eq!(decode(&mut decoder, &first), Ok(expected.clone()));
    let changes = decoder.changes();
    assert_eq!(changes, 7);
    let second = encode(&mut encoder, 200, RESPONSE);
    // The length is written out: five bytes instead of one.
    assert_eq!(second.len(), 9 + 4);
    for _ in 0..2 {
        assert_eq!(decode(&mut decoder, &second), Ok(expected.clone()));
    }
    assert_eq!(encode(&mut encoder, 200, RESPONSE), second);
    assert_eq!(decoder.changes(), changes);
}

#[test]
fn what_enters_the_table() {
    let first_byte = |name: &str, value: &str| encode(&mut Encoder::new(), 200, &[(name, value)])[1];
    for name in ["Content-Length", "Content-Range", "Age", "Location"] {
        assert!(first_byte(name, "1") < 0x10, "{name}");
    }
    for name in ["Set-Cookie", "Authorization", "Proxy-Authorization", "WWW-Authenticate", "Authentication-Info"] {
        assert_eq!(first_byte(name, "1") & 0xf0, 0x10, "{name}");
        assert_eq!(first_byte(name, &"1".repeat(600)) & 0xf0, 0x10, "{name}");
    }
    for name in ["Content-Type", "Server", "Date", "Last-Modified", "ETag", "Accept-Ranges", "Cache-Control", "Vary"] {
        assert!(first_byte(name, "1") & 0xc0 == 0x40 && first_byte(name, &"1".repeat(512)) & 0xc0 == 0x40, "{name}");
        assert!(first_byte(name, &"1".repeat(513)) < 0x10, "{name}");
    }
    assert_eq!((first_byte("x-mine", "1"), first_byte(&"X".repeat(64), "1")), (0x40, 0x40));
    assert_eq!(first_byte(&"X".repeat(65), "1"), 0);
    // Both are in the static table.
    assert_eq!((first_byte("Accept-Encoding", "gzip, deflate"), first_byte("Vary", "")), (0x80 | 16, 0x80 | 59));

    // More than a quarter of the table.
    let mut encoder = Encoder::new();
    encoder.limit(400);
    let block = encode(&mut encoder, 200, &[("x-mine", &"1".repeat(62)), ("x-mine", &"1".repeat(63))]);
    assert_eq!(encoder.table().len(), 1);
    let fields = fresh(&block).unwrap();
    assert_eq!((fields[1].1.len(), fields[2].1.len()), (62, 63));
}

#[test]
fn statuses() {
    for status in 100..1000u16 {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for round in 0..2 {
            let block = encode(&mut encoder, status, &[]);
            assert_eq!(decode(&mut decoder, &block), Ok(owned(&[(":status", &status.to_string())])));
            assert!(round == 0 || block.len() == 1);
        }
    }
}

/// RFC 7541 section 4.2: the smallest size since the last block is told, and the last one.
#[test]
fn changes_of_the_limit_are_told() {
    let mut encoder = Encoder::new();
    let mut told = |limits: &[u32]| {
        limits.iter().for_each(|limit| encoder.limit(*limit));
        encode(&mut encoder, 200, &[])
    };
    assert_eq!(told(&[]), [0x88]);
    assert_eq!(told(&[4096, 65536]), [0x88]);
    assert_eq!(told(&[0]), [0x20, 0x88]);
    assert_eq!(told(&[]), [0x88]);
    assert_eq!(told(&[100, 65536]), [0x3f, 0x45, 0x3f, 0xe1, 0x1f, 0x88]);
    assert_eq!(told(&[100, 10, 20]), [0x2a, 0x34, 0x88]);
    assert_eq!(told(&[0, 20]), [0x20, 0x34, 0x88]);
    assert_eq!(told(&[20]), [0x88]);

    let (mut trailers, mut encoder) = (Vec::new(), Encoder::new());
    encoder.limit(0);
    encoder.begin(&mut trailers);
    encoder.field(b"X-Sum", b"1", &mut trailers);
    assert_eq!(trailers[0], 0x20);
    assert_eq!(fresh(&trailers), Ok(owned(&[("x-sum", "1")])));
}

#[test]
fn random_fields_and_limits_keep_both_tables_equal() {
    let mut random = Random(1);
    for _ in 0..60 {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for _ in 0..60 {
            for _ in 0..random.below(8).saturating_sub(5) {
                encoder.limit([0, 31, 100, 256, 1000, 4096, 100_000][random.below(7)]);
            }
            let mut fields: Fields = Vec::new();
            for _ in 0..random.below(12) {
                fields.push(random_field(&mut random));
            }
            let mut block = Vec::new();
            let status = [200, 302, 404, 418][random.below(4)];
            encoder.status(status, &mut block);
            fields.iter().for_each(|(name, value)| encoder.field(name, value, &mut block));

            let mut fields = lower(fields);
            fields.insert(0, (b":status".to_vec(), status.to_string().into_bytes()));
            assert_eq!(decode(&mut decoder, &block), Ok(fields));
            assert_eq!(lower(encoder.table().entries()), decoder.table().entries());
            assert_eq!(
                (encoder.table().size(), encoder.table().limit()),
                (decoder.table().size(), decoder.table().limit())
            );
            assert!(decoder.table().size() <= decoder.table().limit());
        }
    }
}

/// From few names and values, so that some repeat.
fn random_field(random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let name = match random.below(8) {
        0 => b"Content-Type".to_vec(),
        1 => b"Set-Cookie".to_vec(),
        2 => b"ETag".to_vec(),
        3 => b"content-length".to_vec(),
        4 => vec![b'X'; random.below(70)],
        _ => format!("X-Field-{}", random.below(20)).into_bytes(),
    };
    let value = match random.below(4) {
        0 => (0..random.below(40)).map(|_| random.below(256) as u8).collect(),
        1 => vec![b'v'; random.below(600)],
        _ => random.below(30).to_string().into_bytes(),
    };
    (name, value)
}

/// So many that some have the same first slot.
#[test]
fn many_fields_repeat() {
    let mut encoder = Encoder::new();
    let values: Vec<String> = (0..48).map(|number| format!("{number:040}")).collect();
    let fields: Vec<_> = values.iter().map(|value| ("a", value.as_str())).collect();
    encode(&mut encoder, 200, &fields);
    assert_eq!(encoder.table().len(), 48);
    assert_eq!(encode(&mut encoder, 200, &fields).len(), 49);
}

/// Equal hashes are as bad for us as a client can make it.
#[test]
fn more_fields_than_slots() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    for round in 0..3 {
        for number in 0..128 {
            let value = format!("{number}");
            let block = encode(&mut encoder, 200, &[("a", &value)]);
            assert_eq!(decode(&mut decoder, &block), Ok(owned(&[(":status", "200"), ("a", &value)])), "{round}");
        }
        assert_eq!(lower(encoder.table().entries()), decoder.table().entries());
    }
}

#[test]
fn a_prefix_of_a_block_is_broken_or_gives_the_first_fields() {
    let mut encoder = Encoder::new();
    encoder.limit(1000);
    let fields: Vec<_> = RESPONSE.iter().chain(RESPONSE).copied().chain([("Set-Cookie", "a"), ("X", "")]).collect();
    let block = encode(&mut encoder, 302, &fields);
    let all = fresh(&block).unwrap();
    let (mut whole, mut broken) = (0, 0);
    for len in 0..block.len() {
        match fresh(&block[..len]) {
            Ok(first) => {
                assert!(all.starts_with(&first) && first.len() < all.len());
                whole += 1;
            }
            Err(Broken) => broken += 1,
        }
    }
    // The ends of the fields but the last, and of the update of two bytes, and the empty prefix.
    assert_eq!((whole, broken), (all.len() + 1, block.len() - all.len() - 1));
}

#[test]
fn indices_out_of_the_tables() {
    for block in [&[0x80][..], &[0xbe], &[0x7e, 0x00], &[0x0f, 0x2f, 0x00], &[0xff, 0x00], &[0xff, 0x80, 0x80, 0x01]] {
        assert_eq!(fresh(block), Err(Broken), "{block:x?}");
    }
    // One entry, the next index.
    let block = [0x40, 1, b'a', 1, b'b', 0xbe];
    assert_eq!(fresh(&block), Ok(owned(&[("a", "b"), ("a", "b")])));
    assert_eq!(fresh(&[&block[..], &[0xbf]].concat()), Err(Broken));
    // The name of an entry that goes for the new one, and of one that is gone.
    let mut decoder = Decoder::new(40);
    assert_eq!(decode(&mut decoder, &block[..5]), Ok(owned(&[("a", "b")])));
    assert_eq!(decode(&mut decoder, &[0x7e, 2, b'c', b'd']), Ok(owned(&[("a", "cd")])));
    assert_eq!(decoder.table().entries(), owned(&[("a", "cd")]));
    assert_eq!(decode(&mut decoder, &[0xbf]), Err(Broken));
    // The name of an entry, without a change of the table.
    assert_eq!(
        decode(&mut decoder, &[0x0f, 0x2f, 1, b'e', 0x1f, 0x2f, 1, b'f', 0xbe]),
        Ok(owned(&[("a", "e"), ("a", "f"), ("a", "cd")]))
    );
    assert_eq!(decoder.changes(), 2);
}

#[test]
fn numbers_and_strings_out_of_bounds() {
    for block in [
        // A number without an end, too large, or longer than it need be.
        &[0xff][..],
        &[0xff, 0x80],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x3f, 0x80, 0x80, 0x80, 0x80, 0x00],
        &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        // A name and a value that end early.
        &[0x40],
        &[0x40, 2, b'a'],
        &[0x40, 1, b'a'],
        &[0x40, 1, b'a', 2, b'b'],
        &[0x40, 0x7f, 0xff, 0xff, 0xff, 0x7f, b'a'],
        &[0x00, 0x81],
        // Huffman code: padding of zeros, a byte of padding, EOS.
        &[0x41, 0x81, 0x18],
        &[0x41, 0x82, 0x1f, 0xff],
        &[0x41, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[0x00, 0x81, 0x18, 0x00],
    ] {
        assert_eq!(fresh(block), Err(Broken), "{block:x?}");
    }
    assert_eq!(fresh(&[0x41, 0x81, 0x1f]), Ok(owned(&[(":authority", "a")])));
    // 127 in three bytes after the prefix: more than necessary, but allowed.
    assert_eq!(fresh(&[0x0f, 0x80, 0x80, 0x00, 0x00]), Ok(owned(&[("accept-charset", "")])));
}

#[test]
fn sizes_of_the_table() {
    let mut decoder = Decoder::new(4096);
    // 4096, 4097; after a field.
    assert_eq!(decode(&mut decoder, &[0x3f, 0xe1, 0x1f]), Ok(vec![]));
    assert_eq!(fresh(&[0x3f, 0xe2, 0x1f]), Err(Broken));
    assert_eq!(fresh(&[0x82, 0x20]), Err(Broken));
    assert_eq!(fresh(&[0x40, 0, 0, 0x20]), Err(Broken));
    assert_eq!(fresh(&[0x00, 0, 0, 0x20]), Err(Broken));
    assert_eq!(decoder.changes(), 1);
    // An entry, then none, then a table of no size that takes none, then one of some.
    assert_eq!(decode(&mut decoder, &[0x40, 1, b'a', 1, b'b', 0xbe]), Ok(owned(&[("a", "b"), ("a", "b")])));
    assert_eq!(decode(&mut decoder, &[0x20, 0x40, 1, b'a', 1, b'b']), Ok(owned(&[("a", "b")])));
    assert_eq!((decoder.table().len(), decoder.table().size(), decode(&mut decoder, &[0xbe])), (0, 0, Err(Broken)));
    assert_eq!(
        decode(&mut decoder, &[0x20, 0x3f, 0x03, 0x40, 1, b'a', 1, b'b', 0xbe]),
        Ok(owned(&[("a", "b"), ("a", "b")]))
    );
    // One that is larger than the table empties it (section 4.4).
    assert_eq!(decode(&mut decoder, &[0x40, 1, b'a', 2, b'b', b'c']), Ok(owned(&[("a", "bc")])));
    assert_eq!(decoder.table().len(), 0);
    assert_eq!(decoder.changes(), 8);

    // A larger one than usual is to be asked for.
    let mut decoder = Decoder::new(10_000);
    assert_eq!(decoder.table().limit(), 4096);
    assert_eq!(decode(&mut decoder, &[0x3f, 0xf1, 0x4d]), Ok(vec![]));
    assert_eq!((decoder.table().limit(), decode(&mut decoder, &[0x3f, 0xf2, 0x4d])), (10_000, Err(Broken)));
}

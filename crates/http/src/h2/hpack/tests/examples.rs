//! The examples of RFC 7541 appendix C: what the decoder makes of them, and its table after each.

use super::{decode, owned};
use crate::h2::hpack::Decoder;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A block in hexadecimal digits, its fields, and the entries of the table and their size after it.
type Example<'a> = (&'a str, Pairs<'a>, Pairs<'a>, usize);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

fn check(size: usize, examples: &[Example<'_>]) {
    let mut decoder = Decoder::new(size);
    for (block, fields, entries, size) in examples {
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(owned(fields)), "{block}");
        assert_eq!(decoder.table().entries(), owned(entries), "{block}");
        assert_eq!(decoder.table().size(), *size, "{block}");
    }
}

/// Appendix C.2.
#[test]
fn kinds_of_fields() {
    let custom: Pairs<'_> = &[("custom-key", "custom-header")];
    check(4096, &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", custom, custom, 55)]);
    check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[(":path", "/sample/path")], &[], 0)]);
    check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &[("password", "secret")], &[], 0)]);
    check(4096, &[("82", &[(":method", "GET")], &[], 0)]);
}

/// Appendices C.3 and C.4: three requests, without and with Huffman code.
#[test]
fn requests() {
    let authority = (":authority", "www.example.com");
    let no_cache = ("cache-control", "no-cache");
    let custom = ("custom-key", "custom-value");
    let fields: [Pairs<'_>; 3] = [
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), authority],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), authority, no_cache],
        &[(":method", "GET"), (":scheme", "https"), (":path", "/index.html"), authority, custom],
    ];
    let entries: [Pairs<'_>; 3] = [&[authority], &[no_cache, authority], &[custom, no_cache, authority]];
    let sizes = [57, 110, 164];
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        check(4096, &[0, 1, 2].map(|at| (blocks[at], fields[at], entries[at], sizes[at])));
    }
}

/// Appendices C.5 and C.6: three responses, without and with Huffman code. In a table of 256 bytes, entries must go.
#[test]
fn responses() {
    let private = ("cache-control", "private");
    let first_date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let last_date = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
    let location = ("location", "https://www.example.com");
    let gzip = ("content-encoding", "gzip");
    let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    let fields: [Pairs<'_>; 3] = [
        &[(":status", "302"), private, first_date, location],
        &[(":status", "307"), private, first_date, location],
        &[(":status", "200"), private, last_date, location, gzip, cookie],
    ];
    let entries: [Pairs<'_>; 3] = [
        &[location, first_date, private, (":status", "302")],
        &[(":status", "307"), location, first_date, private],
        &[cookie, gzip, last_date],
    ];
    let sizes = [222, 222, 215];
    for blocks in [
        [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32
             3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970
             7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61
             6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
        ],
        [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad
             1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2
             e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ],
    ] {
        check(256, &[0, 1, 2].map(|at| (blocks[at], fields[at], entries[at], sizes[at])));
    }
}

/// Appendix C.1: 10 and 1337 in a prefix of five bits, read as sizes of the table.
#[test]
fn numbers() {
    let mut decoder = Decoder::new(1337);
    for (block, size) in [("2a", 10), ("3f9a0a", 1337)] {
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(vec![]));
        assert_eq!(decoder.table().limit(), size);
    }
}

//! Hashes of various tools are understood, and expensive ones refused.

use super::*;

fn is_right(password: &[u8], stored: &str) -> Result<bool, Unchecked> {
    sys::block_on::block_on(super::is_right(password, stored), || ()).expect("an answer")
}

/// Made with htpasswd 2.4.71 and openssl 3.0; the password is `good` unless noted.
#[test]
fn hashes_of_htpasswd_and_openssl() {
    let long = "a password of more than sixteen, even more than thirty-two bytes: ümläut";
    for (password, stored) in [
        ("good", "$apr1$CFQl1fnU$SajJAavFQLYjej9.TxyOb1"),
        ("good", "$1$3kRzVyQO$Gu.S4qI/vCMeHG7s9/hOK."),
        ("good", "$2y$05$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK"),
        ("good", "{SHA}/BkxjdExKM4UNE0GZRCpgiacJBs="),
        ("good", "$5$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8KXfu2Z..TdYqIv8vYPomftyQIBHa4"),
        (
            "good",
            "$6$fAhlCpOc3PMU3PKa$K/GT8e/S1KFvMZYGVsgbnwASWgoGYdaAC7BGnhOS1MzCbVRlXyEVXPJGgkZoMf0uYysGghhKO6rxhBB52cYdV0",
        ),
        (long, LONG_APR1),
        ("", EMPTY_APR1),
    ] {
        assert_eq!(is_right(password.as_bytes(), stored), Ok(true), "{stored}");
        assert_eq!(is_right(password.as_bytes(), stored), Ok(true), "again: {stored}");
        assert_eq!(is_right(b"bad", stored), Ok(false), "{stored}");
    }
}

const LONG_APR1: &str = "$apr1$abcdefgh$GSIWCFTThXsvA2H6Rqgmt.";
const EMPTY_APR1: &str = "$apr1$x$tMwYqBfQwi3FYAr0aJc8M/";

/// Made with crypt(3) of libxcrypt 4.4.33; the password is `good`.
#[test]
fn hashes_of_the_c_library() {
    for stored in [
        "abb1oGxjdYbAs",
        "_J9..rasmDI5VWQRVJXM",
        "$2a$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK",
        "$2b$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK",
        "$2x$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK",
        "$3$$895f465356a0403458759a6b104b7242",
        "$5$rounds=1000$salt$.lo0MGvWxRAQOBzinZQ8m8dPpu49hSvDG.mzzwOj0aB",
        "$sha1$1000$salt$Gb1xD7CntT97qvdExMTXZdTdo9M3",
        "$md5$salt$t04vtYCpSqx/T/.VBzuW8/",
        "$md5,rounds=100$salt$$m6UohyjdcgO1bBI2UnfO41",
        "$y$j75$saltsalt$mBWv165UunuP6N5KeO1csgNBpnDnG4OusQWLrJ9M78A",
        "$gy$j75$saltsalt$rOGrGSCs/jOVcJKqNa2ysYnS7hraraI9XDzvCe1uB12",
        "$7$8/..../....salt$rsIMcjX1wRCNeqEAtQapMY8FdasdvCzR43FTiiGVO68",
    ] {
        assert_eq!(is_right(b"good", stored), Ok(true), "{stored}");
        assert_eq!(is_right(b"bad", stored), Ok(false), "{stored}");
    }
    // In the oldest form only eight characters count, or fewer if the password is shorter.
    assert_eq!(is_right(b"passwords", "abJnggxhB/yWI"), is_right(b"password", "abJnggxhB/yWI"));
    let long = "abkcfEndDLESYRx8JE5HhGcITyog1/ww0vUb.WsL9nYFyY";
    assert_eq!(is_right(b"a longer password than eight", long), Ok(true));
}

#[test]
fn refused_hashes() {
    for (stored, why) in [
        ("good", FORMAT),
        ("", FORMAT),
        ("*", FORMAT),
        ("!PYj.I5rcTK8h2", FORMAT),
        ("$y$j9T$x$y", FORMAT),
        ("$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$x", FORMAT),
        ("$2z$05$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK", FORMAT),
        ("$2y$05$short", FORMAT),
        ("$2y$05$short, but longer", FORMAT),
        ("$apr1$nosalt", FORMAT),
        ("$apr1$no salt and no hash", FORMAT),
        ("$5$rounds=x999999999$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8", FORMAT),
        ("$6$", FORMAT),
        ("$", FORMAT),
        ("_J9", FORMAT),
        ("$2y$13$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK", COST),
        ("$5$rounds=999999999$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8KXfu2Z..TdYqIv8vYPomftyQIBHa4", COST),
        ("$sha1$999999999$salt$Gb1xD7CntT97qvdExMTXZdTdo9M3", COST),
        ("$md5,rounds=999999999$salt$$m6UohyjdcgO1bBI2UnfO41", COST),
        ("_zzzzrasmA4H2x8o5VyM", COST),
        ("$y$jCT$saltsalt$/cE6V4EpFKzHBHm3GwTVaAXdKw6THJKLgLZ27b8dLh6", COST),
        ("$y$jzzzzT$saltsalt$/cE6V4EpFKzHBHm3GwTVaAXdKw6THJKLgLZ27b8dLh6", COST),
        ("$7$DU..../....salt$L7PlyM4AgftFCquIqw0bACMnVKuTJWLFLNwb/xTyQW1", COST),
        ("$7$CU....0....salt$L7PlyM4AgftFCquIqw0bACMnVKuTJWLFLNwb/xTyQW1", COST),
    ] {
        assert_eq!(is_right(b"good", stored), Err(why), "{stored}");
    }
}

/// Usual costs pass, however long they take here.
#[test]
fn usual_costs_are_bearable() {
    for stored in [
        "$2y$12$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK",
        "$6$rounds=500000$salt$ly5dcrZ81p",
        "$sha1$262144$salt$vYA0lqQvAs",
        "$y$j9T$saltsalt$EL6EfbOUG7PX",
        "$y$jBT$saltsalt$X3Ec0vKYKZsV",
        "$7$CU..../....salt$L7PlyM4AgftFCquIqw0bACMnVKuTJWLFLNwb/xTyQW1",
    ] {
        assert_eq!(cost(stored, b"good"), Some(Cost::Bearable), "{stored}");
    }
}

/// Hashing takes longer for longer passwords, and half a megabyte would take for ever.
#[test]
fn long_passwords() {
    let dear = "$6$rounds=500000$salt$ly5dcrZ81p";
    for (length, want) in [(64, Cost::Bearable), (65, Cost::TooHigh), (511, Cost::TooHigh)] {
        assert_eq!(cost(dear, &vec![b'a'; length]), Some(want), "{length}");
    }
    assert_eq!(cost("$6$rounds=5000$salt$ly5dcrZ81p", &[b'a'; 511]), Some(Cost::Bearable));
    for kind in ["$1$salt", "$6$rounds=1000$salt", "$y$j75$salt", "$2y$04$abcdefghijklmnopqrstuu", "ab"] {
        let longest = vec![b'a'; PASSWORD_MAX];
        let stored = sys::crypt::crypt(&longest, kind.as_bytes()).expect("hashed");
        let stored = String::from_utf8(stored).expect("plain text");
        assert_eq!(is_right(&longest, &stored), Ok(true), "{kind}");
        let longer = vec![b'a'; PASSWORD_MAX + 1];
        assert_eq!(is_right(&longer, &stored), Ok(false), "{kind}");
    }
    let sha = |length| base64::engine::general_purpose::STANDARD.encode(sha1::Sha1::digest(vec![b'a'; length]));
    assert_eq!(is_right(&[b'a'; 511], &format!("{{SHA}}{}", sha(511))), Ok(true));
    assert_eq!(is_right(&[b'a'; 512], &format!("{{SHA}}{}", sha(512))), Ok(false));
    assert_eq!(is_right(b"good\0", "abb1oGxjdYbAs"), Ok(false));
}

/// Only that password in that stored form: a wrong one stays wrong, and a right one is useless elsewhere.
#[test]
fn only_what_was_right_is_remembered() {
    let (good, other) = ("abb1oGxjdYbAs", "abJnggxhB/yWI");
    for _ in 0..3 {
        assert_eq!(is_right(b"good", good), Ok(true));
        assert_eq!(is_right(b"good", other), Ok(false), "of the same length");
        assert_eq!(is_right(b"bad", good), Ok(false));
    }
}

#[test]
fn a_check_gives_its_turn_back() {
    for number in 0..CHECKED_MAX + 10 {
        assert_eq!(is_right(format!("{number}").as_bytes(), "abb1oGxjdYbAs"), Ok(false), "{number}");
    }
}

#[test]
fn digests_of_realms() {
    assert_eq!(hex(RealmDigest::Md5, b"joe:realm:good").len(), 32);
    assert_eq!(hex(RealmDigest::Md5, b""), "d41d8cd98f00b204e9800998ecf8427e");
}

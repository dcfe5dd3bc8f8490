//! Stored passwords of every kind that crypt(3) knows, long passwords, and odd lines of the files. All but the long ones
//! hold for Apache too.

use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wire::Client;

const CONFIGURATION: &str = "<Directory \"${DOCS}\">\nAuthType Basic\nAuthName x\nAuthBasicProvider file\n\
     AuthUserFile ${ROOT}/conf/passwords\nRequire valid-user\n</Directory>";

/// The status of a request with these credentials.
fn log_in(site: &Site, user: &str, password: &str) -> u16 {
    Client::connect(site.address()).request(request("/f.txt", user, password)).status
}

/// A request with these credentials.
pub fn request(path: &str, user: &str, password: &str) -> String {
    let credentials = base64(format!("{user}:{password}").as_bytes());
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\r\n")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32, place: u32| char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]);
    let group = |part: &[u8]| {
        let byte = |i: usize| u32::from(part.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        (0..4).map(move |place| if place as usize <= part.len() { digit(bits, place) } else { '=' }).collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// The same password, `good`, as crypt(3) stores it in each of its ways.
const STORED: [(&str, &str); 13] = [
    ("des", "abb1oGxjdYbAs"),
    ("extended-des", "_J9..rasmDI5VWQRVJXM"),
    ("md5", "$1$salt$nv3ocNtLSqERkOE0R.yRv1"),
    ("bcrypt-a", "$2a$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK"),
    ("bcrypt-b", "$2b$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK"),
    ("bcrypt-y", "$2y$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK"),
    ("nt", "$3$$895f465356a0403458759a6b104b7242"),
    ("sha-256", "$5$rounds=1000$salt$.lo0MGvWxRAQOBzinZQ8m8dPpu49hSvDG.mzzwOj0aB"),
    ("sha-1", "$sha1$1000$salt$Gb1xD7CntT97qvdExMTXZdTdo9M3"),
    ("sun-md5", "$md5,rounds=100$salt$$m6UohyjdcgO1bBI2UnfO41"),
    ("yescrypt", "$y$j75$saltsalt$mBWv165UunuP6N5KeO1csgNBpnDnG4OusQWLrJ9M78A"),
    ("gost-yescrypt", "$gy$j75$saltsalt$rOGrGSCs/jOVcJKqNa2ysYnS7hraraI9XDzvCe1uB12"),
    ("scrypt", "$7$8/..../....salt$rsIMcjX1wRCNeqEAtQapMY8FdasdvCzR43FTiiGVO68"),
];

#[test]
fn every_way_of_crypt_is_known() {
    let build = |site: &Site| {
        site.page("f.txt", "x\n");
        let mut lines: String = STORED.iter().map(|(user, stored)| format!("{user}:{stored}\n")).collect();
        lines.push_str("plain:good\nlocked:*\nlocked-too:!abb1oGxjdYbAs\nnone:\n");
        site.file("conf/passwords", lines);
    };
    oracle::both("every_way_of_crypt_is_known", build, CONFIGURATION, |site| {
        for (user, _) in STORED {
            assert_eq!([log_in(site, user, "good"), log_in(site, user, "bad")], [200, 401], "{user}");
        }
        for user in ["plain", "locked", "locked-too", "none"] {
            assert_eq!(
                [log_in(site, user, "good"), log_in(site, user, ""), log_in(site, user, "*")],
                [401; 3],
                "{user}"
            );
        }
    });
}

/// The C library takes 511 bytes at most; we take no more of any stored password, and cut none.
#[test]
fn long_passwords() {
    let site = Site::new();
    site.page("f.txt", "x\n");
    let hash = |password: &str, setting: &[u8]| {
        String::from_utf8(sys::crypt::crypt(password.as_bytes(), setting).expect("hashed")).expect("text")
    };
    let long = "a".repeat(511);
    let sha = "{SHA}OVYTnTFBc8Qetb//pmG4TtzShYE=";
    let lines = format!(
        "bcrypt:{}\nsha-512:{}\nsha:{sha}\ndear:$6$rounds=500000$salt$x\n",
        hash(&long, b"$2y$04$abcdefghijklmnopqrstuu"),
        hash(&long, b"$6$salt")
    );
    site.file("conf/passwords", lines);
    let check = |site: &Site| {
        assert_eq!(log_in(site, "sha-512", &long), 200);
        assert_eq!(log_in(site, "sha-512", &format!("{long}a")), 401);
        // Of this scheme no more than 72 bytes count, wherever it is checked.
        assert_eq!(log_in(site, "bcrypt", &long[..72]), 200);
        assert_eq!(log_in(site, "bcrypt", &long[..71]), 401);
    };
    {
        let server = crate::harness::server::Server::start(crate::harness::mpm::Mpm::Percore, &site, CONFIGURATION);
        server.allow("auth_basic:error");
        server.allow("authn_file:warn");
        check(&site);
        // 5 900 bytes at half a million rounds would take ten seconds.
        let started = std::time::Instant::now();
        assert_eq!(log_in(&site, "dear", &"a".repeat(5900)), 401);
        assert_eq!(log_in(&site, "dear", &"a".repeat(511)), 401);
        assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
        server.logged("the password of user dear is stored at a cost that takes too long to check");
        // In front of crypt(3), too.
        assert_eq!(log_in(&site, "sha", &"b".repeat(512)), 401);
    }
    if oracle::is_there("long_passwords") {
        let _apache = oracle::Apache::start(&site, CONFIGURATION);
        check(&site);
    }
}

/// A line without anything in it names no user, not even the one without a name.
#[test]
fn an_empty_line_is_nobody() {
    let build = |site: &Site| {
        site.page("f.txt", "x\n");
        site.file("conf/passwords", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n\n  \n");
    };
    oracle::both("an_empty_line_is_nobody", build, CONFIGURATION, |site| {
        assert_eq!(log_in(site, "", ""), 401);
        let log = site.read("logs/error_log");
        assert!(log.contains("AH01618: user  not found: /f.txt"), "{log}");
    });
}

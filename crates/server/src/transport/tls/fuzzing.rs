//! The entry points of the fuzz targets `client_hello` and `tls_record`.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion};

use super::protection::{HEADER, MOST_CONTENT, Protection};
use super::{Handshake, Progress};
use crate::transport::socket::Socket;

/// Where a handshake would send its messages. None of these gets so far.
static SOCKET: LazyLock<Arc<Socket>> = LazyLock::new(|| {
    let (socket, _) = UnixStream::pair().expect("a pair of sockets");
    Arc::new(Socket::new(socket.into()))
});

/// Reads the beginning of a connection whole and in pieces of this size.
///
/// # Panics
/// If the results differ.
pub fn client_hello(bytes: &[u8], piece: usize) {
    let whole = greeted(bytes, bytes.len().max(1));
    let pieces = greeted(bytes, piece.max(1));
    // A part may be refused for another reason than the whole, and before it is complete.
    assert!(pieces == whole || (pieces.is_err() && whole.is_err()), "{pieces:?}, {whole:?}");
}

/// The name that the client asks for, once its ClientHello has arrived. `Err`: why the handshake fails.
fn greeted(bytes: &[u8], piece: usize) -> Result<Option<Option<String>>, String> {
    let mut handshake = Handshake::new();
    for piece in bytes.chunks(piece) {
        match handshake.take(&mut piece.to_vec(), &SOCKET).map_err(|broken| broken.0)? {
            Progress::Wants => assert!(handshake.held() <= bytes.len()),
            Progress::Greeted => {
                let hello = handshake.hello().expect("a ClientHello that has arrived");
                return Ok(Some(hello.server_name().map(str::to_string)));
            }
            Progress::Complete(_) => unreachable!("no keys were agreed on"),
        }
    }
    Ok(None)
}

/// Opens records with keys that the client does not know, and one that it has sealed, with a byte changed.
///
/// # Panics
/// If a forged record is opened, or a sealed one is not.
pub fn record(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let Some(([at, change], content)) = rest.split_first_chunk() else { return };
    let (version, secrets): (_, fn() -> ConnectionTrafficSecrets) = match choice % 4 {
        0 => (ProtocolVersion::TLSv1_3, chacha20),
        1 => (ProtocolVersion::TLSv1_3, aes),
        2 => (ProtocolVersion::TLSv1_2, chacha20),
        _ => (ProtocolVersion::TLSv1_2, aes),
    };
    let protection = || Protection::new(version, (0, secrets())).expect("a known suite");

    let mut opener = protection();
    let mut wire = content.to_vec();
    if let Ok(Some(length)) = opener.length(&wire) {
        assert!(opener.open(&mut wire[..length]).is_err());
    }

    let content = &content[..content.len().min(MOST_CONTENT)];
    let kind = if choice & 4 == 0 { ContentType::ApplicationData } else { ContentType::Handshake };
    let mut sealed = Vec::new();
    let filled = protection().seal(kind, &mut sealed, |out| {
        out.extend_from_slice(content);
        Ok(content.len())
    });
    if filled.expect("a sealed record") == 0 {
        return;
    }
    assert_eq!(protection().length(&sealed), Ok(Some(sealed.len())));
    assert_eq!(
        protection().open(&mut sealed.clone()).map(|(kind, content)| (kind, content.to_vec())),
        Ok((kind, content.to_vec()))
    );
    let at = usize::from(*at) % sealed.len();
    // `length` has read the length in the header, and nothing reads it again.
    if *change != 0 && !(3..HEADER).contains(&at) {
        sealed[at] ^= change;
        assert!(protection().open(&mut sealed).is_err());
    }
}

fn chacha20() -> ConnectionTrafficSecrets {
    ConnectionTrafficSecrets::Chacha20Poly1305 { key: AeadKey::from([7; 32]), iv: Iv::from([9; 12]) }
}

fn aes() -> ConnectionTrafficSecrets {
    let mut key = [0; 32];
    key[0] = 1;
    ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from(key), iv: Iv::from([9; 12]) }
}

//! Session tickets, with keys that all children share and that rotate automatically.
//!
//! A key is derived from a secret, the name of the virtual host and the number of the period in which it is used, so
//! processes need not exchange keys. The parent generates the secret, or reads it from `SSLSessionTicketKeyFile`; a
//! graceful restart keeps it. Tickets from before the previous period can no longer be decrypted. A ticket carries the
//! id of its session, so that a resumed session has the same.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use server::tls;

use super::clients::Clients;

/// Bytes before the ciphertext: the number of the period, and a nonce.
const HEAD: usize = 8 + NONCE_LEN;

/// The secret of this server, generated on first use: in the parent, before it forks.
static SECRET: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
    let mut secret = [0; 32];
    rand::fill(&mut secret).ok().map(|()| secret)
});

/// Encrypts the tickets of a virtual host.
pub(super) struct Tickets {
    secret: Vec<u8>,
    host: String,
    /// The requirements on clients: a session is resumed only under those that its certificate met.
    clients: Option<Arc<Clients>>,
    /// The lifetime of a session, in seconds; also the length of a period.
    lifetime: u32,
    /// The keys of the present and the previous period, derived on demand, with the mark of the requirements.
    keys: Mutex<Vec<(u64, String, Arc<LessSafeKey>)>>,
}

impl Tickets {
    /// Tickets for the virtual host of this name. `secret`: the contents of `SSLSessionTicketKeyFile`, if there is one.
    /// `None`: the random number generator failed.
    pub(super) fn new(
        host: String,
        clients: Option<Arc<Clients>>,
        secret: Option<Vec<u8>>,
        lifetime: u32,
    ) -> Option<Tickets> {
        let secret = match secret {
            Some(secret) => secret,
            None => SECRET.as_ref()?.to_vec(),
        };
        Some(Tickets { secret, host, clients, lifetime: lifetime.max(1), keys: Mutex::default() })
    }

    fn period(&self) -> u64 {
        sys::time::realtime().as_secs() / u64::from(self.lifetime)
    }

    fn key(&self, period: u64) -> Option<Arc<LessSafeKey>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = self.clients.as_ref().map_or_else(String::new, |clients| clients.mark());
        if let Some((.., key)) = keys.iter().find(|(of, with, _)| *of == period && *with == mark) {
            return Some(key.clone());
        }
        let salt = Salt::new(HKDF_SHA256, b"tsubame session tickets");
        let number = period.to_be_bytes();
        let info = [number.as_slice(), self.host.as_bytes(), b" ", mark.as_bytes()];
        let secret = salt.extract(&self.secret);
        let derived = secret.expand(&info, &AES_256_GCM).ok()?;
        let key = Arc::new(LessSafeKey::new(UnboundKey::from(derived)));
        keys.retain(|(of, with, _)| of + 1 >= period && *with == mark);
        keys.push((period, mark, key.clone()));
        Some(key)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("host", &self.host).finish_non_exhaustive()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let period = self.period();
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = [&tls::session(), plain].concat();
        self.key(period)?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .ok()?;
        Some([&period.to_be_bytes()[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (head, sealed) = ticket.split_at_checked(HEAD)?;
        let (period, nonce) = head.split_at_checked(8)?;
        let (period, now) = (u64::from_be_bytes(period.try_into().ok()?), self.period());
        if period != now && period.checked_add(1) != Some(now) {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.key(period)?.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        let (id, plain) = opened.split_first_chunk::<{ tls::ID }>()?;
        tls::resumed(*id);
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(host: &str, secret: Option<&[u8]>) -> Tickets {
        Tickets::new(host.into(), None, secret.map(<[u8]>::to_vec), 300).expect("random numbers")
    }

    #[test]
    fn a_ticket_is_good_for_its_host_and_for_whoever_has_the_secret() {
        let ticket = tickets("a", None).encrypt(b"session").expect("a ticket");
        assert_eq!(tickets("a", None).decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(tickets("b", None).decrypt(&ticket), None);
        assert_eq!(tickets("a", Some(b"another secret")).decrypt(&ticket), None);
        for damaged in [&ticket[..ticket.len() - 1], &ticket[1..], &ticket[..20], b""] {
            assert_eq!(tickets("a", None).decrypt(damaged), None);
        }
    }

    #[test]
    fn tickets_grow_old() {
        let tickets = tickets("a", None);
        let mut ticket = tickets.encrypt(b"session").expect("a ticket");
        let period = tickets.period() - 2;
        ticket[..8].copy_from_slice(&period.to_be_bytes());
        assert_eq!(tickets.decrypt(&ticket), None);
    }
}

//! The parameters of a backend that concern only AJP: `iobuffersize`, `ping` and `secret`.

use std::sync::Arc;
use std::time::Duration;

use conf::values::{atoi, duration};

/// The longest secret, in bytes.
const SECRET_MAX: usize = 63;
/// The shortest buffer that a line may ask for, in bytes.
const BUFFER_MIN: usize = 512;

/// These parameters; `None`: not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AjpSettings {
    /// The length of packets.
    pub(crate) buffer: Option<usize>,
    /// How long the backend may take to say that it is alive before it gets a request.
    pub(crate) ping: Option<Duration>,
    /// The word that proves to the backend who we are.
    pub(crate) secret: Option<Arc<str>>,
}

impl AjpSettings {
    /// Sets `key=value`, whose key is in lower case. `Err`: the message after the name of the directive; `Ok(false)`: the key is another
    /// one.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "iobuffersize" => {
                let bytes = buffer(value).ok_or("IOBufferSize must be >= 512 bytes, or 0 for system default.")?;
                self.buffer = Some(bytes).filter(|bytes| *bytes > 0);
            }
            "ping" => {
                let time = duration(value, Duration::from_secs(1)).ok_or("Ping/Pong timeout has wrong format")?;
                if time < Duration::from_millis(1) {
                    return Err("Ping/Pong timeout must be at least one millisecond".into());
                }
                self.ping = Some(time);
            }
            "secret" if value.len() > SECRET_MAX => {
                return Err(format!("Secret length must be < {} characters", SECRET_MAX + 1));
            }
            "secret" => self.secret = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The settings of `later`, and otherwise those of this one.
    pub(super) fn changed_by(&mut self, later: AjpSettings) {
        let AjpSettings { buffer, ping, secret } = later;
        self.buffer = buffer.or(self.buffer);
        self.ping = ping.or(self.ping);
        self.secret = secret.or(self.secret.take());
    }
}

/// The length of a buffer; 0 is the usual one.
pub(super) fn buffer(value: &str) -> Option<usize> {
    usize::try_from(atoi(value)).ok().filter(|bytes| *bytes == 0 || *bytes >= BUFFER_MIN)
}

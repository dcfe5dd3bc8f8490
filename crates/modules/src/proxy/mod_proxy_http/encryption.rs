//! Encrypted connections: `https://` and `wss://`.

use conf::Level;
use server::Request;
use upstream::Tls;

use crate::proxy::mod_proxy::{Destination, host_name};
use crate::ssl::mod_ssl::backends::{self, NotEncrypted};

/// Whether the URL of a backend demands encryption.
pub(super) fn is_demanded(destination: &Destination) -> bool {
    matches!(&*destination.target.scheme, "https" | "wss")
}

/// How the connection for a request is encrypted. `Err`: it cannot be; this is the status, and the reason is logged.
pub(in crate::proxy) fn of(request: &Request, destination: &Destination) -> Result<Tls, u16> {
    let settings = backends::settings(request).map_err(|why| {
        let (scheme, name) = (&destination.target.scheme, &destination.server.name);
        let why = match why {
            NotEncrypted::Off => {
                "AH01961: failed to enable ssl support [Hint: if using mod_ssl, see SSLProxyEngine]".into()
            }
            NotEncrypted::Broken(why) => why,
        };
        request.log("proxy", Level::Error, why);
        request.log("proxy", Level::Error, format!("AH00961: {scheme}: failed to enable ssl support for {name}"));
        500_u16
    })?;
    Ok(Tls::new(settings, host_name(request, &destination.target)))
}

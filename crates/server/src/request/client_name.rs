//! The name of the client, as a request may show it or decide by it.

use conf::expr::EvalError;

use crate::request::Request;
use crate::request::dns::Unanswered;
use crate::settings::core::{CoreDir, Tri};

impl Request {
    pub(crate) fn hostname_lookups(&self) -> Tri {
        self.dir::<CoreDir>().hostname_lookups()
    }

    /// The client's name, if a look-up has found it: by `HostnameLookups`, or for an access decision.
    pub fn client_name(&self) -> Option<&str> {
        self.client().looked_up(self.hostname_lookups())?.as_ref().ok()?.as_deref()
    }

    /// The client's name for a rule: its host name, or its address if it has none.
    ///
    /// # Errors
    /// `HostnameLookups` requires the name, and it could not be found out: the rule might be about this client.
    pub fn client_host(&self) -> Result<String, EvalError> {
        let how = self.hostname_lookups();
        let unknown = |why: &Unanswered| Err(EvalError::Unknown(format!("{why}: the client's name is unknown")));
        match self.client().looked_up(how) {
            Some(Ok(Some(name))) => Ok(name.to_string()),
            Some(Err(why)) if how != Tri::Off => unknown(why),
            None if how != Tri::Off => unknown(&Unanswered::NotAsked),
            _ => Ok(self.client.ip().to_string()),
        }
    }
}

//! The response to a check, as conditions see it: there is no request of a client, and no file is looked at.

use std::borrow::Cow;
use std::net::IpAddr;

use conf::expr::{Access, Eval, EvalError, Expr, FileError, FileTest, Subject, Variable};

pub(super) struct Response {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
}

impl Response {
    pub(super) fn meets(&self, condition: &Expr) -> Result<bool, EvalError> {
        condition.eval(self, &mut Eval::new())
    }
}

impl Subject for Response {
    fn variable(&self, variable: Variable) -> Result<Cow<'_, str>, EvalError> {
        Ok(match variable {
            Variable::RequestStatus => self.status.to_string().into(),
            _ => Cow::Borrowed(""),
        })
    }

    fn header_in(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn header_out(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| Cow::Borrowed(value.as_str()))
    }

    /// `hc('body')`
    fn note(&self, name: &str) -> Option<Cow<'_, str>> {
        name.eq_ignore_ascii_case("body").then_some(Cow::Borrowed(&self.body))
    }

    fn request_env(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn process_env(&self, name: &str) -> Option<Cow<'_, str>> {
        std::env::var(name).ok().map(Cow::Owned)
    }

    fn file_test(&self, _: FileTest, _: &str) -> bool {
        false
    }

    fn file_contents(&self, _: &str) -> Result<String, FileError> {
        Err(FileError::Open)
    }

    fn file_size(&self, _: &str) -> u64 {
        0
    }

    fn access(&self, _: Access, _: &str) -> Option<bool> {
        None
    }

    fn client_address(&self) -> Option<IpAddr> {
        None
    }

    fn note_vary(&self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use conf::expr::Options;

    use super::*;

    #[test]
    fn conditions() {
        let fields = vec![("X-State".into(), "ready".into())];
        let response = Response { status: 503, fields, body: "Under maintenance".into() };
        for (text, want) in [
            ("%{REQUEST_STATUS} =~ /^[234]/", false),
            ("%{REQUEST_STATUS} =~ /^5/", true),
            ("hc('body') !~ /Under maintenance/", false),
            ("resp('x-state') == 'ready'", true),
            ("req('x-state') == 'ready'", false),
        ] {
            let options = Options { health: true, ..Options::default() };
            let condition = Expr::parse_with(text, options).expect("a condition");
            assert_eq!(response.meets(&condition), Ok(want), "{text}");
        }
    }
}

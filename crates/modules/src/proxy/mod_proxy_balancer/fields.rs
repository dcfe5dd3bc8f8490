//! The fields of a query or a form.

use crate::aaa::mod_auth_form::form_fields;

pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// No field at all.
    pub(super) fn none() -> Fields {
        Fields(Vec::new())
    }

    pub(super) fn of(text: &[u8]) -> Fields {
        Fields(form_fields(text))
    }

    /// The first one with this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

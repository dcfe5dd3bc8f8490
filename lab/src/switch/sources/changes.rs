//! Changes to a request.

use crate::switch::ask::Ask;

impl Ask {
    /// Adds a field.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.fields.push((name.to_owned(), value.as_bytes().to_vec()));
    }

    pub(super) fn append(&mut self, text: &str) {
        self.target.extend(text.bytes());
    }

    pub(super) fn prepend(&mut self, text: &str) {
        self.target.splice(0..0, text.bytes());
    }

    /// Changes what follows the last slash.
    pub(super) fn change_name(&mut self, change: impl Fn(&str) -> String) {
        let at = self.target.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let name = String::from_utf8_lossy(&self.target.split_off(at)).into_owned();
        self.append(&change(&name));
    }

    /// Takes the slash at the end away, unless nothing else is there.
    pub(super) fn without_slash(&mut self) {
        if self.target.len() > 1 && self.target.ends_with(b"/") {
            self.target.pop();
        }
    }
}

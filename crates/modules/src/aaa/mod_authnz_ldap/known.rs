//! What is known of a user who was found in the directory.

use std::sync::Arc;

use server::Request;

use super::rules::Rules;

/// The data of a user that was found.
#[derive(Clone, Default)]
pub(super) struct UserData {
    pub(super) dn: Option<String>,
    /// The name as the client sent it.
    pub(super) user: String,
    pub(super) values: Option<Vec<String>>,
    /// The password, if this module has checked it.
    pub(super) password: Option<Vec<u8>>,
}

/// Sets the values found as environment variables, with the prefix before each name.
pub(super) fn set_variables(request: &mut Request, rules: &Rules, prefix: &str, values: Option<&[String]>) {
    for (name, value) in rules.search_base.attributes.iter().zip(values.into_iter().flatten()) {
        request.env.set(format!("{prefix}{}", name.to_ascii_uppercase()), value.as_str());
    }
}

/// Gives a user the name that the section chooses, and its variables. `number` of the message that this name was not
/// requested.
pub(super) fn name_user(request: &mut Request, rules: &Rules, known: &UserData, number: &str) {
    const PREFIX: &str = "AUTHENTICATE_";
    set_variables(request, rules, PREFIX, known.values.as_deref());
    let Some(wanted) = &rules.user_attribute else { return };
    let values = known.values.iter().flatten();
    let found = rules.search_base.attributes.iter().zip(values).find(|(name, _)| *name == wanted);
    match found {
        // A user without this attribute has no name.
        Some((_, value)) => request.login.user = Some(value.clone()).filter(|value| !value.is_empty()),
        None => {
            let what = if number == "AH01696" { "authenticate" } else { "non-ldap authenticate" };
            let text = format!(
                "{number}: auth_ldap {what}: REMOTE_USER was to be set with attribute '{wanted}', but this attribute was \
                 not requested for in the LDAP query for the user. REMOTE_USER will fall back to username or DN as \
                 appropriate."
            );
            request.log("authnz_ldap", conf::Level::Warn, text);
        }
    }
}

/// Keeps it for the rest of the request.
pub(super) fn note(request: &mut Request, known: UserData) {
    request.login.known = Some(Arc::new(known));
}

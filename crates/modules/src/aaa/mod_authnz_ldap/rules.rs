//! The rules of a section, which its directives set: which directory, and how users are found in it.

use std::sync::Arc;

use conf::pattern::{Captures, Regex, substitute};
use conf::{Gathered, settings};
use server::Request;

use super::charset;
use crate::ldap::directory::{Aliases, Scope, SearchBase};
use crate::ldap::filter::escape;

/// A password; its debug output reveals nothing.
#[derive(Clone, Default)]
pub struct Secret(pub(super) Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The settings of one section. As in Apache, a section with any of these lines inherits none.
#[derive(Clone, Debug)]
pub struct Rules {
    /// No hosts means no URL.
    pub(super) search_base: SearchBase,
    /// The attribute by which a user is found.
    pub(super) attribute: String,
    /// A further condition for a user.
    pub(super) filter: String,
    pub(super) bind_dn: String,
    pub(super) bind_password: Secret,
    pub(super) decides: bool,
    pub(super) user_is_dn: bool,
    pub(super) user_attribute: Option<String>,
    pub(super) compares_on_server: bool,
    pub(super) group_attributes: Vec<String>,
    pub(super) members_are_dns: bool,
    pub(super) subgroup_attributes: Vec<String>,
    pub(super) subgroup_classes: Vec<String>,
    pub(super) depth: i64,
    pub(super) prefix: String,
    pub(super) binds_as_user: bool,
    pub(super) pattern: Option<(Regex, String)>,
    pub(super) searches_as_user: bool,
    pub(super) compares_as_user: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            search_base: SearchBase {
                url: String::new(),
                hosts: Arc::new([]),
                base: String::new(),
                scope: Scope::Subtree,
                aliases: Aliases::Always,
                attributes: Vec::new(),
            },
            attribute: "uid".into(),
            filter: String::new(),
            bind_dn: String::new(),
            bind_password: Secret::default(),
            decides: true,
            user_is_dn: false,
            user_attribute: None,
            compares_on_server: false,
            group_attributes: Vec::new(),
            members_are_dns: true,
            subgroup_attributes: Vec::new(),
            subgroup_classes: Vec::new(),
            depth: 10,
            prefix: "AUTHORIZE_".into(),
            binds_as_user: false,
            pattern: None,
            searches_as_user: false,
            compares_as_user: false,
        }
    }
}

settings! {
    /// The module's settings of a section.
    pub struct LdapRulesDir {
        pub(super) rules: Gathered<Arc<Rules>>,
    }
}

/// The rules of a request.
pub(super) fn rules(request: &Request) -> Arc<Rules> {
    request.dir::<LdapRulesDir>().rules.get().cloned().unwrap_or_default()
}

/// The longest filter, in bytes, as in Apache.
pub(super) const FILTER_MAX: usize = 8192;

impl Rules {
    /// The filter that finds a user. `Err`: the beginning of one that is too long.
    pub(super) fn filter(&self, request: &Request, user: &str, own: Option<&str>) -> Result<String, String> {
        let user = escape(&charset::translated(request, user));
        let filter = own.unwrap_or(&self.filter);
        let attribute = &self.attribute;
        let whole = if filter.is_empty() || filter.eq_ignore_ascii_case("none") {
            format!("({attribute}={user})")
        } else {
            format!("(&({filter})({attribute}={user}))")
        };
        if whole.len() < FILTER_MAX { Ok(whole) } else { Err(whole.chars().take(FILTER_MAX / 4).collect()) }
    }

    /// The name for a user's first bind (`AuthLDAPInitialBindPattern`).
    pub(super) fn bind_name(&self, user: &str) -> Result<String, String> {
        let Some((pattern, template)) = &self.pattern else { return Ok(user.to_string()) };
        let mut captures = Captures::default();
        if !pattern.captures(user, &mut captures).map_err(|why| why.to_string())? {
            return Ok(user.to_string());
        }
        let mut name = String::new();
        substitute(&mut name, template, user, &captures, FILTER_MAX).map_err(|why| why.to_string())?;
        Ok(name)
    }
}

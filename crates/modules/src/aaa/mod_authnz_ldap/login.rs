//! Checks a password: finds the user in the directory, and binds as that user.

use conf::Level;
use server::Request;
use server::authz::Authn;

use super::charset;
use super::known::{UserData, name_user, note};
use super::rules::rules;
use crate::ldap::code::Code;
use crate::ldap::directory::{Directory, Status};

pub(super) async fn check_password(request: &mut Request, user: &str, password: &str) -> Authn {
    let log = |request: &Request, level, text: String| request.log("authnz_ldap", level, text);
    let rules = rules(request);
    if rules.search_base.hosts.is_empty() {
        log(request, Level::Warn, "AH02558: no AuthLDAPURL".into());
        return Authn::Error;
    }
    // A bind without a password is anonymous, and succeeds (RFC 4513 section 5.1.2).
    if password.is_empty() {
        log(request, Level::Debug, "AH10263: auth_ldap authenticate: empty password specified".into());
        return Authn::Denied;
    }
    let identity = if rules.binds_as_user {
        let name = match rules.bind_name(user) {
            Ok(name) => name,
            Err(why) => {
                log(request, Level::Error, format!("AuthLDAPInitialBindPattern cannot be applied to {user}: {why}"));
                return Authn::Error;
            }
        };
        if rules.pattern.is_some() {
            request.env.set("LDAP_BINDASUSER", name.as_str());
        }
        (name, http::text::to_bytes(password).into_owned())
    } else {
        (rules.bind_dn.clone(), rules.bind_password.0.clone())
    };
    note(request, UserData { user: user.to_string(), ..UserData::default() });
    log(request, Level::Debug, "AH01740: ldap authorize: Creating LDAP req structure".into());
    log(request, Level::Debug, format!("AH01691: auth_ldap authenticate: using URL {}", rules.search_base.url));
    let filter = match rules.filter(request, user, None) {
        Ok(filter) => filter,
        Err(begin) => {
            let text = format!("AH02622: auth_ldap authenticate: ldap filter too long (>8192): {begin}");
            log(request, Level::Error, text);
            return Authn::Error;
        }
    };
    log(request, Level::Trace1, format!("auth_ldap authenticate: final authn filter is {filter}"));
    let sent = http::text::to_bytes(&charset::translated(request, password)).into_owned();
    let result = Directory::new(request, &rules.search_base, identity).check_user(&filter, &sent).await;
    let found = match result {
        Ok(found) => found,
        Err(Status { code: Code::TOO_MANY, .. }) => return Authn::Busy,
        Err(Status { code, reason }) => {
            let (number, level, behind) = match rules.decides {
                true => ("AH01695", Level::Info, ""),
                false => ("AH01694", Level::Debug, " (not authoritative)"),
            };
            let (uri, why) = (&request.data.uri, code.text());
            let text = format!(
                "{number}: auth_ldap authenticate: user {user} authentication failed; URI {uri} [{reason}][{why}]{behind}"
            );
            log(request, level, text);
            return match code {
                _ if !rules.decides => Authn::UserNotFound,
                // For directories without a more precise error.
                Code::OTHER if rules.filter.eq_ignore_ascii_case("none") => Authn::UserNotFound,
                Code::NO_SUCH_OBJECT => Authn::UserNotFound,
                Code::INAPPROPRIATE_AUTH
                | Code::INVALID_CREDENTIALS
                | Code::INSUFFICIENT_ACCESS
                | Code::CONSTRAINT_VIOLATION => Authn::Denied,
                _ => Authn::Error,
            };
        }
    };
    let known = UserData {
        dn: Some(found.dn),
        user: user.to_string(),
        values: Some(found.values),
        password: Some(http::text::to_bytes(password).into_owned()),
    };
    if rules.user_is_dn {
        request.login.user.clone_from(&known.dn);
    }
    name_user(request, &rules, &known, "AH01696");
    note(request, known);
    log(request, Level::Debug, format!("AH01697: auth_ldap authenticate: accepting {user}"));
    Authn::Granted
}

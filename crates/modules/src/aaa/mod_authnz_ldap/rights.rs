//! A user's rights in the directory: `Require ldap-user`, `ldap-group`, `ldap-dn`, `ldap-attribute`, `ldap-filter` and
//! `ldap-search`.

use std::sync::Arc;

use conf::Level;
use conf::words::{next_word, words};
use server::Request;
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzProvider, Parsed, Verdict};

use super::super::Text;
use super::known::{UserData, name_user, note, set_variables};
use super::rules::{Rules, rules};
use crate::ldap::code::Code;
use crate::ldap::directory::{Directory, Groups};

pub(super) static USER: AuthzProvider = AuthzProvider {
    name: "ldap-user",
    parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)),
    check: Later(|request, line| Box::pin(is_user(request, line))),
};

pub(super) static GROUP: AuthzProvider = AuthzProvider {
    name: "ldap-group",
    parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)),
    check: Later(|request, line| Box::pin(is_member(request, line))),
};

pub(super) static DN: AuthzProvider = AuthzProvider {
    name: "ldap-dn",
    parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)),
    check: Later(|request, line| Box::pin(has_name(request, line))),
};

pub(super) static ATTRIBUTE: AuthzProvider = AuthzProvider {
    name: "ldap-attribute",
    parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)),
    check: Later(|request, line| Box::pin(has_attribute(request, line))),
};

pub(super) static FILTER: AuthzProvider = AuthzProvider {
    name: "ldap-filter",
    parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)),
    check: Later(|request, line| Box::pin(passes_filter(request, line))),
};

pub(super) static SEARCH: AuthzProvider = AuthzProvider {
    name: "ldap-search",
    parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)),
    check: Later(|request, line| Box::pin(is_found(request, line))),
};

/// The operation of a line, which decides the bind user (`AuthLDAPSearchAsUser`, `AuthLDAPCompareAsUser`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Search,
    Compare,
    Both,
}

fn debug(request: &Request, text: impl AsRef<str>) {
    request.log("authnz_ldap", Level::Debug, text);
}

/// The directory, bound as the user if that is wanted and the password is known, and otherwise as configured in the
/// section.
fn directory<'a>(request: &'a Request, rules: &'a Rules, known: &UserData, deed: Deed) -> Directory<'a> {
    let as_user = match deed {
        Deed::Search => rules.searches_as_user,
        Deed::Compare => rules.compares_as_user,
        Deed::Both => rules.searches_as_user && rules.compares_as_user,
    };
    let own = || Some((known.dn.clone()?, known.password.clone()?));
    let identity = if as_user { own() } else { None };
    let identity = identity.unwrap_or_else(|| (rules.bind_dn.clone(), rules.bind_password.0.clone()));
    Directory::new(request, &rules.search_base, identity)
}

/// The user's data so far.
fn user_data(request: &mut Request) -> UserData {
    let known = request.login.known.as_ref().and_then(|known| known.downcast_ref::<UserData>()).cloned();
    known.unwrap_or_else(|| {
        debug(request, "AH01740: ldap authorize: Creating LDAP req structure");
        UserData::default()
    })
}

/// The rules, the user, and the user's data in the directory. `blank`, `unknown`: the numbers and names for the
/// messages that there is no name, and no entry.
async fn begin(
    request: &mut Request,
    deed: Deed,
    blank: &str,
    unknown: (&str, &str),
) -> Result<(Arc<Rules>, String, UserData), Verdict> {
    let user = request.login.user.clone().ok_or(Verdict::DeniedNoUser)?;
    let rules = rules(request);
    if rules.search_base.hosts.is_empty() {
        return Err(Verdict::Unknown);
    }
    let mut known = user_data(request);
    if known.dn.is_none() {
        warn_of_blank(request, &user, blank);
        find(request, &rules, &user, deed, &mut known).await?;
    }
    if known.dn.as_ref().is_none_or(String::is_empty) {
        let (number, what) = unknown;
        let about = if what == "group" { format!(" for user {user}") } else { String::new() };
        let text = format!(
            "{number}: auth_ldap authorize: require {what}: user's DN has not been defined; failing authorization{about}"
        );
        debug(request, text);
        return Err(Verdict::Denied);
    }
    Ok((rules, user, known))
}

fn warn_of_blank(request: &Request, user: &str, number: &str) {
    if user.is_empty() {
        let kind = request.login.auth_type.as_deref().unwrap_or("(null)");
        let text = format!("{number}: ldap authorize: Userid is blank, AuthType={kind}");
        request.log("authnz_ldap", Level::Warn, text);
    }
}

/// Finds a user whose password another module has checked.
async fn find(
    request: &mut Request,
    rules: &Rules,
    user: &str,
    deed: Deed,
    known: &mut UserData,
) -> Result<(), Verdict> {
    let filter = match rules.filter(request, user, None) {
        Ok(filter) => filter,
        Err(begin) => {
            let text = format!("AH02623: auth_ldap authorize: ldap filter too long (>8192): {begin}");
            request.log("authnz_ldap", Level::Error, text);
            return Err(Verdict::Unknown);
        }
    };
    let mut directory = directory(request, rules, known, deed);
    let result = directory.find_user(&filter).await;
    let reason = directory.reason;
    drop(directory);
    let found = match result {
        Ok(found) => found,
        Err(code) => {
            debug(request, format!("AH01701: auth_ldap authorise: User DN not found, {reason}"));
            return Err(no(code.is_unsure()));
        }
    };
    known.dn = Some(found.dn);
    known.user = user.to_string();
    known.values = Some(found.values);
    name_user(request, rules, known, "AH10450");
    note(request, known.clone());
    Ok(())
}

/// After `not`, an unknown answer must not count as a no.
fn no(unsure: bool) -> Verdict {
    if unsure { Verdict::Unknown } else { Verdict::Denied }
}

/// The text after the word of the line.
fn text_of(request: &Request, line: &Parsed, what: &str) -> Result<String, Verdict> {
    let text = line.downcast_ref::<Text>().ok_or(Verdict::Error)?;
    text.value(request, "authnz_ldap", what).ok_or(Verdict::Unknown)
}

fn granted(request: &mut Request, rules: &Rules, known: &UserData) -> Verdict {
    set_variables(request, rules, &rules.prefix, known.values.as_deref());
    Verdict::Granted
}

/// The user is refused. `number`, `what`: for the message; `unsure`: the answer is unknown.
fn denied(request: &Request, number: &str, what: &str, user: &str, unsure: bool) -> Verdict {
    let uri = &request.data.uri;
    debug(request, format!("{number}: auth_ldap authorize {what}: authorization denied for user {user} to {uri}"));
    no(unsure)
}

async fn is_user(request: &mut Request, line: &Parsed) -> Verdict {
    let begun = begin(request, Deed::Compare, "AH01699", ("AH01702", "user")).await;
    let (rules, user, known) = match begun {
        Ok(begun) => begun,
        Err(verdict) => return verdict,
    };
    let what = "AH02585: auth_ldap authorize: require user: Can't evaluate expression";
    let text = match text_of(request, line, what) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    let dn = known.dn.as_deref().unwrap_or_default();
    let mut directory = directory(request, &rules, &known, Deed::Compare);
    // The whole line may be one name with blanks, or each word may be a name.
    let whole = std::iter::once((text.clone(), "AH01703", "AH01704"));
    let each = words(&text).into_iter().map(|word| (word, "AH01705", "AH01706"));
    let mut unsure = false;
    for (name, right, wrong) in whole.chain(each) {
        let code = directory.compare(dn, &rules.attribute, &name).await;
        if code == Code::COMPARE_TRUE {
            debug(request, format!("{right}: auth_ldap authorize: require user: authorization successful"));
            drop(directory);
            return granted(request, &rules, &known);
        }
        unsure |= code.is_unsure();
        let (reason, why) = (directory.reason, code.text());
        debug(request, format!("{wrong}: auth_ldap authorize: require user: authorization failed [{reason}][{why}]"));
    }
    drop(directory);
    denied(request, "AH01707", "user", &user, unsure)
}

/// A list of names, or its default if it is empty.
fn or_default(names: &[String]) -> Vec<String> {
    match names {
        [] => ["member", "uniqueMember"].map(String::from).to_vec(),
        names => names.to_vec(),
    }
}

async fn is_member(request: &mut Request, line: &Parsed) -> Verdict {
    let begun = begin(request, Deed::Compare, "AH01699", ("AH01712", "group")).await;
    let (rules, user, known) = match begun {
        Ok(begun) => begun,
        Err(verdict) => return verdict,
    };
    warn_of_blank(request, &user, "AH01709");
    let what = "AH02586: auth_ldap authorize: require group: Can't evaluate expression";
    let group = match text_of(request, line, what) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    debug(request, format!("AH01713: auth_ldap authorize: require group: testing for group membership in \"{group}\""));
    match Box::pin(is_in_group(request, &rules, &known, &group)).await {
        Some(true) => granted(request, &rules, &known),
        is => denied(request, "AH01720", "group", &user, is.is_none()),
    }
}

/// `None`: unknown.
async fn is_in_group(request: &Request, rules: &Rules, known: &UserData, group: &str) -> Option<bool> {
    let member = match rules.members_are_dns {
        true => known.dn.as_deref().unwrap_or_default(),
        false => &known.user,
    };
    let attributes = or_default(&rules.group_attributes);
    let mut asked = directory(request, rules, known, Deed::Compare);
    let (mut code, mut unsure) = (Code::COMPARE_FALSE, false);
    for name in &attributes {
        debug(request, format!("AH01714: auth_ldap authorize: require group: testing for {name}: {member} ({group})"));
        code = asked.compare(group, name, member).await;
        unsure |= code.is_unsure();
        let what = format!("[{}][{} - {}]", asked.reason, code.0, code.text());
        if code == Code::COMPARE_TRUE {
            let text = format!("authorization successful (attribute {name}) {what}");
            debug(request, format!("AH01715: auth_ldap authorize: require group: {text}"));
            return Some(true);
        }
        let text = format!("\"{group}\": didn't match with attr {name} {what}");
        debug(request, format!("AH01719: auth_ldap authorize: require group {text}"));
    }
    let what = format!("[{}][{} - {}]", asked.reason, code.0, code.text());
    drop(asked);
    debug(
        request,
        format!("AH01716: auth_ldap authorise: require group \"{group}\": failed {what}, checking sub-groups"),
    );
    // Nested groups need both a search and a comparison.
    let mut asked = directory(request, rules, known, Deed::Both);
    let below = or_default(&rules.subgroup_attributes);
    let classes = match &rules.subgroup_classes[..] {
        [] => ["groupOfNames", "groupOfUniqueNames"].map(String::from).to_vec(),
        classes => classes.to_vec(),
    };
    let groups = Groups { attributes: &below, classes: &classes, depth: rules.depth };
    for name in &attributes {
        let code = asked.compare_in_subgroups(group, name, member, &groups).await;
        unsure |= code.is_unsure();
        let what = format!("[{}][{} - {}]", asked.reason, code.0, code.text());
        if code == Code::COMPARE_TRUE {
            let text = format!("authorisation successful (attribute {name}) {what}");
            debug(request, format!("AH01717: auth_ldap authorise: require group (sub-group): {text}"));
            return Some(true);
        }
        let text = format!("\"{group}\": didn't match with attr {name} {what}");
        debug(request, format!("AH01718: auth_ldap authorise: require group (sub-group) {text}"));
    }
    if unsure { None } else { Some(false) }
}

async fn has_name(request: &mut Request, line: &Parsed) -> Verdict {
    let begun = begin(request, Deed::Search, "AH01722", ("AH01725", "dn")).await;
    let (rules, user, known) = match begun {
        Ok(begun) => begun,
        Err(verdict) => return verdict,
    };
    let what = "AH02587: auth_ldap authorize: require dn: Can't evaluate expression";
    let wanted = match text_of(request, line, what) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    let dn = known.dn.as_deref().unwrap_or_default();
    let mut directory = directory(request, &rules, &known, Deed::Search);
    let code = directory.compare_dn(dn, &wanted, rules.compares_on_server).await;
    let reason = directory.reason;
    drop(directory);
    if code == Code::COMPARE_TRUE {
        debug(request, "AH01726: auth_ldap authorize: require dn: authorization successful");
        return granted(request, &rules, &known);
    }
    let why = code.text();
    debug(request, format!("AH01727: auth_ldap authorize: require dn \"{wanted}\": LDAP error [{reason}][{why}]"));
    denied(request, "AH01728", "dn", &user, code.is_unsure())
}

async fn has_attribute(request: &mut Request, line: &Parsed) -> Verdict {
    let begun = begin(request, Deed::Compare, "AH01730", ("AH01733", "ldap-attribute")).await;
    let (rules, user, known) = match begun {
        Ok(begun) => begun,
        Err(verdict) => return verdict,
    };
    let what = "AH02588: auth_ldap authorize: require ldap-attribute: Can't evaluate expression";
    let text = match text_of(request, line, what) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    let dn = known.dn.as_deref().unwrap_or_default();
    let mut directory = directory(request, &rules, &known, Deed::Compare);
    let (mut rest, mut unsure) = (&*text, false);
    while !rest.is_empty() {
        let name;
        (name, rest) = rest.split_once('=').unwrap_or((rest, ""));
        rest = rest.trim_start_matches('=');
        let value = next_word(&mut rest);
        debug(request, format!("AH01734: auth_ldap authorize: checking attribute {name} has value {value}"));
        let code = directory.compare(dn, name, &value).await;
        if code == Code::COMPARE_TRUE {
            debug(request, "AH01735: auth_ldap authorize: require attribute: authorization successful");
            drop(directory);
            return granted(request, &rules, &known);
        }
        unsure |= code.is_unsure();
        let (reason, why) = (directory.reason, code.text());
        debug(
            request,
            format!("AH01736: auth_ldap authorize: require attribute: authorization failed [{reason}][{why}]"),
        );
    }
    drop(directory);
    denied(request, "AH01737", "attribute", &user, unsure)
}

async fn passes_filter(request: &mut Request, line: &Parsed) -> Verdict {
    let begun = begin(request, Deed::Search, "AH01739", ("AH01742", "ldap-filter")).await;
    let (rules, user, mut known) = match begun {
        Ok(begun) => begun,
        Err(verdict) => return verdict,
    };
    let what = "AH02589: auth_ldap authorize: require ldap-filter: Can't evaluate require expression";
    let text = match text_of(request, line, what) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    if text.is_empty() {
        return denied(request, "AH01748", "filter", &user, false);
    }
    debug(request, format!("AH01743: auth_ldap authorize: checking filter {text}"));
    let filter = match rules.filter(request, &known.user, Some(&text)) {
        Ok(filter) => filter,
        Err(begin) => {
            let text = format!("AH02628: auth_ldap authorize: ldap filter too long (>8192): {begin}");
            request.log("authnz_ldap", Level::Error, text);
            return Verdict::Unknown;
        }
    };
    let mut asked = directory(request, &rules, &known, Deed::Search);
    let result = asked.find_user(&filter).await;
    let (code, reason) = match result {
        Err(code) => (code, asked.reason),
        Ok(found) => {
            debug(request, format!("AH01744: auth_ldap authorize: checking dn match {}", found.dn));
            // The one who has passed must be the user, and nobody else.
            if rules.compares_as_user {
                asked = directory(request, &rules, &known, Deed::Compare);
            }
            let dn = known.dn.as_deref().unwrap_or_default();
            let code = asked.compare_dn(dn, &found.dn, rules.compares_on_server).await;
            known.values = Some(found.values);
            (code, asked.reason)
        }
    };
    drop(asked);
    if code == Code::COMPARE_TRUE {
        debug(request, "AH01745: auth_ldap authorize: require ldap-filter: authorization successful");
        note(request, known.clone());
        return granted(request, &rules, &known);
    }
    let (number, about) = match code {
        Code::FILTER_ERROR => ("AH01746", format!("{filter} ")),
        _ => ("AH01747", String::new()),
    };
    let what = format!("{about}authorization failed [{reason}][{}]", code.text());
    debug(request, format!("{number}: auth_ldap authorize: require ldap-filter: {what}"));
    denied(request, "AH01748", "filter", &user, code.is_unsure())
}

/// The search finds an entry, whoever the client is.
async fn is_found(request: &mut Request, line: &Parsed) -> Verdict {
    let rules = rules(request);
    if rules.search_base.hosts.is_empty() {
        return Verdict::Unknown;
    }
    let mut known = user_data(request);
    let mut unsure = false;
    let what = "AH02629: auth_ldap authorize: require ldap-search: Can't evaluate require expression";
    let filter = match text_of(request, line, what) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    if !filter.is_empty() {
        debug(request, format!("AH02630: auth_ldap authorize: checking filter {filter}"));
        let mut directory = directory(request, &rules, &known, Deed::Search);
        let result = directory.find_user(&filter).await;
        let reason = directory.reason;
        drop(directory);
        match result {
            Ok(found) => {
                known.dn = Some(found.dn);
                debug(request, "AH02631: auth_ldap authorize: require ldap-search: authorization successful");
                note(request, known.clone());
                return granted(request, &rules, &known);
            }
            Err(code) => {
                unsure = code.is_unsure();
                let what = format!("{filter} authorization failed [{reason}][{}]", code.text());
                debug(request, format!("AH02632: auth_ldap authorize: require ldap-search: {what}"));
            }
        }
    }
    let uri = &request.data.uri;
    debug(request, format!("AH02633: auth_ldap authorize search: authorization denied for to {uri}"));
    no(unsure)
}

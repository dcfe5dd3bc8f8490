//! A user's rights in the directory: `Require ldap-user`, `ldap-group`, `ldap-dn`, `ldap-attribute`, `ldap-filter` and
//! `ldap-search`.

use std::sync::Arc;

use conf::Level;
use conf::words::{next_word, words};
use server::Request;
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzCheck, AuthzProvider, Parsed, Verdict};

use super::super::Text;
use super::known::{UserData, name_user, note, set_variables};
use super::rules::{Rules, rules};
use crate::ldap::code::Code;
use crate::ldap::directory::{Directory, Groups, Status};

pub(super) static USER: AuthzProvider =
    provider("ldap-user", Later(|request, line| Box::pin(verdict(is_user(request, line)))));
pub(super) static GROUP: AuthzProvider =
    provider("ldap-group", Later(|request, line| Box::pin(verdict(is_member(request, line)))));
pub(super) static DN: AuthzProvider =
    provider("ldap-dn", Later(|request, line| Box::pin(verdict(has_name(request, line)))));
pub(super) static ATTRIBUTE: AuthzProvider =
    provider("ldap-attribute", Later(|request, line| Box::pin(verdict(has_attribute(request, line)))));
pub(super) static FILTER: AuthzProvider =
    provider("ldap-filter", Later(|request, line| Box::pin(verdict(passes_filter(request, line)))));
pub(super) static SEARCH: AuthzProvider =
    provider("ldap-search", Later(|request, line| Box::pin(verdict(is_found(request, line)))));

const fn provider(name: &'static str, check: AuthzCheck) -> AuthzProvider {
    AuthzProvider { name, parse: |cmd, line| Ok(Arc::new(Text::of_require(cmd, line)?)), check }
}

/// The verdict of a check, which ends early with `Err`.
async fn verdict(check: impl Future<Output = Result<Verdict, Verdict>>) -> Verdict {
    check.await.unwrap_or_else(|verdict| verdict)
}

/// A requirement about the user's entry: its messages, which follow no rule in Apache, and the operation that it needs.
struct Requirement {
    operation: Operation,
    /// The number of the message that the user's name is empty.
    blank: &'static str,
    /// The beginning of the message that the user has no entry.
    no_dn: &'static str,
    /// Whether that message ends with the user's name.
    no_dn_names_user: bool,
    /// The message that the line's expression cannot be evaluated.
    bad_expression: &'static str,
    /// The beginning of the message that the user is refused.
    denied: &'static str,
}

const REQUIRE_USER: Requirement = Requirement {
    operation: Operation::Compare,
    blank: "AH01699",
    no_dn: "AH01702: auth_ldap authorize: require user",
    no_dn_names_user: false,
    bad_expression: "AH02585: auth_ldap authorize: require user: Can't evaluate expression",
    denied: "AH01707: auth_ldap authorize user",
};

const REQUIRE_GROUP: Requirement = Requirement {
    operation: Operation::Compare,
    blank: "AH01699",
    no_dn: "AH01712: auth_ldap authorize: require group",
    no_dn_names_user: true,
    bad_expression: "AH02586: auth_ldap authorize: require group: Can't evaluate expression",
    denied: "AH01720: auth_ldap authorize group",
};

const REQUIRE_DN: Requirement = Requirement {
    operation: Operation::Search,
    blank: "AH01722",
    no_dn: "AH01725: auth_ldap authorize: require dn",
    no_dn_names_user: false,
    bad_expression: "AH02587: auth_ldap authorize: require dn: Can't evaluate expression",
    denied: "AH01728: auth_ldap authorize dn",
};

const REQUIRE_ATTRIBUTE: Requirement = Requirement {
    operation: Operation::Compare,
    blank: "AH01730",
    no_dn: "AH01733: auth_ldap authorize: require ldap-attribute",
    no_dn_names_user: false,
    bad_expression: "AH02588: auth_ldap authorize: require ldap-attribute: Can't evaluate expression",
    denied: "AH01737: auth_ldap authorize attribute",
};

const REQUIRE_FILTER: Requirement = Requirement {
    operation: Operation::Search,
    blank: "AH01739",
    no_dn: "AH01742: auth_ldap authorize: require ldap-filter",
    no_dn_names_user: false,
    bad_expression: "AH02589: auth_ldap authorize: require ldap-filter: Can't evaluate require expression",
    denied: "AH01748: auth_ldap authorize filter",
};

/// What a line asks of the directory. It decides the bind user (`AuthLDAPSearchAsUser`, `AuthLDAPCompareAsUser`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Search,
    Compare,
    Both,
}

fn debug(request: &Request, text: impl AsRef<str>) {
    request.log("authnz_ldap", Level::Debug, text);
}

/// The directory, bound as the user if that is wanted and the password is known, and otherwise as configured in the
/// section.
fn directory<'a>(request: &'a Request, rules: &'a Rules, known: &UserData, operation: Operation) -> Directory<'a> {
    let as_user = match operation {
        Operation::Search => rules.searches_as_user,
        Operation::Compare => rules.compares_as_user,
        Operation::Both => rules.searches_as_user && rules.compares_as_user,
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

/// The rules, the user, and the user's data in the directory.
async fn begin(request: &mut Request, requirement: &Requirement) -> Result<(Arc<Rules>, String, UserData), Verdict> {
    let user = request.login.user.clone().ok_or(Verdict::DeniedNoUser)?;
    let rules = rules(request);
    if rules.search_base.hosts.is_empty() {
        return Err(Verdict::Unknown);
    }
    let mut known = user_data(request);
    if known.dn.is_none() {
        warn_of_blank(request, &user, requirement.blank);
        find(request, &rules, &user, requirement.operation, &mut known).await?;
    }
    if known.dn.as_ref().is_none_or(String::is_empty) {
        let about = if requirement.no_dn_names_user { format!(" for user {user}") } else { String::new() };
        let start = requirement.no_dn;
        debug(request, format!("{start}: user's DN has not been defined; failing authorization{about}"));
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
    operation: Operation,
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
    let result = directory(request, rules, known, operation).find_user(&filter).await;
    let found = match result {
        Ok(found) => found,
        Err(Status { code, reason }) => {
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

/// The user is refused. `unsure`: the answer is unknown.
fn denied(request: &Request, requirement: &Requirement, user: &str, unsure: bool) -> Verdict {
    let (start, uri) = (requirement.denied, &request.data.uri);
    debug(request, format!("{start}: authorization denied for user {user} to {uri}"));
    no(unsure)
}

async fn is_user(request: &mut Request, line: &Parsed) -> Result<Verdict, Verdict> {
    let (rules, user, known) = begin(request, &REQUIRE_USER).await?;
    let text = text_of(request, line, REQUIRE_USER.bad_expression)?;
    let dn = known.dn.as_deref().unwrap_or_default();
    let mut directory = directory(request, &rules, &known, Operation::Compare);
    // The whole line may be one name with blanks, or each word may be a name.
    let whole = std::iter::once((text.clone(), "AH01703", "AH01704"));
    let each = words(&text).into_iter().map(|word| (word, "AH01705", "AH01706"));
    let mut unsure = false;
    for (name, right, wrong) in whole.chain(each) {
        let Status { code, reason } = directory.compare(dn, &rules.attribute, &name).await;
        if code == Code::COMPARE_TRUE {
            debug(request, format!("{right}: auth_ldap authorize: require user: authorization successful"));
            drop(directory);
            return Ok(granted(request, &rules, &known));
        }
        unsure |= code.is_unsure();
        let why = code.text();
        debug(request, format!("{wrong}: auth_ldap authorize: require user: authorization failed [{reason}][{why}]"));
    }
    drop(directory);
    Ok(denied(request, &REQUIRE_USER, &user, unsure))
}

/// A list of names, or its default if it is empty.
fn or_default(names: &[String]) -> Vec<String> {
    match names {
        [] => ["member", "uniqueMember"].map(String::from).to_vec(),
        names => names.to_vec(),
    }
}

async fn is_member(request: &mut Request, line: &Parsed) -> Result<Verdict, Verdict> {
    let (rules, user, known) = begin(request, &REQUIRE_GROUP).await?;
    warn_of_blank(request, &user, "AH01709");
    let group = text_of(request, line, REQUIRE_GROUP.bad_expression)?;
    debug(request, format!("AH01713: auth_ldap authorize: require group: testing for group membership in \"{group}\""));
    match Box::pin(is_in_group(request, &rules, &known, &group)).await {
        Some(true) => Ok(granted(request, &rules, &known)),
        is => Ok(denied(request, &REQUIRE_GROUP, &user, is.is_none())),
    }
}

/// `None`: unknown.
async fn is_in_group(request: &Request, rules: &Rules, known: &UserData, group: &str) -> Option<bool> {
    let member = match rules.members_are_dns {
        true => known.dn.as_deref().unwrap_or_default(),
        false => &known.user,
    };
    let attributes = or_default(&rules.group_attributes);
    let mut asked = directory(request, rules, known, Operation::Compare);
    let (mut what, mut unsure) = (String::new(), false);
    for name in &attributes {
        debug(request, format!("AH01714: auth_ldap authorize: require group: testing for {name}: {member} ({group})"));
        let Status { code, reason } = asked.compare(group, name, member).await;
        unsure |= code.is_unsure();
        what = format!("[{reason}][{} - {}]", code.0, code.text());
        if code == Code::COMPARE_TRUE {
            let text = format!("authorization successful (attribute {name}) {what}");
            debug(request, format!("AH01715: auth_ldap authorize: require group: {text}"));
            return Some(true);
        }
        let text = format!("\"{group}\": didn't match with attr {name} {what}");
        debug(request, format!("AH01719: auth_ldap authorize: require group {text}"));
    }
    drop(asked);
    debug(
        request,
        format!("AH01716: auth_ldap authorise: require group \"{group}\": failed {what}, checking sub-groups"),
    );
    // Nested groups need both a search and a comparison.
    let mut asked = directory(request, rules, known, Operation::Both);
    let below = or_default(&rules.subgroup_attributes);
    let classes = match &rules.subgroup_classes[..] {
        [] => ["groupOfNames", "groupOfUniqueNames"].map(String::from).to_vec(),
        classes => classes.to_vec(),
    };
    let groups = Groups { attributes: &below, classes: &classes, depth: rules.depth };
    for name in &attributes {
        let Status { code, reason } = asked.compare_in_subgroups(group, name, member, &groups).await;
        unsure |= code.is_unsure();
        let what = format!("[{reason}][{} - {}]", code.0, code.text());
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

async fn has_name(request: &mut Request, line: &Parsed) -> Result<Verdict, Verdict> {
    let (rules, user, known) = begin(request, &REQUIRE_DN).await?;
    let wanted = text_of(request, line, REQUIRE_DN.bad_expression)?;
    let dn = known.dn.as_deref().unwrap_or_default();
    let mut directory = directory(request, &rules, &known, Operation::Search);
    let Status { code, reason } = directory.compare_dn(dn, &wanted, rules.compares_on_server).await;
    drop(directory);
    if code == Code::COMPARE_TRUE {
        debug(request, "AH01726: auth_ldap authorize: require dn: authorization successful");
        return Ok(granted(request, &rules, &known));
    }
    let why = code.text();
    debug(request, format!("AH01727: auth_ldap authorize: require dn \"{wanted}\": LDAP error [{reason}][{why}]"));
    Ok(denied(request, &REQUIRE_DN, &user, code.is_unsure()))
}

async fn has_attribute(request: &mut Request, line: &Parsed) -> Result<Verdict, Verdict> {
    let (rules, user, known) = begin(request, &REQUIRE_ATTRIBUTE).await?;
    let text = text_of(request, line, REQUIRE_ATTRIBUTE.bad_expression)?;
    let dn = known.dn.as_deref().unwrap_or_default();
    let mut directory = directory(request, &rules, &known, Operation::Compare);
    let (mut rest, mut unsure) = (&*text, false);
    while !rest.is_empty() {
        let name;
        (name, rest) = rest.split_once('=').unwrap_or((rest, ""));
        rest = rest.trim_start_matches('=');
        let value = next_word(&mut rest);
        debug(request, format!("AH01734: auth_ldap authorize: checking attribute {name} has value {value}"));
        let Status { code, reason } = directory.compare(dn, name, &value).await;
        if code == Code::COMPARE_TRUE {
            debug(request, "AH01735: auth_ldap authorize: require attribute: authorization successful");
            drop(directory);
            return Ok(granted(request, &rules, &known));
        }
        unsure |= code.is_unsure();
        let why = code.text();
        debug(
            request,
            format!("AH01736: auth_ldap authorize: require attribute: authorization failed [{reason}][{why}]"),
        );
    }
    drop(directory);
    Ok(denied(request, &REQUIRE_ATTRIBUTE, &user, unsure))
}

async fn passes_filter(request: &mut Request, line: &Parsed) -> Result<Verdict, Verdict> {
    let (rules, user, mut known) = begin(request, &REQUIRE_FILTER).await?;
    let text = text_of(request, line, REQUIRE_FILTER.bad_expression)?;
    if text.is_empty() {
        return Ok(denied(request, &REQUIRE_FILTER, &user, false));
    }
    debug(request, format!("AH01743: auth_ldap authorize: checking filter {text}"));
    let filter = match rules.filter(request, &known.user, Some(&text)) {
        Ok(filter) => filter,
        Err(begin) => {
            let text = format!("AH02628: auth_ldap authorize: ldap filter too long (>8192): {begin}");
            request.log("authnz_ldap", Level::Error, text);
            return Err(Verdict::Unknown);
        }
    };
    let mut asked = directory(request, &rules, &known, Operation::Search);
    let result = asked.find_user(&filter).await;
    let Status { code, reason } = match result {
        Err(status) => status,
        Ok(found) => {
            debug(request, format!("AH01744: auth_ldap authorize: checking dn match {}", found.dn));
            // The one who has passed must be the user, and nobody else.
            if rules.compares_as_user {
                asked = directory(request, &rules, &known, Operation::Compare);
            }
            let dn = known.dn.as_deref().unwrap_or_default();
            let status = asked.compare_dn(dn, &found.dn, rules.compares_on_server).await;
            known.values = Some(found.values);
            status
        }
    };
    drop(asked);
    if code == Code::COMPARE_TRUE {
        debug(request, "AH01745: auth_ldap authorize: require ldap-filter: authorization successful");
        note(request, known.clone());
        return Ok(granted(request, &rules, &known));
    }
    let (number, about) = match code {
        Code::FILTER_ERROR => ("AH01746", format!("{filter} ")),
        _ => ("AH01747", String::new()),
    };
    let what = format!("{about}authorization failed [{reason}][{}]", code.text());
    debug(request, format!("{number}: auth_ldap authorize: require ldap-filter: {what}"));
    Ok(denied(request, &REQUIRE_FILTER, &user, code.is_unsure()))
}

/// The search finds an entry, whoever the client is.
async fn is_found(request: &mut Request, line: &Parsed) -> Result<Verdict, Verdict> {
    let rules = rules(request);
    if rules.search_base.hosts.is_empty() {
        return Err(Verdict::Unknown);
    }
    let mut known = user_data(request);
    let mut unsure = false;
    let what = "AH02629: auth_ldap authorize: require ldap-search: Can't evaluate require expression";
    let filter = text_of(request, line, what)?;
    if !filter.is_empty() {
        debug(request, format!("AH02630: auth_ldap authorize: checking filter {filter}"));
        let result = directory(request, &rules, &known, Operation::Search).find_user(&filter).await;
        match result {
            Ok(found) => {
                known.dn = Some(found.dn);
                debug(request, "AH02631: auth_ldap authorize: require ldap-search: authorization successful");
                note(request, known.clone());
                return Ok(granted(request, &rules, &known));
            }
            Err(Status { code, reason }) => {
                unsure = code.is_unsure();
                let what = format!("{filter} authorization failed [{reason}][{}]", code.text());
                debug(request, format!("AH02632: auth_ldap authorize: require ldap-search: {what}"));
            }
        }
    }
    let uri = &request.data.uri;
    debug(request, format!("AH02633: auth_ldap authorize search: authorization denied for to {uri}"));
    Ok(no(unsure))
}

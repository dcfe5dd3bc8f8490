//! Users and groups of a directory: passwords (`AuthBasicProvider ldap`) and rights (`Require ldap-group …`).
//!
//! Apache manual: mod_authnz_ldap; messages and variables measured on 2.4.71.

mod charset;
mod known;
mod login;
mod rights;
mod rules;

use std::process::{Command, Stdio};
use std::sync::Arc;

use conf::directive::Args::{Flag, Iterate, Take1, Take2, Take12};
use conf::pattern::{Flags, Regex};
use conf::values::strtol;
use conf::words::words;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Refusal, on_or_off, row};
use server::authz::AuthnProvider;
use server::{Hook, Module, Server};

use self::charset::{CharsetServer, Charsets};
use self::rules::{LdapRulesDir, Rules, Secret};
use crate::ldap::directory::{Aliases, Scope};
use crate::ldap::mod_ldap::{UNENCRYPTED, refuse_tls};
use crate::ldap::url::Url;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authnz_ldap_module", source: "mod_authnz_ldap.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Start(needs_ldap),
        Hook::Authn(&LDAP),
        Hook::Authz(&rights::USER),
        Hook::Authz(&rights::GROUP),
        Hook::Authz(&rights::DN),
        Hook::Authz(&rights::ATTRIBUTE),
        Hook::Authz(&rights::FILTER),
        Hook::Authz(&rights::SEARCH),
    ],
};

const URL_HELP: &str = "URL to define LDAP connection: ldap://host[:port]/basedn[?attrib[?scope[?filter]]], with a list of hosts divided by blanks if several have the same";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthLDAPURL", Allowed::AUTH, Take12(set_url), "", URL_HELP).differs("Encrypted connections (`ldaps://`, `SSL`, `STARTTLS`) are refused."),
    row("AuthLDAPBindDN", Allowed::AUTH, Take1(|c, v| { let dn = v.to_string(); set(c, |rules| rules.bind_dn = dn) }), "", "DN to use to bind to LDAP server. If not provided, will do an anonymous bind."),
    row("AuthLDAPBindPassword", Allowed::AUTH, Take1(set_password), "", "Password to use to bind to LDAP server. If not provided, will do an anonymous bind.").differs("Programs (`exec:`) are refused in `.htaccess` files."),
    row("AuthLDAPBindAuthoritative", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.decides = on)), on_or_off(true), "Set to 'on' to return failures when user-specific bind fails - defaults to on."),
    row("AuthLDAPRemoteUserIsDN", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.user_is_dn = on)), on_or_off(false), "Set to 'on' to set the REMOTE_USER environment variable to be the full DN of the remote user. By default, this is set to off, meaning that the REMOTE_USER variable will contain whatever value the remote user sent."),
    row("AuthLDAPRemoteUserAttribute", Allowed::AUTH, Take1(|c, v| { let name = v.to_string(); set(c, |rules| rules.user_attribute = Some(name)) }), "", "Override the user supplied username and place the contents of this attribute in the REMOTE_USER environment variable."),
    row("AuthLDAPCompareDNOnServer", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.compares_on_server = on)), on_or_off(false), "Set to 'on' to force auth_ldap to do DN compares (for the \"require dn\" directive) using the server, and set it 'off' to do the compares locally (at the expense of possible false matches). See the documentation for a complete description of this option."),
    row("AuthLDAPSubGroupAttribute", Allowed::AUTH, Iterate(|c, v| add(c, v, 10, |rules| &mut rules.subgroup_attributes, "AuthLDAPSubGroupAttribute values")), "member uniqueMember", "Attribute labels used to define sub-group (or nested group) membership in groups - defaults to member and uniqueMember"),
    row("AuthLDAPSubGroupClass", Allowed::AUTH, Iterate(|c, v| add(c, v, 11, |rules| &mut rules.subgroup_classes, "AuthLDAPSubGroupClass values")), "groupOfNames groupOfUniqueNames", "LDAP objectClass values used to identify sub-group instances - defaults to groupOfNames and groupOfUniqueNames"),
    row("AuthLDAPMaxSubGroupDepth", Allowed::AUTH, Take1(|c, v| { let depth = strtol(v); set(c, |rules| rules.depth = depth) }), "10", "Maximum subgroup nesting depth to be evaluated - defaults to 10 (top-level group = 0)").differs("At most 1000 groups are examined for one line."),
    row("AuthLDAPGroupAttribute", Allowed::AUTH, Iterate(|c, v| add(c, v, 11, |rules| &mut rules.group_attributes, "AuthLDAPGroupAttribute directives")), "member uniqueMember", "A list of attribute labels used to identify the user members of groups - defaults to member and uniquemember"),
    row("AuthLDAPGroupAttributeIsDN", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.members_are_dns = on)), on_or_off(true), "If set to 'on', auth_ldap uses the DN that is retrieved from the server for subsequent group comparisons. If set to 'off', auth_ldap uses the string provided by the client directly. Defaults to 'on'."),
    row("AuthLDAPDereferenceAliases", Allowed::AUTH, Take1(set_aliases), "always", "Determines how aliases are handled during a search. Can be one of the values \"never\", \"searching\", \"finding\", or \"always\". Defaults to always."),
    row("AuthLDAPCharsetConfig", Allowed::SERVER, Take1(set_charsets), "", "Character set conversion configuration file. If omitted, character set conversion is disabled.").differs("The charsets are those of the WHATWG, in which ISO-8859-1 is windows-1252. A charset that is none of them changes nothing."),
    row("AuthLDAPAuthorizePrefix", Allowed::AUTH, Take1(|c, v| { let prefix = v.to_string(); set(c, |rules| rules.prefix = prefix) }), "AUTHORIZE_", "The prefix to add to environment variables set during successful authorization, default 'AUTHORIZE_'"),
    row("AuthLDAPInitialBindAsUser", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.binds_as_user = on)), on_or_off(false), "Set to 'on' to perform the initial DN lookup with the basic auth credentials instead of anonymous or hard-coded credentials"),
    row("AuthLDAPInitialBindPattern", Allowed::AUTH, Take2(set_pattern), "", "The regex and substitution to determine a username that can bind based on an HTTP basic auth username"),
    row("AuthLDAPSearchAsUser", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.searches_as_user = on)), on_or_off(false), "Set to 'on' to perform authorization-based searches with the users credentials, when this module has also performed authentication.  Does not affect nested groups lookup."),
    row("AuthLDAPCompareAsUser", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.compares_as_user = on)), on_or_off(false), "Set to 'on' to perform authorization-based compares with the users credentials, when this module has also performed authentication.  Does not affect nested groups lookups."),
];

static LDAP: AuthnProvider = AuthnProvider {
    name: "ldap",
    check: |request, user, password| Box::pin(login::check_password(request, user, password)),
    realm_hash: None,
};

fn set(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut Rules)) -> Outcome {
    let origin = cmd.origin();
    change(Arc::make_mut(cmd.dir.edit::<LdapRulesDir>().rules.edit(&origin)));
    Ok(())
}

fn add(cmd: &mut Cmd<'_>, value: &str, most: usize, list: fn(&mut Rules) -> &mut Vec<String>, what: &str) -> Outcome {
    let mut is_full = false;
    set(cmd, |rules| {
        let list = list(rules);
        is_full = list.len() >= most;
        list.push(value.to_string());
    })?;
    if is_full { Err(format!("Too many {what}").into()) } else { Ok(()) }
}

fn set_url(cmd: &mut Cmd<'_>, text: &str, mode: Option<&str>) -> Outcome {
    let url = Url::parse(text)?;
    mode.map_or(Ok(()), |mode| refuse_tls(cmd, mode, "LDAP connection mode setting"))?;
    if url.is_secure {
        return Err(format!("{}: {UNENCRYPTED}", cmd.row.name).into());
    }
    let whole = text.to_string();
    set(cmd, |rules| {
        // A second line puts its hosts in front.
        rules.search_base.hosts = url.hosts.iter().chain(rules.search_base.hosts.iter()).cloned().collect();
        rules.search_base.url = whole;
        rules.search_base.base = url.base;
        rules.search_base.scope = url.scope.filter(|scope| *scope == Scope::OneLevel).unwrap_or(Scope::Subtree);
        rules.attribute = url.attributes.first().map_or("uid", String::as_str).to_string();
        rules.search_base.attributes = url.attributes;
        rules.filter = match url.filter {
            // The outermost parentheses are added again when the filter is composed.
            Some(filter) if filter.starts_with('(') => {
                let mut inner = filter.chars();
                inner.next();
                inner.next_back();
                inner.as_str().to_string()
            }
            Some(filter) => filter,
            None => "objectclass=*".into(),
        };
    })
}

fn set_password(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let password = match text.strip_prefix("exec:").filter(|command| !command.is_empty()) {
        Some(_) if cmd.place.htaccess => {
            return Err("AuthLDAPBindPassword: programs are not run for .htaccess files (exec:)".into());
        }
        Some(command) => first_line_of(cmd, command)?,
        None => http::text::to_bytes(text).into_owned(),
    };
    if password.is_empty() {
        return Err("Empty passwords are invalid for AuthLDAPBindPassword".into());
    }
    set(cmd, |rules| rules.bind_password = Secret(password))
}

/// The first line of a program's output.
fn first_line_of(cmd: &Cmd<'_>, command: &str) -> Result<Vec<u8>, String> {
    let failed = || format!("Unable to get bind password from exec of {command}");
    let words = words(command);
    let (program, arguments) = words.split_first().ok_or_else(failed)?;
    let program = server::paths::os_path(&cmd.context.server_relative(program));
    let mut started = Command::new(program);
    started.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    // A program that cannot be started gives no password, like one without output.
    let output = started.output().map(|output| output.stdout).unwrap_or_default();
    Ok(output.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec())
}

fn set_aliases(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let aliases = match text {
        "never" => Aliases::Never,
        "searching" => Aliases::Searching,
        "finding" => Aliases::Finding,
        "always" => Aliases::Always,
        other if other.eq_ignore_ascii_case("off") => Aliases::Never,
        other if other.eq_ignore_ascii_case("on") => Aliases::Always,
        _ => return Err("Unrecognized value for AuthLDAPDereferenceAliases directive".into()),
    };
    set(cmd, |rules| rules.search_base.aliases = aliases)
}

fn set_pattern(cmd: &mut Cmd<'_>, pattern: &str, template: &str) -> Outcome {
    let compiled = Regex::new(pattern, Flags::default()).map_err(|error| {
        let message = format!("AuthLDAPInitialBindPattern: cannot compile regular expression '{pattern}'");
        Refusal::pattern(1, 0, &error, message)
    })?;
    let template = template.to_string();
    set(cmd, |rules| rules.pattern = Some((compiled, template)))
}

fn set_charsets(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    let charsets = Charsets::read(&path)?;
    cmd.server_set(|s: &mut CharsetServer| &mut s.charsets, Arc::new(charsets))
}

fn needs_ldap(server: &Server) -> Result<(), String> {
    if server.infos().iter().any(|info| info.id == "ldap_module") {
        return Ok(());
    }
    Err("AH01749: Module mod_ldap missing. Mod_ldap (aka. util_ldap) must be loaded in order for mod_authnz_ldap to \
         function properly"
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives() {
        let inside = |line: &str| format!("<Location />\n{line}\n</Location>");
        let many = |name: &str| inside(&format!("{name} a b c d e f g h i j k l"));
        crate::testing::check(&[
            (&inside("AuthLDAPURL ldap://h/dc=x?uid?one?(a=b) NONE\nAuthLDAPBindDN cn=x\nAuthLDAPBindPassword y"), ""),
            (&inside("AuthLDAPURL http://h/"), "The scheme was not recognised as a valid LDAP URL scheme."),
            (
                &inside("AuthLDAPURL ldap://h/ BOGUS"),
                "Invalid LDAP connection mode setting: must be one of NONE, SSL, or TLS/STARTTLS",
            ),
            (
                &inside("AuthLDAPURL ldap://h/ STARTTLS"),
                "AuthLDAPURL: encrypted connections to directories (ldaps://, SSL, STARTTLS) are not supported yet, \
                 and the server does not fall back to clear text",
            ),
            (
                &inside("AuthLDAPURL ldaps://h/"),
                "AuthLDAPURL: encrypted connections to directories (ldaps://, SSL, STARTTLS) are not supported yet, \
                 and the server does not fall back to clear text",
            ),
            (&inside("AuthLDAPBindPassword \"exec:/bin/echo x y\""), ""),
            (&inside("AuthLDAPBindPassword exec:/bin/false"), "Empty passwords are invalid for AuthLDAPBindPassword"),
            (&inside("AuthLDAPBindPassword exec:/none"), "Empty passwords are invalid for AuthLDAPBindPassword"),
            (
                &inside("AuthLDAPDereferenceAliases Never"),
                "Unrecognized value for AuthLDAPDereferenceAliases directive",
            ),
            (&inside("AuthLDAPDereferenceAliases OFF\nAuthLDAPMaxSubGroupDepth x"), ""),
            (
                &inside("AuthLDAPInitialBindPattern ( x"),
                "AuthLDAPInitialBindPattern: cannot compile regular expression '('",
            ),
            (&many("AuthLDAPGroupAttribute"), "Too many AuthLDAPGroupAttribute directives"),
            (&many("AuthLDAPSubGroupAttribute"), "Too many AuthLDAPSubGroupAttribute values"),
            (&many("AuthLDAPSubGroupClass"), "Too many AuthLDAPSubGroupClass values"),
            (
                &inside("Require ldap-user %{FOO}"),
                "Cannot parse expression in require line: Variable 'FOO' does not exist",
            ),
            (&inside("Require ldap-group"), ""),
        ]);
    }

    #[test]
    fn names_to_bind_with() {
        let mut rules = Rules::default();
        assert_eq!(rules.bind_name("joe").ok().as_deref(), Some("joe"));
        rules.pattern = Some((Regex::new("^(.*)@(.*)$", Flags::default()).expect("a pattern"), "$2\\$1".into()));
        assert_eq!(rules.bind_name("joe@x").ok().as_deref(), Some("x$1"));
        rules.pattern = Some((Regex::new("(.+)", Flags::default()).expect("a pattern"), "uid=$1,dc=x".into()));
        assert_eq!(rules.bind_name("joe").ok().as_deref(), Some("uid=joe,dc=x"));
        assert_eq!(rules.bind_name("").ok().as_deref(), Some(""));
    }
}

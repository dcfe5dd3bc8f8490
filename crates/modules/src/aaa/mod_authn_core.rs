//! The way users log in (`AuthType`), the realm (`AuthName`), and aliases for password sources.
//!
//! Apache manual: mod_authn_core.

use std::borrow::Cow;

use conf::directive::Args::{Section, Take1};
use conf::words::next_word;
use conf::{
    Allowed, Cmd, Directive, Failure, Keyed, Level, ModuleInfo, Outcome, Refusal, Setting, SettingsMap, row, settings,
};
use server::PhaseHook::Now;
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::module::find_authn;
use server::{Flow, Hook, Layer, Module, Order, Phase, Request};

use super::Text;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authn_core_module", source: "mod_authn_core.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::CheckUser, Order::Last, Now(unclaimed))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthType", Allowed::AUTH, Take1(set_type), "", "an HTTP authorization type (e.g., \"Basic\")"),
    row("AuthName", Allowed::AUTH, Take1(set_name), "", "the authentication realm (e.g. \"Members Only\")"),
    row("<AuthnProviderAlias", Allowed::GLOBAL, Section(alias), "", "container for grouping an authentication provider's directives under a provider alias"),
];

settings! {
    /// The module's settings of a section.
    pub struct AuthnDir {
        auth_type: Setting<Text>,
        auth_name: Setting<Text>,
    }
}

settings! {
    /// Aliases for password sources, for later lines.
    pub struct Aliases {
        named: Keyed<String, Source>,
    }
}

/// A password source, with its settings under this name.
#[derive(Clone)]
pub struct Source {
    provider: &'static AuthnProvider,
    layer: Option<Layer>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.provider.name)
    }
}

impl Source {
    /// The source of that name, as known at this line.
    pub(super) fn named(cmd: &Cmd<'_>, name: &str) -> Result<Source, String> {
        let language = &cmd.context.language;
        if let Some(source) = language.kept.get::<Aliases>().named.get(name) {
            return Ok(source.clone());
        }
        let provider = find_authn(language.loaded(), name);
        let provider = provider.ok_or_else(|| format!("Unknown Authn provider: {name}"))?;
        Ok(Source { provider, layer: None })
    }

    /// A source with settings of its own.
    pub(super) fn layered(provider: &'static AuthnProvider, layer: Layer) -> Source {
        Source { provider, layer: Some(layer) }
    }

    /// Checks a password.
    pub(super) async fn check(&self, request: &mut Request, user: &str, password: &str) -> Authn {
        let outside = self.layer.as_ref().map(|layer| request.enter(layer));
        let answer = (self.provider.check)(request, user, password).await;
        outside.into_iter().for_each(|outside| request.leave(outside));
        answer
    }

    /// Whether this source has digests of users.
    pub(super) fn has_realm_hash(&self) -> bool {
        self.provider.realm_hash.is_some()
    }

    /// The digest of a user; `None`: this source has none at all.
    pub(super) async fn realm_hash(
        &self,
        request: &mut Request,
        user: &str,
        realm: &str,
        digest: RealmDigest,
    ) -> Option<Result<String, Authn>> {
        let ask = self.provider.realm_hash?;
        let outside = self.layer.as_ref().map(|layer| request.enter(layer));
        let answer = ask(request, user, realm, digest).await;
        outside.into_iter().for_each(|outside| request.leave(outside));
        Some(answer)
    }
}

/// The sources that a section names; the password file if it names none. `None`: there is no source of that kind.
pub(super) fn sources_or_file<'a>(request: &Request, named: &'a [Source]) -> Option<Cow<'a, [Source]>> {
    if !named.is_empty() {
        return Some(Cow::Borrowed(named));
    }
    find_authn(request.server.infos(), "file").map(|file| Cow::Owned(vec![Source { provider: file, layer: None }]))
}

/// Names a password source, for later lines.
pub(super) fn define(cmd: &mut Cmd<'_>, name: &str, source: Source) {
    let origin = cmd.origin();
    cmd.context.language.kept.edit::<Aliases>().named.set(name.to_string(), source, &origin);
}

fn set_type(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let text =
        Text::parse(cmd, value).map_err(|why| format!("Cannot parse expression '{value}' in AuthType: {why}"))?;
    cmd.set(|d: &mut AuthnDir| &mut d.auth_type, text)
}

fn set_name(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let text =
        Text::parse(cmd, value).map_err(|why| format!("Cannot parse expression '{value}' in AuthName: {why}"))?;
    cmd.set(|d: &mut AuthnDir| &mut d.auth_name, text)
}

/// `<AuthnProviderAlias file NAME>`.
fn alias(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    let mut rest = argument;
    let (base, name) = (next_word(&mut rest), next_word(&mut rest));
    if base.is_empty() || name.is_empty() {
        return Err(Refusal::missing("<AuthnProviderAlias> directive requires additional arguments").into());
    }
    let mut dir = SettingsMap::default();
    let place = cmd.inner_place(Allowed::SECTION.or(Allowed::AUTH), None);
    cmd.apply_children(None, &mut dir, &place)?;
    if base.eq_ignore_ascii_case(&name) {
        return Err("The alias provider name must be different from the base provider name.".into());
    }
    let loaded = cmd.context.language.loaded();
    let (same, provider) = (find_authn(loaded, &name), find_authn(loaded, &base));
    let aliases = cmd.context.language.kept.edit::<Aliases>();
    if same.is_some() || aliases.named.get(&name).is_some() {
        let text = format!(
            "The alias provider {name} has already be registered previously as either a base provider or an alias \
             provider."
        );
        return Err(Refusal::argument(2, text).into());
    }
    let provider = provider.ok_or_else(|| Refusal::argument(1, format!("Unknown Authn provider: {base}")))?;
    let source = Source { provider, layer: Some(Layer::new(dir)) };
    aliases.named.set(name, source, &cmd.node.origin);
    Ok(())
}

/// An `AuthType` without a value: the cause was logged, and the caller must deny.
#[derive(Debug)]
pub(crate) struct NoValue;

/// `AuthType`; `None` if it is unset, or `None`.
pub(crate) fn auth_type(request: &Request) -> Result<Option<String>, NoValue> {
    let Some(text) = request.dir::<AuthnDir>().auth_type.get() else { return Ok(None) };
    let what = "AH02834: AuthType expression could not be evaluated";
    let name = text.value(request, "authn_core", what).ok_or(NoValue)?;
    Ok(Some(name).filter(|name| !name.eq_ignore_ascii_case("None")))
}

/// `AuthName`, with quotes escaped; `None` if it is unset or has no value.
pub(super) fn auth_name(request: &Request) -> Option<String> {
    let text = request.dir::<AuthnDir>().auth_name.get()?;
    let name = text.value(request, "authn_core", "AH02835: AuthName expression could not be evaluated")?;
    Some(escape_quotes(&name))
}

/// Puts a backslash before each quote that has none yet.
fn escape_quotes(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => {
                escaped.push('\\');
                escaped.extend(chars.next());
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Authentication is required, and no module provides it. Without an `AuthType` the core reports that.
fn unclaimed(request: &mut Request) -> Flow {
    match auth_type(request) {
        Ok(Some(name)) => {
            let text = format!("AH01796: AuthType {name} configured without corresponding module");
            request.log("authn_core", Level::Error, text);
            Flow::Status(500)
        }
        Ok(None) | Err(NoValue) => Flow::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_escaped_once() {
        for (text, escaped) in [(r#"a "b""#, r#"a \"b\""#), (r#"a\"b"#, r#"a\"b"#), (r"a\\", r"a\\"), (r"a\", r"a\")] {
            assert_eq!(escape_quotes(text), escaped);
        }
    }

    #[test]
    fn directives() {
        crate::testing::check(&[
            ("<Location />\nAuthType Basic\nAuthName \"a b\"\n</Location>", ""),
            (
                "<Location />\nAuthType %{FOO}\n</Location>",
                "Cannot parse expression '%{FOO}' in AuthType: Variable 'FOO' does not exist",
            ),
            (
                "<Location />\nAuthName a b\n</Location>",
                "AuthName takes one argument, the authentication realm (e.g. \"Members Only\")",
            ),
            (
                "<AuthnProviderAlias file>\n</AuthnProviderAlias>",
                "<AuthnProviderAlias> directive requires additional arguments",
            ),
            (
                "<AuthnProviderAlias file FILE>\n</AuthnProviderAlias>",
                "The alias provider name must be different from the base provider name.",
            ),
            (
                "<VirtualHost *>\n<AuthnProviderAlias file f>\n</AuthnProviderAlias>\n</VirtualHost>",
                "<AuthnProviderAlias> cannot occur within <VirtualHost> section",
            ),
            (
                "<AuthnProviderAlias file f>\nOptions All\n</AuthnProviderAlias>",
                "Options not allowed in <AuthnProviderAlias> context",
            ),
        ]);
    }
}

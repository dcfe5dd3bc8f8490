//! The functions of the directives, and their errors.

use std::sync::Arc;
use std::time::Duration;

use conf::expr::Expr;
use conf::fnmatch::is_pattern;
use conf::pattern::{Flags, Regex};
use conf::values::{atoi, number, one_of};
use conf::words::{next_word, words};
use conf::{Allowed, Cmd, Failure, InArgument as _, Outcome, Refusal, SettingsMap};
use server::{Layer, TO_BACKEND};

use super::ajp_settings::buffer;
use super::balancer_lines::{BalancerLine, BalancerParameters, NamedLine, PREFIX};
use super::health::{Health, HealthExpr, HealthTemplate};
use super::schemes::SCHEMES;
use super::settings::{ErrorOverride, Mapping, Matcher, Pass, ProxyDir, ProxySection, ProxyServer, Reverse, Url, Via};
use super::target::{InvalidTarget, Target};
use super::worker::{Parameters, Worker};

/// The message for an unsupported protocol.
pub(super) fn not_spoken(scheme: &str) -> String {
    let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).filter(|name| *name != BALANCER).collect();
    format!("Tsubame does not speak {scheme} to backends yet; it speaks {}", names.join(", "))
}

/// Parses the URL of a backend with a known protocol.
fn target(text: &str) -> Result<Target, String> {
    known(text, Target::parse(text))
}

/// The same for a URL that was `parsed`.
fn known(text: &str, parsed: Result<Target, InvalidTarget>) -> Result<Target, String> {
    let target = parsed.map_err(|bad| match bad {
        InvalidTarget::Socket => "ProxyPass|ProxyPassMatch uses an invalid \"unix:\" URL".to_string(),
        InvalidTarget::Relative => format!("ProxyPass URL must be absolute!: {text}"),
        InvalidTarget::Authority => format!("ProxyPass Unable to parse URL: {text}"),
    })?;
    match SCHEMES.iter().any(|scheme| scheme.name == target.scheme) {
        true => Ok(target),
        false => Err(not_spoken(&target.scheme)),
    }
}

/// `SetHandler "proxy:URL"`: the file's path is appended to the URL.
pub(super) fn check_handler(name: &str) -> Result<(), String> {
    match name.strip_prefix(TO_BACKEND) {
        None => Ok(()),
        Some(url) => target(url).map(drop).map_err(|why| format!("SetHandler {name}: {why}")),
    }
}

/// The canonical form of a URL: the path of a socket may be relative to `DefaultRuntimeDir`, and a port may be omitted.
fn absolute(cmd: &Cmd<'_>, mut target: Target) -> Target {
    let own = SCHEMES.iter().find(|scheme| scheme.name == target.scheme).map(|scheme| scheme.port);
    target.port = target.port.filter(|port| Some(*port) != own);
    target.socket = target.socket.map(|path| cmd.context.runtime_relative(&path));
    target
}

pub(super) fn add_pass(cmd: &mut Cmd<'_>, all: &[String], is_regex: bool) -> Outcome {
    for outer in ["<Directory", "<DirectoryMatch", "<Files", "<FilesMatch", "<If", "<ElseIf", "<Else"] {
        if cmd.place.inside(outer) {
            return Err(cmd.cannot_occur(&format!("{outer}> section")));
        }
    }
    let mut rest = all.iter().map(String::as_str).peekable();
    let in_location =
        cmd.place.path.clone().filter(|_| ["<Location", "<LocationMatch"].iter().any(|name| cmd.place.inside(name)));
    let is_regex = match rest.next_if_eq(&"~") {
        Some(_) if is_regex => return Err(Refusal::argument(1, "ProxyPassMatch invalid syntax ('~' usage).")),
        tilde => is_regex || tilde.is_some(),
    };
    let number_of_path = 1 + usize::from(all.first().is_some_and(|first| first == "~"));
    let path = match &in_location {
        Some(path) => Some(path.to_string()),
        None => rest.next().map(str::to_string),
    };
    let (Some(path), Some(url)) = (path, rest.next()) else {
        return Err(Refusal::missing("ProxyPass|ProxyPassMatch needs a path when not defined in a location"));
    };
    let number_of_url = number_of_path + usize::from(in_location.is_none());
    let Options { nocanon, interpolate, mapping, parameters, of_balancer } =
        pass_options(cmd, rest.zip(number_of_url + 1..), url, in_location.is_some())?;
    let matcher = match is_regex {
        false => Matcher::Prefix(path),
        true => Matcher::Pattern(regex(number_of_path, &path, "Regular expression could not be compiled.")?),
    };
    let url = match url {
        "!" => None,
        url => {
            let parsed = if is_regex { Target::parse_with_groups(url) } else { Target::parse(url) };
            let target = absolute(cmd, known(url, parsed).in_argument(number_of_url)?);
            match target.scheme == BALANCER {
                true => define_balancer(cmd, target.host, BalancerLine::Parameters(of_balancer)),
                false => define(cmd, Worker::new(target, parameters)),
            }
            Some(url.to_string())
        }
    };
    let pass = Arc::new(Pass { matcher, url, nocanon, interpolate, mapping, in_host: cmd.place.virtual_host });
    let origin = cmd.origin();
    if mapping.is_some() {
        cmd.server.edit::<ProxyServer>().maps_undecoded.set(true, &origin);
    }
    match in_location {
        Some(_) => cmd.dir.edit::<ProxyDir>().pass.set(pass, &origin),
        None => cmd.server.edit::<ProxyServer>().passes.push(pass, &origin),
    }
    Ok(())
}

/// The words after the URL of a `ProxyPass` line.
#[derive(Default)]
struct Options {
    nocanon: bool,
    interpolate: bool,
    mapping: Option<Mapping>,
    parameters: Parameters,
    of_balancer: BalancerParameters,
}

/// Parses the words after `url`, each with the number of its argument.
fn pass_options<'a>(
    cmd: &Cmd<'_>,
    words: impl Iterator<Item = (&'a str, usize)>,
    url: &str,
    in_location: bool,
) -> Result<Options, Refusal> {
    const SYNTAX: &str = "Invalid ProxyPass|ProxyPassMatch parameter. Parameter must be in the form 'key=value'.";
    let mut options = Options::default();
    for (word, number) in words {
        match word.to_ascii_lowercase().as_str() {
            "nocanon" => options.nocanon = true,
            "interpolate" => options.interpolate = true,
            // The variables of FastCGI have no query in a URL.
            "noquery" => {}
            _ => match word.split_once('=') {
                None if in_location && url.starts_with('/') => {
                    let message = "ProxyPass|ProxyPassMatch can not have a path when defined in a location.";
                    return Err(Refusal::argument(1, message));
                }
                None => return Err(Refusal::argument(number, SYNTAX)),
                Some((key, value)) if key.eq_ignore_ascii_case("mapping") => {
                    let table = [("encoded", Mapping::Encoded), ("servlet", Mapping::Servlet)];
                    options.mapping = Some(one_of(value, &table).ok_or("unknown mapping").in_argument(number)?);
                }
                Some(_) if url == "!" => {}
                Some((key, value)) => {
                    let set = match is_balancer(url) {
                        true => options.of_balancer.set(key, value),
                        false => set_parameter(cmd, &mut options.parameters, key, value),
                    };
                    set.map_err(|why| format!("ProxyPass {why}")).in_argument(number)?;
                }
            },
        }
    }
    Ok(options)
}

/// Sets `key=value` of a backend. `Err`: the message after the name of the directive.
fn set_parameter(cmd: &Cmd<'_>, parameters: &mut Parameters, key: &str, value: &str) -> Result<(), String> {
    let is_health = key.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("hc"));
    match is_health && cmd.context.language.has_module("proxy_hcheck_module") {
        true => set_health(cmd, &mut parameters.health, key, value),
        false => parameters.set(key, value),
    }
}

fn set_health(cmd: &Cmd<'_>, health: &mut Health, key: &str, value: &str) -> Result<(), String> {
    let conf = cmd.server.get::<ProxyServer>();
    health.set(key, value, &conf.health_templates, &conf.health_exprs)
}

/// Apache accepts the directives of mod_proxy_hcheck in `.htaccess`, where they come too late.
fn before_start(cmd: &Cmd<'_>) -> Outcome {
    match cmd.place.htaccess {
        true => Err(format!("{} not allowed here: checks begin when the server starts", cmd.row.name).into()),
        false => Ok(()),
    }
}

/// `ProxyHCExpr`
pub(crate) fn add_health_expr(cmd: &mut Cmd<'_>, mut rest: &str) -> Outcome {
    before_start(cmd)?;
    let name = next_word(&mut rest);
    if name.is_empty() {
        return Err(Refusal::missing("Missing expression name for ProxyHCExpr"));
    }
    let text = match in_braces(rest) {
        Some((inner, behind)) => {
            rest = behind;
            inner.to_string()
        }
        None => next_word(&mut rest),
    };
    if text.is_empty() {
        return Err(Refusal::missing("Missing expression for ProxyHCExpr"));
    }
    if !rest.is_empty() {
        return Err(Refusal::surplus(3, "error: extra parameter(s)"));
    }
    let expr = Expr::parse_with(&text, cmd.expr_options()).map_err(|error| {
        Refusal::expression(2, 0, &error, format!("Could not parse expression \"{text}\": {error}"))
    })?;
    let one = Arc::new(HealthExpr { name, expr });
    cmd.server_push(|s: &mut ProxyServer| &mut s.health_exprs, one)
}

/// The text between a brace at the beginning and the one that closes it, and what comes behind. Braces are quotes here, too.
fn in_braces(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('{')?;
    let mut depth = 1;
    let end = inner.find(|c| {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    Some((&inner[..end], inner[end + 1..].trim_start()))
}

/// `ProxyHCTemplate`
pub(crate) fn add_health_template(cmd: &mut Cmd<'_>, all: &[String]) -> Outcome {
    before_start(cmd)?;
    let Some((name, pairs)) = all.split_first() else {
        return Err(Refusal::missing("Missing template name for ProxyHCTemplate"));
    };
    let mut health = Health::default();
    for (pair, number) in pairs.iter().zip(2..) {
        let message = "Invalid ProxyHCTemplate parameter. Parameter must be in the form 'key=value'";
        let (key, value) = pair.split_once('=').ok_or(message).in_argument(number)?;
        let set = set_health(cmd, &mut health, key, value);
        set.map_err(|why| format!("ProxyHCTemplate: {why} {key}={value}; {name}")).in_argument(number)?;
    }
    let one = Arc::new(HealthTemplate { name: name.clone(), health });
    cmd.server_push(|s: &mut ProxyServer| &mut s.health_templates, one)
}

/// The regular expression in argument `number`.
fn regex(number: usize, pattern: &str, message: &str) -> Result<Regex, Refusal> {
    Regex::new(pattern, Flags::default()).map_err(|error| Refusal::pattern(number, 0, &error, message))
}

/// `ProxyPassReverse`
pub(super) fn add_reverse(cmd: &mut Cmd<'_>, all: &[String]) -> Outcome {
    let in_location =
        cmd.place.path.clone().filter(|_| ["<Location", "<LocationMatch"].iter().any(|name| cmd.place.inside(name)));
    let is_interpolate = |word: &String| word.eq_ignore_ascii_case("interpolate");
    let (outer, inner, interpolate) = match (in_location, all) {
        (Some(path), [url]) => (path.to_string(), url, false),
        (Some(path), [url, word]) if is_interpolate(word) => (path.to_string(), url, true),
        (Some(_), _) => {
            return Err(Refusal::argument(2, "ProxyPassReverse can not have a path when defined in a location"));
        }
        (None, [path, url]) => (path.clone(), url, false),
        (None, [path, url, word]) if is_interpolate(word) => (path.clone(), url, true),
        (None, _) => return Err(Refusal::missing("ProxyPassReverse needs a path when not defined in a location")),
    };
    let reverse = Reverse { inner: inner.clone(), outer, interpolate };
    cmd.push(|d: &mut ProxyDir| &mut d.reverse, Arc::new(reverse))
}

/// `ProxyPassReverseCookiePath` and `ProxyPassReverseCookieDomain`: the words after the directive.
pub(super) fn reverse(inner: &str, outer: &str, word: Option<&str>) -> Result<Arc<Reverse>, Refusal> {
    let interpolate = match word {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("interpolate") => true,
        Some(_) => return Err(Refusal::argument(3, "the third argument can only be interpolate")),
    };
    Ok(Arc::new(Reverse { inner: inner.to_string(), outer: outer.to_string(), interpolate }))
}

/// `ProxyVia`
pub(super) fn via(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("off", Via::Off), ("on", Via::On), ("full", Via::Full), ("block", Via::Block)];
    let via = one_of(value, &table).ok_or("ProxyVia must be one of: off | on | full | block")?;
    cmd.server_set(|s: &mut ProxyServer| &mut s.via, via)
}

/// `ProxyStatus`
pub(super) fn status(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("off", false), ("on", true), ("full", true)];
    let on = one_of(value, &table).ok_or("ProxyStatus must be one of: off | on | full")?;
    cmd.server_set(|s: &mut ProxyServer| &mut s.status, on)
}

/// `ProxyMaxForwards`
pub(super) fn max_forwards(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut ProxyServer| &mut s.max_forwards, atoi(value))
}

/// The scheme of balancers.
const BALANCER: &str = "balancer";

/// Whether a URL is that of a balancer.
fn is_balancer(url: &str) -> bool {
    url.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn define_balancer(cmd: &mut Cmd<'_>, name: String, line: BalancerLine) {
    let origin = cmd.origin();
    let line = NamedLine { name, in_host: cmd.place.virtual_host, line };
    cmd.server.edit::<ProxyServer>().balancers.push(Arc::new(line), &origin);
}

/// `BalancerMember`, in a `<Proxy>` section or after the balancer's URL.
pub(super) fn add_member(cmd: &mut Cmd<'_>, all: &[String]) -> Outcome {
    let mut words = all.iter().zip(1..);
    let balancer = match cmd.place.path.as_deref() {
        Some(outer) => Some((outer.to_string(), 1)),
        None => words.next().map(|(word, number)| (word.clone(), number)),
    };
    let (Some((balancer, number)), Some((url, number_of_url))) = (balancer, words.next()) else {
        return Err(Refusal::missing("BalancerMember must define remote proxy server"));
    };
    if !is_balancer(&balancer) {
        return Err(Refusal::argument(number, format!("BalancerMember Bad syntax for a balancer name ({balancer})")));
    }
    let name = target(&balancer).in_argument(number)?.host;
    let member = Target::parse(url).map_err(|bad| match bad {
        InvalidTarget::Socket => format!("BalancerMember Invalid \"unix:\" URL: {url}"),
        InvalidTarget::Relative => format!("BalancerMember URL must be absolute!: {url}"),
        InvalidTarget::Authority => format!("BalancerMember Unable to parse URL: {url}"),
    });
    let member = member.in_argument(number_of_url)?;
    if !SCHEMES.iter().any(|scheme| scheme.name == member.scheme && scheme.name != BALANCER) {
        return Err(Refusal::argument(number_of_url, not_spoken(&member.scheme)));
    }
    let mut parameters = Parameters::default();
    for (word, number) in words {
        let message = "Invalid BalancerMember parameter. Parameter must be in the form 'key=value'";
        let (key, value) = word.split_once('=').ok_or(message).in_argument(number)?;
        let set = set_parameter(cmd, &mut parameters, key, value);
        set.map_err(|why| format!("BalancerMember {why}")).in_argument(number)?;
    }
    let target = absolute(cmd, member);
    define_balancer(cmd, name, BalancerLine::Member(Box::new(Worker::new(target, parameters))));
    Ok(())
}

fn define(cmd: &mut Cmd<'_>, worker: Worker) {
    let origin = cmd.origin();
    cmd.server.edit::<ProxyServer>().workers.push(Arc::new(worker), &origin);
}

/// `<Proxy>` and `<ProxyMatch>`, which may have settings of a backend after its URL.
pub(super) fn section(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    let name = cmd.row.name;
    let words = words(argument);
    let mut all = words.iter().zip(1..).peekable();
    let tilde = all.next_if(|(word, _)| *word == "~").is_some();
    let url = all.next().map(|(url, _)| url.clone());
    let url = url.ok_or_else(|| Refusal::missing(format!("{name}> directive requires additional arguments")))?;
    let is_regex = tilde || name.eq_ignore_ascii_case("<ProxyMatch");
    let matcher = match () {
        () if is_regex => Url::Pattern(regex(1 + usize::from(tilde), &url, "Regex could not be compiled")?),
        () if is_pattern(&url) => Url::Wild(url.clone()),
        () => Url::Prefix(url.clone()),
    };
    if all.peek().is_some() {
        match &matcher {
            Url::Pattern(_) => {
                return Err(format!("{name}> arguments are not supported for regular expressions.").into());
            }
            Url::Wild(_) => return Err(format!("{name}> arguments are not supported for wildchar url.").into()),
            Url::Prefix(url) if !url.contains(':') => {
                return Err(format!("{name}> arguments are not supported for non url.").into());
            }
            Url::Prefix(_) => {}
        }
        let message = "Invalid Proxy parameter. Parameter must be in the form 'key=value'";
        set_all(cmd, &url, all, "Proxy ", message)?;
    }
    let place = cmd.inner_place(Allowed::IN_SECTION.or(Allowed::PROXY), Some(&url));
    let mut dir = SettingsMap::default();
    cmd.apply_children(None, &mut dir, &place)?;
    let section = Arc::new(ProxySection { matcher, layer: Layer::new(dir) });
    Ok(cmd.server_push(|s: &mut ProxyServer| &mut s.sections, section)?)
}

/// `ProxySet`, in a `<Proxy>` section or after the URL.
pub(super) fn parameters(cmd: &mut Cmd<'_>, all: &[String]) -> Outcome {
    let message = "Invalid ProxySet parameter. Parameter must be in the form 'key=value'";
    let inside = cmd.place.inside("<Proxy") || cmd.place.inside("<ProxyMatch");
    let outer = cmd.place.path.clone().filter(|_| inside);
    if let Some(url) = outer {
        return set_all(cmd, &url, all.iter().zip(1..), "ProxySet ", message);
    }
    let Some((url, rest)) = all.split_first() else {
        return Err(Refusal::missing("ProxySet takes a URL and parameters"));
    };
    if is_balancer(url) {
        let name = target(url).in_argument(1)?.host;
        if !cmd.server.get::<ProxyServer>().balancers.iter().any(|line| line.name == name) {
            return Err(Refusal::argument(1, format!("ProxySet can not find '{url}' Balancer.")));
        }
        return set_all(cmd, url, rest.iter().zip(2..), "ProxySet ", message);
    }
    let known = target(url).map(|target| absolute(cmd, target));
    let workers = &cmd.server.get::<ProxyServer>().workers;
    if !known.is_ok_and(|known| workers.iter().any(|worker| worker.target == known)) {
        return Err(Refusal::argument(1, format!("ProxySet can not find '{url}' Worker.")));
    }
    set_all(cmd, url, rest.iter().zip(2..), "ProxySet ", message)
}

/// Sets the parameters of a backend. Each pair comes with its number among the directive's arguments.
fn set_all<'w>(
    cmd: &mut Cmd<'_>,
    url: &str,
    pairs: impl Iterator<Item = (&'w String, usize)>,
    directive: &str,
    message: &str,
) -> Outcome {
    let target = absolute(cmd, target(url)?);
    let (mut parameters, mut of_balancer) = (Parameters::default(), BalancerParameters::default());
    for (word, number) in pairs {
        let (key, value) = word.split_once('=').ok_or(message).in_argument(number)?;
        let set = match target.scheme == BALANCER {
            true => of_balancer.set(key, value),
            false => set_parameter(cmd, &mut parameters, key, value),
        };
        set.map_err(|why| format!("{directive}{why}")).in_argument(number)?;
    }
    match target.scheme == BALANCER {
        true => define_balancer(cmd, target.host, BalancerLine::Parameters(of_balancer)),
        false => define(cmd, Worker::new(target, parameters)),
    }
    Ok(())
}

pub(super) fn error_override(cmd: &mut Cmd<'_>, all: &[String]) -> Outcome {
    let mut all = all.iter().zip(1..);
    let on = match all.next().map(|(word, _)| word.to_ascii_lowercase()).as_deref() {
        Some("on") => true,
        Some("off") => false,
        _ => return Err(Refusal::argument(1, "ProxyErrorOverride first parameter must be one of: off | on")),
    };
    let status = |(word, at): (&String, usize)| {
        let status = number(word).and_then(|number| u16::try_from(number).ok());
        let status = status.filter(|status| (400..600).contains(status));
        let message = "ProxyErrorOverride: status codes to intercept must be valid HTTP Status Codes >=400 && <600";
        status.ok_or(message).in_argument(at)
    };
    let statuses = all.map(status).collect::<Result<_, _>>()?;
    cmd.set(|d: &mut ProxyDir| &mut d.error_override, ErrorOverride { on, statuses })
}

pub(super) fn timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let seconds = u64::try_from(atoi(value)).ok().filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or("Proxy Timeout must be at least 1 second.")?;
    cmd.server_set(|s: &mut ProxyServer| &mut s.timeout, Duration::from_secs(seconds))
}

/// Checks for one of these words, which all have no effect.
pub(super) fn check_word(cmd: &mut Cmd<'_>, value: &str, known: &[&str]) -> Outcome {
    match known.iter().any(|word| word.eq_ignore_ascii_case(value)) {
        true => Ok(()),
        false => Err(format!("{} must be one of: {}", cmd.row.name, known.join(" | ")).into()),
    }
}

/// `BalancerGrowth`, which has no effect.
pub(super) fn check_growth(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        0..=1000 => Ok(()),
        _ => Err("BalancerGrowth must be between 0 and 1000".into()),
    }
}

/// `ProxyIOBufferSize`
pub(super) fn io_buffer(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let bytes = buffer(value).ok_or("ProxyIOBufferSize must be >= 512 bytes, or 0 for system default.")?;
    cmd.server_set(|s: &mut ProxyServer| &mut s.io_buffer, bytes)
}

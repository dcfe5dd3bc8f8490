//! Prints the output of `-t` and related options (Apache manual, httpd; measured on 2.4.71).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;

use conf::ModuleInfo;
use mpm::settings::MpmSettings;
use server::core::{CoreServer, DOCUMENT_ROOT, HostAddress};
use server::core_module::{SHOWN, mutex};
use server::settings::user;
use server::{Failed, Server, VirtualHost};

use crate::cli::{self, Action, Options};
use crate::config::{self, ConfigSource};
use crate::diagnosis::preflight::{self, Preflight};
use crate::diagnosis::print;
use crate::messages;
use crate::output;
use crate::version;

/// Whether a list shows a module. Under a name of httpd, lists contain only httpd's modules.
fn is_listed(program: &str, info: &ModuleInfo) -> bool {
    !(cli::is_httpd_name(program) && server::is_unlisted(info))
}

/// `-l`: lists the compiled-in modules.
pub(crate) fn compiled_in(options: &Options) -> ExitCode {
    output::line("Compiled in modules:");
    let mut seen: Vec<&str> = Vec::new();
    for info in server::known_infos().into_iter().filter(|info| info.linked && is_listed(&options.program, info)) {
        if !seen.contains(&info.source) {
            output::line(&format!("  {}", info.source));
            seen.push(info.source);
        }
    }
    ExitCode::SUCCESS
}

/// `-V`: prints the compiled-in settings, and the MPM of the configuration if it can be read.
pub(crate) fn settings(options: &Options) -> ExitCode {
    let (language, failed) = match config::read_language(options) {
        Ok((language, notices)) => {
            print::notices(options, &notices);
            (language, None)
        }
        Err(failed) => (failed.language.clone(), Some(failed)),
    };
    let code = match mpm::choose(language.loaded(), &options.program) {
        Ok(mpm) => version::print(Some(&mpm)),
        Err(error) => {
            messages::print(options, error.own_lines(&options.program).trim_end());
            return ExitCode::FAILURE;
        }
    };
    failed.map_or(code, |failed| refuse(options, &failed))
}

/// `-t`, `-S`, `-M`, `-L`, and the dumps that `-D` requests.
pub(crate) fn run(options: &Options) -> ExitCode {
    let configured = match config::read(options, &ConfigSource::File) {
        Ok(configured) => configured,
        Err(broken) => return refuse(options, &broken),
    };
    print::notices(options, &configured.loaded.notices);
    // Apache prints the included files while it reads.
    if options.defined("DUMP_INCLUDES") {
        output::dump(&includes(&configured.loaded.included));
    }
    let server = &configured.loaded.server;
    output::dump(&dumps(&options.program, server));
    if matches!(options.action, Action::Directives) {
        output::dump(&directives(server.infos()));
    } else if !options.defined(SHOWN) {
        let dumped = is_dump(options);
        if let Err(message) = preflight::can_start(options, &configured)
            && !dumped
        {
            messages::print(options, &message);
            return ExitCode::FAILURE;
        }
        let Preflight { stops, doubts } = if dumped { Preflight::default() } else { preflight::look(server) };
        // Apache does not report what only another user could do.
        let doubts = doubts.iter().filter(|_| !cli::is_httpd_name(&options.program));
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        stops.iter().chain(doubts).for_each(|text| messages::print(options, text));
        if !stops.is_empty() {
            return ExitCode::FAILURE;
        }
        messages::print(options, "Syntax OK");
    }
    ExitCode::SUCCESS
}

/// Reports why there is nothing to show, after showing what was read until then.
fn refuse(options: &Options, failed: &Failed) -> ExitCode {
    if options.defined("DUMP_INCLUDES") {
        output::dump(&includes(&failed.included));
    }
    if options.defined("DUMP_VHOSTS") && !failed.hosts.is_empty() {
        output::dump(&virtual_hosts(&failed.hosts));
    }
    let infos = failed.language.loaded();
    if options.defined(CONFIG) && failed.of_module && server::has_dump(infos, CONFIG) {
        output::dump(&conf::dump::dump_config(&failed.tree, infos));
    }
    print::failure(options, failed);
    if matches!(options.action, Action::Check) && !is_dump(options) {
        print::other_errors(options, failed);
    }
    ExitCode::FAILURE
}

/// Whether a dump of the configuration was requested.
fn is_dump(options: &Options) -> bool {
    options.defines.iter().any(|name| name.starts_with("DUMP_"))
}

/// A module's dump that comes before two of the server's own.
const CONFIG: &str = "DUMP_CONFIG";

/// All requested dumps, in Apache's order. The configuration may also define the names that request them.
fn dumps(program: &str, server: &Server) -> String {
    let wanted = |name: &str| server.language.is_defined(name);
    let infos = server.infos();
    let mut out = String::new();
    if wanted("DUMP_VHOSTS") {
        out += &virtual_hosts(&server.hosts);
    }
    out += &server.dumps(|name| name == CONFIG && wanted(name));
    if wanted("DUMP_RUN_CFG") {
        out += &run_settings(server);
    }
    if wanted("DUMP_MODULES") {
        out += &loaded_modules(program, infos);
    }
    out + &server.dumps(|name| name != CONFIG && wanted(name))
}

fn includes(included: &[conf::read::Included]) -> String {
    let mut out = String::from("Included configuration files:\n");
    for file in included {
        let indent = "  ".repeat(file.depth + 1);
        let line = file.line.map_or("*".to_string(), |line| line.to_string());
        let _ = writeln!(out, "{indent}({line}) {}", file.file);
    }
    out
}

fn loaded_modules(program: &str, infos: &[&'static ModuleInfo]) -> String {
    let mut out = String::from("Loaded Modules:\n");
    let mut seen: Vec<&str> = Vec::new();
    for info in infos.iter().filter(|info| is_listed(program, info)) {
        if !seen.contains(&info.id) {
            let how = if info.linked { "static" } else { "shared" };
            let _ = writeln!(out, " {} ({how})", info.id);
            seen.push(info.id);
        }
    }
    out
}

fn directives(infos: &[&'static ModuleInfo]) -> String {
    let mut out = String::new();
    for info in infos {
        for row in info.directives {
            let (place, when) = row.allowed.phrases();
            let when = when.map_or_else(String::new, |when| format!(" and in .htaccess\n\twhen AllowOverride {when}"));
            let _ = writeln!(out, "{} ({})\n\t{}\n\tAllowed in *.conf {place}{when}", row.name, info.source, row.help);
        }
    }
    out
}

/// The bucket of an address in Apache's table: the XOR of the bytes of an IPv4 address, or of the last four bytes of an
/// IPv6 address.
fn bucket(ip: IpAddr) -> usize {
    let four = match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(ip) => ip.octets().last_chunk().copied().unwrap_or_default(),
    };
    four.iter().fold(0, |sum, byte| sum ^ usize::from(*byte))
}

/// The hosts by address, in the order of Apache's table: exact addresses first, then wildcards. Apache prepends to the
/// chains of its table and begins with the last host.
fn virtual_hosts(hosts: &[VirtualHost]) -> String {
    let mut out = String::from("VirtualHost configuration:\n");
    let mut groups: VecDeque<(HostAddress, VecDeque<&VirtualHost>)> = VecDeque::new();
    for host in hosts.iter().skip(1).rev() {
        // Apache treats `*:80 *:80` as one address, but counts an address that is not a wildcard as often as it is
        // written.
        let addresses = host.addresses.chunk_by(|one, next| one.ip.is_none() && one == next);
        for address in addresses.filter_map(<[HostAddress]>::first) {
            match groups.iter_mut().find(|(have, _)| have == address) {
                Some((_, members)) => members.push_front(host),
                None => groups.push_front((*address, VecDeque::from([host]))),
            }
        }
    }
    groups.make_contiguous().sort_by_key(|(address, _)| address.ip.map_or(usize::MAX, bucket));
    for (address, members) in &groups {
        let at = shown(address);
        let place = |host: &VirtualHost| match &host.origin {
            Some(origin) => format!("{} ({}:{})", host.name, origin.file(), origin.line),
            None => host.name.clone(),
        };
        if members.len() == 1 {
            let _ = writeln!(out, "{at:<22} {}", place(members[0]));
            continue;
        }
        let _ = writeln!(out, "{at:<22} is a NameVirtualHost");
        let _ = writeln!(out, "         default server {}", place(members[0]));
        for host in members {
            let port = address.port.map_or("*".to_string(), |port| port.to_string());
            let _ = writeln!(out, "         port {port} namevhost {}", place(host));
            aliases(&mut out, host);
        }
    }
    out
}

fn aliases(out: &mut String, host: &VirtualHost) {
    let (wild, plain): (Vec<&String>, Vec<&String>) =
        host.aliases.iter().partition(|name| conf::fnmatch::is_wildcard(name));
    for name in plain {
        let _ = writeln!(out, "                 alias {name}");
    }
    for name in wild {
        let _ = writeln!(out, "                 wild alias {name}");
    }
}

fn shown(address: &HostAddress) -> String {
    let port = address.port.map_or("*".to_string(), |port| port.to_string());
    match address.ip {
        None => format!("*:{port}"),
        Some(ip) if ip.is_ipv6() => format!("[{ip}]:{port}"),
        Some(ip) => format!("{ip}:{port}"),
    }
}

fn run_settings(server: &Server) -> String {
    let main = &server.main().settings;
    let mut out = String::new();
    let _ = writeln!(out, "ServerRoot: \"{}\"", server.language.server_root);
    let root = main.get::<CoreServer>().document_root.get().map(String::as_str);
    let _ = writeln!(out, "Main DocumentRoot: \"{}\"", root.unwrap_or(DOCUMENT_ROOT));
    let _ = writeln!(out, "Main ErrorLog: \"{}\"", server.main().error_log.path());
    let mpm = main.get::<MpmSettings>();
    if let Some(file) = mpm.scoreboard_file.get() {
        let _ = writeln!(out, "ScoreBoardFile: \"{file}\"");
    }
    out.push_str(&mutex::dump(main, &server.language));
    if let Some(file) = mpm.pid_file.get() {
        let _ = writeln!(out, "PidFile: \"{file}\"");
    }
    for (name, value) in server.language.defines().filter(|(name, _)| !name.starts_with('-')) {
        let _ = match value {
            Some(value) => writeln!(out, "Define: {name}={value}"),
            None => writeln!(out, "Define: {name}"),
        };
    }
    let unused = if sys::cred::is_root() { "" } else { " not_used" };
    if let Ok((user, group)) = user::identity(main, &server::machine::Machine) {
        let _ = writeln!(out, "User: name=\"{}\" id={}{unused}", user.name, user.id);
        let _ = writeln!(out, "Group: name=\"{}\" id={}{unused}", group.name, group.id);
    }
    if let Some(dir) = main.get::<user::UserSettings>().chroot.get() {
        let _ = writeln!(out, "ChrootDir: \"{dir}\"{unused}");
    }
    out
}

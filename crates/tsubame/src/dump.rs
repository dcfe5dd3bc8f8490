//! What `-t` and its relatives print (contract.md 14).

use std::fmt::Write as _;
use std::process::ExitCode;

use conf::Face;
use mpm::settings::MpmSettings;
use server::core::{CoreServer, HostAddress};
use server::{Server, VirtualHost};

use crate::boot::{self, Configured, Text};
use crate::cli::{Action, Options};
use crate::version;

/// `-l`
pub(crate) fn compiled_in() -> ExitCode {
    println!("Compiled in modules:");
    let mut seen: Vec<&str> = Vec::new();
    for face in server::known_faces().into_iter().filter(|face| face.linked) {
        if !seen.contains(&face.source) {
            println!("  {}", face.source);
            seen.push(face.source);
        }
    }
    ExitCode::SUCCESS
}

/// `-t`, `-S`, `-M`, `-V`, `-L`, with the names that `-D` gives.
pub(crate) fn run(options: &Options) -> ExitCode {
    let configured = match boot::read(options, &Text::File) {
        Ok(configured) => configured,
        Err(broken) => {
            if options.defined("DUMP_INCLUDES") {
                print!("{}", includes(&broken.included));
            }
            boot::say_broken(options, &broken);
            return ExitCode::FAILURE;
        }
    };
    boot::say(options, &configured.loaded.notices);
    match options.action {
        Action::Settings => return version::print(options, Some(&configured.mpm)),
        Action::Directives => {
            print!("{}", directives(&configured.loaded.server.faces()));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let dumps = dumps(options, &configured);
    // Apache prints them while it reads.
    let included = options.defined("DUMP_INCLUDES");
    if included {
        print!("{}", includes(&configured.loaded.included));
    }
    if options.defined("DUMP_CONFIG") {
        print!("{}", conf::dump::dump_config(&configured.loaded.server.tree, &configured.loaded.server.faces()));
    }
    print!("{dumps}");
    if dumps.is_empty() && !included {
        eprintln!("Syntax OK");
    }
    ExitCode::SUCCESS
}

fn dumps(options: &Options, configured: &Configured) -> String {
    let server = &configured.loaded.server;
    let mut out = String::new();
    if options.defined("DUMP_VHOSTS") {
        out.push_str(&virtual_hosts(server));
    }
    if options.defined("DUMP_RUN_CFG") {
        out.push_str(&run_settings(server));
    }
    if options.defined("DUMP_MODULES") {
        out.push_str(&loaded_modules(&server.faces()));
    }
    out
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

fn loaded_modules(faces: &[&'static Face]) -> String {
    let mut out = String::from("Loaded Modules:\n");
    let mut seen: Vec<&str> = Vec::new();
    for face in faces {
        if !seen.contains(&face.id) {
            let how = if face.linked { "static" } else { "shared" };
            let _ = writeln!(out, " {} ({how})", face.id);
            seen.push(face.id);
        }
    }
    out
}

fn directives(faces: &[&'static Face]) -> String {
    let mut out = String::new();
    for face in faces {
        for row in face.directives {
            let (place, when) = row.allowed.phrases();
            let when = when.map_or_else(String::new, |when| format!(" and in .htaccess\n\twhen AllowOverride {when}"));
            let _ = writeln!(out, "{} ({})\n\t{}\n\tAllowed in *.conf {place}{when}", row.name, face.source, row.help);
        }
    }
    out
}

/// The hosts by address: exact addresses first, then wildcards.
fn virtual_hosts(server: &Server) -> String {
    let mut out = String::from("VirtualHost configuration:\n");
    let mut groups: Vec<(HostAddress, Vec<&VirtualHost>)> = Vec::new();
    for host in &server.hosts[1..] {
        for address in &host.addresses {
            match groups.iter_mut().find(|(have, _)| have == address) {
                Some((_, members)) => members.push(host),
                None => groups.push((*address, vec![host])),
            }
        }
    }
    groups.sort_by_key(|(address, _)| address.ip.is_none());
    for (address, members) in &groups {
        let at = show(address);
        let place = |host: &VirtualHost| match &host.origin {
            Some(origin) => format!("{} ({}:{})", host.name, origin.file(), origin.line),
            None => host.name.clone(),
        };
        if let [only] = members[..] {
            let _ = writeln!(out, "{at:<22} {}", place(only));
            aliases(&mut out, only);
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

fn show(address: &HostAddress) -> String {
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
    let _ = writeln!(out, "Main DocumentRoot: \"{}\"", server.main().document_root);
    let _ = writeln!(out, "Main ErrorLog: \"{}\"", server.main().error_log.path());
    let mpm = main.get::<MpmSettings>();
    if let Some(file) = mpm.scoreboard_file.get() {
        let _ = writeln!(out, "ScoreBoardFile: \"{file}\"");
    }
    let runtime_dir = format!("{}/", server.language.runtime_dir.trim_end_matches('/'));
    let mut default = format!("Mutex default: dir=\"{runtime_dir}\" mechanism=default \n");
    for (mechanism, name) in main.get::<CoreServer>().mutexes.iter() {
        if name == "default" {
            let (kind, dir) = mechanism.split_once(':').unwrap_or((mechanism, &runtime_dir));
            default = format!("Mutex default: dir=\"{dir}\" mechanism={kind} \n");
        } else {
            let _ = writeln!(out, "Mutex {name}: mechanism={mechanism} ");
        }
    }
    out.push_str(&default);
    if let Some(file) = mpm.pid_file.get() {
        let _ = writeln!(out, "PidFile: \"{file}\"");
    }
    for (name, value) in server.language.defines().filter(|(name, _)| !name.starts_with('-')) {
        let _ = match value {
            Some(value) => writeln!(out, "Define: {name}={value}"),
            None => writeln!(out, "Define: {name}"),
        };
    }
    if let Ok((user, group)) = modules::arch::mod_unixd::identity(main, &server::host::Machine) {
        let unused = if sys::cred::is_root() { "" } else { " not_used" };
        let _ = writeln!(out, "User: name=\"{}\" id={}{unused}", user.name, user.id);
        let _ = writeln!(out, "Group: name=\"{}\" id={}{unused}", group.name, group.id);
    }
    out
}

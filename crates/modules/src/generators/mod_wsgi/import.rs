//! `WSGIImportScript`: scripts that processes load when they start, so that no request waits for it.

use conf::words::words;
use conf::{Cmd, Outcome, Refusal};
use gateway::backend::Class;
use server::Server;
use server::paths::c_path;

use super::pool::Application;
use super::settings::{CALLABLE, Import, Interface, WsgiServer};

pub(super) fn add(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let words = words(line);
    let [file, options @ ..] = &words[..] else { return Err("Location of import script not supplied.".into()) };
    let (mut process_group, mut application_group) = (None, None);
    for (at, option) in options.iter().enumerate() {
        let group = match option.split_once('=') {
            Some(("process-group", name)) => process_group.insert(name.to_string()),
            Some(("application-group", name)) => application_group.insert(name.to_string()),
            _ => return Err(Refusal::argument(at + 2, "Invalid option to WSGI import script definition.")),
        };
        match group.as_str() {
            "%{GLOBAL}" => group.clear(),
            // There is no request that could tell the rest of the name.
            name if name.starts_with("%{") => {
                return Err(Refusal::argument(at + 2, format!("{name} is known only when there is a request")));
            }
            _ => {}
        }
    }
    let application_group = application_group.ok_or("Name of WSGI application group required.")?;
    let process_group = process_group.ok_or("Name of WSGI process group required.")?;
    if !process_group.is_empty() && cmd.server.get::<WsgiServer>().groups.get(&process_group).is_none() {
        return Err("WSGI process group not yet configured.".into());
    }
    let import = Import { file: cmd.context.server_relative(file), process_group, application_group };
    cmd.server_push(|s: &mut WsgiServer| &mut s.imports, import)
}

/// The classes of processes that start with the server: those of imported scripts in groups.
pub(in crate::generators) fn standing(server: &Server) -> Vec<Class> {
    let main = server.main().settings.get::<WsgiServer>().imports.entries();
    let of_hosts = server.hosts.iter().flat_map(|host| {
        let imports = host.settings.get::<WsgiServer>().imports.entries();
        // A host inherits those of the main server; its processes load them when requests start them.
        let own =
            imports.iter().filter(move |(_, origin)| host.index == 0 || main.iter().all(|(_, other)| other != origin));
        own.filter_map(move |(import, _)| class(server, host, import))
    });
    of_hosts.collect()
}

fn class(server: &Server, host: &server::VirtualHost, import: &Import) -> Option<Class> {
    let daemon = host.settings.get::<WsgiServer>().groups.get(&import.process_group)?;
    let application = Application {
        process_group: import.process_group.clone(),
        application_group: import.application_group.clone(),
        pool: import.application_group.clone(),
        callable: CALLABLE.into(),
        interface: Interface::Wsgi,
    };
    let class = application.class_of(host, &import.file, Some(daemon))?;
    let program = class.program.limited_by(server);
    let program = match c_path(&import.file).and_then(|path| sys::file::stat(&path).ok()) {
        Some(meta) => program.of_file(&meta),
        // A missing one cannot be loaded, which is reported then.
        None => program,
    };
    Some(Class { program, ..class })
}

//! The FastCGI applications of the configuration, and the classes of processes that run them.

use conf::{Keyed, Setting, settings};
use gateway::backend::{Class, Concurrency, Head, PoolSettings, Program};
use gateway::owners::{self, Owner, Ownership};
use gateway::protocol::fastcgi::Role;
use server::paths::{c_path, dir_name};
use server::{Request, Server};

use super::fastcgi_options::Application;

settings! {
    /// The module's settings of the server.
    pub struct FastCgiServer {
        /// By the path.
        pub(super) applications: Keyed<String, Application>,
        pub(super) dynamic: Setting<Application>,
    }
}

fn main(request: &Request) -> &FastCgiServer {
    request.server.main().settings.get::<FastCgiServer>()
}

/// The application of a file that the configuration names.
pub(super) fn named<'a>(request: &'a Request, file: &str) -> Option<&'a Application> {
    main(request).applications.get(file)
}

/// The options of a file, by its name or the common ones.
pub(super) fn application(request: &Request, file: &str) -> Application {
    let dynamic = || main(request).dynamic.get().cloned().unwrap_or_default();
    named(request, file).cloned().unwrap_or_else(dynamic)
}

pub(super) fn class(request: &Request, file: &str, application: &Application) -> Option<Class> {
    let owner = application.owner.or_else(|| owners::of(request));
    let class = match named(request, file).is_some() {
        true => static_class(request.server, file, application, owner)?,
        false => {
            let path = request.env.get("PATH").map_or_else(gateway::env::path, str::to_string);
            let program = program(file, application, owner, path)?.limited_for(request);
            let settings = PoolSettings {
                max: application.max,
                max_of_all: application.max_of_all,
                idle: Some(application.kill_interval),
                ..common(application)
            };
            Class { host: request.vhost.name.clone(), ..of_program(file, program, settings) }
        }
    };
    Some(match &request.mapped.stat {
        Some(meta) if file == request.mapped.filename => Class { program: class.program.of_file(meta), ..class },
        _ => class,
    })
}

/// The classes of applications that run from the beginning: those named in the configuration, with the main server's
/// settings.
pub(super) fn standing(server: &Server) -> Vec<Class> {
    let main = &server.main().settings;
    let classes =
        main.get::<FastCgiServer>().applications.iter().filter(|(_, application)| application.address.is_none());
    let classes = classes.filter_map(|(file, application)| {
        let owner = application.owner.or_else(|| main.get::<Ownership>().run_as.get().map(|run_as| run_as.owner));
        let class = static_class(server, file, application, owner)?;
        // A missing one cannot be started, which is reported then.
        Some(match c_path(file).and_then(|path| sys::file::stat(&path).ok()) {
            Some(meta) => Class { program: class.program.of_file(&meta), ..class },
            None => class,
        })
    });
    classes.collect()
}

/// The class of a named application: the same for every request.
fn static_class(server: &Server, file: &str, application: &Application, owner: Option<Owner>) -> Option<Class> {
    let program = program(file, application, owner, gateway::env::path())?.limited_by(server);
    let count = application.processes;
    Some(of_program(file, program, PoolSettings { max: count, min: count, idle: None, ..common(application) }))
}

fn program(file: &str, application: &Application, owner: Option<Owner>, path: String) -> Option<Program> {
    let path = ("PATH".to_string(), path);
    let environment =
        std::iter::once(&path).filter(|_| !application.environment.iter().any(|(name, _)| name == "PATH"));
    let environment = environment.chain(&application.environment);
    let environment = gateway::env::lines(environment)?;
    Some(Program::new(file, &[], environment, dir_name(file), owner)?.nicer(application.nicer))
}

fn common(application: &Application) -> PoolSettings {
    PoolSettings { wait: application.wait, queue: u64::MAX, ..PoolSettings::default() }
}

fn of_program(file: &str, program: Program, settings: PoolSettings) -> Class {
    Class {
        name: format!("fastcgi {file}"),
        module: "fastcgi".into(),
        host: String::new(),
        protocol: Head::FastCgi(Role::Responder).protocol(),
        concurrency: Concurrency::One,
        program,
        settings,
    }
}

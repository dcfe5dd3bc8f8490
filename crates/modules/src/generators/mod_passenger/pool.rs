//! The processes of an application.

use std::time::Duration;

use gateway::Environment;
use gateway::backend::{Class, Concurrency, Head, PoolSettings, Program, Runtime, RuntimeCall};
use http::text::to_bytes;
use runtime::{Load, offload};
use server::Request;
use server::paths::{c_path, dir_name};

use super::settings::{ENVIRONMENT, PassengerDir, PassengerServer, RESTART, RUBY};

/// The variables that tell the application's environment.
const VARIABLES: [&str; 3] = ["RAILS_ENV", "RACK_ENV", "PASSENGER_APP_ENV"];
/// The part of the server's own environment that processes inherit.
const INHERITED: [&str; 5] = ["LANG", "LC_ALL", "TZ", "GEM_PATH", "GEM_HOME"];
/// A change of this file ends the processes that are older.
const RESTARTS: &str = "restart.txt";

/// The class of the processes that answer a request. `None`: no file can have such a name.
pub(super) async fn class(request: &Request) -> Option<Class> {
    let (dir, server) = (request.dir::<PassengerDir>(), request.host::<PassengerServer>());
    let file = &request.mapped.filename;
    let root = dir.root.get().map_or_else(|| dir_name(file), String::as_str);
    let ruby = dir.ruby.get().or(server.ruby.get()).map_or(RUBY, String::as_str);
    let arguments = [Runtime::PATH.to_string(), "rack".to_string(), file.clone()];
    let mut environment = Environment::default();
    environment.add(b"PATH", &to_bytes(&gateway::env::path())).then_some(())?;
    let name = dir.environment.get().map_or(ENVIRONMENT, String::as_str);
    for variable in VARIABLES {
        environment.add(variable.as_bytes(), &to_bytes(name)).then_some(())?;
    }
    for variable in INHERITED {
        if let Ok(value) = std::env::var(variable) {
            environment.add(variable.as_bytes(), &to_bytes(&value)).then_some(())?;
        }
    }
    let program = Program::new(ruby, &arguments, environment, root, None)?.with_runtime(Runtime::Ruby);
    let restarts = c_path(&format!("{root}/{}/{RESTARTS}", dir.restart.get().map_or(RESTART, String::as_str)))?;
    let restarted = offload(Load::Wait, move || sys::file::stat(&restarts).ok()).await;
    let program = match restarted.or(request.mapped.stat) {
        Some(meta) => program.of_file(&meta),
        None => program,
    };
    let of_application = Some(server.max_per_application()).filter(|max| *max > 0);
    Some(Class {
        name: format!("rack {file}"),
        module: "passenger".into(),
        host: request.vhost.name.clone(),
        protocol: Head::Runtime(RuntimeCall::default()).protocol(),
        concurrency: Concurrency::One,
        program: program.limited_for(request),
        settings: PoolSettings {
            max: of_application.unwrap_or(server.max()),
            max_of_all: server.max(),
            keep: dir.min(),
            requests: Some(dir.requests()).filter(|requests| *requests > 0),
            idle: Some(server.idle()).filter(|idle| *idle > 0).map(Duration::from_secs),
            queue: Some(dir.queue()).filter(|queue| *queue > 0).unwrap_or(u64::MAX),
            ..PoolSettings::default()
        },
    })
}

//! The responses of Apache 2.4.71 to these lines under event (prefork where noted), as its `-t` printed them.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use conf::{
    Context, DirectiveContext, Error, Errors, FileKind, Language, Node, Origin, SettingsMap, Source, System, apply,
};

use super::*;
use crate::settings::Listen;

struct Machine;

impl System for Machine {
    fn read(&self, _: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn file_kind(&self, path: &str) -> io::Result<FileKind> {
        match path {
            "/srv" => Ok(FileKind::Directory),
            "/srv/file" => Ok(FileKind::Regular { is_empty: false }),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
    fn env(&self, _: &str) -> Option<String> {
        None
    }
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let known = HashMap::from([("localhost", "127.0.0.1"), ("1.2.3", "1.2.0.3")]);
        known.get(name).and_then(|text| text.parse().ok()).map(|ip| vec![ip]).ok_or(io::ErrorKind::NotFound.into())
    }
    fn name_of(&self, _: IpAddr) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn user(&self, _: &str) -> Option<(u32, u32)> {
        None
    }
    fn group(&self, _: &str) -> Option<u32> {
        None
    }
    fn hostname(&self) -> (String, Option<String>) {
        ("test".to_string(), None)
    }
}

static PREFORK_ONLY: [&ModuleInfo; 2] = [&CORE, &PREFORK];
static EVENT_ONLY: [&ModuleInfo; 2] = [&CORE, &EVENT];

fn try_lines(modules: &'static [&'static ModuleInfo], lines: &str) -> (Result<(), Error>, SettingsMap, Context) {
    let source = Arc::new(Source::new("f"));
    let node = |(line, text): (u32, &str)| {
        let (name, args) = text.split_once(' ').unwrap_or((text, ""));
        let origin = Origin { source: source.clone(), line };
        Node { name: name.into(), args: args.into(), origin, children: None }
    };
    let nodes: Vec<Node> = (1..).zip(lines.split(" ; ")).map(node).collect();
    let language = Language::new(modules, modules, "/srv");
    let mut context = Context { system: Arc::new(Machine), language, notices: Vec::new(), errors: Errors::first() };
    let (mut server, mut dir) = (SettingsMap::default(), SettingsMap::default());
    let result = apply(&nodes, &mut server, &mut dir, &DirectiveContext::server_level(), &mut context);
    (result, server, context)
}

#[test]
fn lines_are_taken_or_refused_as_by_apache() {
    let unknown = |name| {
        format!(
            "Invalid command '{name}', perhaps misspelled or defined by a module not included in the server configuration"
        )
    };
    let (port, bad) = ("Port must be specified".to_string(), "Invalid address or port".to_string());
    let multiple = "Cannot define multiple Listeners on the same IP:port".to_string();
    let buffer = "must be >= 512 bytes, or 0 for system default.";
    let cases: Vec<(&str, Option<String>)> = vec![
        ("Listen foo", Some(port)),
        ("Listen 0", Some(bad)),
        ("Listen 80 https", None),
        ("Listen 1.2.3:80", None),
        ("Listen [::1]:8080", None),
        ("Listen localhost:8080", None),
        ("Listen 8080 http x", Some("Listen requires 1 or 2 arguments.".into())),
        ("Listen 8080 ; Listen 8080", Some(multiple.clone())),
        ("Listen 127.0.0.1:8080 ; Listen localhost:8080", Some(multiple)),
        ("Listen 8080 ; Listen 0.0.0.0:8080", None),
        ("ListenBacklog 0", Some("ListenBacklog must be > 0".into())),
        ("ListenBacklog 5x", None),
        ("ListenCoresBucketsRatio x", Some("ListenCoresBucketsRatio must be > 0".into())),
        ("ListenTCPDeferAccept 0", Some("ListenTCPDeferAccept must be > 0".into())),
        ("SendBufferSize 100", Some(format!("SendBufferSize {buffer}"))),
        ("SendBufferSize x", None),
        ("ReceiveBufferSize 511", Some(format!("ReceiveBufferSize {buffer}"))),
        ("GracefulShutdownTimeout -1", None),
        ("MaxMemFree -1", Some("Invalid MaxMemFree value: -1".into())),
        ("MaxMemFree 5x", None),
        ("ThreadStackSize -1", Some("Invalid ThreadStackSize value: -1".into())),
        ("AsyncRequestWorkerFactor 0", Some("AsyncRequestWorkerFactor argument must be a positive number".into())),
        ("AsyncRequestWorkerFactor -1", Some("AsyncRequestWorkerFactor argument must be a positive number".into())),
        ("AsyncRequestWorkerFactor x", Some("error parsing value".into())),
        ("AsyncRequestWorkerFactor 1x", Some("error parsing value".into())),
        ("AsyncRequestWorkerFactor 0.5", None),
        ("CoreDumpDirectory /srv/none", Some("CoreDumpDirectory /srv/none does not exist".into())),
        ("CoreDumpDirectory /srv/file", Some("CoreDumpDirectory /srv/file is not a directory".into())),
        ("CoreDumpDirectory /srv", None),
        ("PidFile", Some("PidFile takes one argument, A file for logging the server process ID".into())),
        (
            "StartServers 1 2",
            Some("StartServers takes one argument, Number of child processes launched at server startup".into()),
        ),
        ("EnableExceptionHook maybe", Some(unknown("EnableExceptionHook"))),
        ("MinSpareServers 5", Some(unknown("MinSpareServers"))),
    ];
    for (lines, wanted) in cases {
        assert_eq!(try_lines(&EVENT_ONLY, lines).0.err().map(|error| error.message), wanted, "{lines}");
    }
    let error = try_lines(&PREFORK_ONLY, "ThreadsPerChild 5").0.expect_err("not of prefork");
    assert_eq!(error.message, unknown("ThreadsPerChild"));
}

#[test]
fn values_and_old_names() {
    let lines =
        "MaxClients 20x ; MaxRequestsPerChild 7 ; PidFile run/pid ; Listen *:80 HTTPS ; ServerLimit 1 ; ServerLimit 2";
    let (result, server, context) = try_lines(&PREFORK_ONLY, lines);
    assert!(result.is_ok());
    let s = server.get::<MpmSettings>();
    assert_eq!(
        (s.max_request_workers.value_or(0), s.max_connections_per_child.value_or(0), s.server_limit.value_or(0)),
        (20, 7, 2)
    );
    assert_eq!(s.pid_file.get().map(String::as_str), Some("/srv/run/pid"));
    let listen = Listen { addresses: Vec::new(), port: 80, protocol: Some("https".into()) };
    assert_eq!(s.listen.iter().next(), Some(&listen));
    let said: Vec<_> =
        context.notices.iter().map(|notice| (notice.module, notice.level, notice.text.as_str())).collect();
    let old = [
        ("mpm_prefork", Level::Info, "AH00188: MaxClients is deprecated, use MaxRequestWorkers instead."),
        ("core", Level::Info, "AH00545: MaxRequestsPerChild is deprecated, use MaxConnectionsPerChild instead."),
    ];
    assert_eq!(said, old);
}

#[test]
fn percore_takes_the_lines_of_all_others() {
    let names = |info: &ModuleInfo| info.directives.iter().map(|row| row.name).collect::<Vec<_>>();
    for info in [&PREFORK, &WORKER, &EVENT] {
        assert!(names(info).iter().all(|name| names(&PERCORE).contains(name)), "{}", info.id);
    }
}

#[test]
fn differences_from_apache_are_noted() {
    let said = |line: &str| {
        let (_, _, context) = try_lines(&EVENT_ONLY, line);
        context.notices.iter().map(|notice| (notice.level, notice.text.clone())).collect::<Vec<_>>()
    };
    let told = |text: &str| vec![(Level::Notice, text.to_string())];
    let cases = [
        (
            "ScoreBoardFile logs/board",
            told("ScoreBoardFile logs/board: no file is made, the scoreboard is memory that the processes share"),
        ),
        (
            "ThreadStackSize 65536",
            told("ThreadStackSize 65536: stacks may grow to 4194304 bytes; only what is used costs memory"),
        ),
        ("ThreadStackSize 4194304", Vec::new()),
        ("ThreadStackSize 0", Vec::new()),
        ("MaxMemFree 512", Vec::new()),
    ];
    for (line, notices) in cases {
        assert_eq!(said(line), notices, "{line}");
    }
}

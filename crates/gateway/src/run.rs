//! The whole way of a request through a script.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::task::Poll;

use conf::Level;
use server::paths::base_name;
use server::{Body, HandlerResult, Request, RequestBody, Running, Work};

use crate::caller::{Caller, Cgi};
use crate::command;
use crate::env;
use crate::gate::{self, Permit};
use crate::owners;
use crate::process::spawn;
use crate::response;
use crate::script::input::{Input, InputStopped};
use crate::script::piped::Piped;
use crate::script::{Event, Script, fail};
use crate::script_log::{FailedRun, complain};

/// A program was not started, for a reason that is in the log.
#[derive(Debug)]
pub struct NotStarted;

/// Waits until a program of the request may run. `span`: the child span that it belongs to.
async fn admit(
    request: &Request,
    program: &str,
    rules: &gate::Rules,
    span: Option<&Running>,
) -> Result<Permit, gate::NotAdmitted> {
    span.into_iter().for_each(|span| span.waits());
    let permit = gate::enter(program, &request.vhost.name, rules, || request.client().has_ended()).await?;
    span.into_iter().for_each(|span| span.goes_on());
    Ok(permit)
}

/// Runs the script in the request's file, and turns its output into a response.
pub async fn run(request: &mut Request, caller: Caller, cgi: Cgi) -> HandlerResult {
    let running = request.begin_script();
    let span = running.as_ref().map(Running::span);
    env::add(request).await;
    let result = match admit(request, &request.mapped.filename, &cgi.rules, running.as_ref()).await {
        Ok(permit) => match start(request, permit, &caller, cgi.daemons).await {
            Ok(script) => response::relay(request, script.within(running), &caller).await,
            Err(status) => HandlerResult::Status(status),
        },
        Err(why) => response::turn_away(request, &caller, &why),
    };
    request.child_led_to(span.as_deref(), &result);
    result
}

/// Runs a shell command for a page, and returns its output as a part of that page. Its variables are already in the
/// request's environment.
pub async fn shell(request: &mut Request, caller: Caller, cgi: Cgi, text: &str) -> Result<Body, NotStarted> {
    let running = request.begin_child(|_| Work::Program { file: text.into(), handler: None });
    let permit = match admit(request, &request.mapped.filename, &cgi.rules, running.as_ref()).await {
        Ok(permit) => permit,
        Err(why) => {
            let text = format!("a command of {} is not started: {}", request.mapped.filename, why.reason);
            request.log(caller.module, Level::Error, text);
            return Err(NotStarted);
        }
    };
    let command = command::Command::shell(request, text);
    match spawn::start(request, command, None, permit, &caller, cgi.daemons).await {
        Ok(started) => {
            let script = Script::new(Box::new(Piped::new(started, None, &caller)), &caller).within(running);
            Ok(response::stream(request, script, None))
        }
        Err(failure) => {
            not_started(request, &caller, failure);
            Err(NotStarted)
        }
    }
}

/// Sends a body through a program, whose output replaces the body. The program's variables are already in the request's
/// environment.
pub async fn filter(
    request: &mut Request,
    caller: Caller,
    rules: gate::Rules,
    program: &[String],
    body: Body,
) -> Result<Body, NotStarted> {
    let running = request.begin_child(|_| Work::Program { file: program[0].clone(), handler: None });
    let permit = match admit(request, &program[0], &rules, running.as_ref()).await {
        Ok(permit) => permit,
        Err(why) => {
            request.log(caller.module, Level::Error, format!("{} is not started: {}", program[0], why.reason));
            return Err(NotStarted);
        }
    };
    let (stdin, input) = match Input::new(RequestBody::of(body.into_stream()), 0) {
        Ok(pipe) => pipe,
        Err(error) => {
            permit.not_started();
            request.log_os(caller.module, Level::Error, &error, "no pipe for the body of a response");
            return Err(NotStarted);
        }
    };
    let command = command::Command::program(request, program);
    match spawn::start(request, command, Some(stdin.as_fd()), permit, &caller, false).await {
        Ok(started) => {
            let script = Script::new(Box::new(Piped::new(started, Some(input), &caller)), &caller).within(running);
            Ok(response::stream(request, script, None))
        }
        Err(failure) => {
            not_started(request, &caller, failure);
            Err(NotStarted)
        }
    }
}

/// Starts the script. The available part of the body is put into its pipe first: a script that ignores it may be gone
/// before we could write.
async fn start(request: &mut Request, permit: Permit, caller: &Caller, daemons: bool) -> Result<Script, u16> {
    let kept = caller.log.as_ref().map_or(0, |log| log.body_max);
    let (stdin, mut input) = match request.body.is_none() {
        true => (None, None),
        false => match Input::new(request.body.clone(), kept) {
            Ok((stdin, input)) => (Some(stdin), Some(input)),
            Err(error) => {
                permit.not_started();
                return Err(not_started(request, caller, command::StartFailure::System(error)));
            }
        },
    };
    if let Some(feeding) = &mut input
        && let Poll::Ready(Err(InputStopped::Body(error))) = poll_fn(|cx| Poll::Ready(feeding.poll(cx))).await
    {
        return Err(fail(request, caller.module, caller.timeout_message, caller.timeout, Event::Body(error)));
    }
    let command = command::Command::of(request);
    match spawn::start(request, command, stdin.as_ref().map(AsFd::as_fd), permit, caller, daemons).await {
        Ok(started) => Ok(Script::new(Box::new(Piped::new(started, input, caller)), caller)),
        Err(failure) => Err(not_started(request, caller, failure)),
    }
}

fn not_started(request: &mut Request, caller: &Caller, failure: command::StartFailure) -> u16 {
    let path = request.mapped.filename.clone();
    let text = match failure {
        command::StartFailure::Exec(error) => format!("{}exec of '{path}' failed", server::log::os_prefix(&error)),
        command::StartFailure::Refused(why) => {
            let refusal = owners::run_as(request).map(|run_as| (run_as.rules.refusal)(why));
            format!("{}: ({path})", refusal.as_deref().unwrap_or("a daemon refuses to start the script"))
        }
        command::StartFailure::NoDaemon => {
            let text = format!("a script that runs as its owner needs a daemon, and there is none: {path}");
            request.log(caller.module, Level::Error, text);
            return 500;
        }
        command::StartFailure::System(error) => {
            let text = format!("AH01223: couldn't spawn child process: {path}");
            request.log_os(caller.module, Level::Error, &error, text);
            return 500;
        }
        command::StartFailure::Daemon(error) => {
            let text = format!("AH01257: unable to connect to cgi daemon for script {path}");
            request.log_os(caller.module, Level::Error, &error, text);
            return 503;
        }
    };
    // For the reader of the log it is as if the script itself had said so.
    complain(request, caller.module, "AH01215", caller.log.as_ref(), 200, &text);
    let text = format!("End of script output before headers: {}", base_name(&path));
    response::complain_to_client(request, caller.module, &text);
    if let Some(log) = &caller.log {
        log.failure(request, &FailedRun { status: 500, body: &[], line: "", output: &[] });
    }
    500
}

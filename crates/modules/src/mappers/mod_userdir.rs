//! `/~user`: pages in the home directories of users.
//!
//! Apache manual: mod_userdir. Doubtful cases were measured on 2.4.71.

use std::collections::BTreeSet;

use conf::directive::Args::Raw;
use conf::words::{next_word, words};
use conf::{Allowed, Cmd, Directive, Gathered, ModuleInfo, Origin, Outcome, Setting, row, settings};
use runtime::{Load, offload};
use server::paths::c_path;
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request, VirtualHost};

use super::mod_alias::file_path;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "userdir_module", source: "mod_userdir.c", linked: false, directives: DIRECTIVES },
    // After Alias, whatever the order in which the modules are loaded.
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::Translate,
            Order::AfterMiddle(1),
            PhaseHook::Later { claims: is_for_user, run: |request| Box::pin(translate(request)) },
        ),
    ],
};

/// The name of the note with the user whose directory a request is for.
pub const USER: &str = "mod_userdir_user";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("UserDir", Allowed::SERVER, Raw(set), "", "the public subdirectory in users' home directories, or 'disabled', or 'disabled username username...', or 'enabled username username...'"),
];

settings! {
    /// The module's settings of a server.
    pub struct UserDirServer {
        directories: Setting<Vec<String>>,
        /// Whether only listed users have one.
        disabled: Setting<bool> = false,
        users: Gathered<Users>,
    }
}

/// The `UserDir` line that gives users of this virtual host a directory.
pub fn origin(host: &VirtualHost) -> Option<&Origin> {
    host.settings.get::<UserDirServer>().directories.origin()
}

/// Users by name. A virtual host with any of these lines inherits none.
#[derive(Clone, Debug, Default)]
struct Users {
    enabled: BTreeSet<String>,
    disabled: BTreeSet<String>,
}

fn set(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let origin = cmd.origin();
    let mut rest = line;
    let keyword = next_word(&mut rest);
    let disables = match keyword.to_ascii_lowercase().as_str() {
        "" => return Err("UserDir requires an argument.".into()),
        "disable" | "disabled" => true,
        "enable" | "enabled" => false,
        _ => {
            cmd.server.edit::<UserDirServer>().users.edit(&origin);
            return cmd.server_set(|s: &mut UserDirServer| &mut s.directories, words(line));
        }
    };
    let settings = cmd.server.edit::<UserDirServer>();
    let users = settings.users.edit(&origin);
    let names = words(rest);
    if names.is_empty() {
        settings.disabled.set(disables, &origin);
    } else {
        let list = if disables { &mut users.disabled } else { &mut users.enabled };
        // As in Apache's tables, names ignore case.
        list.extend(names.iter().map(|name| name.to_ascii_lowercase()));
    }
    Ok(())
}

fn is_for_user(request: &Request) -> bool {
    request.data.uri.starts_with("/~") && request.host::<UserDirServer>().directories.is_set()
}

async fn translate(request: &mut Request) -> Flow {
    let host = request.vhost;
    let conf = host.settings.get::<UserDirServer>();
    let path = &request.data.uri[2..];
    let (user, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let (user, rest) = (user.to_string(), rest.to_string());
    if !conf.allows(&user) {
        return Flow::Declined;
    }
    let Some(directories) = conf.directories.get() else { return Flow::Declined };
    let places = places(directories, &user, &rest);
    // The user database may be on a name server.
    let name = user.clone();
    let found = offload(Load::Resolve, move || find(&places, &name)).await;
    match found {
        None => Flow::Declined,
        Some(Found::Elsewhere(url)) => {
            request.note_step("userdir", conf.directories.origin(), |_| format!("UserDir: {url}"));
            request.note_reason(302, "userdir", conf.directories.origin(), |_| ("UserDir".into(), String::new()));
            request.response.headers_out.set("Location", url);
            Flow::Status(302)
        }
        Some(Found::Directory(directory)) => {
            request.mapped.filename = file_path(&request.server.language.server_root, &format!("{directory}{rest}"));
            request.mapped.context = Some((format!("/~{user}"), directory));
            request.notes.set(USER, user);
            request.note_step("userdir", conf.directories.origin(), |request| {
                format!("UserDir: {}", request.mapped.filename)
            });
            Flow::Ok
        }
    }
}

impl UserDirServer {
    fn allows(&self, user: &str) -> bool {
        if matches!(user, "" | "." | "..") {
            return false;
        }
        let users = self.users.get();
        let named = |list: fn(&Users) -> &BTreeSet<String>| {
            users.is_some_and(|users| list(users).contains(&user.to_ascii_lowercase()))
        };
        !named(|users| &users.disabled) && (!self.disabled() || named(|users| &users.enabled))
    }
}

/// Where a word of `UserDir` looks for a user's pages.
enum UserDirectory {
    /// In this directory.
    Directory(String),
    /// In this directory of the user's home.
    Home(String),
    /// At this URL.
    Elsewhere(String),
}

enum Found {
    Directory(String),
    Elsewhere(String),
}

/// The places that the words of a line mean for a user.
fn places(directories: &[String], user: &str, rest: &str) -> Vec<UserDirectory> {
    let place = |word: &String| match word.split_once('*') {
        // As in Apache, anything after the user's name in a URL is ignored.
        Some((before, _)) if before.contains(':') => UserDirectory::Elsewhere(format!("{before}{user}{rest}")),
        Some((before, after)) => UserDirectory::Directory(format!("{before}{user}{after}")),
        None if word.starts_with('/') => UserDirectory::Directory(format!("{word}/{user}")),
        None => UserDirectory::Home(word.clone()),
    };
    directories.iter().map(place).collect()
}

/// The first existing place; the last one counts even if it does not exist, since a handler may use it.
fn find(places: &[UserDirectory], user: &str) -> Option<Found> {
    for (at, place) in places.iter().enumerate() {
        let directory = match place {
            UserDirectory::Elsewhere(url) => return Some(Found::Elsewhere(url.clone())),
            UserDirectory::Directory(directory) => directory.clone(),
            UserDirectory::Home(below) => match sys::cred::user(user) {
                Ok(Some(user)) => format!("{}/{below}", user.home),
                // There is no such user, or that is unknown: there is no such directory.
                Ok(None) | Err(_) => continue,
            },
        };
        let is_there = || c_path(&directory).is_some_and(|path| sys::file::stat(&path).is_ok());
        if at + 1 == places.len() || is_there() {
            return Some(Found::Directory(directory));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("UserDir", "UserDir requires an argument."),
            ("UserDir disabled root\nUserDir public_html", ""),
            ("UserDir ENABLED\nUserDir disable", ""),
            ("<Directory /x>\nUserDir x\n</Directory>", "UserDir not allowed in <Directory> context"),
        ]);
    }
}

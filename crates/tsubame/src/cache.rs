//! `tsubame cache`: shows, removes and limits the responses that mod_cache_disk has stored.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use lexopt::prelude::*;
use serde_json::json;
use server::Server;
use server::module::{Inventory, StoredResponse, inventories};

use crate::cli::{self, CONFIGURATION, HelpPage, Options, Value, misuse, with, word};
use crate::config::{self, ConfigSource};
use crate::diagnosis::print;
use crate::output;

/// The help page of `tsubame cache`.
pub(crate) static PAGE: HelpPage = HelpPage {
    name: "cache",
    purpose: "the stored responses of mod_cache_disk",
    usage: &["cache {} list [--json]", "cache {} purge URL", "cache {} clean --limit SIZE"],
    brief: &CONFIGURATION,
    text: "  tsubame cache -f /etc/apache2/apache2.conf purge http://www.example.com/news

The responses are those in the directories that CacheRoot names, of this server or of Apache. The server may run meanwhile.
",
    column: 20,
    groups: &[
        (
            "Commands",
            &[
                word(&["list"], "each stored response: status, size, age, for how long it is fresh, URL"),
                with(&["purge"], Value::Any("URL"), "remove what is stored for this URL, all variants of it"),
                word(&["clean"], "remove responses until the rest is small enough: stale ones first, then the oldest"),
            ],
        ),
        (
            "Options",
            &[
                with(&["-l", "--limit"], Value::Any("SIZE"), "the size for clean in bytes, or with K, M or G"),
                word(&["--json"], "print JSON"),
            ],
        ),
    ],
    end: "\
Exit status:
  0  done
  1  the configuration or the command line is wrong, or files cannot be read or removed
",
    misuse: 1,
};

/// What the command line asks for.
#[derive(Debug, Default)]
struct Wish {
    /// The command, and the URL behind it.
    words: Vec<String>,
    limit: Option<u64>,
    json: bool,
}

/// Runs `tsubame cache`.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let wish = match misuse::wish(program, &PAGE, read(&mut options, lexopt::Parser::from_args(args))) {
        Ok(wish) => wish,
        Err(code) => return code,
    };
    let configured = match config::read(&options, &ConfigSource::File) {
        Ok(configured) => configured,
        Err(broken) => {
            print::failure(&options, &broken);
            return ExitCode::FAILURE;
        }
    };
    let server = configured.loaded.server;
    // Only what the children may read and remove: others can write to their directories.
    let text = config::become_child(&server, program)
        .and_then(|()| answer(&wish, &server).map_err(|error| sys::describe(&error)));
    match text {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            output::complain(&format!("{program} cache: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn read(options: &mut Options, mut parser: lexopt::Parser) -> Result<Option<Wish>, lexopt::Error> {
    let mut wish = Wish::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("json") => wish.json = true,
            Short('l') | Long("limit") => {
                let text = parser.value()?.string()?;
                wish.limit =
                    Some(conf::values::size(&text).ok_or("a size is a number of bytes, or one with K, M or G")?);
            }
            Value(text) => wish.words.push(text.string()?),
            Short(option) => cli::configuration_option(options, option, &mut parser)?,
            arg => return Err(arg.unexpected()),
        }
    }
    let words: Vec<&str> = wish.words.iter().map(String::as_str).collect();
    match (&words[..], wish.limit) {
        (["list"] | ["purge", _], None) | (["clean"], Some(_)) => Ok(Some(wish)),
        (["clean"], None) => Err("clean needs --limit SIZE".into()),
        (["purge"], _) => Err("purge needs a URL".into()),
        _ => Err("write list, purge URL or clean --limit SIZE".into()),
    }
}

fn answer(wish: &Wish, server: &Server) -> io::Result<String> {
    let roots = |inventory: &Inventory| (inventory.roots)(server);
    let found = inventories().map(|inventory| (inventory, roots(inventory))).find(|(_, roots)| !roots.is_empty());
    let Some((inventory, roots)) = found else { return Err(io::Error::other("no CacheRoot is configured")) };
    if let [_, url] = &wish.words[..] {
        let removed = (inventory.purge)(server, url)?;
        return Ok(match wish.json {
            true => format!("{}\n", json!({ "removed": removed })),
            false => format!("removed: {removed}\n"),
        });
    }
    let mut text = String::new();
    let mut all = Vec::new();
    for root in &roots {
        let root_name = root.display().to_string();
        if let Some(limit) = wish.limit {
            let cleaned = (inventory.clean)(root, limit)?;
            let (removed, left, bytes) = (cleaned.removed, cleaned.left, cleaned.size);
            text += &format!("{root_name}: removed: {removed}, left: {left} ({bytes} bytes)\n");
            all.push(json!({ "root": root_name, "removed": removed, "left": left, "bytes": bytes }));
            continue;
        }
        for response in (inventory.list)(root)? {
            text += &line(&response);
            let StoredResponse { url, status, bytes, age, fresh, is_variant, .. } = &response;
            all.push(json!({
                "root": root_name, "url": url, "status": status, "bytes": bytes, "age": age, "fresh": fresh,
                "variant": is_variant,
            }));
        }
    }
    Ok(if wish.json { format!("{:#}\n", serde_json::Value::Array(all)) } else { text })
}

fn line(response: &StoredResponse) -> String {
    let StoredResponse { url, status, bytes, age, fresh, .. } = response;
    let state = if *fresh > 0 { format!("fresh {fresh} s") } else { "stale".into() };
    format!("{status} {bytes:>10} {age:>8} s  {state:<14} {url}\n")
}

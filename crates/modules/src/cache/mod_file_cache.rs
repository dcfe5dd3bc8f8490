//! Files that Apache opens or maps at its start.
//!
//! Apache manual: mod_file_cache. The manual promises files without system calls; the server's own file cache does that
//! for all files, and for changed ones too.

use conf::directive::Args::Iterate;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, row};
use server::Module;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "file_cache_module", source: "mod_file_cache.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

const ALL_ARE: &str = "Any requested file is kept open or in memory, and its changes take effect at once.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("cachefile", Allowed::SERVER, Iterate(check), "", "A space separated list of files to add to the file handle cache at config time").without_effect(ALL_ARE),
    row("mmapfile", Allowed::SERVER, Iterate(check), "", "A space separated list of files to mmap at config time").without_effect(ALL_ARE),
];

/// Repeats Apache's warnings about files that it cannot cache.
fn check(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    let system = cmd.context.system.clone();
    let text = if !system.exists(&path) {
        format!("AH00795: unable to stat({path}), skipping")
    } else if system.is_dir(&path) {
        format!("AH00796: {path} isn't a regular file, skipping")
    } else {
        return Ok(());
    };
    cmd.context.note("file_cache", Level::Warn, text);
    Ok(())
}

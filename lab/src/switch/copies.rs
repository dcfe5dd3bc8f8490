//! Copies of the file systems for a server whose scripts may write: what they change is theirs alone, and is gone with them.
//!
//! Each server gets a namespace of mounts in which every directory is overlaid with an empty one in memory (overlayfs). Sockets
//! and devices stay those of the machine, so that databases can be reached; what scripts change there is no copy. A file system
//! that cannot be overlaid may only be read.

use std::path::Path;

use crate::machine::error::{Error, Result};
use crate::machine::programs;

/// How much all files that the scripts of one server change may have, together.
const ROOM: &str = "1g";

/// Overlays everything, gives the directory `$1` back, and becomes what follows. `/mnt` holds the original tree and the changes
/// meanwhile; nobody outside sees that. In the end `/mnt` may only be read.
const SCRIPT: &str = r#"own=$1 room=$2; shift 2
fail() { echo "no copy of the file system for the scripts: $*" >&2; exit 1; }
mount -t tmpfs -o "size=$room,mode=755" tmpfs /mnt || fail "no memory at /mnt"
mkdir /mnt/original /mnt/changes /mnt/work && mount --rbind / /mnt/original || fail "no original"
cover() {
    name=$(echo "$1" | tr / _)
    mkdir "/mnt/changes/$name" "/mnt/work/$name" || return 1
    chown --reference="/mnt/original$1" "/mnt/changes/$name" && chmod --reference="/mnt/original$1" "/mnt/changes/$name"
    mount -t overlay -o "lowerdir=/mnt/original$1,upperdir=/mnt/changes/$name,workdir=/mnt/work/$name" overlay "$1"
}
keep() { mount --bind "/mnt/original$1" "$1" && mount -o remount,ro,bind "$1"; }
# A blank in a name is \040 there.
mounted=$(printf '%b\n' "$(cut -d' ' -f5 /proc/self/mountinfo | sort -u)")
for directory in /* /dev/shm; do
    case $directory in /mnt|/proc|/sys|/dev) continue ;; esac
    [ -L "$directory" ] || [ ! -d "$directory" ] && continue
    cover "$directory" || fail "$directory"
    # What is mounted within is not a part of the directory. What cannot be overlaid may only be read. A place that the machine
    # has removed meanwhile, as that of a network namespace that ended, is not missed.
    printf '%s\n' "$mounted" | grep -F "$directory/" | grep "^$directory/" | while read -r inner; do
        [ -d "$inner" ] && cover "$inner" 2>/dev/null || keep "$inner" || [ ! -e "/mnt/original$inner" ] || exit 1
    done || fail "what is mounted in $directory"
done
# A socket can be reached only as what it is: one in an overlay leads nowhere.
sockets=$(sed -n 's/^[^/]* 00010000 [^/]* \(\/.*\)$/\1/p' /proc/net/unix | sort -u)
printf '%s\n' "$sockets" | while read -r socket; do
    [ ! -S "/mnt/original$socket" ] || mount --bind "/mnt/original$socket" "$socket" || [ ! -S "/mnt/original$socket" ] || exit 1
done || fail "the sockets"
mount --bind "/mnt/original$own" "$own" || fail "$own"
# What holds the changes and the original has no name any more, and no script finds them.
umount -l /mnt && mount --bind /mnt /mnt && mount -o remount,ro,bind /mnt || fail "/mnt"
cd "$own" && exec "$@""#;

/// The program and the arguments that start a server with copies; `own` is the laboratory's own directory.
///
/// # Errors
/// This user may not mount anything.
pub(super) fn wrapped(program: &Path, arguments: Vec<String>, own: &Path) -> Result<(std::path::PathBuf, Vec<String>)> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new("only root can give each server a copy of the files that its scripts change")
            .advise("as root, or without --unsafe; scripts alone: --in-place, if what they do twice does no harm"));
    }
    let unshare = programs::find(&["unshare"]).ok_or_else(|| Error::new("unshare is not here (util-linux)"))?;
    let first = ["--mount", "sh", "-c", SCRIPT, "sh"].map(str::to_owned);
    let rest = [own.display().to_string(), ROOM.to_owned(), program.display().to_string()];
    Ok((unshare, first.into_iter().chain(rest).chain(arguments).collect()))
}

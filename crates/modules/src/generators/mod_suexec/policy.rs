//! The conditions for a script that runs as its owner, and the environment it gets.
//!
//! Apache manual: suexec, "suEXEC Security Model". There a separate setuid program checks and decides; here it is a
//! daemon that is root, and changes to the owner only on the way into the script.

use std::ffi::{CStr, CString, OsStr};
use std::fs::canonicalize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use gateway::Environment;
use gateway::owners::{Admitted, Owners};
use sys::cred::Identity;
use sys::file::{OpenDirectory, Ownership};

/// The lowest numbers of users and groups that scripts may run as, as in Debian's suEXEC.
const UID_MIN: u32 = 100;
const GID_MIN: u32 = 100;
/// The `PATH` of such scripts.
const PATH: &CStr = c"PATH=/usr/local/bin:/usr/bin:/bin";

/// The group or others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const SETS_IDS: u32 = 0o6000;
const EXECUTABLE: u32 = 0o111;

/// The users that may own scripts, and the place of those scripts.
#[derive(Debug)]
pub(super) struct Policy {
    /// All users named in the configuration.
    pub(super) identities: Vec<Identity>,
    /// The directory that contains all such scripts.
    pub(super) root: PathBuf,
}

/// Why a script may not run as its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// The configuration names no such owner.
    Unknown,
    /// The user is a system user.
    ForbiddenUser,
    /// The group is a system group.
    ForbiddenGroup,
    /// The program's path leads upwards.
    Invalid,
    /// There is no such directory.
    NoDirectory,
    /// Outside the root directory.
    NotInRoot,
    /// Others may write to the directory.
    DirectoryWritable,
    /// There is no such file, or it is a link or a directory.
    NoProgram,
    /// Others may change it.
    ProgramWritable,
    /// Has a setuid or setgid bit.
    SetsIds,
    /// The program, or its directory, has another owner.
    Mismatch,
    /// Nobody may execute it.
    NotExecutable,
}

/// In the words of Apache's suEXEC.
const TEXTS: &[(Refused, &str)] = &[
    (Refused::Unknown, "the configuration names no such owner"),
    (Refused::ForbiddenUser, "cannot run as forbidden uid"),
    (Refused::ForbiddenGroup, "cannot run as forbidden gid"),
    (Refused::Invalid, "invalid command"),
    (Refused::NoDirectory, "cannot stat directory"),
    (Refused::NotInRoot, "command not in docroot"),
    (Refused::DirectoryWritable, "directory is writable by others"),
    (Refused::NoProgram, "cannot stat program"),
    (Refused::ProgramWritable, "file is writable by others"),
    (Refused::SetsIds, "file is either setuid or setgid"),
    (Refused::Mismatch, "target uid/gid mismatch with directory or program"),
    (Refused::NotExecutable, "file has no execute permission"),
];

/// The error log's text for a refused script, by the number that a daemon sent to a child.
pub(super) fn refusal(why: u64) -> String {
    let text = usize::try_from(why).ok().and_then(|index| TEXTS.get(index)).map_or("", |(_, text)| text);
    format!("suexec policy violation: {text}")
}

impl Owners for Policy {
    fn admit(&self, program: &CStr, owner: (u32, u32)) -> Result<Admitted<'_>, u64> {
        let number = |refused| TEXTS.iter().position(|(known, _)| *known == refused).unwrap_or(0) as u64;
        self.check(program, owner).map_err(number)
    }

    fn environment(&self, environment: &Environment) -> Environment {
        clean(environment)
    }
}

impl Policy {
    fn check(&self, program: &CStr, owner: (u32, u32)) -> Result<Admitted<'_>, Refused> {
        let identity = self.identities.iter().find(|identity| (identity.uid, identity.gid) == owner);
        let identity = identity.ok_or(Refused::Unknown)?;
        if identity.uid < UID_MIN {
            return Err(Refused::ForbiddenUser);
        }
        if identity.gid < GID_MIN {
            return Err(Refused::ForbiddenGroup);
        }
        let program = Path::new(OsStr::from_bytes(program.to_bytes()));
        if !program.is_absolute() || program.components().any(|part| part == Component::ParentDir) {
            return Err(Refused::Invalid);
        }
        let (parent, name) = program.parent().zip(program.file_name()).ok_or(Refused::Invalid)?;
        let name = CString::new(name.as_bytes()).map_err(|_| Refused::Invalid)?;
        // Everything below is about this directory, whatever happens to its name meanwhile.
        let directory = OpenDirectory::open(parent).map_err(|_| Refused::NoDirectory)?;
        let root = canonicalize(&self.root).map_err(|_| Refused::NotInRoot)?;
        if !directory.name().is_ok_and(|name| name.starts_with(root)) {
            return Err(Refused::NotInRoot);
        }
        let around = directory.ownership().map_err(|_| Refused::NoDirectory)?;
        let itself = directory.ownership_of(&name).ok().filter(|file| file.regular).ok_or(Refused::NoProgram)?;
        let is_owned = |file: &Ownership| (file.uid, file.gid) == owner;
        let checks = [
            (around.mode & WRITABLE_BY_OTHERS == 0, Refused::DirectoryWritable),
            (itself.mode & WRITABLE_BY_OTHERS == 0, Refused::ProgramWritable),
            (itself.mode & SETS_IDS == 0, Refused::SetsIds),
            (is_owned(&around) && is_owned(&itself), Refused::Mismatch),
            (itself.mode & EXECUTABLE != 0, Refused::NotExecutable),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, refused)) => Err(refused),
            None => Ok(Admitted { identity, directory, name }),
        }
    }
}

/// The variables for a script that runs as its owner, besides those of the client's fields and of the connection.
const KNOWN: &[&str] = &[
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "DATE_GMT",
    "DATE_LOCAL",
    "DOCUMENT_NAME",
    "DOCUMENT_PATH_INFO",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "LAST_MODIFIED",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "QUERY_STRING_UNESCAPED",
    "REDIRECT_ERROR_NOTES",
    "REDIRECT_HANDLER",
    "REDIRECT_QUERY_STRING",
    "REDIRECT_REMOTE_USER",
    "REDIRECT_SCRIPT_FILENAME",
    "REDIRECT_STATUS",
    "REDIRECT_URL",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SCRIPT_URI",
    "SCRIPT_URL",
    "SERVER_ADDR",
    "SERVER_ADMIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SIGNATURE",
    "SERVER_SOFTWARE",
    "TZ",
    "UNIQUE_ID",
    "USER_NAME",
];

/// The environment without anything that could mislead another user's program.
fn clean(environment: &Environment) -> Environment {
    let is_known = |line: &&CStr| {
        let name = line.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
        name.starts_with(b"HTTP_") || name.starts_with(b"SSL_") || KNOWN.iter().any(|known| known.as_bytes() == name)
    };
    [PATH].into_iter().chain(environment.iter().filter(is_known)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }

    /// Arbitrary numbers: only root can give files away.
    const OWNER: (u32, u32) = (54321, 54322);

    #[test]
    fn conditions_for_an_owner() {
        if !sys::cred::is_root() {
            assert_eq!(std::env::var_os("CI"), None, "only root can give files away: run the tests as root");
            return;
        }
        let root = std::env::temp_dir().join(format!("tsubame-owner-{}", std::process::id()));
        let (inside, open, outside) = (root.join("www/in"), root.join("www/open"), root.join("out"));
        for directory in [&inside, &open, &outside] {
            std::fs::create_dir_all(directory).expect("directory");
            mode(directory, 0o755);
            std::os::unix::fs::chown(directory, Some(OWNER.0), Some(OWNER.1)).expect("chown");
        }
        let program = |directory: &Path, name: &str, bits: u32, owner: (u32, u32)| {
            let path = directory.join(name);
            std::fs::write(&path, "#!/bin/sh\n").expect("write");
            std::os::unix::fs::chown(&path, Some(owner.0), Some(owner.1)).expect("chown");
            mode(&path, bits);
            path
        };
        let good = program(&inside, "good", 0o755, OWNER);
        symlink(&good, inside.join("link")).expect("link");
        let programs = [
            (good.clone(), OWNER, None),
            (good.clone(), (OWNER.0, 1000), Some(Refused::Unknown)),
            (good.clone(), (99, 1000), Some(Refused::ForbiddenUser)),
            (good.clone(), (1000, 99), Some(Refused::ForbiddenGroup)),
            (good, (1000, 1000), Some(Refused::Mismatch)),
            (inside.join("../in/good"), OWNER, Some(Refused::Invalid)),
            (PathBuf::from("good"), OWNER, Some(Refused::Invalid)),
            (inside.join("none/x"), OWNER, Some(Refused::NoDirectory)),
            (inside.join("none"), OWNER, Some(Refused::NoProgram)),
            (inside.join("link"), OWNER, Some(Refused::NoProgram)),
            (inside.clone(), OWNER, Some(Refused::NoProgram)),
            (program(&outside, "x", 0o755, OWNER), OWNER, Some(Refused::NotInRoot)),
            (program(&open, "x", 0o755, OWNER), OWNER, Some(Refused::DirectoryWritable)),
            (program(&inside, "group", 0o775, OWNER), OWNER, Some(Refused::ProgramWritable)),
            (program(&inside, "all", 0o757, OWNER), OWNER, Some(Refused::ProgramWritable)),
            (program(&inside, "setuid", 0o4755, OWNER), OWNER, Some(Refused::SetsIds)),
            (program(&inside, "root", 0o755, (0, 0)), OWNER, Some(Refused::Mismatch)),
            (program(&inside, "text", 0o644, OWNER), OWNER, Some(Refused::NotExecutable)),
        ];
        mode(&open, 0o775);
        let identity = |(uid, gid)| Identity { uid, gid, groups: vec![gid] };
        let identities = [OWNER, (99, 1000), (1000, 99), (1000, 1000)].map(identity).to_vec();
        let policy = Policy { identities, root: root.join("www") };
        for (path, owner, want) in programs {
            let program = CString::new(path.as_os_str().as_bytes()).expect("no zero");
            assert_eq!(policy.check(&program, owner).err(), want, "{}", path.display());
        }
        std::fs::remove_dir_all(root).expect("clean");
    }

    #[test]
    fn a_number_stands_for_each_reason() {
        let policy = Policy { identities: Vec::new(), root: "/".into() };
        assert_eq!(policy.admit(c"/bin/true", OWNER).err(), Some(0));
        assert_eq!(refusal(0), "suexec policy violation: the configuration names no such owner");
        assert_eq!(refusal(9), "suexec policy violation: file is either setuid or setgid");
        assert_eq!(refusal(999), "suexec policy violation: ");
    }

    #[test]
    fn the_environment_is_clean() {
        let lines =
            [c"HTTP_HOST=x", c"LD_PRELOAD=y", c"PATH=/evil", c"QUERY_STRING=PATH=z", c"QUERY_STRINGS=1", c"SSL_X=1"];
        let clean = clean(&lines.into_iter().collect());
        assert!(clean.iter().eq([PATH, c"HTTP_HOST=x", c"QUERY_STRING=PATH=z", c"SSL_X=1"]));
    }
}

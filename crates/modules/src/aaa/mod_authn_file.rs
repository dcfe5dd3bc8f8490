//! Passwords from a text file.
//!
//! Apache manual: mod_authn_file, "Password Formats".

use conf::directive::Args::Take1;
use conf::{Allowed, Directive, Level, ModuleInfo, Setting, row, settings};
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::{Hook, Module, Request};

use super::files::Files;
use super::mod_authn_socache;
use super::passwords::{check_stored, digits};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authn_file_module", source: "mod_authn_file.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authn(&FILE)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthUserFile", Allowed::AUTH, Take1(|c, v| { let path = c.context.server_relative(v); c.set(|d: &mut FileDir| &mut d.path, path) }), "", "text file containing user IDs and passwords").differs("Passwords that take too long to check are refused with a message (bcrypt above a cost of 12, SHA-crypt above 500000 rounds, yescrypt and scrypt above 64 MB), and so are those of more than 511 bytes, however they are stored."),
];

settings! {
    /// The module's settings of a section.
    pub struct FileDir {
        path: Setting<String>,
    }
}

static FILE: AuthnProvider = AuthnProvider {
    name: "file",
    check: |request, user, password| Box::pin(check(request, user, password)),
    realm_hash: Some(|request, user, realm, digest| Box::pin(realm_hash(request, user, realm, digest))),
};

/// The text after `user:`, line by line: for passwords a user's first line counts, for digests the one with the right
/// realm.
static USERS: Files = Files::new(|line, see| {
    let (user, rest) = line.split_once(':').unwrap_or((line, ""));
    see(user, rest);
});

/// The lines of the user in the file.
async fn lines_of(request: &Request, user: &str, numbers: [&str; 2]) -> Result<Vec<String>, Authn> {
    let Some(path) = request.dir::<FileDir>().path.get() else {
        let text = format!("{}: AuthUserFile not specified in the configuration", numbers[0]);
        request.log("authn_file", Level::Error, text);
        return Err(Authn::Error);
    };
    match USERS.get(request, path, user).await {
        Ok(lines) => lines.ok_or(Authn::UserNotFound),
        Err(error) => {
            let text = format!("{}: Could not open password file: {path}", numbers[1]);
            request.log_os("authn_file", Level::Error, &error, text);
            Err(Authn::Error)
        }
    }
}

async fn check(request: &Request, user: &str, password: &str) -> Authn {
    let lines = match lines_of(request, user, ["AH01619", "AH01620"]).await {
        Ok(lines) => lines,
        Err(answer) => return answer,
    };
    let stored = lines.first().map_or("", |line| line.split(':').next().unwrap_or_default());
    check_stored(request, "authn_file", user, password, stored).await
}

/// A file may have both digests of a user, distinguished by their lengths.
async fn realm_hash(request: &Request, user: &str, realm: &str, digest: RealmDigest) -> Result<String, Authn> {
    let lines = lines_of(request, user, ["AH01621", "AH01622"]).await?;
    let of_realm = |line: &String| {
        let (its_realm, rest) = line.split_once(':')?;
        let hash = rest.split(':').next().unwrap_or_default();
        let is_sha256 = hash.len() == digits(RealmDigest::Sha256);
        (its_realm == realm && is_sha256 == (digest == RealmDigest::Sha256)).then(|| hash.to_string())
    };
    let hash = lines.iter().find_map(of_realm).ok_or(Authn::UserNotFound)?;
    mod_authn_socache::remember(request, "file", user, Some(realm), &hash).await;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::super::files::parsed;
    use super::*;

    #[test]
    fn lines_of_a_password_file() {
        let text = "# c\n\n  \n joe:one:x\nzoe\njoe:two\n  #no:x\n:empty";
        let lines = [("joe", "one:x"), ("zoe", ""), ("joe", "two"), ("", "empty")];
        assert_eq!(parsed(&USERS, text), lines.map(|(user, rest)| (user.to_string(), rest.to_string())));
    }

    #[test]
    fn directives() {
        crate::testing::check(&[
            ("<Location />\nAuthUserFile conf/passwords\n</Location>", ""),
            (
                "<Location />\nAuthUserFile\n</Location>",
                "AuthUserFile takes one argument, text file containing user IDs and passwords",
            ),
            ("AuthUserFile x", "AuthUserFile not allowed here"),
        ]);
    }
}

//! The user and group of the children (Apache manual, mod_unixd).

use conf::{Setting, SettingsMap, System, settings};

settings! {
    /// Whom the children run as, and where.
    pub struct UserSettings {
        /// `User`, as written.
        pub user: Setting<String>,
        /// `Group`, as written.
        pub group: Setting<String>,
        /// `ChrootDir`.
        pub chroot: Setting<String>,
    }
}

/// A user or group with its name and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As written.
    pub name: String,
    /// Its number; `u32::MAX` if nothing is configured (`#-1`).
    pub id: u32,
}

/// There is no such user or group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserError {
    /// `User` as written.
    User(String),
    /// `Group` as written.
    Group(String),
}

impl UserError {
    /// Apache's message. `program` is the name that the server was started with.
    pub fn text(&self, program: &str) -> String {
        match self {
            UserError::User(name) => format!("AH00543: {program}: bad user name {name}"),
            UserError::Group(name) => format!("AH00544: {program}: bad group name {name}"),
        }
    }
}

/// The `User` and `Group` in effect.
pub fn identity(main: &SettingsMap, system: &dyn System) -> Result<(Named, Named), UserError> {
    let conf = main.get::<UserSettings>();
    let number = |name: &str| name.strip_prefix('#').map(|digits| conf::values::atoi(digits) as u32);
    let user = conf.user.get().map_or("#-1", String::as_str);
    let group = conf.group.get().map_or("#-1", String::as_str);
    let uid = number(user).or_else(|| system.user(user).map(|(uid, _)| uid));
    let gid = number(group).or_else(|| system.group(group));
    Ok((
        Named { name: user.into(), id: uid.ok_or_else(|| UserError::User(user.into()))? },
        Named { name: group.into(), id: gid.ok_or_else(|| UserError::Group(group.into()))? },
    ))
}

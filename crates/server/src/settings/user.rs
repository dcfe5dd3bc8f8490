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

/// The `User` and `Group` in effect. `Err`: there is no such user or group.
pub fn identity(main: &SettingsMap, system: &dyn System) -> Result<(Named, Named), String> {
    let conf = main.get::<UserSettings>();
    let number = |name: &str| name.strip_prefix('#').map(|digits| conf::values::atoi(digits) as u32);
    let user = conf.user.get().map_or("#-1", String::as_str);
    let group = conf.group.get().map_or("#-1", String::as_str);
    let uid = number(user).or_else(|| system.user(user).map(|(uid, _)| uid));
    let gid = number(group).or_else(|| system.group(group));
    Ok((
        Named { name: user.into(), id: uid.ok_or_else(|| format!("AH00543: {{program}}: bad user name {user}"))? },
        Named { name: group.into(), id: gid.ok_or_else(|| format!("AH00544: {{program}}: bad group name {group}"))? },
    ))
}

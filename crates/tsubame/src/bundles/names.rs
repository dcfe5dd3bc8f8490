//! The names that the files of a configuration have in a bundle, and the paths that they have on a machine.
//!
//! A name says where the file is, not on which machine: `conf/sites/a.conf` is beside or below the main file, `root/…` below
//! `ServerRoot`, and `other/etc/mime.types` is anywhere else.

use server::paths::dir_name;

/// The first parts of names.
const CONF: &str = "conf";
const ROOT: &str = "root";
const OTHER: &str = "other";

/// The longest name, in bytes.
const NAME_MAX: usize = 1000;

/// The directories of a machine from which names are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// The directory of the main file.
    pub(crate) conf: String,
    /// `ServerRoot`.
    pub(crate) root: String,
}

impl Places {
    /// The places of a configuration with this main file.
    pub(crate) fn new(main: &str, root: &str) -> Places {
        Places { conf: dir_name(main).trim_end_matches('/').into(), root: root.trim_end_matches('/').into() }
    }

    /// The names that a path may have, the best one first.
    pub(crate) fn names<'a>(&'a self, path: &'a str) -> impl Iterator<Item = String> + 'a {
        let below = [(CONF, &self.conf), (ROOT, &self.root)].into_iter().filter_map(move |(place, directory)| {
            let rest = path.strip_prefix(directory.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{place}{rest}"))
        });
        below.chain(std::iter::once(format!("{OTHER}{path}")))
    }

    /// The best name of a path.
    pub(crate) fn name(&self, path: &str) -> String {
        self.names(path).next().unwrap_or_default()
    }
}

/// Whether a name stays in the directory in which it is unpacked.
pub(crate) fn is_safe(name: &str) -> bool {
    let mut parts = name.split('/');
    let place = parts.next().unwrap_or_default();
    let mut inside = parts.clone().peekable();
    [CONF, ROOT, OTHER].contains(&place)
        && inside.peek().is_some()
        && parts.all(|part| !matches!(part, "" | "." | ".."))
        && name.len() <= NAME_MAX
        && !name.contains(|c: char| c.is_control())
        // No character stands for a byte that was looked for in vain, such as a slash.
        && http::text::from_bytes(&http::text::to_bytes(name)) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_from_the_main_file_and_the_root() {
        let places = Places::new("/srv/a/conf/httpd.conf", "/srv/a");
        for (path, want) in [
            ("/srv/a/conf/httpd.conf", "conf/httpd.conf"),
            ("/srv/a/sites/x.conf", "root/sites/x.conf"),
            ("/srv/ab/x.conf", "other/srv/ab/x.conf"),
            ("/etc/mime.types", "other/etc/mime.types"),
        ] {
            assert_eq!(places.name(path), want);
        }
        let all: Vec<String> = places.names("/srv/a/conf/x").collect();
        assert_eq!(all, ["conf/x", "root/conf/x", "other/srv/a/conf/x"]);
    }

    #[test]
    fn names_that_lead_elsewhere_are_not_safe() {
        for good in ["conf/httpd.conf", "root/a/b", "other/etc/mime.types", "conf/..x", "conf/\u{10FFE6}"] {
            assert!(is_safe(good), "{good}");
        }
        for bad in [
            "",
            "conf",
            "conf/",
            "/conf/x",
            "conf/../x",
            "conf//x",
            "conf/./x",
            "x/y",
            "../conf/x",
            "conf/a\nb",
            "conf/\u{10FF2E}.\u{10FF2F}x",
        ] {
            assert!(!is_safe(bad), "{bad}");
        }
    }
}

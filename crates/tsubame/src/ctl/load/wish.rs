//! The words after `tsubame ctl load`.

use std::path::PathBuf;
use std::time::Duration;

use super::probe::{Probe, Url};

/// How long a URL may take to answer well, if `--within` does not say.
const WITHIN: Duration = Duration::from_secs(10);

/// What to load.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The bundle in a file.
    File(PathBuf),
    /// The version before.
    Rollback,
}

/// What the words ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) what: What,
    /// What has to answer well with the new configuration.
    pub(super) check: Option<Probe>,
}

impl Wish {
    /// Parses the words.
    pub(super) fn parse(words: &[String]) -> Result<Wish, String> {
        let (mut what, mut check, mut at, mut within) = (None, None, None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
                _ => (word.as_str(), None),
            };
            let mut value =
                || value.clone().or_else(|| words.next().cloned()).ok_or(format!("load: {name} needs a value"));
            match name {
                "--rollback" if what.is_none() => what = Some(What::Rollback),
                "--check" => check = Some(Url::parse(&value()?)?),
                "--to" => {
                    let text = value()?;
                    let address = text.parse();
                    at = Some(
                        address.map_err(|_| format!("load: --to {text}: write an address such as 127.0.0.1:443"))?,
                    );
                }
                "--within" => {
                    let text = value()?;
                    let time = conf::values::duration(&text, Duration::from_secs(1));
                    within = Some(time.ok_or_else(|| format!("load: --within {text}: write a time such as 10s"))?);
                }
                file if what.is_none() && !file.starts_with("--") => what = Some(What::File(file.into())),
                other => return Err(format!("load: unexpected word '{other}'")),
            }
        }
        let what = what.ok_or("load needs the FILE of a bundle, or --rollback")?;
        match (check, at, within) {
            (None, Some(_), _) => Err("load: --to is for --check URL".into()),
            (None, _, Some(_)) => Err("load: --within is for --check URL".into()),
            (None, None, None) => Ok(Wish { what, check: None }),
            (Some(url), at, within) => {
                Ok(Wish { what, check: Some(Probe { url, at, within: within.unwrap_or(WITHIN) }) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Wish, String> {
        Wish::parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn words_of_the_command() {
        let wish = parse("a.bundle --check http://127.0.0.1/x --within 2min").expect("a wish");
        assert_eq!(wish.what, What::File("a.bundle".into()));
        assert_eq!(wish.check.map(|check| (check.at, check.within)), Some((None, Duration::from_secs(120))));
        let wish = parse("--rollback --check=https://[::1]:8443 --to [::1]:443").expect("a wish");
        assert_eq!(wish.what, What::Rollback);
        assert_eq!(wish.check.map(|check| (check.at, check.within)), Some(("[::1]:443".parse().ok(), WITHIN)));
        assert_eq!(parse("-").expect("a wish"), Wish { what: What::File("-".into()), check: None });
        for (line, why) in [
            ("", "load needs the FILE of a bundle"),
            ("a b", "unexpected word 'b'"),
            ("a --rollback", "unexpected word '--rollback'"),
            ("a --chekc http://x", "unexpected word '--chekc'"),
            ("a --check", "--check needs a value"),
            ("a --check ftp://x", "begins with http://"),
            ("a --check http://x:y/", "begins with http://"),
            ("a --within 3", "--within is for --check URL"),
            ("a --to [::1]:443", "--to is for --check URL"),
            ("a --check http://x --to localhost", "write an address such as 127.0.0.1:443"),
            ("a --check http://x --within soon", "write a time such as 10s"),
        ] {
            let said = parse(line).expect_err("refused");
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}

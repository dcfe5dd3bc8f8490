//! What a configuration consists of, and the digests that tell one from another.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::names::{Places, is_safe};

/// The version of the format.
const FORMAT: u64 = 1;
/// How many digits of its digest are the version of a configuration: few enough to be compared by people.
const VERSION_DIGITS: usize = 12;

/// What a configuration was read from: everything that decides what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// The name of the main file.
    pub(crate) main: String,
    /// The SHA-256 digests of the files, by name.
    pub(crate) files: BTreeMap<String, String>,
    /// The names that `-D` defined.
    pub(crate) defines: Vec<String>,
    /// The variables of the environment that took part.
    pub(crate) variables: BTreeMap<String, String>,
    /// The lines of `-C`.
    pub(crate) before: Vec<String>,
    /// The lines of `-c`.
    pub(crate) after: Vec<String>,
}

impl Given {
    fn json(&self) -> Value {
        let Given { main, files, defines, variables, before, after } = self;
        json!({
            "main": main,
            "files": files,
            "defines": defines,
            "variables": variables,
            "before": before,
            "after": after,
        })
    }

    /// The version: the beginning of a digest of all of it.
    pub(crate) fn version(&self) -> String {
        let mut version = digest(self.json().to_string().as_bytes());
        version.truncate(VERSION_DIGITS);
        version
    }
}

/// A file that the configuration names, and that each machine has to have already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The directive.
    pub(crate) directive: String,
    /// Its path, as the directive names it.
    pub(crate) path: String,
    /// The SHA-256 fingerprints of the certificates in it, in their order; empty for files of other kinds.
    pub(crate) fingerprints: Vec<String>,
}

/// The list of contents of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) given: Given,
    /// Where the files were when the bundle was made: the configuration may name them by these paths.
    pub(crate) places: Places,
    pub(crate) references: Vec<Reference>,
}

impl Manifest {
    fn body(&self) -> Value {
        let reference =
            |one: &Reference| json!({ "directive": one.directive, "path": one.path, "fingerprints": one.fingerprints });
        let mut body = self.given.json();
        body["format"] = FORMAT.into();
        body["version"] = self.given.version().into();
        body["made_from"] = json!({ "conf": self.places.conf, "root": self.places.root });
        body["references"] = self.references.iter().map(reference).collect();
        body
    }

    /// The text of the manifest, with a digest of everything else in it.
    pub(crate) fn text(&self) -> String {
        let mut body = self.body();
        body["digest"] = digest(body.to_string().as_bytes()).into();
        format!("{body:#}\n")
    }

    /// Parses the text of a manifest. `Err`: it is none, was altered, or has names that would lead elsewhere.
    pub(crate) fn parse(text: &[u8]) -> Result<Manifest, String> {
        let mut value: Value =
            serde_json::from_slice(text).map_err(|error| format!("its manifest is damaged: {error}"))?;
        if value["format"] != FORMAT {
            return Err(format!("it has format {}, this program knows {FORMAT}", value["format"]));
        }
        let claimed = value.as_object_mut().and_then(|object| object.remove("digest")).unwrap_or_default();
        if claimed != digest(value.to_string().as_bytes()) {
            return Err("its manifest was altered: the digest is another".into());
        }
        let manifest = from_json(&value).ok_or("its manifest is not complete")?;
        if manifest.body() != value {
            return Err("its manifest has parts that this program does not know".into());
        }
        let Given { main, files, .. } = &manifest.given;
        if let Some(bad) = files.keys().find(|name| !is_safe(name)) {
            return Err(format!("it has a file that would lead out of its directory: {bad:?}"));
        }
        match files.contains_key(main) {
            true => Ok(manifest),
            false => Err(format!("its main file {main} is missing")),
        }
    }
}

fn from_json(value: &Value) -> Option<Manifest> {
    let given = Given {
        main: text(&value["main"])?,
        files: texts_by_name(&value["files"])?,
        defines: texts(&value["defines"])?,
        variables: texts_by_name(&value["variables"])?,
        before: texts(&value["before"])?,
        after: texts(&value["after"])?,
    };
    let from = &value["made_from"];
    let places = Places { conf: text(&from["conf"])?, root: text(&from["root"])? };
    let reference = |one: &Value| {
        let fingerprints = texts(&one["fingerprints"])?;
        Some(Reference { directive: text(&one["directive"])?, path: text(&one["path"])?, fingerprints })
    };
    let references = value["references"].as_array()?.iter().map(reference).collect::<Option<_>>()?;
    Some(Manifest { given, places, references })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_string)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

fn texts_by_name(value: &Value) -> Option<BTreeMap<String, String>> {
    value.as_object()?.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

/// The SHA-256 digest of these bytes in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let files = [("conf/httpd.conf", "aa"), ("other/etc/mime.types", "bb")];
        let given = Given {
            main: "conf/httpd.conf".into(),
            files: files.map(|(name, digest)| (name.into(), digest.into())).into(),
            defines: vec!["TEST".into()],
            variables: [("LOGS".to_string(), "/var/log".to_string())].into(),
            before: Vec::new(),
            after: vec!["Listen 81".into()],
        };
        let reference = Reference {
            directive: "SSLCertificateFile".into(),
            path: "ssl/a.pem".into(),
            fingerprints: vec!["cc".into()],
        };
        Manifest { given, places: Places::new("/srv/httpd.conf", "/srv"), references: vec![reference] }
    }

    #[test]
    fn a_manifest_says_the_same_after_it_was_written() {
        let manifest = manifest();
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest.clone()));
        assert_eq!(manifest.given.version().len(), VERSION_DIGITS);
        let moved = Manifest { places: Places::new("/home/httpd.conf", "/"), ..manifest.clone() };
        assert_eq!(moved.given.version(), manifest.given.version());
    }

    #[test]
    fn an_altered_manifest_is_refused() {
        let text = manifest().text();
        for (from, to) in
            [("/var/log", "/tmp"), ("\"cc\"", "\"cd\""), ("conf/httpd.conf", "conf/other.conf"), ("81", "82")]
        {
            let why = Manifest::parse(text.replace(from, to).as_bytes()).expect_err("refused");
            assert!(why.contains("altered"), "{from}: {why}");
        }
        assert!(Manifest::parse(&text.as_bytes()[..100]).is_err());
        let mut outside = manifest();
        outside.given.files.insert("conf/../../x".into(), "dd".into());
        assert!(Manifest::parse(outside.text().as_bytes()).expect_err("refused").contains("out of its directory"));
    }
}

//! A strict reader of OpenMetrics 1.0 text and of the older format of Prometheus: it takes nothing that the specification does
//! not allow.

use std::collections::BTreeMap;

use crate::harness::server::Server;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Plain,
}

/// A family with its lines.
#[derive(Debug, Default)]
pub struct Family {
    pub name: String,
    pub kind: String,
    pub unit: String,
    pub help: String,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
pub struct Sample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

/// What a server has counted, by the counter's name, if its metrics are at `/metrics`.
pub fn counted(server: &Server<'_>, counter: &str) -> u64 {
    count_in(&server.get("/metrics").text(), counter)
}

/// The same in a page of metrics.
pub fn count_in(page: &str, counter: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("tsubame_{counter}_total ")));
    line.and_then(|count| count.parse().ok()).expect("a number")
}

/// All families by their names. Panics at whatever is not right.
pub fn parse(text: &str, format: Format) -> BTreeMap<String, Family> {
    let body = match format {
        Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("the end is marked"),
        Format::Plain => text,
    };
    assert!(!body.contains("# EOF") && !body.contains('\r') && body.ends_with('\n'), "the form of the whole");
    let mut families: Vec<Family> = Vec::new();
    for line in body.strip_suffix('\n').unwrap_or(body).split('\n') {
        match line.strip_prefix("# ") {
            Some(descriptor) => describe(&mut families, descriptor, format),
            None => {
                let family = families.last_mut().unwrap_or_else(|| panic!("a line before any family: {line}"));
                family.samples.push(sample(line));
            }
        }
    }
    let mut by_name = BTreeMap::new();
    for family in families {
        check(&family, format);
        let name = family.name.clone();
        assert!(by_name.insert(name.clone(), family).is_none(), "{name} comes twice");
    }
    by_name
}

/// `TYPE`, then `UNIT` if there is one, then `HELP`: all of a family before its lines.
fn describe(families: &mut Vec<Family>, text: &str, format: Format) {
    let (word, rest) = text.split_once(' ').unwrap_or_else(|| panic!("# {text}"));
    let (name, rest) = rest.split_once(' ').unwrap_or_else(|| panic!("# {text}"));
    assert!(is_name(name), "the name of # {text}");
    if word == "TYPE" {
        families.push(Family { name: name.into(), kind: rest.into(), ..Family::default() });
        return;
    }
    let family = families.last_mut().unwrap_or_else(|| panic!("# {text} before its type"));
    assert!(family.name == name && family.samples.is_empty() && family.help.is_empty(), "# {text} is not in its place");
    match word {
        "UNIT" => {
            assert_eq!(format, Format::OpenMetrics, "units are new");
            assert!(family.unit.is_empty() && name.ends_with(&format!("_{rest}")), "the unit of # {text}");
            family.unit = rest.into();
        }
        "HELP" => {
            assert!(!rest.contains(['\\', '"']), "nothing needs to be escaped in {rest}");
            family.help = rest.into();
        }
        _ => panic!("# {text} is no descriptor"),
    }
}

/// `name{label="value",…} number`
fn sample(line: &str) -> Sample {
    let at = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, rest) = line.split_at(at);
    assert!(is_name(name), "{line}");
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (Vec::new(), rest),
    };
    let value = value.strip_prefix(' ').unwrap_or_else(|| panic!("one blank before the value: {line}"));
    let plain = value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.e".contains(&byte)) || value == "+Inf";
    assert!(plain, "the value of {line}");
    let value = value.parse().unwrap_or_else(|_| panic!("the value of {line}"));
    Sample { name: name.into(), labels, value }
}

/// Up to the closing bracket; what follows it is left.
fn labels(text: &str) -> (Vec<(String, String)>, &str) {
    let mut labels: Vec<(String, String)> = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name) && !name.contains(':'), "the name of a label in {text}");
        assert!(labels.iter().all(|(have, _)| have != name), "{name} twice in {text}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("no end: {text}")) {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, c @ ('\\' | '"'))) => c,
                    other => panic!("{other:?} is no escape: {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        labels.push((name.into(), value));
        rest = &after[end + 1..];
        match rest.as_bytes().first() {
            Some(b',') => rest = &rest[1..],
            Some(b'}') => return (labels, &rest[1..]),
            _ => panic!("{text}"),
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == ':')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Checks a family by the rules of its kind.
fn check(family: &Family, format: Format) {
    let Family { name, kind, help, samples, .. } = family;
    assert!(!help.is_empty() && !samples.is_empty(), "{name} says nothing");
    let suffixes: &[&str] = match (kind.as_str(), format) {
        ("counter", Format::OpenMetrics) => &["_total"],
        ("info", Format::OpenMetrics) => &["_info"],
        ("histogram", _) => &["_bucket", "_count", "_sum"],
        ("gauge" | "counter", _) => &[""],
        _ => panic!("{name} is a {kind}"),
    };
    assert_eq!(format == Format::Plain && kind == "counter", kind == "counter" && name.ends_with("_total"), "{name}");
    let mut seen = Vec::new();
    for one in samples {
        let suffix = one.name.strip_prefix(name.as_str()).unwrap_or_else(|| panic!("{} in {name}", one.name));
        assert!(suffixes.contains(&suffix), "{} in {name}, a {kind}", one.name);
        assert!(kind == "gauge" || one.value >= 0.0, "{} is {}", one.name, one.value);
        assert!(kind != "info" || one.value == 1.0 && !one.labels.is_empty(), "{}", one.name);
        let key = (one.name.clone(), one.labels.clone());
        assert!(!seen.contains(&key), "{key:?} comes twice");
        seen.push(key);
    }
    if kind == "histogram" {
        histogram(family);
    }
}

/// Buckets grow with their bounds, the last has no bound and is the count.
fn histogram(Family { name, samples, .. }: &Family) {
    let buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter(|one| one.name.ends_with("_bucket"))
        .map(|one| {
            let bound = one.label("le").expect("a bound");
            assert!(bound == "+Inf" || bound.contains(['.', 'e']), "{bound} has no canonical form");
            (bound.parse().expect("a bound"), one.value)
        })
        .collect();
    assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1), "{name}: {buckets:?}");
    let (bound, last) = *buckets.last().expect("buckets");
    let value = |suffix: &str| samples.iter().find(|one| one.name.ends_with(suffix)).expect("a sum and a count").value;
    assert_eq!((bound, last), (f64::INFINITY, value("_count")), "{name}");
    assert!(value("_sum") >= 0.0, "{name}");
}

#[test]
fn wrong_texts_are_refused() {
    let good = "# TYPE a counter\n# HELP a A.\na_total{x=\"1\"} 1\n# EOF\n";
    assert_eq!(parse(good, Format::OpenMetrics)["a"].samples[0].label("x"), Some("1"));
    let bad = [
        "# TYPE a counter\n# HELP a A.\na_total 1\n",
        "# TYPE a counter\n# HELP a A.\na 1\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total -1\n# EOF\n",
        "# TYPE a counter\n# HELP a A.\na_total 1\na_total 2\n# EOF\n",
        "# HELP a A.\n# TYPE a counter\na_total 1\n# EOF\n",
        "# TYPE a gauge\n# UNIT a seconds\n# HELP a A.\na 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a A.\na{x=\"\\t\"} 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a A.\na{x=\"1\",x=\"2\"} 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a A.\na  1\n# EOF\n",
        "# TYPE a gauge\n# HELP a A.\n\na 1\n# EOF\n",
        "# TYPE a gauge\n# HELP a A.\na 1\n# EOF\n\n",
        "# TYPE a histogram\n# HELP a A.\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 1\na_count 1\na_sum 1\n# EOF\n",
        "# TYPE a histogram\n# HELP a A.\na_bucket{le=\"1.0\"} 2\na_count 2\na_sum 1\n# EOF\n",
    ];
    for text in bad {
        let taken = std::panic::catch_unwind(|| parse(text, Format::OpenMetrics));
        assert!(taken.is_err(), "taken: {text}");
    }
}

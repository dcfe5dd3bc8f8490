//! Families of metrics as text: OpenMetrics 1.0, and the older format of Prometheus (0.0.4).

use std::fmt::Write;

/// Which of the two text formats a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Plain,
}

impl Format {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How the numbers of a family are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricType {
    /// A number that only grows, except for restarts.
    Counter,
    Gauge,
    Histogram,
    /// Constant texts, as labels of a 1.
    Info,
}

/// Metrics that share a name, a kind and a unit; they differ in their labels.
#[derive(Debug)]
pub(super) struct Family {
    /// Without the suffix that its kind requires; it ends with the unit, if there is one.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Vec<Sample>,
}

/// A number of a family, with its labels: one line of the text.
#[derive(Debug)]
pub(super) struct Sample {
    /// `_bucket`, `_sum`, `_count`, `_total`, `_info` or nothing.
    pub(super) suffix: &'static str,
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: String,
}

/// The text of these families, in their order.
pub(super) fn write(families: &[Family], format: Format) -> String {
    let mut out = String::with_capacity(8192);
    for family in families {
        head(&mut out, family, format);
        for Sample { suffix, labels, value } in &family.samples {
            let _ = write!(out, "tsubame_{}{suffix}", family.name);
            for (index, (name, value)) in labels.iter().enumerate() {
                let _ = write!(out, "{}{name}=\"{}\"", if index == 0 { '{' } else { ',' }, escape(value));
            }
            let end = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(out, "{end} {value}");
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// The older format gives counters and infos the full name of their lines, and has neither infos nor units.
fn head(out: &mut String, family: &Family, format: Format) {
    let Family { name, kind, unit, help, .. } = family;
    let (suffix, kind) = match (kind, format) {
        (MetricType::Counter, Format::OpenMetrics) => ("", "counter"),
        (MetricType::Counter, Format::Plain) => ("_total", "counter"),
        (MetricType::Info, Format::OpenMetrics) => ("", "info"),
        (MetricType::Info, Format::Plain) => ("_info", "gauge"),
        (MetricType::Gauge, _) => ("", "gauge"),
        (MetricType::Histogram, _) => ("", "histogram"),
    };
    let _ = writeln!(out, "# TYPE tsubame_{name}{suffix} {kind}");
    if format == Format::OpenMetrics && !unit.is_empty() {
        let _ = writeln!(out, "# UNIT tsubame_{name} {unit}");
    }
    let _ = writeln!(out, "# HELP tsubame_{name}{suffix} {help}");
}

/// Escapes the value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats() {
        let sample = |suffix, labels, value: &str| Sample { suffix, labels, value: value.into() };
        let families = [
            Family {
                name: "sent_bytes",
                kind: MetricType::Counter,
                unit: "bytes",
                help: "Sent.",
                samples: vec![sample("_total", vec![("a", "1".into()), ("b", "x\"\\\n".into())], "7")],
            },
            Family {
                name: "x",
                kind: MetricType::Info,
                unit: "",
                help: "X.",
                samples: vec![sample("_info", vec![], "1")],
            },
        ];
        let line = "tsubame_sent_bytes_total{a=\"1\",b=\"x\\\"\\\\\\n\"} 7\n";
        let want = format!(
            "# TYPE tsubame_sent_bytes counter\n# UNIT tsubame_sent_bytes bytes\n# HELP tsubame_sent_bytes Sent.\n{line}\
             # TYPE tsubame_x info\n# HELP tsubame_x X.\ntsubame_x_info 1\n# EOF\n"
        );
        assert_eq!(write(&families, Format::OpenMetrics), want);
        let want = format!(
            "# TYPE tsubame_sent_bytes_total counter\n# HELP tsubame_sent_bytes_total Sent.\n{line}\
             # TYPE tsubame_x_info gauge\n# HELP tsubame_x_info X.\ntsubame_x_info 1\n"
        );
        assert_eq!(write(&families, Format::Plain), want);
    }
}

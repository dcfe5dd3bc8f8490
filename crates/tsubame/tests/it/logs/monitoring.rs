//! What `packaging` has for those who watch servers: a dashboard for Grafana, and alerts for Prometheus.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::mpm::Mpm;
use crate::harness::needs::PROMTOOL;
use crate::harness::open_metrics::{Format, parse};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::tls::{self, Secure};
use crate::logs::collector::{Collector, TAKEN};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(packaging(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| collect(one, into)),
            Value::Object(all) => {
                all.values().for_each(|one| collect(one, into));
                into.extend(all.get("expr").and_then(Value::as_str).map(str::to_string));
            }
            _ => {}
        }
    }
    let dashboard: Value = serde_json::from_str(&read("grafana/tsubame.json")).expect("JSON");
    let mut all = Vec::new();
    collect(&dashboard, &mut all);
    all
}

/// The metrics that a text names.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let words = text.split(|byte: char| !is_part(byte));
    words.filter(|word| word.starts_with("tsubame_")).map(str::to_string).collect()
}

/// Everything that dashboard and alerts ask for is something that a server tells.
#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let site = Site::new();
    let collector = Collector::start(site.ip.into(), &[TAKEN]);
    let (secure, config) = tls::lines(&site);
    let text = format!(
        "LoadModule perl_module x\n<Directory ${{ROOT}}/cgi-bin>\nOptions +ExecCGI\nRequire all granted\nSetHandler perl-script\n\
         PerlResponseHandler ModPerl::Registry\n</Directory>\nAlias /perl/ ${{ROOT}}/cgi-bin/\nAdmissionMemory 1G\n\
         ProxyPass /via/ http://{}/\nTraceContext on\nTraceExport http://{}\n\
         <Location /metrics>\nSetHandler metrics\n</Location>\n{secure}",
        site.address(),
        collector.address
    );
    // A pool is there once it was asked.
    site.script("hello", "print \"Content-Type: text/plain\\n\\nhello\\n\";\n");
    let server = Server::start(Mpm::Event, &site, &text);
    let get = |path: &str| Secure::to(server.address(), &config).try_get(path).expect("an answer");
    assert!(get("/perl/hello").ends_with("hello\n"));
    let page = get("/metrics");
    let page = page.split_once("\r\n\r\n").expect("a head").1;
    let told: BTreeSet<String> =
        parse(page, Format::OpenMetrics).into_values().flat_map(|family| family.samples).map(|one| one.name).collect();
    let wanted = metrics(&(queries().join("\n") + &read("prometheus/alerts.yml")));
    assert!(wanted.len() > 30, "{wanted:?}");
    let missing: Vec<_> = wanted.difference(&told).collect();
    assert!(missing.is_empty(), "no server tells {missing:?}");
}

/// A query as Prometheus gets it.
fn asked(query: &str) -> String {
    query.replace("$instance", "one").replace("$__rate_interval", "5m")
}

/// Prometheus understands alerts and queries, and alerts come when they should.
#[test]
fn prometheus_understands_them() {
    if !PROMTOOL.is_there("prometheus_understands_them") {
        return;
    }
    let run = |arguments: &[&str], file: &Path| {
        let mut command = Command::new("/usr/bin/promtool");
        let output = command.args(arguments).arg(file).output().expect("promtool");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    };
    run(&["check", "rules"], &packaging("prometheus/alerts.yml"));
    run(&["test", "rules"], &packaging("prometheus/alerts_test.yml"));
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_string();
    for (number, query) in queries().iter().enumerate() {
        let query = serde_json::to_string(&asked(query)).expect("JSON");
        let _ = write!(rules, "  - record: query:{number}\n    expr: {query}\n");
    }
    run(&["check", "rules"], &Site::new().file("queries.yml", rules));
}

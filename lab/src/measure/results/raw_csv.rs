//! The results as a table for other programs.

use serde::Serialize;

use super::{Load, Measure, Results, Sample};
use crate::machine::error::{Context, Result};

/// A measurement; columns that do not apply stay empty.
#[derive(Default, Serialize)]
struct Row<'a> {
    workload: &'a str,
    subject: &'a str,
    profile: &'a str,
    connections: u32,
    round: u32,
    seconds: Option<f64>,
    requests: Option<u64>,
    bytes: Option<u64>,
    server_cpu_seconds: Option<f64>,
    min_us: Option<u64>,
    mean_us: Option<f64>,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    max_us: Option<u64>,
    connect_errors: Option<u64>,
    read_errors: Option<u64>,
    write_errors: Option<u64>,
    timeouts: Option<u64>,
    status_errors: Option<u64>,
    pss_kib: Option<u64>,
    pss_before_kib: Option<u64>,
    processes: Option<usize>,
    lost: Option<u64>,
    server_busy: Option<f64>,
    generator_busy: Option<f64>,
    others_busy: Option<f64>,
    stolen: Option<f64>,
    replaced: Option<u64>,
    late_p99_us: Option<u64>,
    fresh_us: Option<u64>,
    busiest: Option<f64>,
    idle: Option<f64>,
    at_limit: Option<u64>,
    oom_kills: Option<u64>,
    major_faults: Option<u64>,
    peak_kib: Option<u64>,
    swapped_pages: Option<u64>,
    #[serde(rename = "file_answers")]
    file_responses: Option<u64>,
    file_p50_us: Option<u64>,
    file_p99_us: Option<u64>,
    file_max_us: Option<u64>,
    file_errors: Option<u64>,
    swap_before_kib: Option<u64>,
    machine_user: Option<f64>,
    machine_nice: Option<f64>,
    machine_system: Option<f64>,
    machine_iowait: Option<f64>,
    machine_steal: Option<f64>,
    machine_idle: Option<f64>,
    full_handshakes: Option<u64>,
    resumed_handshakes: Option<u64>,
    answered_ms: Option<u64>,
    accepted: Option<u64>,
    reopened: Option<u64>,
    origins_busy: Option<f64>,
}

impl Results {
    /// A line with the names of the columns, and one line for each measurement.
    pub(super) fn to_csv(&self) -> Result<Vec<u8>> {
        let mut table = csv::Writer::from_writer(Vec::new());
        let doing = || "write the table of measurements".to_owned();
        for sample in &self.samples {
            table.serialize(sample.row()).context(doing)?;
        }
        table.into_inner().context(doing)
    }
}

impl Sample {
    fn row(&self) -> Row<'_> {
        let row = Row {
            workload: &self.workload,
            subject: &self.subject,
            profile: self.profile.names().0,
            connections: self.connections,
            round: self.round,
            ..Row::default()
        };
        match &self.measure {
            Measure::Load(load) => of_load(row, load),
            Measure::Memory(memory) => Row {
                pss_kib: Some(memory.after_kib),
                pss_before_kib: Some(memory.before_kib),
                processes: Some(memory.processes),
                lost: Some(memory.lost),
                ..row
            },
        }
    }
}

fn of_load<'a>(row: Row<'a>, load: &Load) -> Row<'a> {
    let Load { errors, busy, .. } = load;
    let pressure = load.pressure.as_deref();
    let machine = load.averages.map(|averages| averages.machine);
    Row {
        seconds: Some(rounded(load.seconds, 4)),
        requests: Some(load.requests),
        bytes: Some(load.bytes),
        server_cpu_seconds: Some(rounded(load.server_cpu_seconds, 4)),
        min_us: Some(load.min_us),
        mean_us: Some(rounded(load.mean_us, 1)),
        p50_us: Some(load.p50_us),
        p99_us: Some(load.p99_us),
        max_us: Some(load.max_us),
        full_handshakes: Some(load.handshakes.full),
        resumed_handshakes: Some(load.handshakes.resumed),
        connect_errors: Some(errors.connect),
        read_errors: Some(errors.read),
        write_errors: Some(errors.write),
        timeouts: Some(errors.timeout),
        status_errors: Some(errors.status),
        pss_kib: Some(load.pss_kib),
        pss_before_kib: load.begun.map(|begun| begun.pss_kib),
        answered_ms: load.begun.map(|begun| begun.answered_ms),
        accepted: load.accepted,
        reopened: Some(load.reopened),
        processes: Some(load.processes),
        lost: Some(load.lost),
        server_busy: Some(rounded(busy.server, 3)),
        generator_busy: Some(rounded(busy.generator, 3)),
        origins_busy: Some(rounded(busy.origins, 3)),
        others_busy: Some(rounded(busy.others, 3)),
        stolen: Some(rounded(busy.stolen, 3)),
        replaced: Some(load.replaced),
        late_p99_us: Some(load.late_p99_us),
        fresh_us: Some(load.fresh_us),
        busiest: Some(rounded(load.busiest, 3)),
        idle: Some(rounded(busy.idle, 3)),
        at_limit: pressure.map(|pressure| pressure.at_limit),
        oom_kills: pressure.map(|pressure| pressure.oom_kills),
        major_faults: pressure.map(|pressure| pressure.major_faults),
        peak_kib: pressure.map(|pressure| pressure.peak_kib),
        swapped_pages: pressure.map(|pressure| pressure.swapped_pages),
        file_responses: pressure.map(|pressure| pressure.file_responses),
        file_p50_us: pressure.map(|pressure| pressure.file_p50_us),
        file_p99_us: pressure.map(|pressure| pressure.file_p99_us),
        file_max_us: pressure.map(|pressure| pressure.file_max_us),
        file_errors: pressure.map(|pressure| pressure.file_errors),
        swap_before_kib: Some(load.swap_before_kib),
        machine_user: machine.map(|machine| rounded(machine.user, 2)),
        machine_nice: machine.map(|machine| rounded(machine.nice, 2)),
        machine_system: machine.map(|machine| rounded(machine.system, 2)),
        machine_iowait: machine.map(|machine| rounded(machine.iowait, 2)),
        machine_steal: machine.map(|machine| rounded(machine.steal, 2)),
        machine_idle: machine.map(|machine| rounded(machine.idle, 2)),
        ..row
    }
}

/// A figure without meaningless digits.
fn rounded(figure: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (figure * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use crate::measure::results::example;

    #[test]
    fn every_line_of_the_csv_has_every_column() {
        let mut results = example::empty();
        results.samples.push(example::load("keepalive", "nginx", 100, 1, 50_000));
        results.samples.push(example::memory("idle", "nginx, newest", 10_000, 100, 200));
        let csv = results.to_csv().expect("a table");
        let mut table = csv::Reader::from_reader(&csv[..]);
        let names: Vec<String> = table.headers().expect("names").iter().map(str::to_owned).collect();
        let lines: Vec<csv::StringRecord> =
            table.records().collect::<Result<_, _>>().expect("as many columns in each line");
        let value =
            |line: usize, name: &str| &lines[line][names.iter().position(|known| known == name).expect("a column")];
        assert_eq!((names.len(), lines.len()), (55, 2));
        assert_eq!((value(0, "subject"), value(1, "subject")), ("nginx", "nginx, newest"));
        assert_eq!((value(0, "pss_before_kib"), value(1, "pss_before_kib"), value(1, "pss_kib")), ("", "100", "200"));
    }
}

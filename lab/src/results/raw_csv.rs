//! The results as a table for other programs.

use super::{Load, Measure, Results, Sample, Squeezed};

impl Results {
    /// One line for a measurement; columns that do not apply stay empty.
    pub(super) fn to_csv(&self) -> String {
        let mut csv = "workload,subject,profile,connections,round,seconds,requests,bytes,server_cpu_seconds,\
                       p50_us,p99_us,max_us,connect_errors,read_errors,write_errors,timeouts,status_errors,\
                       pss_kib,pss_before_kib,processes,lost,server_busy,generator_busy,others_busy,stolen,\
                       replaced,late_p99_us,fresh_us,busiest,idle,at_limit,oom_kills,major_faults,peak_kib,\
                       swapped_pages,file_answers,file_p50_us,file_p99_us,file_max_us,file_errors\n"
            .to_owned();
        for sample in &self.samples {
            csv += &sample.to_csv_line();
        }
        csv
    }
}

impl Sample {
    fn to_csv_line(&self) -> String {
        let (profile, _) = self.profile.names();
        let key = format!("{},{},{profile},{},{}", self.workload, self.subject, self.connections, self.round);
        match &self.measure {
            Measure::Load(load) => {
                let Load { errors, busy, .. } = load;
                format!(
                    "{key},{:.4},{},{},{:.4},{},{},{},{},{},{},{},{},{},,{},{},{:.3},{:.3},{:.3},{:.3},{},{},{},{:.3},{:.3},{}\n",
                    load.seconds,
                    load.requests,
                    load.bytes,
                    load.server_cpu_seconds,
                    load.p50_us,
                    load.p99_us,
                    load.max_us,
                    errors.connect,
                    errors.read,
                    errors.write,
                    errors.timeout,
                    errors.status,
                    load.pss_kib,
                    load.processes,
                    load.lost,
                    busy.server,
                    busy.generator,
                    busy.others,
                    busy.stolen,
                    load.replaced,
                    load.late_p99_us,
                    load.fresh_us,
                    load.busiest,
                    busy.idle,
                    squeezed_columns(load.squeezed.as_deref()),
                )
            }
            Measure::Memory(memory) => format!(
                "{key},,,,,,,,,,,,,{},{},{},{},,,,,,,,,,,,,,,,,,,\n",
                memory.after_kib, memory.before_kib, memory.processes, memory.lost
            ),
        }
    }
}

fn squeezed_columns(squeezed: Option<&Squeezed>) -> String {
    let Some(squeezed) = squeezed else {
        return ",".repeat(9);
    };
    let columns = [
        squeezed.at_limit,
        squeezed.oom_kills,
        squeezed.major_faults,
        squeezed.peak_kib,
        squeezed.swapped_pages,
        squeezed.file_answers,
        squeezed.file_p50_us,
        squeezed.file_p99_us,
        squeezed.file_max_us,
        squeezed.file_errors,
    ];
    columns.map(|column| column.to_string()).join(",")
}

#[cfg(test)]
mod tests {
    use crate::results::example;

    #[test]
    fn every_line_of_the_csv_has_every_column() {
        let mut results = example::empty();
        results.samples.push(example::load("keepalive", "nginx", 100, 1, 50_000));
        results.samples.push(example::memory("idle", "nginx", 10_000, 100, 200));
        let csv = results.to_csv();
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [40, 40, 40], "{csv}");
    }
}

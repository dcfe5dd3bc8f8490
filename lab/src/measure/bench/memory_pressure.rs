//! Scripts that need more memory than there is, and requests for files at the same time.

use std::time::Duration;

use super::Bench;
use super::probe::{probe, probe_script};
use crate::experiments::site::Site;
use crate::experiments::workload::{MemoryPressure, Protocol, SMALL};
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::memory_cgroup::MemoryEvents;
use crate::machine::procfs;
use crate::measure::generator::{Counts, LoadRun};
use crate::measure::monitor::Monitor;
use crate::measure::reading::Reading;
use crate::measure::results::{Load, PressureEvents};
use crate::measure::script_clients::ScriptClients;
use crate::measure::server::{Server, Watch};

/// A script takes a tenth of a second or more, and there are ten clients or more: the end would dominate a shorter
/// measurement.
const LONGER: u32 = 3;

/// Longer than any server that admits scripts in turn lets one wait, though less than a person would believe.
const PATIENCE: Duration = Duration::from_secs(120);

/// Enough connections for files that take two seconds each.
const FILE_CONNECTIONS: u32 = 100;

impl Bench {
    /// Runs both at once, for three times as long as other measurements; then waits for the last scripts.
    pub(super) fn memory_pressure(
        &self,
        server: &Server,
        site: &Site,
        memory_pressure: &MemoryPressure,
        seconds: u32,
    ) -> Result<Load> {
        let seconds = seconds * LONGER;
        let first = memory_pressure.scripts.first().ok_or_else(|| Error::new("no script is named"))?;
        let names: Vec<String> = memory_pressure
            .scripts
            .iter()
            .map(|script| format!("cgi-bin/{}{}", script.name, memory_pressure.path_info))
            .collect();
        probe(site, None, &SMALL, false)?;
        probe_script(site, &names[0], first)?;
        self.forget_runs()?;

        let script_clients = ScriptClients {
            address: site.address(),
            names: &names,
            response: first.response,
            clients: memory_pressure.clients,
            seconds,
            patience: PATIENCE,
        };
        let files = file_requests(site, memory_pressure, seconds);
        let swapped_before = procfs::swapped_out();
        let mut watch = Watch::new(server);
        let before = Reading::take(server, self.cores)?;
        let mut monitor = Monitor::new(server, self.cores);
        let (scripts, files) = std::thread::scope(|scope| {
            let scripts = scope.spawn(|| script_clients.make());
            let files = files.run(self.cores.generator, &mut || {
                monitor.look();
                watch.look()
            });
            if files.is_err() {
                // The scripts' clients are patient.
                server.kill();
            }
            (scripts.join(), files)
        });
        let after = Reading::take(server, self.cores)?;
        let (scripts, files) = (scripts.map_err(|_| Error::new("a client of the scripts failed"))?, files?);
        let memory_events = server.memory_events()?;
        let swapped_pages = procfs::swapped_out().saturating_sub(swapped_before);
        Ok(Load {
            busiest: watch.busiest(),
            moments: monitor.moments.into(),
            late_p99_us: files.late_p99_us,
            pressure: Some(Box::new(pressure_events(&memory_events, &files, swapped_pages))),
            ..self.figures(server, scripts, &before, &after)?
        })
    }

    /// Resets scripts that count their runs; the user that the server changes to may write the count.
    fn forget_runs(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.scripts_directory().join("runs");
        write_file(&path, "0\n")?;
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&path, everybody).context(|| format!("give everyone access to {}", path.display()))
    }
}

/// The requests for files meanwhile.
fn file_requests<'a>(site: &'a Site, memory_pressure: &MemoryPressure, seconds: u32) -> LoadRun<'a> {
    LoadRun {
        addresses: &site.addresses,
        name: SMALL.name,
        connections: FILE_CONNECTIONS,
        per_connection: 1,
        host: None,
        urls: None,
        requests: None,
        per_second: Some(memory_pressure.files_per_second),
        spins: true,
        seconds,
        protocol: Protocol::Clear,
        expect: None,
    }
}

fn pressure_events(memory_events: &MemoryEvents, files: &Counts, swapped_pages: u64) -> PressureEvents {
    PressureEvents {
        at_limit: memory_events.at_limit,
        oom_kills: memory_events.oom_kills,
        major_faults: memory_events.major_faults,
        peak_kib: memory_events.peak_kib,
        swapped_pages,
        file_responses: files.requests,
        file_p50_us: files.p50_us,
        file_p99_us: files.p99_us,
        file_max_us: files.max_us,
        file_errors: files.errors.total(),
    }
}

//! setup.txt: the machine and the exact configurations of a run.

use crate::measure::results::Results;
use crate::screen::text::counted;

/// Everything that a repetition must reproduce.
pub(super) fn setup(results: &Results) -> String {
    let host = &results.host;
    let mut text = format!(
        "Measured {}, {} of {} s\n\nsystem     {}\nkernel     {}\nprocessor  {}, {}, governor {}\n\
         memory     {} MiB, swap {} MiB\nload       {} when it began\ngenerator  {}\nCPU time   {}\n",
        results.started,
        counted(results.rounds.into(), "round"),
        results.seconds,
        host.system,
        host.kernel,
        host.cpu,
        counted(host.cores as u64, "core"),
        host.governor.as_deref().unwrap_or("unknown"),
        host.memory_mib,
        host.swap_mib,
        host.load_average,
        host.generator,
        results.accounting,
    );
    for subject in &results.subjects {
        let version = subject.version.as_deref().unwrap_or("not here");
        text += &format!("\n==== {} ({}): {version}\n", subject.title, subject.id);
        for configuration in &subject.configurations {
            text += &format!("\n-- {:?} configuration: {}\n", configuration.profile, configuration.command);
            for variable in &configuration.environment {
                text += &format!("   {variable}\n");
            }
            for (name, content) in &configuration.files {
                text += &format!("\n---- {name}\n{content}");
            }
            if !configuration.as_installed.is_empty() {
                text += &format!("\n---- as installed: {}\n", configuration.as_installed.join(" "));
            }
        }
    }
    text
}

//! dstat's options. The order of its letters is that of the columns.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::group::{Group, Id, Layout, TOTAL};
use super::panel::Panel;
use super::source::Texts;
use crate::machine::error::{Error, Result};

/// The options of `stat`.
#[derive(Args, Clone, Debug)]
#[command(version, display_name = "tsubame-lab stat")]
pub(crate) struct StatOptions {
    #[command(flatten)]
    chosen: SelectedGroups,

    /// Cores, like 0,3,total
    #[arg(short = 'C', value_name = "LIST", value_delimiter = ',')]
    cores: Vec<String>,

    /// Disks, like vda,total
    #[arg(short = 'D', value_name = "LIST", value_delimiter = ',')]
    disks: Vec<String>,

    /// Network interfaces, like eth0,total
    #[arg(short = 'N', value_name = "LIST", value_delimiter = ',')]
    networks: Vec<String>,

    /// Swap spaces, like vdb,total
    #[arg(short = 'S', value_name = "LIST", value_delimiter = ',')]
    swaps: Vec<String>,

    /// The same as -cdngy
    #[arg(short = 'a', long)]
    all: bool,

    /// The same as -pmgdyc -D total, as in dstat (whose help says -pmgdsc)
    #[arg(short = 'v', long)]
    vmstat: bool,

    /// Show every core, disk and interface separately
    #[arg(short = 'f', long)]
    full: bool,

    /// The columns of dstat 0.7 (CentOS 7) or 0.8 (Debian 12)
    #[arg(long, value_name = "VERSION", default_value = "0.8")]
    layout: Layout,

    /// No decimals
    #[arg(long, conflicts_with = "float")]
    pub(super) integer: bool,

    /// Decimals wherever there is room
    #[arg(long)]
    pub(super) float: bool,

    /// Use colours even if the output is no terminal
    #[arg(long)]
    pub(super) color: bool,

    /// No colours
    #[arg(long, conflicts_with = "color")]
    pub(super) nocolor: bool,

    /// Print the header only once
    #[arg(long)]
    pub(super) noheaders: bool,

    /// Accepted: a line is always printed as a whole
    #[arg(long)]
    noupdate: bool,

    /// Write all figures to a CSV file as well
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Seconds between two lines
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) delay: u64,

    /// How many lines [default: without end]
    pub(super) count: Option<u64>,
}

/// The choices: the letter, if there is one, the word, and the help.
const CHOICES: [(Id, Option<char>, &str, &str); 13] = [
    (Id::Cpu, Some('c'), "cpu", "Processor time"),
    (Id::Disk, Some('d'), "disk", "Bytes read from and written to disks"),
    (Id::Page, Some('g'), "page", "Bytes swapped in and out"),
    (Id::Load, Some('l'), "load", "Load averages"),
    (Id::Memory, Some('m'), "mem", "Memory"),
    (Id::Network, Some('n'), "net", "Bytes received and sent over networks"),
    (Id::Processes, Some('p'), "proc", "Running, blocked and new processes"),
    (Id::Requests, Some('r'), "io", "Requests to disks"),
    (Id::Swap, Some('s'), "swap", "Swap space"),
    (Id::Time, Some('t'), "time", "Date and time"),
    (Id::Epoch, Some('T'), "epoch", "Seconds since 1970"),
    (Id::System, Some('y'), "sys", "Interrupts and context switches"),
    (Id::Pressure, None, "pressure", "Percent of the last ten seconds in which some or all programs waited for memory"),
];

/// Options of dstat that are missing here.
const ABSENT: [&str; 35] = [
    "aio",
    "bits",
    "fs",
    "filesystem",
    "int",
    "ipc",
    "lock",
    "raw",
    "socket",
    "tcp",
    "udp",
    "unix",
    "vm",
    "zones",
    "list",
    // Plugins.
    "battery",
    "cpufreq",
    "cpu-use",
    "disk-tps",
    "disk-util",
    "dstat",
    "freespace",
    "mysql5-cmds",
    "net-packets",
    "nfs3",
    "proc-count",
    "thermal",
    "top-bio",
    "top-cpu",
    "top-cputime",
    "top-io",
    "top-latency",
    "top-mem",
    "top-oom",
    "wifi",
];

const DEFAULT: [Id; 5] = [Id::Cpu, Id::Disk, Id::Network, Id::Page, Id::System];
const VMSTAT: [Id; 6] = [Id::Processes, Id::Memory, Id::Page, Id::Disk, Id::System, Id::Cpu];

/// The chosen groups, in order.
#[derive(Clone, Debug, Default)]
struct SelectedGroups(Vec<Id>);

impl Args for SelectedGroups {
    fn augment_args(command: Command) -> Command {
        let known = CHOICES.iter().map(|(_, letter, word, help)| {
            // Given twice, it is shown once.
            let arg = Arg::new(*word).long(*word).help(*help).action(ArgAction::SetTrue).overrides_with(*word);
            match letter {
                Some(letter) => arg.short(*letter),
                None => arg,
            }
        });
        let absent = ABSENT.iter().map(|word| {
            let arg = Arg::new(*word).long(*word).hide(true).action(ArgAction::SetTrue).overrides_with(*word);
            if *word == "int" { arg.short('i') } else { arg }
        });
        command.args(known).args(absent)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SelectedGroups {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let place = |word: &str| {
            let is_said = matches.value_source(word) == Some(ValueSource::CommandLine);
            is_said.then(|| matches.index_of(word)).flatten()
        };
        if let Some(word) = ABSENT.into_iter().find(|word| place(word).is_some()) {
            let text = format!("--{word} is not supported: use dstat itself for that\n");
            return Err(clap::Error::raw(clap::error::ErrorKind::InvalidValue, text));
        }
        let mut found: Vec<(usize, Id)> =
            CHOICES.iter().filter_map(|(id, _, word, _)| Some((place(word)?, *id))).collect();
        found.sort_by_key(|(place, _)| *place);
        Ok(Self(found.into_iter().map(|(_, id)| id).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl StatOptions {
    /// Whether the user has chosen nothing.
    pub(super) fn is_default(&self) -> bool {
        self.chosen.0.is_empty() && !self.all && !self.vmstat
    }

    /// The groups to show.
    ///
    /// # Errors
    /// A core, a disk or an interface does not exist.
    pub(super) fn panels(&self, texts: &Texts) -> Result<Vec<Panel>> {
        let mut ids = self.chosen.0.clone();
        let sets = [(self.all || self.is_default(), &DEFAULT[..]), (self.vmstat, &VMSTAT[..])];
        for (_, set) in sets.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            let more: Vec<Id> = set.iter().copied().filter(|id| !ids.contains(id)).collect();
            ids.extend(more);
        }
        let mut panels = Vec::new();
        for group in ids.into_iter().filter_map(|id| Group::of(id, self.layout)) {
            for part in self.parts(group, texts)? {
                panels.push(Panel { group, part });
            }
        }
        Ok(panels)
    }

    fn parts(&self, group: &Group, texts: &Texts) -> Result<Vec<String>> {
        let asked = match group.id {
            Id::Cpu => &self.cores[..],
            Id::Disk | Id::Requests => &self.disks,
            Id::Network => &self.networks,
            Id::Swap => &self.swaps,
            _ => &[],
        };
        let there = (group.parts)(texts);
        let is_strange = |part: &&String| *part != TOTAL && !there.contains(part);
        if let Some(stranger) = asked.iter().find(is_strange).filter(|_| group.id != Id::Swap) {
            return Err(Error::new(format!("{stranger} does not exist"))
                .advise(format!("one of {TOTAL}, {}", there.join(", "))));
        }
        Ok(match (asked, self.full) {
            // Local interfaces are shown only if they are named.
            ([], true) if there.iter().any(|part| part != "lo") && !self.vmstat => {
                there.into_iter().filter(|part| part != "lo").collect()
            }
            ([], _) => vec![TOTAL.to_owned()],
            (asked, _) => asked.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::source::Source;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: StatOptions,
    }

    fn shown(line: &str) -> String {
        let options = Line::try_parse_from(format!("stat {line}").split_ascii_whitespace()).map(|line| line.options);
        let texts = Texts::said(&[
            (Source::Stat, "cpu 1 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1\n"),
            (Source::Networks, "a\nlo: 1\neth0: 1\n"),
        ]);
        match options.map(|options| options.panels(&texts)) {
            Ok(Ok(panels)) => {
                panels.iter().map(|panel| format!("{:?}.{}", panel.group.id, panel.part)).collect::<Vec<_>>().join(" ")
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn letters_are_columns_in_their_order() {
        assert_eq!(shown("-cm"), "Cpu.total Memory.total");
        assert_eq!(shown("-mc --load"), "Memory.total Cpu.total Load.total");
        assert_eq!(shown("-ldt 5 3"), "Load.total Disk.total Time.total");
        assert_eq!(shown(""), "Cpu.total Disk.total Network.total Page.total System.total");
        assert_eq!(
            shown("-lv"),
            "Load.total Processes.total Memory.total Page.total Disk.total System.total Cpu.total"
        );
    }

    #[test]
    fn parts_are_named_or_all_of_them() {
        assert_eq!(shown("-cn -C 0,total -N lo"), "Cpu.0 Cpu.total Network.lo");
        assert_eq!(shown("-cnf"), "Cpu.0 Cpu.1 Network.eth0");
        assert!(shown("-c -C 7").contains("7 does not exist"), "{}", shown("-c -C 7"));
    }

    #[test]
    fn unsupported_options_are_reported() {
        assert!(shown("--tcp").contains("--tcp is not supported"), "{}", shown("--tcp"));
        assert!(shown("-c 0").contains("0 is not in"), "{}", shown("-c 0"));
    }
}

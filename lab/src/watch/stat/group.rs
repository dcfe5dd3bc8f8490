//! The columns: a table of dstat's groups, and how each is read.

use super::form::Form;
use super::source::{Source, Texts, numbers};

/// The way from a raw figure to the displayed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derivation {
    /// Unchanged.
    Now,
    /// Its growth per second.
    PerSecond,
    /// Its percentage of the growth of all columns in its group.
    Share,
    /// The time, in words or in seconds since 1970.
    Date,
    Epoch,
}

/// A column: its name, its format, and its derivation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column(pub(super) &'static str, pub(super) Form, pub(super) Derivation);

/// A group of columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) id: Id,
    /// Its title in the header and in the CSV file; `{}` stands for the part.
    pub(super) title: &'static str,
    pub(super) csv: &'static str,
    pub(super) columns: &'static [Column],
    /// The figures, in the order of the columns, of this part of the machine.
    pub(super) read: fn(&Texts, &str) -> Vec<f64>,
    /// All parts that can be shown beside `total`.
    pub(super) parts: fn(&Texts) -> Vec<String>,
}

/// The groups, by their subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    Cpu,
    Disk,
    Page,
    Load,
    Memory,
    Network,
    Processes,
    Requests,
    Swap,
    Time,
    Epoch,
    System,
    Pressure,
}

/// The two common layouts: of dstat 0.7 (CentOS 7), and of 0.8 (Debian 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Layout {
    /// dstat 0.7: hiq and siq; used buff cach free
    #[value(name = "0.7")]
    Old,
    /// dstat 0.8: stl; used free buff cach
    #[default]
    #[value(name = "0.8")]
    New,
}

const fn share(name: &'static str) -> Column {
    Column(name, Form::Percent, Derivation::Share)
}

const fn memory(name: &'static str) -> Column {
    Column(name, Form::Memory, Derivation::Now)
}

const fn flow(name: &'static str) -> Column {
    Column(name, Form::Bytes, Derivation::PerSecond)
}

const GROUPS: [Group; 13] = [
    Group {
        id: Id::Cpu,
        title: "{} cpu usage",
        csv: "{} cpu usage",
        columns: &[share("usr"), share("sys"), share("idl"), share("wai"), share("stl")],
        read: |texts, part| match texts.line(Source::Stat, &core_of(part))[..] {
            // The time of interrupts counts for the interrupted programs.
            [user, nice, system, idle, wait, hard, soft, stolen, ..] => {
                vec![user + nice + hard + soft, system, idle, wait, stolen]
            }
            _ => Vec::new(),
        },
        parts: cores,
    },
    Group {
        id: Id::Disk,
        title: "dsk/{}",
        csv: "dsk/{}",
        columns: &[flow("read"), flow("writ")],
        read: |texts, part| sum(disks(texts), part, is_whole_disk, [2, 6], 512.0),
        parts: |texts| disks(texts).into_iter().map(|(name, _)| name).collect(),
    },
    Group {
        id: Id::Page,
        title: "paging",
        csv: "paging",
        columns: &[flow("in"), flow("out")],
        read: |texts, _| {
            let page = rustix::param::page_size() as f64;
            ["pswpin", "pswpout"]
                .map(|name| texts.line(Source::Paging, name).first().map_or(0.0, |pages| pages * page))
                .into()
        },
        parts: none,
    },
    Group {
        id: Id::Load,
        title: "load avg",
        csv: "load avg",
        columns: &[
            Column("1m", Form::Load, Derivation::Now),
            Column("5m", Form::Load, Derivation::Now),
            Column("15m", Form::Load, Derivation::Now),
        ],
        read: |texts, _| {
            texts
                .lines(Source::Load)
                .next()
                .map(|words| numbers(words.get(..3).unwrap_or_default()))
                .unwrap_or_default()
        },
        parts: none,
    },
    Group {
        id: Id::Memory,
        title: "memory usage",
        csv: "memory usage",
        columns: &[memory("used"), memory("free"), memory("buff"), memory("cach")],
        read: |texts, _| {
            let [total, free, buffers, cached, slab, shared] = amounts(texts);
            vec![total - free - buffers - cached - slab + shared, free, buffers, cached]
        },
        parts: none,
    },
    Group {
        id: Id::Network,
        title: "net/{}",
        csv: "net/{}",
        columns: &[flow("recv"), flow("send")],
        read: |texts, part| sum(networks(texts), part, is_outward, [0, 8], 1.0),
        parts: |texts| networks(texts).into_iter().map(|(name, _)| name).collect(),
    },
    Group {
        id: Id::Processes,
        title: "procs",
        csv: "procs",
        columns: &[
            Column("run", Form::Few, Derivation::Now),
            Column("blk", Form::Few, Derivation::Now),
            Column("new", Form::Few, Derivation::PerSecond),
        ],
        read: |texts, _| {
            let names = ["procs_running", "procs_blocked", "processes"];
            let mut figures = names.map(|name| texts.line(Source::Stat, name).first().copied().unwrap_or(0.0));
            // The observing process itself is not counted.
            figures[0] = (figures[0] - 1.0).max(0.0);
            figures.into()
        },
        parts: none,
    },
    Group {
        id: Id::Requests,
        title: "io/{}",
        csv: "io/{}",
        columns: &[
            Column("read", Form::Rate, Derivation::PerSecond),
            Column("writ", Form::Rate, Derivation::PerSecond),
        ],
        read: |texts, part| sum(disks(texts), part, is_whole_disk, [0, 4], 1.0),
        parts: |texts| disks(texts).into_iter().map(|(name, _)| name).collect(),
    },
    Group {
        id: Id::Swap,
        title: "swap",
        csv: "swap",
        columns: &[Column("used", Form::Bytes, Derivation::Now), Column("free", Form::Bytes, Derivation::Now)],
        read: |texts, part| {
            let (mut used, mut free) = (0.0, 0.0);
            for words in texts.lines(Source::Swaps).skip(1) {
                let name = words.first().and_then(|path| path.rsplit('/').next());
                if let [size, taken] = numbers(words.get(2..4).unwrap_or_default())[..]
                    && (part == TOTAL || name == Some(part))
                {
                    used += taken * 1024.0;
                    free += (size - taken) * 1024.0;
                }
            }
            vec![used, free]
        },
        parts: none,
    },
    Group {
        id: Id::Time,
        title: "system",
        csv: "system",
        columns: &[Column("time", Form::Text(14), Derivation::Date)],
        read: |_, _| vec![0.0],
        parts: none,
    },
    Group {
        id: Id::Epoch,
        title: "epoch",
        csv: "epoch",
        columns: &[Column("epoch", Form::Text(10), Derivation::Epoch)],
        read: |_, _| vec![0.0],
        parts: none,
    },
    Group {
        id: Id::System,
        title: "system",
        csv: "system",
        columns: &[
            Column("int", Form::Count, Derivation::PerSecond),
            Column("csw", Form::Count, Derivation::PerSecond),
        ],
        read: |texts, _| {
            ["intr", "ctxt"].map(|name| texts.line(Source::Stat, name).first().copied().unwrap_or(0.0)).into()
        },
        parts: none,
    },
    Group {
        id: Id::Pressure,
        title: "pressure",
        csv: "memory pressure",
        columns: &[Column("some", Form::Load, Derivation::Now), Column("full", Form::Load, Derivation::Now)],
        read: |texts, _| pressure(texts, Source::Pressure).into(),
        parts: none,
    },
];

/// The differences of the older layout.
const OLD: [Group; 2] = [
    Group {
        id: Id::Cpu,
        title: "{} cpu usage",
        csv: "{} cpu usage",
        columns: &[share("usr"), share("sys"), share("idl"), share("wai"), share("hiq"), share("siq")],
        read: |texts, part| match texts.line(Source::Stat, &core_of(part))[..] {
            [user, nice, system, idle, wait, hard, soft, ..] => vec![user + nice, system, idle, wait, hard, soft],
            _ => Vec::new(),
        },
        parts: cores,
    },
    Group {
        id: Id::Memory,
        title: "memory usage",
        csv: "memory usage",
        columns: &[memory("used"), memory("buff"), memory("cach"), memory("free")],
        read: |texts, _| {
            let [total, free, buffers, cached, _, _] = amounts(texts);
            vec![total - free - buffers - cached, buffers, cached, free]
        },
        parts: none,
    },
];

impl Group {
    /// A group in a layout.
    pub(super) fn of(id: Id, layout: Layout) -> Option<&'static Group> {
        let own: &'static [Group] = if layout == Layout::Old { &OLD } else { &[] };
        own.iter().chain(&GROUPS).find(|group| group.id == id)
    }
}

/// The figures of a group of the newer layout, for a part of the machine; empty if this kernel lacks them.
pub(crate) fn figures(texts: &Texts, id: Id, part: &str) -> Vec<f64> {
    Group::of(id, Layout::New).map_or_else(Vec::new, |group| (group.read)(texts, part))
}

/// The percentages of the last ten seconds in which some programs waited for a scarce resource, and in which all did.
pub(crate) fn pressure(texts: &Texts, source: Source) -> [f64; 2] {
    let average = |line: &str| {
        let words = texts.lines(source).find(|words| words.first() == Some(&line)).unwrap_or_default();
        words.iter().find_map(|word| word.strip_prefix("avg10=")?.parse().ok()).unwrap_or(0.0)
    };
    ["some", "full"].map(average)
}

/// The name for all parts together.
pub(crate) const TOTAL: &str = "total";

fn none(_: &Texts) -> Vec<String> {
    Vec::new()
}

/// The name of a core in /proc/stat.
fn core_of(part: &str) -> String {
    if part == TOTAL { "cpu".to_owned() } else { format!("cpu{part}") }
}

/// The numbers of the cores.
pub(crate) fn cores(texts: &Texts) -> Vec<String> {
    let names = texts.lines(Source::Stat).filter_map(|words| words.first()?.strip_prefix("cpu").map(str::to_owned));
    names.filter(|name| !name.is_empty()).collect()
}

/// Total, free, buffers, page cache, reclaimable slabs, shared memory; bytes.
fn amounts(texts: &Texts) -> [f64; 6] {
    ["MemTotal:", "MemFree:", "Buffers:", "Cached:", "SReclaimable:", "Shmem:"]
        .map(|name| texts.line(Source::Memory, name).first().map_or(0.0, |kilobytes| kilobytes * 1024.0))
}

/// Disks, with their counts in /proc/diskstats.
fn disks(texts: &Texts) -> Vec<(String, Vec<f64>)> {
    let found = texts.lines(Source::Disks).filter_map(|words| {
        let counted = numbers(words.get(3..)?);
        // A disk that has never done anything is skipped.
        counted.iter().any(|count| *count > 0.0).then(|| (words[2].to_owned(), counted))
    });
    found.collect()
}

/// Excludes partitions, and devices made of others, which would be counted twice.
fn is_whole_disk(name: &str) -> bool {
    let is_letters = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase());
    let rest = name.trim_end_matches(|char: char| char.is_ascii_digit());
    let is_partition = rest.len() < name.len()
        && ["hd", "sd", "vd", "xvd"].iter().any(|start| name.starts_with(start))
        && is_letters(rest);
    let is_part_of_card = (name.starts_with("mmcblk") || name.starts_with("nvme")) && rest.ends_with('p');
    !(is_partition
        || is_part_of_card
        || ["dm-", "md", "loop", "ram", "zram"].iter().any(|start| name.starts_with(start)))
}

/// Interfaces, with their counts in /proc/net/dev.
fn networks(texts: &Texts) -> Vec<(String, Vec<f64>)> {
    let found = texts.of(Source::Networks).lines().filter_map(|line| {
        let (name, counted) = line.split_once(':')?;
        Some((name.trim().to_owned(), numbers(&counted.split_ascii_whitespace().collect::<Vec<_>>())))
    });
    found.collect()
}

/// Excludes local traffic, and traffic that also goes over another interface.
fn is_outward(name: &str) -> bool {
    !(name == "lo" || name.starts_with("bond") || name.contains('.'))
}

/// Two of the counts of a part, or of all parts that are `counted`.
fn sum(
    parts: Vec<(String, Vec<f64>)>,
    part: &str,
    counted: fn(&str) -> bool,
    places: [usize; 2],
    factor: f64,
) -> Vec<f64> {
    let wanted = |name: &str| if part == TOTAL { counted(name) } else { name == part };
    let of = |place: usize| {
        let counts = parts.iter().filter(|(name, _)| wanted(name)).filter_map(|(_, counts)| counts.get(place));
        counts.sum::<f64>() * factor
    };
    places.map(of).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: Id, layout: Layout, part: &str, texts: &[(Source, &str)]) -> Vec<f64> {
        (Group::of(id, layout).unwrap().read)(&Texts::said(texts), part)
    }

    #[test]
    fn cores_are_told_apart() {
        let stat = [(Source::Stat, "cpu  10 2 30 400 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 77 1 2\nctxt 99\n")];
        assert_eq!(read(Id::Cpu, Layout::New, TOTAL, &stat), [25.0, 30.0, 400.0, 5.0, 8.0]);
        assert_eq!(read(Id::Cpu, Layout::Old, "0", &stat), [3.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(read(Id::Cpu, Layout::New, "7", &stat), [0.0; 0]);
        assert_eq!(read(Id::System, Layout::New, "", &stat), [77.0, 99.0]);
        assert_eq!(cores(&Texts::said(&stat)), ["0"]);
    }

    #[test]
    fn memory_is_reported_in_both_ways() {
        let text =
            "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 200 kB\nSReclaimable: 30 kB\nShmem: 10 kB\n";
        let memory = [(Source::Memory, text)];
        let kilobytes =
            |id, layout| read(id, layout, "", &memory).iter().map(|bytes| bytes / 1024.0).collect::<Vec<_>>();
        assert_eq!(kilobytes(Id::Memory, Layout::New), [630.0, 100.0, 50.0, 200.0]);
        assert_eq!(kilobytes(Id::Memory, Layout::Old), [650.0, 50.0, 200.0, 100.0]);
        let swaps =
            [(Source::Swaps, "Filename Type Size Used Priority\n/dev/vdb partition 100 30 -2\n/swap file 10 1 -3\n")];
        assert_eq!(read(Id::Swap, Layout::New, TOTAL, &swaps), [31.0 * 1024.0, 79.0 * 1024.0]);
        assert_eq!(read(Id::Swap, Layout::New, "swap", &swaps), [1024.0, 9.0 * 1024.0]);
    }

    #[test]
    fn nothing_is_counted_twice() {
        let disks = "8 0 sda 10 0 100 0 20 0 200 0 0 0 0\n8 1 sda1 10 0 100 0 20 0 200 0 0 0 0\n\
                     253 0 dm-0 10 0 100 0 20 0 200 0 0 0 0\n259 0 nvme0n1 1 0 10 0 2 0 20 0 0 0 0\n259 1 nvme0n1p1 1 0 10 0 2 0 20 0 0 0 0\n\
                     7 0 loop0 5 0 5 0 0 0 0 0 0 0 0\n";
        let disks = [(Source::Disks, disks)];
        assert_eq!(read(Id::Disk, Layout::New, TOTAL, &disks), [110.0 * 512.0, 220.0 * 512.0]);
        assert_eq!(read(Id::Disk, Layout::New, "sda1", &disks), [100.0 * 512.0, 200.0 * 512.0]);
        assert_eq!(read(Id::Requests, Layout::New, TOTAL, &disks), [11.0, 22.0]);
        let networks = "Inter-| Receive\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 5 0 0 0 0 0 0 0 7 0\neth0.1: 1 0 0 0 0 0 0 0 1 0\n";
        let networks = [(Source::Networks, networks)];
        assert_eq!(read(Id::Network, Layout::New, TOTAL, &networks), [5.0, 7.0]);
        assert_eq!(read(Id::Network, Layout::New, "lo", &networks), [9.0, 9.0]);
    }

    #[test]
    fn pressure_is_that_of_the_last_ten_seconds() {
        let text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(read(Id::Pressure, Layout::New, "", &[(Source::Pressure, text)]), [1.5, 0.25]);
        assert_eq!(read(Id::Pressure, Layout::New, "", &[]), [0.0, 0.0]);
    }
}

//! The directives of the multi-processing modules, in the order and wording of `apache2 -L`.

mod listen;
mod set;

use std::time::Duration;

use conf::values::{duration, number, size};
use conf::{Allowed, Args, Directive, Level, ModuleInfo, shown};

use crate::defaults;
use crate::settings::MpmSettings;

/// `prefork.c`: a process for each connection.
pub static PREFORK: ModuleInfo = info("mpm_prefork_module", "prefork.c", &PREFORK_ROWS);
/// `worker.c`: a thread for each connection.
pub static WORKER: ModuleInfo = info("mpm_worker_module", "worker.c", &WORKER_ROWS);
/// `event.c`: a thread for each request.
pub static EVENT: ModuleInfo = info("mpm_event_module", "event.c", &EVENT_ROWS);
/// `percore.c`: a process for each processor. It accepts the directives of all the others, and needs none.
pub static PERCORE: ModuleInfo = info("mpm_percore_module", "percore.c", &PERCORE_ROWS);
/// The rows of the core module's table that are about processes.
pub static CORE: ModuleInfo = ModuleInfo { id: "core_module", source: "core.c", linked: true, directives: &CORE_ROWS };

const fn info(id: &'static str, source: &'static str, directives: &'static [Directive]) -> ModuleInfo {
    ModuleInfo { id, source, linked: false, directives }
}

static PREFORK_ROWS: [Directive; 13] = [
    BACKLOG,
    BUCKETS,
    LISTEN,
    SEND_BUFFER,
    RECEIVE_BUFFER,
    DEFER_ACCEPT,
    START_SERVERS,
    MIN_SPARE_SERVERS,
    MAX_SPARE_SERVERS,
    max_clients(),
    max_request_workers(
        shown!(defaults::prefork::MAX_REQUEST_WORKERS),
        "Maximum number of children alive at the same time",
    ),
    server_limit(shown!(defaults::prefork::SERVER_LIMIT), "Maximum value of MaxRequestWorkers for this run of Apache"),
    GRACEFUL,
];

static WORKER_ROWS: [Directive; 15] = [
    BACKLOG,
    BUCKETS,
    LISTEN,
    SEND_BUFFER,
    RECEIVE_BUFFER,
    DEFER_ACCEPT,
    START_SERVERS,
    MIN_SPARE_THREADS,
    MAX_SPARE_THREADS,
    max_request_workers(shown!(defaults::MAX_REQUEST_WORKERS), MAX_THREADS),
    max_clients(),
    THREADS_PER_CHILD,
    server_limit(shown!(defaults::SERVER_LIMIT), MAX_CHILDREN),
    THREAD_LIMIT,
    GRACEFUL,
];

static EVENT_ROWS: [Directive; 16] = [
    BACKLOG,
    BUCKETS,
    LISTEN,
    SEND_BUFFER,
    RECEIVE_BUFFER,
    DEFER_ACCEPT,
    START_SERVERS,
    server_limit(shown!(defaults::SERVER_LIMIT), MAX_CHILDREN),
    MIN_SPARE_THREADS,
    MAX_SPARE_THREADS,
    max_clients(),
    max_request_workers(shown!(defaults::MAX_REQUEST_WORKERS), MAX_THREADS),
    THREADS_PER_CHILD,
    THREAD_LIMIT,
    ASYNC_FACTOR,
    GRACEFUL,
];

static PERCORE_ROWS: [Directive; 18] = [
    BACKLOG,
    BUCKETS,
    LISTEN,
    SEND_BUFFER,
    RECEIVE_BUFFER,
    DEFER_ACCEPT,
    START_SERVERS.without_effect(PER_PROCESSOR),
    server_limit("", MAX_CHILDREN).without_effect(PER_PROCESSOR),
    MIN_SPARE_SERVERS.without_effect(PER_PROCESSOR),
    MAX_SPARE_SERVERS.without_effect(PER_PROCESSOR),
    MIN_SPARE_THREADS.without_effect(PER_PROCESSOR),
    MAX_SPARE_THREADS.without_effect(PER_PROCESSOR),
    max_clients().without_effect(PER_PROCESSOR),
    max_request_workers("", MAX_THREADS).without_effect(PER_PROCESSOR),
    THREADS_PER_CHILD.without_effect(PER_PROCESSOR),
    THREAD_LIMIT.without_effect(PER_PROCESSOR),
    ASYNC_FACTOR.without_effect(PER_PROCESSOR),
    GRACEFUL,
];

static CORE_ROWS: [Directive; 12] = [
    SCOREBOARD_FILE,
    PID_FILE,
    CONTROL_SOCKET,
    GRACEFUL_DELAY,
    STALL_TIMEOUT,
    max_connections(
        "MaxRequestsPerChild",
        "Maximum number of connections a particular child serves before dying. (DEPRECATED, use MaxConnectionsPerChild)",
    ),
    max_connections("MaxConnectionsPerChild", "Maximum number of connections a particular child serves before dying."),
    CORE_DUMP_DIRECTORY,
    MAX_MEM_FREE,
    THREAD_STACK_SIZE,
    MAX_REQUESTS_SERVED,
    MAX_MEMORY_GROWTH,
];

const PER_PROCESSOR: &str = "There is one child for each processor, and no limit but descriptors.";
const NUMBERED: &str = "There is no compiled limit: any number that Linux can count is allowed (4194304).";
const MAX_THREADS: &str = "Maximum number of threads alive at the same time";
const MAX_CHILDREN: &str = "Maximum number of child processes for this run of Apache";

const fn row(name: &'static str, args: Args, default: &'static str, help: &'static str) -> Directive {
    conf::row(name, Allowed::GLOBAL, args, default, help)
}

const BACKLOG: Directive = row(
    "ListenBacklog",
    Args::Take1(|cmd, word| set::positive(cmd, |s| &mut s.backlog, word)),
    shown!(defaults::BACKLOG),
    "Maximum length of the queue of pending connections, as used by listen(2)",
);

const BUCKETS: Directive = row(
    "ListenCoresBucketsRatio",
    Args::Take1(|cmd, word| set::positive(cmd, |s| &mut s.buckets_ratio, word)),
    "0",
    "Ratio between the number of CPU cores (online) and the number of listeners buckets",
)
.differs(
    "It works under percore too. A bucket whose workers are all busy gets another child; restarts keep the number.",
);

const LISTEN: Directive = row(
    "Listen",
    Args::Words(listen::listen),
    "",
    "A port number or a numeric IP address and a port number, and an optional protocol",
);

const SEND_BUFFER: Directive = row(
    "SendBufferSize",
    Args::Take1(|cmd, word| set::buffer(cmd, |s| &mut s.send_buffer, word)),
    "0",
    "Send buffer size in bytes",
);

const RECEIVE_BUFFER: Directive = row(
    "ReceiveBufferSize",
    Args::Take1(|cmd, word| set::buffer(cmd, |s| &mut s.receive_buffer, word)),
    "0",
    "Receive buffer size in bytes",
);

const DEFER_ACCEPT: Directive = row(
    "ListenTCPDeferAccept",
    Args::Take1(|cmd, word| set::positive(cmd, |s| &mut s.defer_accept, word)),
    shown!(defaults::DEFER_ACCEPT),
    "Value set for the socket option TCP_DEFER_ACCEPT if it is set",
);

const START_SERVERS: Directive = row(
    "StartServers",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.start_servers, word)),
    "",
    "Number of child processes launched at server startup",
);

const MIN_SPARE_SERVERS: Directive = row(
    "MinSpareServers",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.min_spare_servers, word)),
    shown!(defaults::prefork::MIN_SPARE_SERVERS),
    "Minimum number of idle children, to handle request spikes",
);

const MAX_SPARE_SERVERS: Directive = row(
    "MaxSpareServers",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.max_spare_servers, word)),
    shown!(defaults::prefork::MAX_SPARE_SERVERS),
    "Maximum number of idle children",
);

const MIN_SPARE_THREADS: Directive = row(
    "MinSpareThreads",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.min_spare_threads, word)),
    shown!(defaults::MIN_SPARE_THREADS),
    "Minimum number of idle threads, to handle request spikes",
);

const MAX_SPARE_THREADS: Directive = row(
    "MaxSpareThreads",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.max_spare_threads, word)),
    shown!(defaults::MAX_SPARE_THREADS),
    "Maximum number of idle threads",
);

const fn max_clients() -> Directive {
    row("MaxClients", Args::Take1(set::old_max_clients), "", "Deprecated name of MaxRequestWorkers").syntax("number")
}

const fn max_request_workers(default: &'static str, help: &'static str) -> Directive {
    row(
        "MaxRequestWorkers",
        Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.max_request_workers, word)),
        default,
        help,
    )
}

const fn server_limit(default: &'static str, help: &'static str) -> Directive {
    row("ServerLimit", Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.server_limit, word)), default, help)
        .differs(NUMBERED)
}

const THREAD_LIMIT: Directive = row(
    "ThreadLimit",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.thread_limit, word)),
    shown!(defaults::THREAD_LIMIT),
    "Maximum number of worker threads per child process for this run of Apache - Upper limit for ThreadsPerChild",
)
.differs(NUMBERED);

const THREADS_PER_CHILD: Directive = row(
    "ThreadsPerChild",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.threads_per_child, word)),
    shown!(defaults::THREADS_PER_CHILD),
    "Number of threads each child creates",
);

const ASYNC_FACTOR: Directive = row(
    "AsyncRequestWorkerFactor",
    Args::Take1(set::async_factor),
    shown!(defaults::ASYNC_FACTOR),
    "How many additional connects will be accepted per idle worker thread",
);

const GRACEFUL: Directive = row(
    "GracefulShutdownTimeout",
    Args::Take1(|cmd, word| set::lenient(cmd, |s| &mut s.graceful_shutdown_timeout, word)),
    shown!(defaults::GRACEFUL_SHUTDOWN_TIMEOUT),
    "Maximum time in seconds to wait for child processes to complete transactions during shutdown",
);

const SCOREBOARD_FILE: Directive = row(
    "ScoreBoardFile",
    Args::Take1(|cmd, word| {
        let path = cmd.context.server_relative(word);
        let text = format!("ScoreBoardFile {word}: no file is made, the scoreboard is memory that the processes share");
        cmd.context.note("core", Level::Notice, text);
        cmd.server_set(|s: &mut MpmSettings| &mut s.scoreboard_file, path)
    }),
    "",
    "A file for Apache to maintain runtime process management information",
)
.without_effect("No file is made: the scoreboard is memory that the processes share.");

const PID_FILE: Directive = row(
    "PidFile",
    Args::Take1(|cmd, word| {
        let path = cmd.context.server_relative(word);
        cmd.server_set(|s: &mut MpmSettings| &mut s.pid_file, path)
    }),
    "",
    "A file for logging the server process ID",
);

const CONTROL_SOCKET: Directive = row(
    "ControlSocket",
    Args::Take1(|cmd, word| {
        let none = word.eq_ignore_ascii_case("none");
        let path = (!none).then(|| cmd.context.server_relative(word));
        cmd.server_set(|s: &mut MpmSettings| &mut s.control_socket, path)
    }),
    "",
    "Socket of the running server for tsubame ctl, or none; by default beside the PidFile",
)
.syntax("path|none");

const GRACEFUL_DELAY: Directive = row(
    "GracefulShutdownDelay",
    Args::Take1(|cmd, word| match duration(word, Duration::from_secs(1)) {
        Some(time) => cmd.server_set(|s: &mut MpmSettings| &mut s.graceful_shutdown_delay, time),
        None => Err(format!("GracefulShutdownDelay: '{word}' is not a time, such as 5 or 500ms").into()),
    }),
    "0",
    "How long a graceful stop goes on accepting connections, while load balancers hear that no new clients are wanted",
)
.syntax("time[ms|s|min]");

const STALL_TIMEOUT: Directive = row(
    "StallTimeout",
    Args::Take1(|cmd, word| match duration(word, Duration::from_secs(1)) {
        Some(time) => cmd.server_set(|s: &mut MpmSettings| &mut s.stall_timeout, time),
        None => Err(format!("StallTimeout: '{word}' is not a time, such as 30 or 5min; 0 means never").into()),
    }),
    shown!(defaults::STALL_TIMEOUT.as_secs()),
    "Time without progress in any worker of a child until the error log says what each waits for; 0 means never",
)
.syntax("time[ms|s|min]");

const fn max_connections(name: &'static str, help: &'static str) -> Directive {
    row(name, Args::Take1(set::max_connections_per_child), "0", help).syntax("number").differs(
        "Each child draws its own limit from the top quarter, and serves until its successor accepts connections.",
    )
}

const CORE_DUMP_DIRECTORY: Directive = row(
    "CoreDumpDirectory",
    Args::Take1(set::core_dump_directory),
    "",
    "The location of the directory Apache changes to before dumping core",
);

const MAX_MEM_FREE: Directive = row(
    "MaxMemFree",
    Args::Take1(|cmd, word| set::not_negative(cmd, |s| &mut s.max_mem_free, word)),
    "2048",
    "Maximum number of 1k blocks a particular child's allocator may hold.",
)
.differs("It limits the free memory at the end of a child's heap; without it the allocator decides.");

const THREAD_STACK_SIZE: Directive = row(
    "ThreadStackSize",
    Args::Take1(set::thread_stack_size),
    "",
    "Size in bytes of stack used by threads handling client connections",
)
.differs("A stack can be larger than 4 MiB, not smaller: only the used part costs memory.");

/// Tsubame's own directive: Apache's MaxRequestsPerChild counts connections.
const MAX_REQUESTS_SERVED: Directive = row(
    "MaxRequestsServedPerChild",
    Args::Take1(|cmd, word| match number(word).and_then(|count| u64::try_from(count).ok()) {
        Some(count) => cmd.server_set(|s: &mut MpmSettings| &mut s.max_requests_served, count),
        None => {
            Err(format!("MaxRequestsServedPerChild: '{word}' is not a number of requests; 0 means no limit").into())
        }
    }),
    "0",
    "How many requests a child serves before another one takes its place",
)
.syntax("number");

/// Tsubame's own directive.
const MAX_MEMORY_GROWTH: Directive = row(
    "MaxMemoryGrowthPerChild",
    Args::Take1(|cmd, word| match size(word) {
        Some(bytes) => cmd.server_set(|s: &mut MpmSettings| &mut s.max_memory_growth, bytes),
        None => Err(format!("MaxMemoryGrowthPerChild: '{word}' is not a size, such as 64M; 0 means no limit").into()),
    }),
    "0",
    "How much memory a child may gain before another one takes its place, in bytes or with K, M or G",
)
.syntax("bytes[K|M|G]");

#[cfg(test)]
mod tests;

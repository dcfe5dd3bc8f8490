//! The server from the outside: what it answers, logs, refuses and survives.
//!
//! One binary. [`server`] starts and judges servers, [`wire`] talks to them, [`oracle`] has Apache answer the same
//! requests, [`mpm`] repeats each test under every multi-processing module. Everything else is tests, by subject.

mod beside;
mod browser;
mod clock;
mod command_line;
mod control;
mod crowded;
mod ctl;
mod ctl_faults;
mod ctl_limits;
mod descriptors;
mod faults;
mod golden;
mod limits;
mod load;
mod memory;
mod mpm;
mod negotiation;
mod observe;
mod open_metrics;
mod oracle;
mod server;
mod site;
mod suexec;
mod tables;
mod wait;
mod wire;

mod actions;
mod admission;
mod authorization;
mod cgi;
mod cgi_clients;
mod cgi_faults;
mod cgi_same_as_apache;
mod cgid;
mod children;
mod debian;
mod dialup;
mod directives_same_as_apache;
mod dumps;
mod explain;
mod files;
mod htaccess;
mod http_basics;
mod http_same_as_apache;
mod info;
mod json_logs;
mod listening;
mod live;
mod logs;
mod metrics;
mod modules_same_as_apache;
mod options;
mod recycling;
mod sections;
mod ssl;
mod status_readers;
mod status_same_as_apache;
mod unique_ids;
mod upgrade;
mod vhosts;
mod waiting;
mod watchdog;

//! Logs, the status page and metrics.

pub mod child_spans;
pub mod collector;
pub mod info;
pub mod inherited_logs;
pub mod json_logs;
pub mod live;
pub mod log_lines;
pub mod metrics;
pub mod monitoring;
pub mod piped_logs;
pub mod rotation;
pub mod spans;
pub mod status_readers;
pub mod status_same_as_apache;
pub mod traces;
pub mod unique_ids;

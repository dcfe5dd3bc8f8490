//! What tests need: servers and their sites, clients, Apache as the oracle, and the programs of others.

pub mod asker;
pub mod beside;
pub mod browser;
pub mod chance;
pub mod descriptors;
pub mod fastcgi_programs;
pub mod frames;
pub mod hung_disk;
pub mod mpm;
pub mod name_server;
pub mod needs;
pub mod object_servers;
pub mod observe;
pub mod open_metrics;
pub mod oracle;
pub mod pebble;
pub mod pools;
pub mod postgres;
pub mod same_lines;
pub mod server;
pub mod site;
pub mod slapd;
pub mod tls;
pub mod wait;
pub mod wire;

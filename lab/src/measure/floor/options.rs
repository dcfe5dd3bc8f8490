//! The options of the floor.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The options of the hidden `floor`.
#[derive(Args)]
pub(crate) struct FloorOptions {
    /// The address to listen on
    #[arg(long)]
    pub(crate) listen: SocketAddr,

    /// Close after each response instead of keeping the connection
    #[arg(long)]
    pub(crate) close: bool,

    /// Use a thread for each connection instead of one loop for all
    #[arg(long)]
    pub(crate) threads: bool,

    /// Start this script for each connection and answer with its output, in one process for each core
    #[arg(long, value_name = "PATH")]
    pub(crate) spawn: Option<PathBuf>,

    /// Start no further processes for the other cores
    #[arg(long)]
    pub(crate) alone: bool,
}

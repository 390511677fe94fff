//! The command line of `snin lat`.

use std::path::PathBuf;

use super::Format;
use clap::{Args, value_parser};
use snin_lat::plan::{Carrier, LONGEST, Operation};

/// `snin lat`.
#[derive(Args, Debug)]
pub(crate) struct Lat {
    /// The host where `snin lat` waits, as HOST or HOST:PORT
    #[arg(long, value_name = "HOST")]
    pub(crate) peer: Option<String>,
    /// TCP port to wait at, or to call
    #[arg(long, default_value_t = 18_516, value_name = "PORT")]
    pub(crate) listen: u16,
    /// Wait for the next client when one is done
    #[arg(long, conflicts_with = "peer")]
    pub(crate) keep: bool,
    /// RDMA device, by default the first with an active port
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Its port, by default the first active one
    #[arg(long, value_name = "N")]
    pub(crate) ib_port: Option<u8>,
    /// send, write or read
    #[arg(long, default_value = "send", value_name = "OPERATION", value_parser = operation)]
    pub(crate) operation: Operation,
    /// rc, uc or ud
    #[arg(long, default_value = "rc", value_name = "TRANSPORT", value_parser = carrier)]
    pub(crate) transport: Carrier,
    /// Bytes of a message, several separated by commas; suffixes k and M count in 1024
    #[arg(long, default_value = "2", value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    pub(crate) size: Vec<usize>,
    /// 2 B to 8 MiB in powers of two, with --bandwidth 1 KiB to 8 MiB; datagrams to the size of a packet
    #[arg(long, conflicts_with = "size")]
    pub(crate) all: bool,
    /// Messages that are measured, of each flow and size
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) iterations: u64,
    /// Messages before these
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) warm_up: u64,
    /// How many flows
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) flows: usize,
    /// The peer's addresses that flows go to, in turn: counted from its base address
    #[arg(long, default_value = "0", value_name = "OFFSET", value_delimiter = ',')]
    pub(crate) offset: Vec<u16>,
    /// So many messages a second on each flow at fixed times (RC)
    #[arg(long, value_name = "PER SECOND", conflicts_with = "bandwidth")]
    pub(crate) rate: Option<f64>,
    /// As many messages as the queue holds: bandwidth instead of latency
    #[arg(long)]
    pub(crate) bandwidth: bool,
    /// Beside a flow that writes messages of so many bytes as fast as it can
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) congestor: Option<usize>,
    /// Messages posted at a time
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub(crate) depth: u32,
    /// Messages up to so many bytes are copied when posted
    #[arg(long, default_value_t = 236, value_name = "BYTES")]
    pub(crate) inline: u32,
    /// Service level
    #[arg(long, default_value_t = 0, value_name = "SL", value_parser = value_parser!(u8).range(0..=15))]
    pub(crate) sl: u8,
    /// Write the latencies here as HdrHistogram's percentile text (microseconds); of several sizes FILE-SIZE each
    #[arg(long, value_name = "FILE", conflicts_with = "bandwidth")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Draw the latencies by percentile, or the bandwidth by size: into a file, or on stdout in place of the text
    /// (`-`, or no file)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

fn operation(text: &str) -> Result<Operation, String> {
    match text {
        "send" => Ok(Operation::Send),
        "write" => Ok(Operation::Write),
        "read" => Ok(Operation::Read),
        other => Err(format!("`{other}`: send, write or read")),
    }
}

fn carrier(text: &str) -> Result<Carrier, String> {
    match text {
        "rc" => Ok(Carrier::Rc),
        "uc" => Ok(Carrier::Uc),
        "ud" => Ok(Carrier::Ud),
        other => Err(format!("`{other}`: rc, uc or ud")),
    }
}

fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|bytes| bytes.checked_mul(unit));
    bytes
        .filter(|bytes| (1..=LONGEST).contains(bytes))
        .ok_or_else(|| format!("1 byte to 8M, not `{text}`"))
}

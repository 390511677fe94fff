//! The command line of `snin-sm`: the one definition that help, man page and completions come from.

use std::path::PathBuf;

use clap::Parser;
use snin_fabric::Guid;

use super::settings::Settings;
use crate::port::ibsim::DEFAULT_NAME;
use crate::port::{Choice, Selector};

const EXIT_CODES: &str = "Signals:
  SIGHUP   read the file of partitions again and look at the whole fabric; what is as it should be is not written
  SIGUSR1  open the log and the file of events anew
  SIGTERM  end well, as SIGINT: what is in flight is waited for, the switches keep their tables

Exit codes:
  0  ended well; with --once: the subnet is up and nothing is missing
  1  with --once: something is missing, or there is no subnet
  2  the command line is wrong
  3  an input cannot be used: the line on stderr names file, line and value, or the port";

/// Manage an InfiniBand subnet: discover it, give every port its addresses and every switch its table, bring
/// all links up, and keep it so.
#[derive(Parser, Clone, Debug)]
#[command(name = "snin-sm", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// The configuration file; all keys with what they mean: --dump-config
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// OpenSM's configuration file, for keys that --config does not set; what cannot be taken over is told line by
    /// line. With --dump-config: the same as a configuration file of snin-sm
    #[arg(long, value_name = "FILE")]
    pub opensm_conf: Option<PathBuf>,
    /// The adapter whose port is used, such as mlx5_0
    #[arg(long, value_name = "NAME")]
    pub ca: Option<String>,
    /// The port's number on it
    #[arg(long, value_name = "N")]
    pub port: Option<u8>,
    /// The port's GUID
    #[arg(long, value_name = "GUID", conflicts_with_all = ["ca", "port"])]
    pub guid: Option<Guid>,
    /// A fabric that ibsim simulates, by the name of its sockets; nothing is to be preloaded
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, 
          default_missing_value = DEFAULT_NAME, conflicts_with_all = ["ca", "port", "guid"])]
    pub ibsim: Option<String>,
    /// The node of the simulated fabric to be at, by its name in the netlist; its first by default. Several,
    /// with commas between them: a manager with several ports
    #[arg(long, value_name = "NODE", requires = "ibsim", value_delimiter = ',')]
    pub ibsim_host: Vec<String>,
    /// Bring the subnet up, report, and end
    #[arg(long)]
    pub once: bool,
    /// The report as JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Addresses a host port, as a power of two (0 to 7), in place of the configured
    #[arg(long, value_name = "LMC")]
    pub lmc: Option<u8>,
    /// Where addresses and trees are remembered, in place of the configured
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Where tables are dumped whenever they have changed, in place of the configured
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
    /// The control socket, in place of the configured
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Write every MAD that passes to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Record what the core is told to a file, which `snin replay` tells it again
    ///
    /// The file holds the keys that the manager holds: only its owner may read it.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print a configuration file with every key, what it means and its default, and do nothing else
    #[arg(long)]
    pub dump_config: bool,
    /// Look whether the configuration, and the files that it names, can be used; print a line for each, and do
    /// nothing else
    #[arg(long, conflicts_with = "dump_config")]
    pub check_config: bool,
    /// Print every option of OpenSM's and what it comes to, as a table in Markdown, and do nothing else
    #[arg(long)]
    pub dump_opensm_options: bool,
    /// Print JSON Schema of what operators may ask and what is answered, and do nothing else
    #[arg(long, conflicts_with = "dump_config")]
    pub dump_schema: bool,
}

impl Cli {
    /// Puts what the command line says in place of what the file says.
    pub fn override_settings(&self, settings: &mut Settings) {
        fn put<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        put(&mut settings.lmc, &self.lmc);
        put(&mut settings.state_dir, &self.state);
        put(&mut settings.dump_files_dir, &self.dump);
        put(&mut settings.control_socket, &self.control);
    }

    /// The ports that are wanted: what the command line says of them counts alone, if it says anything.
    pub fn choices(&self, settings: &Settings) -> Vec<Choice> {
        if let Some(name) = &self.ibsim {
            let hosts = self.ibsim_host.iter().cloned().map(Some);
            let hosts = if self.ibsim_host.is_empty() { vec![None] } else { hosts.collect() };
            return hosts
                .into_iter()
                .map(|host| Choice::Ibsim { name: name.clone(), host })
                .collect();
        }
        if self.ca.is_some() || self.port.is_some() || self.guid.is_some() {
            let (adapter, number, guid) = (self.ca.clone(), self.port, self.guid);
            return vec![Choice::Umad(Selector { adapter, number, guid })];
        }
        let guid = settings.guid.map(|guid| Guid(guid.0));
        let first = Selector { adapter: settings.ca.clone(), number: settings.port, guid };
        let others = settings.more_ports.iter().map(|name| Selector::of(name));
        [first].into_iter().chain(others).map(Choice::Umad).collect()
    }
}

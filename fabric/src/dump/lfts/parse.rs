//! Text of either form to tables.

use std::collections::BTreeMap;

use crate::dump::DumpError;
use crate::id::BadGuid;
use crate::lft::BLOCK;
use crate::mistaken;
use crate::{ForwardingTable, Guid, Lid, NodeIndex, PortNum, Topology};

/// The error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A NUL byte: not a text file.
    #[error("this is no dump of forwarding tables (binary data)")]
    Binary,
    /// No table in the whole text.
    #[error("no table found (expected the output of dump_fts, or OpenSM's opensm-lfts.dump)")]
    Empty,
    /// No known kind of line.
    #[error("not understood: `{0:.60}`")]
    Unknown(String),
    /// The output of another command.
    #[error(
        "this is {0}; what is read is the output of `dump_fts`, `dump_lfts.sh` or `ibroute`, or OpenSM's \
         opensm-lfts.dump"
    )]
    Mistaken(&'static str),
    /// A message of the tool's among the tables.
    #[error(
        "`{0:.80}` is a message of a tool, not a table: keep stderr apart (`dump_fts > FILE 2> ERRORS`), and see \
         whether every table was read"
    )]
    Message(String),
    /// A table's first line without the switch's GUID.
    #[error("no switch GUID in `{0:.80}`")]
    NoGuid(String),
    /// The switch's GUID is none.
    #[error(transparent)]
    Guid(#[from] BadGuid),
    /// A table of a switch that the topology does not have.
    #[error("switch {0} is not in the topology")]
    NoSuchSwitch(Guid),
    /// A second table of one switch.
    #[error("switch `{name}` has two tables (first on line {first})")]
    TableTwice {
        /// The switch.
        name: String,
        /// Where the first began.
        first: usize,
    },
    /// An entry before any table.
    #[error("entry outside a table")]
    Stray,
    /// No unicast LID.
    #[error("`{0:.40}` is no unicast LID (expected 0x0 to 0xbfff)")]
    Lid(String),
    /// No port number.
    #[error("`{0:.40}` is no port (expected 0 to 255)")]
    Port(String),
    /// A port that the switch does not have.
    #[error("port {port} is beyond the {ports} ports of `{name}`")]
    PortBeyond {
        /// The switch.
        name: String,
        /// Its port count.
        ports: u8,
        /// The port.
        port: PortNum,
    },
    /// A LID with two entries in one table.
    #[error("LID 0x{:04x} has two entries", .0.0)]
    LidTwice(Lid),
    /// The table's last line counts other than its entries.
    #[error("{found} entries, but the table declares {declared} (is something missing?)")]
    Count {
        /// How many there are.
        found: usize,
        /// How many there should be.
        declared: String,
    },
    /// The next table or the end of the text where a last line is due.
    #[error("the table of `{0}` has no end (is the file truncated?)")]
    Unfinished(String),
    /// A switch of the topology without a table.
    #[error("no table for switch `{name}` ({guid})")]
    NoTable {
        /// The switch.
        name: String,
        /// Its GUID.
        guid: Guid,
    },
}

/// Reads tables in either form (see the module above): one a switch, by switch, each as long as its first
/// line says. Ports 255 are entries of what is not forwarded. Destinations are not looked at.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &[u8], topology: &Topology) -> Result<Vec<ForwardingTable>, DumpError<Problem>> {
    let mut reader = Reader::new(topology);
    text.split(|&byte| byte == b'\n').try_for_each(|line| reader.read(line))?;
    reader.finish()
}

/// A table whose end is still to come.
struct Open {
    switch: NodeIndex,
    entries: usize,
    /// The highest LID that its first line says.
    top: Lid,
}

/// Reads tables line by line, as [`parse`] does a whole text: dumps of large fabrics take gigabytes.
pub struct Reader<'a> {
    /// Lines read so far.
    lines: usize,
    topology: &'a Topology,
    by_guid: BTreeMap<Guid, NodeIndex>,
    /// By switch: where its table began, and the table.
    tables: Vec<Option<(usize, ForwardingTable)>>,
    open: Option<Open>,
    cut_short: Vec<NodeIndex>,
}

impl<'a> Reader<'a> {
    /// Nothing read yet.
    pub fn new(topology: &'a Topology) -> Self {
        let by_guid = topology.switches().map(|switch| (topology.node(switch).guid, switch));
        let (by_guid, tables) = (by_guid.collect(), vec![None; topology.switch_count()]);
        Self { lines: 0, topology, by_guid, tables, open: None, cut_short: Vec::new() }
    }

    /// Reads the next line, with or without its line break.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&mut self, line: &[u8]) -> Result<(), DumpError<Problem>> {
        self.lines += 1;
        let number = self.lines;
        if line.contains(&0) {
            return Err(DumpError { line: number, problem: Problem::Binary });
        }
        // Only names can be other than ASCII, and those are not used.
        let text = String::from_utf8_lossy(line);
        self.line(number, text.trim()).map_err(|problem| DumpError { line: number, problem })
    }

    /// Switches whose highest LID is left out because of the tool: infiniband-diags' dump_fts reads blocks of 64
    /// entries, and one too few where the highest LID is the first of a block.
    pub fn cut_short(&self) -> &[NodeIndex] {
        &self.cut_short
    }

    /// The tables, once every line has been read.
    ///
    /// # Errors
    /// When a table is missing.
    pub fn finish(self) -> Result<Vec<ForwardingTable>, DumpError<Problem>> {
        let line = self.lines;
        self.complete().map_err(|problem| DumpError { line, problem })
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        let starts = |prefix| line.starts_with(prefix);
        if starts("0x") {
            self.entry(line)
        } else if starts("Unicast lids") {
            self.start(number, line)
        } else if line.ends_with("lids dumped") {
            self.end(line)
        } else if line.is_empty() || starts("#") || starts("Lid ") || starts("Port ") {
            Ok(())
        } else {
            Err(match mistaken::output_of(line) {
                _ if mistaken::is_message(line) => Problem::Message(line.to_owned()),
                Some(output) => Problem::Mistaken(output),
                None => Problem::Unknown(line.to_owned()),
            })
        }
    }

    fn start(&mut self, number: usize, line: &str) -> Result<(), Problem> {
        self.check_closed()?;
        let guid = line.split_once(" guid ").and_then(|(_, rest)| rest.split_whitespace().next());
        let guid = guid.ok_or_else(|| Problem::NoGuid(line.to_owned()))?.parse()?;
        let switch = *self.by_guid.get(&guid).ok_or(Problem::NoSuchSwitch(guid))?;
        if let Some((first, _)) = self.tables[switch.index()] {
            return Err(Problem::TableTwice { name: self.name(switch), first });
        }
        let top = top(line)?;
        self.tables[switch.index()] = Some((number, ForwardingTable::up_to(top)));
        self.open = Some(Open { switch, entries: 0, top });
        Ok(())
    }

    fn entry(&mut self, line: &str) -> Result<(), Problem> {
        let open = self.open.as_mut().ok_or(Problem::Stray)?;
        let mut words = line.split_ascii_whitespace();
        let lid = lid(words.next().unwrap_or(""))?;
        let port = words.next().unwrap_or("");
        let port = port.parse().map(PortNum).map_err(|_| Problem::Port(port.to_owned()))?;
        open.entries += 1;
        if port == PortNum::NONE {
            return Ok(());
        }
        let node = self.topology.node(open.switch);
        if port.0 > node.ports {
            let (name, ports) = (node.name.to_string(), node.ports);
            return Err(Problem::PortBeyond { name, ports, port });
        }
        if let Some((_, table)) = &mut self.tables[open.switch.index()] {
            if table.get(lid) != PortNum::NONE {
                return Err(Problem::LidTwice(lid));
            }
            table.set(lid, port);
        }
        Ok(())
    }

    /// `4 valid lids dumped` counts entries; `4 lids dumped` is OpenSM's highest LID, or a count of all.
    fn end(&mut self, line: &str) -> Result<(), Problem> {
        let open = self.open.take().ok_or(Problem::Stray)?;
        let Some(declared) = line.strip_suffix("valid lids dumped").map(str::trim) else {
            return Ok(());
        };
        if declared.parse() != Ok(open.entries) {
            return Err(Problem::Count { found: open.entries, declared: declared.to_owned() });
        }
        let table = self.tables[open.switch.index()].as_ref();
        let has = table.is_some_and(|(_, table)| table.get(open.top) != PortNum::NONE);
        if !has && open.top != Lid::NONE && open.top.index().is_multiple_of(BLOCK) {
            self.cut_short.push(open.switch);
        }
        Ok(())
    }

    fn complete(self) -> Result<Vec<ForwardingTable>, Problem> {
        self.check_closed()?;
        if self.tables.iter().all(Option::is_none) {
            return Err(Problem::Empty);
        }
        let switches = self.topology.switches().map(|switch| self.topology.node(switch));
        let table = |(table, switch): (Option<(usize, ForwardingTable)>, &crate::Node)| {
            let missing = || Problem::NoTable { name: switch.name.to_string(), guid: switch.guid };
            table.map(|(_, table)| table).ok_or_else(missing)
        };
        self.tables.into_iter().zip(switches).map(table).collect()
    }

    fn check_closed(&self) -> Result<(), Problem> {
        match &self.open {
            Some(open) => Err(Problem::Unfinished(self.name(open.switch))),
            None => Ok(()),
        }
    }

    fn name(&self, switch: NodeIndex) -> String {
        self.topology.node(switch).name.to_string()
    }
}

/// The end of `[0x0-0x1b]` or `[0-27]`.
fn top(line: &str) -> Result<Lid, Problem> {
    let range = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let end = range.and_then(|(range, _)| range.split_once('-')).map_or("", |(_, end)| end);
    let value = match end.strip_prefix("0x") {
        Some(_) => return lid(end),
        None => end.parse().ok().map(Lid).filter(|&lid| lid <= Lid::MAX_UNICAST),
    };
    value.ok_or_else(|| Problem::Lid(end.to_owned()))
}

fn lid(word: &str) -> Result<Lid, Problem> {
    let digits = word.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
    let value = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).map(Lid);
    let lid = value.filter(|&lid| lid <= Lid::MAX_UNICAST);
    lid.ok_or_else(|| Problem::Lid(word.to_owned()))
}

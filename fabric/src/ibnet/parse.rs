//! Text to [`Topology`]: every line understood, both ends of every cable in agreement.

use std::collections::BTreeMap;

use super::line::{Attribute, Header, Line, PortLine, classify, clip};
use crate::mistaken;
use crate::topology::{Handle, TopologyBuilder, TopologyError};
use crate::{Guid, NodeKind, PortNum, Topology};

/// The longest line looked at, in bytes; ibnetdiscover's are under 300.
const MAX_LINE: usize = 4096;

/// What is wrong with the text, and on which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// The error.
    pub problem: Problem,
}

/// The error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A NUL byte or an over-long line: not a text file.
    #[error("this is no ibnetdiscover text (binary data)")]
    Binary,
    /// No node in the whole text.
    #[error("no node found (expected the output of ibnetdiscover)")]
    Empty,
    /// No known kind of line.
    #[error("not understood: `{0}`")]
    Unknown(String),
    /// A part that has to be there.
    #[error("no {0} in `{1}`")]
    Missing(&'static str, String),
    /// A value out of range or of the wrong form.
    #[error("bad {key} `{value}`")]
    BadValue {
        /// Whose value.
        key: String,
        /// The value.
        value: String,
    },
    /// A port line before any node header.
    #[error("port line outside a node's record")]
    Stray,
    /// Two records for one node name.
    #[error("node `{name}` appears twice (first on line {first})")]
    DuplicateNode {
        /// The quoted name.
        name: String,
        /// Where it was first.
        first: usize,
    },
    /// A port listed twice.
    #[error("port {port} of `{name}` is listed twice (first on line {first})")]
    DuplicatePort {
        /// The node's quoted name.
        name: String,
        /// The port.
        port: PortNum,
        /// Where it was first.
        first: usize,
    },
    /// The output of another command, or of another option.
    #[error(
        "this is {0}; what is read is what `ibnetdiscover` prints without options (`ibnetdiscover > FILE`), or \
         an ibsim netlist"
    )]
    Mistaken(&'static str),
    /// A message of the tool's among what it found.
    #[error(
        "`{0:.80}` is a message of a tool, not what it found: keep stderr apart (`ibnetdiscover > FILE \
         2> ERRORS`), and see whether the fabric was found as a whole"
    )]
    Message(String),
    /// The other end's node has no record.
    #[error("peer `{0}` has no record in this file (is it truncated?)")]
    NoSuchPeer(String),
    /// The other end is not what this end says.
    #[error("ends disagree: {here} is cabled to {there}, but {there} {says}")]
    EndsDisagree {
        /// This end, `name/port`.
        here: String,
        /// The end that is named here.
        there: String,
        /// What the other end says instead.
        says: String,
    },
    /// Anything the topology itself refuses.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// Reads the text of `ibnetdiscover` or an ibsim netlist.
///
/// Nodes without a GUID line get the GUID in their name (`S-<hex>`), else one counted up from the bases
/// ibsim uses, so that both read the same fabric from the same file.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &[u8]) -> Result<Topology, ParseError> {
    let mut reader = Reader::default();
    let mut number = 0;
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        number = index + 1;
        let at = |problem| ParseError { line: number, problem };
        if line.len() > MAX_LINE || line.contains(&0) {
            return Err(at(Problem::Binary));
        }
        reader.line(number, &String::from_utf8_lossy(line)).map_err(at)?;
    }
    if reader.builder.is_empty() {
        return Err(ParseError { line: number, problem: Problem::Empty });
    }
    reader.finish()
}

/// One end of a cable as its own node's record lists it.
struct End {
    line: usize,
    peer: String,
    peer_port: u64,
    peer_guid: Option<Guid>,
    guid: Option<Guid>,
}

#[derive(Default)]
struct Pending {
    vendor: u32,
    device: u32,
    system_image: Guid,
    guid: Option<Guid>,
}

#[derive(Default)]
struct Reader {
    builder: TopologyBuilder,
    pending: Pending,
    nodes: BTreeMap<String, (Handle, usize)>,
    names: Vec<(String, NodeKind, usize)>,
    ends: BTreeMap<(Handle, PortNum), End>,
    current: Option<Handle>,
    automatic: AutomaticGuids,
}

impl Reader {
    fn line(&mut self, number: usize, text: &str) -> Result<(), Problem> {
        let line = classify(text).map_err(|problem| match mistaken::output_of(text) {
            _ if mistaken::is_message(text) => Problem::Message(text.trim().to_owned()),
            Some(output) => Problem::Mistaken(output),
            None => problem,
        });
        match line? {
            // A blank line ends a record, a comment does not.
            Line::Blank if text.trim().is_empty() => self.current = None,
            Line::Blank => {}
            Line::Attribute(attribute) => self.attribute(attribute),
            Line::Header(header) => self.header(number, &header)?,
            Line::Port(port) => self.port(number, &port)?,
        }
        Ok(())
    }

    fn attribute(&mut self, attribute: Attribute) {
        match attribute {
            Attribute::Vendor(vendor) => self.pending.vendor = vendor,
            Attribute::Device(device) => self.pending.device = device,
            Attribute::SystemImage(guid) => self.pending.system_image = guid,
            Attribute::Node(guid) => self.pending.guid = Some(guid),
        }
    }

    fn header(&mut self, number: usize, header: &Header<'_>) -> Result<(), Problem> {
        if let Some((_, first)) = self.nodes.get(header.id) {
            return Err(Problem::DuplicateNode { name: header.id.to_owned(), first: *first });
        }
        let pending = std::mem::take(&mut self.pending);
        let automatic = self.automatic.next(header);
        let guid = pending.guid.or_else(|| guid_in_name(header.id)).unwrap_or(automatic);
        let name = header.description.unwrap_or(header.id);
        let handle = self.builder.add(header.kind, guid, header.ports, name)?;
        let node = self.builder.node_mut(handle);
        node.system_image = pending.system_image;
        node.vendor = pending.vendor;
        node.device = pending.device;
        node.enhanced_port0 = header.kind == NodeKind::Switch && header.enhanced_port0;
        if let (NodeKind::Switch, Some((lid, lmc))) = (header.kind, header.address) {
            self.builder.set_address(handle, PortNum::ZERO, lid, lmc)?;
        }
        self.nodes.insert(header.id.to_owned(), (handle, number));
        self.names.push((header.id.to_owned(), header.kind, number));
        self.current = Some(handle);
        Ok(())
    }

    fn port(&mut self, number: usize, port: &PortLine<'_>) -> Result<(), Problem> {
        let handle = self.current.ok_or(Problem::Stray)?;
        let num = self.builder.check_port(handle, port.port)?;
        let (name, kind, _) = &self.names[handle.index()];
        if num == PortNum::ZERO {
            let (key, value) = ("port number".to_owned(), clip(&format!("{name}/0")));
            return Err(Problem::BadValue { key, value });
        }
        if let Some(end) = self.ends.get(&(handle, num)) {
            let (name, first) = (name.clone(), end.line);
            return Err(Problem::DuplicatePort { name, port: num, first });
        }
        if *kind != NodeKind::Switch {
            if let Some(guid) = port.guid {
                self.builder.set_port_guid(handle, num, guid)?;
            }
            if let Some((lid, lmc)) = port.address {
                self.builder.set_address(handle, num, lid, lmc)?;
            }
        }
        if let Some(rate) = port.rate {
            self.builder.set_rate(handle, num, rate)?;
        }
        let end = End {
            line: number,
            peer: port.peer.to_owned(),
            peer_port: port.peer_port,
            peer_guid: port.peer_guid,
            guid: port.guid,
        };
        self.ends.insert((handle, num), end);
        Ok(())
    }

    fn finish(mut self) -> Result<Topology, ParseError> {
        for (&(handle, num), end) in &self.ends {
            let at = |problem| ParseError { line: end.line, problem };
            let peer = self.match_ends(handle, num, end).map_err(at)?;
            // Each cable is seen from both ends; join it once. A loopback plug has one end.
            if (handle, num) <= peer {
                self.builder.cable((handle, num), peer).map_err(|e| at(e.into()))?;
            }
        }
        let headers: Vec<usize> = self.names.iter().map(|(_, _, line)| *line).collect();
        self.builder.build().map_err(|error| {
            // What only shows in the whole is blamed on the last record.
            let line = headers.last().copied().unwrap_or(1);
            ParseError { line, problem: error.into() }
        })
    }

    /// The other end of what `end` lists, if the two agree.
    fn match_ends(
        &self,
        handle: Handle,
        num: PortNum,
        end: &End,
    ) -> Result<(Handle, PortNum), Problem> {
        let Some(&(peer, _)) = self.nodes.get(&end.peer) else {
            return Err(Problem::NoSuchPeer(clip(&end.peer)));
        };
        let peer_num = self.builder.check_port(peer, end.peer_port)?;
        let name = |handle: Handle| self.names[handle.index()].0.as_str();
        let disagree = |says: String| {
            Err(Problem::EndsDisagree {
                here: format!("{}/{num}", name(handle)),
                there: format!("{}/{peer_num}", name(peer)),
                says,
            })
        };
        match self.ends.get(&(peer, peer_num)) {
            None => disagree("lists no cable".to_owned()),
            Some(back) if back.peer != name(handle) || back.peer_port != u64::from(num.0) => {
                disagree(format!("lists {}/{} (line {})", back.peer, back.peer_port, back.line))
            }
            Some(back) => match (end.peer_guid, back.guid) {
                (Some(here), Some(there)) if here != there => {
                    disagree(format!("has port GUID {there}, not {here} (line {})", back.line))
                }
                _ => Ok((peer, peer_num)),
            },
        }
    }
}

/// `S-<16 hex>`, `H-<16 hex>`, `R-<16 hex>`: ibnetdiscover's node names hold the GUID.
fn guid_in_name(id: &str) -> Option<Guid> {
    let hex = ["S-", "H-", "R-"].iter().find_map(|prefix| id.strip_prefix(prefix))?;
    if hex.len() == 16 { hex.parse().ok() } else { None }
}

/// The GUIDs ibsim gives nodes that bring none: switches one each, others one a port and one more.
struct AutomaticGuids {
    switch: u64,
    adapter: u64,
    router: u64,
}

impl Default for AutomaticGuids {
    fn default() -> Self {
        Self { switch: 0x20_0000, adapter: 0x10_0000, router: 0xf_0000 }
    }
}

impl AutomaticGuids {
    fn next(&mut self, header: &Header<'_>) -> Guid {
        let (base, used) = match header.kind {
            NodeKind::Switch => (&mut self.switch, 1),
            NodeKind::Adapter => (&mut self.adapter, header.ports.saturating_add(1)),
            NodeKind::Router => (&mut self.router, header.ports.saturating_add(1)),
        };
        let guid = Guid(*base);
        *base = base.saturating_add(used);
        guid
    }
}

#[cfg(test)]
mod tests;

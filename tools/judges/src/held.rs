//! The state that ibsim holds, by its own account (`Dump` on its console): cables, states, addresses and tables.

use std::collections::BTreeMap;

use crate::{JudgeError, Simulator};

/// A node as it is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HeldNode {
    /// Whether it is a switch.
    pub switch: bool,
    /// Its ports by number, 0 of switches only.
    pub ports: BTreeMap<u8, HeldPort>,
    /// Out ports by LID up to its LinearFDBTop, 0xFF where nothing is forwarded; empty but for switches.
    pub table: Vec<u8>,
}

/// A port as it is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HeldPort {
    /// What its cable leads to: the node's name in the netlist, and its port.
    pub peer: Option<(String, u8)>,
    /// First address, address bits and the manager's address, where ibsim keeps any: not on the external
    /// ports of switches.
    pub address: Option<(u16, u8, u16)>,
    /// `Down`, `Init`, `Armed` or `Active`.
    pub state: String,
}

impl Simulator {
    /// All nodes by their names in the netlist.
    ///
    /// # Errors
    /// When the console does not answer.
    pub fn held(&self) -> Result<BTreeMap<String, HeldNode>, JudgeError> {
        parse(&self.console_dump()?)
            .map_err(|line| JudgeError::Incomplete { program: "ibsim", why: line.to_owned() })
    }
}

/// Every node, or the first line that is none.
fn parse(said: &str) -> Result<BTreeMap<String, HeldNode>, &str> {
    let mut nodes = BTreeMap::new();
    let mut open: Option<(String, HeldNode)> = None;
    for line in said.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        let understood = if let Some((name, switch)) = node(line) {
            nodes.extend(open.replace((name, HeldNode { switch, ..HeldNode::default() })));
            Some(())
        } else if let Some(comment) = line.strip_prefix('#') {
            match comment.trim_start().strip_prefix("Forwarding table ") {
                Some(rest) => open.as_mut().and_then(|(_, node)| entries(rest, &mut node.table)),
                None => Some(()),
            }
        } else {
            // What comes before the first node is what it said when it was started.
            match &mut open {
                Some((_, node)) => port(line).map(|(num, port)| drop(node.ports.insert(num, port))),
                None => Some(()),
            }
        };
        understood.ok_or(line)?;
    }
    nodes.extend(open);
    Ok(nodes)
}

/// `Switch 4 "S-1" nodeguid 200000 sysimgguid 200000`.
fn node(line: &str) -> Option<(String, bool)> {
    let (kind, rest) = line.split_once(' ')?;
    let switch = match kind {
        "Switch" => true,
        "Ca" | "Router" => false,
        _ => return None,
    };
    let (_, rest) = rest.split_once('"')?;
    Some((rest.split_once('"')?.0.to_owned(), switch))
}

/// `16-31: [16]13 [17]FF ...`: LIDs in decimal, ports in hexadecimal.
fn entries(line: &str, table: &mut Vec<u8>) -> Option<()> {
    for entry in line.split_once(": ")?.1.split_ascii_whitespace() {
        let (lid, out) = entry.strip_prefix('[')?.split_once(']')?;
        let lid: usize = lid.parse().ok()?;
        if table.len() <= lid {
            table.resize(lid + 1, 0xFF);
        }
        table[lid] = u8::from_str_radix(out, 16).ok()?;
    }
    Some(())
}

/// `200000 [1] "H-1"[1]  lid 2 lmc 0 smlid 1  4x  2.5G Active/LinkUp`.
fn port(line: &str) -> Option<(u8, HeldPort)> {
    // What follows is what is lost of what is asked of it.
    let line = line.split_once("\t#").map_or(line, |(line, _)| line);
    let (_, rest) = line.split_once('[')?;
    let (num, rest) = rest.split_once(']')?;
    let peer = match rest.split_once('"') {
        None => None,
        Some((_, named)) => {
            let (name, rest) = named.split_once("\"[")?;
            let (num, _) = rest.split_once(']')?;
            // Port 0 leads into the switch.
            Some((name.to_owned(), num.parse().ok()?)).filter(|_| name != "Sma Port")
        }
    };
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let after = |word| words.iter().position(|&w| w == word).and_then(|at| words.get(at + 1));
    let address = match (after("lid"), after("lmc"), after("smlid")) {
        (Some(lid), Some(lmc), Some(manager)) => {
            Some((lid.parse().ok()?, lmc.parse().ok()?, manager.parse().ok()?))
        }
        _ => None,
    };
    let (state, _) = words.last()?.split_once('/')?;
    Some((num.parse().ok()?, HeldPort { peer, address, state: state.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_dump_is_read() {
        let said = "parsing: netlist\n# Net status - Sat Nov 21 14:22:52 2026\n\n\
                    Switch 3 \"S-1\"\tnodeguid 200000\tsysimgguid 200000\n\
                    #\tlinearcap 30720 FDBtop 17 portchange 1\n\
                    #\tForwarding table 0-15: [0]FF [1]1 [2]0\n\
                    #\tForwarding table 16-17: [16]FF [17]1A\n\
                    200000\t[0]\t\"Sma Port\"[0]\t lid 2 lmc 0 smlid 1  4x  2.5G Active/LinkUp\n\
                    200000\t[1]\t\"H-1\"[2]\t  4x  2.5G Init/LinkUp\t# err_rate 1\n\
                    200000\t[2]\t\t\t  4x  2.5G Down/Polling\n\n\
                    Ca 2 \"H-1\"\tnodeguid 100000\tsysimgguid 100000\n\
                    100002\t[2]\t\"S-1\"[1]\t lid 16 lmc 4 smlid 1  4x  2.5G Armed/LinkUp\n\
                    #  dumped 2 nodes\n";
        let nodes = parse(said).unwrap();
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["H-1", "S-1"]);
        let HeldNode { switch, ports, table } = &nodes["S-1"];
        assert!(*switch && !nodes["H-1"].switch);
        assert_eq!((table.len(), table[1], table[2], table[15], table[17]), (18, 1, 0, 0xFF, 0x1A));
        let port = |peer: Option<(&str, u8)>, address, state: &str| {
            let peer = peer.map(|(name, num)| (name.to_owned(), num));
            HeldPort { peer, address, state: state.to_owned() }
        };
        assert_eq!(ports[&0], port(None, Some((2, 0, 1)), "Active"));
        assert_eq!(ports[&1], port(Some(("H-1", 2)), None, "Init"));
        assert_eq!(ports[&2], port(None, None, "Down"));
        assert_eq!(nodes["H-1"].ports[&2], port(Some(("S-1", 1)), Some((16, 4, 1)), "Armed"));
        assert_eq!(parse("hello\n"), Ok(BTreeMap::new()));
        assert_eq!(parse(&format!("{said}nonsense\n")), Err("nonsense"));
    }
}

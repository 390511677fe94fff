//! Forwarding tables as text, one block a switch, in either of the two forms in use.
//!
//! `dump_fts`, `dump_lfts.sh` and `ibroute`:
//!
//! ```text
//! Unicast lids [0x0-0x1b] of switch Lid 8 guid 0x0000000000200001 (leaf1):
//!   Lid  Out   Destination
//!        Port     Info
//! 0x0001 005 : (Switch portguid 0x0000000000200000: 'leaf0')
//! 0x0004 005 : (Channel Adapter portguid 0x0000000000100001: 'host0')
//! 0x0005 006 : (path #2 out of 4: portguid 0x0000000000100001)
//! 3 valid lids dumped
//! ```
//!
//! OpenSM's `opensm-lfts.dump`, which `opensm -R file -U FILE` loads:
//!
//! ```text
//! Unicast lids [0-27] of switch Lid 8 guid 0x0000000000200001 ('leaf1'):
//! 0x0001 005 # Switch portguid 0x0000000000200000: 'leaf0'
//! 0x0005 006 # Channel Adapter portguid 0x0000000000100001: 'host0'
//! 27 lids dumped
//! ```

mod parse;

use std::fmt::Write as _;

pub use parse::{Problem, Reader, parse};

use crate::{Addresses, ForwardingTable, Lid, Node, NodeKind, Topology};

/// Which of the two forms to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    DumpFts,
    OpenSm,
}

/// All tables as `dump_fts` prints them, a text a switch, by switch. What is not forwarded is left out.
///
/// Texts come one by one because all together take gigabytes on a large fabric.
pub fn dump_fts<'a>(
    topology: &'a Topology,
    addresses: &'a Addresses,
    tables: &'a [ForwardingTable],
) -> impl Iterator<Item = String> + 'a {
    write(topology, addresses, tables, Form::DumpFts)
}

/// All tables as OpenSM dumps and loads them, a text a switch, by switch. What is not forwarded is left
/// out.
pub fn opensm<'a>(
    topology: &'a Topology,
    addresses: &'a Addresses,
    tables: &'a [ForwardingTable],
) -> impl Iterator<Item = String> + 'a {
    write(topology, addresses, tables, Form::OpenSm)
}

fn write<'a>(
    topology: &'a Topology,
    addresses: &'a Addresses,
    tables: &'a [ForwardingTable],
    form: Form,
) -> impl Iterator<Item = String> + 'a {
    let top = tables.iter().map(ForwardingTable::len).max().unwrap_or(0);
    // All that differs from switch to switch is the port.
    let lines: Vec<Line> = (0..top as u16)
        .map(|lid| Line {
            lid: format!("0x{lid:04x} "),
            destination: destination(topology, addresses, Lid(lid), form),
        })
        .collect();
    topology.switches().zip(tables).map(move |(switch, table)| {
        let lid = addresses.base(topology.port0(switch)).unwrap_or(Lid::NONE);
        block(topology.node(switch), lid, table, &lines, form)
    })
}

/// An entry's line, around the port.
struct Line {
    lid: String,
    destination: String,
}

// Writing to a String cannot fail.
fn block(node: &Node, lid: Lid, table: &ForwardingTable, lines: &[Line], form: Form) -> String {
    let mut text = String::with_capacity(table.len() * 76 + 256);
    let top = table.len().saturating_sub(1);
    let (guid, name) = (node.guid, &node.name);
    let _ = match form {
        Form::DumpFts => write!(
            text,
            "Unicast lids [0x0-0x{top:x}] of switch Lid {lid} guid {guid} ({name}):\n  \
             Lid  Out   Destination\n       Port     Info \n"
        ),
        Form::OpenSm => {
            writeln!(text, "Unicast lids [0-{top}] of switch Lid {lid} guid {guid} ('{name}'):")
        }
    };
    let ports: Vec<String> = (0..=u8::MAX).map(|port| format!("{port:03} ")).collect();
    let mut count = 0;
    for (lid, port) in table.iter() {
        let line = &lines[lid.index()];
        text.push_str(&line.lid);
        text.push_str(&ports[port.index()]);
        text.push_str(&line.destination);
        count += 1;
    }
    let _ = match form {
        Form::DumpFts => writeln!(text, "{count} valid lids dumped "),
        // OpenSM counts every LID up to the top, forwarded or not.
        Form::OpenSm => writeln!(text, "{top} lids dumped"),
    };
    text
}

/// The port that answers to `lid`. OpenSM takes a LID that the GUID does not have for that port's first.
fn destination(topology: &Topology, addresses: &Addresses, lid: Lid, form: Form) -> String {
    let Some((index, offset)) = addresses.owner(lid) else {
        return match form {
            Form::DumpFts => ": (unknown node and type)\n".to_owned(),
            Form::OpenSm => "# unknown node and type\n".to_owned(),
        };
    };
    let port = topology.port(index);
    let node = topology.node(port.node);
    let kind = match node.kind {
        NodeKind::Switch => "Switch",
        NodeKind::Adapter => "Channel Adapter",
        NodeKind::Router => "Router",
    };
    let (guid, name) = (port.guid, &node.name);
    match form {
        Form::OpenSm => format!("# {kind} portguid {guid}: '{name}'\n"),
        Form::DumpFts if offset == 0 => format!(": ({kind} portguid {guid}: '{name}')\n"),
        Form::DumpFts => {
            let of = addresses.lmc(index).addresses();
            format!(": (path #{} out of {of}: portguid {guid})\n", offset + 1)
        }
    }
}

#[cfg(test)]
mod tests;

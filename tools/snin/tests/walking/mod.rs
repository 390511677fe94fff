//! A walker of tables that shares nothing with what it judges: it reads what infiniband-diags print.

use std::collections::BTreeMap;

/// A switch's GUID and a port of it.
pub(crate) type End = (u64, u8);

/// The cables and tables, read from the tools' texts line by line.
pub(crate) struct Walker {
    /// What a switch port is cabled to: another switch's port, or with a port GUID a host.
    pub(crate) cables: BTreeMap<End, Result<End, u64>>,
    /// By switch and LID.
    tables: BTreeMap<(u64, u16), u8>,
    /// The switch port at which a host hangs, by port GUID.
    pub(crate) hosts: BTreeMap<u64, End>,
}

pub(crate) fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

impl Walker {
    pub(crate) fn read(topology: &str, tables: &str) -> Self {
        let mut walker =
            Self { cables: BTreeMap::new(), tables: BTreeMap::new(), hosts: BTreeMap::new() };
        let mut switch = None;
        for line in topology.lines() {
            if line.starts_with("Switch") {
                switch = Some(hex(line.split("\"S-").nth(1).unwrap().split('"').next().unwrap()));
            } else if line.starts_with("Ca") {
                switch = None;
            } else if let (Some(switch), true) = (switch, line.starts_with('[')) {
                // [1] "H-0002c90300000010"[1](2c90300000011)    or    [19] "S-0002..."[1]
                let mut parts =
                    line.split(['[', ']', '"', '(', ')']).filter(|part| !part.trim().is_empty());
                let port: u8 = parts.next().unwrap().parse().unwrap();
                let node = parts.next().unwrap();
                let far: u8 = parts.next().unwrap().parse().unwrap();
                let end = match node.split_once('-').unwrap() {
                    ("S", guid) => Ok((hex(guid), far)),
                    (_, _) => Err(hex(parts.next().unwrap())),
                };
                if let Err(host) = end {
                    walker.hosts.insert(host, (switch, port));
                }
                walker.cables.insert((switch, port), end);
            }
        }
        let mut switch = 0;
        for line in tables.lines() {
            if line.starts_with("Unicast lids") {
                let rest = line.split("guid 0x").nth(1).unwrap();
                switch = hex(rest.split([' ', ')']).next().unwrap());
            } else if line.starts_with("0x") {
                let mut words = line.split_whitespace();
                let (lid, port) = (words.next().unwrap(), words.next().unwrap());
                if let Ok(port) = port.parse() {
                    walker.tables.insert((switch, hex(lid) as u16), port);
                }
            }
        }
        walker
    }

    /// The directed links between switches that a packet takes, as the ports that send on them; none where it does
    /// not arrive at `to`.
    pub(crate) fn links(&self, from: u64, to: u64, lid: u16) -> Option<Vec<End>> {
        let mut links = Vec::new();
        let (mut at, _) = self.hosts[&from];
        for _ in 0..16 {
            let end = (at, *self.tables.get(&(at, lid))?);
            match self.cables.get(&end)? {
                Err(host) => return (*host == to).then_some(links),
                Ok((next, _)) => {
                    links.push(end);
                    at = *next;
                }
            }
        }
        None
    }
}

use super::*;
use crate::generate::Recipe;
use crate::{Lmc, PortNum};

/// Two leaves of two hosts, two spines: leaf0 and leaf1 are switches 0 and 1.
fn fabric() -> Topology {
    "clos:2,2,2".parse::<Recipe>().unwrap().build().unwrap()
}

/// LIDs 1 to 4 for the switches, four from 8, 12, 16, 20 for the hosts; tables of leaf0 and no others.
fn tables(topology: &Topology) -> (Addresses, Vec<ForwardingTable>) {
    let mut addresses = Addresses::none(topology.port_count());
    for node in topology.nodes() {
        let number = node.0 as u16;
        let (port, base, lmc) = if topology.is_switch(node) {
            (topology.port0(node), number + 1, 0)
        } else {
            (topology.port_of(node, PortNum(1)).unwrap(), 4 * number - 8, 2)
        };
        addresses.assign(port, Lid(base), Lmc::new(lmc).unwrap()).unwrap();
    }
    let mut tables = vec![ForwardingTable::up_to(addresses.top()); 4];
    for (lid, port) in [(1, 0), (2, 3), (8, 1), (9, 1), (10, 1), (16, 3), (17, 4)] {
        tables[0].set(Lid(lid), PortNum(port));
    }
    (addresses, tables)
}

#[test]
fn the_forms_are_those_of_the_tools() {
    let topology = fabric();
    let (addresses, mut tables) = tables(&topology);
    tables[0].set(Lid(5), PortNum(2));
    let text: String = dump_fts(&topology, &addresses, &tables).collect();
    let expected = "\
Unicast lids [0x0-0x17] of switch Lid 1 guid 0x0200010000000000 (leaf0):
  Lid  Out   Destination
       Port     Info \n\
0x0001 000 : (Switch portguid 0x0200010000000000: 'leaf0')
0x0002 003 : (Switch portguid 0x0200010000000100: 'leaf1')
0x0005 002 : (unknown node and type)
0x0008 001 : (Channel Adapter portguid 0x0200100000000001: 'host0')
0x0009 001 : (path #2 out of 4: portguid 0x0200100000000001)
0x000a 001 : (path #3 out of 4: portguid 0x0200100000000001)
0x0010 003 : (Channel Adapter portguid 0x0200100000000201: 'host2')
0x0011 004 : (path #2 out of 4: portguid 0x0200100000000201)
8 valid lids dumped \nUnicast lids [0x0-0x17] of switch Lid 2 guid ";
    assert!(text.starts_with(expected), "{text}");
    let text: String = opensm(&topology, &addresses, &tables).collect();
    let expected = "\
Unicast lids [0-23] of switch Lid 1 guid 0x0200010000000000 ('leaf0'):
0x0001 000 # Switch portguid 0x0200010000000000: 'leaf0'
0x0002 003 # Switch portguid 0x0200010000000100: 'leaf1'
0x0005 002 # unknown node and type
0x0008 001 # Channel Adapter portguid 0x0200100000000001: 'host0'
0x0009 001 # Channel Adapter portguid 0x0200100000000001: 'host0'
0x000a 001 # Channel Adapter portguid 0x0200100000000001: 'host0'
0x0010 003 # Channel Adapter portguid 0x0200100000000201: 'host2'
0x0011 004 # Channel Adapter portguid 0x0200100000000201: 'host2'
23 lids dumped
Unicast lids [0-23] of switch Lid 2 guid ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn what_is_written_is_read() {
    let topology = fabric();
    let (addresses, tables) = tables(&topology);
    for form in [Form::DumpFts, Form::OpenSm] {
        let text: String = write(&topology, &addresses, &tables, form).collect();
        assert_eq!(parse(text.as_bytes(), &topology).as_ref(), Ok(&tables), "{text}");
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(parse(crlf.as_bytes(), &topology).as_ref(), Ok(&tables));
    }
}

#[test]
fn unforwarded_entries_direct_routes_and_strange_names_are_read() {
    let topology = fabric();
    let mut text = String::new();
    for switch in topology.switches() {
        let guid = topology.node(switch).guid;
        text += &format!(
            "Unicast lids [0x0-0x4] of switch DR path slid 0; dlid 0; 0,5,2 guid {guid} (a guid 0x5 \
             (b)):\n0x0001 000 \n0x0002 255 : (x)\n2 valid lids dumped \n"
        );
    }
    let mut expected = ForwardingTable::up_to(Lid(4));
    expected.set(Lid(1), PortNum(0));
    assert_eq!(parse(text.as_bytes(), &topology), Ok(vec![expected; 4]));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let head = "Unicast lids [0-9] of switch Lid 1 guid 0x0200010000000000 ('leaf0'):\n";
    let cases = [
        ("", "1: no table found (expected the output of dump_fts, or OpenSM's opensm-lfts.dump)"),
        ("\n\x7fELF\0", "2: this is no dump of forwarding tables (binary data)"),
        ("x\n", "1: not understood: `x`"),
        (
            "Multicast mlids [0xc000-0xc3ff]\n",
            "1: this is a dump of multicast tables; what is read is the output of `dump_fts`, `dump_lfts.sh` or \
             `ibroute`, or OpenSM's opensm-lfts.dump",
        ),
        ("0x0001 001\n", "1: entry outside a table"),
        ("2 lids dumped\n", "1: entry outside a table"),
        ("Unicast lids [0-9]\n", "1: no switch GUID in `Unicast lids [0-9]`"),
        (
            "Unicast lids [0-9] guid 0xg:\n",
            "1: `0xg:` is no GUID (expected 0x and up to 16 hex digits)",
        ),
        ("Unicast lids [0-9] guid 0x7 \n", "1: switch 0x0000000000000007 is not in the topology"),
        (
            "Unicast lids [0-70000] guid 0x0200010000000000 \n",
            "1: `70000` is no unicast LID (expected 0x0 to 0xbfff)",
        ),
        ("HEAD0xc000 001\n", "2: `0xc000` is no unicast LID (expected 0x0 to 0xbfff)"),
        ("HEAD0x1z 001\n", "2: `0x1z` is no unicast LID (expected 0x0 to 0xbfff)"),
        ("HEAD0x0001\n", "2: `` is no port (expected 0 to 255)"),
        ("HEAD0x0001 256\n", "2: `256` is no port (expected 0 to 255)"),
        ("HEAD\n0x0001 5 #\n", "3: port 5 is beyond the 4 ports of `leaf0`"),
        ("HEAD0x1 1\n0x0001 2\n", "3: LID 0x0001 has two entries"),
        (
            "HEAD0x1 1\n2 valid lids dumped\n",
            "3: 1 entries, but the table declares 2 (is something missing?)",
        ),
        ("HEAD0x1 1\n", "3: the table of `leaf0` has no end (is the file truncated?)"),
        ("HEADHEAD", "2: the table of `leaf0` has no end (is the file truncated?)"),
        ("HEAD9 lids dumped\nHEAD", "3: switch `leaf0` has two tables (first on line 1)"),
        ("HEAD9 lids dumped\n", "3: no table for switch `leaf1` (0x0200010000000100)"),
    ];
    for (text, told) in cases {
        let text = text.replace("HEAD", head);
        let error = parse(text.as_bytes(), &fabric()).unwrap_err();
        assert_eq!(error.to_string(), told, "{text}");
    }
}

#[test]
fn no_part_is_taken_for_the_whole() {
    let topology = fabric();
    let (addresses, tables) = tables(&topology);
    let texts: [String; 2] = [
        dump_fts(&topology, &addresses, &tables).collect(),
        opensm(&topology, &addresses, &tables).collect(),
    ];
    for text in texts {
        let text = text.trim_end().as_bytes();
        assert!((0..text.len()).all(|end| parse(&text[..end], &topology).is_err()));
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(at in 0_usize..1600, byte: u8, noise in "[ -~\n]{0,20}") {
        let topology = fabric();
        let (addresses, tables) = tables(&topology);
        let text: String = dump_fts(&topology, &addresses, &tables).collect();
        let mut text = text.into_bytes();
        let at = at.min(text.len() - 1);
        text[at] = byte;
        text.splice(at..at, noise.into_bytes());
        let _ = parse(&text, &topology);
        let _ = crate::dump::guid2lid::parse(&text, &topology);
        let _ = crate::traffic::parse(&text, &crate::names::HostNames::default());
    }
}

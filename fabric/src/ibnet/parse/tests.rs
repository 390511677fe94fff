use super::*;
use crate::generate::Recipe;
use crate::ibnet::write;

fn generated(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

fn message(text: &str) -> String {
    parse(text.as_bytes()).expect_err("should be refused").to_string()
}

#[test]
fn written_then_read_is_the_same_topology() {
    for recipe in ["clos:4,3,2,2", "clos:36,18,18", "fattree:4", "clos:1,1,1"] {
        let topology = generated(recipe);
        let text = write(&topology);
        assert_eq!(parse(text.as_bytes()).unwrap(), topology, "{recipe}");
        assert!(text.lines().all(|line| line.len() < 255), "ibsim's lines are at most 254 bytes");
    }
}

#[test]
fn records_in_any_order_give_the_same_topology() {
    let topology = generated("clos:4,3,2,2");
    let text = write(&topology);
    let mut records: Vec<&str> = text.split("\n\n").skip(1).collect();
    records.reverse();
    let reversed = records.join("\n\n") + "\n";
    assert_eq!(parse(reversed.as_bytes()).unwrap(), topology);
}

const NETLIST: &str = "\
# an ibsim netlist: no GUIDs, names of one's own
Switch 4 \"leaf0\"
[1] \"h0\"[1]
[3] \"spine0\"[1] w=2 s=7 e=4

Hca 1 \"h0\"
[1] \"leaf0\"[1]

Switch 4 \"spine0\"
[1] \"leaf0\"[3] w=2 s=7 e=4
";

#[test]
fn an_ibsim_netlist_gets_ibsims_guids() {
    let topology = parse(NETLIST.as_bytes()).unwrap();
    let guids: Vec<u64> = topology.nodes().map(|n| topology.node(n).guid.0).collect();
    assert_eq!(guids, [0x20_0000, 0x20_0001, 0x10_0000]);
    let host = topology.nodes().last().unwrap();
    assert_eq!(&*topology.node(host).name, "h0");
    let port = topology.port_of(host, PortNum(1)).unwrap();
    assert_eq!(topology.port(port).guid.0, 0x10_0001);
}

/// Not brought up yet: every port has the permissive LID, or none.
#[test]
fn ports_that_were_given_no_address_have_none() {
    for lid in ["65535", "0"] {
        let text = NETLIST
            .replace("\"leaf0\"\n", &format!("\"leaf0\" # \"leaf0\" base port 0 lid {lid} lmc 0\n"))
            .replace(
                "\"leaf0\"[1]\n",
                &format!("\"leaf0\"[1] # lid {lid} lmc 0 \"leaf0\" lid {lid}\n"),
            );
        let topology = parse(text.as_bytes()).unwrap();
        assert_eq!(topology.reported_addresses().unwrap().iter().count(), 0, "{text}");
    }
}

#[test]
fn every_truncation_is_noticed() {
    let text = write(&generated("clos:2,2,1"));
    // All that can go unnoticed is the last port line's comment.
    let last = text.rfind(']').unwrap();
    for end in text.find("\n[").unwrap() + 2..=last {
        assert!(parse(&text.as_bytes()[..end]).is_err(), "{:?}", &text[..end]);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_value() {
    assert_eq!(message(""), "1: no node found (expected the output of ibnetdiscover)");
    assert_eq!(message("a\0b"), "1: this is no ibnetdiscover text (binary data)");
    assert_eq!(message("\n[1] \"h0\"[1]"), "2: port line outside a node's record");
    let cases = [
        ("[1] \"h0\"[1]", "[9] \"h0\"[1]", "3: port 9 is beyond the 4 ports of `leaf0`"),
        ("Hca 1 \"h0\"", "Hca 1 \"spine0\"", "9: node `spine0` appears twice (first on line 6)"),
        (
            "[1] \"leaf0\"[1]",
            "[1] \"leaf0\"[2]",
            "3: ends disagree: leaf0/1 is cabled to h0/1, but h0/1 lists leaf0/2 (line 7)",
        ),
        (
            "[1] \"leaf0\"[1]\n",
            "",
            "3: ends disagree: leaf0/1 is cabled to h0/1, but h0/1 lists no cable",
        ),
        (
            "[1] \"h0\"[1]",
            "[1] \"h7\"[1]",
            "3: peer `h7` has no record in this file (is it truncated?)",
        ),
        (
            "[1] \"h0\"[1]",
            "[3] \"h0\"[1]",
            "4: port 3 of `leaf0` is listed twice (first on line 3)",
        ),
        ("Hca 1", "Hca 255", "6: node `h0` has 255 ports (1 to 254 are possible)"),
        (
            "Hca 1",
            "caguid=0x200000\nHca 1",
            "7: GUID 0x0000000000200000 belongs to both `leaf0` and `h0`",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(NETLIST.contains(from), "{from}");
        assert_eq!(message(&NETLIST.replacen(from, to, 1)), expected);
    }
}

#[test]
fn outputs_of_other_commands_are_named() {
    let read = "; what is read is what `ibnetdiscover` prints without options (`ibnetdiscover > FILE`), or an \
                ibsim netlist";
    let cases = [
        (
            "CA     5  1 0x0002c903000a0001 4x EDR - SW     1  3 0x0002c903000b0001 ( 'n1' - 's' )",
            "`ibnetdiscover -p`",
        ),
        (
            "SW     1 36 0x0002c903000b0001 4x ???                                    's'",
            "`ibnetdiscover -p`",
        ),
        ("Ca\t : 0x0002c903000a0001 ports 1 \"n1 mlx5_0\"", "`ibhosts`"),
        ("Switch\t : 0x0002c903000b0001 ports 36 \"s\" base port 0 lid 1 lmc 0", "`ibswitches`"),
        ("CA: n1 mlx5_0:", "`iblinkinfo`"),
        (
            "      0x0002c903000a0001 5 1[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>  1 3[  ] \"s\" ( )",
            "`iblinkinfo`",
        ),
        ("{ SW Ports:25 SystemGUID:0002c903000b0003 NodeGUID:0002c903000b0001", "ibdiagnet's .lst"),
        ("0x0002c903000a0001 0x0005 0x0005", "guid2lid"),
        (
            "Unicast lids [0x0-0x1b] of switch Lid 8 guid 0x0002c903000b0001 (s):",
            "forwarding tables",
        ),
        ("CA 'mlx5_0'", "`ibstat`"),
        ("NodeRecord dump:", "`saquery`"),
    ];
    for (line, named) in cases {
        let told = message(&format!("#\n{line}\n"));
        assert!(told.starts_with("2: this is ") && told.ends_with(read), "{told}");
        assert!(told.contains(named), "{told}");
    }
    let messages = [
        "ibwarn: [4711] mad_rpc_open_port: can't open UMAD port ((null):0)",
        "src/query_smp.c:196; umad (DR path slid 0; dlid 0; 0,1) bad status 110; Connection timed out",
        "/usr/sbin/ibnetdiscover: iberror: failed: discover failed",
    ];
    for line in messages {
        let told = message(&NETLIST.replacen("Hca 1", &format!("{line}\nHca 1"), 1));
        assert!(told.starts_with("6: `") && told.contains("keep stderr apart"), "{told}");
    }
}

#[test]
fn port_guids_are_held_against_each_other() {
    let text = write(&generated("clos:2,1,1"));
    let wrong = text.replacen("[1](200100000000001)", "[1](200100000000099)", 1);
    assert_ne!(text, wrong);
    assert!(message(&wrong).contains("has port GUID"), "{}", message(&wrong));
}

#[test]
fn no_mutation_panics() {
    use rand::{Rng, RngExt, SeedableRng};
    let text = write(&generated("clos:2,2,2"));
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    for _ in 0..5_000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..rng.random_range(1..4) {
            if bytes.is_empty() {
                break;
            }
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..3) {
                0 => bytes[at] = rng.next_u32() as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        let _ = parse(&bytes);
    }
}

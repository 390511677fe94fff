//! Several fabrics in one netlist.

/// A generated fabric's text with names and GUIDs of its own, to stand beside another: `name-` is put before
/// names, `digits` take the place of the four (0200) with which its GUIDs begin, and every switch has `free` ports
/// more.
pub fn beside(netlist: &str, name: &str, digits: &str, free: u8) -> String {
    let short = digits.trim_start_matches('0');
    let named = netlist.replace("# \"", &format!("# \"{name}-"));
    let named = named.replace("-0200", &format!("-{digits}"));
    let named =
        named.replace("=0x200", &format!("=0x{short}")).replace("(200", &format!("({short}"));
    let line = |line: &str| {
        let switch = line.strip_prefix("Switch\t").and_then(|rest| rest.split_once(' '));
        match switch.and_then(|(ports, rest)| Some((ports.parse::<u8>().ok()?, rest))) {
            Some((ports, rest)) => format!("Switch\t{} {rest}\n", ports + free),
            None => format!("{line}\n"),
        }
    };
    named.lines().map(line).collect()
}

/// One more cable, between two ports by their nodes' names in the netlist (`S-...`).
pub fn cabled(netlist: &str, one: (&str, u8), other: (&str, u8)) -> String {
    let line = |line: &str| {
        let ends = [(one, other), (other, one)];
        let begins =
            |node: &str| line.contains(&format!(" \"{node}\"")) && line.starts_with("Switch");
        let more = ends.iter().filter(|((node, _), _)| begins(node));
        let more = more.map(|((_, port), (peer, num))| {
            format!("[{port}]\t\"{peer}\"[{num}]\t\t# \"\" lid 0 4xNDR\n")
        });
        format!("{line}\n{}", more.collect::<String>())
    };
    netlist.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stand_in_one_netlist_and_are_cabled() {
        let text = "switchguid=0x200010000000000(200010000000000)\n\
                    Switch\t2 \"S-0200010000000000\"\t\t# \"leaf0\" base\n\
                    [1]\t\"H-0200100000000000\"[1](200100000000001) \t\t# \"host0\" lid 0 4xNDR\n";
        let other = beside(text, "south", "02a0", 1);
        let wanted = "switchguid=0x2a0010000000000(2a0010000000000)\n\
                      Switch\t3 \"S-02a0010000000000\"\t\t# \"south-leaf0\" base\n\
                      [1]\t\"H-02a0100000000000\"[1](2a0100000000001) \t\t# \"south-host0\" lid 0 4xNDR\n";
        assert_eq!(other, wanted);
        let both = cabled(
            &(text.to_owned() + &other),
            ("S-0200010000000000", 2),
            ("S-02a0010000000000", 3),
        );
        assert!(both.contains("base\n[2]\t\"S-02a0010000000000\"[3]\t"), "{both}");
        assert!(both.contains("base\n[3]\t\"S-0200010000000000\"[2]\t"), "{both}");
    }
}

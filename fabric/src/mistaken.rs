//! What tools print that is none of the texts read here: a wrong file is named by the command that made it.

/// Messages of the tools themselves, which go to stderr.
const MESSAGES: [&str; 5] = ["ibwarn: ", "ibpanic: ", "ibdebug: ", "iberror: ", "src/"];

/// Whether a line is a message of a diagnostic tool's and none of its output.
pub(crate) fn is_message(line: &str) -> bool {
    let line = line.trim_start();
    let of_tool = || line.split_once(": ").is_some_and(|(_, rest)| rest.starts_with("iberror: "));
    MESSAGES.iter().any(|message| line.starts_with(message)) || of_tool()
}

/// What a line belongs to, if that is known.
pub(crate) fn output_of(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| line.starts_with(prefix));
    let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
    let hex = |word: &&str| word.starts_with("0x");
    let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    match words[..] {
        ["SW" | "CA" | "RT", lid, port, guid] if number(lid) && number(port) && hex(&guid) => {
            Some("a list of links, as `ibnetdiscover -p` prints it")
        }
        ["Switch" | "Ca" | "Rt", ":", guid, ..] if hex(&guid) => {
            Some("a list of nodes, as `ibnetdiscover -l`, `ibhosts` and `ibswitches` print it")
        }
        ["{", "SW" | "CA" | "RT", ..] => {
            Some("a list of links, as ibdiagnet's .lst and opensm-subnet.lst are")
        }
        [guid, first, last] if [guid, first, last].iter().all(hex) => Some("OpenSM's guid2lid"),
        [lid, port, ":" | "#", ..] if hex(&lid) && number(port) => {
            Some("a dump of forwarding tables")
        }
        _ if starts(&["CA: ", "Switch: ", "RT: "]) || line.contains("==(") => {
            Some("the output of `iblinkinfo`")
        }
        _ if starts(&["Unicast lids "]) => Some("a dump of forwarding tables"),
        _ if starts(&["Multicast mlids "]) => Some("a dump of multicast tables"),
        _ if starts(&["CA '", "Infiniband device '"]) => {
            Some("the output of `ibstat` or `ibstatus`")
        }
        _ if line.trim_end().ends_with("Record dump:") => Some("the output of `saquery`"),
        _ if starts(&["vendid=", "sysimgguid=", "switchguid=", "caguid=", "Switch\t", "Ca\t"]) => {
            Some("the output of `ibnetdiscover`")
        }
        ["{" | "[" | "{}"] => Some("JSON"),
        _ => None,
    }
}

//! The expected configuration in the manner of OpenSM's own files: a line a thing, words between blanks.
//!
//! ```text
//! # what a port has to pass, as in opensm.conf
//! quality_ms 1000
//! # whose serial number it is: the unit's SystemImageGUID
//! unit MT2034X01234 0x0002c9030000000a
//! # a switch and its name, as in a node-name-map
//! 0x0002c90300a1b2c3 "leaf0"
//! # switch, port, state, and what is expected there, as in a hop-weights file
//! 0x0002c90300a1b2c3 1 test node_guid=0x0002c90300000001 port=1 width=4 speed=NDR
//! 0x0002c90300a1b2c3 2 enabled name="host 1 *"
//! 0x0002c90300a1b2c3 3 disabled
//! ```
//!
//! It says the same as the file in TOML, and is read by way of it: what is wrong is told with its line and value.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use snin_configuration::{Expected, Tests};
use snin_fabric::Guid;

use super::expected::{Units, keys, parse_toml, test_values};

/// Keys whose values are texts in TOML.
const TEXTS: [&str; 6] = ["port_guid", "node_guid", "system_guid", "serial", "name", "speed"];
/// Keys of a port; all others are its neighbour's.
const OF_PORT: [&str; 2] = ["width", "speed"];

/// Whether a text is of this form.
pub(super) fn is_lines(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let word = first.and_then(|line| line.split_once(char::is_whitespace));
    word.is_some_and(|(word, rest)| !word.starts_with('[') && !rest.trim_start().starts_with('='))
}

/// Reads the text of the file called `name`.
///
/// # Errors
/// One line that names file, line and value.
pub(super) fn parse(text: &str, name: &str) -> Result<Expected, String> {
    let mut expected = Expected::default();
    let (mut tests, mut units) = (String::from("[tests]\n"), Units::new());
    for (number, line) in text.lines().enumerate() {
        let at = |why: String| format!("{name}:{}: {why}", number + 1);
        let words = words(line).map_err(at)?;
        let Some(first) = words.first() else { continue };
        if first == "unit" {
            let [_, serial, guid] = &words[..] else {
                return Err(at(format!("`{line:.60}`: expected unit SERIAL GUID")));
            };
            let guid = guid.parse().map_err(|why| at(format!("{guid}: {why}")))?;
            if units.insert(serial.clone(), guid).is_some() {
                return Err(at(format!("serial {serial:?} is there twice")));
            }
            continue;
        }
        if !first.starts_with("0x") {
            let [key, value] = &words[..] else {
                return Err(at(format!("`{line:.60}`: expected KEY VALUE, or a switch's GUID")));
            };
            let is_word = value.parse::<i64>().is_err() && value.parse::<bool>().is_err();
            let value =
                if is_word { toml::Value::from(&**value).to_string() } else { value.clone() };
            let _ = writeln!(tests, "{key} = {value}");
            let read = parse_toml(&format!("[tests]\n{key} = {value}\n"), name, &Units::new());
            read.map_err(|why| at(without_place(&why, name)))?;
            continue;
        }
        let guid: Guid = first.parse().map_err(|why| at(format!("{first}: {why}")))?;
        let switch = expected.switches.entry(guid).or_default();
        match &words[1..] {
            [title] if title.parse::<u8>().is_err() => switch.name.clone_from(title),
            [num, state, rest @ ..] => {
                let toml = port(guid, num, state, rest).map_err(at)?;
                let read = parse_toml(&toml, name, &units);
                let read = read.map_err(|why| at(without_place(&why, name)))?;
                for (num, port) in read.switches.into_values().flat_map(|switch| switch.ports) {
                    if switch.ports.insert(num, port).is_some() {
                        return Err(at(format!("port {num} of {guid} is there twice")));
                    }
                }
            }
            _ => return Err(at(format!("{guid}: expected a name, or PORT STATE KEY=VALUE..."))),
        }
    }
    expected.tests = parse_toml(&tests, name, &Units::new())?.tests;
    Ok(expected)
}

/// A port's line in TOML.
fn port(guid: Guid, num: &str, state: &str, rest: &[String]) -> Result<String, String> {
    let (mut own, mut neighbour) = (String::new(), Vec::new());
    for word in rest {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("`{word:.60}` is no KEY=VALUE"))?;
        let value = match TEXTS.contains(&key) {
            true => toml::Value::from(value).to_string(),
            false => value.to_owned(),
        };
        match OF_PORT.contains(&key) {
            true => own += &format!(", {key} = {value}"),
            false => neighbour.push(format!("{key} = {value}")),
        }
    }
    if !neighbour.is_empty() {
        own += &format!(", neighbour = {{ {} }}", neighbour.join(", "));
    }
    let state = toml::Value::from(state);
    Ok(format!(
        "[[switch]]\nguid = \"{guid}\"\nport = [ {{ num = {num}, state = {state}{own} }} ]\n"
    ))
}

/// What TOML's reader says, without the place in a text that it alone saw.
fn without_place(why: &str, name: &str) -> String {
    let rest = why.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).unwrap_or(why);
    rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':').trim_start().to_owned()
}

/// The words of a line up to a `#`; what is in quotes is one, without them.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '#' if !quoted => break,
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err(format!("`{line:.60}`: a quote without its end"));
    }
    words.extend(word);
    Ok(words)
}

/// The file of a configuration; `behind` says what is behind a port, for people.
pub(super) fn write(expected: &Expected, behind: &BTreeMap<(Guid, u8), String>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if expected.tests != Tests::default() {
        for (key, value) in test_values(&expected.tests) {
            let _ = writeln!(text, "{key} {value}");
        }
    }
    for (guid, switch) in &expected.switches {
        let _ = writeln!(text, "{guid} \"{}\"", switch.name.replace('"', "'"));
        for (num, port) in &switch.ports {
            let _ = write!(text, "{guid} {num} {}", port.mode.name());
            for (key, value) in keys(port) {
                let quotes = if value.contains(char::is_whitespace) { "\"" } else { "" };
                let _ = write!(text, " {key}={quotes}{value}{quotes}");
            }
            if let Some(behind) = behind.get(&(*guid, num.0)) {
                let _ = write!(text, " # {behind}");
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use snin_configuration::Mode;
    use snin_fabric::PortNum;
    use snin_protocol::Time;
    use snin_sm_database::seen::Seen;

    use super::*;
    use crate::daemon::expected;

    const FILE: &str = "# a fabric\nquality_ms 5\nresets 2\n0x10 \"leaf 0\"\n0x10 1 test \
                        node_guid=0x20 name=\"host 1 *\" port=1 width=4 speed=NDR # host1\n\
                        0x10 2 phase-out\n";

    #[test]
    fn both_forms_say_the_same_and_lead_to_each_other() {
        assert!(is_lines(FILE));
        let read = parse(FILE, "e.conf").unwrap();
        assert_eq!(read.tests.quality.unwrap().lasts, Time::millis(5));
        assert_eq!((read.tests.resets, &*read.switches[&Guid(0x10)].name), (2, "leaf 0"));
        let ports = &read.switches[&Guid(0x10)].ports;
        assert_eq!(ports[&PortNum(2)].mode, Mode::PhaseOut);
        assert_eq!(
            ports[&PortNum(1)].neighbour.as_ref().unwrap().name.as_deref(),
            Some("host 1 *")
        );
        let toml = expected::write(&read, &Seen::default());
        assert!(!is_lines(&toml), "{toml}");
        assert_eq!(expected::parse(&toml, "e.toml").unwrap(), read);
        assert_eq!(expected::parse(&write(&read, &BTreeMap::new()), "again").unwrap(), read);
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_value() {
        let error = |from: &str, to: &str| parse(&FILE.replace(from, to), "e.conf").unwrap_err();
        assert_eq!(error("width=4", "width=3"), "e.conf:5: width is 3: 1, 2, 4, 8 or 12");
        assert!(error("phase-out", "away").starts_with("e.conf:6: unknown variant `away`"));
        assert!(
            error("quality_ms", "quality_s").starts_with("e.conf:2: unknown field `quality_s`")
        );
        assert_eq!(
            error("0x10 2", "0x10 1"),
            "e.conf:6: port 1 of 0x0000000000000010 is there twice"
        );
        assert!(error("1 *\"", "1 *").starts_with("e.conf:5: "));
        assert_eq!(error("port=1", "port"), "e.conf:5: `port` is no KEY=VALUE");
    }
}

//! The expected configuration as a TOML file: what is wrong in it is told with its line and value.
//!
//! ```toml
//! [tests]
//! quality_ms = 1000
//!
//! [[unit]]                               # whose serial number it is
//! serial = "MT2034X01234"
//! guid = "0x0002c9030000000a"            # its SystemImageGUID
//!
//! [[switch]]
//! guid = "0x0002c90300a1b2c3"
//! name = "leaf0"
//! port = [
//!   { num = 1, neighbour = { node_guid = "0x0002c90300000001", port = 1 }, width = 4, speed = "NDR" },
//!   { num = 2, state = "test", neighbour = { name = "host-1-*" } },
//!   { num = 3, state = "disabled" },
//!   { num = 4, neighbour = { serial = "MT2034X01234" } },
//! ]
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use serde::Deserialize;
use snin_configuration::{
    Application, Expected, ExpectedPort, ExpectedSwitch, Mode, Pattern, Quality, Tests,
};
use snin_fabric::{Guid, PortNum, Speed, Width};
use snin_protocol::Time;
use snin_sm_database::seen::Seen;
use toml::Spanned;

use super::lines;
use super::settings::Hex;

/// A file that is longer is none: a hundred times what 11,664 hosts take as lines.
pub(super) const LONGEST: usize = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tests: TestsEntry,
    #[serde(default)]
    unit: Vec<UnitEntry>,
    #[serde(default)]
    switch: Vec<SwitchEntry>,
}

/// InfiniBand's attributes have no serial number, and neither has the vendor's GeneralInfo (class 0x0A) that
/// `vendstat` reads. A site's inventory has it beside the unit's SystemImageGUID, by which discovery knows the
/// unit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitEntry {
    serial: Spanned<String>,
    guid: Hex,
}

/// SystemImageGUIDs by serial number.
pub(super) type Units = BTreeMap<String, Guid>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct TestsEntry {
    miswire: Option<bool>,
    quality: Option<bool>,
    quality_ms: Option<u64>,
    quality_mads: Option<u32>,
    quality_lost: Option<u32>,
    quality_errors: Option<u32>,
    counters: Option<bool>,
    quality_messages: Option<u32>,
    application: Option<Spanned<toml::Value>>,
    timer_ms: Option<u64>,
    resets: Option<u32>,
    at_once: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    guid: Spanned<Hex>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    port: Vec<PortEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortEntry {
    num: Spanned<u8>,
    #[serde(default)]
    state: Mode,
    neighbour: Option<NeighbourEntry>,
    width: Option<Spanned<u8>>,
    speed: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NeighbourEntry {
    port_guid: Option<Hex>,
    node_guid: Option<Hex>,
    system_guid: Option<Hex>,
    serial: Option<Spanned<String>>,
    name: Option<String>,
    vendor: Option<u32>,
    device: Option<u32>,
    port: Option<u8>,
}

/// Reads the text of the file called `name`, in TOML or in `lines`.
///
/// # Errors
/// One line that names file, line and value.
pub fn parse(text: &str, name: &str) -> Result<Expected, String> {
    match lines::is_lines(text) {
        true => lines::parse(text, name),
        false => parse_toml(text, name, &Units::new()),
    }
}

/// `known`: serial numbers of a text around this one.
pub(super) fn parse_toml(text: &str, name: &str, known: &Units) -> Result<Expected, String> {
    let line = |at: usize| text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
    let place = |span: Range<usize>| format!("{name}:{}", line(span.start));
    if text.len() > LONGEST {
        return Err(format!("{name}: longer than {LONGEST} bytes"));
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or_else(|| name.to_owned(), place);
        format!("{at}: {}", error.message().lines().next().unwrap_or_default())
    })?;
    let mut tests = tests(&file.tests);
    if let Some(application) = &file.tests.application {
        tests.application = self::application(application.get_ref(), &tests)
            .map_err(|why| format!("{}: {why}", place(application.span())))?;
    }
    let mut expected = Expected { tests, ..Expected::default() };
    if let Some(at_once) = file.tests.at_once.filter(|n| !(1..=10_000).contains(n.get_ref())) {
        return Err(format!(
            "{}: at_once is {}: 1 to 10000",
            place(at_once.span()),
            at_once.get_ref()
        ));
    }
    let mut units = Units::new();
    for UnitEntry { serial, guid } in file.unit {
        if units.insert(serial.get_ref().clone(), Guid(guid.0)).is_some() {
            let at = place(serial.span());
            return Err(format!("{at}: serial {:?} is there twice", serial.get_ref()));
        }
    }
    let unit_of = |serial: &str| units.get(serial).or_else(|| known.get(serial)).copied();
    for switch in file.switch {
        let guid = Guid(switch.guid.get_ref().0);
        let mut entry = ExpectedSwitch { name: switch.name, ..ExpectedSwitch::default() };
        for port in switch.port {
            let at = place(port.num.span());
            let num = PortNum(*port.num.get_ref());
            if num == PortNum::ZERO || num == PortNum::NONE {
                return Err(format!("{at}: num is {num}: a switch's ports are 1 to 254"));
            }
            if entry.ports.insert(num, expected_port(port, &unit_of, &place)?).is_some() {
                return Err(format!("{at}: port {num} of {guid} is there twice"));
            }
        }
        if expected.switches.insert(guid, entry).is_some() {
            return Err(format!("{}: switch {guid} is there twice", place(switch.guid.span())));
        }
    }
    Ok(expected)
}

fn tests(entry: &TestsEntry) -> Tests {
    let standard = Tests::default();
    let quality = standard.quality.unwrap_or_default();
    let quality = Quality {
        lasts: entry.quality_ms.map_or(quality.lasts, Time::millis),
        mads: entry.quality_mads.unwrap_or(quality.mads),
        lost: entry.quality_lost.unwrap_or(quality.lost),
        messages: entry.quality_messages.unwrap_or(quality.messages),
        errors: match entry.counters {
            Some(false) => None,
            _ => entry.quality_errors.or(quality.errors),
        },
    };
    Tests {
        miswire: entry.miswire.unwrap_or(standard.miswire),
        quality: entry.quality.unwrap_or(true).then_some(quality),
        application: standard.application,
        timer: entry.timer_ms.map_or(standard.timer, Time::millis),
        at_once: entry.at_once.as_ref().map_or(standard.at_once, |n| *n.get_ref()),
        resets: entry.resets.unwrap_or(standard.resets),
    }
}

/// Who is asked: true and false mean the node and none.
fn application(value: &toml::Value, tests: &Tests) -> Result<Option<Application>, String> {
    match (value, value.as_str()) {
        (toml::Value::Boolean(false), _) => Ok(None),
        (toml::Value::Boolean(true), _) | (_, Some("node")) => Ok(Some(Application::Node)),
        (_, Some("agent")) if tests.quality.is_none_or(|quality| quality.errors.is_none()) => {
            Err("application is \"agent\", which is asked while counters are read: they are not"
                .to_owned())
        }
        (_, Some("agent")) => Ok(Some(Application::Agent)),
        _ => Err(format!("application is {value}: true, false, \"node\" or \"agent\"")),
    }
}

fn expected_port(
    port: PortEntry,
    unit_of: &impl Fn(&str) -> Option<Guid>,
    place: &impl Fn(Range<usize>) -> String,
) -> Result<ExpectedPort, String> {
    let width = port.width.map(|width| {
        let wrong =
            || format!("{}: width is {}: 1, 2, 4, 8 or 12", place(width.span()), width.get_ref());
        Width::new(*width.get_ref()).ok_or_else(wrong)
    });
    let speed = port.speed.map(|speed| {
        let named = |known: &&Speed| known.name() == speed.get_ref();
        let wrong = || {
            let names: Vec<&str> = Speed::ALL.iter().map(|speed| speed.name()).collect();
            format!("{}: speed is {:?}: {}", place(speed.span()), speed.get_ref(), names.join(", "))
        };
        Speed::ALL.iter().find(named).copied().ok_or_else(wrong)
    });
    let guid = |guid: Option<Hex>| guid.map(|guid| Guid(guid.0));
    let mut unit = None;
    if let Some(neighbour) = &port.neighbour
        && let Some(serial) = &neighbour.serial
    {
        let wrong = |why: &str| {
            format!("{}: serial is {:?}: {why}", place(serial.span()), serial.get_ref())
        };
        unit = unit_of(serial.get_ref());
        if unit.is_none() {
            return Err(wrong("no unit has it: say whose it is by [[unit]], serial and guid"));
        }
        if neighbour.system_guid.as_ref().is_some_and(|given| unit != Some(Guid(given.0))) {
            return Err(wrong("its unit has another guid than system_guid is"));
        }
    }
    let neighbour = port.neighbour.map(|neighbour| Pattern {
        port_guid: guid(neighbour.port_guid),
        node_guid: guid(neighbour.node_guid),
        system_guid: guid(neighbour.system_guid).or(unit),
        name: neighbour.name,
        vendor: neighbour.vendor,
        device: neighbour.device,
        port: neighbour.port.map(PortNum),
    });
    Ok(ExpectedPort {
        mode: port.state,
        neighbour: neighbour.filter(|pattern| !pattern.is_empty()),
        width: width.transpose()?,
        speed: speed.transpose()?,
    })
}

/// The file of a configuration that was learnt; who is behind each port is named beside it.
pub fn write(expected: &Expected, seen: &Seen) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if expected.tests != Tests::default() {
        text += &tests_text(&expected.tests);
    }
    for (guid, switch) in &expected.switches {
        let _ = write!(
            text,
            "[[switch]]\nguid = \"{guid}\"\nname = {}\nport = [\n",
            quoted(&switch.name)
        );
        for (num, port) in &switch.ports {
            let _ = write!(text, "  {{ num = {num}, state = \"{}\"", port.mode.name());
            if let Some(pattern) = &port.neighbour {
                text += &neighbour(pattern);
            }
            if let Some(width) = port.width {
                let _ = write!(text, ", width = {}", width.lanes());
            }
            if let Some(speed) = port.speed {
                let _ = write!(text, ", speed = \"{}\"", speed.name());
            }
            text += " },";
            if let Some(behind) = seen.port((*guid, *num)).and_then(|port| port.neighbour.as_ref())
            {
                let _ = write!(text, " # {}", behind.port_name());
            }
            text.push('\n');
        }
        text += "]\n\n";
    }
    text
}

fn tests_text(tests: &Tests) -> String {
    let lines = test_values(tests).map(|(key, value)| format!("{key} = {value}\n"));
    format!("[tests]\n{}\n", lines.concat())
}

/// What a port has to pass, by the keys of both forms.
pub(super) fn test_values(tests: &Tests) -> [(&'static str, String); 12] {
    let Tests { miswire, quality, application, timer, at_once, resets } = tests;
    let Quality { lasts, mads, lost, messages, errors } = quality.unwrap_or_default();
    let application = application.map_or_else(|| "false".to_owned(), |asked| quoted(asked.name()));
    let millis = |time: Time| (time.nanos() / 1_000_000).to_string();
    [
        ("miswire", miswire.to_string()),
        ("quality", quality.is_some().to_string()),
        ("quality_ms", millis(lasts)),
        ("quality_mads", mads.to_string()),
        ("quality_lost", lost.to_string()),
        ("quality_messages", messages.to_string()),
        ("counters", errors.is_some().to_string()),
        ("quality_errors", errors.unwrap_or(0).to_string()),
        ("application", application),
        ("timer_ms", millis(*timer)),
        ("resets", resets.to_string()),
        ("at_once", at_once.to_string()),
    ]
}

fn neighbour(pattern: &Pattern) -> String {
    let given = given(pattern).map(|(key, value)| match key {
        "vendor" | "device" | "port" => format!("{key} = {value}"),
        _ => format!("{key} = {}", quoted(&value)),
    });
    format!(", neighbour = {{ {} }}", given.collect::<Vec<_>>().join(", "))
}

/// What is given of a neighbour, by the keys of both forms.
fn given(pattern: &Pattern) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let guid = |guid: Option<Guid>| guid.map(|guid| guid.to_string());
    let keys = [
        ("port_guid", guid(pattern.port_guid)),
        ("node_guid", guid(pattern.node_guid)),
        ("system_guid", guid(pattern.system_guid)),
        ("name", pattern.name.clone()),
        ("vendor", pattern.vendor.map(|vendor| vendor.to_string())),
        ("device", pattern.device.map(|device| device.to_string())),
        ("port", pattern.port.map(|port| port.to_string())),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key, value?)))
}

/// What is expected of a port, by the keys of both forms.
pub(super) fn keys(port: &ExpectedPort) -> Vec<(&'static str, String)> {
    let mut keys: Vec<(&'static str, String)> = port.neighbour.iter().flat_map(given).collect();
    keys.extend(port.width.map(|width| ("width", width.lanes().to_string())));
    keys.extend(port.speed.map(|speed| ("speed", speed.name().to_owned())));
    keys
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[tests]\nquality_ms = 5\napplication = false\n\n[[switch]]\nguid = \"0x10\"\n\
                        name = \"leaf0\"\nport = [\n  { num = 1, neighbour = { name = \"h*\", port = 1 }, \
                        width = 4, speed = \"NDR\" },\n  { num = 2, state = \"test\" },\n  \
                        { num = 3, state = \"disabled\" },\n]\n";

    #[test]
    fn what_is_written_is_read_again() {
        let read = parse(FILE, "expected.toml").unwrap();
        assert_eq!(read.tests.quality.unwrap().lasts, Time::millis(5));
        let switch = &read.switches[&Guid(0x10)];
        let modes: Vec<Mode> = switch.ports.values().map(|port| port.mode).collect();
        assert_eq!(modes, [Mode::Enabled, Mode::Test, Mode::Disabled]);
        let text = write(&read, &Seen::default());
        let again = parse(&text, "again").unwrap();
        assert_eq!(again, read);
    }

    /// A serial number stands for the unit's GUID, in both forms, and may be combined.
    #[test]
    fn serial_numbers_are_those_of_the_inventory() {
        const UNITS: &str = "[[unit]]\nserial = \"MT2\"\nguid = \"0x77\"\n\n";
        let with = |neighbour: &str| {
            let text = FILE.replace("name = \"h*\"", neighbour);
            parse(&format!("{UNITS}{text}"), "e.toml")
        };
        let pattern = |expected: Expected| {
            expected.switches[&Guid(0x10)].ports[&PortNum(1)].neighbour.clone().unwrap()
        };
        let found = pattern(with("serial = \"MT2\"").unwrap());
        assert_eq!((found.system_guid, found.port), (Some(Guid(0x77)), Some(PortNum(1))));
        let found = pattern(with("serial = \"MT2\", name = \"h*\"").unwrap());
        assert_eq!((found.system_guid, found.name.as_deref()), (Some(Guid(0x77)), Some("h*")));
        let other = with("serial = \"MT2\", system_guid = \"0x78\"").unwrap_err();
        assert_eq!(
            other,
            "e.toml:13: serial is \"MT2\": its unit has another guid than system_guid is"
        );
        let twice = parse(&format!("{UNITS}{UNITS}"), "e.toml").unwrap_err();
        assert_eq!(twice, "e.toml:6: serial \"MT2\" is there twice");
        let lines = "unit MT2 0x77\n0x10 1 enabled serial=MT2 vendor=5\n";
        let found = pattern(parse(lines, "e.conf").unwrap());
        assert_eq!((found.system_guid, found.vendor), (Some(Guid(0x77)), Some(5)));
        let bad = parse("unit MT2\n", "e.conf").unwrap_err();
        assert!(bad.starts_with("e.conf:1: `unit MT2`: expected unit SERIAL GUID"), "{bad}");
    }

    /// Who answers is a word, and says the same in both forms.
    #[test]
    fn the_application_is_a_node_an_agent_or_none() {
        for (text, meant) in [
            ("true", Some(Application::Node)),
            ("false", None),
            ("\"node\"", Some(Application::Node)),
            ("\"agent\"", Some(Application::Agent)),
        ] {
            let file = FILE.replace("application = false", &format!("application = {text}"));
            let read = parse(&file, "e.toml").unwrap();
            assert_eq!(read.tests.application, meant, "{text}");
            let lines = lines::write(&read, &BTreeMap::new());
            assert_eq!(parse(&lines, "e.conf").unwrap(), read, "{lines}");
            assert_eq!(parse(&write(&read, &Seen::default()), "again").unwrap(), read);
        }
        let error = |to: &str| {
            let to = format!("application = {to}");
            parse(&FILE.replace("application = false", &to), "e.toml").unwrap_err()
        };
        assert!(error("3").starts_with("e.toml:3: application is 3: true, false, "));
        assert!(error("\"agent\"\ncounters = false").contains("while counters are read"));
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_value() {
        let error = |from: &str, to: &str| parse(&FILE.replace(from, to), "e.toml").unwrap_err();
        let twice = error("num = 2", "num = 1");
        assert_eq!(twice, "e.toml:10: port 1 of 0x0000000000000010 is there twice");
        assert_eq!(
            error("num = 2", "num = 0"),
            "e.toml:10: num is 0: a switch's ports are 1 to 254"
        );
        assert_eq!(error("width = 4", "width = 3"), "e.toml:9: width is 3: 1, 2, 4, 8 or 12");
        assert!(error("NDR", "FAST").starts_with("e.toml:9: speed is \"FAST\": SDR, "));
        let serial = error("name = \"h*\"", "serial = \"MT2\"");
        assert!(serial.starts_with("e.toml:9: serial is \"MT2\": no unit has it"), "{serial}");
        let serial = parse("0x10 1 enabled serial=MT2\n", "e.conf").unwrap_err();
        assert!(serial.starts_with("e.conf:1: serial is \"MT2\": no unit has it"), "{serial}");
        assert!(error("\"disabled\"", "\"shut\"").starts_with("e.toml:11: unknown variant `shut`"));
        assert!(
            error("quality_ms", "quality_s").starts_with("e.toml:2: unknown field `quality_s`")
        );
        assert!(
            error("\"0x10\"", "\"leaf\"").starts_with("e.toml:6: invalid value: string \"leaf\"")
        );
    }
}

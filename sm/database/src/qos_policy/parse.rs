//! The grammar of qos-policy.conf (OpenSM's QoS_management_in_OpenSM.txt): sections between a word and `end-`
//! and the word, in them lines of a key, a colon and values.

use snin_fabric::{NodeKind, PortNum};

use super::{DEFAULT, Group, Level, QosPolicy, Ranges, Rule};

/// The most groups, levels and rules, each.
const MOST: usize = 4096;

/// A line that means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadPolicy {
    /// From 1.
    pub line: usize,
    /// Why.
    pub reason: Reason,
}

/// Why a line means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// A word outside of all sections.
    #[error(
        "`{0:.80}` begins no section: expected port-groups, qos-setup, qos-levels, qos-match-rules or qos-ulps"
    )]
    Section(String),
    /// A section that does not end.
    #[error("`{0}` has no `end-{0}`")]
    Open(&'static str),
    /// A line that is no key and value.
    #[error("`{0:.80}`: expected a key, a colon and a value")]
    Form(String),
    /// A line of ULPs.
    #[error("`{0:.80}`: expected a ULP, a colon and a service level")]
    UlpForm(String),
    /// A key that this has not.
    #[error("`{1:.80}` is nothing that a {0} has")]
    Key(&'static str, String),
    /// A key that may be there once.
    #[error("{0} is said twice")]
    Twice(&'static str),
    /// A key that has to be there.
    #[error("a {0} has a {1}")]
    Missing(&'static str, &'static str),
    /// A number out of its range.
    #[error("{0} is `{1:.80}`: expected {2} to {3}")]
    Value(&'static str, String, u64, u64),
    /// A number, or two with a line between them.
    #[error("`{0:.80}` is no range: expected numbers such as 22,4719-5000 or 0x7FFF")]
    Range(String),
    /// A range the wrong way round.
    #[error("`{0:.80}` is no range: the first is not above the last")]
    Backwards(String),
    /// A port's name.
    #[error("`{0:.80}` is no port: expected a node's description, /P and a number")]
    PortName(String),
    /// A kind of node.
    #[error("`{0:.80}` is no kind of node: expected CA, SWITCH, ROUTER, SELF or ALL")]
    NodeType(String),
    /// A partition by its name.
    #[error("partition: `{0:.80}`: name its P_Key instead: pkey: 0x0001")]
    Partition(String),
    /// A group or a level that is not there.
    #[error("there is no {0} `{1:.80}`")]
    None(&'static str, String),
    /// A group or a level that is there twice.
    #[error("there are two of {0} `{1:.80}`")]
    Again(&'static str, String),
    /// A ULP that is not known.
    #[error("`{0:.80}` is no ULP: expected default, sdp, rds, iser, srp, ipoib or any")]
    Ulp(String),
    /// What a ULP does not take.
    #[error("{0} takes no `{1:.80}`")]
    Qualifier(String, String),
    /// What a ULP has to have.
    #[error("{0} takes {1}")]
    Needs(&'static str, &'static str),
    /// More than there is room for.
    #[error("more than {MOST} of a kind")]
    TooMany,
}

type Lines<'a> = std::iter::Peekable<std::vec::IntoIter<(usize, &'a str)>>;
type Parsed<T> = Result<T, BadPolicy>;

const fn bad(line: usize, reason: Reason) -> BadPolicy {
    BadPolicy { line, reason }
}

/// Reads a file.
pub(super) fn file(text: &str) -> Parsed<QosPolicy> {
    let lines = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()));
    let lines: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.is_empty()).collect();
    let mut lines = lines.into_iter().peekable();
    let mut policy = QosPolicy { text: text.to_owned(), ..QosPolicy::default() };
    if lines.peek().is_none() {
        policy.text.clear();
    }
    let (mut wanted, mut ulps) = (Vec::new(), Vec::new());
    while let Some((line, word)) = lines.next() {
        match word {
            "port-groups" => {
                items(&mut lines, line, "port-groups", "port-group", |at, pairs| {
                    group(&mut policy, at, pairs)
                })?;
            }
            "qos-setup" => skip(&mut lines, line, "qos-setup")?,
            "qos-levels" => {
                items(&mut lines, line, "qos-levels", "qos-level", |at, pairs| {
                    level(&mut policy, at, pairs)
                })?;
            }
            "qos-match-rules" => {
                items(&mut lines, line, "qos-match-rules", "qos-match-rule", |at, pairs| {
                    wanted.push(rule(at, pairs)?);
                    Ok(())
                })?;
            }
            "qos-ulps" => until(&mut lines, line, "qos-ulps", |at, line| {
                ulps.push((at, line.to_owned()));
                Ok(())
            })?,
            other => return Err(bad(line, Reason::Section(other.to_owned()))),
        }
    }
    for (rule, name, line) in wanted {
        let level = policy.levels.iter().position(|level| level.name == name);
        let level = level.ok_or_else(|| bad(line, Reason::None("qos-level", name)))?;
        for group in rule.sources.iter().chain(&rule.destinations) {
            if !policy.groups.contains_key(group) {
                return Err(bad(line, Reason::None("port-group", group.clone())));
            }
        }
        push(&mut policy.rules, Rule { level, ..rule }, line)?;
    }
    for (line, text) in ulps {
        ulp(&mut policy, line, &text)?;
    }
    Ok(policy)
}

fn push<T>(list: &mut Vec<T>, item: T, line: usize) -> Parsed<()> {
    if list.len() >= MOST {
        return Err(bad(line, Reason::TooMany));
    }
    list.push(item);
    Ok(())
}

/// The lines up to the section's end.
fn until<'a>(
    lines: &mut Lines<'a>,
    begin: usize,
    section: &'static str,
    mut each: impl FnMut(usize, &'a str) -> Parsed<()>,
) -> Parsed<()> {
    for (line, text) in lines.by_ref() {
        if text.strip_prefix("end-") == Some(section) {
            return Ok(());
        }
        each(line, text)?;
    }
    Err(bad(begin, Reason::Open(section)))
}

fn skip(lines: &mut Lines<'_>, begin: usize, section: &'static str) -> Parsed<()> {
    until(lines, begin, section, |_, _| Ok(()))
}

/// A key with its line and what is behind the colon.
type Pair<'a> = (usize, &'a str, &'a str);

/// Every item of a section, by its lines.
fn items(
    lines: &mut Lines<'_>,
    begin: usize,
    section: &'static str,
    item: &'static str,
    mut each: impl FnMut(usize, &[Pair<'_>]) -> Parsed<()>,
) -> Parsed<()> {
    loop {
        let (line, word) = lines.next().ok_or_else(|| bad(begin, Reason::Open(section)))?;
        if word.strip_prefix("end-") == Some(section) {
            return Ok(());
        }
        if word != item {
            return Err(bad(line, Reason::Key(section, word.to_owned())));
        }
        let mut pairs: Vec<Pair<'_>> = Vec::new();
        until(lines, line, item, |at, text| {
            let (key, value) =
                text.split_once(':').ok_or_else(|| bad(at, Reason::Form(text.to_owned())))?;
            pairs.push((at, key.trim(), value.trim()));
            Ok(())
        })?;
        each(line, &pairs)?;
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn ranges(line: usize, text: &str) -> Parsed<Ranges> {
    let one = |part: &str| {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = number(first.trim()).zip(number(last.trim()));
        let (first, last) = ends.ok_or_else(|| bad(line, Reason::Range(part.to_owned())))?;
        if first > last {
            return Err(bad(line, Reason::Backwards(part.to_owned())));
        }
        Ok(first..=last)
    };
    text.split(',').map(one).collect()
}

/// P_Keys without their membership.
fn keys(line: usize, text: &str) -> Parsed<Ranges> {
    let ranges = ranges(line, text)?;
    Ok(ranges.into_iter().map(|range| range.start() & 0x7FFF..=range.end() & 0x7FFF).collect())
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

fn group(policy: &mut QosPolicy, at: usize, pairs: &[Pair<'_>]) -> Parsed<()> {
    let mut group = Group::default();
    let mut name = None;
    for &(line, key, value) in pairs {
        match key {
            "name" => once(&mut name, value.to_owned(), line, "name")?,
            "use" => {}
            "port-guid" => group.guids.extend(ranges(line, value)?),
            "pkey" => group.keys.extend(keys(line, value)?),
            "partition" => return Err(bad(line, Reason::Partition(value.to_owned()))),
            "port-name" => {
                for one in value.split(',').map(str::trim) {
                    let wrong = || bad(line, Reason::PortName(one.to_owned()));
                    let (node, port) = one.rsplit_once('/').ok_or_else(wrong)?;
                    let port = port.trim().strip_prefix('P').and_then(|num| num.parse().ok());
                    let port = port.ok_or_else(wrong)?;
                    group.names.push((node.trim().to_owned(), PortNum(port)));
                }
            }
            "node-type" => {
                for one in value.split(',').map(str::trim) {
                    match one {
                        "CA" => group.kinds.push(NodeKind::Adapter),
                        "SWITCH" => group.kinds.push(NodeKind::Switch),
                        "ROUTER" => group.kinds.push(NodeKind::Router),
                        "SELF" => group.manager = true,
                        "ALL" => group.all = true,
                        _ => return Err(bad(line, Reason::NodeType(one.to_owned()))),
                    }
                }
            }
            _ => return Err(bad(line, Reason::Key("port-group", key.to_owned()))),
        }
    }
    let name = name.ok_or_else(|| bad(at, Reason::Missing("port-group", "name")))?;
    if policy.groups.len() >= MOST {
        return Err(bad(at, Reason::TooMany));
    }
    match policy.groups.insert(name.clone(), group) {
        None => Ok(()),
        Some(_) => Err(bad(at, Reason::Again("port-group", name))),
    }
}

fn once<T>(place: &mut Option<T>, value: T, line: usize, key: &'static str) -> Parsed<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(bad(line, Reason::Twice(key))),
    }
}

fn small(line: usize, key: &'static str, text: &str, (least, most): (u8, u8)) -> Parsed<u8> {
    let value = number(text).and_then(|value| u8::try_from(value).ok());
    let wrong = || Reason::Value(key, text.to_owned(), least.into(), most.into());
    value.filter(|value| (least..=most).contains(value)).ok_or_else(|| bad(line, wrong()))
}

fn level(policy: &mut QosPolicy, at: usize, pairs: &[Pair<'_>]) -> Parsed<()> {
    let mut level = Level::default();
    let mut name = None;
    for &(line, key, value) in pairs {
        let small = |key, bounds| small(line, key, value, bounds);
        match key {
            "name" => once(&mut name, value.to_owned(), line, "name")?,
            "use" => {}
            "sl" => once(&mut level.sl, small("sl", (0, 15))?, line, "sl")?,
            "mtu-limit" => {
                once(&mut level.mtu_limit, small("mtu-limit", (1, 5))?, line, "mtu-limit")?;
            }
            "rate-limit" => {
                once(&mut level.rate_limit, small("rate-limit", (2, 24))?, line, "rate-limit")?;
            }
            "packet-life" => {
                once(&mut level.packet_life, small("packet-life", (0, 63))?, line, "packet-life")?;
            }
            // OpenSM reads them and answers with any of a port's addresses.
            "path-bits" => drop(ranges(line, value)?),
            "pkey" => level.keys.extend(keys(line, value)?),
            _ => return Err(bad(line, Reason::Key("qos-level", key.to_owned()))),
        }
    }
    level.name = name.ok_or_else(|| bad(at, Reason::Missing("qos-level", "name")))?;
    if policy.levels.iter().any(|known| known.name == level.name) {
        return Err(bad(at, Reason::Again("qos-level", level.name)));
    }
    push(&mut policy.levels, level, at)
}

/// A rule, its level's name, and the line that says it.
fn rule(at: usize, pairs: &[Pair<'_>]) -> Parsed<(Rule, String, usize)> {
    let mut rule = Rule::default();
    let mut level = None;
    for &(line, key, value) in pairs {
        match key {
            "use" => {}
            "source" => rule.sources.extend(names(value)),
            "destination" => rule.destinations.extend(names(value)),
            "qos-class" => rule.classes.extend(ranges(line, value)?),
            "service-id" => rule.services.extend(ranges(line, value)?),
            "pkey" => rule.keys.extend(keys(line, value)?),
            "qos-level-name" => {
                once(&mut level, (value.to_owned(), line), line, "qos-level-name")?;
            }
            _ => return Err(bad(line, Reason::Key("qos-match-rule", key.to_owned()))),
        }
    }
    let missing = || bad(at, Reason::Missing("qos-match-rule", "qos-level-name"));
    let (level, line) = level.ok_or_else(missing)?;
    Ok((rule, level, line))
}

/// Service IDs of sockets by TCP port (IBA A4, RFC 7145): the first of them, and the port where none is named.
const SDP: u64 = 0x1_0000;
const RDS: (u64, u64) = (0x106_0000, 0x48CA);
const ISER: (u64, u64) = (0x106_0000, 0x0CBC);
/// The partition of IP over InfiniBand where none is named.
const DEFAULT_KEY: u64 = 0x7FFF;

/// A line such as `sdp, port-num 30000 : 3`: rules behind all others.
fn ulp(policy: &mut QosPolicy, line: usize, text: &str) -> Parsed<()> {
    let form = || bad(line, Reason::UlpForm(text.to_owned()));
    let (what, sl) = text.rsplit_once(':').ok_or_else(form)?;
    let sl = small(line, "sl", sl.trim(), (0, 15))?;
    let (ulp, rest) = what.split_once(',').unwrap_or((what, ""));
    let (ulp, rest) = (ulp.trim(), rest.trim());
    if ulp == "default" {
        let known = policy.levels.iter_mut().find(|level| level.name == DEFAULT);
        return match known {
            Some(level) => {
                level.sl = Some(sl);
                Ok(())
            }
            None => {
                let level = Level { name: DEFAULT.to_owned(), sl: Some(sl), ..Level::default() };
                push(&mut policy.levels, level, line)
            }
        };
    }
    let (qualifier, values) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let of = |first: u64, ports: Ranges| -> Ranges {
        ports.into_iter().map(|range| first + range.start()..=first + range.end()).collect()
    };
    let ports = || -> Parsed<Ranges> {
        let ports = ranges(line, values)?;
        let high = ports.iter().find(|range| *range.end() > 0xFFFF);
        let wrong = |range: &std::ops::RangeInclusive<u64>| {
            bad(line, Reason::Value("port-num", range.end().to_string(), 0, 0xFFFF))
        };
        high.map_or(Ok(()), |range| Err(wrong(range)))?;
        Ok(ports)
    };
    let mut rules = vec![Rule::default()];
    match (ulp, qualifier) {
        ("sdp", "") => rules[0].services = vec![SDP..=SDP + 0xFFFF],
        ("sdp", "port-num") => rules[0].services = of(SDP, ports()?),
        ("rds", "") => rules[0].services = vec![RDS.0 + RDS.1..=RDS.0 + RDS.1],
        ("rds", "port-num") => rules[0].services = of(RDS.0, ports()?),
        ("iser", "") => rules[0].services = vec![ISER.0 + ISER.1..=ISER.0 + ISER.1],
        ("iser", "port-num") => rules[0].services = of(ISER.0, ports()?),
        ("ipoib", "") => rules[0].keys = vec![DEFAULT_KEY..=DEFAULT_KEY],
        ("ipoib" | "any", "pkey") => rules[0].keys = keys(line, values)?,
        ("any", "service-id") => rules[0].services = ranges(line, values)?,
        ("srp", "") => return Err(bad(line, Reason::Needs("srp", "target-port-guid"))),
        ("any", "") => {
            let one = "service-id, pkey, or port GUIDs";
            return Err(bad(line, Reason::Needs("any", one)));
        }
        ("srp" | "any", "target-port-guid") => {
            rules[0].destinations = vec![ports_group(policy, line, values)?];
        }
        ("any", "source-port-guid") => rules[0].sources = vec![ports_group(policy, line, values)?],
        ("any", "source-target-port-guid") => {
            let name = ports_group(policy, line, values)?;
            rules[0].sources = vec![name.clone()];
            rules.push(Rule { destinations: vec![name], ..Rule::default() });
        }
        ("sdp" | "rds" | "iser" | "srp" | "ipoib" | "any", other) => {
            return Err(bad(line, Reason::Qualifier(ulp.to_owned(), other.to_owned())));
        }
        _ => return Err(bad(line, Reason::Ulp(ulp.to_owned()))),
    }
    let level = policy.levels.len();
    // A name that no file can have, since lines end there.
    let name = format!("\n{line}");
    push(&mut policy.levels, Level { name, sl: Some(sl), ..Level::default() }, line)?;
    rules.into_iter().try_for_each(|rule| push(&mut policy.rules, Rule { level, ..rule }, line))
}

/// A group of its own for the ports that a line names.
fn ports_group(policy: &mut QosPolicy, line: usize, values: &str) -> Parsed<String> {
    let name = format!("\n{line}");
    let group = Group { guids: ranges(line, values)?, ..Group::default() };
    policy.groups.insert(name.clone(), group);
    Ok(name)
}

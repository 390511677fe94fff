//! One line of the text, taken apart without judging what it says about the fabric.

use super::Problem;
use crate::{Guid, Lid, LinkRate, Lmc, NodeKind, Speed, Width};

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// Nothing, a comment, or a chassis heading of `ibnetdiscover -g`.
    Blank,
    /// `key=value` before a node header.
    Attribute(Attribute),
    /// `Switch 36 "name" # ...`.
    Header(Header<'a>),
    /// `[1] "peer"[2] # ...`.
    Port(PortLine<'a>),
}

#[derive(Debug, PartialEq)]
pub(super) enum Attribute {
    Vendor(u32),
    Device(u32),
    SystemImage(Guid),
    Node(Guid),
}

#[derive(Debug, PartialEq)]
pub(super) struct Header<'a> {
    pub(super) kind: NodeKind,
    pub(super) ports: u64,
    pub(super) id: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) enhanced_port0: bool,
    pub(super) address: Option<(Lid, Lmc)>,
}

#[derive(Debug, PartialEq)]
pub(super) struct PortLine<'a> {
    pub(super) port: u64,
    pub(super) guid: Option<Guid>,
    pub(super) peer: &'a str,
    pub(super) peer_port: u64,
    pub(super) peer_guid: Option<Guid>,
    /// The port's own address; adapters and routers only.
    pub(super) address: Option<(Lid, Lmc)>,
    pub(super) rate: Option<LinkRate>,
}

/// Takes one line apart.
pub(super) fn classify(line: &str) -> Result<Line<'_>, Problem> {
    let text = line.trim();
    if text.is_empty() || text.starts_with('#') || is_heading(text) {
        return Ok(Line::Blank);
    }
    if text.starts_with('[') {
        return port(text).map(Line::Port);
    }
    if let Some((kind, rest)) = node_kind(text) {
        return header(kind, rest).map(Line::Header);
    }
    if let Some((key, value)) = text.split_once('=') {
        return attribute(key, value).map(Line::Attribute);
    }
    Err(Problem::Unknown(clip(text)))
}

/// At most 40 characters of `text`, for a message.
pub(super) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(40).collect();
    if clipped.len() < text.len() {
        clipped.push_str("...");
    }
    clipped
}

fn is_heading(text: &str) -> bool {
    ["Chassis ", "Non-Chassis", "DR path"].iter().any(|heading| text.starts_with(heading))
}

fn node_kind(text: &str) -> Option<(NodeKind, &str)> {
    let (word, rest) = text.split_once(|c: char| c.is_ascii_whitespace())?;
    let kind = match word {
        "Switch" => NodeKind::Switch,
        "Ca" | "Hca" => NodeKind::Adapter,
        "Rt" | "Router" => NodeKind::Router,
        _ => return None,
    };
    Some((kind, rest.trim_start()))
}

fn attribute(key: &str, value: &str) -> Result<Attribute, Problem> {
    let bad = || Problem::BadValue { key: clip(key), value: clip(value) };
    // `switchguid=0x..(..)`: what is in parentheses is port 0's GUID, the node's own again.
    let guid = || value.split('(').next().unwrap_or(value).trim().parse().map_err(|_| bad());
    let number = || {
        let digits = value.trim().trim_start_matches("0x");
        u32::from_str_radix(digits, 16).map_err(|_| bad())
    };
    match key.trim() {
        "vendid" => number().map(Attribute::Vendor),
        "devid" => number().map(Attribute::Device),
        "sysimgguid" => guid().map(Attribute::SystemImage),
        "switchguid" | "caguid" | "hcaguid" | "rtguid" => guid().map(Attribute::Node),
        _ => Err(Problem::Unknown(clip(key))),
    }
}

fn header(kind: NodeKind, rest: &str) -> Result<Header<'_>, Problem> {
    let (ports, rest) = number(rest).ok_or_else(|| Problem::Missing("port count", clip(rest)))?;
    let (id, rest) =
        quoted(rest).ok_or_else(|| Problem::Missing("node name in quotes", clip(rest.trim())))?;
    let comment = rest.split_once('#').map_or("", |(_, comment)| comment);
    let (description, tail) = description(comment);
    Ok(Header {
        kind,
        ports,
        id,
        description,
        enhanced_port0: tail.contains("enhanced port 0"),
        address: address(tail)?,
    })
}

fn port(text: &str) -> Result<PortLine<'_>, Problem> {
    let missing = |what| move || Problem::Missing(what, clip(text));
    let (port, rest) = bracketed(text).ok_or_else(missing("port number in brackets"))?;
    // A chassis switch names the port on its front panel as well: `[1][ext 17]`.
    let rest = skip_external(rest);
    let (guid, rest) = parenthesised(rest)?;
    let (peer, rest) = quoted(rest).ok_or_else(missing("peer in quotes"))?;
    let (peer_port, rest) = bracketed(rest).ok_or_else(missing("peer's port in brackets"))?;
    let (peer_guid, rest) = parenthesised(skip_external(rest))?;
    let (options, comment) = rest.split_once('#').unwrap_or((rest, ""));
    let (before, tail) = match comment.find('"') {
        Some(quote) => (&comment[..quote], description(comment).1),
        None => ("", comment),
    };
    Ok(PortLine {
        port,
        guid,
        peer,
        peer_port,
        peer_guid,
        address: address(before)?,
        rate: rate(tail).or_else(|| rate_options(options)),
    })
}

/// The text between the first and the last double quote of a comment, and what follows. Descriptions
/// are free text and may hold quotes themselves.
fn description(comment: &str) -> (Option<&str>, &str) {
    match (comment.find('"'), comment.rfind('"')) {
        (Some(start), Some(end)) if start < end => {
            (Some(&comment[start + 1..end]), &comment[end + 1..])
        }
        _ => (None, comment),
    }
}

/// `lid 73 lmc 0` anywhere in `text`.
fn address(text: &str) -> Result<Option<(Lid, Lmc)>, Problem> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let value = |key: &str| {
        let at = words.iter().position(|word| *word == key)?;
        words.get(at + 1).map(|word| (key.to_owned(), *word))
    };
    let Some((key, lid)) = value("lid") else { return Ok(None) };
    let bad = |key: String, value: &str| Problem::BadValue { key, value: clip(value) };
    let lid = match lid.parse() {
        Ok(number) if number <= Lid::MAX_UNICAST.0 => Lid(number),
        // The permissive LID: the port was given none yet.
        Ok(0xFFFF) => Lid::NONE,
        _ => return Err(bad(key, lid)),
    };
    let lmc = match value("lmc") {
        None => Lmc::ZERO,
        Some((key, text)) => text.parse().ok().and_then(Lmc::new).ok_or_else(|| bad(key, text))?,
    };
    Ok(Some((lid, lmc)))
}

fn rate(tail: &str) -> Option<LinkRate> {
    tail.split_ascii_whitespace().rev().find_map(|word| word.parse().ok())
}

/// ibsim's `w=2 s=7 e=1`: masks of enabled widths, speeds and extended speeds (PortInfo's encodings);
/// the best of each is what the link would come up with.
fn rate_options(options: &str) -> Option<LinkRate> {
    let value = |key: &str| {
        let word = options.split_ascii_whitespace().find_map(|word| word.strip_prefix(key))?;
        word.parse::<u8>().ok()
    };
    let lanes = [(8, 12), (4, 8), (2, 4), (16, 2), (1, 1)];
    let width = value("w=")?;
    let (_, lanes) = *lanes.iter().find(|(bit, _)| width & bit != 0)?;
    let extended = [(8, Speed::Ndr), (4, Speed::Hdr), (2, Speed::Edr), (1, Speed::Fdr)];
    let plain = [(4, Speed::Qdr), (2, Speed::Ddr), (1, Speed::Sdr)];
    let best = |mask: u8, speeds: &[(u8, Speed)]| {
        speeds.iter().find(|(bit, _)| mask & bit != 0).map(|(_, speed)| *speed)
    };
    let speed = value("e=")
        .and_then(|mask| best(mask, &extended))
        .or_else(|| value("s=").and_then(|mask| best(mask, &plain)))?;
    Some(LinkRate { width: Width::new(lanes)?, speed })
}

fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('"')?.split_once('"')
}

fn bracketed(text: &str) -> Option<(u64, &str)> {
    let (inside, rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((inside.trim().parse().ok()?, rest))
}

fn skip_external(text: &str) -> &str {
    text.strip_prefix("[ext").and_then(|rest| rest.split_once(']')).map_or(text, |(_, rest)| rest)
}

fn parenthesised(text: &str) -> Result<(Option<Guid>, &str), Problem> {
    let Some(rest) = text.strip_prefix('(') else { return Ok((None, text)) };
    let (inside, rest) =
        rest.split_once(')').ok_or_else(|| Problem::Missing("closing parenthesis", clip(text)))?;
    match inside.trim().parse() {
        Ok(guid) => Ok((Some(guid), rest)),
        Err(_) => Err(Problem::BadValue { key: "port GUID".to_owned(), value: clip(inside) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_port_line_of_a_chassis() {
        let text =
            "[3][ext 17]\t\"S-0b\"[5][ext 2](0000000000000b) \t\t# \"say \"hi\" #1\" lid 9 4xFDR10";
        let Ok(Line::Port(line)) = classify(text) else { panic!("{:?}", classify(text)) };
        assert_eq!((line.port, line.peer, line.peer_port), (3, "S-0b", 5));
        assert_eq!(line.peer_guid, Some(Guid(11)));
        assert_eq!(line.address, None);
        assert_eq!(line.rate, "4xFDR10".parse().ok());
    }

    #[test]
    fn an_adapter_port_line_has_its_own_address() {
        let text = "[1](e09d) \t\"S-2c\"[17]\t\t# lid 662 lmc 4 \"leaf\" lid 73 4xNDR";
        let Ok(Line::Port(line)) = classify(text) else { panic!("{:?}", classify(text)) };
        assert_eq!(line.address, Some((Lid(662), Lmc::new(4).unwrap())));
        assert_eq!(line.guid, Some(Guid(0xe09d)));
    }

    #[test]
    fn the_permissive_lid_is_none_yet() {
        let text = "[1](e09d) \t\"S-2c\"[17]\t\t# lid 65535 lmc 0 \"leaf\" lid 65535 4xEDR";
        let Ok(Line::Port(line)) = classify(text) else { panic!("{:?}", classify(text)) };
        assert_eq!(line.address, Some((Lid::NONE, Lmc::ZERO)));
    }

    #[test]
    fn ibsim_options_give_the_best_rate() {
        let Ok(Line::Port(line)) = classify("[19] \"spine0\"[1] w=2 s=7 e=2") else { panic!() };
        assert_eq!(line.rate, "4xEDR".parse().ok());
        let Ok(Line::Port(line)) = classify("[19] \"spine0\"[1] w=3 s=3") else { panic!() };
        assert_eq!(line.rate, "4xDDR".parse().ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, message) in [
            ("[x] \"a\"[1]", "no port number in brackets in `[x] \"a\"[1]`"),
            ("[1] \"a\"", "no peer's port in brackets in `[1] \"a\"`"),
            ("Switch many \"a\"", "no port count in `many \"a\"`"),
            ("Switch 36 \"a", "no node name in quotes in `\"a`"),
            ("caguid=12q", "bad caguid `12q`"),
            ("hello", "not understood: `hello`"),
            ("Ca 1 \"H\" # \"x\" lid 60000", "bad lid `60000`"),
        ] {
            let problem = classify(text.trim()).expect_err(text);
            assert_eq!(problem.to_string(), message);
        }
    }
}

//! `source,destination[,rate]`.

use csv::{ReaderBuilder, StringRecord, Terminator, Trim};

use super::Demand;
use super::file::{FileError, Problem, demand};
use crate::names::HostNames;

pub(super) fn parse(text: &str, names: &HostNames) -> Result<Vec<Demand>, FileError> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .terminator(Terminator::Any(b'\n'))
        .from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    let mut demands = Vec::new();
    let mut first = true;
    loop {
        let more = reader.read_record(&mut record);
        // A record's own position is before the comments that precede it: count from its end instead.
        let end = reader.position();
        let ended = text.as_bytes().get(..end.byte() as usize).is_some_and(|t| t.ends_with(b"\n"));
        let line = end.line() as usize - usize::from(ended);
        let at = |problem| FileError { line, problem };
        match more {
            Ok(true) => {}
            Ok(false) => return Ok(demands),
            Err(_) => return Err(at(Problem::Binary)),
        }
        let header = std::mem::take(&mut first) && is_header(&record);
        let blank = record.len() == 1 && record[0].is_empty();
        if !header && !blank {
            demands.push(self::record(&record, names).map_err(at)?);
        }
    }
}

fn is_header(record: &StringRecord) -> bool {
    let field = |index| record.get(index).unwrap_or("");
    field(0).eq_ignore_ascii_case("source") && field(1).eq_ignore_ascii_case("destination")
}

fn record(record: &StringRecord, names: &HostNames) -> Result<Demand, Problem> {
    if record.iter().any(|field| field.contains('\n')) {
        return Err(Problem::OpenQuote);
    }
    match (record.get(0), record.get(1), record.get(2), record.len()) {
        (Some(source), Some(destination), None, _) => demand(names, source, destination, None),
        (Some(source), Some(destination), Some(text), 3) => {
            demand(names, source, destination, Some(rate(text)?))
        }
        _ => Err(Problem::Fields { fields: record.len() }),
    }
}

fn rate(text: &str) -> Result<u64, Problem> {
    let units = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = units.iter().find_map(|&(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    // `+5` parses as a number, but no traffic file means it as one.
    let number = digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+'));
    let rate = number.and_then(|number| number.checked_mul(unit)).filter(|&rate| rate > 0);
    rate.ok_or_else(|| Problem::Rate(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use crate::hosts::HostId;
    use crate::{Guid, PortNum};

    fn names() -> HostNames {
        HostNames::new([
            (Guid(0xa0), PortNum(1), "rack 1, node 1"),
            (Guid(0xa1), PortNum(1), "node 2"),
            (Guid(0xa2), PortNum(1), "twin"),
            (Guid(0xa3), PortNum(1), "twin"),
        ])
    }

    #[test]
    fn hosts_are_named_in_every_way_and_rates_have_units() {
        let text = "# who,to,how much\n\nSource, Destination, Rate\r\n\
                    0xa0,0x00000000000000a1\r\n  \n\
                    # in between\n\
                    \"rack 1, node 1\" , node 2, 400G\n\
                    2,3,64k\n3,2,2500M\n1,0,7";
        let demand = |source, destination, rate| Demand {
            source: HostId(source),
            destination: HostId(destination),
            rate,
            bytes: None,
        };
        let expected = [
            demand(0, 1, None),
            demand(0, 1, Some(400_000_000_000)),
            demand(2, 3, Some(64_000)),
            demand(3, 2, Some(2_500_000_000)),
            demand(1, 0, Some(7)),
        ];
        assert_eq!(parse(text.as_bytes(), &names()).unwrap(), expected);
        assert_eq!(parse(b"", &names()), Ok(vec![]));
        assert_eq!(parse(b"source,destination\n", &names()), Ok(vec![]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let cases: [(&[u8], &str); 14] = [
            (b"0,1\n\n# x\n0,nobody\n", "4: no host is called `nobody`"),
            (b"0,1\n0,4", "2: no host has number 4 (4 hosts, numbered from 0)"),
            (b"# x\r\n\r\n0,0xb0\r\n", "3: no host has port GUID `0xb0`"),
            (b"source,destination\n0,1\nsource,destination\n", "3: no host is called `source`"),
            (
                b"0,twin\n",
                "1: `twin` may be twin (0x00000000000000a2) or twin (0x00000000000000a3): name one of \
                 them, or its port GUID",
            ),
            (b"0\n", "1: 1 fields (expected source,destination or source,destination,rate)"),
            (b"0,1,2,3\n", "1: 4 fields (expected source,destination or source,destination,rate)"),
            (
                b"0,1\n0,1,\n",
                "2: bad rate `` (expected bit/s, at least 1, such as 400G, 2500M, 64k or 1000)",
            ),
            (
                b"0,1,0\n",
                "1: bad rate `0` (expected bit/s, at least 1, such as 400G, 2500M, 64k or 1000)",
            ),
            (
                b"0,1,99999999999G",
                "1: bad rate `99999999999G` (expected bit/s, at least 1, such as 400G, 2500M, 64k or 1000)",
            ),
            (b"0,1\n2,2\n", "2: host 2 sends to itself"),
            (b"0,1\n\"twin,3\n2,1\n", "3: a quoted field is not closed on this line"),
            (b"0,1\n0,\xff\n", "2: this is no text (binary data)"),
            (b"\x7fELF\x00\x00", "1: this is no text (binary data)"),
        ];
        for (text, told) in cases {
            let error = parse(text, &names()).unwrap_err();
            assert_eq!(error.to_string(), told, "{}", text.escape_ascii());
        }
    }
}

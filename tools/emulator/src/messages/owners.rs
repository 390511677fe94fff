//! Watches who owns which directed link when: never two at one moment.
//!
//! A message owns every link of its way while its port sends it. Spans of time are compared, not the order in
//! which they become known, so it does not matter how long a message took to be told of. Of each link the
//! spans of the last seconds are kept; a message that is told of later is counted, and not judged.

use std::collections::VecDeque;
use std::fmt;

use snin_fabric::{PortIndex, Topology};
use snin_protocol::Time;

/// Violations that are named; all are counted.
const NAMED: usize = 10;
/// Spans of a link that are kept, however short the horizon.
const SPANS: usize = 16_384;

/// Whose a message is: one connection's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The port that sends.
    pub port: PortIndex,
    /// The flow's number there.
    pub flow: u32,
}

/// A time for which a message owns a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// From then on.
    pub begin: Time,
    /// Until then, which is not part of it.
    pub end: Time,
    /// Whose.
    pub owner: Owner,
}

/// A link that was two connections' at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clash {
    /// The port that sends on it.
    pub link: PortIndex,
    /// The first moment.
    pub at: Time,
    /// For how long.
    pub length: Time,
    /// Whose it was known to be.
    pub owner: Owner,
    /// The owner that was told of later.
    pub other: Owner,
}

/// What is known of a link.
#[derive(Clone, Default, Debug)]
struct Link {
    /// In the order of their beginnings.
    spans: VecDeque<Span>,
    /// The longest that there was: what began earlier than that before a moment has ended by then.
    longest: Time,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Owners {
    /// By the port that sends.
    links: Vec<Link>,
    horizon: Time,
    spans: u64,
    handovers: u64,
    closest: Option<Time>,
    clashes: u64,
    unjudged: u64,
    named: Vec<Clash>,
}

impl Owners {
    /// For the links of a fabric with so many ports, and spans that are told of within `horizon`.
    pub fn new(ports: usize, horizon: Time) -> Self {
        Self {
            links: vec![Link::default(); ports],
            horizon,
            spans: 0,
            handovers: 0,
            closest: None,
            clashes: 0,
            unjudged: 0,
            named: Vec::new(),
        }
    }

    /// A message owned a link for a time.
    pub fn note(&mut self, link: PortIndex, span: Span, now: Time) {
        self.spans += 1;
        let Link { spans: known, longest } = &mut self.links[link.index()];
        while known.front().is_some_and(|old| old.end + self.horizon < now) {
            known.pop_front();
        }
        if span.end + self.horizon < now {
            self.unjudged += 1;
            return;
        }
        if known.len() >= SPANS {
            known.pop_front();
            self.unjudged += 1;
        }
        // What begins before the new one ends and ends after it begins is there at the same moment.
        let place = known.partition_point(|other| other.begin <= span.begin);
        let first = known.partition_point(|other| other.begin + *longest <= span.begin);
        let near = known.range(first..).take_while(|other| other.begin < span.end);
        for other in near.filter(|other| other.owner != span.owner) {
            let (at, end) = (other.begin.max(span.begin), other.end.min(span.end));
            if at < end {
                self.clashes += 1;
                if self.named.len() < NAMED {
                    let (owner, other) = (other.owner, span.owner);
                    self.named.push(Clash { link, at, length: end - at, owner, other });
                }
            }
        }
        let before = place.checked_sub(1).and_then(|place| known.get_mut(place));
        if let Some(before) = before
            && before.owner == span.owner
            && before.end >= span.begin
        {
            before.end = before.end.max(span.end);
            *longest = (*longest).max(before.end - before.begin);
            return;
        }
        let before = place.checked_sub(1).map(|place| known[place]);
        let after = known.get(place).copied();
        let pairs = [before.map(|before| (before, span)), after.map(|after| (span, after))];
        for (first, second) in pairs.into_iter().flatten() {
            if first.owner != second.owner && first.end <= second.begin {
                self.handovers += 1;
                let gap = second.begin - first.end;
                self.closest = Some(self.closest.map_or(gap, |closest| closest.min(gap)));
            }
        }
        known.insert(place, span);
        *longest = (*longest).max(span.end - span.begin);
    }

    /// How often a link was two connections' at one moment.
    pub const fn clashes(&self) -> u64 {
        self.clashes
    }

    /// The first of them.
    pub fn named(&self) -> &[Clash] {
        &self.named
    }

    /// Times for which a message owned a link.
    pub const fn spans(&self) -> u64 {
        self.spans
    }

    /// How often a link went from one connection to another, counting anew what was told of out of order.
    pub const fn handovers(&self) -> u64 {
        self.handovers
    }

    /// The shortest time between two owners of a link.
    pub const fn closest(&self) -> Option<Time> {
        self.closest
    }

    /// What was told of too late, or was too much to be kept: the verdict does not cover it.
    pub const fn unjudged(&self) -> u64 {
        self.unjudged
    }
}

impl Clash {
    /// With the names of link and ports.
    pub fn named<'a>(&'a self, topology: &'a Topology) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let Self { link, at, length, owner, other } = self;
            let name = |port: PortIndex| topology.port_name(port);
            write!(
                f,
                "{} at {at} for {length}: flow {} of {} and flow {} of {}",
                name(*link),
                owner.flow,
                name(owner.port),
                other.flow,
                name(other.port)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: PortIndex = PortIndex(0);

    fn span(owner: u32, begin: u64, end: u64) -> Span {
        let owner = Owner { port: PortIndex(owner), flow: 0 };
        Span { begin: Time(begin), end: Time(end), owner }
    }

    fn judged(spans: &[Span]) -> Owners {
        let mut owners = Owners::new(1, Time(1000));
        spans.iter().for_each(|&span| owners.note(LINK, span, Time(100)));
        owners
    }

    #[test]
    fn one_after_the_other_is_well_in_whatever_order_it_is_told() {
        let spans = [span(1, 0, 10), span(2, 10, 20), span(1, 25, 30), span(3, 30, 31)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let owners = judged(&order.map(|place| spans[place]));
            assert_eq!((owners.clashes(), owners.spans()), (0, 4), "{order:?}");
        }
        let owners = judged(&spans);
        assert_eq!((owners.handovers(), owners.closest()), (3, Some(Time::ZERO)));
    }

    #[test]
    fn two_at_one_moment_are_named() {
        for (one, other, at, length) in [
            (span(1, 0, 10), span(2, 9, 20), 9, 1),
            (span(2, 9, 20), span(1, 0, 10), 9, 1),
            (span(1, 0, 100), span(2, 40, 50), 40, 10),
            (span(1, 40, 50), span(2, 0, 100), 40, 10),
        ] {
            let owners = judged(&[one, other]);
            assert_eq!(owners.clashes(), 1);
            let (owner, other) = (one.owner, other.owner);
            let (at, length) = (Time(at), Time(length));
            assert_eq!(owners.named(), [Clash { link: LINK, at, length, owner, other }]);
        }
        // Two flows of one port are two connections.
        let other = Span { owner: Owner { port: PortIndex(1), flow: 1 }, ..span(1, 5, 6) };
        assert_eq!(judged(&[span(1, 0, 10), other]).clashes(), 1);
    }

    #[test]
    fn a_message_in_pieces_is_one_span_and_still_clashes() {
        let pieces: Vec<Span> = (0..50).map(|n| span(1, n * 2, n * 2 + 2)).collect();
        let mut owners = judged(&pieces);
        assert_eq!((owners.clashes(), owners.links[0].spans.len()), (0, 1));
        owners.note(LINK, span(2, 51, 52), Time(100));
        assert_eq!(owners.clashes(), 1);
    }

    #[test]
    fn what_is_told_too_late_is_counted() {
        let mut owners = judged(&[span(1, 0, 10)]);
        owners.note(LINK, span(2, 5, 6), Time(2000));
        assert_eq!((owners.clashes(), owners.unjudged()), (0, 1));
    }
}

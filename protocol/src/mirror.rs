//! What a standby subnet manager and its master say to each other, so that the standby has a copy of the subnet
//! database.
//!
//! The standby calls. It says [`Follow`]: what it has already, by the master's term and a place in its log. The
//! master answers with [`Part`]s: the log from there on, or, where the log does not reach back so far, the whole
//! database. Each part is acknowledged by [`Have`], and at most [`WINDOW`] of them are on their way. The master
//! says [`Standing`] regularly, besides all other messages, and now and then the [`Checksum`] of a table.

use snin_fabric::Guid;

use crate::election::Ballot;

/// The most bytes of lines in one part.
pub const MAX_LINES: usize = 48 << 10;
/// Parts that may be on their way.
pub const WINDOW: usize = 16;

/// What a standby says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromStandby {
    /// It wants to have the database.
    Follow(Follow),
    /// It has a part.
    Have(Have),
    /// It says what it is in the election.
    Ballot(Ballot),
}

/// What the called manager says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromMaster {
    /// What it is; a heartbeat too.
    Standing(Standing),
    /// Lines of the database.
    Part(Part),
    /// What the copy of a table has to come to.
    Checksum(Checksum),
}

/// A standby wants what comes after what it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follow {
    /// The standby's port.
    pub guid: Guid,
    /// The term of what it has; 0: it has nothing.
    pub term: u64,
    /// Up to where it has the log of that term.
    pub sequence: u64,
}

/// A standby has all up to here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Have {
    /// As the part said.
    pub term: u64,
    /// As the part said.
    pub sequence: u64,
}

/// What a manager is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its port.
    pub guid: Guid,
    /// Its mastership, greater than all before; 0: it is not master.
    pub term: u64,
    /// Of one that stands by: its last mastership, where no other manager has all that was known then. The master
    /// asks for it as a standby does; 0: there is none.
    pub holds: u64,
    /// Where its log ends.
    pub sequence: u64,
    /// The masters that took over from each other with a copy, of which this is the last.
    pub line: Line,
    /// Its settings, a line each, where they have to be the same at all managers. At most [`MAX_LINES`] bytes.
    pub settings: Vec<u8>,
}

/// Masters that took over from each other with a copy, by the first of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Line {
    /// Its mastership.
    pub term: u64,
    /// Its port: two managers may begin in the same nanosecond.
    pub origin: Guid,
}

/// Lines of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The mastership whose log this is.
    pub term: u64,
    /// A standby that has this part has the log up to here.
    pub sequence: u64,
    /// What the lines are.
    pub kind: PartKind,
    /// At most [`MAX_LINES`] bytes.
    pub lines: Vec<u8>,
}

/// What a part's lines are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PartKind {
    /// The beginning of the whole database.
    First,
    /// More of it.
    More,
    /// Its end: what was in no part is not in the database.
    Last,
    /// What has changed.
    Change,
}

/// What the copy of a table comes to, when it has the log up to `sequence`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// The mastership.
    pub term: u64,
    /// Where its log ends.
    pub sequence: u64,
    /// The table, counted from 0.
    pub table: u8,
    /// How many records are in it.
    pub records: u64,
    /// The sum of its lines' hashes.
    pub sum: u64,
}

//! Collectives: a pattern of connections among many ports as one entry of a lease.
//!
//! A collective goes through *phases*, one after the other and then from the first again. In a phase each member
//! sends to one other member at most, and is sent to by one at most. Where a kind has several phases each lasts a
//! *slot*, and the slots of all members begin at the same moments of the controller's clock. Controller and agents
//! find out who sends to whom with the same function, [`CollectiveKind::peer`].
//!
//! Members are numbered from 0 in the order of the entry: their *places*.

use std::fmt::{self, Display};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::{Dlid, Guid, TreeId};

use crate::Time;

/// The most members: a controller looks at the way from each to each in the loop that decides windows.
pub const MAX_MEMBERS: usize = 256;

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// Each to the next. One phase.
    Ring,
    /// Each to the next, then to the previous. Two phases.
    BidirectionalRing,
    /// Each to the one whose place differs in one bit, bit after bit. log2 of the members phases; their number
    /// is a power of two.
    HalvingDoubling,
    /// Each to the next, then to the one after that, up to the previous. One phase less than there are members.
    AllToAll,
    /// Each to both neighbours in each dimension; at the ends there is none. Two phases a dimension.
    Grid(Dims),
    /// As a grid, but the ends of each dimension are neighbours.
    Halo(Dims),
}

/// How many members lie in each dimension, the first one counting fastest; 1 where there is no such dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Dims {
    /// The first.
    pub x: u16,
    /// The second.
    pub y: u16,
    /// The third.
    pub z: u16,
}

impl Dims {
    const fn sizes(self) -> [u32; 3] {
        [self.x as u32, self.y as u32, self.z as u32]
    }

    /// How many members they make.
    pub const fn members(self) -> u32 {
        self.product()
    }

    /// Of sizes from outside it may be more than 32 bits hold.
    const fn product(self) -> u32 {
        (self.x as u32).saturating_mul(self.y as u32).saturating_mul(self.z as u32)
    }

    /// Dimensions of more than one member, as (members, distance of neighbours in places).
    fn lines(self) -> impl Iterator<Item = (u32, u32)> {
        let steps = self.sizes().into_iter().scan(1_u32, |step: &mut u32, size| {
            let own = *step;
            *step = step.saturating_mul(size);
            Some((size, own))
        });
        steps.filter(|&(size, _)| size > 1)
    }
}

impl Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

impl FromStr for Dims {
    type Err = String;

    /// Such as 8x8 or 4x4x4.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text:.40}`: expected one to three sizes, such as 8x8 or 4x4x4");
        let sizes: Vec<u16> = text
            .split('x')
            .map(|size| size.parse().ok().filter(|&size: &u16| size > 0))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let size = |place: usize| sizes.get(place).copied().unwrap_or(1);
        let dims = Self { x: size(0), y: size(1), z: size(2) };
        let many = sizes.iter().try_fold(1_u32, |all, &size| all.checked_mul(size.into()));
        let fits = many.is_some_and(|many| many as usize <= MAX_MEMBERS);
        if sizes.len() > 3 || !fits { Err(wrong()) } else { Ok(dims) }
    }
}

/// Why so many members cannot do that. One line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollectiveKindError {
    /// Too few.
    #[error("a collective has at least 2 members, not {0}")]
    Few(u32),
    /// Too many.
    #[error("a collective has at most {MAX_MEMBERS} members, not {0}")]
    Many(u32),
    /// No power of two.
    #[error("halving-doubling takes a power of two of members, not {0}: {1} or {2}")]
    NoPower(u32, u32, u32),
    /// Other dimensions than members.
    #[error("{dims} makes {product} members, but there are {members}")]
    Dims {
        /// The dimensions.
        dims: Dims,
        /// Their product.
        product: u32,
        /// How many there are.
        members: u32,
    },
}

impl CollectiveKind {
    /// How many phases it has with so many members.
    ///
    /// # Errors
    /// Where so many members cannot do it.
    pub fn phases(self, members: u32) -> Result<u32, CollectiveKindError> {
        if members < 2 {
            return Err(CollectiveKindError::Few(members));
        } else if members as usize > MAX_MEMBERS {
            return Err(CollectiveKindError::Many(members));
        }
        Ok(match self {
            Self::Ring => 1,
            Self::BidirectionalRing => 2,
            Self::AllToAll => members - 1,
            Self::HalvingDoubling if !members.is_power_of_two() => {
                let above = members.next_power_of_two();
                return Err(CollectiveKindError::NoPower(members, above / 2, above));
            }
            Self::HalvingDoubling => members.trailing_zeros(),
            Self::Grid(dims) | Self::Halo(dims) => {
                let product = dims.product();
                if product != members {
                    return Err(CollectiveKindError::Dims { dims, product, members });
                }
                2 * dims.lines().count() as u32
            }
        })
    }

    /// The place that the member at a place below `members` sends to in a phase; `None` where it sends nothing.
    pub fn peer(self, members: u32, place: u32, phase: u32) -> Option<u32> {
        let after = |distance: u32| Some((place + distance) % members);
        let peer = match self {
            Self::Ring => after(1),
            Self::BidirectionalRing => after(if phase == 0 { 1 } else { members - 1 }),
            Self::HalvingDoubling => Some(place ^ (1 << phase)),
            Self::AllToAll => after(phase + 1),
            Self::Grid(dims) | Self::Halo(dims) => {
                let (size, step) = dims.lines().nth(phase as usize / 2)?;
                let at = place / step % size;
                let up = phase.is_multiple_of(2);
                let to = if up { (at + 1) % size } else { (at + size - 1) % size };
                let wraps = if up { to < at } else { to > at };
                let stays = matches!(self, Self::Grid(_)) && wraps;
                (!stays).then(|| place - at * step + to * step)
            }
        };
        peer.filter(|&peer| peer != place && peer < members)
    }

    /// How many others a member sends to at most, and so queue pairs that it needs.
    pub fn peers(self, members: u32) -> u32 {
        let Ok(phases) = self.phases(members) else { return 0 };
        let of = |place: u32| {
            let mut peers: Vec<u32> =
                (0..phases).filter_map(|phase| self.peer(members, place, phase)).collect();
            peers.sort_unstable();
            peers.dedup();
            peers.len() as u32
        };
        // All-to-all is the only kind with more than a few phases, and there all members are alike.
        match self {
            Self::AllToAll => phases,
            _ => (0..members).map(of).max().unwrap_or(0),
        }
    }

    /// The bytes that a member sends in all, each to a peer in a phase of its own, where each has `bytes` of its
    /// own: an all-reduce by ring or by halving-doubling (reduce-scatter, then all-gather), an exchange with
    /// every other one, or the whole to each neighbour.
    pub fn bytes_sent(self, members: u32, bytes: u64) -> u64 {
        let (all, own) = (u128::from(members), u128::from(bytes));
        let sent = match self {
            Self::Ring | Self::BidirectionalRing | Self::HalvingDoubling => {
                2 * own * (all - 1) / all
            }
            Self::AllToAll => own * (all - 1) / all,
            Self::Grid(_) | Self::Halo(_) => own * u128::from(self.phases(members).unwrap_or(0)),
        };
        u64::try_from(sent).unwrap_or(u64::MAX)
    }

    /// Its name, as in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::BidirectionalRing => "bidir",
            Self::HalvingDoubling => "hd",
            Self::AllToAll => "alltoall",
            Self::Grid(_) => "grid",
            Self::Halo(_) => "halo",
        }
    }
}

impl Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grid(dims) | Self::Halo(dims) => write!(f, "{} {dims}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

impl FromStr for CollectiveKind {
    type Err = String;

    /// Such as `ring`, or `halo:4x4`: its name, and of a grid or halo its dimensions.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, dims) =
            text.split_once(':').map_or((text, None), |(name, dims)| (name, Some(dims)));
        let simple = [Self::Ring, Self::BidirectionalRing, Self::HalvingDoubling, Self::AllToAll];
        let simple = simple.into_iter().find(|kind| kind.name() == name);
        match (simple, name, dims) {
            (Some(kind), _, None) => Ok(kind),
            (None, "grid", Some(dims)) => Ok(Self::Grid(dims.parse()?)),
            (None, "halo", Some(dims)) => Ok(Self::Halo(dims.parse()?)),
            _ => Err(format!(
                "`{text:.40}`: expected ring, bidir, hd, alltoall, grid:AxB or halo:AxB"
            )),
        }
    }
}

/// A member, as the entry of another one's lease names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its port.
    pub port: Guid,
    /// Its address along the tree of the one that the entry is for.
    pub dlid: Dlid,
}

/// Leave to take part in a collective, in the term of the frame that says so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Collective {
    /// Who sends to whom.
    pub kind: CollectiveKind,
    /// Every member, this one too. At most [`MAX_MEMBERS`].
    pub members: Vec<Member>,
    /// The place of this one.
    pub place: u16,
    /// The tree along which it sends to all others.
    pub tree: TreeId,
    /// When the first phase began, or begins.
    pub origin: Time,
    /// How long a phase lasts; of no account where there is only one.
    pub slot: Time,
    /// So long before the slot's end nothing is sent any more.
    pub gap: Time,
    /// From then on, by the controller's clock.
    pub from: Time,
    /// Until then, less the guard.
    pub until: Time,
    /// Bit/s of the slowest link of all members' ways; 0: not known.
    pub rate: u64,
    /// The service level to send with, 0 to 15.
    pub sl: u8,
}

/// A part of the time, in which this member may send to one other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeSlot {
    /// The receiver; `None`: this member sends nothing.
    pub to: Option<Member>,
    /// From then on.
    pub from: Time,
    /// Until then, less the guard.
    pub until: Time,
    /// When the next one begins.
    pub next: Time,
}

impl Collective {
    /// Whether it says what a controller may say.
    pub fn is_sound(&self) -> bool {
        let Ok(phases) = self.kind.phases(self.members.len() as u32) else { return false };
        let has_slots = phases == 1 || self.slot > self.gap;
        has_slots && usize::from(self.place) < self.members.len() && self.from < self.until
    }

    /// The time slot at a moment, or the first one where that is before it. Sound ones have one at any time.
    pub fn time_slot_at(&self, now: Time) -> Option<TimeSlot> {
        let members = self.members.len() as u32;
        let phases = self.kind.phases(members).ok().filter(|_| self.is_sound())?;
        let to = |phase: u32| {
            let peer = self.kind.peer(members, self.place.into(), phase)?;
            self.members.get(peer as usize).copied()
        };
        if phases == 1 {
            let (from, until) = (self.from, self.until);
            return Some(TimeSlot { to: to(0), from, until, next: until });
        }
        let passed = now.max(self.from).nanos().saturating_sub(self.origin.nanos());
        let slot = passed.checked_div(self.slot.nanos())?;
        let from = self.origin + self.slot * slot;
        let next = from + self.slot;
        let until = (next - self.gap).min(self.until);
        let to = to((slot % u64::from(phases)) as u32);
        Some(TimeSlot { to, from: from.max(self.from), until, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [CollectiveKind; 7] = [
        CollectiveKind::Ring,
        CollectiveKind::BidirectionalRing,
        CollectiveKind::HalvingDoubling,
        CollectiveKind::AllToAll,
        CollectiveKind::Grid(Dims { x: 4, y: 2, z: 2 }),
        CollectiveKind::Halo(Dims { x: 4, y: 4, z: 1 }),
        CollectiveKind::Halo(Dims { x: 2, y: 8, z: 1 }),
    ];

    #[test]
    fn in_each_phase_nobody_is_sent_to_twice() {
        for kind in KINDS {
            for phase in 0..kind.phases(16).unwrap() {
                let mut to: Vec<u32> = (0..16).filter_map(|at| kind.peer(16, at, phase)).collect();
                let sent = to.len();
                to.sort_unstable();
                to.dedup();
                assert_eq!(to.len(), sent, "{kind}, phase {phase}");
                assert!(
                    sent == 16 || matches!(kind, CollectiveKind::Grid(_)),
                    "{kind}, phase {phase}"
                );
            }
        }
    }

    #[test]
    fn everybody_is_sent_to_that_the_kind_says() {
        let peers = |kind: CollectiveKind, place: u32| {
            let phases = 0..kind.phases(16).unwrap();
            let mut peers: Vec<u32> =
                phases.filter_map(|phase| kind.peer(16, place, phase)).collect();
            peers.sort_unstable();
            peers.dedup();
            peers
        };
        assert_eq!(peers(CollectiveKind::Ring, 15), [0]);
        assert_eq!(peers(CollectiveKind::BidirectionalRing, 0), [1, 15]);
        assert_eq!(peers(CollectiveKind::HalvingDoubling, 5), [1, 4, 7, 13]);
        assert_eq!(peers(CollectiveKind::AllToAll, 3).len(), 15);
        assert_eq!(peers(CollectiveKind::Grid(Dims { x: 4, y: 4, z: 1 }), 0), [1, 4]);
        assert_eq!(peers(CollectiveKind::Halo(Dims { x: 4, y: 4, z: 1 }), 0), [1, 3, 4, 12]);
        assert_eq!(KINDS.map(|kind| kind.peers(16)), [1, 2, 4, 15, 4, 4, 3]);
    }

    #[test]
    fn members_that_cannot_are_told_why() {
        let why = |kind: CollectiveKind, members| kind.phases(members).unwrap_err().to_string();
        assert_eq!(
            why(CollectiveKind::HalvingDoubling, 12),
            "halving-doubling takes a power of two of members, not 12: 8 or 16"
        );
        assert_eq!(
            why(CollectiveKind::Halo(Dims { x: 3, y: 4, z: 1 }), 16),
            "3x4x1 makes 12 members, but there are 16"
        );
        assert!(why(CollectiveKind::Ring, 1).contains("at least 2"));
        assert!(why(CollectiveKind::AllToAll, 257).contains("at most 256"));
        assert_eq!("8x8".parse(), Ok(Dims { x: 8, y: 8, z: 1 }));
        for wrong in ["", "0x4", "8*8", "2x2x2x2", "65535x65535"] {
            assert!(wrong.parse::<Dims>().unwrap_err().contains("expected"), "{wrong}");
        }
    }

    #[test]
    fn time_slots_follow_each_other() {
        let member = |port: u64| Member { port: Guid(port), dlid: Dlid(snin_fabric::Lid(1)) };
        let collective = Collective {
            kind: CollectiveKind::AllToAll,
            members: (0..4).map(member).collect(),
            place: 3,
            tree: TreeId(0),
            origin: Time(100),
            slot: Time(10),
            gap: Time(2),
            from: Time(100),
            until: Time(165),
            rate: 0,
            sl: 0,
        };
        assert!(collective.is_sound());
        let slots = [0, 100, 109, 110, 129, 130, 160].map(|at| {
            let slot = collective.time_slot_at(Time(at)).unwrap();
            (slot.to.unwrap().port.0, slot.from.0, slot.until.0)
        });
        let (first, again) = ((0, 100, 108), (0, 130, 138));
        assert_eq!(
            slots,
            [first, first, first, (1, 110, 118), (2, 120, 128), again, (0, 160, 165)]
        );
    }
}

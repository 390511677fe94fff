//! Reading: which records there are, which of them match, and which may be seen.

use snin_fabric::{Guid, Lid};
use snin_mad::Method;
use snin_mad::sa::*;

use crate::answer::SaResult;
use crate::answer::{Answer, append};
use crate::trust::Requester;
use crate::world::World;
use snin_sm_database::records::{Place, Port};

/// The longest answer, in bytes: more than every table of the largest fabric.
pub(super) const LONGEST: usize = 16 << 20;

/// A request to read records, and what matched so far.
pub(super) struct RecordQuery<'a> {
    pub(super) requester: &'a Requester,
    pub(super) mask: ComponentMask,
    pub(super) modifier: u32,
    components: &'static [Component],
    wanted: Vec<u8>,
    found: Vec<u8>,
    overflow: bool,
    /// Where the record's first address leads: records of other ports need not be made.
    pub(super) at: At,
}

/// Which ports records can be of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// Of any.
    Anywhere,
    /// Of none: no port has the address.
    Nowhere,
    /// Of this one, or, where it is a switch's, of all of the switch's.
    Port(Place),
}

impl<'a> RecordQuery<'a> {
    pub(super) fn new<R: Record>(
        requester: &'a Requester,
        request: &SaRequest,
        world: &World<'_>,
    ) -> Self {
        let mut wanted = request.data.clone();
        wanted.resize(wanted.len().max(R::ZERO.as_ref().len()), 0);
        let mut at = At::Anywhere;
        // Bit 0 is the LID of every record that has one; any address of a port stands for the first.
        let by_lid = R::COMPONENTS.first().is_some_and(|first| first.place.width == 16);
        if by_lid && request.mask.has(0) {
            let lid = Lid(u16::from_be_bytes([wanted[0], wanted[1]]));
            at = match world.database.by_lid(lid) {
                None => At::Nowhere,
                Some((place, port)) => {
                    wanted[..2].copy_from_slice(&port.base.0.to_be_bytes());
                    At::Port(place)
                }
            };
        }
        Self {
            requester,
            mask: request.mask,
            modifier: request.modifier,
            components: R::COMPONENTS,
            wanted,
            found: Vec::new(),
            overflow: false,
            at,
        }
    }

    /// Takes the record if it matches.
    pub(super) fn offer<R: Record>(&mut self, record: &R) {
        let bytes = record.bytes();
        if self.is_wanted(bytes.as_ref()) {
            if self.found.len() + bytes.as_ref().len() > LONGEST {
                self.overflow = true;
                return;
            }
            append(&mut self.found, record);
        }
    }

    pub(super) fn is_wanted(&self, record: &[u8]) -> bool {
        matches(self.components, self.mask, &self.wanted, record)
    }

    /// The request's own record.
    pub(super) fn asked<R: Record + Default>(&self) -> R {
        R::from_bytes(&self.wanted).unwrap_or_default()
    }

    /// Leaves a component out of the comparison: it means something else here.
    pub(super) const fn ignore(&mut self, bit: u8) {
        self.mask = ComponentMask(self.mask.0 & !(1 << bit));
    }

    /// What is said of what matched.
    pub(super) fn answer<R: Record>(self, method: Method) -> SaResult {
        if self.overflow {
            return Err(SaStatus::NO_RESOURCES);
        }
        let answer = Answer::table(R::stride(), self.found);
        match method {
            Method::Get => answer.only(),
            _ => Ok(answer),
        }
    }

    /// Whether the requester may know of the port.
    pub(super) fn sees(&self, port: &Port) -> bool {
        self.requester.sees(port)
    }

    /// The ports with an address that records can be of.
    pub(super) fn ends<'w>(&self, world: &'w World<'_>) -> Vec<(Place, &'w Port)> {
        match self.at {
            At::Nowhere => Vec::new(),
            At::Anywhere => world.database.ends().collect(),
            At::Port(place) => {
                let port = world.database.get::<snin_sm_database::records::Ports>(&place);
                port.map(|port| (place, port)).into_iter().collect()
            }
        }
    }

    /// Every port that records can be of: of a switch all.
    pub(super) fn ports<'w>(&self, world: &'w World<'_>) -> Vec<(Place, &'w Port)> {
        let database = &*world.database;
        match self.at {
            At::Nowhere => Vec::new(),
            At::Anywhere => {
                let all = database.all::<snin_sm_database::records::Ports>().iter();
                all.map(|(place, port)| (*place, port)).collect()
            }
            At::Port((node, num)) if is_switch(world, node) => {
                debug_assert_eq!(num, snin_fabric::PortNum::ZERO);
                database.ports_of(node).collect()
            }
            At::Port(_) => self.ends(world),
        }
    }
}

pub(super) fn is_switch(world: &World<'_>, node: Guid) -> bool {
    let node = world.database.get::<snin_sm_database::records::Nodes>(&node);
    node.is_some_and(|node| node.info.node_type == snin_mad::NodeType::Switch)
}

//! Directed routes in motion: what a node does with the hop pointer (IBA 14.2.2).
//!
//! ```text
//!  request   DrSLID given: LID-routed   |  path[1]     path[2] .. path[n]  |  DrDLID given: LID-routed
//!  pointer   0                          0->1        2             n      n->n+1                      n+1
//!  answer    0                       1->0          2              n      n+1->n                      n+1
//! ```

use snin_fabric::{Lid, PortNum};

use crate::header::{Class, Directed};
use crate::mad::Mad;
use crate::path::{DrPath, PERMISSIVE};

/// What a node needs to know of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Here {
    /// Whether it may pass packets on.
    pub is_switch: bool,
    /// Number of physical ports.
    pub ports: u8,
}

/// What to do with an SMP now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It is for this node: its agent or its manager.
    Deliver,
    /// Send it out by this port, to the permissive LID.
    Out(PortNum),
    /// Route it to this LID by the forwarding table, with this node's LID as its source. The LID may be this
    /// node's own: the SMP then arrives once more, as one that was routed by LID.
    Forward(Lid),
    /// Route it by LID: a request to the switch where its directed part begins, an answer to where the
    /// request came from. The SMP itself does not say which LID that is.
    Addressed,
    /// Drop it.
    Drop(Dropped),
}

/// Why an SMP was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Dropped {
    /// No directed-route SMP at all.
    #[error("not of the directed-route class")]
    Class,
    /// More than 63 hops.
    #[error("more than 63 hops")]
    HopCount,
    /// The pointer says what cannot be here.
    #[error("unreasonable hop pointer")]
    HopPointer,
    /// The path goes on, but this is no switch.
    #[error("the path leads through an adapter")]
    NotASwitch,
    /// The path names a port that this node does not have.
    #[error("the path names a port that is not there")]
    NoSuchPort,
}

/// An SMP starts here: a request of this node's manager, an answer of its agent.
pub fn depart(mad: &mut Mad, here: Here) -> Step {
    hop(mad, |packet| {
        let at_start = if packet.returning { packet.hops + 1 } else { 0 };
        if packet.pointer != at_start {
            return Err(Dropped::HopPointer);
        }
        match packet.returning {
            false if packet.begins_by_lid => Ok(Step::Addressed),
            false => packet.begin(here),
            true if packet.ends_by_lid => Ok(Step::Addressed),
            true => packet.turn_back(here),
        }
    })
}

/// An SMP came in by `port`; by any port at all if it came routed by LID.
pub fn arrive(mad: &mut Mad, here: Here, port: PortNum) -> Step {
    hop(mad, |packet| {
        let (pointer, hops) = (packet.pointer, packet.hops);
        if packet.returning {
            return match pointer {
                0 => Ok(Step::Deliver),
                _ if pointer == hops + 1 && packet.ends_by_lid => {
                    packet.only_a_switch(here)?.turn_back(here)
                }
                _ if pointer == hops + 1 => Err(Dropped::HopPointer),
                1 => packet.back_at_start(here),
                _ => packet.only_a_switch(here)?.back(here, pointer - 1),
            };
        }
        match pointer {
            0 if packet.begins_by_lid => packet.only_a_switch(here)?.begin(here),
            0 => Err(Dropped::HopPointer),
            _ if pointer == hops + 1 && packet.ends_by_lid => Ok(Step::Deliver),
            _ if pointer == hops + 1 => Err(Dropped::HopPointer),
            _ => {
                packet.bytes[RETURN_PATH + usize::from(pointer)] = port.0;
                if pointer == hops {
                    packet.end_of_path(here)
                } else {
                    packet.only_a_switch(here)?.forth(here, pointer + 1)
                }
            }
        }
    })
}

/// Where the two paths begin in the MAD (IBA 14.2.1.2).
const INITIAL_PATH: usize = 128;
const RETURN_PATH: usize = 192;

/// The header's fields that decide, and the bytes that change.
struct Packet<'a> {
    bytes: &'a mut [u8; 256],
    returning: bool,
    pointer: u8,
    hops: u8,
    begins_by_lid: bool,
    ends_by_lid: bool,
}

fn hop(mad: &mut Mad, decide: impl FnOnce(Packet<'_>) -> Result<Step, Dropped>) -> Step {
    if mad.header().class() != Class::DirectedSubnet {
        return Step::Drop(Dropped::Class);
    }
    let view = mad.directed();
    let (pointer, hops) = (view.hop_pointer(), view.hop_count());
    if usize::from(hops) > DrPath::MAX_HOPS {
        return Step::Drop(Dropped::HopCount);
    }
    if pointer > hops + 1 {
        return Step::Drop(Dropped::HopPointer);
    }
    let packet = Packet {
        returning: view.returning(),
        pointer,
        hops,
        begins_by_lid: view.dr_slid() != PERMISSIVE,
        ends_by_lid: view.dr_dlid() != PERMISSIVE,
        bytes: &mut mad.0,
    };
    decide(packet).unwrap_or_else(Step::Drop)
}

impl Packet<'_> {
    fn only_a_switch(self, here: Here) -> Result<Self, Dropped> {
        if here.is_switch { Ok(self) } else { Err(Dropped::NotASwitch) }
    }

    fn begin(self, here: Here) -> Result<Step, Dropped> {
        if self.hops == 0 { self.end_of_path(here) } else { self.forth(here, 1) }
    }

    fn turn_back(self, here: Here) -> Result<Step, Dropped> {
        let hops = self.hops;
        if hops == 0 { self.back_at_start(here) } else { self.back(here, hops) }
    }

    fn forth(self, here: Here, pointer: u8) -> Result<Step, Dropped> {
        let port = self.bytes[INITIAL_PATH + usize::from(pointer)];
        self.out(here, pointer, port)
    }

    fn back(self, here: Here, pointer: u8) -> Result<Step, Dropped> {
        let port = self.bytes[RETURN_PATH + usize::from(pointer)];
        self.out(here, pointer, port)
    }

    fn out(self, here: Here, pointer: u8, port: u8) -> Result<Step, Dropped> {
        if port == 0 || port > here.ports {
            return Err(Dropped::NoSuchPort);
        }
        Directed::edit(self.bytes).hop_pointer(pointer);
        Ok(Step::Out(PortNum(port)))
    }

    fn end_of_path(self, here: Here) -> Result<Step, Dropped> {
        if self.ends_by_lid && !here.is_switch {
            return Err(Dropped::NotASwitch);
        }
        Directed::edit(self.bytes).hop_pointer(self.hops + 1);
        let to = Directed::view(self.bytes).dr_dlid();
        Ok(if self.ends_by_lid { Step::Forward(to) } else { Step::Deliver })
    }

    fn back_at_start(self, here: Here) -> Result<Step, Dropped> {
        if self.begins_by_lid && !here.is_switch {
            return Err(Dropped::NotASwitch);
        }
        Directed::edit(self.bytes).hop_pointer(0);
        let to = Directed::view(self.bytes).dr_slid();
        Ok(if self.begins_by_lid { Step::Forward(to) } else { Step::Deliver })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::Attribute;
    use crate::header::Status;
    use crate::node::NodeInfo;
    use crate::path::Route;
    use crate::smp::Smp;

    const SWITCH: Here = Here { is_switch: true, ports: 36 };
    const ADAPTER: Here = Here { is_switch: false, ports: 1 };

    fn request(route: Route) -> Mad {
        Smp::get(NodeInfo::ID, 0, route).mad()
    }

    fn path(ports: &[u8]) -> DrPath {
        DrPath::new(ports).unwrap()
    }

    fn out(port: u8) -> Step {
        Step::Out(PortNum(port))
    }

    /// Adapter port 1 - 7 switch 8 - 1 switch 2 - 1 adapter, there and back.
    #[test]
    fn a_directed_route_goes_there_and_back() {
        let mut mad = request(Route::directed(path(&[1, 8, 2])));
        assert_eq!(depart(&mut mad, ADAPTER), out(1));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), out(8));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(1)), out(2));
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Deliver);
        assert_eq!(Smp::parse(&mad.0).unwrap().return_path, path(&[7, 1, 1]));
        assert!(mad.answer(Status::OK));
        assert_eq!(depart(&mut mad, ADAPTER), out(1));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(2)), out(1));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(8)), out(7));
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Deliver);
        assert_eq!(mad.directed().hop_pointer(), 0);
    }

    #[test]
    fn no_hops_is_the_node_itself() {
        let mut mad = request(Route::directed(DrPath::HERE));
        assert_eq!(depart(&mut mad, ADAPTER), Step::Deliver);
        assert!(mad.answer(Status::OK));
        assert_eq!(depart(&mut mad, ADAPTER), Step::Deliver);
        assert_eq!(mad.directed().hop_pointer(), 0);
    }

    #[test]
    fn a_route_may_begin_by_lid() {
        let mut mad = request(Route::lid_then_directed(Lid(5), path(&[8])));
        assert_eq!(depart(&mut mad, ADAPTER), Step::Addressed);
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(3)), out(8));
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Deliver);
        assert!(mad.answer(Status::OK));
        assert_eq!(depart(&mut mad, ADAPTER), out(1));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(8)), Step::Forward(Lid(5)));
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Deliver);
    }

    #[test]
    fn a_route_may_end_by_lid() {
        let mut mad = request(Route::directed_then_lid(path(&[1]), Lid(9)));
        assert_eq!(depart(&mut mad, ADAPTER), out(1));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), Step::Forward(Lid(9)));
        // By tables over any switches: those do not look. Then, at LID 9:
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Deliver);
        assert!(mad.answer(Status::OK));
        assert_eq!(depart(&mut mad, ADAPTER), Step::Addressed);
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(20)), out(7));
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Deliver);
    }

    #[test]
    fn what_cannot_be_is_dropped_by_name() {
        let mut mad = request(Route::directed(path(&[1, 8, 40])));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), Step::Drop(Dropped::HopPointer));
        assert_eq!(depart(&mut mad, ADAPTER), out(1));
        assert_eq!(arrive(&mut mad, ADAPTER, PortNum(1)), Step::Drop(Dropped::NotASwitch));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), out(8));
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), Step::Drop(Dropped::NoSuchPort));
        Directed::edit(&mut mad.0).hop_count(64);
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), Step::Drop(Dropped::HopCount));
        let mut mad = request(Route::Lid);
        assert_eq!(arrive(&mut mad, SWITCH, PortNum(7)), Step::Drop(Dropped::Class));
    }
}

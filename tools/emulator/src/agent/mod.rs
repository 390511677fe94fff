//! The agents of a node: what they answer to whom (IBA 13.4, 14.2, 16.1).

mod blocks;
mod lanes;
mod m_key;
mod node;
mod performance;
mod port;
mod switch;

use snin_fabric::{NodeIndex, PortNum};
use snin_mad::{
    Attribute, Class, GuidInfo, Header, LedInfo, LinearForwarding, Mad, Method,
    MulticastForwarding, NodeDescription, NodeInfo, Notice, PKeyTable, PhysicalState, PortInfo,
    SlToVl, Status, SwitchInfo, VendorDiag, VendorPortInfo, VlArbitration,
};
use snin_protocol::Time;

use crate::fabric::{Fabric, Write};

/// What an agent did with a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Served {
    /// The MAD is the answer now; else there is none.
    pub(crate) answered: bool,
    /// What was written, if anything.
    pub(crate) write: Option<Write>,
}

const SILENCE: Served = Served { answered: false, write: None };

/// A request as the attributes' code sees it.
struct Request<'a> {
    mad: &'a mut Mad,
    set: bool,
    modifier: u32,
    node: u32,
    /// The port that the request came by.
    by: u32,
    /// The port that is asked: a switch's port 0, an adapter's own.
    end: u32,
}

/// The status of a refusal.
type Outcome = Result<(), Status>;

/// Whether a Set(PortInfo) disables the port's link.
fn disables(mad: &Mad) -> bool {
    mad.attribute::<PortInfo>().is_ok_and(|info| info.physical_state == PhysicalState::Disabled)
}

impl Fabric {
    /// A MAD for the agents of a node came in by port `by`.
    pub(crate) fn serve(&mut self, by: u32, now: Time, mad: &mut Mad) -> Served {
        let (class, method, attribute) = {
            let header = mad.header();
            (header.class(), header.method(), header.attribute())
        };
        if method.is_response() && method != Method::TrapRepress {
            return SILENCE;
        }
        let modifier = mad.header().modifier().0;
        let node = self.ports[by as usize].node;
        let end = self.end_port(by);
        let set = method == Method::Set;
        let disables = set && attribute == PortInfo::ID && disables(mad);
        let disables = disables
            .then(|| self.topology().port_of(NodeIndex(node), PortNum(modifier as u8)))
            .flatten()
            .map(|port| self.port_state(port));
        let mut request = Request { mad, set, modifier, node, by, end };
        let outcome = match class {
            _ if !request.version_is_known() => Err(Status::BAD_VERSION),
            Class::Subnet | Class::DirectedSubnet => {
                if method == Method::TrapRepress {
                    if self.admits(&request, now) {
                        self.repress(end, request.mad.header().transaction_id());
                    }
                    return SILENCE;
                }
                match method {
                    Method::Get | Method::Set if !self.admits(&request, now) => return SILENCE,
                    Method::Get | Method::Set => self.subnet(&mut request),
                    _ => Err(Status::BAD_METHOD),
                }
            }
            Class::Performance => match method {
                Method::Get | Method::Set => self.performance(&mut request),
                _ => Err(Status::BAD_METHOD),
            },
            _ => Err(Status::BAD_VERSION),
        };
        let write = Write { at: now, node: NodeIndex(node), attribute, modifier, disables };
        refer(request.mad, outcome.err().unwrap_or(Status::OK));
        Served { answered: true, write: (set && outcome.is_ok()).then_some(write) }
    }

    /// The attributes of subnet management (IBA 14.2.5).
    fn subnet(&mut self, request: &mut Request<'_>) -> Outcome {
        let attribute = request.mad.header().attribute();
        let tables = [LinearForwarding::ID, MulticastForwarding::ID];
        if request.set && tables.contains(&attribute) && self.ports[request.end as usize].refuses {
            return Err(Status::BAD_VALUE);
        }
        match attribute {
            NodeDescription::ID => self.node_description(request),
            NodeInfo::ID => self.node_info(request),
            SwitchInfo::ID => self.switch_info_attribute(request),
            GuidInfo::ID => self.guid_info(request),
            PortInfo::ID => self.port_info_attribute(request),
            PKeyTable::ID => self.p_key_table(request),
            SlToVl::ID => self.sl_to_vl(request),
            VlArbitration::ID => self.vl_arbitration(request),
            LinearForwarding::ID => self.linear_forwarding(request),
            MulticastForwarding::ID => self.multicast_forwarding(request),
            Notice::ID => self.notice(request),
            LedInfo::ID => self.led_info(request),
            VendorDiag::ID => self.vendor_diag(request),
            VendorPortInfo::ID => self.vendor_port_info(request),
            _ => Err(Status::BAD_METHOD_ATTRIBUTE),
        }
    }
}

impl Request<'_> {
    /// Versions before anything else: in another version the rest may mean something else (IBA 13.4.7).
    fn version_is_known(&self) -> bool {
        let header = self.mad.header();
        let class_version = header.class_version();
        header.base_version() == 1
            && header.class().version().is_none_or(|version| version == class_version)
    }

    /// For attributes that cannot be written.
    const fn only_get(&self) -> Outcome {
        if self.set { Err(Status::BAD_METHOD_ATTRIBUTE) } else { Ok(()) }
    }

    /// For attributes of which there is one.
    const fn only_one(&self) -> Outcome {
        if self.modifier == 0 { Ok(()) } else { Err(Status::BAD_VALUE) }
    }
}

/// Makes the request its answer. An unknown method has no answer of its own: it gets Get's.
fn refer(mad: &mut Mad, status: Status) {
    if !mad.answer(status) {
        Header::edit(&mut mad.0).method(Method::Get);
        mad.answer(status);
    }
}

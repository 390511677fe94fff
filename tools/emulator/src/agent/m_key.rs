//! M_Keys: which requests they allow, how strictly they are checked, and when they are given up (IBA 14.2.4).

use snin_mad::notice::BadMKeyDetails;
use snin_mad::{Attribute, LidRouted, MKey, Method, PERMISSIVE, PortInfo, Trap};
use snin_mad::{Hex32, Octets};
use snin_protocol::Time;

use super::Request;
use crate::fabric::Fabric;

impl Fabric {
    /// Whether the request has the right M_Key, or needs none. If not, it is counted and told.
    pub(super) fn admits(&mut self, request: &Request<'_>, now: Time) -> bool {
        // PortInfo of an adapter's other port is guarded by that port's key too.
        let other = match request.mad.header().attribute() {
            PortInfo::ID if !self.nodes[request.node as usize].is_switch() => {
                self.port_meant(request).ok().filter(|&port| port != request.end)
            }
            _ => None,
        };
        self.key_fits(request.end, request, now)
            && other.is_none_or(|port| self.key_fits(port, request, now))
    }

    fn key_fits(&mut self, port: u32, request: &Request<'_>, now: Time) -> bool {
        self.end_lease(port, now);
        let port = &mut self.ports[port as usize];
        let own = port.view().m_key();
        let shown = LidRouted::view(&request.mad.0).m_key();
        if own == MKey(0) || own == shown {
            // The right key ends a running lease period (IBA 14.2.4.2).
            port.lease_ends = None;
            return true;
        }
        let reads = request.mad.header().method() == Method::Get;
        if reads && port.view().m_key_protect() < 2 {
            return true;
        }
        let count = port.view().m_key_violations().saturating_add(1);
        PortInfo::edit(&mut port.info).m_key_violations(count);
        let period = port.view().m_key_lease_period();
        if period > 0 && port.lease_ends.is_none() {
            port.lease_ends = Some(now + Time::secs(period.into()));
        }
        self.notify_bad_m_key(request);
        false
    }

    /// Whether this request may see the M_Key in PortInfo: with level 1 only who knows it (IBA 14.2.4.1).
    pub(super) fn shows_m_key(&self, port: u32, request: &Request<'_>) -> bool {
        let view = self.ports[port as usize].view();
        view.m_key_protect() == 0 || view.m_key() == LidRouted::view(&request.mad.0).m_key()
    }

    /// When the lease period ends, the key can be read again (IBA 14.2.4.2).
    fn end_lease(&mut self, port: u32, now: Time) {
        let port = &mut self.ports[port as usize];
        if port.lease_ends.is_some_and(|end| end <= now) {
            port.lease_ends = None;
            PortInfo::edit(&mut port.info).m_key_protect(0);
        }
    }

    /// Trap 256 (IBA 14.3.13).
    fn notify_bad_m_key(&mut self, request: &Request<'_>) {
        const ROOM: usize = 30;
        let header = request.mad.header();
        let mut details = BadMKeyDetails {
            lid: self.ports[request.end as usize].lid(),
            dr_slid: PERMISSIVE,
            method: header.method(),
            attribute: header.attribute(),
            modifier: Hex32(request.modifier),
            m_key: LidRouted::view(&request.mad.0).m_key(),
            directed: false,
            truncated: false,
            hop_count: 0,
            return_path: Octets([0; ROOM]),
        };
        if header.class() == snin_mad::Class::DirectedSubnet {
            let route = request.mad.directed();
            details.dr_slid = route.dr_slid();
            details.directed = true;
            details.hop_count = route.hop_count();
            details.truncated = usize::from(route.hop_count()) > ROOM;
            details.return_path.0.copy_from_slice(&route.return_path().0[1..=ROOM]);
        }
        self.notify(request.end, &Trap::BadMKey(details));
    }
}

//! PortInfo: what can be read of a port and what may be written (IBA 14.2.5.6).
//!
//! A Set is judged as a whole before anything changes: one value that is not allowed, and all stays.

use snin_fabric::{Lid, Lmc, PortNum};
use snin_mad::port::{LinkDownState, LinkSpeeds, LinkSpeedsExt, LinkWidths};
use snin_mad::{
    Attribute, MKey, PhysicalState, PortInfo, PortState, Status, Table, VendorPortInfo, View,
    VlCount,
};

use super::{Outcome, Request};
use crate::fabric::{Fabric, Wish};

/// In the modifier: the manager knows the extended speeds.
const KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;
const VENDOR_OF_FDR10: u32 = 0x2c9;

/// Which registers a port has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An adapter's, or an enhanced port 0.
    EndPort,
    /// Port 0 of a switch, of the simple kind: one LID, always active.
    BasePort0,
    /// A port of a switch for a cable: a link, no address.
    SwitchPort,
}

/// What a Set asks of a port's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// Nothing.
    Stay,
    /// Come down and rest as that: asleep, calling or disabled.
    Down(PhysicalState),
    /// The next state of Initialize or Armed.
    Up(PortState),
}

/// The legal moves (IBA 14.2.5.6, 7.2.7). Initialize cannot be written: a port is there once its link
/// is trained. Armed is reached from Initialize only, Active from Armed only; to write the state that is
/// changes nothing. A physical state can be written to bring the link down, not otherwise.
pub(crate) fn next_move(
    now: PortState,
    state: PortState,
    physical: PhysicalState,
    rest: LinkDownState,
) -> Result<Move, Status> {
    use PhysicalState as P;
    use PortState as S;
    let rest = if rest == LinkDownState::Sleep { P::Sleep } else { P::Polling };
    match (state, physical) {
        (S::NoChange, P::NoChange) => Ok(Move::Stay),
        (S::Down, P::NoChange) => Ok(Move::Down(rest)),
        (S::NoChange | S::Down, P::Sleep | P::Polling | P::Disabled) => Ok(Move::Down(physical)),
        (S::Armed, P::NoChange) if matches!(now, S::Initialize | S::Armed) => Ok(Move::Up(state)),
        (S::Active, P::NoChange) if matches!(now, S::Armed | S::Active) => Ok(Move::Up(state)),
        _ => Err(Status::BAD_VALUE),
    }
}

/// The moves that [`lenient_port_states`](crate::Config::lenient_port_states) allows beyond those.
fn lenient_move(now: PortState, state: PortState) -> Option<Move> {
    use PortState as S;
    let allowed = match state {
        S::Initialize => matches!(now, S::Initialize | S::Armed | S::Active),
        S::Active => now == S::Initialize,
        _ => false,
    };
    allowed.then_some(Move::Up(state))
}

impl Fabric {
    /// Reads and writes PortInfo.
    pub(super) fn port_info_attribute(&mut self, request: &mut Request<'_>) -> Outcome {
        let port = self.port_meant(request)?;
        let mut reregister = false;
        // An end node's port is written to by that port (IBA 14.2.5.6).
        let foreign = !self.nodes[request.node as usize].is_switch() && port != request.end;
        if request.set && (foreign || self.ports[port as usize].refuses) {
            return Err(Status::BAD_VALUE);
        }
        if request.set {
            let new = *PortInfo::data(&request.mad.0);
            let extended = request.modifier & KNOWS_EXTENDED_SPEEDS != 0;
            let by = request.by;
            reregister = self.write_port_info(port, by, &PortInfo::view(&new), extended)?;
        }
        let shows = self.shows_m_key(port, request);
        let by = self.ports[request.by as usize].num;
        let data = PortInfo::data_mut(&mut request.mad.0);
        *data = self.ports[port as usize].info;
        let answer = PortInfo::edit(data).local_port(PortNum(by)).client_reregister(reregister);
        if !shows {
            answer.m_key(MKey(0));
        }
        Ok(())
    }

    /// The modifier's low byte is the port; 0 on an adapter is the port that is asked.
    pub(super) fn port_meant(&self, request: &Request<'_>) -> Result<u32, Status> {
        let node = &self.nodes[request.node as usize];
        match (request.modifier & !KNOWS_EXTENDED_SPEEDS, node.is_switch()) {
            (0, false) => Ok(request.end),
            (num, _) => {
                let num = u8::try_from(num).map_err(|_| Status::BAD_VALUE)?;
                node.port(num).ok_or(Status::BAD_VALUE)
            }
        }
    }

    fn role(&self, port: u32) -> Role {
        let num = self.ports[port as usize].num;
        match &self.node_of(port).switch {
            None => Role::EndPort,
            Some(switch) if num == 0 && switch.info.enhanced_port_zero => Role::EndPort,
            Some(_) if num == 0 => Role::BasePort0,
            Some(_) => Role::SwitchPort,
        }
    }

    /// What a request that came by port `by` writes. Whether clients are to register again.
    fn write_port_info(
        &mut self,
        port: u32,
        by: u32,
        new: &View<'_, PortInfo>,
        extended: bool,
    ) -> Result<bool, Status> {
        let role = self.role(port);
        let lenient = self.config().lenient_port_states;
        let state = &mut self.ports[port as usize];
        let mut info = PortInfo::parse(&state.info).map_err(|_| Status::BAD_VALUE)?;
        let next = if state.num == 0 {
            // Port 0 has no link: it is active, and stays so.
            let stays = matches!(new.state(), PortState::NoChange | PortState::Active)
                && matches!(new.physical_state(), PhysicalState::NoChange | PhysicalState::LinkUp);
            if stays { Move::Stay } else { return Err(Status::BAD_VALUE) }
        } else {
            let rest = new.link_down_default_state();
            let rest =
                if rest == LinkDownState::NoChange { info.link_down_default_state } else { rest };
            match lenient.then(|| lenient_move(info.state, new.state())).flatten() {
                Some(lenient) => lenient,
                None => next_move(info.state, new.state(), new.physical_state(), rest)?,
            }
        };
        link(&mut info, new, extended)?;
        match role {
            Role::EndPort => end_port(&mut info, new, Lmc::MAX)?,
            Role::BasePort0 => end_port(&mut info, new, Lmc::ZERO)?,
            Role::SwitchPort => switch_port(&mut info, new),
        }
        // All is allowed: from here on things change.
        let reregister = new.client_reregister() && role != Role::SwitchPort;
        state.reregistrations += u64::from(reregister);
        info.emit(&mut state.info);
        match next {
            Move::Stay => {}
            Move::Up(to) => state.set_state(to),
            // The answer leaves first.
            Move::Down(rest) if port == by => {
                state.rest = Some(rest);
                self.wishes.push(Wish::Rest(port));
            }
            Move::Down(rest) => {
                state.set_physical(rest);
                self.link_down(port, Some(port));
            }
        }
        Ok(reregister)
    }

    /// The vendor's way to tell FDR10; other vendors' agents do not know the attribute.
    pub(super) fn vendor_port_info(&mut self, request: &mut Request<'_>) -> Outcome {
        if self.nodes[request.node as usize].vendor != VENDOR_OF_FDR10 {
            return Err(Status::BAD_METHOD_ATTRIBUTE);
        }
        request.only_get()?;
        let port = self.port_meant(request)?;
        let mut info = VendorPortInfo::default();
        if let Some(rate) = self.topology().port(snin_fabric::PortIndex(port)).rate {
            info.set_rate(rate);
        }
        request.mad.put(&info);
        Ok(())
    }
}

/// A value, if it is allowed or the one that is there already.
fn changed<T: PartialEq + Copy>(
    old: T,
    new: T,
    allowed: impl FnOnce(T) -> bool,
) -> Result<T, Status> {
    if new == old || allowed(new) { Ok(new) } else { Err(Status::BAD_VALUE) }
}

/// A set of widths or speeds to enable: 0 leaves it, all ones enable what is supported.
fn enabled(old: u8, new: u8, supported: u8, all: u8) -> Result<u8, Status> {
    match new {
        0 => Ok(old),
        _ if new == all => Ok(supported),
        _ => changed(old, new, |new| new & !supported == 0),
    }
}

/// What every port with or without a link has.
fn link(info: &mut PortInfo, new: &View<'_, PortInfo>, extended: bool) -> Outcome {
    let width =
        enabled(info.width_enabled.0, new.width_enabled().0, info.width_supported.0, u8::MAX)?;
    let speed = enabled(info.speed_enabled.0, new.speed_enabled().0, info.speed_supported.0, 15)?;
    let default = new.link_down_default_state();
    let default = match default {
        LinkDownState::NoChange => info.link_down_default_state,
        _ => changed(info.link_down_default_state, default, |new| {
            matches!(new, LinkDownState::Sleep | LinkDownState::Polling)
        })?,
    };
    let mtu = changed(info.neighbor_mtu, new.neighbor_mtu(), |new| {
        new.bytes().is_some() && new.code() <= info.mtu_cap.code()
    })?;
    let vls = match new.operational_vls() {
        VlCount::NoChange => info.operational_vls,
        vls => changed(info.operational_vls, vls, |new| {
            new.data_vls().is_some() && new.code() <= info.vl_cap.code()
        })?,
    };
    if extended {
        // 30: none (IBA 14.2.5.6).
        info.speed_ext_enabled = LinkSpeedsExt(match new.speed_ext_enabled().0 {
            30 => 0,
            new => enabled(info.speed_ext_enabled.0, new, info.speed_ext_supported.0, 31)?,
        });
    }
    info.width_enabled = LinkWidths(width);
    info.speed_enabled = LinkSpeeds(speed);
    info.link_down_default_state = default;
    info.neighbor_mtu = mtu;
    info.operational_vls = vls;
    info.vl_high_limit = new.vl_high_limit();
    info.local_phy_errors = new.local_phy_errors();
    info.overrun_errors = new.overrun_errors();
    Ok(())
}

/// What a port with an address has.
fn end_port(info: &mut PortInfo, new: &View<'_, PortInfo>, most: Lmc) -> Outcome {
    let unicast = |lid: Lid| (Lid(1)..=Lid::MAX_UNICAST).contains(&lid);
    info.lid = changed(info.lid, new.lid(), unicast)?;
    info.lmc = changed(info.lmc, new.lmc(), |lmc| lmc <= most)?;
    // The last of its addresses is a unicast LID too.
    if info.lid.index() + info.lmc.addresses() - 1 > Lid::MAX_UNICAST.index() {
        return Err(Status::BAD_VALUE);
    }
    info.master_sm_lid = changed(info.master_sm_lid, new.master_sm_lid(), unicast)?;
    info.m_key = new.m_key();
    info.gid_prefix = new.gid_prefix();
    info.m_key_lease_period = new.m_key_lease_period();
    info.m_key_protect = new.m_key_protect();
    info.master_sm_sl = new.master_sm_sl();
    info.init_type_reply = new.init_type_reply();
    info.subnet_timeout = new.subnet_timeout();
    info.multicast_pkey_trap_suppression = new.multicast_pkey_trap_suppression();
    // Counters of violations can be set to what they shall be, 0 as a rule.
    info.m_key_violations = new.m_key_violations();
    info.p_key_violations = new.p_key_violations();
    info.q_key_violations = new.q_key_violations();
    Ok(())
}

/// What only a switch's external port has.
fn switch_port(info: &mut PortInfo, new: &View<'_, PortInfo>) {
    info.vl_stall_count = new.vl_stall_count();
    info.hoq_life = new.hoq_life();
    info.partition_enforcement_inbound = new.partition_enforcement_inbound();
    info.partition_enforcement_outbound = new.partition_enforcement_outbound();
    info.filter_raw_inbound = new.filter_raw_inbound();
    info.filter_raw_outbound = new.filter_raw_outbound();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every present state against every written one: all that is not listed is refused.
    #[test]
    fn only_legal_moves_are_made() {
        use PortState as S;
        let down = Move::Down(PhysicalState::Polling);
        let legal = [
            (S::Down, S::Down, down),
            (S::Initialize, S::Down, down),
            (S::Armed, S::Down, down),
            (S::Active, S::Down, down),
            (S::Initialize, S::Armed, Move::Up(S::Armed)),
            (S::Armed, S::Armed, Move::Up(S::Armed)),
            (S::Armed, S::Active, Move::Up(S::Active)),
            (S::Active, S::Active, Move::Up(S::Active)),
        ];
        for now in [S::Down, S::Initialize, S::Armed, S::Active] {
            for code in 0..16 {
                let written = S::new(code);
                let made = next_move(now, written, PhysicalState::NoChange, LinkDownState::Polling);
                let expected = match legal.iter().find(|(n, w, _)| (*n, *w) == (now, written)) {
                    _ if written == S::NoChange => Ok(Move::Stay),
                    Some(&(_, _, to)) => Ok(to),
                    None => Err(Status::BAD_VALUE),
                };
                assert_eq!(made, expected, "{now} -> {written}");
            }
        }
    }

    /// Only the three resting states can be written, and only to bring a link down.
    #[test]
    fn physical_states_bring_links_down() {
        for code in 0..16 {
            let physical = PhysicalState::new(code);
            let rests = (1..=3).contains(&code);
            for (state, allowed) in [
                (PortState::NoChange, rests || code == 0),
                (PortState::Down, rests || code == 0),
                (PortState::Armed, code == 0),
                (PortState::Active, false),
            ] {
                let made =
                    next_move(PortState::Initialize, state, physical, LinkDownState::Polling);
                assert_eq!(made.is_ok(), allowed, "{state} {physical}");
            }
        }
        let made = next_move(
            PortState::Active,
            PortState::Down,
            PhysicalState::NoChange,
            LinkDownState::Sleep,
        );
        assert_eq!(made, Ok(Move::Down(PhysicalState::Sleep)));
    }
}

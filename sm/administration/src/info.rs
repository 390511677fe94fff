//! ClassPortInfo of administration, and the notices that it makes.

use snin_fabric::{Guid, Lid};
use snin_mad::notice::GidDetails;
use snin_mad::sa::SaNotice;
use snin_mad::{ClassPortInfo, Gid, Hex16, Hex32, Inner, Notice, QKey, Trap};

use crate::answer::Answer;
use crate::world::World;

/// Gets and sets of notices; optional records; multicast without confirmation; paths between many; PortInfo by
/// capabilities; CapabilityMask2.
const CAPABILITIES: u16 = 1 << 1 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 13;
/// Aliases of GUIDs; whole PortInfo; extended speeds; send-only full members; 2x, HDR, NDR.
const CAPABILITIES2: u32 = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 15 | 1 << 17;
/// 4.096 us times 2 to this: 0.27 s.
const RESPONSE_TIME: u8 = 16;
/// A manager of a class, as Notice has it (IBA 13.4.8.2).
const MANAGER: u8 = 4;

/// ClassPortInfo (IBA 15.2.3.1): ask here.
pub(super) fn class_port_info() -> Answer {
    let info = ClassPortInfo {
        base_version: 1,
        class_version: 2,
        capabilities: Hex16(CAPABILITIES | 1 << 2),
        capabilities2: Hex32(CAPABILITIES2),
        response_time: RESPONSE_TIME,
        redirect_qp: Hex32(1),
        redirect_q_key: QKey(0x8001_0000),
        trap_q_key: QKey(0x8001_0000),
        ..ClassPortInfo::default()
    };
    Answer::one(&info)
}

/// Notes that a port's GID came or went.
pub(super) fn note(world: &mut World<'_>, trap: fn(GidDetails) -> Trap, guid: Guid) {
    let gid = Gid::new(world.config.subnet_prefix(), guid);
    note_gid(world, trap, gid);
}

/// Notes that a GID, a group's perhaps, came or went; subscribers are told when the turn ends.
pub(super) fn note_gid(world: &mut World<'_>, trap: fn(GidDetails) -> Trap, gid: Gid) {
    let own = world.view.map_or(Lid::NONE, |view| view.manager());
    let issuer = world.database.by_lid(own).and_then(|(_, port)| port.guid).unwrap_or_default();
    let notice = Notice::generic(&trap(GidDetails { gid }), MANAGER, own);
    let issuer_gid = Gid::new(world.config.subnet_prefix(), issuer);
    world.notices.push(SaNotice { notice: Inner::of(&notice), issuer_gid });
}

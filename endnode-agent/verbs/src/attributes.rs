//! The attributes of every state transition of a queue pair, as pure functions: what hardware is told can
//! be tested where there is none (IBA 11.2.5.2, table 91).

use std::time::Duration;

use rdma_sys::{
    ibv_access_flags, ibv_ah_attr, ibv_global_route, ibv_mtu, ibv_qp_attr, ibv_qp_attr_mask,
    ibv_qp_state, ibv_rate,
};

use super::path::{Path, Service};
use super::raw;

/// What a transition sets, and which of it counts.
pub(super) struct Transition {
    pub(super) attributes: ibv_qp_attr,
    pub(super) mask: ibv_qp_attr_mask,
}

/// How a queue pair carries messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Reliable connection: acknowledged, in order, once.
    Rc,
    /// Unreliable connection: in order, may lose.
    Uc,
    /// Unreliable datagrams: a packet each, to anybody.
    Ud,
}

/// The most bytes of a packet's payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Mtu {
    /// 256 bytes.
    B256 = ibv_mtu::IBV_MTU_256,
    /// 512 bytes.
    B512 = ibv_mtu::IBV_MTU_512,
    /// 1,024 bytes.
    B1024 = ibv_mtu::IBV_MTU_1024,
    /// 2,048 bytes.
    B2048 = ibv_mtu::IBV_MTU_2048,
    /// 4,096 bytes.
    B4096 = ibv_mtu::IBV_MTU_4096,
}

impl Mtu {
    /// From the device's code.
    pub(super) const fn from_code(code: ibv_mtu::Type) -> Option<Self> {
        match code {
            ibv_mtu::IBV_MTU_256 => Some(Self::B256),
            ibv_mtu::IBV_MTU_512 => Some(Self::B512),
            ibv_mtu::IBV_MTU_1024 => Some(Self::B1024),
            ibv_mtu::IBV_MTU_2048 => Some(Self::B2048),
            ibv_mtu::IBV_MTU_4096 => Some(Self::B4096),
            _ => None,
        }
    }

    /// In bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }
}

/// How often an unacknowledged packet is sent again. Seven stands for "for ever" on some devices, rxe among
/// them, so six is the most there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retries(u8);

impl Retries {
    /// Six.
    pub const MOST: Self = Self(6);

    /// `None` above six.
    pub const fn new(count: u8) -> Option<Self> {
        if count <= Self::MOST.0 { Some(Self(count)) } else { None }
    }
}

/// How a connection deals with silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// A packet is sent again after 4.096 us times 2 to the power of this, 1 to 31 (IBA 9.7.6.1.3).
    pub timeout: u8,
    /// That often.
    pub retries: Retries,
    /// How often a receiver that is not ready is asked again, 0 to 6.
    pub not_ready_retries: Retries,
    /// The code of the pause that a receiver which is not ready asks for (IBA 9.7.5.2.8); 12 is 0.64 ms.
    pub not_ready_timer: u8,
}

impl Timing {
    /// What is not acknowledged is sent again after `pause`, or the next longer one that there is.
    #[must_use]
    pub const fn resend_after(self, pause: Duration) -> Self {
        let units = pause.as_nanos().div_ceil(4096);
        // 0 stands for "never", and there are five bits.
        let code = match units.next_power_of_two().ilog2() {
            0 => 1,
            code @ 1..=31 => code as u8,
            _ => 31,
        };
        Self { timeout: code, ..self }
    }
}

impl Default for Timing {
    /// 67 ms, six times: the mesh gives up earlier if need be.
    fn default() -> Self {
        Self {
            timeout: 14,
            retries: Retries::MOST,
            not_ready_retries: Retries::MOST,
            not_ready_timer: 12,
        }
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Its queue pair's number.
    pub number: u32,
    /// The sequence number of the first packet that it sends.
    pub first_packet: u32,
}

/// RDMA reads and atomics that may be open at a time, each way.
const READS: u8 = 1;

/// RESET to INIT.
pub(super) fn initialise(
    transport: Transport,
    port: u8,
    remote_access: bool,
    q_key: u32,
) -> Transition {
    let mut mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
        | ibv_qp_attr_mask::IBV_QP_PORT;
    let mut attributes = raw::no_attributes();
    attributes.qp_state = ibv_qp_state::IBV_QPS_INIT;
    attributes.pkey_index = 0;
    attributes.port_num = port;
    if transport == Transport::Ud {
        attributes.qkey = q_key;
        mask |= ibv_qp_attr_mask::IBV_QP_QKEY;
    } else {
        attributes.qp_access_flags = access(remote_access).0;
        mask |= ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
    }
    Transition { attributes, mask }
}

/// What peers may do with memory that is shown to them.
pub(super) fn access(remote: bool) -> ibv_access_flags {
    let local = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    if remote {
        local | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_READ
    } else {
        local
    }
}

/// INIT to RTR, "ready to receive", of a connection.
pub(super) fn receive_connected(
    reliable: bool,
    path: &Path,
    port: u8,
    remote: Remote,
    mtu: Mtu,
    timing: &Timing,
) -> Transition {
    let mut mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_AV
        | ibv_qp_attr_mask::IBV_QP_PATH_MTU
        | ibv_qp_attr_mask::IBV_QP_DEST_QPN
        | ibv_qp_attr_mask::IBV_QP_RQ_PSN;
    let mut attributes = raw::no_attributes();
    attributes.qp_state = ibv_qp_state::IBV_QPS_RTR;
    attributes.ah_attr = address_vector(path, port);
    attributes.path_mtu = mtu as u32;
    attributes.dest_qp_num = remote.number;
    attributes.rq_psn = remote.first_packet & PACKET_NUMBERS;
    if reliable {
        attributes.max_dest_rd_atomic = READS;
        attributes.min_rnr_timer = timing.not_ready_timer;
        mask |=
            ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
    }
    Transition { attributes, mask }
}

/// INIT to RTR of datagrams.
pub(super) fn receive_datagrams() -> Transition {
    let mut attributes = raw::no_attributes();
    attributes.qp_state = ibv_qp_state::IBV_QPS_RTR;
    Transition { attributes, mask: ibv_qp_attr_mask::IBV_QP_STATE }
}

/// RTR to RTS, "ready to send".
pub(super) fn send(transport: Transport, first_packet: u32, timing: &Timing) -> Transition {
    let mut mask = ibv_qp_attr_mask::IBV_QP_STATE | ibv_qp_attr_mask::IBV_QP_SQ_PSN;
    let mut attributes = raw::no_attributes();
    attributes.qp_state = ibv_qp_state::IBV_QPS_RTS;
    attributes.sq_psn = first_packet & PACKET_NUMBERS;
    if transport == Transport::Rc {
        attributes.timeout = timing.timeout.clamp(1, 31);
        attributes.retry_cnt = timing.retries.0;
        attributes.rnr_retry = timing.not_ready_retries.0;
        attributes.max_rd_atomic = READS;
        mask |= ibv_qp_attr_mask::IBV_QP_TIMEOUT
            | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
            | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
            | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
    }
    Transition { attributes, mask }
}

/// Any state to ERR: what is posted is flushed.
pub(super) fn error() -> Transition {
    let mut attributes = raw::no_attributes();
    attributes.qp_state = ibv_qp_state::IBV_QPS_ERR;
    Transition { attributes, mask: ibv_qp_attr_mask::IBV_QP_STATE }
}

/// Packet sequence numbers have 24 bits (IBA 9.2.1).
const PACKET_NUMBERS: u32 = 0xff_ffff;

/// A path as hardware wants it.
pub(super) fn address_vector(path: &Path, port: u8) -> ibv_ah_attr {
    match *path {
        Path::InfiniBand { dlid, src_path_bits, service } => ibv_ah_attr {
            grh: no_route(),
            dlid: dlid.0.0,
            sl: service.level,
            src_path_bits,
            static_rate: static_rate(service),
            is_global: 0,
            port_num: port,
        },
        Path::Roce { dgid, sgid_index, service } => ibv_ah_attr {
            grh: ibv_global_route {
                dgid: raw::gid(dgid),
                sgid_index,
                hop_limit: HOPS,
                ..no_route()
            },
            dlid: 0,
            sl: service.level,
            src_path_bits: 0,
            static_rate: static_rate(service),
            is_global: 1,
            port_num: port,
        },
    }
}

/// As far as RoCE packets may be routed.
const HOPS: u8 = 64;

fn no_route() -> ibv_global_route {
    ibv_global_route {
        dgid: raw::gid(super::path::Gid::default()),
        flow_label: 0,
        sgid_index: 0,
        hop_limit: 0,
        traffic_class: 0,
    }
}

/// In Gbit/s times ten and the code for it, the slowest first.
const RATES: [(u64, ibv_rate::Type); 23] = [
    (25, ibv_rate::IBV_RATE_2_5_GBPS),
    (50, ibv_rate::IBV_RATE_5_GBPS),
    (100, ibv_rate::IBV_RATE_10_GBPS),
    (140, ibv_rate::IBV_RATE_14_GBPS),
    (200, ibv_rate::IBV_RATE_20_GBPS),
    (250, ibv_rate::IBV_RATE_25_GBPS),
    (280, ibv_rate::IBV_RATE_28_GBPS),
    (300, ibv_rate::IBV_RATE_30_GBPS),
    (400, ibv_rate::IBV_RATE_40_GBPS),
    (500, ibv_rate::IBV_RATE_50_GBPS),
    (560, ibv_rate::IBV_RATE_56_GBPS),
    (600, ibv_rate::IBV_RATE_60_GBPS),
    (800, ibv_rate::IBV_RATE_80_GBPS),
    (1000, ibv_rate::IBV_RATE_100_GBPS),
    (1120, ibv_rate::IBV_RATE_112_GBPS),
    (1200, ibv_rate::IBV_RATE_120_GBPS),
    (1680, ibv_rate::IBV_RATE_168_GBPS),
    (2000, ibv_rate::IBV_RATE_200_GBPS),
    (3000, ibv_rate::IBV_RATE_300_GBPS),
    (4000, ibv_rate::IBV_RATE_400_GBPS),
    (6000, ibv_rate::IBV_RATE_600_GBPS),
    (8000, ibv_rate::IBV_RATE_800_GBPS),
    (12000, ibv_rate::IBV_RATE_1200_GBPS),
];

/// The fastest rate that hardware knows and that is not more than allowed; the slowest where all are more.
fn static_rate(service: Service) -> u8 {
    if service.rate == 0 {
        return ibv_rate::IBV_RATE_MAX as u8;
    }
    let allowed = |&&(rate, _): &&(u64, ibv_rate::Type)| rate * 100_000_000 <= service.rate;
    RATES.iter().rfind(allowed).unwrap_or(&RATES[0]).1 as u8
}

#[cfg(test)]
mod tests {
    use snin_fabric::{Dlid, Lid};

    use super::super::path::Gid;
    use super::*;

    type Mask = ibv_qp_attr_mask;

    const REMOTE: Remote = Remote { number: 0x1234, first_packet: 0xff_0000_0001_u64 as u32 };
    const INFINIBAND: Path = Path::InfiniBand {
        dlid: Dlid(Lid(71)),
        src_path_bits: 7,
        service: Service { level: 2, rate: 50_000_000_000 },
    };
    const ROCE: Path = Path::Roce {
        dgid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 71]),
        sgid_index: 5,
        service: Service { level: 1, rate: 0 },
    };

    fn mask(parts: &[Mask]) -> u32 {
        parts.iter().fold(0, |all, part| all | part.0)
    }

    #[test]
    fn what_is_not_acknowledged_is_sent_again_after_no_less_than_was_said() {
        let code = |pause| Timing::default().resend_after(pause).timeout;
        assert_eq!(code(Duration::from_millis(60)), Timing::default().timeout);
        assert_eq!(code(Duration::from_nanos(4096 << 18)), 18);
        assert_eq!(code(Duration::from_nanos((4096 << 18) + 1)), 19);
        assert_eq!((code(Duration::ZERO), code(Duration::MAX)), (1, 31));
    }

    #[test]
    fn init_sets_what_the_transport_asks_for() {
        let base = [Mask::IBV_QP_STATE, Mask::IBV_QP_PKEY_INDEX, Mask::IBV_QP_PORT];
        for transport in [Transport::Rc, Transport::Uc] {
            let set = initialise(transport, 2, true, 0);
            assert_eq!(set.mask.0, mask(&base) | Mask::IBV_QP_ACCESS_FLAGS.0);
            assert_eq!(set.attributes.qp_state, ibv_qp_state::IBV_QPS_INIT);
            assert_eq!((set.attributes.port_num, set.attributes.pkey_index), (2, 0));
            // Local write, remote write, remote read.
            assert_eq!(set.attributes.qp_access_flags, 0b111);
        }
        assert_eq!(initialise(Transport::Rc, 1, false, 0).attributes.qp_access_flags, 1);
        let set = initialise(Transport::Ud, 1, true, 0x1111);
        assert_eq!(set.mask.0, mask(&base) | Mask::IBV_QP_QKEY.0);
        assert_eq!((set.attributes.qkey, set.attributes.qp_access_flags), (0x1111, 0));
    }

    #[test]
    fn an_infiniband_address_vector_names_the_tree_at_both_ends() {
        let vector = address_vector(&INFINIBAND, 2);
        assert_eq!((vector.dlid, vector.src_path_bits), (71, 7));
        assert_eq!((vector.sl, vector.port_num, vector.is_global), (2, 2, 0));
        assert_eq!(u32::from(vector.static_rate), ibv_rate::IBV_RATE_50_GBPS);
    }

    #[test]
    fn a_roce_address_vector_has_the_trees_own_address() {
        let vector = address_vector(&ROCE, 1);
        assert_eq!((vector.is_global, vector.dlid, vector.src_path_bits), (1, 0, 0));
        assert_eq!((vector.grh.sgid_index, vector.grh.hop_limit), (5, HOPS));
        assert_eq!((vector.sl, vector.port_num), (1, 1));
        assert_eq!(u32::from(vector.static_rate), ibv_rate::IBV_RATE_MAX);
        let Path::Roce { dgid, .. } = ROCE else { unreachable!("it is one") };
        assert_eq!(raw::gid_bytes(vector.grh.dgid), dgid.0);
    }

    #[test]
    fn ready_to_receive_sets_what_the_transport_asks_for() {
        let base = [
            Mask::IBV_QP_STATE,
            Mask::IBV_QP_AV,
            Mask::IBV_QP_PATH_MTU,
            Mask::IBV_QP_DEST_QPN,
            Mask::IBV_QP_RQ_PSN,
        ];
        let reliable = [Mask::IBV_QP_MAX_DEST_RD_ATOMIC, Mask::IBV_QP_MIN_RNR_TIMER];
        let timing = Timing::default();
        for path in [INFINIBAND, ROCE] {
            let rc = receive_connected(true, &path, 1, REMOTE, Mtu::B2048, &timing);
            assert_eq!(rc.mask.0, mask(&base) | mask(&reliable));
            let set = rc.attributes;
            assert_eq!(set.qp_state, ibv_qp_state::IBV_QPS_RTR);
            assert_eq!(
                (set.dest_qp_num, set.rq_psn, set.path_mtu),
                (0x1234, 1, ibv_mtu::IBV_MTU_2048)
            );
            assert_eq!((set.max_dest_rd_atomic, set.min_rnr_timer), (1, 12));
            assert_eq!(set.ah_attr.is_global, u8::from(path == ROCE));
            let uc = receive_connected(false, &path, 1, REMOTE, Mtu::B2048, &timing);
            assert_eq!(uc.mask.0, mask(&base));
        }
        assert_eq!(receive_datagrams().mask.0, Mask::IBV_QP_STATE.0);
    }

    #[test]
    fn ready_to_send_never_retries_for_ever() {
        let base = mask(&[Mask::IBV_QP_STATE, Mask::IBV_QP_SQ_PSN]);
        let reliable = mask(&[
            Mask::IBV_QP_TIMEOUT,
            Mask::IBV_QP_RETRY_CNT,
            Mask::IBV_QP_RNR_RETRY,
            Mask::IBV_QP_MAX_QP_RD_ATOMIC,
        ]);
        assert_eq!(Retries::new(7), None);
        let timing = Timing { timeout: 0, ..Timing::default() };
        let rc = send(Transport::Rc, 0x1ff_ffff, &timing);
        assert_eq!(rc.mask.0, base | reliable);
        let set = rc.attributes;
        assert_eq!((set.sq_psn, set.retry_cnt, set.rnr_retry), (0xff_ffff, 6, 6));
        assert_eq!(set.timeout, 1, "0 would wait for ever");
        for transport in [Transport::Uc, Transport::Ud] {
            assert_eq!(send(transport, 0, &timing).mask.0, base);
        }
        assert_eq!(error().attributes.qp_state, ibv_qp_state::IBV_QPS_ERR);
    }

    #[test]
    fn a_static_rate_is_never_faster_than_allowed() {
        let code = |rate| u32::from(static_rate(Service { level: 0, rate }));
        assert_eq!(code(0), ibv_rate::IBV_RATE_MAX);
        assert_eq!(code(1), ibv_rate::IBV_RATE_2_5_GBPS, "there is none slower");
        assert_eq!(code(99_999_999_999), ibv_rate::IBV_RATE_80_GBPS);
        assert_eq!(code(100_000_000_000), ibv_rate::IBV_RATE_100_GBPS);
        assert_eq!(code(u64::MAX), ibv_rate::IBV_RATE_1200_GBPS);
        assert!(RATES.is_sorted());
    }

    #[test]
    fn mtus_are_powers_of_two() {
        let codes = (0..8).filter_map(Mtu::from_code);
        let bytes: Vec<u32> = codes.map(Mtu::bytes).collect();
        assert_eq!(bytes, [256, 512, 1024, 2048, 4096]);
    }
}

//! Bytes written down by hand from the specification's figures, used three ways: taken apart by a view,
//! parsed into a value, and emitted from the value over a buffer full of 0xa5.

mod counters;

use std::fmt::Debug;

use serde_json::{Value, json};
use snin_fabric::{Guid, Lid, LinkRate, Lmc, PortNum, Speed};
use snin_mad::notice::{BadMKeyDetails, LinkStateDetails, LocalChangeDetails};
use snin_mad::port::{
    Capabilities, Capabilities2, LinkDownState, LinkSpeeds, LinkSpeedsExt, LinkSpeedsExt2,
    LinkWidths, VendorSpeeds,
};
use snin_mad::*;

/// `name` by the specification must show as `json` (only the fields named there are compared).
fn golden<T>(hex: &str, value: &T, shown: Value)
where
    T: Table<Data: FromHex> + PartialEq + Debug,
{
    let mut data = T::Data::from_hex(hex);
    for (name, expected) in shown.as_object().expect("field by name") {
        assert_eq!(View::<T>::new(&data).json()[name], *expected, "{name}");
    }
    assert_eq!(&T::parse(&data).expect("no rule is broken"), value);
    let golden = data.as_ref().to_vec();
    data.as_mut().fill(0xA5);
    value.emit(&mut data);
    assert_eq!(data.as_ref(), golden);
}

trait FromHex {
    /// Hex digits, spaces wherever they help; zeros to the end.
    fn from_hex(hex: &str) -> Self;
}

impl<const N: usize> FromHex for [u8; N] {
    fn from_hex(hex: &str) -> Self {
        let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let mut data = [0; N];
        for (byte, pair) in data.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        assert!(digits.len() <= 2 * N);
        data
    }
}

#[test]
fn node_info_of_a_switch() {
    golden(
        "01 01 02 28  b83fd2030011aa00  b83fd2030011aa01  b83fd2030011aa02  0008 d2f0  000000a0  11 0002c9",
        &NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::Switch,
            num_ports: 40,
            system_image_guid: Guid(0xb83f_d203_0011_aa00),
            node_guid: Guid(0xb83f_d203_0011_aa01),
            port_guid: Guid(0xb83f_d203_0011_aa02),
            partition_cap: 8,
            device_id: Hex16(0xd2f0),
            revision: Hex32(0xa0),
            local_port: PortNum(17),
            vendor_id: Hex32(0x2c9),
        },
        json!({
            "NodeType": "Switch", "NumPorts": 40, "NodeGUID": "0xb83fd2030011aa01", "LocalPortNum": 17,
            "VendorID": "0x0002c9", "DeviceID": "0xd2f0",
        }),
    );
}

#[test]
fn node_description_is_text_up_to_a_zero() {
    let text = "mlx5_0 é";
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let value = NodeDescription { text: NodeString::new(text) };
    golden(&hex, &value, json!({ "NodeString": text }));
    assert_eq!(value.text.text(), text);
    // 64 bytes are full: cut before the character that does not fit.
    assert_eq!(NodeString::new(&"é".repeat(40)).text(), "é".repeat(32));
    assert_eq!(
        NodeString::new(&format!("x{}", "é".repeat(40))).text(),
        format!("x{}", "é".repeat(31))
    );
}

#[test]
fn switch_info() {
    golden(
        "bfff 0000 2000 05a0  ff 00 01 96  0001 0020  c8 00 c07f",
        &SwitchInfo {
            linear_fdb_cap: 0xbfff,
            multicast_fdb_cap: 0x2000,
            linear_fdb_top: Lid(0x5a0),
            default_port: PortNum(255),
            default_multicast_not_primary_port: PortNum(1),
            life_time: 18,
            port_state_change: true,
            optimized_sl_to_vl: 2,
            lids_per_port: 1,
            partition_enforcement_cap: 32,
            inbound_enforcement_cap: true,
            outbound_enforcement_cap: true,
            enhanced_port_zero: true,
            multicast_fdb_top: Lid(0xc07f),
            ..SwitchInfo::default()
        },
        json!({
            "LifeTimeValue": 18, "PortStateChange": true, "EnhancedPort0": true,
            "MulticastFDBTop": 0xc07f,
        }),
    );
}

/// A port of an XDR switch at 4x, ACTIVE, as its older fields show to a manager that knows only those.
#[test]
fn port_info_at_xdr() {
    let value = PortInfo {
        m_key: MKey(0x1122_3344_5566_7788),
        gid_prefix: GidPrefix(0xfe80_0000_0000_0000),
        lid: Lid(0x30),
        master_sm_lid: Lid(1),
        capabilities: Capabilities::TRAP
            .with(Capabilities::EXTENDED_SPEEDS)
            .with(Capabilities::CAPABILITY_MASK2),
        m_key_lease_period: 60,
        local_port: PortNum(3),
        width_enabled: LinkWidths(3),
        width_supported: LinkWidths(3),
        width_active: LinkWidths::X4,
        speed_supported: LinkSpeeds(7),
        state: PortState::Active,
        physical_state: PhysicalState::LinkUp,
        link_down_default_state: LinkDownState::Polling,
        m_key_protect: 2,
        lmc: Lmc::new(5).unwrap(),
        speed_active: LinkSpeeds(0),
        speed_enabled: LinkSpeeds(7),
        neighbor_mtu: Mtu::B4096,
        master_sm_sl: 1,
        vl_cap: VlCount::Vl0To7,
        vl_high_limit: 4,
        vl_arbitration_high_cap: 8,
        vl_arbitration_low_cap: 8,
        mtu_cap: Mtu::B4096,
        vl_stall_count: 7,
        hoq_life: 18,
        operational_vls: VlCount::Vl0To3,
        partition_enforcement_inbound: true,
        filter_raw_outbound: true,
        m_key_violations: 1,
        p_key_violations: 2,
        q_key_violations: 3,
        guid_cap: 8,
        client_reregister: true,
        multicast_pkey_trap_suppression: 1,
        subnet_timeout: 18,
        response_time: 16,
        local_phy_errors: 8,
        overrun_errors: 9,
        max_credit_hint: 0x0102,
        speed_ext2_active: LinkSpeedsExt2::XDR,
        speed_ext2_supported: LinkSpeedsExt2::XDR,
        speed_ext2_enabled: LinkSpeedsExt2::XDR,
        link_round_trip_latency: 0x00_1234,
        capabilities2: Capabilities2::LINK_SPEED_XDR.with(Capabilities2::EXTENDED_SPEEDS2),
        speed_ext_active: LinkSpeedsExt(0),
        speed_ext_supported: LinkSpeedsExt(15),
        speed_ext_enabled: LinkSpeedsExt(15),
        ..PortInfo::default()
    };
    golden(
        "1122334455667788 fe80000000000000  0030 0001  0000c008  0000 003c  03 03 03 02
         74 52 85 07  51 40 04 08  08 05 f2 39  0001 0002  0003 08 b2  10 89 0102
         29 001234  1800 0f 0f",
        &value,
        json!({
            "PortState": "Active", "PortPhysicalState": "LinkUp", "LMC": 5, "LinkSpeedExtActive2": "0x1",
            "LinkRoundTripLatency": 0x1234, "HOQLife": 18, "M_Key": "0x1122334455667788",
        }),
    );
    assert_eq!(value.rate(None).unwrap().to_string(), "4xXDR");
}

#[test]
fn small_attributes() {
    golden(
        "0002c90300aabbcc  00000000deadbeef  00000102  f3",
        &SmInfo {
            guid: Guid(0x0002_c903_00aa_bbcc),
            sm_key: SmKey(0xdead_beef),
            act_count: 0x102,
            priority: 15,
            state: SmState::Master,
        },
        json!({ "Priority": 15, "SMState": "Master" }),
    );
    golden("80", &LedInfo { led: true }, json!({ "LedMask": true }));
    let mut data = [0; 62];
    (data[0], data[61]) = (1, 2);
    golden(
        &format!("0102 01{}02", "00".repeat(60)),
        &VendorDiag { next_index: 0x102, data: Octets(data) },
        json!({ "NextIndex": 0x102 }),
    );
    let mut guids = [Guid(0); 8];
    (guids[0], guids[7]) = (Guid(1), Guid(8));
    golden(
        &format!("{:016x} {} {:016x}", 1, "00".repeat(48), 8),
        &GuidInfo { guids },
        json!({ "GUID": ["0x0000000000000001", Z, Z, Z, Z, Z, Z, "0x0000000000000008"] }),
    );
}

const Z: &str = "0x0000000000000000";

#[test]
fn blocks_of_tables() {
    let mut keys = [PKey(0); 32];
    (keys[0], keys[1], keys[31]) = (PKey::DEFAULT, PKey(0x7fff), PKey(0x8001));
    golden(&format!("ffff 7fff {} 8001", "0000".repeat(29)), &PKeyTable { keys }, json!({}));

    let vls = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 15];
    golden("01 23 45 67 01 23 45 6f", &SlToVl { vls }, json!({ "SLtoVL": vls }));

    let (mut vls, mut weights) = ([0; 32], [0; 32]);
    (vls[1], weights[1], vls[31], weights[31]) = (7, 64, 14, 255);
    golden(
        &format!("0000 0740 {} 0eff", "0000".repeat(29)),
        &VlArbitration { vls, weights },
        json!({ "VL": vls, "Weight": weights }),
    );

    let mut ports = [PortNum::NONE; 64];
    (ports[1], ports[63]) = (PortNum(0), PortNum(36));
    golden(&format!("ff00 {} 24", "ff".repeat(61)), &LinearForwarding { ports }, json!({}));

    let mut random = RandomForwarding::default();
    random.lids[1] = Lid(0x1234);
    random.valid[1] = true;
    random.lmcs[1] = Lmc::new(3).unwrap();
    random.ports[1] = PortNum(9);
    golden("00000000 1234 b0 09", &random, json!({}));

    let mut masks = [Hex16(0); 32];
    (masks[0], masks[31]) = (Hex16(0x8001), Hex16(2));
    golden(&format!("8001 {} 0002", "0000".repeat(30)), &MulticastForwarding { masks }, json!({}));
}

#[test]
fn modifiers_name_the_block() {
    assert_eq!(SlToVl::modifier(PortNum(2), PortNum(3)), 0x0203);
    assert_eq!(PKeyTable::modifier(PortNum(2), 3), 0x0002_0003);
    assert_eq!(VlArbitration::modifier(PortNum(2), 3), 0x0003_0002);
    assert_eq!(MulticastForwarding::modifier(2, 0x1ff), 0x2000_01ff);
}

#[test]
fn extensions_of_port_info() {
    golden(
        "00000001 0003  0001 0001  0006 0002  000e 000c  0008 0008",
        &PortInfoExtended {
            cap_mask: port::FecCapabilities::FEC_MODE,
            fec_active: port::FecMode::LowLatencyReedSolomon,
            fdr_fec_supported: Hex16(1),
            fdr_fec_enabled: Hex16(1),
            edr_fec_supported: Hex16(6),
            edr_fec_enabled: Hex16(2),
            hdr_fec_supported: Hex16(14),
            hdr_fec_enabled: Hex16(12),
            ndr_fec_supported: Hex16(8),
            ndr_fec_enabled: Hex16(8),
        },
        json!({ "FECModeActive": "LL-RS-FEC", "NDRFECModeEnabled": "0x0008" }),
    );
    golden(
        "00000001 00000001 00000001 00000001",
        &VendorPortInfo {
            state_change_enable: Hex8(1),
            speed_supported: VendorSpeeds::FDR10,
            speed_enabled: VendorSpeeds::FDR10,
            speed_active: VendorSpeeds::FDR10,
        },
        json!({ "LinkSpeedActive": "0x1" }),
    );
}

#[test]
fn notices() {
    let trap = Trap::LinkStateChange(LinkStateDetails { lid: Lid(0x21) });
    let notice = Notice { toggle: true, count: 3, ..Notice::generic(&trap, 2, Lid(0x22)) };
    let shown = json!({ "Type": "Urgent", "TrapNumberDeviceID": 128, "NoticeCount": 3 });
    golden("81 000002 0080 0022 8003 0021", &notice, shown);
    assert_eq!(notice.trap(), Ok(Some(trap)));

    let trap = Trap::LocalChange(LocalChangeDetails {
        lid: Lid(7),
        other_local_changes: true,
        capabilities: Capabilities::SM,
        node_description_change: true,
        ..LocalChangeDetails::default()
    });
    let notice = Notice::generic(&trap, 1, Lid(7));
    golden("84 000001 0090 0007 0000  0000 0007 00 01 00000002 0001", &notice, json!({}));
    assert_eq!(notice.trap(), Ok(Some(trap)));

    let mut return_path = [0; 30];
    return_path[1] = 5;
    let trap = Trap::BadMKey(BadMKeyDetails {
        lid: Lid(7),
        dr_slid: PERMISSIVE,
        method: Method::Set,
        attribute: PortInfo::ID,
        modifier: Hex32(1),
        m_key: MKey(2),
        directed: true,
        truncated: false,
        hop_count: 1,
        return_path: Octets(return_path),
    });
    let notice = Notice::generic(&trap, 1, Lid(7));
    golden(
        "82 000001 0100 0007 0000  0000 0007 ffff 02 00 0015 00000001 0000000000000002 00 81 0005",
        &notice,
        json!({}),
    );
    assert_eq!(notice.trap(), Ok(Some(trap)));
}

#[test]
fn class_port_info() {
    golden(
        "01 02 0304  0000005f  fe80000000000000 0002c90300000001  11 2 34567 0089 ffff
         00 000001 80010000  fe80000000000000 0002c90300000002  12 3 45678 008a 7fff  40 000002 80020000",
        &ClassPortInfo {
            base_version: 1,
            class_version: 2,
            capabilities: Hex16(0x0304),
            capabilities2: Hex32(2),
            response_time: 31,
            redirect_gid: Gid::new(GidPrefix(0xfe80_0000_0000_0000), Guid(0x0002_c903_0000_0001)),
            redirect_traffic_class: Hex8(0x11),
            redirect_sl: 2,
            redirect_flow_label: Hex32(0x34567),
            redirect_lid: Lid(0x89),
            redirect_p_key: PKey(0xffff),
            redirect_qp: Hex32(1),
            redirect_q_key: QKey(0x8001_0000),
            trap_gid: Gid::new(GidPrefix(0xfe80_0000_0000_0000), Guid(0x0002_c903_0000_0002)),
            trap_traffic_class: Hex8(0x12),
            trap_sl: 3,
            trap_flow_label: Hex32(0x45678),
            trap_lid: Lid(0x8a),
            trap_p_key: PKey(0x7fff),
            trap_hop_limit: 0x40,
            trap_qp: Hex32(2),
            trap_q_key: QKey(0x8002_0000),
        },
        json!({ "RespTimeValue": 31, "TrapHL": 64 }),
    );
}

#[test]
fn a_directed_route_request() {
    let route = Route::lid_then_directed(Lid(0x102), DrPath::new(&[1, 36]).unwrap());
    let smp = Smp::set(PortInfo::ID, 36, route)
        .transaction(TransactionId(0x1234_5678_9abc_def0))
        .m_key(MKey(5));
    let header = "01 81 01 02  0000 00 02  123456789abcdef0  0015 0000 00000024
                  0000000000000005  0102 ffff";
    let mut expected = <[u8; 256]>::from_hex(header);
    (expected[129], expected[130]) = (1, 36);
    let mut bytes = [0xA5; 256];
    smp.emit(&mut bytes);
    assert_eq!(bytes, expected);
    assert_eq!(smp.mad().0, expected);
    assert_eq!(Smp::parse(&bytes), Ok(smp));

    let mut mad = Mad(bytes);
    assert!(mad.answer(Status::BAD_VALUE));
    (expected[3], expected[4], expected[5]) = (0x81, 0x80, 0x1c);
    assert_eq!(mad.0, expected);
    assert_eq!(mad.status().to_string(), "0x001c (invalid value in attribute or modifier)");
    assert!(!mad.answer(Status::OK), "an answer has no answer");

    let mut trap = Smp::trap().mad();
    assert!(trap.answer(Status::OK));
    assert_eq!(Smp::parse(&trap.0).map(|smp| smp.method), Ok(Method::TrapRepress));
}

#[test]
fn what_breaks_a_rule_is_named() {
    let name = |result: Result<Smp, Error>| result.unwrap_err().to_string();
    let good = Smp::get(NodeInfo::ID, 0, Route::directed(DrPath::HERE)).mad().0;
    let with = |at: usize, byte| {
        let mut bytes = good;
        bytes[at] = byte;
        name(Smp::parse(&bytes))
    };
    assert!(with(0, 2).starts_with("MAD.BaseVersion is 0x2: "));
    assert!(with(1, 4).starts_with("MAD.MgmtClass is 0x4: "));
    assert!(with(2, 2).starts_with("MAD.ClassVersion is 0x2: "));
    assert!(with(6, 2).starts_with("DRSMP.HopPointer is 0x2: "));
    assert!(with(7, 64).starts_with("DRSMP.HopCount is 0x40: "));
    assert_eq!(Mad::from_slice(&good[..255]), Err(Error::Length(255)));
    assert!(matches!(
        Mad(good).attribute::<PortInfo>(),
        Err(Error::OtherAttribute { got: 0x11, .. })
    ));
    let bad = Mad(good).attribute::<NodeInfo>().unwrap_err();
    assert_eq!(bad.to_string(), "NodeInfo.NodeGUID is 0x0: a GUID is not zero (IBA 4.1)");
}

#[test]
fn every_rate_survives_the_wire() {
    for &speed in Speed::ALL {
        for lanes in [1, 2, 4, 8, 12] {
            let rate = LinkRate { width: snin_fabric::Width::new(lanes).unwrap(), speed };
            let (mut info, mut vendor) = (PortInfo::default(), VendorPortInfo::default());
            info.set_rate(rate);
            vendor.set_rate(rate);
            let (mut data, mut vendor_data) = ([0xA5; 64], [0xA5; 64]);
            info.emit(&mut data);
            vendor.emit(&mut vendor_data);
            let info = PortInfo::parse(&data).unwrap();
            let vendor = VendorPortInfo::parse(&vendor_data).unwrap();
            assert_eq!(info.rate(Some(&vendor)), Some(rate));
            let alone =
                if speed == Speed::Fdr10 { LinkRate { speed: Speed::Qdr, ..rate } } else { rate };
            assert_eq!(info.rate(None), Some(alone));
        }
    }
    assert_eq!(PortInfo::default().rate(None), None);
}

#[test]
fn everything_prints() {
    let mad = Smp::get(NodeInfo::ID, 0, Route::Lid).mad();
    let line = mad.to_string();
    assert!(line.starts_with(
        "MAD BaseVersion=1 MgmtClass=SubnMgt ClassVersion=1 Method=Get Status=0x0000"
    ));
    assert!(line.contains("; NodeInfo BaseVersion=0"), "{line}");
    assert_eq!(format!("{mad:#}").lines().count(), 3 + 9 + 2 + 12);
    assert_eq!(mad.json()["MAD"]["Method"], "Get");
    assert_eq!(mad.json()["NodeInfo"]["NodeType"], 0);
    assert_eq!(attribute::name(Class::Subnet, PortInfo::ID), Some("PortInfo"));
}

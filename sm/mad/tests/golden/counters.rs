//! Counters of ports.

use serde_json::json;
use snin_fabric::PortNum;
use snin_mad::*;

use crate::golden;

#[test]
fn counters() {
    golden(
        "00 01 ffff  0001 02 03  0004 0005  0006 0007  08 09 00 ab  000c 000d  0000000e 0000000f 00000010
         00000011 00000012",
        &PortCounters {
            port: PortNum(1),
            select: Hex16(0xffff),
            symbol_errors: 1,
            link_error_recoveries: 2,
            link_downed: 3,
            receive_errors: 4,
            receive_remote_physical_errors: 5,
            receive_switch_relay_errors: 6,
            transmit_discards: 7,
            transmit_constraint_errors: 8,
            receive_constraint_errors: 9,
            select2: Hex8(0),
            local_link_integrity_errors: 10,
            excessive_buffer_overrun_errors: 11,
            qp1_dropped: 12,
            vl15_dropped: 13,
            transmit_data: 14,
            receive_data: 15,
            transmit_packets: 16,
            receive_packets: 17,
            transmit_wait: 18,
        },
        json!({ "LocalLinkIntegrityErrors": 10, "PortXmitWait": 18 }),
    );
}

#[test]
fn wide_counters() {
    golden(
        "00 ff abcd  00000007  0000000100000002  0000000300000004  0000000500000006  0000000700000008
         0000000900000010  0000001100000012  0000001300000014  0000001500000016",
        &PortCountersExtended {
            port: PortNum(255),
            select: Hex16(0xabcd),
            select2: Hex32(7),
            transmit_data: 0x1_0000_0002,
            receive_data: 0x3_0000_0004,
            transmit_packets: 0x5_0000_0006,
            receive_packets: 0x7_0000_0008,
            unicast_transmit_packets: 0x9_0000_0010,
            unicast_receive_packets: 0x11_0000_0012,
            multicast_transmit_packets: 0x13_0000_0014,
            multicast_receive_packets: 0x15_0000_0016,
            ..PortCountersExtended::default()
        },
        json!({ "PortSelect": 255, "PortXmitData": 0x1_0000_0002_u64 }),
    );
}

//! Tables that are read and written by blocks (IBA 14.2.5.5 to 14.2.5.12).

use snin_emulator::data::VlWeight;
use snin_emulator::{AdapterModel, Config, SwitchModel};
use snin_fabric::{Guid, Lid, Mlid, PortNum};
use snin_mad::{
    GuidInfo, Hex16, LinearForwarding, MulticastForwarding, PKey, PKeyTable, SlToVl, Status,
    SwitchInfo, VlArbitration, VlCount,
};

use crate::support::{Answer, Lab};

const BAD_VALUE: Option<Status> = Some(Status::BAD_VALUE);

fn with_switch(model: SwitchModel) -> Lab {
    Lab::with("clos:2,2,2", Config { switch: model, ..Config::default() })
}

/// A table of 100 entries has two blocks; of the second, 36 entries.
#[test]
fn the_last_linear_block_ends_where_the_table_ends() {
    let mut lab = with_switch(SwitchModel { linear_fdb_cap: 100, ..SwitchModel::default() });
    assert_eq!(lab.get::<SwitchInfo>("leaf0", 0).value().linear_fdb_cap, 100);
    let full = LinearForwarding { ports: [PortNum(2); 64] };
    for block in [0, 1] {
        // Before anybody wrote, everything is dropped.
        assert_eq!(lab.get("leaf0", block), Answer::Value(LinearForwarding::EMPTY));
    }
    assert_eq!(lab.set("leaf0", 0, &full).value(), full);
    let mut cut = full.clone();
    cut.ports[36..].fill(PortNum::NONE);
    assert_eq!(lab.set("leaf0", 1, &full).value(), cut);
    assert_eq!(lab.get("leaf0", 1), Answer::Value(cut));
    for block in [2, 767, 768, u32::MAX] {
        assert_eq!(lab.get::<LinearForwarding>("leaf0", block).status(), BAD_VALUE, "{block}");
        assert_eq!(lab.set("leaf0", block, &full).status(), BAD_VALUE, "{block}");
    }
    // LinearFDBTop is a LID of the table.
    let mut info: SwitchInfo = lab.get("leaf0", 0).value();
    info.linear_fdb_top = Lid(99);
    assert_eq!(lab.set("leaf0", 0, &info).value().linear_fdb_top, Lid(99));
    info.linear_fdb_top = Lid(100);
    assert_eq!(lab.set("leaf0", 0, &info).status(), BAD_VALUE);
    assert_eq!(lab.get::<SwitchInfo>("leaf0", 0).value().linear_fdb_top, Lid(99));
    // What cannot be written stays as it is.
    info.linear_fdb_top = Lid(99);
    info.linear_fdb_cap = 7;
    assert_eq!(lab.set("leaf0", 0, &info).value().linear_fdb_cap, 100);
}

#[test]
fn a_linear_block_is_written_by_itself() {
    let mut lab = with_switch(SwitchModel::default());
    let block = |num| LinearForwarding { ports: [PortNum(num); 64] };
    lab.set("leaf0", 5, &block(1)).value();
    lab.set("leaf0", 3, &block(2)).value();
    let held = [3, 4, 5, 6].map(|n| lab.get::<LinearForwarding>("leaf0", n).value().ports[0].0);
    assert_eq!(held, [2, 255, 1, 255]);
    assert_eq!(lab.get("spine0", 5), Answer::Value(LinearForwarding::EMPTY));
    // The last block of the whole unicast range.
    lab.set("leaf0", 767, &block(1)).value();
    assert_eq!(lab.set("leaf0", 768, &block(1)).status(), BAD_VALUE);
    // Only LIDs up to LinearFDBTop are in effect.
    let leaf = lab.node("leaf0");
    assert_eq!(lab.emulator.fabric().table(leaf).iter().count(), 0);
    let mut info: SwitchInfo = lab.get("leaf0", 0).value();
    info.linear_fdb_top = Lid(3 * 64 + 9);
    lab.set("leaf0", 0, &info).value();
    let table = lab.emulator.fabric().table(leaf);
    let expected: Vec<_> = (3 * 64..=3 * 64 + 9).map(|lid| (Lid(lid), PortNum(2))).collect();
    assert_eq!(table.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn multicast_goes_by_sixteen_ports_and_32_addresses() {
    let model = SwitchModel { multicast_fdb_cap: 40, ..SwitchModel::default() };
    // A switch of 40 ports has three positions.
    let mut lab = Lab::with("clos:2,20,20", Config { switch: model, ..Config::default() });
    let masks = MulticastForwarding { masks: [Hex16(0x8001); 32] };
    let at = MulticastForwarding::modifier;
    assert_eq!(lab.set("leaf0", at(2, 0), &masks).value(), masks);
    let mut cut = masks.clone();
    cut.masks[8..].fill(Hex16(0));
    assert_eq!(lab.set("leaf0", at(0, 1), &masks).value(), cut);
    for modifier in [at(3, 0), at(0, 2), at(0, 511), 0x0FFF_FFFF] {
        assert_eq!(lab.get::<MulticastForwarding>("leaf0", modifier).status(), BAD_VALUE);
    }
    let leaf = lab.node("leaf0");
    let ports = |lab: &Lab, lid| -> Vec<PortNum> {
        let table = lab.emulator.fabric().multicast_table(leaf);
        table.get(Mlid::new(lid).unwrap()).iter().collect()
    };
    // Position 2 begins with port 32; of its 16 ports the switch has nine.
    assert_eq!(ports(&lab, 0xC000), [PortNum(32)]);
    assert_eq!(ports(&lab, 0xC027), [PortNum(0), PortNum(15)]);
    assert_eq!(ports(&lab, 0xC028), []);
}

#[test]
fn partitions_of_adapters_and_of_switch_ports() {
    let config = Config {
        adapter: AdapterModel { partition_cap: 40, ..AdapterModel::default() },
        switch: SwitchModel {
            partition_cap: 8,
            partition_enforcement_cap: 4,
            ..SwitchModel::default()
        },
        ..Config::default()
    };
    let mut lab = Lab::with("clos:2,2,2", config);
    let full = PKeyTable { keys: std::array::from_fn(|i| PKey(0x8100 + i as u16)) };
    // (node, port, entries of the block that are there)
    for (name, port, block, held) in
        [("host1", 0, 0, 32), ("host1", 0, 1, 8), ("leaf0", 0, 0, 8), ("leaf0", 2, 0, 4)]
    {
        let modifier = PKeyTable::modifier(PortNum(port), block);
        let mut initial = PKeyTable { keys: [PKey(0); 32] };
        if block == 0 {
            initial.keys[0] = PKey::DEFAULT;
        }
        assert_eq!(lab.get(name, modifier), Answer::Value(initial));
        let mut cut = full.clone();
        cut.keys[held..].fill(PKey(0));
        assert_eq!(lab.set(name, modifier, &full).value(), cut, "{name}/{port}");
        assert_eq!(lab.get(name, modifier), Answer::Value(cut), "{name}/{port}");
    }
    for (name, port, block) in [("host1", 0, 2), ("leaf0", 0, 1), ("leaf0", 1, 1), ("leaf0", 5, 0)]
    {
        let modifier = PKeyTable::modifier(PortNum(port), block);
        assert_eq!(lab.get::<PKeyTable>(name, modifier).status(), BAD_VALUE, "{name}/{port}");
    }
}

#[test]
fn service_levels_by_input_and_output() {
    let mut lab = Lab::new("clos:2,2,2");
    let table = |first| SlToVl { vls: std::array::from_fn(|sl| (sl as u8 + first) % 8) };
    assert_eq!(lab.get("leaf0", SlToVl::modifier(PortNum(1), PortNum(2))), Answer::Value(table(0)));
    lab.set("leaf0", SlToVl::modifier(PortNum(1), PortNum(2)), &table(1)).value();
    lab.set("host1", 0, &table(3)).value();
    let get =
        |lab: &mut Lab, i, o| lab.get::<SlToVl>("leaf0", SlToVl::modifier(PortNum(i), PortNum(o)));
    assert_eq!(get(&mut lab, 1, 2), Answer::Value(table(1)));
    assert_eq!(get(&mut lab, 2, 1), Answer::Value(table(0)));
    assert_eq!(get(&mut lab, 1, 5).status(), BAD_VALUE);
    assert_eq!(get(&mut lab, 5, 1).status(), BAD_VALUE);
    assert_eq!(lab.get("host1", 0), Answer::Value(table(3)));
}

#[test]
fn arbitration_tables_have_as_many_entries_as_they_say() {
    let model = SwitchModel { vl_arbitration_cap: 40, ..SwitchModel::default() };
    let mut lab = with_switch(model);
    let full = VlArbitration { vls: [3; 32], weights: [9; 32] };
    for (quarter, held) in [(1, 32), (2, 8), (3, 32), (4, 8)] {
        let modifier = VlArbitration::modifier(PortNum(1), quarter);
        let mut cut = full.clone();
        cut.vls[held..].fill(0);
        cut.weights[held..].fill(0);
        assert_eq!(lab.set("leaf0", modifier, &full).value(), cut, "{quarter}");
        assert_eq!(lab.get("leaf0", modifier), Answer::Value(cut), "{quarter}");
    }
    // Eight entries fit into the first quarter.
    for quarter in [0, 2, 4, 5] {
        let modifier = VlArbitration::modifier(PortNum(0), quarter);
        assert_eq!(lab.get::<VlArbitration>("host1", modifier).status(), BAD_VALUE, "{quarter}");
    }
}

/// The data plane gets what managers wrote: of VLs that are operational, turns with a weight, the limit.
#[test]
fn lanes_are_as_they_were_written() {
    let mut lab = Lab::new("clos:2,2,2");
    let weights = |entries: &[(u8, u8)]| -> Vec<VlWeight> {
        entries.iter().map(|&(vl, weight)| VlWeight { vl, weight }).collect()
    };
    let port = lab.port("leaf0", 2);
    lab.change_port("leaf0", 2, |info| {
        (info.operational_vls, info.vl_high_limit) = (VlCount::Vl0To3, 7);
    });
    let fresh = lab.emulator.fabric().lanes().swap_remove(port.index());
    assert_eq!(fresh.mapping.len(), 5);
    // Eight VLs were possible, of which four are left; no manager has written an arbitration table.
    assert_eq!(
        fresh.mapping[1],
        std::array::from_fn(|sl| if sl % 8 < 4 { sl as u8 % 8 } else { 15 })
    );
    assert_eq!(fresh.arbitration.low, weights(&[(0, 64), (1, 64), (2, 64), (3, 64)]));
    assert_eq!((fresh.arbitration.high.len(), fresh.arbitration.limit), (0, 7));
    let table = SlToVl { vls: std::array::from_fn(|sl| if sl == 3 { 9 } else { 2 }) };
    lab.set("leaf0", SlToVl::modifier(PortNum(3), PortNum(2)), &table).value();
    for (quarter, entries) in [(1, [(0, 4), (1, 0)]), (3, [(2, 200), (3, 1)])] {
        let mut turns = VlArbitration { vls: [0; 32], weights: [0; 32] };
        for (n, (vl, weight)) in entries.into_iter().enumerate() {
            (turns.vls[n], turns.weights[n]) = (vl, weight);
        }
        lab.set("leaf0", VlArbitration::modifier(PortNum(2), quarter), &turns).value();
    }
    let lanes = lab.emulator.fabric().lanes().swap_remove(port.index());
    assert_eq!(lanes.mapping[3], std::array::from_fn(|sl| if sl == 3 { 15 } else { 2 }));
    assert_eq!(lanes.mapping[1], fresh.mapping[1]);
    assert_eq!(lanes.arbitration.low, weights(&[(0, 4)]));
    assert_eq!(lanes.arbitration.high, weights(&[(2, 200), (3, 1)]));
    // An end port has one table.
    lab.set("host1", 0, &table).value();
    let host = lab.port("host1", 1);
    let host = lab.emulator.fabric().lanes().swap_remove(host.index());
    assert_eq!(host.mapping, [[15; 16]], "one lane only, and it maps to another");
}

#[test]
fn the_first_guid_is_the_ports_own() {
    let config = Config {
        adapter: AdapterModel { guid_cap: 12, ..AdapterModel::default() },
        ..Config::default()
    };
    let mut lab = Lab::with("clos:2,2,2", config);
    let own = lab.topology.port(lab.port("host1", 1)).guid;
    let mut expected = GuidInfo { guids: [Guid(0); 8] };
    expected.guids[0] = own;
    assert_eq!(lab.get("host1", 0), Answer::Value(expected.clone()));
    let full = GuidInfo { guids: std::array::from_fn(|i| Guid(0x100 + i as u64)) };
    expected = full.clone();
    expected.guids[0] = own;
    assert_eq!(lab.set("host1", 0, &full).value(), expected);
    let mut cut = full.clone();
    cut.guids[4..].fill(Guid(0));
    assert_eq!(lab.set("host1", 1, &full).value(), cut);
    assert_eq!(lab.get::<GuidInfo>("host1", 2).status(), BAD_VALUE);
    // Port 0 of a switch has one, the node's.
    let guid = lab.topology.node(lab.node("leaf0")).guid;
    assert_eq!(lab.get::<GuidInfo>("leaf0", 0).value().guids[0], guid);
}

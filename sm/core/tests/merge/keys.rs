//! M_Keys of two subnets that become one.

use std::collections::BTreeMap;

use snin_fabric::PortIndex;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::keys::KeyPolicy;

use crate::cabled::side;
use crate::live::{Live, hosts, settings};

/// The keys of the hosts' ports of a side.
fn keys(live: &Live, of: u64) -> BTreeMap<PortIndex, u64> {
    let topology = &live.subnet.topology;
    let its = hosts(topology).into_iter();
    its.filter(|&port| side(topology, topology.port(port).node) == of)
        .map(|port| (port, live.subnet.emulator.fabric().port_info(port).m_key.0))
        .collect()
}

/// Every port has an M_Key that follows from its own manager's secret and that others are not shown. The winner is
/// told the other's secret with its database, and gives each port a key of its own; where it is not told, it
/// writes nothing there.
#[test]
fn ports_of_the_absorbed_subnet_have_keys_of_another_secret() {
    let guarded = |n| Config { m_key_policy: KeyPolicy::PerPort, m_key_protect: 1, ..settings(n) };
    for told in [true, false] {
        let mut live = Live::with(2, guarded);
        live.subnet.seats[1].manager.set_readable(!told);
        let before = keys(&live, 0x02A);
        assert!(before.values().all(|key| *key != 0));
        live.plug(0);
        if told {
            live.settle(0, 2);
            live.judge();
            let secrets = &live.subnet.seats[0].saved.former_keys;
            assert_eq!(secrets.iter().map(|keys| keys.secret[0]).collect::<Vec<_>>(), [2]);
        } else {
            live.subnet.run(Time::secs(30));
        }
        let after = keys(&live, 0x02A);
        let changed = before.iter().filter(|(port, key)| after[port] != **key).count();
        assert_eq!(changed, if told { 12 } else { 0 }, "{told}");
    }
}

/// Each operator gave a key of his own. The winner is told the other one's, and gives the ports its own; where it
/// is not told, it writes nothing there.
#[test]
fn ports_of_the_absorbed_subnet_have_another_operators_key() {
    let given = |n: usize| Config { m_key: 0xA0 + n as u64, m_key_protect: 1, ..settings(n) };
    for told in [true, false] {
        let mut live = Live::with(2, given);
        live.subnet.seats[1].manager.set_readable(!told);
        assert!(keys(&live, 0x02A).values().all(|key| *key == 0xA1));
        live.plug(0);
        if told {
            live.settle(0, 2);
            live.judge();
        } else {
            live.subnet.run(Time::secs(30));
        }
        let now = if told { 0xA0 } else { 0xA1 };
        assert!(keys(&live, 0x02A).values().all(|key| *key == now), "{told}");
    }
}

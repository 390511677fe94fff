//! Levels of service by an operator's rules, in the format of OpenSM's qos-policy.conf: what a query for a path is
//! answered with beside its addresses.
//!
//! Rules are asked in their order; the first that fits says the level, else the level DEFAULT. What a level does
//! not set stays as it would be without it. Paths of granted traffic keep the service level of granted traffic.

mod parse;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, NodeKind, PortNum};
use snin_mad::PKey;

pub use parse::{BadPolicy, Reason};

/// See the module's documentation. Without rules there is no level.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QosPolicy {
    /// As it was read.
    text: String,
    groups: BTreeMap<String, Group>,
    levels: Vec<Level>,
    rules: Vec<Rule>,
}

/// Numbers that a rule names.
type Ranges = Vec<RangeInclusive<u64>>;

fn has(ranges: &Ranges, number: u64) -> bool {
    ranges.iter().any(|range| range.contains(&number))
}

/// What a path of a level is like.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Level {
    name: String,
    /// The service level.
    pub sl: Option<u8>,
    /// The greatest MTU, by code.
    pub mtu_limit: Option<u8>,
    /// The greatest rate, by code.
    pub rate_limit: Option<u8>,
    /// The packet lifetime.
    pub packet_life: Option<u8>,
    /// The partitions that it may be in; none: any.
    keys: Ranges,
}

impl Level {
    /// Whether a path of this level may be in a partition.
    pub fn allows(&self, key: PKey) -> bool {
        self.keys.is_empty() || has(&self.keys, key.base().into())
    }
}

/// Ports that a rule names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Group {
    guids: Ranges,
    /// By the description of the node and the number of the port.
    names: Vec<(String, PortNum)>,
    /// Of members of these partitions.
    keys: Ranges,
    kinds: Vec<NodeKind>,
    all: bool,
    manager: bool,
}

/// A port as groups see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its GUID.
    pub guid: Guid,
    /// What its node is.
    pub kind: NodeKind,
    /// The node's description.
    pub name: &'a str,
    /// Its number.
    pub num: PortNum,
    /// Its partitions.
    pub keys: &'a [PKey],
    /// Whether the manager sits there.
    pub own: bool,
}

impl Group {
    fn has(&self, port: &Subject<'_>) -> bool {
        self.all
            || self.manager && port.own
            || self.kinds.contains(&port.kind)
            || has(&self.guids, port.guid.0)
            || self.names.iter().any(|(name, num)| name == port.name && *num == port.num)
            || port.keys.iter().any(|key| has(&self.keys, key.base().into()))
    }
}

/// Which paths have a level. What it does not name it does not look at.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Rule {
    sources: Vec<String>,
    destinations: Vec<String>,
    classes: Ranges,
    services: Ranges,
    keys: Ranges,
    level: usize,
}

/// What a query says of the path that it wants.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathQuery {
    /// QoSClass.
    pub class: Option<u16>,
    /// ServiceID.
    pub service: Option<u64>,
    /// P_Key.
    pub key: Option<PKey>,
}

impl QosPolicy {
    /// The level of a path, if there is a policy.
    pub fn level(&self, from: &Subject<'_>, to: &Subject<'_>, asked: &PathQuery) -> Option<&Level> {
        let in_groups = |names: &[String], port: &Subject<'_>| {
            let mut groups = names.iter().filter_map(|name| self.groups.get(name));
            names.is_empty() || groups.any(|group| group.has(port))
        };
        let says = |ranges: &Ranges, number: Option<u64>| {
            ranges.is_empty() || number.is_some_and(|number| has(ranges, number))
        };
        let fits = |rule: &&Rule| {
            in_groups(&rule.sources, from)
                && in_groups(&rule.destinations, to)
                && says(&rule.classes, asked.class.map(Into::into))
                && says(&rule.services, asked.service)
                && says(&rule.keys, asked.key.map(|key| key.base().into()))
        };
        let rule = self.rules.iter().find(fits);
        let named = rule.map(|rule| rule.level);
        let default = || self.levels.iter().position(|level| level.name == DEFAULT);
        self.levels.get(named.or_else(default)?)
    }

    /// Whether it says nothing.
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// The level of what no rule fits.
const DEFAULT: &str = "DEFAULT";

impl FromStr for QosPolicy {
    type Err = BadPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::file(text)
    }
}

impl TryFrom<String> for QosPolicy {
    type Error = BadPolicy;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<QosPolicy> for String {
    fn from(policy: QosPolicy) -> Self {
        policy.text
    }
}

impl Display for QosPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# levels of a site
port-groups
    port-group
        name: Storage
        use: what the disks are at
        port-guid: 0x10, 0x20-0x2F
        port-name: vs1 HCA-1/P1 , node 2/P2
    end-port-group
    port-group
        name: Switches
        node-type: SWITCH, ROUTER
        pkey: 0x7001-0x7003
    end-port-group
end-port-groups
qos-setup
    sl2vl-tables
        whatever: 1
    end-sl2vl-tables
end-qos-setup
qos-levels
    qos-level
        name: DEFAULT
        sl: 1
    end-qos-level
    qos-level
        name: Gold
        sl: 5
        mtu-limit: 3
        rate-limit: 2
        packet-life: 12
        path-bits: 1,2-4
        pkey: 0x7FFF
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        use: the first that fits
        source: Storage
        destination: Switches
        qos-level-name: Gold
    end-qos-match-rule
    qos-match-rule
        qos-class: 7-9,11
        qos-level-name: Gold
    end-qos-match-rule
end-qos-match-rules
qos-ulps
    default                     : 2   # of all others
    sdp, port-num 30000-30010   : 3
    sdp                         : 4
    rds                         : 6
    iser, port-num 900          : 7
    any, service-id 0x6234      : 8
    any, pkey 0x0ABC            : 9
    srp, target-port-guid 0x33  : 10
    ipoib                       : 11
    ipoib, pkey 0x8005          : 12
    any, source-target-port-guid 0x44 : 13
end-qos-ulps
";

    fn port(guid: u64) -> Subject<'static> {
        Subject {
            guid: Guid(guid),
            kind: NodeKind::Adapter,
            name: "n",
            num: PortNum(1),
            keys: &[],
            own: false,
        }
    }

    #[test]
    fn the_first_rule_that_fits_says_the_level() {
        let policy: QosPolicy = FILE.parse().unwrap();
        let sl = |from: &Subject<'_>, to: &Subject<'_>, asked: PathQuery| {
            policy.level(from, to, &asked).unwrap().sl.unwrap()
        };
        let (one, two) = (port(1), port(2));
        let switch = Subject { kind: NodeKind::Switch, ..two };
        let none = PathQuery::default();
        assert_eq!(sl(&one, &two, none), 2);
        assert_eq!(sl(&port(0x25), &switch, none), 5);
        let named = Subject { name: "node 2", num: PortNum(2), ..one };
        let keyed = Subject { keys: &[PKey(0xFFFF), PKey(0x7002)], ..two };
        assert_eq!((sl(&named, &keyed, none), sl(&keyed, &named, none)), (5, 2));
        let classes =
            [7, 10, 11].map(|class| sl(&one, &two, PathQuery { class: Some(class), ..none }));
        assert_eq!(classes, [5, 2, 5]);
        let services = [0x1_7530, 0x1_753B, 0x106_48CA, 0x106_0384, 0x6234, 0x6235];
        let services = services.map(|id| sl(&one, &two, PathQuery { service: Some(id), ..none }));
        assert_eq!(services, [3, 4, 6, 7, 8, 2]);
        let keys = [0x8ABC, 0x7FFF, 0x0005, 0x0006];
        let keys = keys.map(|key| sl(&one, &two, PathQuery { key: Some(PKey(key)), ..none }));
        assert_eq!(keys, [9, 11, 12, 2]);
        assert_eq!((sl(&one, &port(0x33), none), sl(&port(0x33), &one, none)), (10, 2));
        assert_eq!((sl(&one, &port(0x44), none), sl(&port(0x44), &one, none)), (13, 13));
        let gold = policy.level(&port(0x10), &switch, &none).unwrap();
        assert_eq!(
            (gold.mtu_limit, gold.rate_limit, gold.packet_life),
            (Some(3), Some(2), Some(12))
        );
        assert!(gold.allows(PKey(0xFFFF)) && !gold.allows(PKey(0x8001)));
    }

    #[test]
    fn nothing_says_nothing_and_a_file_comes_back() {
        let none: QosPolicy = "".parse().unwrap();
        assert!(none.is_empty() && none.level(&port(1), &port(2), &PathQuery::default()).is_none());
        let policy: QosPolicy = FILE.parse().unwrap();
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let level = |lines: &str| {
            format!(
                "qos-levels\nqos-level\nname: DEFAULT\n{lines}\nend-qos-level\nend-qos-levels\n"
            )
        };
        let rule = |lines: &str| {
            let rule = format!("qos-match-rule\n{lines}\nend-qos-match-rule");
            format!("{}qos-match-rules\n{rule}\nend-qos-match-rules\n", level("sl: 0"))
        };
        let cases = [
            (level("sl: 16"), "line 4: sl is `16`: expected 0 to 15"),
            (level("sl: 1\nsl: 2"), "line 5: sl is said twice"),
            (level("speed: 1"), "line 4: `speed` is nothing that a qos-level has"),
            (level("mtu-limit: 6"), "line 4: mtu-limit is `6`: expected 1 to 5"),
            (rule("qos-level-name: Gold"), "line 9: there is no qos-level `Gold`"),
            (
                rule("source: Disks\nqos-level-name: DEFAULT"),
                "line 10: there is no port-group `Disks`",
            ),
            (rule("qos-class: 5"), "line 8: a qos-match-rule has a qos-level-name"),
            (
                rule("service-id: 9-5\nqos-level-name: DEFAULT"),
                "line 9: `9-5` is no range: the first is not above the last",
            ),
            ("qos-levels\n".to_owned(), "line 1: `qos-levels` has no `end-qos-levels`"),
            ("hosts\n".to_owned(), "line 1: `hosts` begins no section"),
            ("qos-ulps\nnfs : 3\nend-qos-ulps\n".to_owned(), "line 2: `nfs` is no ULP"),
            ("qos-ulps\nsdp, pkey 3 : 3\nend-qos-ulps\n".to_owned(), "line 2: sdp takes no `pkey`"),
            ("qos-ulps\nsrp : 3\nend-qos-ulps\n".to_owned(), "line 2: srp takes target-port-guid"),
            (
                "qos-ulps\nsdp 3\nend-qos-ulps\n".to_owned(),
                "line 2: `sdp 3`: expected a ULP, a colon and a service level",
            ),
        ];
        for (text, why) in cases {
            let error = text.parse::<QosPolicy>().unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}

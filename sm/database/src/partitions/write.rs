//! Partitions as text: a file that says the same.

use std::fmt;

use snin_fabric::NodeKind;

use super::parse::{BadPartitions, IMPLIED, file};
use super::{Made, Membership, Partitions, Rule, Who};

impl std::str::FromStr for Partitions {
    type Err = BadPartitions;

    fn from_str(text: &str) -> Result<Self, BadPartitions> {
        file(text)
    }
}

impl TryFrom<String> for Partitions {
    type Error = BadPartitions;

    fn try_from(text: String) -> Result<Self, BadPartitions> {
        file(&text)
    }
}

impl From<Partitions> for String {
    fn from(partitions: Partitions) -> Self {
        partitions.to_string()
    }
}

impl fmt::Display for Partitions {
    /// A line a rule, a line a group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules[IMPLIED..] {
            let Rule { partition, who, membership, first } = rule;
            match self.names.get(partition) {
                Some(name) => write!(f, "{name}={partition:#06x}")?,
                None => write!(f, "{partition:#06x}")?,
            }
            let first = if *first { ", indx0" } else { "" };
            writeln!(f, "{first} : {who}={membership};")?;
        }
        for group in &self.groups {
            let Made { mgid, p_key, mtu, rate, sl, q_key, traffic_class, flow_label } = group;
            writeln!(
                f,
                "{:#06x}, mtu={mtu}, rate={rate} : mgid={mgid}, sl={sl}, Q_Key={:#x}, \
                 TClass={}, FlowLabel={:#x}, scope={};",
                p_key.base(),
                q_key.0,
                traffic_class.0,
                flow_label.0,
                mgid.0[1] & 0xF
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("ALL"),
            Self::Kind(NodeKind::Adapter) => f.write_str("ALL_CAS"),
            Self::Kind(NodeKind::Switch) => f.write_str("ALL_SWITCHES"),
            Self::Kind(NodeKind::Router) => f.write_str("ALL_ROUTERS"),
            Self::Manager => f.write_str("SELF"),
            Self::Port(guid) => guid.fmt(f),
        }
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limited => "limited",
            Self::Full => "full",
            Self::Both => "both",
        })
    }
}

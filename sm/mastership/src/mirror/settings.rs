//! Settings that have to be the same at all managers of a subnet.

use super::rows::hash;
use snin_sm_database::config::Config;
use snin_sm_database::partitions::Partitions;

/// This manager's, a line each. Keys are not among them: a session may be readable.
pub(super) fn of(config: &Config) -> String {
    let Config { lmc, m_key_policy, m_key_protect, m_key_lease_s, qos, .. } = config;
    let lanes = (&config.qos_sl2vl, &config.qos_vlarb_high, &config.qos_vlarb_low);
    let version = env!("CARGO_PKG_VERSION");
    let lines = [
        format!("version {version}"),
        format!("lmc {lmc:?}"),
        format!("subnet_prefix {:#018x}", config.subnet_prefix),
        format!("m_key_policy {m_key_policy:?}"),
        format!("m_key_protection_level {m_key_protect}"),
        format!("m_key_lease_period {m_key_lease_s}"),
        format!("partitions {}", partitions_in_short(config)),
        format!("part_enforce {:?}", config.enforce),
        format!("allow_both_pkeys {}", config.both_keys),
        format!("granted_sl {}", config.granted_sl),
        format!("unmanaged_share {}", config.unmanaged_share),
        format!("qos {qos}"),
        format!("qos_tables {lanes:?} {}", config.qos_high_limit),
        format!("qos_ca {:?}", config.qos_ca),
        format!("qos_rtr {:?}", config.qos_rtr),
        format!("qos_sw0 {:?}", config.qos_sw0),
        format!("qos_swe {:?}", config.qos_swe),
        format!("max_op_vls {}", config.max_op_vls),
        format!("sm_sl {}", config.sm_sl),
        format!("packet_life_time {}", config.packet_lifetime),
        format!("subnet_timeout {}", config.subnet_timeout),
        format!("head_of_queue_lifetime {}", config.head_of_queue_lifetime),
        format!("leaf_head_of_queue_lifetime {}", config.leaf_head_of_queue_lifetime),
        format!("vl_stall_count {}", config.vl_stall_count),
        format!("leaf_vl_stall_count {}", config.leaf_vl_stall_count),
        format!("local_phy_errors_threshold {}", config.local_phy_errors_threshold),
        format!("overrun_errors_threshold {}", config.overrun_errors_threshold),
    ];
    lines.join("\n")
}

/// How many rules there are, and a hash of them; files may be long.
fn partitions_in_short(config: &Config) -> String {
    if config.partitions == Partitions::default() {
        return "by default".to_owned();
    }
    let text = config.partitions.to_string();
    format!("{} lines, {:#018x}", text.lines().count(), hash(&text))
}

/// What differs, in words. What only one of them has is passed over: versions have different settings.
pub(super) fn compare(own: &str, other: &[u8]) -> Vec<String> {
    let other = String::from_utf8_lossy(other);
    let differs = |line: &str| {
        let (key, here) = line.split_once(' ')?;
        let theirs = other.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        (theirs != here).then(|| format!("{key} is {here:.80} here and {theirs:.80} there"))
    };
    own.lines().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let own = of(&Config { lmc: None, ..Config::default() });
        assert_eq!(compare(&own, own.as_bytes()), Vec::<String>::new());
        let other = Config {
            partitions: "a=7 : ALL;".parse().unwrap(),
            packet_lifetime: 9,
            ..Config::default()
        };
        let other = of(&other).replace(env!("CARGO_PKG_VERSION"), "9.9.9") + "\nnew 1";
        let differs = compare(&own, other.as_bytes());
        assert_eq!(differs.len(), 3, "{differs:?}");
        assert!(differs[0].ends_with("here and 9.9.9 there"), "{differs:?}");
        assert!(
            differs[1].starts_with("partitions is by default here and 1 lines, 0x"),
            "{differs:?}"
        );
    }
}

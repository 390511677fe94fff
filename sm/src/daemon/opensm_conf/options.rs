//! Every option of OpenSM 3.3.24, in the order in which `opensm --create-config` writes them, and what it is here.

/// An option.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSmOption {
    pub(super) name: &'static str,
    /// As `opensm --create-config` writes it.
    pub(super) default: &'static str,
    pub(super) form: Form,
    pub(super) verdict: Verdict,
}

/// What it comes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// A key of `sm.toml` with the same meaning.
    Key(&'static str),
    /// Where it differs from OpenSM's default: this key with this value.
    Set(&'static str, &'static str),
    /// snin-sm always does as OpenSM does by default.
    Always(&'static str),
    /// Something else does it.
    Instead(&'static str),
    /// There is none: why, or what is done instead.
    No(&'static str),
}

use Form::{Boolean, Engines, File, Hex, Lanes, Limit, Number, Text, Weights};
use Verdict::{Always, Instead, Key, No, Set};

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Decimal, octal or hexadecimal, as C reads it.
    Number,
    /// The same with 64 bits.
    Hex,
    /// TRUE or FALSE.
    Boolean,
    /// A word, or a path.
    Text,
    /// A file that need not be there.
    File,
    /// `dfsssp,updn`: the first that is meant.
    Engines,
    /// `0,1,2`.
    Lanes,
    /// `0:4,1:64`.
    Weights,
    /// A number, or -1 for none.
    Limit,
}

impl Form {
    pub(super) fn is_file(self) -> bool {
        self == Self::File
    }

    /// The value as TOML has it; nothing where there is none.
    pub(super) fn read(self, value: &str) -> Result<Option<String>, String> {
        if value.is_empty() || value == "(null)" {
            return Ok(None);
        }
        let each = |convert: fn(&str) -> Result<String, String>| {
            let all: Result<Vec<String>, String> =
                value.split(',').map(|one| convert(one.trim())).collect();
            Ok(Some(format!("[{}]", all?.join(", "))))
        };
        match self {
            Self::Number => Ok(Some(number(value)?.to_string())),
            Self::Limit if value == "-1" => Ok(None),
            Self::Limit => Ok(Some(number(value)?.to_string())),
            Self::Hex => Ok(Some(format!("\"{:#018x}\"", number(value)?))),
            Self::Boolean if value.eq_ignore_ascii_case("true") => Ok(Some("true".to_owned())),
            Self::Boolean if value.eq_ignore_ascii_case("false") => Ok(Some("false".to_owned())),
            Self::Boolean => Err(format!("`{value}` is neither TRUE nor FALSE")),
            Self::Text | Self::File => Ok(Some(toml::Value::from(value).to_string())),
            Self::Engines => engine(value),
            Self::Lanes => each(|lane| Ok(number(lane)?.to_string())),
            Self::Weights => each(|pair| {
                let form = || format!("`{pair}` is no LANE:WEIGHT");
                let (lane, weight) = pair.split_once(':').ok_or_else(form)?;
                Ok(format!("[{}, {}]", number(lane)?, number(weight)?))
            }),
        }
    }
}

/// Of the engines that OpenSM is to try, what the first comes to.
fn engine(value: &str) -> Result<Option<String>, String> {
    let first = value.split([',', ' ']).find(|name| !name.is_empty()).unwrap_or_default();
    match first {
        "minhop" | "ftree" => Ok(Some(AUTO.to_owned())),
        "file" => Ok(Some("\"file\"".to_owned())),
        "updn" | "dnup" => Ok(Some("\"updown\"".to_owned())),
        "lash" | "dfsssp" | "sssp" | "nue" => Ok(Some("\"lanes\"".to_owned())),
        "dor" | "torus-2QoS" => Ok(Some("\"dor\"".to_owned())),
        other => Err(format!(
            "`{other}` is no engine of OpenSM's (minhop, updn, dnup, ftree, lash, dor, torus-2QoS, nue, dfsssp, \
             sssp or file)"
        )),
    }
}

/// As C's strtoull reads it with base 0.
fn number(text: &str) -> Result<u64, String> {
    let (digits, radix) = match text {
        _ if text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X")) => {
            (&text[2..], 16)
        }
        _ if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).map_err(|_| format!("`{text}` is no number"))
}

/// Where OpenSM's engine is none of ours, too.
pub(super) const ROUTES: &str = "routes follow the cables: trees on a Clos, balanced up*/down* elsewhere; \
                                 `routing` has others (snin topo routes)";
/// What such an engine is read as.
pub(super) const AUTO: &str = "\"auto\"";
const PERF: &str =
    "counters of ports are read by your exporter, or perfquery; of ports under test by snin-sm";
const CONGESTION: &str =
    "switches mark nothing: what is granted meets no congestion, other traffic has its own lane";

const fn opt(
    name: &'static str,
    default: &'static str,
    form: Form,
    verdict: Verdict,
) -> OpenSmOption {
    OpenSmOption { name, default, form, verdict }
}

/// All of them.
pub(super) const OPTIONS: &[OpenSmOption] = &[
    opt("guid", "0x0000000000000000", Hex, Key("guid")),
    opt("m_key", "0x0000000000000000", Hex, Key("m_key")),
    opt("m_key_lease_period", "0", Number, Key("m_key_lease_period")),
    opt("m_key_protection_level", "0", Number, Key("m_key_protection_level")),
    opt(
        "m_key_lookup",
        "TRUE",
        Boolean,
        Instead("former_m_keys names the keys that ports may have from before"),
    ),
    opt("sm_key", "0x0000000000000001", Hex, Key("sm_key")),
    opt("sa_key", "0x0000000000000001", Hex, Key("sa_key")),
    opt("subnet_prefix", "0xfe80000000000000", Hex, Key("subnet_prefix")),
    opt("lmc", "0", Number, Key("lmc")),
    opt("lmc_esp0", "FALSE", Boolean, No("port 0 of a switch has one address")),
    opt("sm_sl", "0", Number, Key("sm_sl")),
    opt("packet_life_time", "0x12", Number, Key("packet_life_time")),
    opt("vl_stall_count", "0x07", Number, Key("vl_stall_count")),
    opt("leaf_vl_stall_count", "0x07", Number, Key("leaf_vl_stall_count")),
    opt("head_of_queue_lifetime", "0x12", Number, Key("head_of_queue_lifetime")),
    opt("leaf_head_of_queue_lifetime", "0x10", Number, Key("leaf_head_of_queue_lifetime")),
    opt("max_op_vls", "5", Number, Key("max_op_vls")),
    opt(
        "force_link_speed",
        "15",
        Number,
        No("links run as fast as both ends can; snin sm status names those that are slower"),
    ),
    opt(
        "force_link_speed_ext",
        "31",
        Number,
        No("links run as fast as both ends can; snin sm status names those that are slower"),
    ),
    opt(
        "force_link_width",
        "255",
        Number,
        No("links run as fast as both ends can; snin sm status names those that are slower"),
    ),
    opt(
        "fdr10",
        "1",
        Number,
        No("links run as fast as both ends can; snin sm status names those that are slower"),
    ),
    opt("subnet_timeout", "18", Number, Key("subnet_timeout")),
    opt("local_phy_errors_threshold", "0x08", Number, Key("local_phy_errors_threshold")),
    opt("overrun_errors_threshold", "0x08", Number, Key("overrun_errors_threshold")),
    opt("use_mfttop", "TRUE", Boolean, Always("MulticastFDBTop is written where a switch has it")),
    opt("partition_config_file", "/etc/opensm/partitions.conf", File, Key("partition_config_file")),
    opt("no_partition_enforcement", "FALSE", Boolean, Set("part_enforce", "\"off\"")),
    opt("part_enforce", "both", Text, Key("part_enforce")),
    opt("allow_both_pkeys", "FALSE", Boolean, Key("allow_both_pkeys")),
    opt("keep_pkey_indexes", "TRUE", Boolean, Always("a key that a port holds keeps its place")),
    opt("sm_assigned_guid", "0x00", Number, No("alias GUIDs are asked for by hosts")),
    opt("sweep_interval", "10", Number, Key("sweep_interval")),
    opt(
        "reassign_lids",
        "FALSE",
        Boolean,
        Instead("LIDs stay; without guid2lid in state_dir they are given anew"),
    ),
    opt("force_heavy_sweep", "FALSE", Boolean, Instead("snin sm sweep looks at everything once")),
    opt(
        "sweep_on_trap",
        "TRUE",
        Boolean,
        Always("a trap leads to a look at the ports that it is about"),
    ),
    opt("port_profile_switch_nodes", "FALSE", Boolean, No(ROUTES)),
    opt("port_prof_ignore_file", "(null)", Text, No(ROUTES)),
    opt("hop_weights_file", "(null)", Text, No(ROUTES)),
    opt("port_search_ordering_file", "(null)", Text, No(ROUTES)),
    opt("routing_engine", "(null)", Engines, Key("routing")),
    opt("avoid_throttled_links", "FALSE", Boolean, No(ROUTES)),
    opt("connect_roots", "FALSE", Boolean, No(ROUTES)),
    opt("use_ucast_cache", "FALSE", Boolean, Always("only entries that differ are written")),
    opt("lid_matrix_dump_file", "(null)", Text, No(ROUTES)),
    opt("lfts_file", "(null)", Text, Key("lfts_file")),
    opt("root_guid_file", "(null)", Text, Key("root_guid_file")),
    opt("cn_guid_file", "(null)", Text, No(ROUTES)),
    opt("io_guid_file", "(null)", Text, No(ROUTES)),
    opt("quasi_ftree_indexing", "FALSE", Boolean, No(ROUTES)),
    opt("max_reverse_hops", "0", Number, No(ROUTES)),
    opt("ids_guid_file", "(null)", Text, No(ROUTES)),
    opt("guid_routing_order_file", "(null)", Text, No(ROUTES)),
    opt("do_mesh_analysis", "FALSE", Boolean, No(ROUTES)),
    opt("lash_start_vl", "0", Number, No("paths take lanes from 0 on")),
    opt("nue_max_num_vls", "1", Number, Instead("max_op_vls, one for all ports")),
    opt("nue_include_switches", "FALSE", Boolean, No(ROUTES)),
    opt("port_shifting", "FALSE", Boolean, No(ROUTES)),
    opt("scatter_ports", "0", Number, No(ROUTES)),
    opt("guid_routing_order_no_scatter", "FALSE", Boolean, No(ROUTES)),
    opt("sa_db_file", "(null)", Text, Instead("state_dir keeps what hosts said")),
    opt("sa_db_dump", "FALSE", Boolean, Instead("snin sm database prints what hosts said")),
    opt("torus_config", "/etc/opensm/torus-2QoS.conf", Text, No(ROUTES)),
    opt("sm_priority", "0", Number, Key("sm_priority")),
    opt("ignore_other_sm", "FALSE", Boolean, No("beside another master nothing is written")),
    opt("sminfo_polling_timeout", "10000", Number, Key("sminfo_polling_timeout")),
    opt("polling_retry_number", "4", Number, Key("polling_retry_number")),
    opt(
        "honor_guid2lid_file",
        "FALSE",
        Boolean,
        Always("guid2lid in state_dir is read at every start"),
    ),
    opt("max_wire_smps", "4", Number, Key("max_wire_smps")),
    opt(
        "max_wire_smps2",
        "4",
        Number,
        No("the window of SMPs follows from answers, up to max_wire_smps"),
    ),
    opt(
        "max_smps_timeout",
        "600000",
        Number,
        No("the window of SMPs follows from answers, up to max_wire_smps"),
    ),
    opt("transaction_timeout", "200", Number, Key("transaction_timeout")),
    opt("transaction_retries", "3", Number, Key("transaction_retries")),
    opt("long_transaction_timeout", "500", Number, No("SL2VL tables are written one by one")),
    opt(
        "max_msg_fifo_timeout",
        "10000",
        Number,
        Instead("sa_busy says whether hosts are told that too much is under way"),
    ),
    opt("single_thread", "FALSE", Boolean, Always("one thread answers hosts")),
    opt("daemon", "FALSE", Boolean, Instead("the systemd unit")),
    opt("sm_inactive", "FALSE", Boolean, Instead("snin sm disable")),
    opt(
        "babbling_port_policy",
        "FALSE",
        Boolean,
        No("a port that floods with traps keeps no other waiting, and stays up"),
    ),
    opt(
        "drop_event_subscriptions",
        "FALSE",
        Boolean,
        No("subscriptions are kept until their port is gone"),
    ),
    opt(
        "ipoib_mcgroup_creation_validation",
        "TRUE",
        Boolean,
        Always("joins are compared with their group"),
    ),
    opt("mcgroup_join_validation", "TRUE", Boolean, Always("joins are compared with their group")),
    opt(
        "use_original_extended_sa_rates_only",
        "FALSE",
        Boolean,
        No("rates are as the specification has them"),
    ),
    opt("use_optimized_slvl", "FALSE", Boolean, No("SL2VL tables are written one by one")),
    opt(
        "fsync_high_avail_files",
        "TRUE",
        Boolean,
        Always("what has to last is on the disk before it is promised"),
    ),
    opt("perfmgr", "FALSE", Boolean, No(PERF)),
    opt("perfmgr_redir", "TRUE", Boolean, No(PERF)),
    opt("perfmgr_sweep_time_s", "180", Number, No(PERF)),
    opt("perfmgr_max_outstanding_queries", "500", Number, No(PERF)),
    opt("perfmgr_ignore_cas", "FALSE", Boolean, No(PERF)),
    opt("perfmgr_rm_nodes", "TRUE", Boolean, No(PERF)),
    opt("perfmgr_log_errors", "TRUE", Boolean, No(PERF)),
    opt("perfmgr_query_cpi", "TRUE", Boolean, No(PERF)),
    opt("perfmgr_xmit_wait_log", "FALSE", Boolean, No(PERF)),
    opt("perfmgr_xmit_wait_threshold", "65535", Number, No(PERF)),
    opt("event_db_dump_file", "(null)", Text, No(PERF)),
    opt("event_plugin_name", "(null)", Text, Instead("events_file, and snin sm events")),
    opt("event_plugin_options", "(null)", Text, Instead("events_file, and snin sm events")),
    opt(
        "node_name_map_name",
        "(null)",
        Text,
        Instead("--node-name-map of every command that prints names"),
    ),
    opt("log_flags", "0x03", Number, Instead("log_level")),
    opt("force_log_flush", "FALSE", Boolean, Always("each line is written at once")),
    opt("log_file", "/var/log/opensm.log", Text, Key("log_file")),
    opt("log_max_size", "0", Number, Key("log_max_size")),
    opt("accum_log_file", "TRUE", Boolean, Always("a log that is there is appended to")),
    opt(
        "per_module_logging_file",
        "/etc/opensm/per-module-logging.conf",
        Text,
        No("log_level is one for all"),
    ),
    opt("dump_files_dir", "/var/log/", Text, Key("dump_files_dir")),
    opt("enable_quirks", "FALSE", Boolean, No("there are none")),
    opt(
        "no_clients_rereg",
        "FALSE",
        Boolean,
        No("hosts are asked to register again where their manager changed"),
    ),
    opt("disable_multicast", "FALSE", Boolean, No("multicast is always served")),
    opt("exit_on_fatal", "TRUE", Boolean, No("snin-sm goes on, and says what is wrong")),
    opt("console", "off", Text, Instead("snin sm at the control socket")),
    opt("console_port", "10000", Number, Instead("snin sm at the control socket")),
    opt("qos", "FALSE", Boolean, Key("qos")),
    opt(
        "qos_policy_file",
        "/etc/opensm/qos-policy.conf",
        Text,
        Instead("qos_policy_file in sm.toml, where qos is TRUE and the file is there"),
    ),
    opt(
        "suppress_sl2vl_mad_status_errors",
        "FALSE",
        Boolean,
        Always("a port without such a table counts as one without it"),
    ),
    opt("qos_max_vls", "0", Number, Instead("max_op_vls, one for all ports")),
    opt("qos_high_limit", "-1", Limit, Key("qos_high_limit")),
    opt("qos_vlarb_high", "(null)", Weights, Key("qos_vlarb_high")),
    opt("qos_vlarb_low", "(null)", Weights, Key("qos_vlarb_low")),
    opt("qos_sl2vl", "(null)", Lanes, Key("qos_sl2vl")),
    opt("qos_ca_max_vls", "0", Number, Instead("max_op_vls, one for all ports")),
    opt("qos_ca_high_limit", "-1", Limit, Key("qos_ca_high_limit")),
    opt("qos_ca_vlarb_high", "(null)", Weights, Key("qos_ca_vlarb_high")),
    opt("qos_ca_vlarb_low", "(null)", Weights, Key("qos_ca_vlarb_low")),
    opt("qos_ca_sl2vl", "(null)", Lanes, Key("qos_ca_sl2vl")),
    opt("qos_sw0_max_vls", "0", Number, Instead("max_op_vls, one for all ports")),
    opt("qos_sw0_high_limit", "-1", Limit, Key("qos_sw0_high_limit")),
    opt("qos_sw0_vlarb_high", "(null)", Weights, Key("qos_sw0_vlarb_high")),
    opt("qos_sw0_vlarb_low", "(null)", Weights, Key("qos_sw0_vlarb_low")),
    opt("qos_sw0_sl2vl", "(null)", Lanes, Key("qos_sw0_sl2vl")),
    opt("qos_swe_max_vls", "0", Number, Instead("max_op_vls, one for all ports")),
    opt("qos_swe_high_limit", "-1", Limit, Key("qos_swe_high_limit")),
    opt("qos_swe_vlarb_high", "(null)", Weights, Key("qos_swe_vlarb_high")),
    opt("qos_swe_vlarb_low", "(null)", Weights, Key("qos_swe_vlarb_low")),
    opt("qos_swe_sl2vl", "(null)", Lanes, Key("qos_swe_sl2vl")),
    opt("qos_rtr_max_vls", "0", Number, Instead("max_op_vls, one for all ports")),
    opt("qos_rtr_high_limit", "-1", Limit, Key("qos_rtr_high_limit")),
    opt("qos_rtr_vlarb_high", "(null)", Weights, Key("qos_rtr_vlarb_high")),
    opt("qos_rtr_vlarb_low", "(null)", Weights, Key("qos_rtr_vlarb_low")),
    opt("qos_rtr_sl2vl", "(null)", Lanes, Key("qos_rtr_sl2vl")),
    opt("congestion_control", "FALSE", Boolean, No(CONGESTION)),
    opt("cc_key", "0x0000000000000000", Text, No(CONGESTION)),
    opt("cc_max_outstanding_mads", "500", Text, No(CONGESTION)),
    opt("cc_sw_cong_setting_control_map", "0x0", Text, No(CONGESTION)),
    opt(
        "cc_sw_cong_setting_victim_mask",
        "0x0000000000000000000000000000000000000000000000000000000000000000",
        Text,
        No(CONGESTION),
    ),
    opt(
        "cc_sw_cong_setting_credit_mask",
        "0x0000000000000000000000000000000000000000000000000000000000000000",
        Text,
        No(CONGESTION),
    ),
    opt("cc_sw_cong_setting_threshold", "0x00", Text, No(CONGESTION)),
    opt("cc_sw_cong_setting_packet_size", "0", Text, No(CONGESTION)),
    opt("cc_sw_cong_setting_credit_starvation_threshold", "0x00", Text, No(CONGESTION)),
    opt("cc_sw_cong_setting_credit_starvation_return_delay", "0:0", Text, No(CONGESTION)),
    opt("cc_sw_cong_setting_marking_rate", "0", Text, No(CONGESTION)),
    opt("cc_ca_cong_setting_port_control", "0x0000", Text, No(CONGESTION)),
    opt("cc_ca_cong_setting_control_map", "0x0000", Text, No(CONGESTION)),
    opt("cc_ca_cong_setting_ccti_timer", "0 0", Text, No(CONGESTION)),
    opt("cc_ca_cong_setting_ccti_increase", "0 0", Text, No(CONGESTION)),
    opt("cc_ca_cong_setting_trigger_threshold", "0 0", Text, No(CONGESTION)),
    opt("cc_ca_cong_setting_ccti_min", "0 0", Text, No(CONGESTION)),
    opt("cc_cct", "(null)", Text, No(CONGESTION)),
    opt(
        "prefix_routes_file",
        "/etc/opensm/prefix-routes.conf",
        Text,
        No("routers get no prefixes"),
    ),
    opt("consolidate_ipv6_snm_req", "FALSE", Boolean, No("every group has an address of its own")),
    opt("log_prefix", "(null)", Text, No("lines of the log say snin-sm")),
];

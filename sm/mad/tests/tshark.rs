//! The oracle: tshark takes apart what we put together, and must find the same values under the same names.
//!
//! Needs the Debian package `tshark`; without it the test fails, so that it never seems to have run.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::Lid;
use snin_mad::attribute::{PERFORMANCE, SUBNET, data_at};
use snin_mad::capture::{FILE_HEADER, Packet, record};
use snin_mad::notice::{TRAPS, details_layout};
use snin_mad::rmpp::{Rmpp, RmppType};
use snin_mad::sa::{DATA_AT, RECORDS, SaHeader};
use snin_mad::{
    Attribute, AttributeId, Class, Directed, DrPath, Field, Format, Header, Layout, LidRouted,
    MKey, Mad, Method, Notice, PortInfo, Route, Smp, Status, Table, TransactionId,
};

/// MADs of each kind.
const EACH: usize = 32;

/// What tshark 4.0 has no name for. A newer one may know more; then this list wants shortening.
const UNKNOWN: &[(&str, &[&str])] = &[
    ("ClassPortInfo", &["TrapHL"]),
    // A vendor's attribute.
    (
        "ExtendedPortInfo",
        &["StateChangeEnable", "LinkSpeedSupported", "LinkSpeedEnabled", "LinkSpeedActive"],
    ),
    ("PortCounters", &["CounterSelect2", "QP1Dropped", "PortXmitWait"]),
    (
        "PortCountersExtended",
        &[
            "CounterSelect2",
            "SymbolErrorCounter",
            "LinkErrorRecoveryCounter",
            "LinkDownedCounter",
            "PortRcvErrors",
            "PortRcvRemotePhysicalErrors",
            "PortRcvSwitchRelayErrors",
            "PortXmitDiscards",
            "PortXmitConstraintErrors",
            "PortRcvConstraintErrors",
            "LocalLinkIntegrityErrors",
            "ExcessiveBufferOverrunErrors",
            "VL15Dropped",
            "PortXmitWait",
            "QP1Dropped",
        ],
    ),
    // Newer than release 1.2 of the specification, by which tshark goes.
    (
        "PortInfo",
        &[
            "MulticastPKeyTrapSuppressionEnabled",
            "LinkSpeedExtActive2",
            "LinkSpeedExtSupported2",
            "LinkSpeedExtEnabled2",
            "CapabilityMask2",
            "LinkSpeedExtActive",
            "LinkSpeedExtSupported",
            "LinkSpeedExtEnabled",
        ],
    ),
    (
        "PortInfoExtended",
        &[
            "CapMask",
            "FECModeActive",
            "FDRFECModeSupported",
            "FDRFECModeEnabled",
            "EDRFECModeSupported",
            "EDRFECModeEnabled",
            "HDRFECModeSupported",
            "HDRFECModeEnabled",
            "NDRFECModeSupported",
            "NDRFECModeEnabled",
        ],
    ),
    ("MultiPathRecord", &["QoSClass", "ServiceID8MSB", "ServiceID56LSB"]),
    ("PathRecord", &["ServiceID", "QoSClass"]),
    ("PortInfoRecord", &["Options"]),
    ("RandomForwardingTableRecord", &["EntryLID", "Valid", "LMC", "Port"]),
    ("SANotice", &["IssuerGID"]),
    ("ServiceRecord", &["ServiceData8", "ServiceData16", "ServiceData32", "ServiceData64"]),
    ("SwitchInfo", &["MulticastFDBTop"]),
    (
        "Trap144",
        &["CapabilityMask2Change", "HierarchyInfoChange", "SMPriorityChange", "CapabilityMask2"],
    ),
];

/// What tshark 4.0 takes apart wrongly, so that there is nothing to compare; each seen to be tshark's fault.
const WRONG_IN_TSHARK: &[(&str, &str)] = &[
    // Eight bytes are read where two are meant; the bit is compared as the top one of Status.
    ("DRSMP", "D"),
    // Read from behind the details; they are compared field by field.
    ("Notice", "DataDetails"),
    // The byte is split 4 to 4 instead of 5 to 3.
    ("RMPP", "RRespTime"),
    ("RMPP", "RMPPFlags"),
    // DataValid, two bytes, is taken for an IPv6 address: "malformed packet", and nothing after it.
    ("Trap259", "*"),
];

#[test]
fn tshark_reads_what_we_write() {
    let known: BTreeSet<String> = tshark_fields().into_keys().collect();
    let cases = cases();
    let mut columns = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    for case in &cases {
        for (table, field, data) in case.fields() {
            for (name, _) in expected(table, field, data) {
                if known.contains(&name) {
                    columns.insert(name);
                } else {
                    unknown.insert((table, field.name));
                }
            }
        }
    }
    let listed =
        UNKNOWN.iter().flat_map(|(table, fields)| fields.iter().map(move |f| (*table, *f)));
    assert_eq!(unknown, listed.collect(), "fields that tshark does not know");

    let columns: Vec<String> = columns.into_iter().collect();
    let rows = dissect(&cases, &columns);
    let (mut wrong, mut compared) = (BTreeMap::new(), BTreeSet::new());
    for (case, row) in cases.iter().zip(&rows) {
        for (table, field, data) in case.fields() {
            for (name, ours) in expected(table, field, data) {
                let Some(theirs) = row.get(&name) else { continue };
                // "SMP Data" also heads what is found in the data.
                let theirs = &theirs[..theirs.len().min(ours.len())];
                if ours != theirs {
                    wrong
                        .entry((table, field.name))
                        .or_insert_with(|| (name, ours, theirs.to_vec()));
                }
                compared.insert((table, field.name));
            }
        }
    }
    assert!(wrong.is_empty(), "(tshark's name, ours, theirs): {wrong:#?}");
    assert!(compared.len() > 200, "only {} fields were compared", compared.len());
}

#[test]
fn tshark_knows_the_same_capabilities() {
    let field = PortInfo::LAYOUT.field("CapabilityMask").expect("a field of PortInfo");
    let Format::Flags(ours) = field.format else { panic!("CapabilityMask is a set") };
    let prefix = "infiniband.portinfo.capabilitymask.";
    let mut checked = 0;
    for (name, mask) in tshark_fields() {
        let Some(theirs) = name.strip_prefix(prefix) else { continue };
        let theirs = theirs.replace("clientregistration", "clientreregistration");
        let is_ours = |text: &str| {
            let text = text.to_lowercase();
            text == theirs || text.strip_prefix("is") == Some(theirs.as_str())
        };
        let (bit, _) =
            ours.iter().find(|(_, text)| is_ours(text)).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(*bit, mask, "{name}");
        checked += 1;
    }
    assert!(checked >= 24, "{checked}");
}

#[test]
fn tshark_sees_the_packet_around() {
    let names = [
        "frame.time_epoch",
        "infiniband.lrh.vl",
        "infiniband.lrh.sl",
        "infiniband.lrh.dlid",
        "infiniband.lrh.slid",
        "infiniband.lrh.pktlen",
        "infiniband.bth.opcode",
        "infiniband.bth.p_key",
        "infiniband.bth.destqp",
        "infiniband.deth.q_key",
        "infiniband.deth.srcqp",
    ];
    let smp = Smp::get(PortInfo::ID, 0, Route::Lid).mad();
    let counters = Mad::performance(Method::Get, AttributeId(0x12), 0, TransactionId(1));
    let packet = Packet { sl: 3, ..Packet::around(&counters, Lid(0x102), Lid(0x304)) };
    let time = 1_700_000_000_123_456_789;
    let pcap = [
        &FILE_HEADER[..],
        &record(time, &Packet::around(&smp, Lid(1), Lid(2)), &smp),
        &record(time, &packet, &counters),
    ];
    let [subnet, general] = &dissect_file(&pcap.concat(), &names.map(str::to_owned))[..] else {
        panic!("two packets")
    };
    let values = |row: &BTreeMap<String, Vec<String>>| names.map(|name| row[name].join(","));
    let seconds = "1700000000.123456789";
    let expected = [seconds, "15", "0", "2", "1", "72", "100", "65535", "0", "0", "0"];
    assert_eq!(values(subnet), expected);
    let expected = [seconds, "0", "3", "772", "258", "72", "100", "65535", "1", "2147549184", "1"];
    assert_eq!(values(general), expected);
}

/// A MAD, and which of our tables are in it.
struct Case {
    mad: Mad,
    tables: Vec<(&'static Layout, Vec<u8>)>,
}

impl Case {
    fn new(mad: Mad, attribute: &'static Layout) -> Self {
        let whole = mad.0.to_vec();
        let mut tables = vec![(Header::LAYOUT, whole.clone())];
        match mad.header().class() {
            Class::Subnet => tables.push((LidRouted::LAYOUT, whole)),
            Class::DirectedSubnet => tables.push((Directed::LAYOUT, whole)),
            Class::Administration => {
                tables.push((Rmpp::LAYOUT, whole.clone()));
                tables.push((SaHeader::LAYOUT, whole));
            }
            _ => {}
        }
        let at = data_at(mad.header().class());
        let data = mad.0[at..256.min(at + attribute.bytes)].to_vec();
        for field in attribute.fields {
            if let Format::Table(inner) = field.format {
                let from = field.place.offset / 8;
                let mut data = data[from..from + field.place.width / 8].to_vec();
                data.resize(inner.bytes, 0);
                tables.push((inner, data));
            }
        }
        tables.push((attribute, data));
        Self { mad, tables }
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, &'static Field, &[u8])> {
        self.tables.iter().flat_map(|(layout, data)| {
            layout.fields.iter().map(move |field| (layout.name, field, data.as_slice()))
        })
    }
}

fn cases() -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut cases = Vec::new();
    for _ in 0..EACH {
        for (id, layout) in SUBNET {
            for class in [Class::Subnet, Class::DirectedSubnet] {
                let mut mad = smp(&mut rng, *id, class);
                rng.fill_bytes(&mut mad.0[64..128]);
                if layout.name == "NodeDescription" {
                    mad.0[64..128].fill_with(|| rng.random_range(b'a'..=b'z'));
                }
                cases.push(Case::new(mad, layout));
            }
        }
        for (id, layout) in PERFORMANCE {
            let mut mad = Mad::performance(Method::GetResp, *id, rng.random(), TransactionId(7));
            rng.fill_bytes(&mut mad.0[64..]);
            cases.push(Case::new(mad, layout));
        }
        for (id, layout, _) in RECORDS {
            let mut mad = administration(&mut rng, *id);
            if layout.fields.iter().any(|field| matches!(field.format, Format::Text)) {
                mad.0[DATA_AT..].fill_with(|| rng.random_range(b'a'..=b'z'));
            }
            if layout.name == "NodeRecord" {
                mad.0[DATA_AT + 44..DATA_AT + 108].fill_with(|| rng.random_range(b'a'..=b'z'));
            }
            cases.push(Case::new(mad, layout));
        }
        for &trap in TRAPS {
            let mut mad = smp(&mut rng, Notice::ID, Class::Subnet);
            rng.fill_bytes(&mut mad.0[64..128]);
            Notice::edit(Notice::data_mut(&mut mad.0)).is_generic(true).trap_number(trap);
            let details = Notice::view(Notice::data(&mad.0)).details().0.to_vec();
            let mut case = Case::new(mad, Notice::LAYOUT);
            case.tables.push((details_layout(trap).expect("a trap of ours"), details));
            cases.push(case);
        }
    }
    cases
}

fn administration(rng: &mut ChaCha8Rng, id: AttributeId) -> Mad {
    let mut mad = Mad::ZERO;
    rng.fill_bytes(&mut mad.0[4..]);
    Header::edit(&mut mad.0)
        .base_version(1)
        .class(Class::Administration)
        .class_version(2)
        .method(Method::GetTableResp)
        .attribute(id);
    Rmpp::edit(&mut mad.0).version(1).kind(RmppType::Data);
    mad
}

fn smp(rng: &mut ChaCha8Rng, attribute: AttributeId, class: Class) -> Mad {
    let mut path = |hops| {
        let ports: Vec<u8> = (0..hops).map(|_| rng.random()).collect();
        DrPath::new(&ports).expect("at most 63 hops")
    };
    let (path, return_path) = (path(63), path(63));
    let route = match class {
        Class::Subnet => Route::Lid,
        _ => Route::Directed { from: Some(Lid(0x1234)), path, to: Some(Lid(0x5678)) },
    };
    let smp = Smp {
        method: Method::GetResp,
        status: Status(rng.random::<u16>() & 0x7FFF),
        transaction_id: TransactionId(rng.random()),
        m_key: MKey(rng.random()),
        hop_pointer: rng.random_range(0..=64),
        returning: rng.random(),
        return_path,
        ..Smp::get(attribute, rng.random(), route)
    };
    smp.mad()
}

/// Under which names tshark shall show a field, and with which values.
fn expected(table: &str, field: &Field, data: &[u8]) -> Vec<(String, Vec<String>)> {
    let numbers = || (0..field.count).map(|i| field.number(data, i));
    let text = |numbers: &mut dyn Iterator<Item = u64>| numbers.map(|n| n.to_string()).collect();
    let column = |name: &str, values| vec![(format!("infiniband.{name}"), values)];
    if WRONG_IN_TSHARK.iter().any(|(t, f)| *t == table && (*f == field.name || *f == "*")) {
        return Vec::new();
    }
    if matches!(field.format, Format::Table(_)) {
        // Compared field by field.
        return Vec::new();
    }
    let record = table.strip_suffix("Record");
    match (table, field.name) {
        ("SA", "SM_Key") => column("sa.smkey", text(&mut numbers())),
        ("SA", "SubnetAdminData") => Vec::new(),
        // Text, shown as bytes.
        ("ServiceRecord", "ServiceName") => {
            let name = &data[48..112];
            let hex = name.iter().map(|byte| format!("{byte:02x}")).collect();
            column("linkrecord.servicename", vec![hex])
        }
        ("GUIDInfoRecord" | "VLArbitrationTableRecord", "BlockNum") => {
            column("sa.blocknum_eightbit", text(&mut numbers()))
        }
        ("MulticastForwardingTableRecord", "BlockNum") => {
            column("sa.blocknum_ninebit", text(&mut numbers()))
        }
        (_, "BlockNum") => column("sa.blocknum_sixteenbit", text(&mut numbers())),
        (_, "LID" | "EndportLID" | "PortNum" | "InputPortNum" | "OutputPortNum" | "Position")
            if record.is_some() && table != "LinkRecord" =>
        {
            column(&format!("sa.{}", field.name.to_lowercase()), text(&mut numbers()))
        }
        ("SMP" | "DRSMP", "M_Key") => column("smplid.mkey", text(&mut numbers())),
        ("DRSMP", "SMPData") => column("smplid.smpdata", vec![field.show(data).to_string()]),
        ("DRSMP", "Status") => {
            let status = u16::from_be_bytes([data[4], data[5]]);
            column("smpdirected.smpstatus", vec![status.to_string()])
        }
        ("SwitchInfo", "EnhancedPort0") => {
            column("switchinfo.enhancedportzero", text(&mut numbers()))
        }
        ("GUIDInfo", "GUID") => column("switchinfo.guid", text(&mut numbers())),
        ("PortInfo", "GidPrefix") => column("portinfo.guid", text(&mut numbers())),
        ("Trap144", "LinkSpeedEnabledChange") => {
            column("trap.linkspeecenabledchange", text(&mut numbers()))
        }
        // Membership and base by themselves.
        ("P_KeyTable", _) => [
            column("p_keytable.membershiptype", text(&mut numbers().map(|key| key >> 15))),
            column("p_keytable.p_keybase", text(&mut numbers().map(|key| key & 0x7FFF))),
        ]
        .concat(),
        // Even service levels by themselves, odd ones by themselves.
        ("SLtoVLMappingTable", _) => [
            column("sltovlmappingtable.sltovlhighbits", text(&mut numbers().step_by(2))),
            column("sltovlmappingtable.sltovllowbits", text(&mut numbers().skip(1).step_by(2))),
        ]
        .concat(),
        // Only the first 16 of 32.
        ("MulticastForwardingTable", _) => {
            column("multicastforwardingtable.portmask", text(&mut numbers().take(16)))
        }
        // Only the top bit of eight.
        ("LinkSpeedWidthPairsTable", name) if name.starts_with("Speed") => {
            let name = format!("linkspeedwidthpairstable.{}", name.to_lowercase());
            column(&name, text(&mut numbers().map(|widths| widths >> 7)))
        }
        _ => {
            let values = match field.format {
                Format::Gid | Format::Bytes => vec![field.show(data).to_string()],
                Format::Text => vec![field.json(data).as_str().expect("a text").to_owned()],
                _ => text(&mut numbers()),
            };
            column(&usual_name(table, field.name), values)
        }
    }
}

fn usual_name(table: &str, field: &str) -> String {
    let prefix = match table {
        "MAD" => "mad",
        "SMP" => "smplid",
        "DRSMP" => "smpdirected",
        "PortCountersExtended" => "portcounters_ext",
        "ServiceRecord" => "linkrecord",
        trap if trap.starts_with("Trap") => "trap",
        other => other,
    };
    let field = match (table, field) {
        ("ClassPortInfo", name) => name.replace("_Key", "Key"),
        (_, name) => name.to_owned(),
    };
    format!("{prefix}.{field}").to_lowercase()
}

/// What tshark finds: for each MAD, by tshark's names, all values in order.
fn dissect(cases: &[Case], names: &[String]) -> Vec<BTreeMap<String, Vec<String>>> {
    let mut pcap = FILE_HEADER.to_vec();
    for (i, case) in cases.iter().enumerate() {
        pcap.extend(record(i as u64, &Packet::around(&case.mad, Lid(1), Lid(2)), &case.mad));
    }
    let rows = dissect_file(&pcap, names);
    assert_eq!(rows.len(), cases.len());
    rows
}

/// The same of a whole capture.
fn dissect_file(pcap: &[u8], names: &[String]) -> Vec<BTreeMap<String, Vec<String>>> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let name = format!("snin-mad-{}-{}.pcap", std::process::id(), FILES.fetch_add(1, Relaxed));
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, pcap).expect("a temporary file");
    let mut arguments = vec!["-r", file.to_str().expect("a plain path"), "-T", "fields"];
    arguments.extend(["-E", "occurrence=a", "-E", "aggregator=,", "-E", "separator=/t"]);
    arguments.extend(names.iter().flat_map(|name| ["-e", name.as_str()]));
    let out = tshark(&arguments);
    std::fs::remove_file(&file).expect("it is ours");
    let row = |line: &str| {
        let columns: Vec<_> = line.split('\t').collect();
        assert_eq!(columns.len(), names.len(), "{line}");
        let values = columns.iter().map(|column| column.split(',').map(plain).collect());
        names.iter().cloned().zip(values).collect()
    };
    out.lines().map(row).collect()
}

/// Every field of tshark's InfiniBand, with its mask.
fn tshark_fields() -> BTreeMap<String, u64> {
    let fields = tshark(&["-G", "fields"]);
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let name = columns.get(2).filter(|name| name.starts_with("infiniband."))?;
        let mask = columns.get(6).and_then(|mask| mask.strip_prefix("0x"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok());
        Some(((*name).to_owned(), mask.unwrap_or(0)))
    };
    fields.lines().filter_map(row).collect()
}

fn plain(value: &str) -> String {
    match value.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16)) {
        Some(Ok(number)) => number.to_string(),
        _ => value.to_owned(),
    }
}

fn tshark(arguments: &[&str]) -> String {
    let output = Command::new("tshark").args(arguments).output();
    let output = output.expect("tshark runs (Debian: apt-get install tshark)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tshark writes UTF-8")
}

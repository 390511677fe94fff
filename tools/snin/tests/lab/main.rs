//! `snin lab`: the loop from bring-up to packets, on fabrics small enough to take seconds.

mod ordinary;

use std::fs;
use std::process::Command;

use serde_json::Value;

/// Exit code, stdout and stderr.
fn snin(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_snin")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn lab(arguments: &[&str]) -> Value {
    let (code, json, said) = snin(&[&["lab", "--json", "-"], arguments].concat());
    assert_eq!((code, said.lines().count()), (0, 1), "{said}{json}");
    assert!(said.starts_with("snin: about ") && said.ends_with(" s\n"), "{said}");
    serde_json::from_str(&json).unwrap()
}

fn number(report: &Value, path: &str) -> f64 {
    let found = report.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {path} in {report}"))
}

const SMALL: [&str; 7] = ["clos:6,4,4", "--windows", "6", "--samples", "2", "--slice", "20us"];

#[test]
fn what_is_granted_meets_nobody() {
    let report = lab(&SMALL);
    assert_eq!(number(&report, "/windows/requested"), 6.0 * 24.0);
    assert_eq!(report["windows"]["granted"], report["windows"]["requested"]);
    assert_eq!(report["windows"]["max_link_load"], 1);
    assert!(number(&report, "/traffic/snin/goodput") >= 0.99);
    assert_eq!(report["traffic"]["snin"]["queueing_ns"]["max"], 0);
    assert!((number(&report, "/traffic/snin/slowdown/max") - 1.0).abs() <= 0.01);
    for other in ["static", "ecmp"] {
        let goodput = number(&report, &format!("/traffic/{other}/goodput"));
        assert!(goodput < number(&report, "/traffic/snin/goodput"), "{other}: {goodput}");
        assert!(number(&report, &format!("/traffic/{other}/queueing_ns/max")) > 0.0, "{other}");
    }
}

#[test]
fn the_keys_are_those_that_are_promised() {
    let report = lab(&SMALL);
    let keys = |path: &str| -> Vec<&String> {
        report.pointer(path).and_then(Value::as_object).unwrap().keys().collect()
    };
    let top = ["bring_up", "lmc", "schema_version", "topology", "traffic", "trees", "windows"];
    assert_eq!(keys(""), top);
    assert_eq!(keys("/topology"), ["hosts", "leaves", "planes", "spines", "switches"]);
    assert_eq!(keys("/bring_up"), ["lft_blocks", "smps", "virtual_ns"]);
    let windows = [
        "count",
        "deferred",
        "granted",
        "max_link_load",
        "moved",
        "paused",
        "refused",
        "requested",
    ];
    assert_eq!(keys("/windows"), windows);
    for run in ["static", "ecmp", "snin"] {
        let path = format!("/traffic/{run}");
        assert_eq!(keys(&path), ["goodput", "latency_ns", "queueing_ns", "slowdown", "windows"]);
        assert_eq!(keys(&format!("{path}/latency_ns")), ["max", "p50", "p99", "p999"]);
        assert_eq!(keys(&format!("{path}/queueing_ns")), ["max", "p50", "p99", "p999"]);
        assert_eq!(keys(&format!("{path}/slowdown")), ["max", "p50", "p99"]);
    }
    assert_eq!(report["topology"]["hosts"], 24);
    assert!(number(&report, "/bring_up/smps") > number(&report, "/bring_up/lft_blocks"));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| snin(&[&["lab", "--json", "-", "--seed", seed], &SMALL[..]].concat()).1;
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn a_pattern_takes_as_many_windows_as_its_degree() {
    // 16 hosts, each to 15 others, in 15 windows; in the 16th it begins anew.
    let all = ["clos:4,4,4", "--traffic", "alltoall", "--samples", "1", "--slice", "2us"];
    let report = lab(&[&all[..], &["--windows", "15"]].concat());
    assert_eq!(number(&report, "/windows/requested"), 240.0);
    assert_eq!(number(&report, "/windows/granted"), 240.0);
    assert_eq!(number(&report, "/windows/max_link_load"), 1.0);
    let report = lab(&[&all[..], &["--windows", "16"]].concat());
    assert_eq!(number(&report, "/windows/requested"), 480.0);
    let (code, text, _) = snin(&[&["lab"], &all[..], &["--windows", "14"]].concat());
    assert_eq!(code, 0);
    assert!(text.contains("1 of degree 15; 16 connections wait after 14 windows"), "{text}");
}

#[test]
fn whatever_happens_the_same_seed_gives_the_same_bytes() {
    let hard = ["--control-loss", "5%", "--skew", "20us", "--hold", "3", "--transport", "rc"];
    let hard =
        [&hard[..], &["--event", "cut leaf1/6 @window 3", "--event", "restore leaf1/6 @1ms"]];
    let run = |seed| {
        let all = [&["lab", "--json", "-", "--seed", seed], &SMALL[..], hard[0], hard[1]].concat();
        let (code, json, said) = snin(&all);
        assert_eq!(code, 0, "{said}");
        json
    };
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn acknowledged_traffic_waits_for_nothing_but_acknowledgements() {
    let report = lab(&[&SMALL[..], &["--transport", "rc"]].concat());
    assert_eq!(number(&report, "/windows/requested"), 6.0 * 24.0, "a pattern a window");
    assert_eq!(report["windows"]["granted"], report["windows"]["requested"]);
    assert!(number(&report, "/traffic/snin/goodput") >= 0.99);
    assert!(number(&report, "/traffic/snin/slowdown/max") <= 1.01);
    // 30 bytes at 20 ps, every now and then.
    assert!(number(&report, "/traffic/snin/queueing_ns/max") <= 5.0);
}

#[test]
fn a_broken_bound_names_the_flow_the_link_and_the_time() {
    let run = |bound| {
        let more = ["--transport", "rc", "--bound", bound];
        snin(&[&["lab"], &SMALL[..], &more].concat())
    };
    assert_eq!(run("max=1us").0, 0);
    let (code, _, said) = run("max=0ns");
    assert_eq!(code, 1);
    let line = said.lines().find(|line| line.contains("the bound max=0ns is broken")).unwrap();
    for part in ["first by flow host", " -> host", " at link ", "after the fabric was switched on"]
    {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
    assert!(
        ["leaf", "spine"].iter().any(|node| line.contains(&format!(" at link {node}"))),
        "{line}"
    );
}

#[test]
fn a_policy_says_what_it_costs() {
    let run = |policy| snin(&[&["lab"], &SMALL[..], &["--policy", policy]].concat());
    let (code, text, _) = run("strict");
    assert_eq!(code, 0);
    assert!(text.contains("3 of 4 trees are left"), "{text}");
    assert!(!text.contains(" 0 deferred"), "4 hosts a leaf, 3 trees: {text}");
    let (code, text, _) = run("off");
    assert_eq!(code, 0);
    assert!(text.contains(" 0 granted") && text.contains("watched     0 transmissions"), "{text}");
}

#[test]
fn who_does_not_ask_is_in_nobody_s_way_or_in_one_packet_s() {
    let run = |policy| lab(&[&SMALL[..], &["--unmanaged", "8", "--policy", policy]].concat());
    let queueing = |report: &Value| number(report, "/traffic/snin/queueing_ns/max");
    // A lane below the others': one packet, 4,122 bytes at 20 ps, at each of three switches at most.
    let shared = run("shared");
    assert!((1.0..=249.0).contains(&queueing(&shared)), "{shared}");
    assert!(number(&shared, "/traffic/snin/goodput") >= 0.99, "{shared}");
    assert_eq!(number(&shared, "/windows/requested"), 6.0 * 16.0);
    // A tree of their own: no other flow waits at all.
    let strict = run("strict");
    assert_eq!(queueing(&strict), 0.0, "{strict}");
    assert!(number(&strict, "/traffic/snin/goodput") >= 0.99, "{strict}");
    let unmanaged = |report: &Value| number(report, "/traffic/unmanaged/goodput");
    assert!(unmanaged(&strict) > unmanaged(&shared), "{strict}{shared}");
    let off = run("off");
    assert_eq!(number(&off, "/windows/granted"), 0.0);
    assert_eq!(number(&off, "/traffic/snin/goodput"), 0.0);
    assert!(unmanaged(&off) >= unmanaged(&shared), "{off}{shared}");
    let (code, _, said) = snin(&["lab", "clos:2,2,2", "--unmanaged", "5"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("5 hosts without an agent, of 4"), "{said}");
}

#[test]
fn an_event_elsewhere_names_the_ports_that_there_are() {
    let (code, _, said) = snin(&["lab", "clos:16,4,8,2", "--event", "cut leaf3/20 @window 30"]);
    assert_eq!((code, said.lines().count()), (3, 1), "{said}");
    assert!(said.contains("leaf3 has no cable at port 20; it has cables at 1-16"), "{said}");
}

#[test]
fn a_fabric_without_trees_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.ibnetdiscover").display().to_string();
    let (mut ring, mut hosts) = (String::new(), String::new());
    for n in 0..5_u32 {
        let (next, before) = ((n + 1) % 5, (n + 4) % 5);
        ring += &format!(
            "switchguid=0x10{n}(10{n})\nSwitch\t3 \"S-10{n}\"\t\t# \"s{n}\" base port 0 lid 0 lmc 0\n\
             [1]\t\"S-10{next}\"[2]\n[2]\t\"S-10{before}\"[1]\n[3]\t\"H-20{n}\"[1](20{n})\n\n"
        );
        hosts += &format!(
            "caguid=0x20{n}\nCa\t1 \"H-20{n}\"\t\t# \"h{n}\"\n[1](20{n})\t\"S-10{n}\"[3]\n\n"
        );
    }
    fs::write(&path, ring + &hosts).unwrap();
    let (code, _, said) = snin(&["lab", &path]);
    assert_eq!((code, said.lines().count()), (3, 1), "{said}");
    assert!(said.contains("no Clos"), "{said}");
}

#[test]
fn the_report_is_one_page_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (html, json) = (path("lab.html"), path("lab.json"));
    let files = ["--html", &html, "--json", &json];
    let (code, text, said) = snin(&[&["lab"], &SMALL[..], &files].concat());
    assert_eq!((code, said.lines().count()), (0, 1), "{said}");
    for line in [
        "fabric ",
        "bring-up ",
        "windows ",
        "patterns ",
        "guard ",
        "watched ",
        "goodput ",
        "slowdown max ",
        "ordinary    12 ports flood base addresses beside snin, for 6 windows",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "no {line} in:\n{text}");
    }
    let page = fs::read_to_string(html).unwrap();
    for section in [
        "<h2>Summary</h2>",
        "<h2>Latency</h2>",
        "<h2>Goodput of each window</h2>",
        "<h2>Load of every link</h2>",
        "<h2>Paull's matrix of the last window</h2>",
        "<h2>SMPs of the bring-up</h2>",
        "Get(NodeInfo)",
        "<span>snin</span> <span>lab</span> <span>clos:6,4,4</span> <span>--windows</span>",
        "snin: at most 1.00",
        "<dt>ordinary</dt><dd>12 ports flood",
        "with a lane of its own for what is granted: granted goodput",
    ] {
        assert!(page.contains(section), "no {section}");
    }
    // A latency chart, a goodput chart, three fabrics, a matrix, the SMPs.
    assert_eq!(page.matches("<svg ").count(), 7);
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["schema_version"], 1);
}

#[test]
fn traffic_can_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traffic.csv");
    fs::write(&path, "0,5\n1,6\n0,7\n").unwrap();
    let path = path.display().to_string();
    let small = ["clos:4,2,2", "--windows", "2", "--samples", "2", "--slice", "2us"];
    let report = lab(&[&small[..], &["--traffic", &path]].concat());
    // Host 0 sends twice: one of its connections waits.
    assert_eq!(number(&report, "/windows/requested"), 3.0);
    assert_eq!(number(&report, "/windows/granted"), 3.0);
    assert_eq!(number(&report, "/windows/deferred"), 1.0);
    // Without a given length, a file is served once.
    let report = lab(&["clos:4,2,2", "--slice", "2us", "--traffic", &path]);
    assert_eq!(number(&report, "/windows/count"), 2.0);
    assert_eq!(number(&report, "/traffic/static/windows"), 2.0);
}

#[test]
fn patterns_are_listed_and_nonsense_is_refused() {
    let (code, text, _) = snin(&["lab", "--list-patterns"]);
    assert_eq!(code, 0);
    for line in ["PATTERN", "shift:K      1", "stencil3d    6", "alltoall     hosts - 1"] {
        assert!(text.lines().any(|found| found.starts_with(line)), "no {line} in:\n{text}");
    }
    assert!(text.contains("static routing carries well"), "{text}");
    let (code, json, _) = snin(&["lab", "--list-patterns", "--json", "-"]);
    let listed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &listed[0]["name"]), (0, &Value::from("permutation")));
    for bad in [&["lab"][..], &["lab", "clos:2,2,2", "--slice", "0ns"]] {
        assert_eq!(snin(bad).0, 2);
    }
    for bad in [["--mtu", "1500"], ["--traffic", "nonsense"]] {
        let (code, _, said) = snin(&[&["lab", "clos:2,2,2"], &bad[..]].concat());
        assert_eq!((code, said.lines().count()), (3, 1), "{said}");
    }
}

/// Nodes that vanish while the other ways carry traffic: the results are there, and what was lost is counted.
#[test]
fn results_survive_whatever_vanishes() {
    let events = [
        "reboot spine1 @2ms",
        "off host7 @window 3",
        "cut leaf1/2 @window 2",
        "off leaf2 @window 1",
        "off spine0 @window 2",
        "off host0 @window 1",
    ];
    for transport in ["uc", "rc"] {
        for event in events {
            let all = ["clos:6,4,4", "--windows", "4", "--samples", "4", "--slice", "20us"];
            let more = ["--transport", transport, "--event", event, "--json", "-"];
            let (code, json, said) = snin(&[&["lab"], &all[..], &more].concat());
            assert_eq!(code, 0, "{event}: {said}");
            let report: Value = serde_json::from_str(&json).unwrap();
            for way in ["static", "ecmp", "snin"] {
                assert_eq!(number(&report, &format!("/traffic/{way}/windows")), 4.0, "{event}");
                let goodput = number(&report, &format!("/traffic/{way}/goodput"));
                assert!(goodput > 0.3, "{event}: {report}");
            }
        }
    }
}

#[test]
fn an_event_after_the_end_is_refused() {
    let run = |event| snin(&[&["lab"], &SMALL[..], &["--event", event]].concat());
    let (code, _, said) = run("cut leaf1/6 @window 7");
    let told = "snin: --event `cut leaf1/6 @window 7`: the run has only 6 windows (--windows)\n";
    assert_eq!((code, said.as_str()), (3, told));
    let (code, _, said) = run("cut leaf1/6 @5s");
    assert_eq!(code, 3);
    assert!(said.contains("the run ends at 100"), "{said}");
}

/// A generated fabric whose cables run at the rates that `rate` gives for the two node names.
fn with_rates(recipe: &str, rate: impl Fn(&str, &str) -> &'static str) -> tempfile::NamedTempFile {
    let (_, text, _) = snin(&["topo", "generate", recipe]);
    let mut own = String::new();
    let mut changed = String::new();
    for line in text.lines() {
        let quoted: Vec<&str> = line.split('"').collect();
        if line.starts_with("Switch") || line.starts_with("Ca") {
            own = quoted[3].to_owned();
        }
        let line = match line.starts_with('[') {
            true => line.replace("4xNDR", rate(&own, quoted[3])),
            false => line.to_owned(),
        };
        changed += &(line + "\n");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), changed).unwrap();
    file
}

/// A sender is paced to the slowest link of its way, so nothing waits in a switch, and what a slow way takes
/// longer is of its own window.
#[test]
fn mixed_speeds_do_not_interfere() {
    let is =
        |one: &str, other: &str, names: [&str; 2]| [one, other] == names || [other, one] == names;
    let one_fast_host =
        with_rates(
            "clos:4,4,4",
            |one, other| {
                if [one, other].contains(&"host5") { "4xEDR" } else { "4xQDR" }
            },
        );
    let one_slow_host =
        with_rates(
            "clos:4,4,4",
            |one, other| {
                if [one, other].contains(&"host5") { "4xSDR" } else { "4xQDR" }
            },
        );
    let slow_uplinks = with_rates("clos:4,4,4", |one, other| {
        let slow = is(one, other, ["leaf0", "spine1"]) || is(one, other, ["leaf2", "spine3"]);
        if slow { "4xDDR" } else { "4xQDR" }
    });
    let slow_spine =
        with_rates(
            "clos:4,4,4",
            |one, other| {
                if [one, other].contains(&"spine2") { "4xDDR" } else { "4xQDR" }
            },
        );
    for file in [one_fast_host, one_slow_host, slow_uplinks, slow_spine] {
        let name = file.path().display().to_string();
        for transport in ["uc", "rc"] {
            let all = [name.as_str(), "--windows", "6", "--samples", "2", "--transport", transport];
            let report = lab(&all);
            let windows = &report["windows"];
            assert_eq!(windows["granted"], windows["requested"], "{report}");
            assert_eq!(windows["max_link_load"], 1, "{report}");
            // An acknowledgement of 30 bytes at 1 Gbyte/s, now and then.
            let most = if transport == "uc" { 10.0 } else { 100.0 };
            assert!(number(&report, "/traffic/snin/queueing_ns/max") <= most, "{report}");
            assert!(number(&report, "/traffic/snin/goodput") >= 0.99, "{report}");
            assert!(number(&report, "/traffic/snin/slowdown/max") <= 1.02, "{report}");
        }
    }
}

/// What a demand asks for is what it gets, and what a link does not carry is refused, by plan and by lab.
#[test]
fn rates_are_honoured_alike() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "host0,host9,100G\nhost1,host10,400G\nhost2,host11,401G\n").unwrap();
    let traffic = file.path().display().to_string();
    let (code, plan, _) = snin(&["plan", "clos:4,4,4", "--traffic", &traffic, "--json"]);
    assert_eq!(code, 0);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["summary"]["granted"], &plan["summary"]["refused"]), (&2.into(), &1.into()));
    let report = lab(&["clos:4,4,4", "--traffic", &traffic, "--windows", "1", "--samples", "1"]);
    assert_eq!(
        (&report["windows"]["granted"], &report["windows"]["refused"]),
        (&2.into(), &1.into())
    );
    assert_eq!(number(&report, "/traffic/snin/queueing_ns/max"), 0.0);
    // A slow uplink: the plan leads around it, or refuses what no tree carries.
    let mixed =
        with_rates(
            "clos:4,2,2",
            |one, other| {
                if [one, other].contains(&"spine0") { "4xQDR" } else { "4xNDR" }
            },
        );
    let mixed = mixed.path().display().to_string();
    fs::write(file.path(), "host0,host2,300G\nhost1,host3,300G\n").unwrap();
    let (_, plan, _) = snin(&["plan", &mixed, "--traffic", &traffic, "--json"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let grants = plan["grants"].as_array().unwrap();
    assert_eq!((grants.len(), &grants[0]["tree"]), (1, &1.into()), "{plan}");
    assert_eq!(plan["deferred"].as_array().unwrap().len(), 1);
}

/// A single switch is the smallest Clos: hosts reach each other without a tree, so all of it is granted.
#[test]
fn on_a_single_switch_everything_is_granted() {
    let hosts = 1..=6;
    let switch: String = hosts.clone().map(|n| format!("[{n}] \"host{n}\"[1]\n")).collect();
    let ends: String = hosts.map(|n| format!("\nHca 1 \"host{n}\"\n[1] \"one\"[{n}]\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("Switch 6 \"one\"\n{switch}{ends}")).unwrap();
    let name = file.path().display().to_string();
    let (code, text, _) = snin(&["topo", "check", &name]);
    assert_eq!(code, 0, "{text}");
    let verdict =
        "verdict: regular: every pattern that asks no host for more than its link can be granted\n";
    assert!(text.contains("one switch") && text.ends_with(verdict), "{text}");
    let (code, plan, _) = snin(&["plan", &name, "--traffic", "permutation", "--strict", "--json"]);
    assert_eq!(code, 0, "{plan}");
    let report = lab(&[&name, "--windows", "4", "--samples", "2", "--slice", "20us"]);
    assert_eq!(report["windows"]["granted"], report["windows"]["requested"]);
    assert_eq!(report["windows"]["max_link_load"], 1);
    assert!(number(&report, "/traffic/snin/goodput") >= 0.99, "{report}");
}

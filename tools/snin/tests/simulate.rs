//! `snin sm simulate`: what a bring-up and an event cost, and that the tables in the switches are right.

use std::process::Command;

use serde_json::Value;
use snin_judges::shared;

fn simulate(arguments: &[&str]) -> (i32, Value, String) {
    snin(&[&["sm", "simulate"], arguments, &["--json"]].concat())
}

fn text(arguments: &[&str]) -> (i32, String, String) {
    let arguments = [&["sm", "simulate"], arguments].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_snin")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn snin(arguments: &[&str]) -> (i32, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_snin")).args(arguments).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), report, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_fabric_comes_up_and_lives_through_events() {
    let events = [
        "--event",
        "cut leaf1/4 @1s",
        "--event",
        "restore leaf1/4 @2s",
        "--event",
        "reboot spine1 @3s",
    ];
    let (code, report, said) = simulate(&[&["clos:4,3,3"], &events[..]].concat());
    assert_eq!((code, said.as_str()), (0, ""), "{report}");
    assert_eq!((&report["switches"], &report["hosts"]), (&7.into(), &12.into()));
    assert_eq!(report["active_cables"], report["cables"]);
    assert_eq!(report["routes"]["lost"], 0);
    assert_eq!(report["missing"].as_array().unwrap().len(), 0);
    let events = report["events"].as_array().unwrap();
    assert_eq!(events.len(), 3);
    for event in events {
        assert!(event["cost"]["lft_blocks"].as_u64().unwrap() > 0, "{event}");
        assert!(
            event["cost"]["smps_to_view"].as_u64().unwrap()
                <= event["cost"]["smps"].as_u64().unwrap()
        );
    }
    // leaf0 still has all its cables: nothing had to be written twice.
    assert_eq!(events[0]["cost"]["lft_blocks_rewritten"], 0);
    assert!(events[1]["cost"]["smps_to_view"].as_u64().unwrap() < 20, "{report}");
    // A cable costs far less than a bring-up.
    let bring_up = report["bring_up"]["smps"].as_u64().unwrap();
    assert!(events[0]["cost"]["smps"].as_u64().unwrap() * 3 < bring_up, "{report}");
}

#[test]
fn loss_costs_time_not_correctness() {
    let (code, report, _) = simulate(&["fattree:4", "--drop", "2%", "--seed", "7"]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["healthy"], true);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| simulate(&["clos:4,3,2", "--drop", "3%", "--seed", seed]).1;
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn events_that_the_fabric_cannot_have_are_refused() {
    let (code, _, said) = simulate(&["clos:2,2,1", "--event", "cut leaf7/1 @1s"]);
    assert_eq!((code, said.as_str()), (3, "snin: --event `cut leaf7/1 @1s`: no node `leaf7`\n"));
    assert_eq!(simulate(&["clos:2,2,1", "--event", "cut leaf1/1"]).0, 2);
}

/// Every checker of `snin verify` on what the switches of an emulated fabric hold, with the plan that `snin
/// plan` makes for it: a fabric that comes up for the first time gets exactly the planned addresses.
fn verified(fabric: &str, events: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (plan_file, lfts) = (path("plan.json"), path("lfts"));
    let (code, plan, said) = snin(&["plan", fabric, "--traffic", "permutation", "--json"]);
    assert_eq!((code, said.as_str()), (0, ""));
    std::fs::write(&plan_file, plan.to_string()).unwrap();
    let mut arguments = vec![fabric, "--lfts", &lfts];
    events.iter().for_each(|event| arguments.extend(["--event", event]));
    let (code, report, said) = simulate(&arguments);
    assert_eq!((code, said.as_str()), (0, ""), "{report}");
    assert_eq!(report["active_cables"], report["cables"]);
    let verify = ["verify", fabric, "--lfts", &lfts, "--plan", &plan_file, "--json"];
    let (code, verdict, said) = snin(&verify);
    assert_eq!((code, said.as_str()), (0, ""), "{verdict}");
    assert_eq!(verdict["healthy"], true);
    assert_eq!(verdict["trees"]["strayed"]["total"], 0);
    assert_eq!(verdict["owners"]["max_link_load"], 1);
    report
}

#[test]
fn what_the_switches_hold_passes_every_checker() {
    verified("clos:8,4,4", &["cut leaf3/6 @1s", "restore leaf3/6 @2s"]);
    verified("fattree:6", &["reboot leaf2 @1s"]);
}

#[test]
fn the_real_dgx_fabric_comes_up() {
    let Some((path, text)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return;
    };
    let fabric = path.display().to_string();
    let text = String::from_utf8(text).unwrap();
    // The first cable from switch to switch: `[3]  "S-..."[5]  # ...`, below the switch's own line.
    let mut switch = "";
    let trunk = text.lines().find_map(|line| {
        if line.starts_with("Switch") {
            switch = line.split('"').nth(1)?.strip_prefix("S-")?;
        }
        let port = line.strip_prefix('[')?.split(']').next()?;
        line.contains("\"S-").then(|| format!("0x{switch}/{port}"))
    });
    let trunk = trunk.expect("switches are cabled");
    let events = [
        format!("cut {trunk} @1s"),
        format!("restore {trunk} @2s"),
        format!("reboot 0x{switch} @3s"),
    ];
    let report = verified(&fabric, &events.each_ref().map(String::as_str));
    assert_eq!((&report["hosts"], &report["switches"]), (&542.into(), &40.into()));
    assert_eq!(report["missing"], Value::Array(vec![]));
    for event in &report["events"].as_array().unwrap()[..2] {
        assert!(event["cost"]["smps_to_view"].as_u64().unwrap() < 100, "{event}");
    }
}

#[test]
fn with_qos_the_tables_of_lanes_are_managed_too() {
    for (options, managed) in [(&["clos:2,2,2"][..], false), (&["clos:2,2,2", "--qos"], true)] {
        let (status, json, _) = simulate(options);
        assert_eq!((status, &json["missing"]), (0, &serde_json::json!([])));
        let smps = json["smps"].to_string();
        for attribute in ["Get(SLtoVLMappingTable)", "Set(VLArbitrationTable)"] {
            assert_eq!(smps.contains(attribute), managed, "{attribute}: {smps}");
        }
    }
}

/// What tshark finds in the capture is what the report says was sent.
#[test]
fn what_passed_is_captured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mads.pcap").display().to_string();
    let (code, report, said) =
        simulate(&["clos:4,2,2", "--event", "cut leaf1/3 @1s", "--capture", &file]);
    assert_eq!((code, said.as_str()), (0, ""), "{report}");
    let fields =
        ["-T", "fields", "-e", "infiniband.mad.method", "-e", "infiniband.mad.attributeid"];
    let read = Command::new("tshark").args(["-r", &file]).args(fields).output();
    let read = String::from_utf8(read.expect("install the Debian package tshark").stdout).unwrap();
    let count = |mad: &str| read.lines().filter(|line| *line == mad).count() as u64;
    let costs = [&report["bring_up"], &report["events"][0]["cost"]];
    let blocks: u64 = costs.iter().map(|cost| cost["lft_blocks"].as_u64().unwrap()).sum();
    assert_eq!(count("0x02\t0x0019"), blocks, "{read}");
    assert_eq!(count("0x81\t0x0019"), blocks + count("0x01\t0x0019"), "{read}");
    assert!(count("0x05\t0x0002") > 0 && count("0x05\t0x0002") == count("0x07\t0x0002"), "traps");
    let (code, _, said) = simulate(&["clos:2,1,1", "--capture", "/no/such/folder/mads"]);
    assert_eq!(code, 3);
    assert_eq!(said, "snin: /no/such/folder/mads: No such file or directory (os error 2)\n");
}

/// Nothing came up, or not all of it: that is no healthy fabric, even with correct tables.
#[test]
fn what_did_not_come_up_is_not_healthy() {
    let cases: [(&[&str], u64, &str); 4] = [
        (&["clos:4,2,2", "--drop", "100%"], 1, "no MAD arrives"),
        (&["clos:4,2,2", "--agent-latency", "30s"], 0, "agents answer after the manager gave up"),
        (&["clos:2,1,1", "--event", "cut leaf1/2 @1s"], 3, "parted"),
        (&["clos:4,2,2", "--event", "off host3 @1s"], 13, "a host is off"),
    ];
    for (arguments, found, why) in cases {
        let (code, report, said) = simulate(arguments);
        assert_eq!((code, said.as_str()), (1, ""), "{why}: {report}");
        assert_eq!((&report["healthy"], &report["nodes"]), (&false.into(), &found.into()), "{why}");
        assert!(report["nodes_in_file"].as_u64().unwrap() > found, "{why}");
        let cover = &report["cover"];
        let named = |key: &str| cover[key]["first"].as_array().unwrap().len();
        assert!(named("unaddressed") + named("uncabled") + named("parts") > 0, "{why}: {cover}");
    }
    let (code, text, _) = text(&["clos:2,1,1", "--event", "cut leaf1/2 @1s"]);
    assert_eq!(code, 1);
    assert!(text.ends_with("NOT healthy\n"), "{text}");
    assert_eq!(text.matches("healthy").count(), 1, "{text}");
    assert!(text.contains("no cable to leaf1 (0x"), "{text}");
    assert!(text.contains("the manager found 3 of 5 nodes"), "{text}");
}

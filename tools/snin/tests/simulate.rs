//! `snin sm simulate`: what a bring-up and an event cost, and that the tables in the switches are right.

use std::process::Command;

use serde_json::Value;

fn simulate(arguments: &[&str]) -> (i32, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_snin"))
        .args(["sm", "simulate", "--json"])
        .args(arguments)
        .output()
        .unwrap();
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
fn what_a_cut_that_parts_the_fabric_takes_away_is_known() {
    let (code, report, _) = simulate(&["clos:2,1,1", "--event", "cut leaf1/2 @1s"]);
    // What no cable reaches is gone, not wrong.
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["active_cables"], 3, "all but the one that was cut");
}

#[test]
fn events_that_the_fabric_cannot_have_are_refused() {
    let (code, _, said) = simulate(&["clos:2,2,1", "--event", "cut leaf7/1 @1s"]);
    assert_eq!((code, said.as_str()), (3, "snin: --event `cut leaf7/1 @1s`: no node `leaf7`\n"));
    assert_eq!(simulate(&["clos:2,2,1", "--event", "cut leaf1/1"]).0, 2);
}

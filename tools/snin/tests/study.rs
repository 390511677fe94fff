//! `snin study reconfiguration`: a small one, by its document and by its page in headless Chromium.

mod browser;

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::browser::Browser;

fn study(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["study.json", "study.html"].map(|name| folder.path().join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
    command.args(["study", "reconfiguration"]).args(arguments);
    command.arg("--json").arg(&json).arg("--html").arg(&html);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    let document = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    (document, fs::read_to_string(html).unwrap())
}

#[test]
fn wall_times_are_in_a_file_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let wall = folder.path().join("wall");
    let arguments = ["--switches", "8", "--seeds", "1", "--packet-seeds", "0", "--wall"];
    study(&[&arguments[..], &[wall.to_str().unwrap()]].concat());
    let text = fs::read_to_string(wall).unwrap();
    for line in text.lines() {
        let (ms, what) = line.split_once('\t').unwrap();
        assert!(ms.parse::<f64>().is_ok() && what.starts_with("8 switches"), "{line}");
    }
    // The time line, a seed, every set of factors, and delay against throughput.
    assert_eq!(text.lines().count(), 2 + RUNGS + 1);
}

/// The baseline, seven factors, six sums of them, ours; where agents pass SMPs on five of the baseline, and ours.
const RUNGS: usize = 1 + 7 + 6 + 1 + 5 + 1;

const SMALL: [&str; 9] =
    ["--switches", "8", "--seeds", "3", "--packet-seeds", "1", "--scale", "clos:6,3,3", "--clos"];

#[test]
fn the_seeds_results_come_out_in_kind_and_the_same_twice() {
    let (document, page) = study(&SMALL);
    assert_eq!((document.clone(), page), study(&SMALL));

    let outcomes = document["time_line"]["outcomes"].as_array().unwrap();
    let [baseline, ours] = [&outcomes[0], &outcomes[1]];
    // The seed: detection 0.08 s, more than 75,000 packets lost, the removed switch before inactive ports.
    let detection = baseline["phases"]["detection"].as_u64().unwrap();
    assert!((80_000_000..81_000_000).contains(&detection), "{detection}");
    let lost = |outcome: &Value, cause: &str| outcome["lost"][cause].as_u64().unwrap_or(0);
    let [gone, inactive] = ["switch_gone", "port_inactive"].map(|cause| lost(baseline, cause));
    assert!(gone > 10 * inactive && inactive > 0, "{gone} {inactive}");
    assert_eq!(lost(ours, "port_inactive"), 0);
    assert_eq!(ours["looping_states"], 0);
    let rungs = document["factors"].as_array().unwrap();
    assert_eq!(rungs.len(), RUNGS);
    for case in rungs.iter().flat_map(|rung| rung["cases"].as_array().unwrap()) {
        assert_eq!(case["unsound"], 0, "{case}");
    }
    // The baseline interrupts all flows; ours those that the failure hits, and none goes round.
    let survivals = document["scale"].as_array().unwrap();
    assert_eq!(survivals.len(), 3 * 5);
    for failure in survivals.chunks(5) {
        let of = |way: usize, what: &str| failure[way][what].as_u64().unwrap();
        assert_eq!(of(0, "hit"), of(0, "flows"));
        for way in 1..5 {
            assert!(of(way, "hit") < of(way, "flows") && of(way, "rounds") == 0, "{failure:?}");
        }
        // Usual timers are longer than the repair.
        assert!(of(2, "mean_outage") <= of(1, "mean_outage"), "{failure:?}");
        assert_eq!(of(3, "mean_outage"), of(1, "mean_outage"), "{failure:?}");
        assert!(failure.iter().all(|one| one["sound"] == true), "{failure:?}");
    }
    for size in
        document["sizes"].as_array().unwrap().iter().chain(document["clos"].as_array().unwrap())
    {
        for case in size["cases"].as_array().unwrap() {
            assert_eq!(case["unsound"], 0, "{case}");
            // Discovery and distribution dominate.
            let smps = |task: &str| case["smps"][task].as_u64().unwrap_or(0);
            assert!(smps("discovery") > smps("activation"), "{case}");
            if case["mechanism"] == "ours" {
                assert_eq!((&case["looping_states"], lost(case, "port_inactive")), (&0.into(), 0));
            }
        }
    }
}

#[test]
fn a_browser_lays_its_page_out_and_prints_it() {
    let (_, html) = study(&SMALL[..8]);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("study.html");
    fs::write(&page, html).unwrap();
    let browser = Browser::new();
    let found = browser.measure(&page);
    assert!(found["width"].as_u64() <= Some(browser::WIDTH.into()), "{}", found["width"]);
    assert_eq!(found["outside"], Value::Array(Vec::new()), "texts that leave their pictures");
    let text = |id: &str| found["texts"][id].as_str().unwrap_or_else(|| panic!("no #{id}"));
    for (id, words) in [
        (
            "time-line",
            &["SMPs", "delay, us", "lost", "sent", "received", "detection", "baseline"][..],
        ),
        ("loads", &["165,000", "delay, us", "8 switches, 7 hosts"]),
        (
            "numbers",
            &["activation, ms", "over the removed switch", "states of the tables with a loop"],
        ),
        ("time", &["The seed:"]),
        ("computation", &["quadratic"]),
        ("entries", &["under 2 %"]),
        ("smps", &["discovery"]),
        ("lost", &["at inactive ports"]),
        ("scale", &["a chassis of 1 switches", "grants moved first"]),
        ("sizes", &["packets lost", "addition"]),
        (
            "factors",
            &["region-only discovery", "no port closed", "states with a loop", "held back", "ours"],
        ),
        ("relayed", &["LID-routed SMPs", "mixed SMPs", "everything"]),
        ("kind", &["half a sweep", "quadratic", "under 2 %"]),
        ("paper", &["308,000 SMPs"]),
    ] {
        words.iter().for_each(|word| assert!(text(id).contains(word), "no `{word}` in #{id}"));
    }
    let shapes = |id: &str| found["shapes"][id].as_u64().unwrap();
    // Five rows of two curves, and phases; four bars of several parts.
    assert!(shapes("time-line") > 5 * 2 + 8 && shapes("smps") >= 4 * 3);

    let printed = browser.measure_print(&page);
    assert!(printed["width"].as_u64() <= Some(browser::PAPER.into()), "{}", printed["width"]);
    let paper = folder.path().join("study.pdf");
    let to = format!("--print-to-pdf={}", paper.display());
    browser.run(&page, &[to.as_str()]);
    assert!(fs::read(paper).unwrap().starts_with(b"%PDF"));
}

//! Ports that flood base addresses beside what is granted.

use serde_json::Value;

use crate::{SMALL, lab, number, snin};

/// Half of the ports flood base addresses beside what is granted. On one lane that harms it; on a lane of its own,
/// as the manager programs it into every port, it waits for one packet of theirs a switch and for no more.
#[test]
fn ordinary_traffic_is_in_the_way_of_what_is_granted_on_one_lane_only() {
    let flood = ["--ordinary", "50%", "--windows", "6", "--samples", "1", "--slice", "50us"];
    let fabrics = ["clos:6,4,4", "clos:4,2,4,host=200G,up=400G", "fattree:4"];
    for fabric in fabrics {
        let run = |share| {
            let all = [&[fabric][..], &flood, &["--unmanaged-share", share]].concat();
            let report = lab(&all);
            assert_eq!(number(&report, "/traffic/ordinary/windows"), 6.0);
            report
        };
        let report = run("0%");
        let of = |report: &Value, key: &str| number(report, &format!("/traffic/ordinary/{key}"));
        let (before, after) = ("one_lane", "own_lane");
        let granted = |report: &Value, way| of(report, &format!("{way}/granted_goodput"));
        let wait = |report: &Value, way| of(report, &format!("{way}/granted_wait_ns"));
        let ordinary = |report: &Value, way| of(report, &format!("{way}/ordinary_goodput"));
        assert!(granted(&report, before) < 0.95, "{report}");
        assert!(granted(&report, after) >= 0.999, "{report}");
        // 4,122 bytes at 20 or 40 ps, at each of three or five switches.
        let packet = if fabric.contains("200G") { 165.0 } else { 83.0 };
        let switches = if fabric == "fattree:4" { 5.0 } else { 3.0 };
        assert!(wait(&report, before) > 10.0 * packet * switches, "{report}");
        assert!(wait(&report, after) <= packet * switches, "{report}");
        assert!(ordinary(&report, after) > 0.01, "{report}");
        let hosts = number(&report, "/topology/hosts");
        assert_eq!(of(&report, "ports"), hosts / 2.0);
        // A share is what granted traffic loses at most, and ordinary traffic gets at least.
        let shared = run("10%");
        assert!(granted(&shared, after) >= 0.9, "{shared}");
        assert!(granted(&shared, after) < granted(&report, after), "{shared}");
        // Without a share one packet for a busy host keeps all behind it waiting.
        assert!(ordinary(&shared, after) > 2.0 * ordinary(&report, after), "{shared}{report}");
    }
    let (code, _, said) =
        snin(&["lab", "clos:2,2,2", "--ordinary", "50%", "--unmanaged-share", "60%"]);
    assert_eq!((code, said.lines().count()), (3, 1), "{said}");
}

#[test]
fn ordinary_traffic_is_the_same_for_the_same_seed() {
    let flood = ["--ordinary", "25%", "--transport", "rc", "--event", "cut leaf1/6 @window 3"];
    let run = |seed| {
        let all = [&["lab", "--json", "-", "--seed", seed], &SMALL[..], &flood].concat();
        let (code, json, said) = snin(&all);
        assert_eq!(code, 0, "{said}");
        json
    };
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

//! The command as its users see it: what it prints, where, and how it ends.

mod inputs;
mod shown;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use snin_judges::shared;

/// A folder of its own for a test, gone afterwards.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

fn snin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_snin")).args(arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs what has to succeed.
fn done(arguments: &[&str]) -> String {
    let output = snin(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 0, "{arguments:?}: {said}");
    assert_eq!(said, "", "{arguments:?}: nothing on stderr when it is no terminal");
    stdout(&output)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&done(arguments)).unwrap()
}

/// Runs what has to fail with one line on stderr and the exit code, and gives that line.
fn refused(arguments: &[&str], exit: i32) -> String {
    let output = snin(arguments);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(code(&output), exit, "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    said.trim_end().to_owned()
}

fn fabric(folder: &Folder, recipe: &str) -> String {
    folder.file("fabric.ibnetdiscover", done(&["topo", "generate", recipe]))
}

#[test]
fn a_generated_fabric_is_checked_planned_and_verified() {
    let folder = Folder::new();
    let fabric = fabric(&folder, "clos:8,4,4");
    assert!(done(&["topo", "check", &fabric]).contains("\nverdict: regular: "));

    let lfts = folder.path("lfts").display().to_string();
    let plan = ["plan", &fabric, "--traffic", "permutation", "--lfts", &lfts, "--json"];
    let document = done(&plan);
    let plan_file = folder.file("plan.json", &document);
    for name in ["dump_fts.txt", "opensm-lfts.dump", "guid2lid"] {
        assert!(Path::new(&lfts).join(name).exists(), "{name}");
    }
    let said = done(&["verify", &fabric, "--lfts", &lfts, "--plan", &plan_file]);
    assert!(said.ends_with("healthy\n") && !said.contains("NOT"), "{said}");
    let report = json(&["verify", &fabric, "--lfts", &lfts, "--json"]);
    assert_eq!(report["healthy"], true);
    assert_eq!(report["schema_version"], 1);
    // Either dump alone will do.
    for dump in ["dump_fts.txt", "opensm-lfts.dump"] {
        let dump = Path::new(&lfts).join(dump).display().to_string();
        done(&["verify", &fabric, "--lfts", &dump, "--plan", &plan_file]);
    }
}

#[test]
fn the_plan_has_the_keys_that_were_promised() {
    let plan = json(&["plan", "clos:4,2,2", "--traffic", "shift:3", "--json"]);
    assert_eq!((&plan["schema_version"], &plan["lmc"]), (&2.into(), &2.into()));
    let tree = &plan["trees"][1];
    assert_eq!((&tree["id"], &tree["plane"]), (&1.into(), &0.into()));
    assert_eq!(tree["root"], "0x0200020000000100");
    assert_eq!(plan["lids"].as_object().unwrap().len(), 8 + 6, "hosts and switches");
    let grants = plan["grants"].as_array().unwrap();
    assert_eq!(grants.len(), 8);
    for grant in grants {
        let base = plan["lids"][grant["destination"].as_str().unwrap()].as_u64().unwrap();
        let path = grant["path"].as_array().unwrap();
        let offset = if path.len() == 1 { 0 } else { 1 + grant["tree"].as_u64().unwrap() };
        assert_eq!(grant["dlid"].as_u64().unwrap(), base + offset);
        assert!(path.len() == 3 || (path.len() == 1 && grant["tree"] == 0), "{grant}");
        assert_eq!(path[0]["switch"].as_str().unwrap().len(), 18);
        assert!(path[0]["port"].is_u64());
    }
    let summary = &plan["summary"];
    for (key, value) in [("requested", 8), ("granted", 8), ("deferred", 0), ("refused", 0)] {
        assert_eq!(summary[key], value, "{key}");
    }
    assert_eq!((&summary["max_link_load"], &summary["bound"]), (&1.into(), &8.into()));
}

#[test]
fn what_waits_and_what_cannot_be_had_say_why() {
    let folder = Folder::new();
    let traffic =
        folder.file("t.csv", "source,destination,rate\nhost0,host4\nhost0,host5\nhost1,6,800G\n");
    let arguments = ["plan", "clos:4,2,2", "--traffic", &traffic, "--json"];
    let plan = json(&arguments);
    assert_eq!(plan["summary"]["granted"], 1);
    let reason = plan["deferred"][0]["reason"].as_str().unwrap();
    assert_eq!(reason, "the source host already sends in this window");
    let reason = plan["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("800000000000 bit/s asked for"), "{reason}");

    let strict = ["plan", "clos:4,2,2", "--traffic", &traffic, "--strict"];
    let said = refused(&strict, 1);
    assert!(said.contains("1 deferred and 1 refused") && said.contains("t.csv"), "{said}");
}

#[test]
fn the_same_input_and_seed_give_the_same_bytes() {
    let (one, other) = (Folder::new(), Folder::new());
    let run = |folder: &Folder, seed: &str| {
        let lfts = folder.path("lfts").display().to_string();
        let svg = folder.path("plan.svg").display().to_string();
        let topology = "clos:6,3,4,2";
        let arguments = [
            "plan",
            topology,
            "--traffic",
            "permutation",
            "--seed",
            seed,
            "--json",
            "--lfts",
            &lfts,
            "--svg",
            &svg,
        ];
        let mut bytes = vec![done(&arguments).into_bytes()];
        for file in [svg, format!("{lfts}/dump_fts.txt"), format!("{lfts}/opensm-lfts.dump")] {
            bytes.push(std::fs::read(file).unwrap());
        }
        bytes
    };
    assert_eq!(run(&one, "1"), run(&other, "1"));
    assert_ne!(run(&one, "1")[0], run(&other, "2")[0]);
}

#[test]
fn irregular_fabrics_are_named_and_end_with_one() {
    let folder = Folder::new();
    let text = done(&["topo", "generate", "clos:4,3,2", "--cut", "2", "--seed", "5"]);
    let fabric = folder.file("cut", text);
    let output = snin(&["topo", "check", &fabric]);
    assert_eq!(code(&output), 1);
    let missing = stdout(&output).matches("missing cable: leaf").count();
    assert_eq!(missing, 2, "{}", stdout(&output));
    let last = stdout(&output).lines().last().unwrap().to_owned();
    assert_eq!(
        last,
        "verdict: links can be granted on 3 trees, but perhaps not for every pattern: 2 pairs of switches have no \
         cable; `snin plan` says what fits"
    );
    let regular = done(&["topo", "check", "clos:4,3,2"]);
    let fits = "every pattern that asks no host for more than its link can be granted";
    assert_eq!(regular.lines().last().unwrap(), format!("verdict: regular: {fits}"));
    let output = snin(&["topo", "check", &fabric, "--json"]);
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check["verdict"], last.strip_prefix("verdict: ").unwrap());
    assert_eq!(check["clos"]["leaves"], 4);
    assert_eq!(check["irregularities"][0]["kind"], "missing_cable");

    let ring = "Switch 3 \"a\"\n[1] \"b\"[1]\n[2] \"c\"[1]\n[3] \"h\"[1]\n\nSwitch 3 \"b\"\n[1] \"a\"[1]\n\
                [2] \"c\"[2]\n\nSwitch 3 \"c\"\n[1] \"a\"[2]\n[2] \"b\"[2]\n\nHca 1 \"h\"\n[1] \"a\"[3]\n";
    let output = snin(&["topo", "check", &folder.file("ring", ring)]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("no Clos: `"), "{}", stdout(&output));
}

#[test]
fn tables_that_are_wrong_end_with_one_and_are_named() {
    let folder = Folder::new();
    let lfts = folder.path("lfts").display().to_string();
    done(&["plan", "clos:4,2,2", "--lfts", &lfts]);
    let dump = format!("{lfts}/opensm-lfts.dump");
    // The first entry of an address that leaves by an uplink of leaf0 leaves by the wrong one: a host's.
    let good = std::fs::read_to_string(&dump).unwrap();
    let entry = good.lines().find(|line| line.contains(" 003 ") && line.contains("host")).unwrap();
    std::fs::write(&dump, good.replacen(entry, &entry.replace(" 003 ", " 001 "), 1)).unwrap();
    let output = snin(&["verify", "clos:4,2,2", "--lfts", &dump]);
    assert_eq!(code(&output), 1);
    let said = stdout(&output);
    assert!(said.ends_with("NOT healthy\n") && said.contains("1 lost"), "{said}");
}

/// Ports without a known LID are ports whose routes were not checked.
#[test]
fn a_fabric_whose_lids_are_not_all_known_is_not_healthy() {
    let folder = Folder::new();
    let fabric = fabric(&folder, "clos:4,2,2");
    let lfts = folder.path("lfts");
    done(&["plan", &fabric, "--lfts", &lfts.display().to_string()]);
    let judged = |arguments: &[&str]| {
        let output = snin(&[&["verify", &fabric, "--lfts"], arguments].concat());
        assert_eq!(code(&output), 1, "{}", stdout(&output));
        assert!(stdout(&output).ends_with("NOT healthy\n"), "{}", stdout(&output));
        let arguments = [&["verify", &fabric, "--lfts"], arguments, &["--json"]].concat();
        let report: Value = serde_json::from_slice(&snin(&arguments).stdout).unwrap();
        assert_eq!(report["healthy"], false);
        report
    };
    // Tables copied away from guid2lid, and a fabric that was never managed.
    let alone = Folder::new();
    let dump = alone.path("dump_fts.txt");
    std::fs::copy(lfts.join("dump_fts.txt"), &dump).unwrap();
    let report = judged(&[&dump.display().to_string()]);
    assert_eq!(report["lids_from"], "topology");
    assert_eq!(report["cover"]["unaddressed"]["total"], 6 + 8);
    // guid2lid cut short: the ports that are left out are named.
    let whole = std::fs::read_to_string(lfts.join("guid2lid")).unwrap();
    let end = whole.rfind("0x02").unwrap();
    let left_out = whole[end..].split_whitespace().next().unwrap();
    std::fs::write(lfts.join("guid2lid"), &whole[..end]).unwrap();
    let report = judged(&[&lfts.display().to_string()]);
    assert_eq!(report["lids_from"], "guid2lid");
    let unaddressed = &report["cover"]["unaddressed"];
    assert_eq!(
        (&unaddressed["total"], &unaddressed["first"][0]["guid"]),
        (&1.into(), &left_out.into())
    );
    // A plan that leaves a host out.
    let mut plan = json(&["plan", &fabric, "--json"]);
    plan["lids"].as_object_mut().unwrap().remove(left_out).unwrap();
    let plan = folder.file("plan.json", plan.to_string());
    let report = judged(&[&lfts.display().to_string(), "--plan", &plan]);
    assert_eq!(report["lids_from"], "plan");
}

#[test]
fn hosts_that_cannot_reach_each_other_are_not_healthy() {
    let folder = Folder::new();
    let halves = [(1, 2), (3, 4)].map(|(a, b)| {
        format!(
            "Switch 4 \"S-{a}\"\n[1] \"S-{b}\"[1]\n[2] \"H-{a}\"[1]\n\nSwitch 4 \"S-{b}\"\n[1] \"S-{a}\"[1]\n\
             [2] \"H-{b}\"[1]\n\nHca 1 \"H-{a}\"\n[1] \"S-{a}\"[2]\n\nHca 1 \"H-{b}\"\n[1] \"S-{b}\"[2]\n\n"
        )
    });
    let fabric = folder.file("parted", halves.concat());
    let lfts = folder.path("lfts").display().to_string();
    done(&["plan", &fabric, "--lfts", &lfts]);
    let output = snin(&["verify", &fabric, "--lfts", &lfts]);
    let said = stdout(&output);
    assert_eq!(code(&output), 1, "{said}");
    assert!(said.contains("1 parts that no cable joins to the largest"), "{said}");
    assert!(
        said.contains("host to host: 8 of 12 lost") && said.ends_with("NOT healthy\n"),
        "{said}"
    );
    // A fabric without hosts.
    let bare =
        folder.file("bare", "Switch 2 \"a\"\n[1] \"b\"[1]\n\nSwitch 2 \"b\"\n[1] \"a\"[1]\n");
    done(&["plan", &bare, "--lfts", &lfts]);
    let output = snin(&["verify", &bare, "--lfts", &lfts]);
    assert!(stdout(&output).contains("nothing was checked"), "{}", stdout(&output));
    assert_eq!(code(&output), 1);
}

#[test]
fn bad_input_is_one_line_that_names_file_line_and_value() {
    let folder = Folder::new();
    let good = done(&["topo", "generate", "clos:2,2,1"]);
    let with = |name: &str, text: &str| folder.file(name, text);
    let check = |file: &str| refused(&["topo", "check", file], 3);

    let first_port = good.lines().position(|line| line.starts_with('[')).unwrap() + 1;
    let disagree = with(
        "disagree",
        &good.replacen("[2]\t\"S-0200020000000000\"[1]", "[2]\t\"S-0200020000000000\"[2]", 1),
    );
    let said = check(&disagree);
    assert!(
        said.starts_with(&format!("snin: {disagree}:{}: ends disagree: ", first_port + 1)),
        "{said}"
    );

    let duplicate = with(
        "duplicate",
        &good.replacen("switchguid=0x200020000000100", "switchguid=0x200020000000000", 1),
    );
    let said = check(&duplicate);
    assert!(said.contains("GUID 0x0200020000000000 belongs to both"), "{said}");

    let beyond = with(
        "beyond",
        &good.replacen("[2]\t\"S-0200020000000000\"[1]", "[77]\t\"S-0200020000000000\"[1]", 1),
    );
    let said = check(&beyond);
    assert!(said.contains(&format!("{}: port 77 is beyond the 3 ports", first_port + 1)), "{said}");

    let said = check(&with("truncated", &good[..good.len() / 2]));
    assert!(said.starts_with("snin: ") && said.contains("truncated:"), "{said}");
    let said = check(&folder.file("binary", b"\x7fELF\x00\x01"));
    assert!(said.contains("binary:1: ") && said.contains("binary data"), "{said}");
    let said = check("/nonexistent");
    assert!(said.contains("/nonexistent: "), "{said}");

    let traffic = |text: &str| {
        let file = with("traffic.csv", text);
        refused(&["plan", "clos:2,2,1", "--traffic", &file], 3)
    };
    let said = traffic("host0,host1\nhost0,nobody\n");
    assert!(said.contains("traffic.csv:2: ") && said.contains("nobody"), "{said}");
    let said = traffic("host0\n");
    assert!(said.contains("traffic.csv:1: "), "{said}");
    let said = refused(&["plan", "clos:2,2,1", "--traffic", "nothing"], 3);
    assert!(said.contains("no such file") && said.contains("permutation"), "{said}");

    let said = refused(&["plan", "clos:64,32,32", "--lmc", "5"], 3);
    assert!(said.contains("clos:64,32,32: 2048 end ports with LMC 5"), "{said}");
    let said = refused(&["plan", "clos:2,2,1", "--lmc", "1", "--routing", "dmodk"], 3);
    assert!(said.contains("dmodk routes at LMC 0 only"), "{said}");

    let plan = with("plan.json", "{\"schema_version\": 2,\n\"lmc\": true}");
    let other = with("other.json", "{\"schema_version\": 1,\n\"lmc\": true}");
    let lfts = folder.path("lfts").display().to_string();
    done(&["plan", "clos:2,2,1", "--lfts", &lfts]);
    let said = refused(&["verify", "clos:2,2,1", "--lfts", &lfts, "--plan", &plan], 3);
    assert!(said.contains("plan.json:2: "), "{said}");
    let said = refused(&["verify", "clos:2,2,1", "--lfts", &lfts, "--plan", &other], 3);
    assert!(said.contains("other.json:1: schema_version 1 (expected 2): "), "{said}");
    let said = refused(&["verify", "clos:3,2,1", "--lfts", &lfts], 3);
    assert!(said.contains("opensm-lfts.dump:"), "{said}");
}

#[test]
fn the_real_dgx_fabric() {
    let Some((path, _)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return;
    };
    let fabric = path.display().to_string();
    let output = snin(&["topo", "check", &fabric, "--json"]);
    assert_eq!(code(&output), 1);
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&check["hosts"], &check["switches"]), (&542.into(), &40.into()));
    assert_eq!(check["aggregation_nodes"], 40);
    assert_eq!((&check["clos"]["leaves"], &check["clos"]["roots"]), (&31.into(), &9.into()));
    assert_eq!(check["clos"]["planes"], 2);
    let kinds = |kind: &str| {
        let all = check["irregularities"].as_array().unwrap();
        all.iter().filter(|irregularity| irregularity["kind"] == kind).count()
    };
    assert_eq!(kinds("missing_cable"), 16);
    // Aggregation nodes are on leaves and spines, and are judged apart.
    assert!(!check["irregularities"].to_string().contains("Aggregation Node"));

    let folder = Folder::new();
    let lfts = folder.path("lfts").display().to_string();
    let plan = ["plan", &fabric, "--traffic", "permutation", "--json", "--lfts", &lfts];
    let plan = folder.file("plan.json", done(&plan));
    let verify = ["verify", &fabric, "--lfts", &lfts, "--plan", &plan, "--json"];
    let report = json(&verify);
    assert_eq!(report["routes"]["lost"], 0);
    assert_eq!(report["credit"]["cycle"], Value::Null);
    assert_eq!(report["trees"]["strayed"]["total"], 0);
    assert_eq!(report["owners"]["max_link_load"], 1);
}

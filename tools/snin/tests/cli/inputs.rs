//! Inputs as sites have them: names that nobody gave or that collide, aggregation nodes, no switch at all, a
//! tool's other outputs.

use super::{Folder, code, done, json, refused, snin, stdout};

/// A switch with ports up from 1: hosts by what their adapters say, then a cable to the spine.
fn leaf(name: &str, hosts: &[&str], spine_port: usize) -> (String, String) {
    let mut record = format!("Switch 36 \"{name}\" # \"{name}\"\n");
    let mut adapters = String::new();
    for (port, host) in (1..).zip(hosts) {
        let id = format!("{name}-{port}");
        record += &format!("[{port}] \"{id}\"[1]\n");
        adapters += &format!("\nCa 1 \"{id}\" # \"{host}\"\n[1] \"{name}\"[{port}]\n");
    }
    record += &format!("[36] \"spine\"[{spine_port}]\n");
    (record + &adapters, format!("[{spine_port}] \"{name}\"[36]\n"))
}

/// Leaves under one spine.
fn netlist(leaves: &[(&str, &[&str])]) -> String {
    let (mut text, mut spine) = (String::new(), "Switch 36 \"spine\" # \"spine\"\n".to_owned());
    for (port, (name, hosts)) in (1..).zip(leaves) {
        let (record, cable) = leaf(name, hosts, port);
        text += &(record + "\n");
        spine += &cable;
    }
    text + &spine
}

#[test]
fn slurm_is_told_of_hosts_and_switches_by_names_of_their_own() {
    let folder = Folder::new();
    let model = "MT4115 ConnectX4   Mellanox Technologies";
    let file = folder.file(
        "fabric",
        netlist(&[("row 1", &["n1 mlx5_0", "n2 mlx5_0"]), ("row_1", &["n1 mlx5_1", model])]),
    );
    let output = snin(&["slurm", "topology", &file]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 1, "a port is left out: {said}");
    assert_eq!(
        stdout(&output),
        "SwitchName=row_1 Nodes=n1,n2\nSwitchName=fabric Switches=row_1\n",
        "the second leaf has no node of its own: {said}"
    );
    assert!(said.contains("have no name of a host and are left out: 0x"), "{said}");
    assert!(said.contains("n1 on row 1 and row_1, put at row 1"), "{said}");

    // Names in OpenSM's form: of the adapter that nobody named, and of a leaf.
    let map = "# of the site\n0x0000000000200001 \"row 2\"\n0x0000000000100006 \"n9\" # new\n";
    let map = folder.file("names", map);
    let lines = snin(&["slurm", "topology", &file, "--node-name-map", &map, "--json"]);
    assert_eq!(code(&lines), 0, "a warning of n1 only: {}", String::from_utf8_lossy(&lines.stderr));
    let lines = stdout(&lines);
    let known: serde_json::Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(known["switches"][1]["switch"], "row_2", "{lines}");
    assert_eq!(known["switches"][1]["nodes"][0], "n9", "{lines}");
    for command in [&["topo", "check", &file][..], &["plan", &file], &["slurm", "topology", &file]]
    {
        let bad = folder.file("bad", "0x10 \"a\"\nleaf1 b\n");
        let arguments = [command, &["--node-name-map", &bad]].concat();
        let told = refused(&arguments, 3);
        assert!(
            told.ends_with("bad:2: not understood: `leaf1 b` (expected GUID \"NAME\")"),
            "{told}"
        );
    }
}

#[test]
fn hosts_without_a_switch_are_two_hosts_with_one_path() {
    let folder = Folder::new();
    let text =
        "Ca 1 \"a\" # \"n1 mlx5_0\"\n[1] \"b\"[1]\n\nCa 1 \"b\" # \"n2 mlx5_0\"\n[1] \"a\"[1]\n";
    let file = folder.file("pair", text);
    let told = done(&["topo", "check", &file]);
    assert!(told.starts_with("2 hosts, 0 switches, 1 cables\n"), "{told}");
    assert!(told.contains("back to back"), "{told}");
    assert!(
        told.ends_with("\nverdict: regular: each pair of hosts has its cable for itself\n"),
        "{told}"
    );
    assert_eq!(json(&["topo", "check", &file, "--json"])["hosts"], 2);
    let told = done(&["plan", &file, "--traffic", "permutation"]);
    assert!(
        told.contains("hosts             2\n") && told.contains("addresses         2 LIDs"),
        "{told}"
    );
    assert!(told.contains("one path each way") && !told.contains("bound"), "{told}");
    assert_eq!(done(&["slurm", "topology", &file]), "SwitchName=fabric Nodes=n1,n2\n");
}

#[test]
fn aggregation_nodes_are_no_irregularity_wherever_they_hang() {
    let folder = Folder::new();
    let plain = netlist(&[("leaf0", &["n1", "n2"]), ("leaf1", &["n3", "n4"])]);
    // One on a leaf and one on the spine.
    let with = |text: String, switch: &str, id: &str| {
        let header = format!("Switch 36 \"{switch}\" # \"{switch}\"\n");
        let cable = format!("{header}[35] \"{id}\"[1]\n");
        let node = format!(
            "\nCa 1 \"{id}\" # \"Mellanox Technologies Aggregation Node\"\n[1] \"{switch}\"[35]\n"
        );
        assert!(text.contains(&header));
        text.replace(&header, &cable) + &node
    };
    let text = with(with(plain.clone(), "leaf0", "sharp0"), "spine", "sharp1");
    let irregular = |name: &str, text: &str| {
        let file = folder.file(name, text);
        let output = snin(&["topo", "check", &file, "--json"]);
        let check: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (check["aggregation_nodes"].clone(), check["irregularities"].clone())
    };
    let (none, before) = irregular("plain", &plain);
    let (two, after) = irregular("sharp", &text);
    assert_eq!((none, two), (0.into(), 2.into()));
    assert_eq!(before, after, "one cable up for two hosts, as before, and nothing more");
    // The tables reach them, too.
    let lfts = folder.path("lfts").display().to_string();
    let file = folder.path("sharp").display().to_string();
    done(&["plan", &file, "--lfts", &lfts]);
    assert!(done(&["verify", &file, "--lfts", &lfts]).ends_with("healthy\n"));
}

#[test]
fn another_tools_output_is_named_with_the_command_that_is_meant() {
    let folder = Folder::new();
    let file = folder.file(
        "links",
        "CA     5  1 0x0002c903000a0001 4x EDR - SW     1  3 0x0002c903000b0001 ( 'n1' - 's' )\n",
    );
    let told = refused(&["topo", "check", &file], 3);
    assert!(told.contains(
        "links:1: this is a list of links, as `ibnetdiscover -p` prints it; what is read is"
    ));
    // The fabric itself, where tables are meant.
    let fabric = folder.file("fabric", done(&["topo", "generate", "clos:2,2,2"]));
    let told = refused(&["verify", &fabric, "--lfts", &fabric], 3);
    assert!(told.contains("this is the output of `ibnetdiscover`; what is read is"), "{told}");
}

/// dump_fts of infiniband-diags reads one block too few where the highest LID begins one.
#[test]
fn a_dump_that_its_tool_cut_short_is_said_to_be_so() {
    let folder = Folder::new();
    // 48 hosts and 16 switches: LIDs 1 to 64.
    let fabric = folder.file("fabric", done(&["topo", "generate", "clos:8,8,6"]));
    let lfts = folder.path("lfts");
    done(&["plan", &fabric, "--lmc", "0", "--lfts", &lfts.display().to_string()]);
    let whole = std::fs::read_to_string(lfts.join("dump_fts.txt")).unwrap();
    assert!(whole.contains("Unicast lids [0x0-0x40]") && whole.contains("\n64 valid lids dumped"));
    let lines = whole.lines().filter(|line| !line.starts_with("0x0040 "));
    let cut: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(lfts.join("dump_fts.txt"), cut.replace("64 valid", "63 valid")).unwrap();
    let dump = lfts.join("dump_fts.txt").display().to_string();
    let output = snin(&["verify", &fabric, "--lfts", &dump]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 1);
    assert!(
        said.contains("of 16 switches") && said.contains("a fault of infiniband-diags' dump_fts"),
        "{said}"
    );
    std::fs::write(&dump, whole).unwrap();
    done(&["verify", &fabric, "--lfts", &dump]);
}

#[test]
fn an_agent_that_the_settings_take_away_is_named_with_file_and_line() {
    let folder = Folder::new();
    let settings = folder.file("jobs.toml", "# a node without an agent\nagent = \"\"\n");
    let told = refused(&["job", "stats", "slurm/1", "--config", &settings], 3);
    assert!(told.contains("jobs.toml:2: agent is empty") && told.contains("--agents"), "{told}");
    let settings = folder.file("jobs.toml", b"mode = \"slice\" # caf\xe9\nno_room = \"caf\xe9\"\n");
    let told = refused(&["job", "stats", "slurm/1", "--config", &settings], 3);
    assert!(told.contains("jobs.toml:2:15: byte 0xe9 is no UTF-8"), "{told}");
}

//! What users and admins ask for: the plugin's options, leaves, and a plugin of another Slurm.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use snin_fabric::job::JobTrees;
use snin_judges::objections;

use super::cluster::{Cluster, SNIN, plugin};

/// `--snin` and `--snin-wait` of srun: checked where they are typed, and heard by the hooks.
pub(super) fn options(cluster: &Cluster) {
    let environment = ["bash", "-c", "echo $SNIN_JOB"];
    let off = cluster.tried("srun", &[&["--snin=off", "-N2"], &environment[..]].concat());
    let said = String::from_utf8_lossy(&off.stderr);
    assert!(off.status.success() && off.stdout.trim_ascii().is_empty(), "{said}");
    for (option, line) in [
        ("--snin=all", "snin: --snin=all: slice, pinned, off, or ring, bidir, hd,"),
        ("--snin=halo:4x", "snin: --snin=halo:4x: slice, pinned, off, or ring, bidir, hd,"),
        ("--snin-wait=soon", "snin: --snin-wait=soon: expected number at 0"),
    ] {
        let output = cluster.tried("srun", &[option, "-N1", "hostname"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(line), "{said}");
    }
    // Hosts 0 to 3 are a leaf's, and 4 to 7 the next one's: each pair is on two leaves.
    let pinned = ["--snin=pinned", "--snin-wait=1m", "-N8", "-n8"];
    let rank = ["bash", "-c", "[ $SLURM_PROCID != 0 ] || cat $SNIN_JOB_FILE"];
    let arguments = [&pinned[..], &rank].concat();
    let said = cluster.slurm("srun", &arguments);
    let trees: JobTrees = said.parse().unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(trees.hosts().len(), 8, "{said}");
    let between = trees.hosts().chunks(2).filter(|two| two[0].leaf != two[1].leaf).count();
    let pins = said.lines().filter(|line| line.starts_with("pin ")).count();
    assert_eq!(pins, 2 * between, "{said}");
}

/// A pattern: each host has one tree for all that it sends to other leaves.
pub(super) fn patterns(cluster: &Cluster) {
    let rank = ["bash", "-c", "[ $SLURM_PROCID != 0 ] || cat $SNIN_JOB_FILE"];
    let ring = ["--snin=ring", "--snin-wait=1m", "-N8", "-n8"];
    let said = cluster.slurm("srun", &[&ring[..], &rank].concat());
    let job: JobTrees = said.parse().unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(job.collective(), Some("ring"), "{said}");
    let mut crossing = 0;
    for from in job.hosts() {
        let others = job.hosts().iter().filter(|to| to.leaf != from.leaf);
        let trees: BTreeSet<_> =
            others.map(|to| job.way(from.lids.0, to.lids.0).unwrap().unwrap().tree).collect();
        crossing += usize::from(!trees.is_empty());
        assert!(trees.len() < 2, "{}: {trees:?}\n{said}", from.name);
    }
    assert!(crossing > 0, "{said}");
}

/// A plugin of another version is not installed, and a line says why.
pub(super) fn another_slurm(cluster: &Cluster) {
    let said = cluster.slurm("scontrol", &["--version"]);
    let own = said.trim().rsplit(' ').next().unwrap();
    let parts: Vec<u32> = own.split('.').map(|part| part.parse().unwrap()).collect();
    let number = (parts[0] << 16) | (parts[1] << 8) | parts[2];
    let other = number + 0x01_00_00;
    let mut code = fs::read(plugin()).unwrap();
    for at in (0..code.len() - 4).step_by(4) {
        if code[at..at + 4] == number.to_le_bytes() {
            code[at..at + 4].copy_from_slice(&other.to_le_bytes());
        }
    }
    let (before, after) = (number.to_string(), other.to_string());
    let text = code.windows(before.len()).position(|text| text == before.as_bytes()).unwrap();
    code[text..text + before.len()].copy_from_slice(after.as_bytes());
    let planted = cluster.path("planted.so");
    fs::write(&planted, code).unwrap();
    let conf = cluster.path("slurm.conf");
    let mut install = Command::new(SNIN);
    install.args(["slurm", "install", "--slurm-conf"]).arg(&conf).arg("--plugin").arg(&planted);
    let hooks = cluster.path("hooks");
    let output = install.arg("--hooks").arg(hooks).env("SLURM_CONF", &conf).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let line =
        "planted.so: for Slurm 23.05.8, but this is Slurm 22.05.8: build it on a machine with";
    assert!(!output.status.success() && said.contains(line), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}

/// What fits on one leaf waits for one, and what fits on two for two.
pub(super) fn leaves(cluster: &Cluster) {
    for (nodes, leaves) in [("-N3", 1), ("-N4", 1), ("-N7", 2)] {
        let held = ["--parsable", "-H", nodes, "--output=/dev/null", "--wrap", "true"];
        let job = cluster.slurm("sbatch", &held);
        let job = job.trim();
        let told = cluster.slurm("scontrol", &["show", "job", job]);
        assert!(told.contains(&format!("Switches={leaves}@00:00:01")), "{nodes}: {told}");
        cluster.slurm("scancel", &[job]);
    }
}

/// The service's command: what it finds to be otherwise than the fabric it writes anew, and slurmctld reads it.
pub(super) fn topology_is_kept(cluster: &Cluster) {
    let (conf, config) = (cluster.path("topology.conf"), cluster.text("jobs.toml"));
    let wanted = fs::read_to_string(&conf).unwrap();
    fs::write(&conf, wanted.replace(",host3\n", "\n")).unwrap();
    cluster.slurm("scontrol", &["reconfigure"]);
    let leaf = |nodes: &str| {
        let said = cluster.slurm("scontrol", &["show", "topology", "leaf0"]);
        said.contains(&format!("Nodes={nodes}\n"))
    };
    cluster.wait("slurmctld has it", || leaf("host0,host1,host2"));
    let mut command = Command::new(SNIN);
    command.args(["slurm", "topology", "--write"]).arg(&conf).args(["--every", "200ms"]);
    command.args(["--config", &config]).env("SLURM_CONF", cluster.path("slurm.conf"));
    let mut keeper = command.stderr(Stdio::null()).spawn().unwrap();
    cluster.wait("topology.conf is as the fabric", || {
        fs::read_to_string(&conf).is_ok_and(|text| text == wanted)
    });
    cluster.wait("slurmctld reads it", || leaf("host0,host1,host2,host3"));
    fs::remove_file(&conf).unwrap();
    cluster.wait("it is there again", || conf.exists());
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert_eq!(fs::read_to_string(&conf).unwrap(), wanted);
}

/// Of topology.yaml, which Slurm reads from 25.05 on, a parser of YAML says what is in it; the keys are those that
/// Slurm documents for topology/tree. Debian's Slurm does not read it.
const JUDGE: &str = r#"
import sys, yaml
[one] = yaml.safe_load(sys.stdin)
assert set(one) == {"topology", "cluster_default", "tree"}, one.keys()
assert isinstance(one["topology"], str) and one["cluster_default"] is True
assert set(one["tree"]) == {"switches"}
names, nodes, below = set(), [], []
for switch in one["tree"]["switches"]:
    assert set(switch) in ({"switch", "nodes"}, {"switch", "children"}), switch
    assert all(isinstance(value, str) for value in switch.values()), switch
    assert switch["switch"] not in names
    names.add(switch["switch"])
    nodes += switch.get("nodes", "").split(",") if "nodes" in switch else []
    below += switch.get("children", "").split(",") if "children" in switch else []
assert len(set(nodes)) == len(nodes) and len(set(below)) == len(below)
assert set(below) < names and len(names - set(below)) == 1, "one switch is above all others"
print(len(names), len(nodes))
"#;

pub(super) fn yaml(cluster: &Cluster) {
    let fabric = cluster.text("fabric");
    for (recipe, wanted) in [(None, "5 16\n"), (Some("fattree:4"), "13 16\n")] {
        let fabric = recipe.map_or_else(
            || fabric.clone(),
            |recipe| {
                let said = Command::new(SNIN).args(["topo", "generate", recipe]).output().unwrap();
                let path = cluster.path("other-fabric");
                fs::write(&path, said.stdout).unwrap();
                path.display().to_string()
            },
        );
        let text = cluster.path("topology.yaml");
        let said = Command::new(SNIN).args(["slurm", "topology", "--yaml", &fabric]).output();
        fs::write(&text, said.unwrap().stdout).unwrap();
        let mut judge = Command::new("/usr/bin/python3");
        judge.args(["-c", JUDGE]).stdin(fs::File::open(&text).unwrap());
        let said = judge.output().expect("install the Debian packages python3 and python3-yaml");
        let why = String::from_utf8_lossy(&said.stderr);
        assert_eq!(String::from_utf8_lossy(&said.stdout), wanted, "{why}");
    }
}

/// systemd takes the units.
pub(super) fn units() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slurm/systemd");
    for unit in ["snin-jobs.service", "snin-topology.service"] {
        let text = fs::read_to_string(folder.join(unit)).unwrap().replace("/usr/bin/snin", SNIN);
        assert_eq!(objections(unit, &text, None).unwrap(), "");
        let wrong = objections(unit, &text.replace("RestartSec=", "RestartSecs="), None).unwrap();
        assert!(wrong.contains("RestartSecs"), "{wrong}");
    }
}

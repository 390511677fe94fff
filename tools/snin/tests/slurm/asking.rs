//! What users and admins ask for: the plugin's options, leaves, and a plugin of another Slurm.

use std::fs;

use snin_fabric::job::JobTrees;

use super::cluster::{Cluster, SNIN, plugin};

/// `--snin` and `--snin-wait` of srun: checked where they are typed, and heard by the hooks.
pub(super) fn options(cluster: &Cluster) {
    let environment = ["bash", "-c", "echo $SNIN_JOB"];
    let off = cluster.tried("srun", &[&["--snin=off", "-N2"], &environment[..]].concat());
    let said = String::from_utf8_lossy(&off.stderr);
    assert!(off.status.success() && off.stdout.trim_ascii().is_empty(), "{said}");
    for (option, line) in [
        ("--snin=all", "snin: --snin=all: slice, pinned or off"),
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
    let mut install = std::process::Command::new(SNIN);
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

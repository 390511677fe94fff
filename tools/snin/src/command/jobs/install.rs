//! `snin slurm`: what slurm.conf needs, and the fabric as Slurm's topology.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use snin_daemon::store;

use super::{read, topology};
use crate::Verdict;
use crate::cli::jobs::Slurm;
use crate::failure::Failure;
use crate::output::{Output, Target};

/// slurm.conf's key, the script, and which hook it calls.
const HOOKS: [(&str, &str); 5] = [
    ("PrologSlurmctld", "prolog-slurmctld"),
    ("EpilogSlurmctld", "epilog-slurmctld"),
    ("Prolog", "prolog"),
    ("Epilog", "epilog"),
    ("TaskProlog", "task-prolog"),
];
/// A prolog runs when nodes are allocated, not with the first step; verbs need locked memory.
const FLAGS: [(&str, &str); 2] =
    [("PrologFlags", "Alloc"), ("PropagateResourceLimitsExcept", "MEMLOCK")];

/// Does what is asked.
pub(crate) fn run<W: Write>(asked: &Slurm, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match asked {
        Slurm::Install { slurm_conf, hooks, config, write, format } => {
            let bytes = fs::read(slurm_conf).map_err(Failure::file(slurm_conf))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines = lacking(&text, hooks)
                .map_err(|what| Failure::content(&slurm_conf.display().to_string(), what))?;
            let scripts = scripts(hooks, config, slurm_conf)?;
            if *write {
                for (path, script) in &scripts {
                    put_script(path, script)?;
                }
                if !lines.is_empty() {
                    let joined = format!("{}\n{}\n", text.trim_end(), lines.join("\n"));
                    store::replace(slurm_conf, joined.as_bytes())?;
                }
            }
            let json = Target::open(format.json.as_deref())?;
            let paths: Vec<String> =
                scripts.iter().map(|(path, _)| path.display().to_string()).collect();
            let answer = json!({ "lines": lines, "scripts": paths, "written": write });
            out.report(json, &answer, |out| {
                let did = if *write { "added to" } else { "would be added to" };
                lines.iter().try_for_each(|line| {
                    out.line(format!("{did} {}: {line}", slurm_conf.display()))
                })?;
                let did = if *write { "written" } else { "would be written" };
                paths.iter().try_for_each(|path| out.line(format!("{did}: {path}")))?;
                if *write {
                    return out.line("then: scontrol reconfigure");
                }
                out.line("--write does it")
            })?;
            Ok(Verdict::Well)
        }
        Slurm::Topology { topology, yaml, settings } => {
            topology::print(topology.as_deref(), *yaml, &read(settings)?, settings, out)
        }
    }
}

/// The lines that a slurm.conf lacks.
///
/// # Errors
/// Line and key, where it has another value already that would have to go.
fn lacking(text: &str, hooks: &Path) -> Result<Vec<String>, String> {
    let scripts = HOOKS.map(|(key, script)| (key, hooks.join(script).display().to_string()));
    let flags = FLAGS.map(|(key, value)| (key, value.to_owned()));
    let mut lines = Vec::new();
    for (key, wanted) in scripts.into_iter().chain(flags) {
        match value_of(text, key) {
            Some((_, value)) if has(value, &wanted) => {}
            // Slurm takes one program of these only.
            Some((line, value)) => {
                let both = "let one script call both, or remove that line";
                return Err(format!("{line}: {key}={value} stands in the way of {wanted}: {both}"));
            }
            None => lines.push(format!("{key}={wanted}")),
        }
    }
    Ok(lines)
}

fn has(value: &str, wanted: &str) -> bool {
    value.split(',').any(|one| one.trim().eq_ignore_ascii_case(wanted))
}

/// The line and value of a key; Slurm's keys have no case.
fn value_of<'a>(text: &'a str, key: &str) -> Option<(usize, &'a str)> {
    let mut lines = text.lines().enumerate();
    lines.find_map(|(at, line)| {
        let line = line.split('#').next().unwrap_or_default();
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case(key).then(|| (at + 1, value.trim()))
    })
}

/// The scripts that Slurm calls: it takes no arguments in its file.
fn scripts(
    hooks: &Path,
    config: &Path,
    slurm_conf: &Path,
) -> Result<Vec<(std::path::PathBuf, String)>, Failure> {
    let own = std::env::current_exe().map_err(Failure::file(Path::new("/proc/self/exe")))?;
    let slurm_conf = slurm_conf.canonicalize().map_err(Failure::file(slurm_conf))?;
    let text = |path: &Path| super::quoted(&path.display().to_string());
    let (own, config, slurm_conf) = (text(&own), text(config), text(&slurm_conf));
    // Slurm gives its hooks neither a path nor its own file.
    let head = "#!/bin/sh\nexport PATH=${PATH:-/usr/sbin:/usr/bin}";
    let script = |(_, name): (&str, &str)| {
        let call = format!("exec {own} hook {name} --config {config}");
        (hooks.join(name), format!("{head} SLURM_CONF={slurm_conf}\n{call}\n"))
    };
    Ok(HOOKS.map(script).into())
}

fn put_script(path: &Path, script: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    }
    store::replace(path, script.as_bytes())?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, executable).map_err(Failure::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_lacks_is_added_and_what_stands_in_the_way_is_named() {
        let hooks = Path::new("/etc/slurm/snin");
        let lines = lacking("ClusterName=a\nprologflags=Contain,alloc # both\n", hooks).unwrap();
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert_eq!(lines[0], "PrologSlurmctld=/etc/slurm/snin/prolog-slurmctld");
        let whole = format!("{}\nPrologFlags=Alloc\n", lines.join("\n"));
        assert_eq!(lacking(&whole, hooks), Ok(Vec::new()));
        let why = lacking("\nProlog=/site/prolog\n", hooks).unwrap_err();
        assert!(why.starts_with("2: Prolog=/site/prolog stands in the way of "), "{why}");
    }
}

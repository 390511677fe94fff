//! `snin slurm`: what Slurm's files need. The fabric as Slurm's topology is in `topology`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use snin_daemon::store;

use super::hooks::slurm_says;
use super::settings::installed;
use super::topology;
use crate::Verdict;
use crate::cli::jobs::{Install, Slurm};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// slurm.conf's key, the script, and which hook it calls.
const HOOKS: [(&str, &str); 6] = [
    ("PrologSlurmctld", "prolog-slurmctld"),
    ("EpilogSlurmctld", "epilog-slurmctld"),
    ("Prolog", "prolog"),
    ("Epilog", "epilog"),
    ("TaskProlog", "task-prolog"),
    ("TaskEpilog", "task-epilog"),
];
/// A prolog runs when nodes are allocated, not with the first step; verbs need locked memory.
const FLAGS: [(&str, &str); 2] =
    [("PrologFlags", "Alloc"), ("PropagateResourceLimitsExcept", "MEMLOCK")];

/// The plugin's text that says which Slurm it is for.
const IS_FOR: &[u8] = b"snin-spank is for Slurm ";
/// What slurmctld calls for every job that is submitted; it looks for a file of this name.
const JOB_SUBMIT: &str = include_str!("../../../../slurm/job_submit.lua");
const JOB_SUBMIT_NAME: &str = "job_submit.lua";

/// Does what is asked.
pub(crate) fn run<W: Write>(asked: &Slurm, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match asked {
        Slurm::Install(install) => {
            let changes = Changes::of(install)?;
            if install.write {
                changes.make()?;
            }
            changes.tell(install, out)
        }
        Slurm::Topology(asked) => topology::run(asked, out),
    }
}

/// A file that Slurm reads, and lines that it lacks.
struct Lines {
    path: PathBuf,
    text: String,
    lacking: Vec<String>,
}

/// What is to be done.
struct Changes {
    /// slurm.conf, and the list of its plugins where there is one to add.
    lines: Vec<Lines>,
    /// Paths, texts, and whether they are programs.
    files: Vec<(PathBuf, String, u32)>,
    /// What stays undone, and why.
    notes: Vec<String>,
}

impl Changes {
    fn of(asked: &Install) -> Result<Self, Failure> {
        let slurm_conf = &asked.slurm_conf;
        let bytes = fs::read(slurm_conf).map_err(Failure::file(slurm_conf))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let folder = slurm_conf.canonicalize().map_err(Failure::file(slurm_conf))?;
        let folder = folder.parent().map(Path::to_owned).unwrap_or_default();
        let wrong = |what: String| Failure::content(&slurm_conf.display().to_string(), what);
        let lacking = lacking(&text, &asked.hooks, asked.leaves).map_err(wrong)?;
        let plugins = value_of(&text, "PlugStackConfig").map_or("plugstack.conf", |(_, path)| path);
        let plugins = folder.join(plugins);
        let lines = vec![Lines { path: slurm_conf.clone(), text, lacking }];
        let scripts = scripts(&asked.hooks, &asked.config, slurm_conf)?.into_iter();
        let files = scripts.map(|(path, script)| (path, script, 0o755)).collect();
        let mut changes = Self { lines, files, notes: Vec::new() };
        let plugin = asked.plugin.clone().unwrap_or_else(|| installed("libsnin_spank.so"));
        changes.add_plugin(&plugin, plugins)?;
        if asked.leaves {
            changes.add_job_submit(&folder, asked)?;
        }
        Ok(changes)
    }

    /// The options --snin and --snin-wait, where the plugin is there and for this Slurm.
    fn add_plugin(&mut self, plugin: &Path, list: PathBuf) -> Result<(), Failure> {
        let code = match fs::read(plugin) {
            Ok(code) => code,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let why = "no plugin is there, so users ask by --comment";
                self.notes.push(format!("{}: {why}", plugin.display()));
                return Ok(());
            }
            Err(error) => return Err(Failure::file(plugin)(error)),
        };
        let wrong = |what: String| Failure::content(&plugin.display().to_string(), what);
        let version = is_for(&code).ok_or_else(|| wrong(" no plugin of snin".to_owned()))?;
        // Without its file scontrol does not even say that.
        let mut scontrol = Command::new("scontrol");
        let said = slurm_says(scontrol.arg("--version").env("SLURM_CONF", &self.lines[0].path))?;
        let running = slurm_version(&said)
            .ok_or_else(|| Failure::Job(format!("scontrol --version: `{:.40}`", said.trim())))?;
        if version != running {
            let [theirs, ours] = [version, running].map(spelt);
            return Err(wrong(format!(
                " for Slurm {theirs}, but this is Slurm {ours}: build it on a machine with this one's libslurm-dev"
            )));
        }
        let text = fs::read(&list).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let place = plugin.display().to_string();
        let has = |line: &str| line.split_whitespace().nth(1) == Some(place.as_str());
        let lacking =
            if text.lines().any(has) { vec![] } else { vec![format!("optional {place}")] };
        self.lines.push(Lines { path: list, text, lacking });
        Ok(())
    }

    fn add_job_submit(&mut self, folder: &Path, asked: &Install) -> Result<(), Failure> {
        let path = folder.join(JOB_SUBMIT_NAME);
        let first = JOB_SUBMIT.lines().next().unwrap_or_default();
        if fs::read_to_string(&path).is_ok_and(|text| !text.starts_with(first)) {
            let why = "is the site's own: let it call what snin would put there, or move it away";
            return Err(Failure::content(&path.display().to_string(), format!("1: {why}")));
        }
        let topology = folder.join("topology.conf").display().to_string();
        let wait = asked.leaf_wait.nanos() / 1_000_000_000;
        let script =
            JOB_SUBMIT.replace("@TOPOLOGY@", &topology).replace("@WAIT@", &wait.to_string());
        self.files.push((path, script, 0o644));
        Ok(())
    }

    fn make(&self) -> Result<(), Failure> {
        for (path, text, mode) in &self.files {
            put(path, text, *mode)?;
        }
        for Lines { path, text, lacking } in
            self.lines.iter().filter(|lines| !lines.lacking.is_empty())
        {
            let kept = if text.trim().is_empty() {
                String::new()
            } else {
                format!("{}\n", text.trim_end())
            };
            put(path, &format!("{kept}{}\n", lacking.join("\n")), 0o644)?;
        }
        Ok(())
    }

    fn tell<W: Write>(&self, asked: &Install, out: &mut Output<W>) -> Result<Verdict, Failure> {
        let json = Target::open(asked.format.json.as_deref())?;
        let lines: Vec<(&Path, &String)> = self
            .lines
            .iter()
            .flat_map(|lines| lines.lacking.iter().map(|line| (lines.path.as_path(), line)))
            .collect();
        let told: Vec<_> =
            lines.iter().map(|(path, line)| json!({ "file": path, "line": line })).collect();
        let paths: Vec<&PathBuf> = self.files.iter().map(|(path, ..)| path).collect();
        let answer = json!({
            "lines": told, "files": paths, "notes": self.notes, "written": asked.write,
        });
        out.report(json, &answer, |out| {
            let (added, written) = match asked.write {
                true => ("added to", "written"),
                false => ("would be added to", "would be written"),
            };
            lines.iter().try_for_each(|(path, line)| {
                out.line(format!("{added} {}: {line}", path.display()))
            })?;
            paths.iter().try_for_each(|path| out.line(format!("{written}: {}", path.display())))?;
            self.notes.iter().try_for_each(|note| out.line(note))?;
            out.line(if asked.write { "then: scontrol reconfigure" } else { "--write does it" })
        })?;
        Ok(Verdict::Well)
    }
}

/// The Slurm that a plugin is for, by its code.
fn is_for(code: &[u8]) -> Option<u32> {
    let at = code.windows(IS_FOR.len()).position(|text| text == IS_FOR)? + IS_FOR.len();
    let digits = code[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&code[at..at + digits]).ok()?.parse().ok()
}

/// `slurm-wlm 22.05.8` as SLURM_VERSION_NUMBER has it.
fn slurm_version(said: &str) -> Option<u32> {
    let text = said.trim().rsplit(' ').next()?;
    let mut parts =
        text.split(['.', '-']).map(|part| part.parse::<u32>().ok().filter(|&part| part < 256));
    let mut part = || parts.next().flatten();
    Some((part()? << 16) | (part()? << 8) | part()?)
}

fn spelt(version: u32) -> String {
    let [_, major, minor, micro] = version.to_be_bytes();
    format!("{major}.{minor:02}.{micro}")
}

/// The lines that a slurm.conf lacks.
///
/// # Errors
/// Line and key, where it has another value already that would have to go.
fn lacking(text: &str, hooks: &Path, leaves: bool) -> Result<Vec<String>, String> {
    let scripts = HOOKS.map(|(key, script)| (key, hooks.join(script).display().to_string()));
    let leaves = leaves.then_some(("JobSubmitPlugins", "lua"));
    let flags = FLAGS.into_iter().chain(leaves).map(|(key, value)| (key, value.to_owned()));
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
) -> Result<Vec<(PathBuf, String)>, Failure> {
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

fn put(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    }
    store::replace(path, text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Failure::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_lacks_is_added_and_what_stands_in_the_way_is_named() {
        let hooks = Path::new("/etc/slurm/snin");
        let lines =
            lacking("ClusterName=a\nprologflags=Contain,alloc # both\n", hooks, false).unwrap();
        assert_eq!(lines.len(), 7, "{lines:?}");
        assert_eq!(lines[0], "PrologSlurmctld=/etc/slurm/snin/prolog-slurmctld");
        let whole = format!("{}\nPrologFlags=Alloc\n", lines.join("\n"));
        assert_eq!(lacking(&whole, hooks, false), Ok(Vec::new()));
        let why = lacking("\nProlog=/site/prolog\n", hooks, false).unwrap_err();
        assert!(why.starts_with("2: Prolog=/site/prolog stands in the way of "), "{why}");
    }

    #[test]
    fn a_plugin_says_which_slurm_it_is_for() {
        assert_eq!(is_for(b"\x7fELF..snin-spank is for Slurm 1443080\n.."), Some(1_443_080));
        assert_eq!(is_for(b"\x7fELF"), None);
        assert_eq!(slurm_version("slurm-wlm 22.05.8\n"), Some(1_443_080));
        assert_eq!(slurm_version("slurm 24.11.0-0rc1\n"), Some(0x180b00));
        assert_eq!(slurm_version("slurm\n"), None);
        assert_eq!(spelt(1_443_080), "22.05.8");
    }
}

//! OpenSM's configuration file (`opensm.conf`), read as settings of this daemon.
//!
//! A line is an option and its value; `#` begins a comment, `(null)` is no value. Lines that say OpenSM's own
//! default decide nothing, since `opensm --create-config` writes them all: snin-sm keeps its default for those.
//! Every other line is a key of snin-sm, or a note says what there is instead.

mod options;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use snin_daemon::settings::{Loaded, SettingsError, parse, text_of};

use self::options::{AUTO, Form, OPTIONS, OpenSmOption, ROUTES, Verdict};
use super::settings::Settings;

/// What a line of the file came to that is no key of snin-sm. Displayed as one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {option} {value}: {what}", file = .file.display())]
pub struct Note {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// The option, as the file has it.
    pub option: String,
    /// Its value.
    pub value: String,
    /// What snin-sm does, or what a user does instead.
    pub what: String,
}

/// What was read.
#[derive(Debug)]
pub struct Read {
    /// The settings.
    pub loaded: Loaded<Settings>,
    /// Keys of `sm.toml` and their values.
    pub keys: BTreeMap<&'static str, String>,
    /// What could not be taken over.
    pub notes: Vec<Note>,
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, and as [`read`].
pub fn load(file: &Path) -> Result<Read, SettingsError> {
    read(&text_of(file)?, file, Path::exists)
}

/// Reads the text of `file`. `is_there`: whether a file that it names exists; one that OpenSM would do without
/// is left out.
///
/// # Errors
/// A value that is none, by file and line.
pub fn read(
    text: &str,
    file: &Path,
    is_there: impl Fn(&Path) -> bool,
) -> Result<Read, SettingsError> {
    let name = file.display().to_string();
    let mut set: BTreeMap<&'static str, (usize, String)> = BTreeMap::new();
    let (mut notes, mut mentioned) = (Vec::new(), false);
    let count = text.lines().count();
    for (line, text) in (1..).zip(text.lines()) {
        let Some((option, value)) = split(text) else { continue };
        let mut note = |what: String| {
            let (option, value) = (option.to_owned(), value.to_owned());
            notes.push(Note { file: file.to_owned(), line, option, value, what });
        };
        let Some(known) = OPTIONS.iter().find(|known| known.name == option) else {
            note(format!("OpenSM has no such option{}", nearest(option)));
            continue;
        };
        let wrong = |what: String| SettingsError::Wrong {
            place: format!("{name}:{line}"),
            what: format!("{option}: {what}"),
        };
        let (read, default) = (known.form.read(value), known.form.read(known.default));
        let read = read.map_err(wrong)?;
        mentioned |= known.form.is_file();
        let is_here = known.form.is_file() && is_there(Path::new(value));
        // A file that OpenSM reads where it is there, it reads at its usual place too.
        if Ok(&read) == default.as_ref() && !is_here {
            continue;
        }
        match known.verdict {
            Verdict::Key(key) => match read {
                Some(_) if known.form.is_file() && !is_here => {
                    note("there is no such file, and OpenSM does without".to_owned());
                }
                Some(value) if known.form == Form::Engines && value == AUTO => {
                    note(ROUTES.to_owned());
                }
                Some(value) => {
                    set.insert(key, (line, value));
                }
                None => {
                    set.remove(key);
                }
            },
            Verdict::Set(key, value) => {
                set.insert(key, (line, value.to_owned()));
            }
            Verdict::Always(what) => note(format!("not to be chosen: {what}")),
            Verdict::Instead(what) | Verdict::No(what) => note(what.to_owned()),
        }
    }
    let usual = OPTIONS.iter().find(|known| known.form.is_file() && !mentioned);
    if let Some(OpenSmOption { default, verdict: Verdict::Key(key), form, .. }) = usual
        && is_there(Path::new(default))
        && let Ok(Some(value)) = form.read(default)
    {
        set.insert(*key, (count + 1, value));
    }
    // Each key at the line of its option, so that what is wrong with a value is told with that line.
    let mut lines = vec![String::new(); count + 1];
    for (key, (line, value)) in &set {
        lines[line - 1] = format!("{key} = {value}");
    }
    let loaded = parse(&lines.join("\n"), &name)?;
    let keys = set.into_iter().map(|(key, (_, value))| (key, value)).collect();
    Ok(Read { loaded, keys, notes })
}

/// The option of a line and its value.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (option, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let value = value.split(" #").next().unwrap_or_default().trim();
    let inside = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    Some((option, inside.unwrap_or(value)))
}

fn nearest(option: &str) -> String {
    let distance = |name: &&str| strsim::damerau_levenshtein(name, option);
    let best = OPTIONS.iter().map(|known| known.name).min_by_key(distance);
    let near = best.filter(|best| distance(best) <= 2 + option.len() / 6);
    near.map_or_else(String::new, |best| format!(": {best} is meant?"))
}

/// Every option of OpenSM's with what it comes to, as a table in Markdown: docs/from-opensm.md has it.
pub fn table() -> String {
    let mut table = "| option | OpenSM's default | in snin-sm | |\n|---|---|---|---|\n".to_owned();
    for option in OPTIONS {
        let (what, about) = match option.verdict {
            Verdict::Key(key) if key == option.name => ("the same key".to_owned(), ""),
            Verdict::Key(key) => (format!("`{key}`"), ""),
            Verdict::Set(key, value) => (format!("`{key} = {}`", value.replace('|', "\\|")), ""),
            Verdict::Always(what) => ("always".to_owned(), what),
            Verdict::Instead(what) => ("otherwise".to_owned(), what),
            Verdict::No(what) => ("no".to_owned(), what),
        };
        let default = if option.default == "(null)" { "" } else { option.default };
        // A mask of 256 bits.
        let default = if default.len() > 64 { "0" } else { default };
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{}` | {default} | {what} | {about} |", option.name);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::choices::RoutingEngine;
    use super::*;

    fn said(text: &str) -> Read {
        read(text, Path::new("opensm.conf"), |file| file == Path::new("/here")).unwrap()
    }

    fn wrong(text: &str) -> String {
        read(text, Path::new("opensm.conf"), |_| true).unwrap_err().to_string()
    }

    #[test]
    fn what_differs_from_opensms_defaults_is_a_key_of_ours() {
        let text = "# all defaults\nlmc 0\nsm_priority 0\nsubnet_timeout 18\nqos FALSE\n\n\
                    sm_priority 0xe\nlmc 4 # sixteen\nqos TRUE\npart_enforce in\nno_partition_enforcement TRUE\n\
                    subnet_prefix 0xfe80000000000001\nguid 0x2c9\npartition_config_file /here\n\
                    qos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7\nqos_vlarb_low 0:1,1:64\nqos_high_limit 255\n\
                    log_file \"/var/log/sm log\"\n";
        let Read { loaded, notes, keys } = said(text);
        assert_eq!((notes, keys.len()), (vec![], 11));
        let settings = loaded.value;
        assert_eq!((settings.sm_priority, settings.lmc, settings.qos), (14, Some(4), true));
        assert_eq!(settings.subnet_timeout, Settings::default().subnet_timeout);
        assert_eq!(settings.qos_sl2vl[7..9], [7, 0]);
        assert_eq!((settings.qos_vlarb_low, settings.qos_high_limit), (vec![[0, 1], [1, 64]], 255));
        assert_eq!(settings.partition_config_file, Some(PathBuf::from("/here")));
        assert_eq!(settings.log_file, "/var/log/sm log");
        assert_eq!(keys["part_enforce"], "\"off\"", "the later line counts");
    }

    #[test]
    fn what_is_not_taken_over_is_told_by_line() {
        let text = "routing_engine ftree\npartition_config_file /not/here\nconsole local\nperfmgr TRUE\n\
                    use_mfttop FALSE\nsm_prioritty 3\nvendor_option x\n";
        let notes: Vec<String> = said(text).notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), 7, "{notes:#?}");
        assert!(notes[0].starts_with("opensm.conf:1: routing_engine ftree: "), "{}", notes[0]);
        assert!(notes[1].contains("no such file"), "{}", notes[1]);
        assert!(
            notes[5].ends_with("OpenSM has no such option: sm_priority is meant?"),
            "{}",
            notes[5]
        );
        assert!(notes[6].ends_with("OpenSM has no such option"), "{}", notes[6]);
    }

    #[test]
    fn engines_become_those_that_do_the_same() {
        for (theirs, ours) in [
            ("updn", RoutingEngine::UpDown),
            ("dfsssp,minhop", RoutingEngine::Lanes),
            ("lash", RoutingEngine::Lanes),
            ("torus-2QoS,no_fallback", RoutingEngine::Dor),
        ] {
            let read = said(&format!("routing_engine {theirs}\nroot_guid_file /etc/roots\n"));
            assert_eq!((read.loaded.value.routing, read.notes.len()), (ours, 0), "{theirs}");
            assert_eq!(read.loaded.value.root_guid_file, Some(PathBuf::from("/etc/roots")));
        }
        let read = said("routing_engine file\nlfts_file /etc/lfts\n");
        assert_eq!(read.loaded.value.routing, RoutingEngine::File);
        let read = said("routing_engine minhop\n");
        assert_eq!(read.loaded.value.routing, RoutingEngine::Auto);
        assert!(read.notes[0].to_string().contains("routes follow the cables"));
        assert!(wrong("routing_engine fastest\n").contains("`fastest` is no engine of OpenSM's"));
    }

    /// As OpenSM does, whether the file says so or not.
    #[test]
    fn partitions_at_the_usual_place_are_read_where_they_are_there() {
        let usual = "/etc/opensm/partitions.conf";
        let keys = |text: &str, there: bool| {
            let read =
                read(text, Path::new("opensm.conf"), |file| there && file == Path::new(usual));
            read.unwrap().loaded.value.partition_config_file
        };
        for text in ["", "lmc 1\n", &format!("partition_config_file {usual}\n")] {
            assert_eq!(keys(text, true), Some(PathBuf::from(usual)), "{text}");
            assert_eq!(keys(text, false), None, "{text}");
        }
    }

    #[test]
    fn wrong_values_are_told_by_line() {
        assert!(wrong("lmc 1\nlmc x").starts_with("opensm.conf:2: lmc: "), "{}", wrong("lmc x"));
        assert!(wrong("lmc 300").starts_with("opensm.conf:1: lmc: "));
        assert!(wrong("qos maybe").ends_with("`maybe` is neither TRUE nor FALSE"));
        assert!(wrong("qos_vlarb_low 1,2").contains("`1` is no LANE:WEIGHT"));
        assert!(wrong("\npart_enforce sideways").starts_with("opensm.conf:2: part_enforce: "));
        assert!(wrong("guid 0xg").ends_with("`0xg` is no number"));
    }
}

//! What survives a restart: addresses in `guid2lid`, the file that OpenSM keeps too, and everything else in
//! `trees`.
//!
//! `trees` begins with the LMC; then comes a line a routing tree: the root's GUID, which of the parallel links
//! of the root it uses, and its place among the addresses of every port.
//!
//! ```text
//! lmc 4
//! 0x0002c90300a1b2c3 0 0
//! 0x0002c90300a1b2c3 1 1
//! ```
//!
//! Which subnets the numbers come from, and what things of merged ones were there, is in `subnets`
//! ([`Lineage`]).
//!
//! Where M_Keys are generated, what they follow from is in `m_keys`, which only the owner may read:
//!
//! ```text
//! secret 00..ff
//! generation 0
//! ```
//!
//! Below come the same two lines for each subnet that was joined to this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use snin_daemon::store;
use snin_fabric::dump::guid2lid;
use snin_fabric::{Guid, Lmc};

use super::failure::Failure;
use snin_sm_database::keys::KeySecret;
use snin_sm_database::merge::Lineage;
use snin_sm_database::saved::Saved;
use tracing::warn;

/// Routing trees at most: a root and a plane each.
const TREES: usize = 65_536;

/// What is in each file, for who loses it.
const ADDRESSES: &str = "the addresses of all ports, which get others";
const TREES_HELD: &str = "along which tree each address leads, so that pinned connections may move";
const SUBNETS: &str = "where numbers come from, which counts where subnets were joined";
const KEYS: &str =
    "the M_Keys of all ports: those that hold one are out of reach until their nodes are reset";

/// A folder with the files, or none at all.
#[derive(Debug)]
pub struct Memory {
    folder: Option<PathBuf>,
}

impl Memory {
    /// Reads what is there; files that are not there are as good as empty.
    ///
    /// # Errors
    /// When a file cannot be read, or a line of it is wrong.
    pub fn open(folder: Option<&Path>) -> Result<(Self, Saved), Failure> {
        let memory = Self { folder: folder.map(Path::to_owned) };
        let mut saved = Saved::default();
        let Some(folder) = folder else { return Ok((memory, saved)) };
        let (guid2lid, trees) = (folder.join("guid2lid"), folder.join("trees"));
        let wrong = |path: &Path, holds: &'static str| {
            let path = path.to_owned();
            move |what: String| Failure::State { path, what, holds }
        };
        if let Some(text) = read(&guid2lid)? {
            let usable = guid2lid::usable(&text).map_err(|error| error.to_string());
            let (lids, left_out) = usable.map_err(wrong(&guid2lid, ADDRESSES))?;
            for error in left_out {
                warn!("{}:{error}: the line is left out", guid2lid.display());
            }
            saved.lids = lids;
        }
        if let Some(text) = read(&trees)? {
            (saved.lmc, saved.trees) = parse_trees(&text).map_err(wrong(&trees, TREES_HELD))?;
        }
        let subnets = folder.join("subnets");
        if let Some(text) = read(&subnets)? {
            let lineage = Lineage::read(&String::from_utf8_lossy(&text));
            let what = |(number, line)| format!("{number}: not understood: `{line:.60}`");
            saved.lineage = lineage.map_err(what).map_err(wrong(&subnets, SUBNETS))?;
        }
        // Each is written with the others, so that one of them does not go by itself. A fabric that is no Clos
        // has no trees, but an LMC.
        let has_none = saved.trees.is_empty() && saved.lmc.is_none();
        let missing = match (saved.lids.is_empty(), has_none) {
            (true, false) => Some((&guid2lid, ADDRESSES)),
            (false, true) if subnets.exists() => Some((&trees, TREES_HELD)),
            _ => None,
        };
        if let Some((path, holds)) = missing {
            warn!("{}: missing or empty, and was not; lost with it: {holds}", path.display());
        }
        let keys = folder.join("m_keys");
        if let Some(text) = read(&keys)? {
            let mut all = parse_keys(&text).map_err(wrong(&keys, KEYS))?.into_iter();
            saved.keys = all.next().filter(|own| *own != NONE);
            saved.former_keys = all.collect();
        }
        Ok((memory, saved))
    }

    /// Makes up what M_Keys follow from, and stores it, unless it is there.
    ///
    /// # Errors
    /// When the system has no random bytes, or the file cannot be written.
    pub fn make_secret(&self, saved: &mut Saved) -> Result<(), Failure> {
        let Some(folder) = self.folder.as_ref().filter(|_| saved.keys.is_none()) else {
            return Ok(());
        };
        if !saved.trees.is_empty() {
            let path = folder.join("m_keys");
            warn!(
                "{}: not there, so keys are made anew; lost with it, if it was: {KEYS}",
                path.display()
            );
        }
        let source = Path::new("/dev/urandom");
        let mut secret = [0; 32];
        let mut file = fs::File::open(source).map_err(Failure::file(source))?;
        file.read_exact(&mut secret).map_err(Failure::file(source))?;
        let made = Saved { keys: Some(KeySecret { secret, generation: 0 }), ..saved.clone() };
        fs::create_dir_all(folder).map_err(Failure::file(folder))?;
        Self::save_keys(folder, &made)?;
        *saved = made;
        Ok(())
    }

    fn save_keys(folder: &Path, saved: &Saved) -> Result<(), Failure> {
        if saved.keys.is_none() && saved.former_keys.is_empty() {
            return Ok(());
        }
        let own = saved.keys.as_ref().unwrap_or(&NONE);
        let all = [own].into_iter().chain(&saved.former_keys);
        let text: String = all.map(keys_text).collect();
        write_secret(&folder.join("m_keys"), text.as_bytes())
    }

    /// Writes the files anew, where they differ.
    ///
    /// # Errors
    /// When a file cannot be written; each is then as it was before, or new.
    pub fn save(&self, saved: &Saved) -> Result<(), Failure> {
        let Some(folder) = &self.folder else { return Ok(()) };
        // First of all: with them alone a merge that was not stored whole comes out again as it was.
        store::replace(&folder.join("subnets"), saved.lineage.write().as_bytes())?;
        let lids = guid2lid::write_entries(&saved.lids);
        store::replace(&folder.join("guid2lid"), lids.as_bytes())?;
        store::replace(&folder.join("trees"), trees_text(saved).as_bytes())?;
        Self::save_keys(folder, saved)
    }
}

/// Where a manager has no secret of its own, but knows others'.
const NONE: KeySecret = KeySecret { secret: [0; 32], generation: 0 };

fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::file(path)(error)),
    }
}

/// Replaces a file that only the owner may read, even while it is written.
fn write_secret(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    let beside = path.with_extension("new");
    // A file that an earlier run left may have another mode.
    let _ = fs::remove_file(&beside);
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&beside);
    let written = file.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&beside, path));
    // No half of it stays.
    written.inspect_err(|_| drop(fs::remove_file(&beside))).map_err(Failure::file(path))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(Failure::file(folder))
}

fn keys_text(keys: &KeySecret) -> String {
    let mut text = String::from("secret ");
    for byte in keys.secret {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    let _ = writeln!(text, "\ngeneration {}", keys.generation);
    text
}

/// The own keys first.
fn parse_keys(text: &[u8]) -> Result<Vec<KeySecret>, String> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.is_empty() {
        return Err(" it is empty".to_owned());
    }
    let all = (1..).step_by(2).zip(words.chunks(4));
    all.map(|(line, words)| {
        parse_secret(words).map_err(|(at, what)| format!("{}: {what}", line + at))
    })
    .collect()
}

/// Two lines of the file; what is wrong, and in which of them.
fn parse_secret(words: &[&str]) -> Result<KeySecret, (usize, &'static str)> {
    let &["secret", digits, "generation", generation] = words else {
        return Err((0, "not understood (expected secret HEX generation NUMBER)"));
    };
    let byte = |n: usize| u8::from_str_radix(digits.get(2 * n..2 * n + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    let secret = bytes.filter(|_| digits.len() == 64).and_then(|bytes| bytes.try_into().ok());
    let secret = secret.ok_or((0, "the secret is 64 hex digits"))?;
    let generation = generation.parse().map_err(|_| (1, "the generation is a number"))?;
    Ok(KeySecret { secret, generation })
}

fn trees_text(saved: &Saved) -> String {
    let mut text = String::new();
    if let Some(lmc) = saved.lmc {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "lmc {lmc}");
    }
    for ((root, plane), place) in &saved.trees {
        let _ = writeln!(text, "{root} {plane} {place}");
    }
    text
}

type Trees = BTreeMap<(Guid, u16), u16>;

fn parse_trees(text: &[u8]) -> Result<(Option<Lmc>, Trees), String> {
    let (mut lmc, mut trees, mut places) = (None, Trees::new(), BTreeSet::new());
    for (number, line) in String::from_utf8_lossy(text).lines().enumerate() {
        let wrong = |what: String| Err(format!("{}: {what}", number + 1));
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [] => {}
            ["lmc", value] => match value.parse().ok().and_then(Lmc::new) {
                Some(value) => lmc = Some(value),
                None => return wrong(format!("`{value:.40}` is no LMC (expected 0 to 7)")),
            },
            [root, plane, place] if trees.len() < TREES => {
                let root: Guid = match root.parse() {
                    Ok(root) => root,
                    Err(error) => return wrong(error.to_string()),
                };
                let (Ok(plane), Ok(place)) = (plane.parse(), place.parse::<u16>()) else {
                    return wrong(format!("`{line:.60}`: plane and place are numbers"));
                };
                if !places.insert(place) || trees.insert((root, plane), place).is_some() {
                    return wrong(format!("`{line:.60}`: this tree, or its place, is there twice"));
                }
            }
            _ => return wrong(format!("not understood: `{line:.60}` (expected ROOT PLANE PLACE)")),
        }
    }
    Ok((lmc, trees))
}

#[cfg(test)]
mod tests {
    use snin_fabric::Lid;

    use super::*;

    const FOUR: Lmc = Lmc::new(2).unwrap();

    fn saved() -> Saved {
        Saved {
            lmc: Some(FOUR),
            lids: [(Guid(0x77), (Lid(8), FOUR)), (Guid(0x78), (Lid(1), Lmc::ZERO))].into(),
            trees: [((Guid(0x200), 0), 1), ((Guid(0x200), 1), 0)].into(),
            keys: Some(KeySecret { secret: [0xA5; 32], generation: 7 }),
            former_keys: vec![KeySecret { secret: [0x5A; 32], generation: 1 }],
            lineage: Lineage { master: Some(Guid(0x77)), untaken: true, ..Lineage::default() },
        }
    }

    #[test]
    fn what_is_saved_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let (memory, empty) = Memory::open(Some(&folder)).unwrap();
        assert_eq!(empty, Saved::default());
        memory.save(&saved()).unwrap();
        let text = fs::read_to_string(folder.join("guid2lid")).unwrap();
        assert_eq!(
            text,
            "0x0000000000000077 0x0008 0x000b\n\n0x0000000000000078 0x0001 0x0001\n\n"
        );
        assert_eq!(Memory::open(Some(&folder)).unwrap().1, saved());
        assert!(Memory::open(None).unwrap().1 == Saved::default());
        // Keys of a subnet that was joined, beside an operator's own.
        let given = Saved { keys: None, ..saved() };
        memory.save(&given).unwrap();
        assert_eq!(Memory::open(Some(&folder)).unwrap().1, given);
    }

    #[test]
    fn a_secret_is_made_once_and_nobody_else_reads_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (memory, mut saved) = Memory::open(Some(folder.path())).unwrap();
        memory.make_secret(&mut saved).unwrap();
        let file = folder.path().join("m_keys");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let first = saved.keys.clone().unwrap();
        assert!(first.secret != [0; 32] && first.generation == 0);
        memory.make_secret(&mut saved).unwrap();
        assert_eq!(saved.keys, Some(first));
        assert_eq!(Memory::open(Some(folder.path())).unwrap().1, saved);
        let mut nothing = Saved::default();
        Memory::open(None).unwrap().0.make_secret(&mut nothing).unwrap();
        assert_eq!(nothing.keys, None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let told = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            let error = Memory::open(Some(folder.path())).unwrap_err().to_string();
            let (error, cure) = error.split_once("; lost with it: ").unwrap();
            let path = folder.path().join(name).display().to_string();
            assert!(cure.ends_with(&format!("; `mv {path} {path}.bad` puts it aside")), "{cure}");
            error.strip_prefix(&format!("{}/", folder.path().display())).unwrap().to_owned()
        };
        for (text, expected) in [
            ("lmc 8", "trees:1: `8` is no LMC (expected 0 to 7)"),
            ("lmc 2\n1 0", "trees:2: not understood: `1 0` (expected ROOT PLANE PLACE)"),
            ("x 0 0", "trees:1: `x` is no GUID (expected 0x and up to 16 hex digits)"),
            ("1 0 0\n2 0 0", "trees:2: `2 0 0`: this tree, or its place, is there twice"),
            ("1 0 65536", "trees:1: `1 0 65536`: plane and place are numbers"),
        ] {
            assert_eq!(told("trees", text), expected);
        }
        let wrong = "m_keys:1: not understood (expected secret HEX generation NUMBER)";
        fs::write(folder.path().join("trees"), "").unwrap();
        assert_eq!(told("m_keys", "secret 00"), wrong);
        assert_eq!(told("m_keys", ""), "m_keys: it is empty");
        assert_eq!(
            told("m_keys", "secret 00 generation 1"),
            "m_keys:1: the secret is 64 hex digits"
        );
        fs::remove_file(folder.path().join("m_keys")).unwrap();
        assert_eq!(
            told("guid2lid", "0x77 0x8 0xb\n\0\n"),
            "guid2lid:2: this is no guid2lid text (binary data)"
        );
        // One wrong line is left out, and the others are used.
        let text = "0x77 0x8 0xb\n\n0x78 0xa 0xa\n0x79 0x1 0x1\n";
        fs::write(folder.path().join("guid2lid"), text).unwrap();
        let (_, saved) = Memory::open(Some(folder.path())).unwrap();
        assert_eq!(
            saved.lids,
            [(Guid(0x77), (Lid(8), FOUR)), (Guid(0x79), (Lid(1), Lmc::ZERO))].into()
        );
    }
}

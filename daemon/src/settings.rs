//! Settings: one table a daemon gives the structure, its defaults, the documented file, and errors that name
//! file, line and key.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use snin_daemon::settings::{Settings, parse, template_with};
//!
//! snin_daemon::settings! {
//!     /// The keys of an example.
//!     pub struct Example {
//!         /// Seconds between sweeps. 0: never.
//!         sweep_interval: u32 = 10,
//!         /// Where the log goes.
//!         log_file: Option<String> = None,
//!     }
//! }
//!
//! assert_eq!(parse::<Example>("", "sm.toml")?.value, Example::default());
//! let error = parse::<Example>("# one line\nsweep_intervall = 3\n", "sm.toml").unwrap_err();
//! assert_eq!(error.to_string(), "sm.toml:2: there is no key sweep_intervall: sweep_interval is meant?");
//! let file = template_with::<Example>(&BTreeMap::from([("sweep_interval", "3".to_owned())]));
//! assert!(file.contains("# Seconds between sweeps. 0: never.\n#sweep_interval = 10\nsweep_interval = 3\n"));
//! # Ok::<(), snin_daemon::settings::SettingsError>(())
//! ```

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::text::{self, NotUtf8, TextError};

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it means: lines of text.
    pub doc: &'static [&'static str],
}

/// A structure made by [`settings!`](crate::settings!).
pub trait Settings: DeserializeOwned + Serialize + Default {
    /// Every key, in the order in which they are documented.
    const KEYS: &'static [Key];
}

/// Makes a structure of settings: documented keys with types and defaults.
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $about:literal])*
        $visible:vis struct $name:ident {
            $( $(#[doc = $doc:literal])* $key:ident : $type:ty = $default:expr ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
        #[serde(default)]
        $visible struct $name {
            $( $(#[doc = $doc])* pub $key: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )* }
            }
        }

        impl $crate::settings::Settings for $name {
            const KEYS: &'static [$crate::settings::Key] = &[
                $( $crate::settings::Key { name: stringify!($key), doc: &[$($doc),*] }, )*
            ];
        }
    };
}

/// What is wrong with a file of settings. One line.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is in another encoding.
    #[error("{}:{error}", path.display())]
    NotUtf8 {
        /// Which.
        path: PathBuf,
        /// Where.
        error: NotUtf8,
    },
    /// It is not there.
    #[error("{}: there is no such file: --dump-config prints one to begin with", path.display())]
    Missing {
        /// Which.
        path: PathBuf,
    },
    /// A key that is none.
    #[error("{place}: there is no key {key}: {nearest}")]
    Unknown {
        /// File and line.
        place: String,
        /// The key.
        key: String,
        /// The one that may be meant, or where all of them are.
        nearest: String,
    },
    /// A value that is none, or no TOML at all.
    #[error("{place}: {what}")]
    Wrong {
        /// File and line.
        place: String,
        /// The error, in words.
        what: String,
    },
}

/// Settings, and where each was set.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The settings.
    pub value: T,
    name: String,
    lines: BTreeMap<String, usize>,
}

impl<T> Loaded<T> {
    /// The defaults, with nothing set.
    pub fn defaults() -> Self
    where
        T: Default,
    {
        Self { value: T::default(), name: "default".to_owned(), lines: BTreeMap::new() }
    }

    /// Where a key was set, as errors say it: `FILE:LINE`.
    pub fn place(&self, key: &str) -> String {
        match self.lines.get(key) {
            Some(line) => format!("{}:{line}", self.name),
            None => self.name.clone(),
        }
    }

    /// A value that its daemon refuses, for a reason that only it knows.
    pub fn refuse(&self, key: &str, what: impl std::fmt::Display) -> SettingsError {
        SettingsError::Wrong { place: self.place(key), what: what.to_string() }
    }
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, and as [`parse`].
pub fn load<T: Settings>(path: &Path) -> Result<Loaded<T>, SettingsError> {
    parse(&text_of(path)?, &path.display().to_string())
}

/// The text of a file of settings, in this form or another.
///
/// # Errors
/// When it cannot be read.
pub fn text_of(path: &Path) -> Result<String, SettingsError> {
    let path = path.to_owned();
    text::read(&path).map_err(|error| match error {
        TextError::File(error) if error.kind() == io::ErrorKind::NotFound => {
            SettingsError::Missing { path: path.clone() }
        }
        TextError::File(error) => SettingsError::File { path: path.clone(), error },
        TextError::NotUtf8(error) => SettingsError::NotUtf8 { path: path.clone(), error },
    })
}

/// Reads a file; `below`: keys with values, as TOML has them, that count where the file does not set them.
///
/// # Errors
/// As [`load`].
pub fn load_over<T: Settings>(
    path: &Path,
    below: &BTreeMap<&str, String>,
) -> Result<Loaded<T>, SettingsError> {
    let (mut text, name) = (text_of(path)?, path.display().to_string());
    let own: Loaded<T> = parse(&text, &name)?;
    for (key, value) in below.iter().filter(|(key, _)| !own.lines.contains_key(**key)) {
        text += &format!("\n{key} = {value}");
    }
    parse(&text, &name)
}

/// Reads the text of the file called `name`.
///
/// # Errors
/// What is wrong with it, by line: a key that is none, a value of another type, no TOML.
pub fn parse<T: Settings>(text: &str, name: &str) -> Result<Loaded<T>, SettingsError> {
    let line = |span: Range<usize>| line_of(text, span.start);
    let place = |span: Range<usize>| format!("{name}:{}", line(span));
    let wrong = |error: &toml::de::Error, prefix: String| SettingsError::Wrong {
        place: error.span().map_or_else(|| name.to_owned(), place),
        what: prefix + error.message().lines().next().unwrap_or_default(),
    };
    let table = DeTable::parse(text).map_err(|error| wrong(&error, String::new()))?;
    let mut lines = BTreeMap::new();
    for (key, _) in table.get_ref() {
        let key_name: &str = key.get_ref();
        if !T::KEYS.iter().any(|known| known.name == key_name) {
            return Err(SettingsError::Unknown {
                place: place(key.span()),
                key: key_name.to_owned(),
                nearest: nearest::<T>(key_name),
            });
        }
        lines.insert(key_name.to_owned(), line(key.span()));
    }
    let owner = |error: &toml::de::Error| {
        let at = error.span()?.start;
        let inside = |value: &toml::Spanned<DeValue<'_>>| value.span().contains(&at);
        let (key, _) = table.get_ref().iter().find(|(_, value)| inside(value))?;
        Some(format!("{}: ", key.get_ref()))
    };
    let value =
        toml::from_str(text).map_err(|error| wrong(&error, owner(&error).unwrap_or_default()))?;
    Ok(Loaded { value, name: name.to_owned(), lines })
}

/// The first line is 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

fn nearest<T: Settings>(key: &str) -> String {
    let distance = |known: &&Key| strsim::damerau_levenshtein(known.name, key);
    let best = T::KEYS.iter().min_by_key(distance);
    let near = best.filter(|best| distance(best) <= 2 + key.len() / 4);
    // A name that has got longer since, or was cut short.
    let goes_on =
        |known: &Key| known.name.strip_prefix(key).is_some_and(|rest| rest.starts_with('_'));
    let longer = T::KEYS.iter().find(|known| goes_on(known));
    match longer.or(near) {
        Some(best) => format!("{} is meant?", best.name),
        None => "none is like it; --dump-config prints all keys".to_owned(),
    }
}

/// A file with every key: what it means, and its default behind a comment sign.
pub fn template<T: Settings>() -> String {
    template_with::<T>(&BTreeMap::new())
}

/// The same with keys that have a value, as TOML has it.
pub fn template_with<T: Settings>(set: &BTreeMap<&str, String>) -> String {
    let defaults = toml::Value::try_from(T::default());
    let defaults = defaults.unwrap_or_else(|_| toml::Table::new().into());
    let mut text = String::new();
    for key in T::KEYS {
        for line in key.doc {
            text += &format!("#{}\n", line.trim_end());
        }
        match defaults.get(key.name) {
            Some(value) => text += &format!("#{} = {value}\n", key.name),
            None => text += &format!("#{} =\n", key.name),
        }
        if let Some(value) = set.get(key.name) {
            text += &format!("{} = {value}\n", key.name);
        }
        text.push('\n');
    }
    text
}

/// What `--check-config` prints where nothing is wrong: a line for each file that was read.
pub fn usable<'a>(files: impl IntoIterator<Item = &'a Path>) -> String {
    let line = |file: &Path| format!("{}: can be used\n", file.display());
    files.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::settings! {
        /// Some keys.
        pub(crate) struct Some_ {
            /// A number.
            /// Really.
            lmc: Option<u8> = None,
            /// A list.
            partitions: Vec<u16> = vec![1, 2],
            /// A name.
            log_file: String = "stderr".to_owned(),
        }
    }

    fn error(text: &str) -> String {
        parse::<Some_>(text, "sm.toml").unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_line_the_key_and_the_key_that_is_meant() {
        assert_eq!(error("lmc = 4\nlcm = 4"), "sm.toml:2: there is no key lcm: lmc is meant?");
        assert_eq!(
            error("\n\nbogus = 1"),
            "sm.toml:3: there is no key bogus: none is like it; --dump-config prints all keys"
        );
        assert_eq!(error("lmc = \"x\""), "sm.toml:1: lmc: invalid type: string \"x\", expected u8");
        assert_eq!(
            error("# why\nlmc = 300"),
            "sm.toml:2: lmc: invalid value: integer `300`, expected u8"
        );
        assert_eq!(error("log = 1"), "sm.toml:1: there is no key log: log_file is meant?");
        assert!(error("lmc = 1\nlmc = 2").starts_with("sm.toml:2: duplicate key"));
        assert!(error("lmc 1").starts_with("sm.toml:1: "));
        assert!(!error("lmc = [\n1").contains('\n'));
        let why = |path| load::<Some_>(Path::new(path)).unwrap_err().to_string();
        assert_eq!(
            why("/no/such/file"),
            "/no/such/file: there is no such file: --dump-config prints one to begin with"
        );
        assert_eq!(why("/"), "/: Is a directory (os error 21)");
    }

    #[test]
    fn a_refused_value_is_where_it_was_set() {
        let loaded = parse::<Some_>("\nlmc = 9", "sm.toml").unwrap();
        assert_eq!(loaded.value.lmc, Some(9));
        assert_eq!(loaded.refuse("lmc", "0 to 7").to_string(), "sm.toml:2: 0 to 7");
        assert_eq!(loaded.place("log_file"), "sm.toml");
    }

    #[test]
    fn the_template_without_comment_signs_is_the_default() {
        let text = template::<Some_>();
        let set = |line: &&str| line.starts_with('#') && line.contains(" = ");
        let lines: Vec<&str> = text.lines().filter(set).map(|line| &line[1..]).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(parse::<Some_>(&lines.join("\n"), "").unwrap().value, Some_::default());
        assert!(text.starts_with("# A number.\n# Really.\n#lmc =\n"), "{text}");
        let set = template_with::<Some_>(&BTreeMap::from([("lmc", "4".to_owned())]));
        assert_eq!(
            parse::<Some_>(&set, "").unwrap().value,
            Some_ { lmc: Some(4), ..Some_::default() }
        );
    }
}

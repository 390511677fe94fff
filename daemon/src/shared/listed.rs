//! A file that an operator writes, where a site has no cluster: keys and values as TOML, tables for folders.
//!
//! ```toml
//! configuration-manager = "0x0002c90300a1b2c3"
//!
//! [blacklist]
//! "0x0002c90300a1b2c4" = "its disk is failing"
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};

use super::{Changed, Cluster, Conflict, Shared, SharedError, Versioned, check};

/// A file that is longer is none.
const LONGEST: u64 = 1 << 20;

/// See the module's documentation. It is read anew every time; a daemon changes nothing in it.
pub struct Listed {
    path: PathBuf,
    /// What this process attached: no other one sees that.
    attached: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Listed {
    /// Of this file, which has to be there when it is asked.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), attached: Mutex::default() }
    }

    fn all(&self) -> Result<BTreeMap<String, Vec<u8>>, SharedError> {
        let failed = |what: String| SharedError::File { path: self.path.clone(), what };
        let length = fs::metadata(&self.path).map_err(|error| failed(error.to_string()))?.len();
        if length > LONGEST {
            return Err(failed(format!("longer than {LONGEST} bytes")));
        }
        let text = fs::read_to_string(&self.path).map_err(|error| failed(error.to_string()))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| {
            let before = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(before).filter(|&byte| byte == b'\n').count() + 1;
            failed(format!("{line}: {}", error.message().lines().next().unwrap_or_default()))
        })?;
        let mut all = self.attached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (key, value) in table {
            match value {
                toml::Value::Table(inner) => {
                    all.extend(
                        inner
                            .into_iter()
                            .map(|(name, value)| (format!("{key}/{name}"), text_of(value))),
                    );
                }
                value => drop(all.insert(key, text_of(value))),
            }
        }
        Ok(all)
    }
}

fn text_of(value: toml::Value) -> Vec<u8> {
    match value {
        toml::Value::String(text) => text.into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

impl Shared for Listed {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError> {
        Ok(self.all()?.remove(key).map(|value| Versioned { revision: 1, value }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError> {
        let all = self.all()?.into_iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(all.map(|(key, value)| (key, Versioned { revision: 1, value })).collect())
    }

    /// The operator alone changes it.
    fn compare_and_swap(
        &self,
        key: &str,
        _: Option<u64>,
        _: Option<&[u8]>,
    ) -> Result<Result<u64, Conflict>, SharedError> {
        Ok(Err(Conflict(self.get(key)?)))
    }

    /// It tells nothing: who wants to know reads it.
    fn watch(&self, _: &str) -> Receiver<Changed> {
        channel().1
    }

    fn lease(&self, _: &str) -> Result<bool, SharedError> {
        Ok(true)
    }
}

impl Cluster for Listed {
    fn attach(&self, key: &str, value: &[u8]) -> Result<(), SharedError> {
        check(key, Some(value))?;
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        attached.insert(key.to_owned(), value.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_folders_and_an_error_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.toml");
        let listed = Listed::new(&path);
        assert!(listed.list("").unwrap_err().to_string().contains("cluster.toml: No such file"));
        fs::write(&path, "expected = 3\n[blacklist]\n0x1 = \"old\"\n").unwrap();
        listed.attach("managers/0x2", b"state=master").unwrap();
        let read = |prefix: &str| {
            let all = listed.list(prefix).unwrap().into_iter();
            all.map(|(key, found)| (key, String::from_utf8(found.value).unwrap()))
                .collect::<Vec<_>>()
        };
        let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            read(""),
            [
                entry("blacklist/0x1", "old"),
                entry("expected", "3"),
                entry("managers/0x2", "state=master")
            ]
        );
        assert_eq!(read("blacklist/").len(), 1);
        let refused = listed.compare_and_swap("expected", Some(1), Some(b"4")).unwrap();
        assert_eq!(refused, Err(Conflict(Some(Versioned { revision: 1, value: b"3".to_vec() }))));
        fs::write(&path, "a = 1\nb =\n").unwrap();
        assert!(listed.list("").unwrap_err().to_string().contains("cluster.toml: 2: "));
    }
}

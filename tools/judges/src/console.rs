//! ibsim's console: cables cut and joined, nodes that lose packets, clients that left without a word, and
//! what ibsim was asked.
//!
//! Nodes go by their identifiers in the netlist, `S-` or `H-` and the GUID as a rule.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::process::ChildStdin;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{JudgeError, Simulator};

/// How long ibsim may take with a line; it does one thing after the other.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often its words are looked for.
const LOOK: Duration = Duration::from_micros(500);

/// ibsim's console: lines in by a pipe, what it says by a file.
pub(crate) struct Console {
    input: ChildStdin,
    output: PathBuf,
    log: PathBuf,
    /// How far its words were read.
    read: u64,
    lines: u32,
}

impl Console {
    pub(crate) const fn new(input: ChildStdin, output: PathBuf, log: PathBuf) -> Self {
        Self { input, output, log, read: 0, lines: 0 }
    }

    /// Types a line and waits until it was done: what ibsim said.
    fn send(&mut self, line: &str) -> Result<String, JudgeError> {
        self.lines += 1;
        let done = format!("# line {} done", self.lines);
        let typed = format!("{line}\n{done}\n");
        self.input.write_all(typed.as_bytes()).map_err(JudgeError::file(&self.output))?;
        let start = Instant::now();
        let mut said = Vec::new();
        loop {
            read_from(&self.output, self.read + said.len() as u64, &mut said)?;
            if let Some(end) = find(&said, done.as_bytes()) {
                // A prompt follows, now or soon; the next line skips it.
                self.read += (end + done.len()) as u64;
                said.truncate(end);
                return Ok(String::from_utf8_lossy(&said).replace("sim> ", ""));
            }
            if start.elapsed() > PATIENCE {
                let tail = String::from_utf8_lossy(&said).into_owned();
                return Err(JudgeError::TooLong {
                    program: line.to_owned(),
                    limit: PATIENCE,
                    tail,
                });
            }
            sleep(LOOK);
        }
    }
}

fn read_from(path: &PathBuf, at: u64, into: &mut Vec<u8>) -> Result<(), JudgeError> {
    let mut read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        file.read_to_end(into)
    };
    read().map(drop).map_err(JudgeError::file(path))
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A client that is attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// ibsim's number for it.
    pub slot: u32,
    /// The number it gave itself, a process id as a rule.
    pub id: u32,
    /// The node.
    pub node: String,
    /// Whether it is known as a subnet manager.
    pub manager: bool,
}

/// MADs that ibsim was asked, by method and attribute: 1 is Get, 2 Set; 0x11 NodeInfo, 0x15 PortInfo, 0x19
/// LinearForwardingTable.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Received(pub BTreeMap<(u8, u16), u64>);

impl Received {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Writes to forwarding tables.
    pub fn table_writes(&self) -> u64 {
        self.0.get(&(2, 0x19)).copied().unwrap_or(0)
    }

    /// All that wrote anything.
    pub fn writes(&self) -> u64 {
        self.0.iter().filter(|((method, _), _)| *method == 2).map(|(_, count)| count).sum()
    }
}

/// A node or one of its ports, as the console wants it.
struct At<'a>(&'a str, Option<u8>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(port) => write!(f, "\"{}\"[{port}]", self.0),
            None => write!(f, "\"{}\"", self.0),
        }
    }
}

impl Simulator {
    /// Types a line into ibsim's console; what it said.
    ///
    /// # Errors
    /// When it refuses the line or does not answer.
    pub fn console(&self, line: &str) -> Result<String, JudgeError> {
        let said = self.locked().send(line)?;
        let refused = |said: &&str| {
            let said = said.trim_start();
            said.starts_with("# ") || said.contains("unknown - skipped")
        };
        match said.lines().find(refused) {
            Some(said) => {
                Err(JudgeError::Refused { line: line.to_owned(), said: said.trim().to_owned() })
            }
            None => Ok(said),
        }
    }

    /// What it has to say of all nodes. Lines of it begin as those do by which it refuses.
    pub(crate) fn console_dump(&self) -> Result<String, JudgeError> {
        self.locked().send("Dump")
    }

    /// Pulls the cable out of a port, or every cable out of a node. Its ports keep what they were told.
    ///
    /// # Errors
    /// As [`Self::console`]; a port without a cable for one.
    pub fn unlink(&self, node: &str, port: Option<u8>) -> Result<(), JudgeError> {
        self.console(&format!("Unlink {}", At(node, port))).map(drop)
    }

    /// Puts cables back to where they were.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn relink(&self, node: &str, port: Option<u8>) -> Result<(), JudgeError> {
        self.console(&format!("ReLink {}", At(node, port))).map(drop)
    }

    /// Pulls the cables and resets the ports, as when a node loses power.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn clear(&self, node: &str, port: Option<u8>) -> Result<(), JudgeError> {
        self.console(&format!("Clear {}", At(node, port))).map(drop)
    }

    /// Has a node lose `percent` of what is asked of it.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn lose(&self, node: &str, percent: u8) -> Result<(), JudgeError> {
        self.console(&format!("Error {} {percent}", At(node, None))).map(drop)
    }

    /// The clients that are attached.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn clients(&self) -> Result<Vec<Client>, JudgeError> {
        let said = self.console("Attached")?;
        Ok(said.lines().filter_map(client).collect())
    }

    /// Frees the place of a client that left without a word, and the IsSM of its port.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn free(&self, client: &Client) -> Result<(), JudgeError> {
        self.console(&format!("X {}", client.slot)).map(drop)
    }

    /// Does something, and counts what ibsim was asked meanwhile, by its log. That makes it slow: a tenth of
    /// a millisecond a MAD.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn receive<T>(&self, during: impl FnOnce() -> T) -> Result<(Received, T), JudgeError> {
        self.locked().send("Verbose 3")?;
        let begin = self.locked().read;
        let done = during();
        self.locked().send("Verbose 0")?;
        let mut said = Vec::new();
        read_from(&self.locked().output.clone(), begin, &mut said)?;
        Ok((heard(&String::from_utf8_lossy(&said)), done))
    }

    /// As [`Self::receive`], but only how many there were, which costs less.
    ///
    /// # Errors
    /// As [`Self::console`].
    pub fn count<T>(&self, during: impl FnOnce() -> T) -> Result<(u64, T), JudgeError> {
        let log = self.locked().log.clone();
        let length = std::fs::metadata(&log).map_err(JudgeError::file(&log))?.len();
        self.locked().send("Verbose 1")?;
        let done = during();
        self.locked().send("Verbose 0")?;
        let mut said = Vec::new();
        read_from(&log, length, &mut said)?;
        let said = String::from_utf8_lossy(&said);
        Ok((said.lines().filter(|line| line.contains(": packet (attr ")).count() as u64, done))
    }
}

/// `Client 0: pid 4242 connected at "H-01" port 0x2c9, lid 7, qp 0 SM`.
fn client(line: &str) -> Option<Client> {
    let rest = line.strip_prefix("Client ")?;
    let (slot, rest) = rest.split_once(": pid ")?;
    let (id, rest) = rest.split_once(" connected at \"")?;
    let (node, rest) = rest.split_once('"')?;
    let manager = rest.trim_end().ends_with("SM");
    Some(Client { slot: slot.parse().ok()?, id: id.parse().ok()?, node: node.to_owned(), manager })
}

/// Packets are dumped as lines of eight words of four digits.
fn heard(said: &str) -> Received {
    let mut heard = Received::default();
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        if !line.ends_with("--- packet ---") {
            continue;
        }
        let mut words = || {
            let line = lines.next().unwrap_or_default();
            line.split(' ').map_while(|word| u16::from_str_radix(word, 16).ok()).collect::<Vec<_>>()
        };
        let (first, second) = (words(), words());
        // Traps are dumped with what is before their MAD: they are none of what ibsim is asked.
        if let ([0x0101 | 0x0181, method, ..], [attribute, ..]) = (&first[..], &second[..]) {
            *heard.0.entry((*method as u8, *attribute)).or_default() += 1;
        }
    }
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_read() {
        let line = "Client 2: pid 4242 connected at \"H-01\" port 0x2c9, lid 7, qp 0 SM";
        let expected = Client { slot: 2, id: 4242, node: "H-01".to_owned(), manager: true };
        assert_eq!(client(line), Some(expected));
        let dump = "sim> --- packet ---\n0181 0102 0000 0000\n0019 0000 0000 0005\nffff\n\
                    --- packet ---\n0700 0000 0300 0000\n0000 0000 0000 0000\n\
                    --- packet ---\n0101 0101 0000 0000\n0011 0000 0000 0000\n";
        let heard = heard(dump);
        assert_eq!(heard.0, BTreeMap::from([((1, 0x11), 1), ((2, 0x19), 1)]));
        assert_eq!((heard.total(), heard.table_writes(), heard.writes()), (2, 1, 1));
    }
}

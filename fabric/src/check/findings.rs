//! Failures: all counted, the first few kept.

use std::fmt;

/// Every finding is counted; the first `limit` are recorded.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Findings<T> {
    /// How many there are.
    pub total: u64,
    /// The first of them.
    pub first: Vec<T>,
    #[serde(skip)]
    limit: usize,
}

impl<T> Findings<T> {
    pub(super) const fn new(limit: usize) -> Self {
        Self { total: 0, first: Vec::new(), limit }
    }

    /// Counts one, and describes it only if it is to be recorded: names cost more than checks.
    pub(super) fn add(&mut self, describe: impl FnOnce() -> T) {
        if self.first.len() < self.limit {
            self.first.push(describe());
        }
        self.total += 1;
    }

    /// True when there are none.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }
}

/// One line each, then how many more there are; each line begins with a line break.
impl<T: fmt::Display> fmt::Display for Findings<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.first {
            write!(f, "\n  {finding}")?;
        }
        match self.total - self.first.len() as u64 {
            0 => Ok(()),
            more if self.first.is_empty() => write!(f, "\n  {more} in all"),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

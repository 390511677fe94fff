//! How busy the machine is: the share of its processors' time that was not idle.

use std::fs;

use super::error::VerbsLabError;

const FILE: &str = "/proc/stat";

/// What the system counted up to some moment, in ticks of all processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// Up to now.
    pub(super) fn now() -> Result<Self, VerbsLabError> {
        let text = fs::read_to_string(FILE).map_err(VerbsLabError::system(FILE))?;
        let nonsense = || VerbsLabError::Stopped(format!("{FILE} has no line `cpu`"));
        Self::parse(&text).ok_or_else(nonsense)
    }

    /// The first line has user, nice, system, idle, iowait, irq, softirq and steal (proc(5)); what follows is
    /// part of user and nice.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let numbers: Result<Vec<u64>, _> =
            line.split_whitespace().take(8).map(str::parse).collect();
        let numbers = numbers.ok().filter(|numbers| numbers.len() >= 5)?;
        Some(Self { idle: numbers[3] + numbers[4], all: numbers.iter().sum() })
    }

    /// The share that was not idle since then; 0 where no time has passed.
    pub(super) fn busy_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle).min(all);
        if all == 0 { 0.0 } else { (all - idle) as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting() {
        let parse = |text: &str| Ticks::parse(text).unwrap();
        let before = parse("cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1 1 1 1\n");
        let after = parse("cpu  20 0 15 120 5 5 5 0 7 7\n");
        assert_eq!(before, Ticks { idle: 100, all: 120 });
        assert!((after.busy_since(before) - 0.5).abs() < 1e-9);
        assert!(after.busy_since(after).abs() < 1e-9);
        assert!(["", "cpu", "cpu  1 2 3", "cpu  a b c d e f g h"].map(Ticks::parse) == [None; 4]);
    }
}

//! What fails and is tried again: with pauses that double, told once, and told once more when it works.

use std::fmt::Display;

use snin_protocol::Time;

/// The pause after a first failure; it doubles with each further one.
const FIRST_PAUSE: Time = Time::millis(500);
/// The longest pause.
const LONGEST_PAUSE: Time = Time::secs(60);

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Trouble {
    now: Option<Current>,
    /// It works again, after so many attempts that failed, and that was not told yet.
    over: Option<u64>,
    failures: u64,
}

/// Since something fails.
#[derive(Debug)]
struct Current {
    why: String,
    pause: Time,
    retry_at: Time,
    told: bool,
    attempts: u64,
}

/// What there is to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// It fails: why. It is tried again.
    Failed(String),
    /// It works again, after so many attempts that failed.
    Works(u64),
}

impl Trouble {
    /// An attempt has failed.
    pub fn failed(&mut self, why: impl Display, now: Time) {
        self.failures += 1;
        let current = self.now.get_or_insert_with(|| Current {
            why: String::new(),
            pause: Time::ZERO,
            retry_at: now,
            told: false,
            attempts: 0,
        });
        current.attempts += 1;
        current.why = why.to_string();
        // What fails before its time is up has no effect on it.
        if current.retry_at <= now {
            current.pause = (current.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            current.retry_at = now + current.pause;
        }
    }

    /// All of it works.
    pub fn works(&mut self) {
        if let Some(current) = self.now.take() {
            // A failure that ended before it was told, and this one, are told together.
            self.over = Some(self.over.take().unwrap_or(0) + current.attempts);
        }
    }

    /// When it is tried again, where it fails.
    pub fn next_retry(&self) -> Option<Time> {
        self.now.as_ref().map(|current| current.retry_at)
    }

    /// Whether it may be tried: nothing has failed, or the pause is over.
    pub fn is_due(&self, now: Time) -> bool {
        self.next_retry().is_none_or(|at| at <= now)
    }

    /// What there is to tell that was not told yet.
    pub fn news(&mut self) -> Option<News> {
        if let Some(attempts) = self.over.take() {
            return Some(News::Works(attempts));
        }
        let current = self.now.as_mut().filter(|current| !current.told)?;
        current.told = true;
        Some(News::Failed(current.why.clone()))
    }

    /// Why it fails, where it does.
    pub fn why(&self) -> Option<&str> {
        self.now.as_ref().map(|current| &*current.why)
    }

    /// How often it has failed.
    pub const fn failures(&self) -> u64 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_tried_ever_less_often_and_told_when_it_works() {
        let (mut trouble, mut now) = (Trouble::default(), Time::ZERO);
        assert!(trouble.is_due(now) && trouble.news().is_none());
        trouble.failed("no room", now);
        assert_eq!(trouble.news(), Some(News::Failed("no room".to_owned())));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let due = trouble.next_retry().unwrap();
            assert!(trouble.is_due(due) && !trouble.is_due(now));
            pauses.push((due - now).nanos() / 1_000_000);
            now = due;
            trouble.failed("no room yet", now);
            assert_eq!(trouble.news(), None);
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!((trouble.why(), trouble.failures()), (Some("no room yet"), 10));
        trouble.works();
        assert_eq!((trouble.news(), trouble.news()), (Some(News::Works(10)), None));
        assert_eq!((trouble.why(), trouble.next_retry()), (None, None));
    }
}

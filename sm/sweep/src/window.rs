//! How many SMPs may be in flight: more while answers come, half when one was lost.
//!
//! SMPs travel on VL 15, which has no flow control: what overruns a switch's agent is dropped. So the window
//! behaves like a TCP sender's: it doubles a round until the first loss, then grows by one a round.

use snin_protocol::Time;

/// Fewest SMPs in flight, however much is lost.
const LEAST: u32 = 4;

/// The window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    size: u32,
    most: u32,
    /// Below it every answer makes room for one more.
    doubling_below: u32,
    /// Answers since the window last grew.
    answers: u32,
    /// When the window was last halved: what was sent before is the same loss.
    halved: Option<Time>,
}

impl Window {
    /// Starts with `size` SMPs in flight, never more than `most`.
    pub(crate) fn new(size: u32, most: u32) -> Self {
        Self { size, most, doubling_below: most, answers: 0, halved: None }
    }

    /// SMPs that may be in flight now.
    pub(crate) const fn size(&self) -> usize {
        self.size as usize
    }

    /// An answer came.
    pub(crate) fn answered(&mut self) {
        self.answers += 1;
        if self.size < self.doubling_below || self.answers >= self.size {
            self.answers = 0;
            self.size = (self.size + 1).min(self.most);
        }
    }

    /// What was sent at `sent` was lost: it was answered only when it was sent again.
    pub(crate) fn lost(&mut self, sent: Time, now: Time) {
        if self.halved.is_some_and(|halved| sent <= halved) {
            return;
        }
        self.halved = Some(now);
        self.size = (self.size / 2).max(LEAST.min(self.most));
        self.doubling_below = self.size;
        self.answers = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_a_round_then_halves_then_grows_by_one_a_round() {
        let mut window = Window::new(32, 100);
        (0..32).for_each(|_| window.answered());
        assert_eq!(window.size(), 64);
        (0..64).for_each(|_| window.answered());
        assert_eq!(window.size(), 100);
        window.lost(Time(10), Time(20));
        assert_eq!(window.size(), 50);
        (0..50).for_each(|_| window.answered());
        assert_eq!(window.size(), 51);
    }

    #[test]
    fn the_losses_of_one_round_halve_it_once() {
        let mut window = Window::new(64, 64);
        (0..10).for_each(|_| window.lost(Time(10), Time(20)));
        assert_eq!(window.size(), 32);
        (21..90).for_each(|now| window.lost(Time(now), Time(now + 1)));
        assert_eq!(window.size(), 4, "never so small that nothing gets on");
        assert_eq!(Window::new(2, 2).size(), 2);
    }
}

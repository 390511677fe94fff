//! Kahn's algorithm, with ways out of circles.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::Wait;

/// What comes next.
pub(super) enum Next {
    Write(u32),
    Drop(u32),
}

/// The state of the sort.
pub(super) struct Sorting<'a> {
    waits: &'a [Wait],
    /// By unit: where its waits begin, as the one waited for.
    from: Vec<u32>,
    by_first: Vec<u32>,
    /// By unit: how many it waits for, always and for packets' sake.
    strict: Vec<u32>,
    gentle: Vec<u32>,
    done: Vec<bool>,
    dropped: Vec<bool>,
    ready: BinaryHeap<Reverse<u32>>,
    left: BTreeSet<u32>,
}

impl<'a> Sorting<'a> {
    pub(super) fn new(units: usize, waits: &'a [Wait]) -> Self {
        let mut by_first: Vec<u32> = (0..waits.len() as u32).collect();
        by_first.sort_by_key(|&w| waits[w as usize].first);
        let mut from = vec![0; units + 1];
        waits.iter().for_each(|wait| from[wait.first as usize + 1] += 1);
        (0..units).for_each(|n| from[n + 1] += from[n]);
        let (mut strict, mut gentle) = (vec![0; units], vec![0; units]);
        for wait in waits {
            let count = if wait.always { &mut strict } else { &mut gentle };
            count[wait.then as usize] += 1;
        }
        let free = |n: &&u32| strict[**n as usize] == 0 && gentle[**n as usize] == 0;
        let left: BTreeSet<u32> = (0..units as u32).collect();
        let ready = left.iter().filter(free).copied().map(Reverse).collect();
        let (done, dropped) = (vec![false; units], vec![false; units]);
        Self { waits, from, by_first, strict, gentle, done, dropped, ready, left }
    }

    pub(super) fn next(&mut self) -> Option<Next> {
        while let Some(Reverse(n)) = self.ready.pop() {
            if !std::mem::replace(&mut self.done[n as usize], true) {
                self.left.remove(&n);
                if !self.dropped[n as usize] {
                    self.release(n);
                }
                return Some(Next::Write(n));
            }
        }
        let strict = |n: &u32| self.strict[*n as usize];
        if let Some(&n) = self.left.iter().find(|n| strict(n) == 0) {
            self.ready.push(Reverse(n));
            return self.next();
        }
        let breaks = |n: &u32| !self.dropped[*n as usize] && self.holds_up(*n);
        let n = self.left.iter().copied().find(breaks).or_else(|| self.left.first().copied())?;
        if std::mem::replace(&mut self.dropped[n as usize], true) {
            // Nothing is left to break, which cannot be: go on all the same.
            self.strict[n as usize] = 0;
            return self.next();
        }
        self.release(n);
        Some(Next::Drop(n))
    }

    fn following(&self, n: u32) -> impl Iterator<Item = &Wait> {
        let range = self.from[n as usize] as usize..self.from[n as usize + 1] as usize;
        self.by_first[range].iter().map(|&w| &self.waits[w as usize])
    }

    /// Whether anything that is left must wait for it.
    fn holds_up(&self, n: u32) -> bool {
        self.following(n).any(|wait| wait.always && !self.done[wait.then as usize])
    }

    fn release(&mut self, n: u32) {
        let following: Vec<Wait> = self.following(n).copied().collect();
        for wait in following {
            let then = wait.then as usize;
            let count = if wait.always { &mut self.strict } else { &mut self.gentle };
            count[then] = count[then].saturating_sub(1);
            if self.strict[then] == 0 && self.gentle[then] == 0 {
                self.ready.push(Reverse(wait.then));
            }
        }
    }
}

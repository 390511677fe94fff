//! Cores that the caller lends: the packer itself starts no threads.

/// Runs jobs of the packer. What comes out does not depend on how many run at once.
pub trait Workers: Sync {
    /// How many jobs can run at the same time.
    fn count(&self) -> usize;

    /// Runs both jobs, at the same time if there are cores for it, and returns when both are done.
    fn join(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send));

    /// [Joins](Self::join) `one` and `other` as soon as `first` has run. Who is to run `other` can get ready
    /// meanwhile.
    fn join_after(
        &self,
        first: &mut (dyn FnMut() + Send),
        one: &mut (dyn FnMut() + Send),
        other: &mut (dyn FnMut() + Send),
    ) {
        first();
        self.join(one, other);
    }
}

/// One core: one job after the other.
#[derive(Clone, Copy, Default, Debug)]
pub struct Alone;

impl Workers for Alone {
    fn count(&self) -> usize {
        1
    }

    fn join(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
        one();
        other();
    }
}

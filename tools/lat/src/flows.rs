//! What both sides do with connected flows: post messages, take completions, notice that none come.

use std::time::{Duration, Instant};

use snin_verbs::{
    Batch, Completion, CompletionQueue, Failure, Gather, RemoteMemory, Shared, Signal, Slot, Source,
};

use super::LatError;
use super::link::Link;
use super::plan::Operation;

/// Without any completion for so long something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// An unreliable message that has not come after so long, or whose answer has not, is lost.
pub(crate) const LOST: Duration = Duration::from_millis(500);
/// Completions taken at a time.
const BATCH: u16 = 16;
/// Writes of the congestor that are under way at a time.
pub(crate) const CONGESTION: u32 = 4;

/// A connected flow.
#[derive(Debug)]
pub struct Flow {
    /// Its queue pair.
    pub link: Link,
    /// What the peer writes and reads, and where messages come into.
    pub memory: Shared,
    /// What is sent: one after the other.
    pub(crate) sources: Vec<Source>,
    /// Which of them next.
    pub(crate) next: usize,
    /// The peer's memory.
    pub theirs: RemoteMemory,
    /// Where reads go.
    pub sinks: Vec<Slot>,
    /// Messages that no receive is posted for yet.
    pub(crate) unawaited: u64,
    pub(crate) staged: u64,
    /// One of so many sends is signalled: `make_room` waits for it.
    pub(crate) signal_every: u64,
}

impl Flow {
    /// Posts the next message, `signalled` or like most: whether there was room for it.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn post(
        &mut self,
        what: Operation,
        length: usize,
        signalled: bool,
    ) -> Result<bool, LatError> {
        let is_there = self.stage(what, length, signalled)?;
        if is_there {
            self.link.ring()?;
        }
        Ok(is_there)
    }

    fn stage(&mut self, what: Operation, length: usize, signalled: bool) -> Result<bool, LatError> {
        // Some have to be signalled, so that the queue of sends does not fill up.
        self.staged += 1;
        let signalled = signalled || self.staged.is_multiple_of(self.signal_every);
        let signal = if signalled { Signal::Yes } else { Signal::No };
        let source = &self.sources[self.next];
        match what {
            Operation::Send => self.link.send(Gather::One(source, length), signal)?,
            Operation::Write => {
                self.link.write(Gather::One(source, length), self.theirs, signal)?;
            }
            Operation::Read => {
                let Some(sink) = self.sinks.pop() else { return Ok(false) };
                self.link.read(sink, self.theirs).map_err(|refused| refused.error)?;
            }
        }
        self.next += 1;
        if self.next == self.sources.len() {
            self.next = 0;
        }
        Ok(true)
    }

    /// The last byte of what the peer wrote.
    pub fn mark(&self, length: usize) -> u8 {
        let mut mark = [0];
        self.memory.read(length - 1, &mut mark);
        mark[0]
    }
}

/// The last byte of a flow's write of that number.
pub const fn mark_of(number: u64) -> u8 {
    (number & 0xff) as u8
}

/// Writes as fast as they go.
#[derive(Debug)]
struct Congestor {
    flow: Flow,
    queue: CompletionQueue,
    batch: Batch,
}

impl Congestor {
    fn pump(&mut self) -> Result<(), LatError> {
        self.queue.poll(&mut self.batch)?;
        for completion in self.batch.completions() {
            check(completion)?;
            self.flow.link.finish(completion, |_| {});
        }
        let length = self.flow.sources[0].len();
        while self.flow.link.outstanding() < CONGESTION as usize {
            self.flow.post(Operation::Write, length, true)?;
        }
        Ok(())
    }
}

/// Which completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// Of what was sent, written or read.
    Sends,
    /// Of messages that came.
    Receives,
}

/// Everything connected.
#[derive(Debug)]
pub struct Connected {
    /// The flows.
    pub flows: Vec<Flow>,
    congestor: Option<Congestor>,
    /// A queue, and what the last poll took.
    sends: (CompletionQueue, Batch),
    receives: (CompletionQueue, Batch),
    /// Number of a queue pair and whose it is, sorted.
    numbers: Vec<(u32, usize)>,
    /// Says when nothing came for too long.
    pub watch: Watch,
}

impl Connected {
    /// Flows with the queues in which their sends and receives complete, and the congestor with its own.
    pub(crate) fn new(
        flows: Vec<Flow>,
        (sends, receives): (CompletionQueue, CompletionQueue),
        congestor: Option<(Flow, CompletionQueue)>,
    ) -> Self {
        let mut numbers: Vec<(u32, usize)> =
            flows.iter().zip(0..).map(|(flow, at)| (flow.link.number(), at)).collect();
        numbers.sort_unstable();
        let batch = || Batch::new(BATCH);
        let congestor = congestor.map(|(flow, queue)| Congestor { flow, queue, batch: batch() });
        let (sends, receives) = ((sends, batch()), (receives, batch()));
        Self { flows, congestor, sends, receives, numbers, watch: Watch::new() }
    }

    /// Looks for completions: how many there are. [`Self::whose`] names the flow of each until [`Self::settle`]
    /// ends them, which has to be before the next poll. So messages are answered first: the answer does not wait
    /// for the time that ending takes.
    ///
    /// # Errors
    /// When something failed.
    #[inline]
    pub fn poll(&mut self, done: Done) -> Result<usize, LatError> {
        let (queue, batch) = match done {
            Done::Sends => &mut self.sends,
            Done::Receives => &mut self.receives,
        };
        let count = queue.poll(batch)?;
        if let Some(congestor) = &mut self.congestor {
            congestor.pump()?;
        }
        Ok(count)
    }

    /// The flow of a completion of the last poll. Of one flow the completion is not even looked at: whether it
    /// failed is for [`Self::settle`] to say.
    ///
    /// # Errors
    /// When it is of no flow.
    #[inline]
    pub fn whose(&self, done: Done, at: usize) -> Result<usize, LatError> {
        if self.flows.len() == 1 {
            return Ok(0);
        }
        let (_, batch) = if done == Done::Sends { &self.sends } else { &self.receives };
        let completion = batch.completions().get(at).ok_or_else(|| unknown(0))?;
        flow_of(&self.numbers, completion)
    }

    /// Ends what the completions of the last poll say is done: what was sent is told to `sent` by its flow, and
    /// a receive is posted again for each message that came, if more come than are posted.
    ///
    /// # Errors
    /// When something failed.
    #[inline]
    pub fn settle(&mut self, done: Done, mut sent: impl FnMut(usize)) -> Result<(), LatError> {
        let (_, batch) = if done == Done::Sends { &self.sends } else { &self.receives };
        for completion in batch.completions() {
            let at = flow_of(&self.numbers, completion)?;
            let Flow { link, memory, sinks, unawaited, .. } = &mut self.flows[at];
            if done == Done::Sends {
                link.finish(completion, |finished| {
                    sinks.extend(finished.held.own());
                    sent(at);
                });
            } else if *unawaited > 0 {
                link.finish(completion, |_| {});
                link.receive(memory)?;
                *unawaited -= 1;
            }
        }
        Ok(())
    }

    /// Takes what was sent: each message's flow is given to `sent`.
    ///
    /// # Errors
    /// When something failed.
    pub fn take_sent(&mut self, sent: impl FnMut(usize)) -> Result<usize, LatError> {
        let count = self.poll(Done::Sends)?;
        self.settle(Done::Sends, sent)?;
        Ok(count)
    }

    /// Waits until a flow's next source may be written again, and has its last byte say `mark`.
    ///
    /// # Errors
    /// When something failed.
    pub fn mark(&mut self, at: usize, length: usize, mark: u8) -> Result<(), LatError> {
        loop {
            let Flow { sources, next, .. } = &mut self.flows[at];
            if let Some(bytes) = sources[*next].bytes_mut() {
                bytes[length - 1] = mark;
                return Ok(());
            }
            self.take_sent(|_| {})?;
        }
    }

    /// Makes room in the queue of sends where there is little.
    ///
    /// # Errors
    /// When something failed.
    #[inline]
    pub fn make_room(&mut self, at: usize, depth: u32) -> Result<(), LatError> {
        let has_little = |all: &Self| 2 * all.flows[at].link.outstanding() > depth as usize;
        if has_little(self) { self.wait_until(|all| !has_little(all)) } else { Ok(()) }
    }

    #[inline(never)]
    fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) -> Result<(), LatError> {
        while !is_so(self) {
            self.take_sent(|_| {})?;
        }
        Ok(())
    }
}

/// The flow that a completion belongs to.
#[inline]
fn flow_of(numbers: &[(u32, usize)], completion: &Completion) -> Result<usize, LatError> {
    check(completion)?;
    let number = completion.queue_pair();
    match *numbers {
        [(only, at)] if only == number => Ok(at),
        _ => search(numbers, number),
    }
}

#[inline(never)]
fn search(numbers: &[(u32, usize)], number: u32) -> Result<usize, LatError> {
    let at = numbers.binary_search_by_key(&number, |&(number, _)| number);
    at.map(|at| numbers[at].1).map_err(|_| unknown(number))
}

#[cold]
fn unknown(number: u32) -> LatError {
    LatError::Plan(format!("a completion of queue pair {number}"))
}

#[inline]
fn check(completion: &Completion) -> Result<(), LatError> {
    completion.outcome().map_err(undelivered)
}

#[cold]
fn undelivered(failure: Failure) -> LatError {
    LatError::Undelivered(failure.to_string())
}

/// Notices that nothing comes, at next to no cost while something does.
#[derive(Debug)]
pub struct Watch {
    idle: u32,
    since: Option<Instant>,
}

/// So many times nothing, before the clock is asked.
const IDLE: u32 = 1 << 12;

impl Watch {
    const fn new() -> Self {
        Self { idle: 0, since: None }
    }

    /// Something came.
    pub const fn fed(&mut self) {
        self.idle = 0;
        self.since = None;
    }

    /// Nothing came: whether it is time to look why.
    ///
    /// # Errors
    /// When it is too long.
    #[inline]
    pub fn idle(&mut self) -> Result<bool, LatError> {
        self.idle += 1;
        if self.idle < IDLE { Ok(false) } else { self.has_patience() }
    }

    #[cold]
    fn has_patience(&mut self) -> Result<bool, LatError> {
        self.idle = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            return Err(LatError::Silence(PATIENCE.as_secs()));
        }
        Ok(true)
    }
}

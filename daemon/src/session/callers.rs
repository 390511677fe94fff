//! Sessions of a daemon that polls and calls many others: all of them run on one thread, which wakes the daemon
//! by a descriptor.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use snin_protocol::codec::Message;
use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{mpsc, oneshot};

use super::Received;
use super::caller::{Call, Caller};
use crate::waker::{Joined, Waker, hand_over};
use crate::watch::Watch;

/// What is sent to one called end before it has gone to the thread.
const ORDERS: usize = 1024;

/// See the module's documentation. Called ends are known by a `K`; it hears `In` and says `Out`. Dropped, it ends
/// its sessions.
pub struct Callers<K, In, Out> {
    heard: mpsc::Receiver<(u64, Received<In>)>,
    to_us: mpsc::Sender<(u64, Received<In>)>,
    /// Each called end: the number of its call, and what is sent to it.
    calls: BTreeMap<K, (u64, mpsc::Sender<Out>)>,
    /// The called end of each call.
    keys: BTreeMap<u64, K>,
    next: u64,
    lost: u64,
    runtime: Handle,
    waker: Arc<Waker>,
    says: PhantomData<fn(Out)>,
    _ends: oneshot::Sender<()>,
    /// The last to be dropped: when the thread is told to end.
    _thread: Joined,
}

impl<K, In, Out> Callers<K, In, Out>
where
    K: Clone + Ord,
    In: Message + Send + 'static,
    Out: Message + Send + 'static,
{
    /// Without any session. `waiting`: the most messages of all called ends that wait for the daemon.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn start(waiting: usize) -> io::Result<Self> {
        let waker = Waker::new()?;
        let (to_us, heard) = mpsc::channel(waiting.max(1));
        let (ends, ended) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = waker.run("sessions", async move |_| {
            // The thread that started this one waits for it.
            let _ = tell.send(Handle::current());
            // The owner drops the other end.
            let _ = ended.await;
        })?;
        let runtime = told.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Self {
            heard,
            to_us,
            calls: BTreeMap::new(),
            keys: BTreeMap::new(),
            next: 0,
            lost: 0,
            runtime,
            waker,
            says: PhantomData,
            _ends: ends,
            _thread: thread,
        })
    }

    /// Calls one, again and again while it does not answer. An earlier call of the same is given up.
    pub fn call(&mut self, key: K, call: Call) {
        self.close(&key);
        let number = self.next;
        self.next += 1;
        let (orders, ordered) = mpsc::channel(ORDERS);
        let carried =
            carry::<In, Out>(number, call, ordered, self.to_us.clone(), self.waker.clone());
        drop(self.runtime.spawn(carried));
        self.keys.insert(number, key.clone());
        self.calls.insert(key, (number, orders));
    }

    /// Gives a call up: its session ends, and nothing more is heard of it.
    pub fn close(&mut self, key: &K) {
        if let Some((number, _)) = self.calls.remove(key) {
            self.keys.remove(&number);
        }
    }

    /// Until something happens.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.waker.watch(watch);
    }

    /// What has happened; without a system call where nothing has.
    pub fn work(&mut self) -> VecDeque<(K, Received<In>)> {
        let mut all = VecDeque::new();
        if self.waker.was_woken() {
            while let Ok((number, heard)) = self.heard.try_recv() {
                // A call that was given up has no key.
                if let Some(key) = self.keys.get(&number) {
                    all.push_back((key.clone(), heard));
                }
            }
        }
        all
    }

    /// Sends a message to a called end. While there is no session with it the message is lost.
    pub fn send(&mut self, key: &K, message: Out) {
        let sent = self.calls.get(key).is_some_and(|(_, orders)| orders.try_send(message).is_ok());
        self.lost += u64::from(!sent);
    }

    /// Messages that were not sent, because too many waited or the end is not called.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// One call, until it is given up.
async fn carry<In: Message + Send + 'static, Out: Message>(
    number: u64,
    call: Call,
    mut ordered: mpsc::Receiver<Out>,
    to: mpsc::Sender<(u64, Received<In>)>,
    waker: Arc<Waker>,
) {
    let mut caller = Caller::<In, Out>::start(call);
    loop {
        select! {
            order = ordered.recv() => {
                let Some(message) = order else { return };
                // What is too long for a frame cannot be made: messages have limits.
                let _ = caller.send(&message);
            }
            heard = caller.next() => if !hand_over((number, heard), &to, &waker).await { return },
        }
    }
}

impl<K, In, Out> fmt::Debug for Callers<K, In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").field("lost", &self.lost).finish_non_exhaustive()
    }
}

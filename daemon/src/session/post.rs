//! Sessions of a daemon that polls: they run on a thread of their own, which wakes the daemon by a descriptor.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use snin_protocol::codec::Message;
use snin_protocol::identity::Identity;
use tokio::select;
use tokio::sync::mpsc;

use super::address::Address;
use super::caller::{Call, Caller};
use super::listener::{Listen, ListenError, Listener};
use super::tally::Tally;
use super::{Peer, Received};
use crate::watch::Watch;

/// What is said before it has gone to the thread.
const ORDERS: usize = 16_384;

/// See the module's documentation. It hears `In` and says `Out`. Dropped, it ends its sessions.
pub struct Post<In, Out> {
    heard: mpsc::Receiver<Received<In>>,
    orders: mpsc::Sender<(Option<Peer>, Out)>,
    bell: Arc<Bell>,
    tally: Arc<Tally>,
    lost: u64,
    addresses: Vec<Address>,
    says: PhantomData<fn(Out)>,
    /// The last to be dropped: when the other ends of its channels are.
    _thread: Joined,
}

impl<In: Message + Send + 'static, Out: Message + Send + 'static> Post<In, Out> {
    /// Calls somebody.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn call(call: Call) -> io::Result<Self> {
        let (parts, waiting) = (Parts::new()?, call.limits.waiting.max(1));
        let (to_us, heard) = mpsc::channel(waiting);
        let (orders, mut ordered) = mpsc::channel::<(Option<Peer>, Out)>(ORDERS);
        let (told, tally) = std::sync::mpsc::channel();
        let thread = parts.run("session", async move |bell| {
            let mut caller = Caller::<In, Out>::start(call);
            // The thread that started this one waits for it.
            let _ = told.send(caller.tally().clone());
            loop {
                select! {
                    order = ordered.recv() => {
                        let Some((_, message)) = order else { return };
                        // What is too long for a frame cannot be made: messages have limits.
                        let _ = caller.send(&message);
                    }
                    heard = caller.next() => if !hand_over(heard, &to_us, &bell).await { return },
                }
            }
        })?;
        let tally = tally.recv().unwrap_or_default();
        Ok(Self::of(heard, orders, (parts, thread), tally, Vec::new()))
    }

    /// Waits for callers.
    ///
    /// # Errors
    /// As [`Listener::start`].
    pub fn listen(listen: Listen) -> Result<Self, ListenError> {
        let failed = |error| ListenError { address: "sessions".to_owned(), error };
        let (parts, waiting) = (Parts::new().map_err(failed)?, listen.limits.waiting.max(1));
        let (to_us, heard) = mpsc::channel(waiting);
        let (orders, mut ordered) = mpsc::channel::<(Option<Peer>, Out)>(ORDERS);
        let mut listener = Listener::<In, Out>::start(listen)?;
        let (tally, addresses) = (listener.tally().clone(), listener.addresses().to_vec());
        let work = async move |bell: Arc<Bell>| {
            loop {
                select! {
                    order = ordered.recv() => {
                        let Some((to, message)) = order else { return };
                        // As above.
                        let _ = to.map(|to| listener.send(&to, &message));
                    }
                    heard = listener.next() => if !hand_over(heard, &to_us, &bell).await { return },
                }
            }
        };
        let thread = parts.run("sessions", work).map_err(failed)?;
        Ok(Self::of(heard, orders, (parts, thread), tally, addresses))
    }

    fn of(
        heard: mpsc::Receiver<Received<In>>,
        orders: mpsc::Sender<(Option<Peer>, Out)>,
        (parts, thread): (Parts, Joined),
        tally: Arc<Tally>,
        addresses: Vec<Address>,
    ) -> Self {
        let (bell, says) = (parts.bell, PhantomData);
        Self { heard, orders, bell, tally, lost: 0, addresses, says, _thread: thread }
    }

    /// Until something happens.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.bell.descriptor.as_fd());
    }

    /// What has happened; without a system call where nothing has.
    pub fn work(&mut self) -> VecDeque<Received<In>> {
        let mut all = VecDeque::new();
        if !self.bell.rang.swap(false, Ordering::AcqRel) {
            return all;
        }
        // Another ring may have been read with the one before.
        let _ = rustix::io::read(&self.bell.descriptor, &mut [0; 8]);
        while let Ok(heard) = self.heard.try_recv() {
            all.push_back(heard);
        }
        all
    }

    /// Sends a message to the called end.
    pub fn send(&mut self, message: Out) {
        self.order(None, message);
    }

    /// Says something to one of those who called.
    pub fn send_to(&mut self, to: &Identity, message: Out) {
        self.order(Some(Peer::new(to.clone())), message);
    }

    fn order(&mut self, to: Option<Peer>, message: Out) {
        // As if the session had lost it: what matters is said again.
        self.lost += u64::from(self.orders.try_send((to, message)).is_err());
    }

    /// Where callers come, with the ports that the system chose; none where this end calls.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Messages that were not said because too many waited.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// What was counted.
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}

/// False when nobody takes it.
async fn hand_over<M>(heard: Received<M>, to: &mpsc::Sender<Received<M>>, bell: &Bell) -> bool {
    let is_taken = to.send(heard).await.is_ok();
    if !bell.rang.swap(true, Ordering::AcqRel) {
        // It can only be full of rings already.
        let _ = rustix::io::write(&bell.descriptor, &1_u64.to_ne_bytes());
    }
    is_taken
}

/// A thread that has ended when this is dropped: an address at which it listened is free then.
#[derive(Debug)]
struct Joined(Option<thread::JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic of its was its own.
            let _ = thread.join();
        }
    }
}

/// What wakes the daemon, and whether it has rung since that looked last.
#[derive(Debug)]
struct Bell {
    descriptor: OwnedFd,
    rang: AtomicBool,
}

/// A runtime for a thread, and the descriptor by which it wakes another.
struct Parts {
    bell: Arc<Bell>,
}

impl Parts {
    fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell: Arc::new(Bell { descriptor, rang: AtomicBool::new(false) }) })
    }

    fn run<W, F>(&self, name: &str, work: W) -> io::Result<Joined>
    where
        W: FnOnce(Arc<Bell>) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let bell = self.bell.clone();
        let body = move || {
            runtime.block_on(work(bell));
            // A host's name that is being looked up is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Joined(Some(thread)))
    }
}

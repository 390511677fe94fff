//! Sessions of a daemon that polls: they run on a thread of their own, which wakes the daemon by a descriptor.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use snin_protocol::codec::Message;
use snin_protocol::identity::Identity;
use tokio::select;
use tokio::sync::mpsc;

use super::Received;
use super::address::Address;
use super::caller::{Call, Caller};
use super::listener::{Listen, ListenError, Listener};
use super::tally::Tally;
use crate::waker::{Joined, Waker, hand_over};
use crate::watch::Watch;

/// What is said before it has gone to the thread.
const ORDERS: usize = 16_384;

/// What the daemon wants of its sessions.
enum Order<Out> {
    Send(Out),
    SendTo(Identity, Out),
    Close(Identity),
}

/// See the module's documentation. It hears `In` and says `Out`. Dropped, it ends its sessions.
pub struct Post<In, Out> {
    heard: mpsc::Receiver<Received<In>>,
    orders: mpsc::Sender<Order<Out>>,
    waker: Arc<Waker>,
    tally: Arc<Tally>,
    lost: u64,
    addresses: Vec<Address>,
    says: PhantomData<fn(Out)>,
    /// The last to be dropped: when the other ends of its channels are.
    _thread: Joined,
}

impl<In: Message + Send + 'static, Out: Message + Send + 'static> Post<In, Out> {
    /// Calls the address.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn call(call: Call) -> io::Result<Self> {
        Self::call_any(call, Vec::new())
    }

    /// Calls the address, or one of the others: any of them will do.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_any(call: Call, others: Vec<Address>) -> io::Result<Self> {
        let (waker, waiting) = (Waker::new()?, call.limits.waiting.max(1));
        let (to_us, heard) = mpsc::channel(waiting);
        let (orders, mut ordered) = mpsc::channel::<Order<Out>>(ORDERS);
        let (told, tally) = std::sync::mpsc::channel();
        let thread = waker.run("session", async move |waker| {
            let mut caller = Caller::<In, Out>::start_any(call, others);
            // The thread that started this one waits for it.
            let _ = told.send(caller.tally().clone());
            loop {
                select! {
                    order = ordered.recv() => {
                        match order {
                            // What is too long for a frame cannot be made: messages have limits.
                            Some(Order::Send(message)) => {
                                let _ = caller.send(&message);
                            }
                            Some(Order::SendTo(..) | Order::Close(_)) => {}
                            None => return,
                        }
                    }
                    heard = caller.next() => if !hand_over(heard, &to_us, &waker).await { return },
                }
            }
        })?;
        let tally = tally.recv().unwrap_or_default();
        Ok(Self::of(heard, orders, (waker, thread), tally, Vec::new()))
    }

    /// Waits for callers.
    ///
    /// # Errors
    /// As [`Listener::start`].
    pub fn listen(listen: Listen) -> Result<Self, ListenError> {
        let failed = |error| ListenError { address: "sessions".to_owned(), error };
        let (waker, waiting) = (Waker::new().map_err(failed)?, listen.limits.waiting.max(1));
        let (to_us, heard) = mpsc::channel(waiting);
        let (orders, mut ordered) = mpsc::channel::<Order<Out>>(ORDERS);
        let mut listener = Listener::<In, Out>::start(listen)?;
        let (tally, addresses) = (listener.tally().clone(), listener.addresses().to_vec());
        let work = async move |waker: Arc<Waker>| {
            loop {
                select! {
                    order = ordered.recv() => {
                        match order {
                            // As above.
                            Some(Order::SendTo(to, message)) => {
                                let _ = listener.send(&to, &message);
                            }
                            Some(Order::Close(peer)) => listener.close(&peer),
                            Some(Order::Send(_)) => {}
                            None => return,
                        }
                    }
                    heard = listener.next() => if !hand_over(heard, &to_us, &waker).await { return },
                }
            }
        };
        let thread = waker.run("sessions", work).map_err(failed)?;
        Ok(Self::of(heard, orders, (waker, thread), tally, addresses))
    }

    fn of(
        heard: mpsc::Receiver<Received<In>>,
        orders: mpsc::Sender<Order<Out>>,
        (waker, thread): (Arc<Waker>, Joined),
        tally: Arc<Tally>,
        addresses: Vec<Address>,
    ) -> Self {
        let says = PhantomData;
        Self { heard, orders, waker, tally, lost: 0, addresses, says, _thread: thread }
    }

    /// Until something happens.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.waker.watch(watch);
    }

    /// What has happened; without a system call where nothing has.
    pub fn work(&mut self) -> VecDeque<Received<In>> {
        let mut all = VecDeque::new();
        if !self.waker.was_woken() {
            return all;
        }
        while let Ok(heard) = self.heard.try_recv() {
            all.push_back(heard);
        }
        all
    }

    /// Sends a message to the called end.
    pub fn send(&mut self, message: Out) {
        self.order(Order::Send(message));
    }

    /// Says something to one of those who called.
    pub fn send_to(&mut self, to: &Identity, message: Out) {
        self.order(Order::SendTo(to.clone(), message));
    }

    /// Ends the session of one of those who called.
    pub fn close(&mut self, peer: &Identity) {
        self.order(Order::Close(peer.clone()));
    }

    fn order(&mut self, order: Order<Out>) {
        // As if the session had lost it: what matters is said again.
        self.lost += u64::from(self.orders.try_send(order).is_err());
    }

    /// Where callers come, with the ports that the system chose; none where this end calls.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Messages that were not said because too many waited.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The counters.
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}

impl<In, Out> fmt::Debug for Post<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("lost", &self.lost).finish_non_exhaustive()
    }
}

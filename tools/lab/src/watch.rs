//! Watches every transmission: no directed link ever has two owners.
//!
//! A message owns a link from its first packet there to its last. Messages are numbered in the order in which
//! they are given to adapters, so on each link of a fabric without interference the numbers only rise: one
//! that comes after a greater one was given away before the greater one and is still there. And no message
//! waits behind another message's last packet. Acknowledgements have a lane of their own and own nothing.

use std::fmt;

use snin_emulator::data::{MessageId, Transmission, Wait};
use snin_fabric::{PortIndex, Topology};
use snin_protocol::Time;

/// Violations that are named; all are counted.
const NAMED: usize = 10;

/// A link with two owners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clash {
    /// The port that sends on it.
    pub link: PortIndex,
    /// When.
    pub at: Time,
    /// Whose it was.
    pub owner: u32,
    /// The message that came.
    pub other: u32,
}

/// The message that is on a link.
#[derive(Clone, Copy, Debug)]
struct Owner {
    message: MessageId,
    flow: u32,
    /// When its last byte so far has left.
    until: Time,
    /// In which window it was first seen, and how many flows the link has had in that one.
    window: u32,
    flows: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Watch {
    owners: Vec<Option<Owner>>,
    window: u32,
    /// The first message of this window: what is left of earlier ones is of theirs.
    first: MessageId,
    most: u32,
    transmissions: u64,
    clashes: u64,
    named: Vec<Clash>,
}

impl Watch {
    /// For the links of a fabric with so many ports.
    pub fn new(ports: usize) -> Self {
        let owners = vec![None; ports];
        let (window, first, named) = (0, MessageId(0), Vec::new());
        Self { owners, window, first, most: 0, transmissions: 0, clashes: 0, named }
    }

    /// Another window has begun: `first` will be its first message.
    pub const fn begin_window(&mut self, first: MessageId) {
        self.window += 1;
        self.first = first;
    }

    /// The window of a message: one that still drains is of the window before.
    fn window_of(&self, message: MessageId) -> u32 {
        if message >= self.first { self.window } else { self.window.saturating_sub(1) }
    }

    /// A packet is sent.
    pub fn transmitted(&mut self, sent: &Transmission) {
        if sent.acknowledgement {
            return;
        }
        self.transmissions += 1;
        let window = self.window_of(sent.message);
        let known = &mut self.owners[sent.port.index()];
        let Some(owner) = known else {
            let (message, flow, until) = (sent.message, sent.flow, sent.end);
            *known = Some(Owner { message, flow, until, window, flows: 1 });
            self.most = self.most.max(1);
            return;
        };
        let returns = sent.message < owner.message && sent.flow != owner.flow;
        let clash = Clash { link: sent.port, at: sent.begin, owner: owner.flow, other: sent.flow };
        owner.until = sent.end;
        if sent.flow != owner.flow {
            owner.flows = if owner.window == window { owner.flows + 1 } else { 1 };
            owner.flow = sent.flow;
        } else if owner.window != window {
            owner.flows = 1;
        }
        owner.window = window;
        owner.message = owner.message.max(sent.message);
        self.most = self.most.max(owner.flows);
        if returns {
            self.note(clash);
        }
    }

    /// A packet had to wait.
    pub fn waited(&mut self, wait: &Wait) {
        let since = wait.at - wait.here;
        // Both ends of a wait are rounded to nanoseconds.
        let behind = |owner: &Owner| owner.flow != wait.flow && owner.until > since + Time(1);
        if let Some(owner) = self.owners[wait.port.index()].filter(behind) {
            self.note(Clash { link: wait.port, at: wait.at, owner: owner.flow, other: wait.flow });
        }
    }

    fn note(&mut self, clash: Clash) {
        self.clashes += 1;
        if self.named.len() < NAMED {
            self.named.push(clash);
        }
    }

    /// The most flows that a directed link carried in one window.
    pub const fn most_owners(&self) -> u32 {
        self.most
    }

    /// How often a link had two owners.
    pub const fn clashes(&self) -> u64 {
        self.clashes
    }

    /// Data packets seen on links.
    pub const fn transmissions(&self) -> u64 {
        self.transmissions
    }

    /// The first of them.
    pub fn named(&self) -> &[Clash] {
        &self.named
    }
}

impl Clash {
    /// With the link's name.
    pub fn named<'a>(&'a self, topology: &'a Topology) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let Self { link, at, owner, other } = self;
            let link = topology.port_name(*link);
            write!(f, "{link} at {at}: flow {other} came while flow {owner} owned it")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(message: u32, begin: u64) -> Transmission {
        Transmission {
            port: PortIndex(0),
            vl: 0,
            message: MessageId(message),
            flow: message,
            acknowledgement: false,
            bytes: 64,
            begin: Time(begin),
            end: Time(begin + 10),
        }
    }

    fn wait(message: u32, at: u64) -> Wait {
        let (here, altogether) = (Time(9), Time(9));
        let message = MessageId(message);
        Wait { port: PortIndex(0), vl: 0, message, flow: message.0, here, altogether, at: Time(at) }
    }

    #[test]
    fn one_after_the_other_is_no_clash_but_in_turns_is() {
        let mut watch = Watch::new(1);
        for (message, begin) in [(0, 0), (0, 10), (1, 20), (1, 30)] {
            watch.transmitted(&sent(message, begin));
        }
        assert_eq!((watch.clashes(), watch.most_owners()), (0, 2));
        watch.transmitted(&sent(0, 40));
        assert_eq!(watch.clashes(), 1);
        let clash = Clash { link: PortIndex(0), at: Time(40), owner: 1, other: 0 };
        assert_eq!(watch.named(), [clash]);
    }

    #[test]
    fn who_waits_behind_another_s_last_packet_clashes() {
        let mut watch = Watch::new(1);
        watch.transmitted(&sent(0, 0));
        watch.waited(&wait(1, 30));
        assert_eq!(watch.clashes(), 0, "ready at 21, when nobody was there any more");
        watch.waited(&wait(1, 10));
        assert_eq!(watch.clashes(), 1, "ready at 1");
        watch.waited(&wait(0, 10));
        assert_eq!(watch.clashes(), 1, "nobody clashes with itself");
    }

    #[test]
    fn each_window_gives_links_anew() {
        let mut watch = Watch::new(1);
        for message in 0..3 {
            watch.begin_window(MessageId(message));
            watch.transmitted(&sent(message, u64::from(message) * 100));
        }
        assert_eq!((watch.clashes(), watch.most_owners(), watch.transmissions()), (0, 1, 3));
    }

    #[test]
    fn what_drains_is_of_its_own_window() {
        let mut watch = Watch::new(1);
        watch.transmitted(&sent(0, 0));
        watch.begin_window(MessageId(1));
        watch.transmitted(&sent(0, 10));
        watch.transmitted(&sent(1, 20));
        assert_eq!((watch.clashes(), watch.most_owners()), (0, 1));
    }
}

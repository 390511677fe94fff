//! The fabric from a subnet manager's sessions: of several managers the master has them.

use std::sync::Arc;

use snin_controller_core::view_session::{ViewDone, ViewNews, ViewSession};
use snin_daemon::meter::{Cause, Meter};
use snin_daemon::session::{Address, Call, Caller, Received, Tally};
use snin_fabric::view::View;
use snin_protocol::codec::CodecError;
use snin_protocol::message::{PinnedPath, Preferred, SliceMember, ViewChange};
use snin_protocol::view::{FromManager, Policy, PortTest, PortTested, ToManager, ViewError};
use tokio::select;
use tokio::task::{JoinError, JoinHandle};

/// What a manager has said.
#[derive(Debug)]
pub enum News {
    /// The fabric is another.
    View(Arc<dyn View>),
    /// Some of it must not be granted.
    Change(ViewChange),
    /// Is non-interference in effect?
    Policy(Policy),
    /// The agent at a port is to show that its link carries messages.
    Test(PortTest),
    /// It is there.
    Found(String),
    /// It is not there any more; the fabric is taken to be as it was.
    Lost(String),
    /// What it said is of no use.
    Trouble(ViewError),
}

/// See the module's documentation.
pub struct Manager {
    caller: Caller<FromManager, ToManager>,
    /// Is told what views cost on this thread.
    meter: Arc<Meter>,
    session: ViewSession,
    /// The view that is being computed, on another thread: windows go on.
    job: Option<JoinHandle<ViewDone>>,
    /// What it was last told, in this session, of addresses that paths are answered with first.
    preferred: Option<(Vec<PinnedPath>, u64, Vec<SliceMember>)>,
}

impl Manager {
    /// Calls it, or one of the others.
    pub fn call(call: Call, others: Vec<Address>, meter: Arc<Meter>) -> Self {
        Self {
            caller: Caller::start_any(call, others),
            meter,
            session: ViewSession::default(),
            job: None,
            preferred: None,
        }
    }

    /// What it says next. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> News {
        loop {
            let (begun, news) = match &mut self.job {
                None => {
                    let heard = self.caller.next().await;
                    (self.meter.now(), self.receive(heard))
                }
                Some(job) => select! {
                    heard = self.caller.next() => (self.meter.now(), self.receive(heard)),
                    computed = job => (self.meter.now(), self.computed(computed)),
                },
            };
            self.meter.charge(Cause::View, begun);
            if let Some(news) = news {
                return news;
            }
        }
    }

    fn receive(&mut self, heard: Received<FromManager>) -> Option<News> {
        match heard {
            Received::Opened(peer) => {
                self.forget();
                Some(News::Found(peer.to_string()))
            }
            Received::Closed(peer, end) => {
                self.forget();
                Some(News::Lost(format!("{peer}: {end}")))
            }
            Received::Said(_, said) => {
                let news = self.session.said(said)?;
                self.take(news)
            }
        }
    }

    fn take(&mut self, news: ViewNews) -> Option<News> {
        Some(match news {
            ViewNews::Compute(job) => {
                self.job = Some(tokio::task::spawn_blocking(move || job.run()));
                return None;
            }
            ViewNews::View(view) => {
                // Addresses may be others.
                self.preferred = None;
                News::View(view)
            }
            ViewNews::Change(change) => News::Change(change),
            ViewNews::Policy(policy) => News::Policy(policy),
            ViewNews::Test(test) => News::Test(test),
            ViewNews::Trouble(error) => News::Trouble(error),
        })
    }

    fn forget(&mut self) {
        self.session.begin();
        self.preferred = None;
        if let Some(job) = self.job.take() {
            job.abort();
        }
    }

    fn computed(&mut self, computed: Result<ViewDone, JoinError>) -> Option<News> {
        self.job = None;
        let (said, news) = self.session.computed(computed.ok()?)?;
        self.send(&said);
        self.take(news)
    }

    /// Nothing is sent any more along what this version, and all before it, called unusable.
    pub fn clear(&mut self, version: u64) {
        if let Some(said) = self.session.clear(version) {
            self.send(&said);
        }
    }

    /// Says with which addresses queries for paths are to be answered first, where that is not what was said last.
    /// `slices` is asked where they are of another `version`.
    pub fn prefer(
        &mut self,
        pins: Vec<PinnedPath>,
        version: u64,
        slices: impl FnOnce() -> Vec<SliceMember>,
    ) {
        if !self.is_open() {
            return;
        }
        let members = match self.preferred.take() {
            Some((told, of, members)) if of == version => {
                if told == pins {
                    self.preferred = Some((told, of, members));
                    return;
                }
                members
            }
            _ => slices(),
        };
        for part in Preferred::parts(&pins, &members) {
            self.send(&ToManager::Preferred(part));
        }
        self.preferred = Some((pins, version, members));
    }

    /// Another controller may have said something else since.
    pub fn forget_preferred(&mut self) {
        self.preferred = None;
    }

    /// Says what came of a test that it wanted.
    pub fn tested(&mut self, tested: PortTested) {
        self.send(&ToManager::Tested(tested));
    }

    fn send(&mut self, message: &ToManager) {
        // Every message fits a frame; without a session the message is dropped.
        let _: Result<bool, CodecError> = self.caller.send(message);
    }

    /// Whether there is a session.
    pub const fn is_open(&self) -> bool {
        self.caller.is_open()
    }

    /// What was counted of its sessions.
    pub const fn tally(&self) -> &Arc<Tally> {
        self.caller.tally()
    }
}

//! The store that several controllers share, asked on a thread of its own: windows do not wait for it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use snin_controller_core::leadership::{Answer, Question};
use snin_daemon::shared::{Candidacy, Election};
use snin_protocol::{Term, Time};
use tokio::sync::mpsc;

use super::state::{Begun, State};
use crate::error::Failure;

/// What the thread is told.
enum Order {
    Ask(Question),
    Resign,
}

/// What a controller that was elected begins with.
pub struct Elected {
    /// What its predecessors left.
    pub state: State,
    /// Its term, which is in the store.
    pub begun: Begun,
}

/// How a term begins.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What this controller says of itself while it leads.
    pub name: String,
    /// The least term.
    pub least: Term,
    /// The longest from the decision of one of its grants to the end of its guard.
    pub longest: Time,
}

/// See the module's documentation. Dropped, it resigns.
pub struct Candidate {
    /// As many as there are questions, of which one at a time is asked.
    orders: Option<Sender<Order>>,
    answers: mpsc::Receiver<(Answer, Option<Elected>)>,
    thread: Option<JoinHandle<()>>,
}

impl Candidate {
    /// Starts the thread; nothing is asked yet.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn start(mut election: Box<dyn Election>, terms: Terms) -> io::Result<Self> {
        let (orders, ordered): (_, Receiver<Order>) = channel();
        let (to_us, answers) = mpsc::channel(1);
        let work = move || {
            for order in ordered {
                let answer = match order {
                    Order::Resign => {
                        election.resign();
                        continue;
                    }
                    Order::Ask(Question::Stand) => stand(&mut *election, &terms),
                    Order::Ask(Question::Renew) => (renew(&mut *election), None),
                };
                if to_us.blocking_send(answer).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("election".to_owned()).spawn(work)?;
        Ok(Self { orders: Some(orders), answers, thread: Some(thread) })
    }

    /// Asks; the answer before was taken.
    pub fn ask(&self, question: Question) {
        self.order(Order::Ask(question));
    }

    /// Another controller may lead.
    pub fn resign(&self) {
        self.order(Order::Resign);
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A thread that panicked answers nothing: then this controller does not lead.
            let _ = orders.send(order);
        }
    }

    /// The next answer, and what comes with an election.
    pub async fn next(&mut self) -> (Answer, Option<Elected>) {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.orders = None;
        // The thread does not wait for its last answer to be taken.
        self.answers.close();
        if let Some(thread) = self.thread.take() {
            // A panic of its was its own.
            let _ = thread.join();
        }
    }
}

/// An elected controller has begun its term before it hears of that.
fn stand(election: &mut dyn Election, terms: &Terms) -> (Answer, Option<Elected>) {
    match election.stand(terms.name.as_bytes()) {
        Ok(Candidacy::Won { values, predecessor }) => {
            let begun = State::of(values).and_then(|state| {
                let mut begun = state.begin(terms.least, terms.longest)?;
                // Where the predecessor may think that it leads, its last grant is yet to be decided.
                let more = predecessor.map_or(Time::ZERO, |lease| {
                    Time(u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX))
                });
                begun.predecessor = begun.predecessor.map(|before| before + more);
                Ok(Elected { state, begun })
            });
            match begun {
                Ok(elected) => (Answer::Leads, Some(elected)),
                Err(failure) => {
                    election.resign();
                    (failed(&failure), None)
                }
            }
        }
        Ok(Candidacy::Other(leader)) => {
            let leader: String = String::from_utf8_lossy(&leader).chars().take(80).collect();
            (Answer::Follows(Some(leader).filter(|leader| !leader.is_empty())), None)
        }
        Err(error) => (failed(&error.into()), None),
    }
}

fn renew(election: &mut dyn Election) -> Answer {
    match election.renew() {
        Ok(true) => Answer::Leads,
        Ok(false) => Answer::Follows(None),
        Err(error) => failed(&error.into()),
    }
}

fn failed(failure: &Failure) -> Answer {
    Answer::Failed(failure.to_string())
}

//! What becomes of a request at the control socket, and how its client hears of that.

use serde_json::Value;
use snin_daemon::control::Client;
use snin_daemon::describer::{self, Making};
use snin_protocol::operator::manager::GetEvents;
use snin_protocol::operator::{Document, Event, Events, Operation};

use super::failure::Failure;
use super::run::Daemon;

/// What one is answered.
pub(super) enum Answer {
    /// This.
    Now(Value),
    /// What is made of this, beside the loop.
    Long(Making),
    /// [`Daemon::tell`] answers when it is done.
    Later,
    /// Every event after this number, and later ones.
    Follow(u64),
}

/// Why there is no answer.
pub(super) enum Refused {
    /// The client is told so.
    Because(String),
    /// The daemon cannot go on.
    Fatal(Failure),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

impl From<&str> for Refused {
    fn from(why: &str) -> Self {
        Self::Because(why.to_owned())
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Fatal(failure)
    }
}

/// The answer to an operation.
pub(super) fn said<O: Operation>(asked: &O, answer: O::Answer) -> Result<Answer, Refused> {
    Ok(Answer::Now(asked.said(answer)?))
}

/// The answer to an operation that takes long to be made.
pub(super) fn made<O: Operation + Send + 'static>(
    asked: O,
    make: impl FnOnce(&O) -> Result<O::Answer, String> + Send + 'static,
) -> Answer {
    Answer::Long(Box::new(move || make(&asked).and_then(|answer| asked.said(answer))))
}

impl Daemon {
    /// Answers a client, unless it is to wait.
    pub(super) fn respond(
        &mut self,
        client: Client,
        answer: Result<Answer, Refused>,
    ) -> Result<(), Failure> {
        let Some(control) = &mut self.outlets.control else { return Ok(()) };
        match answer {
            Ok(Answer::Now(value)) => control.answer(client, &value),
            Ok(Answer::Long(making)) => {
                self.outlets.describer.ask(describer::Client::Socket(client), making, control);
            }
            Ok(Answer::Later) => {}
            Ok(Answer::Follow(since)) => {
                let events = self.outlets.journal.since(since).map(Event::from).collect();
                match (GetEvents { since, follow: true }).said(Events { events }) {
                    Ok(value) => control.answer(client, &value),
                    Err(why) => control.refuse(client, &why),
                }
                self.outlets.journal.follow(client);
            }
            Err(Refused::Because(why)) => control.refuse(client, &why),
            Err(Refused::Fatal(failure)) => return Err(failure),
        }
        Ok(())
    }

    /// Answers a client that waited for the end of an operation.
    pub(super) fn tell<O: Operation>(&mut self, client: Client, answer: Result<O::Answer, String>) {
        let Some(control) = &mut self.outlets.control else { return };
        match answer.and_then(|answer| Document::of(answer).value()) {
            Ok(value) => control.answer(client, &value),
            Err(why) => control.refuse(client, &why),
        }
    }
}

//! Long answers, such as the whole fabric, are made on a thread of their own: a daemon's loop only gives away
//! what they are made of. A large fabric's is a megabyte of text, and anybody may ask for it.

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::control::{self, Control};
use crate::http::{Asked, Refusal};
use crate::worker::{NotTaken, Worker};

/// Answers that wait to be made; more are refused.
const WAITING: usize = 8;

/// What makes an answer, or says why there is none.
pub type Making = Box<dyn FnOnce() -> Result<Value, String> + Send>;

/// Who asked.
#[derive(Debug)]
pub enum Client {
    /// At the control socket.
    Socket(control::Client),
    /// By HTTP.
    Http(Asked),
}

/// An answer for the control socket, as JSON's text, or why there is none.
type Made = (control::Client, Result<String, String>);

/// See the module's documentation. The thread ends with the value, after the answer that it has begun.
#[derive(Debug)]
pub struct Describer(Worker<(Client, Making), Made>);

impl Describer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn start() -> io::Result<Self> {
        let work = |(client, making): (Client, Making)| {
            // The answer of a fault is an error; later ones are still made.
            let made = catch_unwind(AssertUnwindSafe(making));
            let made =
                made.unwrap_or_else(|_| Err("making the answer failed: see the log".to_owned()));
            match client {
                Client::Socket(client) => Some((client, made.map(|value| value.to_string()))),
                Client::Http(asked) => {
                    match made {
                        Ok(value) => asked.answer(value),
                        Err(why) => asked.refuse(Refusal::NotReady, &why),
                    }
                    None
                }
            }
        };
        Ok(Self(Worker::start("answers", WAITING, work)?))
    }

    /// Has an answer made, or says that there is no room.
    pub fn ask(&self, client: Client, making: Making, control: &mut Control) {
        let Err(job) = self.0.give((client, making)) else { return };
        let (NotTaken::Full((client, _)) | NotTaken::Ended((client, _))) = job;
        let why = "too many long answers are being made: ask again";
        match client {
            Client::Socket(client) => control.refuse(client, why),
            Client::Http(asked) => asked.refuse(Refusal::NotReady, why),
        }
    }

    /// Becomes readable when an answer for the control socket is made.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.0.readable()
    }

    /// Says what is made.
    pub fn work(&self, control: &mut Control) {
        while let Ok(Some((client, made))) = self.0.next() {
            match made {
                Ok(text) => control.answer_text(client, &text),
                Err(why) => control.refuse(client, &why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// An answer that takes for ever delays no other daemon's work, and requests that there is no room for are
    /// refused at once.
    #[test]
    fn long_answers_are_made_beside_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let mut control = Control::listen(&path, None).unwrap();
        let describer = Describer::start().unwrap();
        let (end, ends) = channel::<()>();
        let slow: Making = Box::new(move || {
            ends.recv().unwrap();
            Ok(json!("at last"))
        });
        let patience = Some(Duration::from_secs(30));
        let ask = {
            let path = path.clone();
            move |number: u64| {
                let mut open = control::Connection::open(&path, patience).unwrap();
                open.ask(&json!({ "command": "fabric", "number": number }))
                    .map_err(|e| e.to_string())
            }
        };
        let mut clients = Vec::new();
        let mut making = Some(slow);
        for number in 0..=WAITING as u64 + 1 {
            let ask = ask.clone();
            clients.push(std::thread::spawn(move || ask(number)));
            let request = loop {
                if let Some(request) = control.work().pop() {
                    break request;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            let making: Making =
                making.take().unwrap_or_else(|| Box::new(move || Ok(json!(number))));
            describer.ask(Client::Socket(request.client), making, &mut control);
            // The first is being made before the others come.
            std::thread::sleep(Duration::from_millis(if number == 0 { 100 } else { 0 }));
        }
        let last = clients.pop().unwrap().join().unwrap();
        assert_eq!(last.unwrap_err(), "too many long answers are being made: ask again");
        end.send(()).unwrap();
        while clients.iter().any(|client| !client.is_finished()) {
            describer.work(&mut control);
            control.work();
            std::thread::sleep(Duration::from_millis(1));
        }
        let told: Vec<Value> =
            clients.into_iter().map(|client| client.join().unwrap().unwrap()).collect();
        assert_eq!((&told[0], &told[1], told.len()), (&json!("at last"), &json!(1), WAITING + 1));
    }
}

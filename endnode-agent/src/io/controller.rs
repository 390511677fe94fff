//! The session with the controller, which runs on a thread of its own: what the data thread sends goes into it,
//! and what the controller sends goes to the data thread.

use std::io;
use std::sync::Arc;

use snin_daemon::session::{Address, Call, Credentials, Limits, Post, Received, SessionEnd};
use snin_daemon::watch::Watch;
use snin_fabric::Guid;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{FromAgent, ToAgent};

use super::rings::Rings;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct ControllerSession {
    rings: Arc<Rings>,
    post: Post<ToAgent, FromAgent>,
    is_open: bool,
    /// Frames that the data thread may still have: they are freed here.
    frames: Vec<Arc<ToAgent>>,
}

impl ControllerSession {
    /// Calls the controller as the agent of a port, or one of the others: again and again until one answers.
    pub(crate) fn call(
        rings: Arc<Rings>,
        port: Guid,
        (first, others): (&Address, &[Address]),
        credentials: Option<Arc<Credentials>>,
    ) -> io::Result<Self> {
        let call = Call {
            to: first.clone(),
            service: Service::Grants,
            role: Role::Controller,
            peer: None,
            identity: Identity::Agent(port),
            limits: if others.is_empty() { Limits::default() } else { Limits::of_several() },
            credentials,
        };
        let post = Post::call_any(call, others.to_vec())?;
        Ok(Self { rings, post, is_open: false, frames: Vec::new() })
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.post.watch(watch);
    }

    /// Carries what came since the last call, and what the data thread sends.
    pub(crate) fn work(&mut self) {
        self.frames.retain(|frame| Arc::strong_count(frame) > 1);
        let received = self.post.work();
        let anything = !received.is_empty();
        for event in received {
            match event {
                Received::Opened(_) => self.is_open = true,
                Received::Said(_, frame) => self.pass_on(frame),
                Received::Closed(_, end) => {
                    self.is_open = false;
                    if let SessionEnd::Malformed(_) = end {
                        Rings::count(&self.rings.counters.malformed);
                        // A data thread that is so far behind knows of many frames already.
                        let _ = self.rings.frames.push(None);
                    }
                }
            }
        }
        if anything {
            self.rings.to_data.ring();
        }
        while let Some(message) = self.rings.to_controller.pop() {
            // Without a session the message is dropped, and the mesh sends all of it again.
            if self.is_open {
                self.post.send(message);
            }
        }
    }

    fn pass_on(&mut self, frame: ToAgent) {
        let frame = Arc::new(frame);
        // A data thread that is so far behind gets the next lease instead.
        if self.rings.frames.push(Some(Arc::clone(&frame))).is_ok() {
            self.frames.push(frame);
        }
    }
}

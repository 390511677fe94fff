//! Clients that follow what happens: an answer without an end, in lines.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Lines that wait for a client to read them; one that leaves more is cut off.
const WAITING: usize = 256;

/// A client that is told lines until this is dropped.
#[derive(Debug)]
pub struct Follower {
    lines: mpsc::Sender<Bytes>,
    /// Its connection lives on while this is so.
    follows: Arc<AtomicBool>,
}

impl Follower {
    /// One on a connection, and the body of its answer.
    pub(super) fn new(follows: Arc<AtomicBool>) -> (Self, Lines) {
        let (lines, to_write) = mpsc::channel(WAITING);
        follows.store(true, Ordering::Relaxed);
        (Self { lines, follows }, Lines(to_write))
    }

    /// Tells it one or several lines; false where it does not read, or is gone.
    #[must_use]
    pub fn tell(&self, lines: &str) -> bool {
        self.lines.try_send(Bytes::copy_from_slice(lines.as_bytes())).is_ok()
    }

    /// Whether its connection has ended.
    pub fn is_gone(&self) -> bool {
        self.lines.is_closed()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.follows.store(false, Ordering::Relaxed);
    }
}

/// The body of the answer.
pub(super) struct Lines(mpsc::Receiver<Bytes>);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|lines| lines.map(|lines| Ok(Frame::data(lines))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_read_is_not_told_for_ever() {
        let follows = Arc::<AtomicBool>::default();
        let (follower, unread) = Follower::new(follows.clone());
        assert!(follows.load(Ordering::Relaxed) && !follower.is_gone());
        let told = (0..10 * WAITING).take_while(|_| follower.tell("{}\n")).count();
        assert_eq!(told, WAITING);
        drop(unread);
        assert!(follower.is_gone());
        drop(follower);
        assert!(!follows.load(Ordering::Relaxed));
    }
}

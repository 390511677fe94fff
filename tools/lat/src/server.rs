//! The side that waits: it does what the client asks for.

use std::net::{SocketAddr, TcpListener};
use std::time::Instant;

use super::LatError;
use super::bench::Bench;
use super::exchange::{Answer, Ends, Request, Talk};
use super::flows::{Connected, Done, LOST, mark_of};
use super::plan::{Operation, Plan};

/// Waits for clients, one after the other.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    bench: Bench,
}

impl Server {
    /// Waits at `at`.
    ///
    /// # Errors
    /// When it cannot.
    pub fn new(at: SocketAddr, bench: Bench) -> Result<Self, LatError> {
        let listener = TcpListener::bind(at).map_err(|error| LatError::Listen { at, error })?;
        Ok(Self { listener, bench })
    }

    /// Serves one client until it has no more to measure: how many measurements that were.
    ///
    /// # Errors
    /// When the client goes away or the device fails.
    pub fn serve(&self) -> Result<usize, LatError> {
        let accepted = self.listener.accept();
        let (stream, peer) =
            accepted.map_err(|error| LatError::Gone { peer: "the listener".to_owned(), error })?;
        let mut talk = Talk::new(stream, peer.to_string());
        let mut measured = 0;
        while let Some(request) = talk.receive()? {
            let Request::Measure(plan, ends) = request else { continue };
            match self.measure(&plan, &ends, &mut talk) {
                Ok(came) => talk.send(&Answer::Done(came))?,
                Err(error @ LatError::Gone { .. }) => return Err(error),
                Err(error) => {
                    talk.send(&Answer::Refused(error.to_string()))?;
                    return Err(error);
                }
            }
            measured += 1;
        }
        Ok(measured)
    }

    fn measure(&self, plan: &Plan, theirs: &Ends, talk: &mut Talk) -> Result<u64, LatError> {
        let prepared = self.bench.prepare(plan)?;
        let ends = prepared.ends();
        let mut connected = prepared.connect(plan, theirs)?;
        talk.send(&Answer::Ready(ends))?;
        let came = match (plan.operation, plan.is_answered()) {
            (Operation::Send, answers) => receive(&mut connected, plan, answers, talk)?,
            (Operation::Write, true) => write_back(&mut connected, plan, talk)?,
            (Operation::Write, false) | (Operation::Read, _) => 0,
        };
        match talk.receive()? {
            Some(Request::Done) => Ok(came),
            _ => Err(talk.ended()),
        }
    }
}

/// Takes messages, and answers each if they are to be answered.
fn receive(
    connected: &mut Connected,
    plan: &Plan,
    answers: bool,
    talk: &mut Talk,
) -> Result<u64, LatError> {
    let expected = plan.messages() * plan.offsets.len() as u64;
    let mut came = Vec::with_capacity(64);
    let mut total = 0;
    // Unreliable messages may never come: the client says when it has sent the last one. Its word may overtake
    // them, so they are waited for after it too.
    let mut waits_since: Option<Instant> = None;
    let Plan { operation, size, depth, .. } = *plan;
    while total < expected {
        let count = connected.poll(Done::Receives)?;
        if count == 0 {
            if connected.watch.idle()? {
                match waits_since {
                    Some(since) if since.elapsed() > LOST => break,
                    None if talk.check_for_word()? => waits_since = Some(Instant::now()),
                    _ => {}
                }
            }
            continue;
        }
        waits_since = waits_since.map(|_| Instant::now());
        if answers {
            for nth in 0..count {
                let at = connected.whose(Done::Receives, nth)?;
                connected.flows[at].post(operation, size, false)?;
                came.push(at);
            }
        }
        connected.settle(Done::Receives, |_| {})?;
        connected.watch.fed();
        total += count as u64;
        for at in came.drain(..) {
            connected.make_room(at, depth)?;
        }
    }
    Ok(total)
}

/// Waits for marks and writes them back.
fn write_back(connected: &mut Connected, plan: &Plan, talk: &mut Talk) -> Result<u64, LatError> {
    let Plan { operation, size, depth, .. } = *plan;
    let mut next = vec![1_u64; connected.flows.len()];
    let get_ready = |connected: &mut Connected, at: usize, number: u64| {
        connected.make_room(at, depth)?;
        connected.mark(at, size, mark_of(number))
    };
    for at in 0..next.len() {
        get_ready(connected, at, 1)?;
    }
    let mut left = next.len();
    while left > 0 {
        let mut idle = true;
        for (at, next) in next.iter_mut().enumerate() {
            if *next > plan.messages() || connected.flows[at].mark(size) != mark_of(*next) {
                continue;
            }
            idle = false;
            connected.flows[at].post(operation, size, false)?;
            *next += 1;
            if *next <= plan.messages() {
                get_ready(connected, at, *next)?;
            } else {
                left -= 1;
            }
        }
        if !idle {
            connected.watch.fed();
        } else if connected.watch.idle()? && talk.check_for_word()? {
            break;
        }
    }
    Ok(next.iter().map(|next| next - 1).sum())
}

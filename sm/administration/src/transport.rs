//! MADs to requests, answers to MADs: RMPP for every method that asks for several records.
//!
//! Every message under way is kept until its receiver has acknowledged it, or has said nothing for long
//! enough. Clients that never acknowledge (ibsim's preload is one) cost the room of a message for that long;
//! when room is short, the oldest answer that was never acknowledged goes first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_mad::rmpp::{
    self, Expiry, Policy, Progress, Receiver, RmppStatus, RmppType, Sender, abort,
};
use snin_mad::sa::{DATA_AT, SaRequest};
use snin_mad::{Mad, Method, SmKey, Status, TransactionId};
use snin_protocol::Time;

use crate::answer::Answer;
use crate::metrics::Unanswered;
use snin_sm_database::mad_address::Origin;

/// How much may be under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// RMPP messages in each direction.
    pub messages: usize,
    /// Bytes of all messages that go out.
    pub bytes: usize,
    /// MADs that wait to be sent; beyond, requests are dropped.
    pub waiting: usize,
    /// Beyond, requests are refused as long as half as many again wait.
    pub busy: bool,
    /// How patient both sides are.
    pub policy: Policy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            messages: 4_096,
            bytes: 256 << 20,
            waiting: 16_384,
            busy: false,
            policy: Policy { longest: 64 << 10, ..Policy::default() },
        }
    }
}

/// Whose message it is.
type Key = (Origin, TransactionId);

/// What a MAD was.
#[derive(Debug)]
pub(super) enum Arrived {
    /// A request, or the answer to a report.
    Request(Box<SaRequest>),
    /// A part of something.
    Part,
}

#[derive(Debug)]
pub(super) struct Transport {
    limits: Limits,
    senders: BTreeMap<Key, Sender>,
    receivers: BTreeMap<Key, Receiver>,
    deadlines: BTreeSet<(Time, Key)>,
    /// Messages without any acknowledgement yet, the oldest first.
    unheard: BTreeMap<u64, Key>,
    began: BTreeMap<Key, u64>,
    count: u64,
    bytes: usize,
}

type Outputs = VecDeque<(Origin, Box<Mad>)>;

impl Transport {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            unheard: BTreeMap::new(),
            began: BTreeMap::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// Takes a MAD: a request as it is, or a part of a message. An ACK of any method is no request.
    pub(super) fn receive(
        &mut self,
        from: Origin,
        mad: &Mad,
        now: Time,
        outputs: &mut Outputs,
    ) -> Result<Arrived, Unanswered> {
        let key = (from, mad.header().transaction_id());
        if !rmpp::is_active(mad) || mad.rmpp().kind() == RmppType::None {
            let request = SaRequest::parse(mad).map_err(|_| Unanswered::Malformed)?;
            // While an answer is on its way the same question is no new one. Before the first acknowledgement
            // of it, it may be another's: programs number their questions from 1.
            if self.senders.get(&key).is_some_and(Sender::is_heard) {
                return Err(Unanswered::Repeated);
            }
            if outputs.len() >= self.limits.waiting {
                let most = self.limits.waiting + self.limits.waiting / 2;
                if self.limits.busy && outputs.len() < most {
                    outputs.extend(busy(&request).map(|answer| (from, answer)));
                }
                return Err(Unanswered::Overload);
            }
            return Ok(Arrived::Request(Box::new(request)));
        }
        match mad.rmpp().kind() {
            RmppType::Data => self.segment(key, mad, now, outputs),
            _ if self.senders.contains_key(&key) => {
                self.acknowledged(key, mad, now, outputs);
                Ok(Arrived::Part)
            }
            _ if self.receivers.contains_key(&key) => self.segment(key, mad, now, outputs),
            _ => Err(Unanswered::StrayRmpp),
        }
    }

    /// A part of a request that is longer than a MAD.
    fn segment(
        &mut self,
        key: Key,
        mad: &Mad,
        now: Time,
        outputs: &mut Outputs,
    ) -> Result<Arrived, Unanswered> {
        if !self.receivers.contains_key(&key) {
            if self.receivers.len() >= self.limits.messages {
                return Err(Unanswered::Overload);
            }
            let receiver = Receiver::new(mad, self.limits.policy, now);
            self.deadlines.insert((receiver.deadline(), key));
            self.receivers.insert(key, receiver);
        }
        let Some(receiver) = self.receivers.get_mut(&key) else { return Ok(Arrived::Part) };
        let was_done = receiver.is_done();
        let reception = receiver.receive(mad);
        outputs.extend(reception.reply.map(|reply| (key.0, Box::new(reply))));
        if reception.ended.is_some() {
            self.receivers.remove(&key);
            return Ok(Arrived::Part);
        }
        if was_done || !receiver.is_done() {
            return Ok(Arrived::Part);
        }
        // It stays, to acknowledge what comes again, until its time is over.
        let header = receiver.header().clone();
        let data = receiver.take().unwrap_or_default();
        let request = SaRequest::parse(&header).map_err(|_| Unanswered::Malformed)?;
        Ok(Arrived::Request(Box::new(SaRequest { data, ..request })))
    }

    fn acknowledged(&mut self, key: Key, mad: &Mad, now: Time, outputs: &mut Outputs) {
        let Some(sender) = self.senders.get_mut(&key) else { return };
        match sender.receive(mad, now) {
            Ok(Progress::Going) => {
                self.heard(key);
                self.pump(key, now, outputs);
            }
            Ok(Progress::Done | Progress::Ended(_)) => self.forget(key),
            Err(status) => {
                let refusal = sender.abort(status);
                outputs.push_back((key.0, Box::new(refusal)));
                self.forget(key);
            }
        }
    }

    /// Sends an answer: in one MAD, or as a message.
    pub(super) fn send(
        &mut self,
        to: Origin,
        request: &SaRequest,
        answer: Answer,
        now: Time,
        outputs: &mut Outputs,
    ) -> Result<(), Unanswered> {
        let Some(method) = request.method.response() else { return Err(Unanswered::NoRequest) };
        let Answer { status, attribute, stride, data } = answer;
        let response = SaRequest {
            method,
            status,
            attribute: attribute.unwrap_or(request.attribute),
            attribute_offset: stride,
            sm_key: SmKey(0),
            data,
            ..request.clone()
        };
        if !matches!(method, Method::GetTableResp | Method::GetMultiResp) || !status.is_ok() {
            outputs.push_back((to, Box::new(response.mad())));
            return Ok(());
        }
        let key = (to, request.transaction_id);
        self.forget(key);
        if !self.has_room_for(response.data.len()) {
            return Err(Unanswered::Overload);
        }
        let header = response.mad();
        debug_assert!(response.data.is_empty() || stride > 0);
        let sender = Sender::new(&header, response.data, self.limits.policy, now);
        debug_assert_eq!(DATA_AT, rmpp::data_at(snin_mad::Class::Administration));
        self.bytes += sender.bytes();
        self.count += 1;
        self.unheard.insert(self.count, key);
        self.began.insert(key, self.count);
        self.senders.insert(key, sender);
        self.pump(key, now, outputs);
        Ok(())
    }

    /// Makes room by giving up answers that were never acknowledged.
    fn has_room_for(&mut self, bytes: usize) -> bool {
        let full = |this: &Self| {
            this.senders.len() >= this.limits.messages || this.bytes + bytes > this.limits.bytes
        };
        while full(self) {
            let Some((_, &oldest)) = self.unheard.first_key_value() else { return false };
            self.forget(oldest);
        }
        true
    }

    /// Sends what may be sent of a message now.
    fn pump(&mut self, key: Key, now: Time, outputs: &mut Outputs) {
        let Some(sender) = self.senders.get_mut(&key) else { return };
        self.deadlines.remove(&(sender.deadline(), key));
        outputs.extend(std::iter::from_fn(|| sender.poll(now)).map(|mad| (key.0, Box::new(mad))));
        self.deadlines.insert((sender.deadline(), key));
    }

    fn heard(&mut self, key: Key) {
        if self.senders.get(&key).is_some_and(Sender::is_heard)
            && let Some(began) = self.began.remove(&key)
        {
            self.unheard.remove(&began);
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(sender) = self.senders.remove(&key) {
            self.bytes -= sender.bytes();
            self.deadlines.remove(&(sender.deadline(), key));
        }
        if let Some(began) = self.began.remove(&key) {
            self.unheard.remove(&began);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Repeats what was not acknowledged in time, and gives up what was repeated often enough; how many.
    pub(super) fn expire(&mut self, now: Time, outputs: &mut Outputs) -> u64 {
        let mut given_up = 0;
        while let Some(&(deadline, key)) = self.deadlines.first().filter(|(due, _)| *due <= now) {
            self.deadlines.remove(&(deadline, key));
            if let Some(sender) = self.senders.get_mut(&key) {
                match sender.expire(now) {
                    Expiry::Waits => {
                        let later = sender.deadline();
                        self.deadlines.insert((later, key));
                    }
                    Expiry::Again => self.pump(key, now, outputs),
                    Expiry::GivenUp(status) => {
                        // A requester that never acknowledged is gone, or does not know RMPP.
                        if sender.is_heard() {
                            outputs.push_back((key.0, Box::new(sender.abort(status))));
                        }
                        self.forget(key);
                        given_up += 1;
                    }
                }
            }
            if self.receivers.get(&key).is_some_and(|receiver| receiver.deadline() <= now)
                && let Some(receiver) = self.receivers.remove(&key)
                && !receiver.is_done()
            {
                let refusal = abort(receiver.header(), RmppStatus::TimeTooLong);
                outputs.push_back((key.0, Box::new(refusal)));
                given_up += 1;
            }
        }
        given_up
    }
}

/// That there is too much to do just now, to a request that has an answer.
fn busy(request: &SaRequest) -> Option<Box<Mad>> {
    let answer = SaRequest {
        method: request.method.response()?,
        status: Status::BUSY,
        attribute_offset: 0,
        sm_key: SmKey(0),
        data: Vec::new(),
        ..request.clone()
    };
    Some(Box::new(answer.mad()))
}

/// The same to a request as it came: none to what is no request, or a part of one.
pub(super) fn busy_answer(mad: &Mad) -> Option<Box<Mad>> {
    let whole = !rmpp::is_active(mad) || mad.rmpp().kind() == RmppType::None;
    let request = SaRequest::parse(mad).ok().filter(|_| whole)?;
    busy(&request)
}

//! All flows from here: they are opened and closed, take messages, hold grants, and wait in turn to post.

use snin_fabric::Guid;
use snin_protocol::Time;

use super::context::Context;
use super::events::{Decline, FlowId, Message, Notice, Wanted};
use super::flow::{Flow, FlowBuffers, RequestState};
use super::pairs::{Pairs, State};
use super::timers::Timer;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Flows {
    /// By number.
    open: Vec<Option<Flow>>,
    /// For flows to come.
    buffers: Vec<FlowBuffers>,
    /// The number of the first piece of a number's next flow: a receiver tells old from new by them.
    sequences: Vec<u64>,
    /// Flows with something to post, and which of them posted last.
    backlogged: Vec<u32>,
    last: usize,
    /// The controller has to be told something of a flow.
    pub(super) has_wishes: bool,
}

impl Flows {
    pub(super) fn new(limit: u32) -> Self {
        let limit = limit as usize;
        Self {
            open: (0..limit).map(|_| None).collect(),
            buffers: Vec::with_capacity(limit),
            sequences: vec![0; limit],
            backlogged: Vec::with_capacity(limit),
            last: 0,
            has_wishes: false,
        }
    }

    /// How many there can be.
    pub(super) fn limit(&self) -> u32 {
        self.open.len() as u32
    }

    /// The flow of a number below the limit.
    pub(super) fn get(&self, index: u32) -> Option<&Flow> {
        self.open[index as usize].as_ref()
    }

    /// As [`get`](Self::get), to be changed.
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Flow> {
        self.open[index as usize].as_mut()
    }

    /// The flow of a number that comes from outside.
    pub(super) fn find(&self, flow: FlowId) -> Option<&Flow> {
        self.open.get(flow.index())?.as_ref()
    }

    /// As [`find`](Self::find), to be changed.
    pub(super) fn find_mut(&mut self, flow: FlowId) -> Option<&mut Flow> {
        self.open.get_mut(flow.index())?.as_mut()
    }

    /// The open flows, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.open.iter().flatten()
    }

    /// As [`iter`](Self::iter), to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.open.iter_mut().flatten()
    }

    /// Opens a flow.
    ///
    /// # Errors
    /// When the number is taken, or none.
    pub(super) fn open(
        &mut self,
        context: &Context,
        flow: FlowId,
        to: (Guid, Wanted),
        now: Time,
    ) -> Result<(), Decline> {
        let &first = self.sequences.get(flow.index()).ok_or(Decline::NoSuchNumber)?;
        let place = &mut self.open[flow.index()];
        if place.is_some() {
            return Err(Decline::AlreadyOpen);
        }
        let buffers = self.buffers.pop().unwrap_or_else(|| FlowBuffers::new(&context.config));
        *place = Some(Flow::new(flow, to, first, buffers, now));
        Ok(())
    }

    /// A flow takes a message; whether the controller was not asked for the flow yet.
    ///
    /// # Errors
    /// When it is not open, or has as many messages as it may.
    pub(super) fn push(
        &mut self,
        context: &Context,
        flow: FlowId,
        message: Message,
    ) -> Result<bool, Decline> {
        let open = self.taking(flow)?;
        if !open.push(message, context.config.queue) {
            return Err(Decline::QueueFull(message.id));
        }
        Ok(open.is_unserved())
    }

    /// A flow takes no more messages.
    ///
    /// # Errors
    /// When it is not open.
    pub(super) fn close(&mut self, flow: FlowId) -> Result<(), Decline> {
        self.taking(flow).map(Flow::close)
    }

    /// A flow that takes messages.
    fn taking(&mut self, flow: FlowId) -> Result<&mut Flow, Decline> {
        self.find_mut(flow).filter(|flow| !flow.closing).ok_or(Decline::NotOpen)
    }

    /// A closed flow is gone.
    fn remove(&mut self, context: &mut Context, index: u32) {
        let Some(flow) = self.open[index as usize].take() else { return };
        self.sequences[index as usize] = flow.sequence;
        if flow.listed {
            self.backlogged.retain(|&backlogged| backlogged != index);
        }
        context.notify(Notice::Closed { flow: flow.id, unsent: flow.unsent });
        self.add_buffers(flow.into_buffers());
    }

    /// Keeps the memory of one more flow.
    pub(super) fn add_buffers(&mut self, buffers: FlowBuffers) {
        // More than there can be flows are of no use.
        if self.buffers.len() < self.open.len() {
            self.buffers.push(buffers);
        }
    }

    /// A flow that has something to post waits for its turn: itself, unless it waits already.
    pub(super) fn list(&mut self, index: u32) -> Option<&Flow> {
        let flow = self.open[index as usize].as_mut()?;
        if flow.listed || !flow.is_backlogged() {
            return None;
        }
        flow.listed = true;
        self.backlogged.push(index);
        Some(flow)
    }

    /// Flows with something to post.
    pub(super) fn backlogged(&self) -> &[u32] {
        &self.backlogged
    }

    /// The next of them; there is one.
    pub(super) fn take_turn(&mut self) -> u32 {
        self.last += 1;
        if self.last >= self.backlogged.len() {
            self.last = 0;
        }
        self.backlogged[self.last]
    }

    /// The flow whose turn it was waits no longer if it has nothing to post.
    pub(super) fn end_turn(&mut self, index: u32) {
        if let Some(flow) = self.get_mut(index).filter(|flow| !flow.is_backlogged()) {
            flow.listed = false;
            self.backlogged.swap_remove(self.last);
        }
    }

    /// Grants come into force and end.
    pub(super) fn advance(&mut self, context: &Context, index: u32, now: Time) {
        if let Some(flow) = self.get_mut(index)
            && flow.granted().next().is_some()
        {
            let (earliest, latest) = (context.clock.earliest(now), context.clock.latest(now));
            if let Some(next) = flow.next.take_if(|next| earliest >= next.from) {
                flow.current = Some(next);
            }
            flow.current.take_if(|current| latest >= context.end(current));
        }
    }

    /// Whether nothing of a flow is on any link.
    pub(super) fn is_clear(&self, pairs: &Pairs, index: u32, now: Time) -> bool {
        let Some(flow) = self.get(index) else { return true };
        let on = flow.on.and_then(|on| pairs.peek(on));
        let stopped = on.is_none_or(|pair| pair.state != State::Closing);
        flow.outstanding == 0 && now >= flow.settled && stopped
    }

    /// What a flow has to do by itself now: its grants, what the controller is to be told, its end.
    pub(super) fn tend(&mut self, context: &mut Context, pairs: &Pairs, index: u32, now: Time) {
        self.advance(context, index, now);
        self.wish(context, pairs, index, now);
        let clear = self.is_clear(pairs, index, now);
        let gone = |flow: &Flow| clear && flow.closing && flow.wish == RequestState::None;
        if self.get(index).is_some_and(gone) {
            self.remove(context, index);
        }
        self.arm(context, index, now);
    }

    /// What the controller is to be told of a flow.
    fn wish(&mut self, context: &Context, pairs: &Pairs, index: u32, now: Time) {
        let clear = self.is_clear(pairs, index, now);
        let Some(flow) = self.get_mut(index) else { return };
        let asks = flow.is_unserved() && !context.time_slots.cover(flow.peer);
        let lingered = flow.is_idle() && now >= flow.idle_since + context.config.linger;
        flow.wish = match flow.wish {
            RequestState::None if asks && now >= flow.ask_at => RequestState::Ask,
            RequestState::Ask if flow.closing => RequestState::None,
            RequestState::Asked(_) if clear && (flow.closing || lingered) => {
                (flow.current, flow.next) = (None, None);
                RequestState::Withdraw
            }
            wish => wish,
        };
        let has_wish = matches!(flow.wish, RequestState::Ask | RequestState::Withdraw);
        self.has_wishes |= has_wish;
    }

    /// Sets the timer for the next moment at which a flow has to do something by itself.
    pub(super) fn arm(&self, context: &mut Context, index: u32, now: Time) {
        let Context { clock, config, .. } = &*context;
        let Some(flow) = self.get(index) else { return };
        let asks = flow.is_unserved() && !context.time_slots.cover(flow.peer);
        let late = clock.surely_from(flow.clear_by + config.acknowledgement, now);
        let moments = [
            flow.next.map(|next| clock.surely_from(next.from, now)),
            flow.current.map(|current| clock.maybe_from(context.end(&current), now)),
            (flow.outstanding > 0).then_some(late),
            (flow.settled > now).then_some(flow.settled),
            asks.then_some(flow.ask_at),
            (flow.paced_until > now && flow.is_backlogged()).then_some(flow.paced_until),
            (matches!(flow.wish, RequestState::Asked(_)) && flow.is_idle())
                .then_some(flow.idle_since + config.linger),
        ];
        if let Some(at) = moments.into_iter().flatten().filter(|&at| at < Time::MAX).min() {
            context.timers.set(Timer::Flow(index), at.max(now + Time(1)));
        }
    }
}

//! Effects of a lease on the flows: which of them may send, which have to stop, and when that is confirmed.

use snin_protocol::Time;
use snin_protocol::collective::Collective;
use snin_protocol::message::{Answer, Grant, Lease, Verdict};

use super::context::Context;
use super::events::{FlowId, Notice};
use super::flow::RequestState;
use super::sending::Sender;

/// The leases of one session with the controller.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// The last that was followed.
    pub(super) last: u64,
    /// That has still to be confirmed.
    pub(super) is_unconfirmed: bool,
}

impl Leases {
    /// Follows a lease, if it is later than the last; whether it is.
    pub(super) fn follow(
        &mut self,
        context: &mut Context,
        sender: &mut Sender,
        lease: &Lease,
        now: Time,
    ) -> bool {
        if lease.sequence < self.last {
            context.counters.stale_lease += 1;
            return false;
        }
        self.is_unconfirmed = true;
        if lease.sequence == self.last {
            return false;
        }
        self.last = lease.sequence;
        context.counters.leases += 1;
        count_unasked(context, sender, lease);
        let collective = lease.collective.as_ref();
        let sound = collective.filter(|it| is_sound_collective(context, it, now));
        context.time_slots.follow(sound);
        for index in 0..sender.flows.limit() {
            let Some(flow) = sender.flows.get(index) else { continue };
            let connection = flow.id.into();
            let grants = flow.is_heard(lease.heard).then_some(&lease.grants);
            let grant = grants.and_then(|all| all.iter().find(|one| one.connection == connection));
            match grant {
                Some(grant) if is_sound(context, sender, index, grant, now) => {
                    sender.grant(context, index, grant, now);
                }
                // What its time slots give it follows below.
                _ if context.time_slots.cover(flow.peer) => continue,
                _ => sender.stop(index),
            }
            sender.tend(context, index, now);
        }
        sender.next_time_slot(context, now);
        for one in &lease.answers {
            answer(context, sender, one, lease.heard, now);
        }
        true
    }
}

fn count_unasked(context: &mut Context, sender: &Sender, lease: &Lease) {
    let asked = |grant: &&Grant| {
        let flow = sender.flows.find(FlowId(grant.connection.0));
        flow.is_some_and(|flow| flow.is_heard(lease.heard))
    };
    let asked = lease.grants.iter().filter(asked).count();
    context.counters.unasked_grants += (lease.grants.len() - asked) as u64;
}

/// Whether a grant says what a controller may say, and it is not too late for it.
fn is_sound(context: &mut Context, sender: &Sender, index: u32, grant: &Grant, now: Time) -> bool {
    let held = sender.flows.get(index).and_then(|flow| flow.current);
    let moves = held.is_some_and(|held| held.pinned && held.tree != grant.tree);
    let endless = grant.until - grant.from > context.config.longest_grant;
    if grant.from >= grant.until || endless || moves {
        context.counters.bad_grants += 1;
        return false;
    }
    let late = context.clock.latest(now) >= context.end(grant);
    context.counters.late_grants += u64::from(late);
    !late
}

/// As [`is_sound`], of a collective.
fn is_sound_collective(context: &mut Context, collective: &Collective, now: Time) -> bool {
    let begins = context.clock.earliest(now).max(collective.from);
    let endless = collective.until - begins > context.config.longest_grant;
    let sound = collective.is_sound() && !endless;
    context.counters.bad_grants += u64::from(!sound);
    sound
}

fn answer(context: &mut Context, sender: &mut Sender, answer: &Answer, heard: u64, now: Time) {
    let flow = FlowId(answer.connection.0);
    let open = sender.flows.find_mut(flow);
    let Some(open) = open.filter(|open| open.is_heard(heard)) else { return };
    match answer.verdict {
        Verdict::Served => {
            (open.wish, open.ask_at) = (RequestState::None, now);
        }
        Verdict::Deferred(wait) => {
            if open.wait.replace(wait) != Some(wait) {
                context.notify(Notice::Deferred { flow, wait });
            }
        }
        Verdict::Refused(refusal) => {
            (open.wish, open.ask_at) = (RequestState::None, now + context.config.ask_refused);
            context.notify(Notice::Refused { flow, refusal });
        }
    }
    sender.tend(context, flow.0, now);
}

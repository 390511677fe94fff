//! What a master that this manager has no copy of was told by hosts: its administration is asked.
//!
//! A standby reads groups, members and services with the trusted key, again and again. So a manager that takes
//! over from OpenSM, and is then cabled to another subnet, knows who is in which group before any host says so
//! again. Subscriptions cannot be had: their record does not say to which address reports go.

use snin_fabric::Lid;
use snin_mad::sa::{ComponentMask, McMemberRecord, Record, SaRequest, SaStatus, ServiceRecord};
use snin_mad::{AttributeId, Mad, Method, PKey};
use snin_protocol::Time;

use super::{Administration, Origin, Unanswered, World, membership, services};

/// How long an answer is waited for, with all its segments.
const PATIENCE: Time = Time::secs(5);
/// How long after the last answer all is asked again.
const REST: Time = Time::secs(10);
/// Transactions of these questions, apart from those of reports.
const FIRST: u64 = 0x5A00_0000;

/// What is asked, in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    Members,
    Services,
}

#[derive(Debug, Default)]
pub(super) struct Inquiry {
    master: Option<Lid>,
    kind: Kind,
    issued: u64,
    /// The question that is not answered yet.
    asked: Option<(u64, AttributeId)>,
    /// When the next one is put, or this one is given up.
    due: Time,
    /// Whole answers so far.
    pub(super) answers: u64,
}

impl Administration {
    /// Asks this master, when it is time; none, where a copy of its database comes by a session.
    pub(crate) fn inquire(&mut self, master: Option<Lid>, world: &World<'_>) {
        let (inquiry, now) = (&mut self.inquiry, world.now);
        if inquiry.master != master {
            let (issued, answers) = (inquiry.issued, inquiry.answers);
            *inquiry = Inquiry { master, issued, answers, due: now, ..Inquiry::default() };
        }
        let Some(lid) = master.filter(|_| inquiry.due <= now) else { return };
        if inquiry.asked.take().is_some() {
            (inquiry.kind, inquiry.due) = (Kind::default(), now + REST);
            return;
        }
        inquiry.issued += 1;
        let id = FIRST | inquiry.issued & 0xFF_FFFF;
        let (mad, attribute) = match inquiry.kind {
            Kind::Members => question::<McMemberRecord>(world, id),
            Kind::Services => question::<ServiceRecord>(world, id),
        };
        (inquiry.asked, inquiry.due) = (Some((id, attribute)), now + PATIENCE);
        let to = Origin { lid, qp: 1, sl: 0, p_key: PKey::DEFAULT };
        self.outputs.push_back((to, Box::new(mad)));
    }

    /// When the next question is put, or given up.
    pub(super) fn inquiry_due(&self) -> Option<Time> {
        self.inquiry.master.map(|_| self.inquiry.due)
    }

    /// The answer to a question.
    pub(super) fn learn(
        &mut self,
        from: Origin,
        answer: &SaRequest,
        world: &mut World<'_>,
    ) -> Result<(), Unanswered> {
        let inquiry = &mut self.inquiry;
        // A kernel keeps the upper half of a transaction's number for itself.
        let id = answer.transaction_id.0 & 0xFFFF_FFFF;
        let is_its = inquiry.asked == Some((id, answer.attribute));
        if !is_its || inquiry.master != Some(from.lid) {
            return Err(Unanswered::NoRequest);
        }
        inquiry.asked = None;
        let (next, due) = match inquiry.kind {
            Kind::Members => (Kind::Services, world.now),
            Kind::Services => (Kind::Members, world.now + REST),
        };
        let kind = std::mem::replace(&mut inquiry.kind, next);
        inquiry.due = due;
        let is_none = answer.status == SaStatus::NO_RECORDS;
        if !is_none && (!answer.status.is_ok() || answer.method != Method::GetTableResp) {
            return Ok(());
        }
        inquiry.answers += 1;
        match kind {
            Kind::Members => membership::learn(&answer.records().collect::<Vec<_>>(), world),
            Kind::Services => services::learn(answer.records(), world),
        }
        Ok(())
    }
}

/// All records of a kind, with the trusted key.
fn question<R: Record + Default>(world: &World<'_>, id: u64) -> (Mad, AttributeId) {
    let request = SaRequest::new(Method::GetTable, &R::default(), ComponentMask::of(&[]));
    (request.key(world.config.sa_key).transaction(id).mad(), R::ID)
}

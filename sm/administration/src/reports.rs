//! Reports on their way to subscribers: awaited, repeated, given up (IBA 13.4.11).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_mad::sa::{ComponentMask, SaNotice, SaRequest};
use snin_mad::{Mad, Method, TransactionId};
use snin_protocol::Time;

use crate::metrics::{AdministrationMetrics, Unanswered};
use snin_sm_database::mad_address::Origin;

/// How long a subscriber may take.
const PATIENCE: Time = Time::millis(1_000);
/// How often a report is sent.
const ATTEMPTS: u32 = 4;
/// Reports under way; beyond, the oldest is given up.
const MOST: usize = 65_536;
/// Where our transaction ids begin: not where SMPs' do.
const FIRST: u32 = 0x5A00_0000;

#[derive(Debug)]
struct Report {
    to: Origin,
    mad: Box<Mad>,
    attempts: u32,
    deadline: Time,
}

#[derive(Debug, Default)]
pub(super) struct Reports {
    under_way: BTreeMap<u32, Report>,
    deadlines: BTreeSet<(Time, u32)>,
    count: u32,
}

type Outputs = VecDeque<(Origin, Box<Mad>)>;

impl Reports {
    pub(super) fn send(
        &mut self,
        to: Origin,
        notice: &SaNotice,
        now: Time,
        outputs: &mut Outputs,
        metrics: &mut AdministrationMetrics,
    ) {
        if self.under_way.len() >= MOST
            && let Some((&oldest, _)) = self.under_way.first_key_value()
        {
            self.forget(oldest);
            metrics.reports_given_up += 1;
        }
        let id = FIRST.wrapping_add(self.count);
        self.count = self.count.wrapping_add(1);
        let request = SaRequest::new(Method::Report, notice, ComponentMask(0));
        let request = SaRequest { attribute_offset: 0, ..request.transaction(id.into()) };
        let mad = Box::new(request.mad());
        let deadline = now + PATIENCE;
        outputs.push_back((to, mad.clone()));
        metrics.reports += 1;
        self.deadlines.insert((deadline, id));
        self.under_way.insert(id, Report { to, mad, attempts: 1, deadline });
    }

    /// A subscriber says that a report arrived.
    pub(super) fn acknowledged(
        &mut self,
        from: Origin,
        transaction_id: TransactionId,
    ) -> Result<(), Unanswered> {
        let id = transaction_id.0 as u32;
        let report = self.under_way.get(&id).filter(|report| report.to.lid == from.lid);
        report.ok_or(Unanswered::StrayReport)?;
        self.forget(id);
        Ok(())
    }

    fn forget(&mut self, id: u32) {
        if let Some(report) = self.under_way.remove(&id) {
            self.deadlines.remove(&(report.deadline, id));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    pub(super) fn expire(
        &mut self,
        now: Time,
        outputs: &mut Outputs,
        metrics: &mut AdministrationMetrics,
    ) {
        while let Some(&(deadline, id)) = self.deadlines.first().filter(|(due, _)| *due <= now) {
            self.deadlines.remove(&(deadline, id));
            let Some(report) = self.under_way.get_mut(&id) else { continue };
            if report.attempts >= ATTEMPTS {
                self.under_way.remove(&id);
                metrics.reports_given_up += 1;
                continue;
            }
            report.attempts += 1;
            report.deadline = now + PATIENCE;
            self.deadlines.insert((report.deadline, id));
            outputs.push_back((report.to, report.mad.clone()));
            metrics.reports += 1;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.under_way.clear();
        self.deadlines.clear();
    }
}

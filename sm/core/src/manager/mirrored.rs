//! The manager's mirror: its turn, and what the other cores learn of it.

use std::sync::Arc;

use snin_protocol::Time;

use super::Manager;
use crate::events::Output;
use crate::report::Report;
use snin_mastership::mirror::{Mirror, MirrorReport, MirrorState, Surroundings};

impl Manager {
    /// Whether others can read what is said in sessions with other managers: then no M_Key is told.
    pub const fn set_readable(&mut self, readable: bool) {
        self.mirror.set_readable(readable);
    }

    /// How far each copy of this manager's database is, and its own of another's.
    pub fn mirrors(&self) -> Vec<MirrorState> {
        self.mirror.states(self.database.cursor())
    }

    /// The mirror has its turn, and what it learnt becomes known to the others.
    pub(super) fn mirror(
        &mut self,
        now: Time,
        turn: impl FnOnce(&mut Mirror, &mut Surroundings<'_>),
    ) {
        let mut saved = self.sweep.saved().clone();
        let mut around = Surroundings {
            state: self.mastership.state(),
            guid: self.mastership.info().map(|own| own.guid),
            leads: self.sweep.leads() && !self.mastership.is_cut(),
            beside: self.mastership.is_beside(),
            followed: self.mastership.followed(),
            database: &mut self.database,
            saved: &mut saved,
            now,
        };
        turn(&mut self.mirror, &mut around);
        self.mirror.follow(&mut around);
        if !Arc::ptr_eq(&saved, self.sweep.saved()) {
            self.sweep.adopt(saved);
        }
        self.mastership.set_copying(self.mirror.copying(), self.mirror.kin());
        // Without the secret from which the keys follow, ports take no writes.
        let usable = self.mirror.tells_secrets() || !self.sweep.generates_keys();
        self.mastership.set_copy(self.mirror.copy().filter(|_| usable));
        if let Some(guid) = self.mirror.take_successor() {
            self.mastership.succeeded(guid, now);
        }
        self.inherit(now);
        self.mastership.set_awaited(self.mirror.awaited(), now);
        while let Some((guid, state)) = self.mirror.next_heard() {
            self.mastership.spoke(guid, state, now);
        }
        while let Some(report) = self.mirror.next_report() {
            if matches!(report, MirrorReport::Complete { .. }) {
                self.sweep.recall_clients();
                self.mastership.set_blank(false);
            }
            self.outputs.push_back(Output::Report(Report::Mirror(report)));
        }
        while let Some(output) = self.mirror.poll_output() {
            self.outputs.push_back(Output::Mirror(output));
        }
    }
}

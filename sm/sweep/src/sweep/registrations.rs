//! What hosts told their manager, and have to tell it again: it was forgotten, or what they were told has changed.

use std::collections::BTreeSet;

use snin_fabric::Guid;

use super::Sweep;

/// The most ports that are gone of which it is remembered that their hosts have to register again.
const MOST: usize = 65_536;

/// Whose hosts have to register again.
#[derive(Default)]
pub(super) struct Registrations {
    /// Ports. Who is told is taken out.
    lapsed: BTreeSet<Guid>,
    /// Nothing is known of what any host registered.
    forgot: bool,
}

impl Registrations {
    /// Ports whose hosts are to be told.
    pub(super) const fn lapsed(&self) -> &BTreeSet<Guid> {
        &self.lapsed
    }

    /// These ports are there: where everything was forgotten, all of them are to be told.
    pub(super) fn found(&mut self, ports: impl Iterator<Item = Guid>) {
        if std::mem::take(&mut self.forgot) {
            self.lapsed.extend(ports);
        }
    }

    /// A port's host was told.
    pub(super) fn told(&mut self, port: Guid) {
        self.lapsed.remove(&port);
    }
}

impl Sweep {
    /// What a port's host had registered is forgotten: should the port return, its host is told.
    pub fn lapse(&mut self, port: Guid) {
        let lapsed = &mut self.registrations.lapsed;
        if lapsed.len() < MOST {
            lapsed.insert(port);
        }
    }

    /// What hosts had registered was not kept: all that are found are told.
    pub const fn forget_clients(&mut self) {
        self.registrations.forgot = true;
    }

    /// What hosts had registered is known after all.
    pub const fn recall_clients(&mut self) {
        self.registrations.forgot = false;
    }
}

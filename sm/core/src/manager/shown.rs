//! What a manager shows of itself and of the subnet; nothing here changes it.

use std::sync::Arc;

use snin_fabric::routing::Engine;
use snin_mad::SmState;
use snin_protocol::Time;

use super::Manager;
use snin_administration::AdministrationMetrics;
use snin_configuration::Configuration;
use snin_mastership::mastership::Standing;
use snin_sm_database::merge::{Entry, Snapshot};
use snin_sm_database::records::{Database, Stamp};
use snin_sm_database::seen::Seen;
use snin_sweep::FabricView;
use snin_sweep::Metrics;
use snin_sweep::Missing;

impl Manager {
    /// What the sweep core counted.
    pub fn metrics(&self) -> &Metrics {
        self.sweep.metrics()
    }

    /// What administration counted.
    pub const fn administration(&self) -> &AdministrationMetrics {
        self.administration.metrics()
    }

    /// Whether the fabric is as it was meant to be, for all that is known, even if groups are under way,
    /// or tables of lanes that hosts asked for.
    pub fn has_swept(&self) -> bool {
        self.sweep.has_swept()
    }

    /// How tables are to be made.
    pub const fn routing(&self) -> Engine {
        self.config.routing
    }

    /// Whether who asks while there is no room is to be told so.
    pub const fn tells_busy(&self) -> bool {
        self.config.sa_busy
    }

    /// Requests to administration that wait for a discovery.
    pub fn undiscovered(&self) -> usize {
        self.administration.undiscovered()
    }

    /// What is expected of the fabric, and how its ports are.
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The fabric as it was last seen.
    pub fn seen(&self) -> Seen {
        self.sweep.seen()
    }

    /// What is known of the subnet.
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// The database as a file and a merge have it, with the addresses of absent ports. `name` is what the subnet
    /// is called; without one, its master's GUID. `None` before the manager knows at which port it is.
    pub fn snapshot(&self, name: &str, now: Time) -> Option<Snapshot> {
        let own = self.sweep.own_guid()?;
        let saved = self.sweep.saved();
        let master = saved.lineage.master.unwrap_or(own);
        let name = if name.is_empty() { master.to_string() } else { name.to_owned() };
        let mut snapshot = Snapshot::new(master, &name, self.config.priority);
        let mut lineage = saved.lineage.clone();
        lineage.names.extend(self.sweep.partition_names());
        lineage.fill(&mut snapshot);
        for (port, table) in self.sweep.port_tables(saved) {
            snapshot.note_table(port, table);
        }
        snapshot.clock = self.database.clock(now);
        snapshot.prefix = self.config.subnet_prefix();
        let stamp = Stamp { time: Time::ZERO, count: 0, origin: own };
        for (&guid, &block) in &saved.lids {
            snapshot.lids.insert(guid, Entry { value: Some(block), stamp });
        }
        snapshot.fill(&self.database, self.epoch);
        Some(snapshot)
    }

    /// The last view published.
    pub fn view(&self) -> Option<&Arc<FabricView>> {
        self.sweep.view()
    }

    /// Whether this manager is master, or what else.
    pub const fn state(&self) -> SmState {
        self.mastership.state()
    }

    /// Why it is what it is.
    pub fn why(&self) -> &str {
        self.mastership.why()
    }

    /// Every manager of the subnet that is known, this one first.
    pub fn managers(&self, now: Time) -> Vec<Standing> {
        self.mastership.standings(now)
    }

    /// What keeps the fabric from being complete, by name.
    pub fn missing(&self) -> Vec<Missing> {
        self.sweep.missing()
    }

    /// What a complete fabric may do without and somebody may miss: cables that were there. And masters of another
    /// key, beside which nothing is written, before a sweep can say so.
    pub fn noticed(&self) -> (Vec<Missing>, &[Missing]) {
        (self.sweep.uncabled(), self.sweep.rivals())
    }

    /// Pairs of switches whose service level is another since the last change.
    pub fn relevelled_pairs(&self) -> usize {
        self.sweep.relevelled_pairs()
    }

    /// Links in use that are slower than both their ends can be.
    pub fn slow(&self) -> Vec<Missing> {
        self.sweep.slow()
    }

    /// Whether M_Keys are generated, so that [`Event::RotateKeys`](crate::Event::RotateKeys) changes them.
    pub fn generates_keys(&self) -> bool {
        self.sweep.generates_keys()
    }

    /// Whether nothing is being asked, computed or written.
    pub fn is_idle(&self) -> bool {
        let administration = &self.administration;
        self.sweep.is_idle()
            && self.outputs.is_empty()
            && !self.owes_groups
            && administration.waiting() == 0
    }

    /// SMPs in flight.
    pub fn in_flight(&self) -> usize {
        self.sweep.in_flight()
    }
}

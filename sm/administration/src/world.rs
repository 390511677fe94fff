//! What the rest of the manager gives administration for a turn.

use snin_mad::sa::SaNotice;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::fabric_state::{FabricState, Published};
use snin_sm_database::records::Database;

/// What administration reads and writes besides its own state.
pub struct World<'a> {
    /// What the operator wants.
    pub config: &'a Config,
    /// What answers are made of, and where it is kept what hosts say.
    pub database: &'a mut Database,
    /// The fabric as it is used; none before it is up, or while another manager is master.
    pub view: Option<&'a dyn Published>,
    /// Another manager is master by now: what hosts ask is answered, what they tell is for the new one.
    pub read_only: bool,
    /// What switches hold.
    pub sweep: &'a dyn FabricState,
    /// The time of the turn.
    pub now: Time,
    /// What subscribers are to be told when the turn ends.
    pub notices: Vec<SaNotice>,
}

//! Which M_Key guards which port (IBA 14.2.4): the operator's, or generated ones.
//!
//! A generated key is a function of a secret, a generation and, where each port has a key of its own, the
//! port's GUID: the first 64 bits of the ChaCha20 stream with the secret as its key and the GUID as its
//! number. So nothing but the secret and the generation has to be stored. A node that knows one port's key knows
//! no other's, and the keys of past generations are known for ports that missed a change.

use serde::{Deserialize, Serialize};
use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use snin_fabric::{Guid, PortNum};
use snin_mad::MKey;

use crate::config::Config;
use crate::error::ConfigError;
use crate::graph::{Graph, Lock};
use crate::planning::Saved;
use crate::query::{NodeId, PortId, Query};

/// Where M_Keys come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum KeyPolicy {
    /// From the operator: one for all ports, or none.
    #[default]
    Given,
    /// Generated, one for all ports.
    One,
    /// Generated, one for each port. Only with protection levels 0 and 1: at higher levels the manager could not
    /// ask a port who it is, to know its key.
    PerPort,
}

/// What generated keys follow from. Secret; has to survive a restart.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret {
    /// Random bytes, which must be kept secret.
    pub secret: [u8; 32],
    /// How often the keys were changed.
    pub generation: u32,
}

/// The generation of what is no secret but a key that an operator gave.
const GIVEN: u32 = u32::MAX;

impl KeySecret {
    /// An operator's key, from which nothing follows but itself.
    pub(crate) fn given(key: MKey) -> Self {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&key.0.to_be_bytes());
        Self { secret, generation: GIVEN }
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySecret").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// Past generations whose keys are tried where a port hides another key than its own.
const PAST: u32 = 7;

/// The keys of every port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring {
    policy: KeyPolicy,
    given: MKey,
    level: u8,
    lease: u16,
    secret: Option<KeySecret>,
    /// Those of subnets that were joined to this one.
    former: Vec<KeySecret>,
}

impl Keyring {
    pub(crate) fn new(config: &Config, saved: &Saved) -> Result<Self, ConfigError> {
        let secret = saved.keys.as_ref();
        let (policy, level) = (config.m_key_policy, config.m_key_protect);
        if policy != KeyPolicy::Given && secret.is_none() {
            return Err(ConfigError::NoSecret);
        }
        if policy == KeyPolicy::PerPort && level > 1 {
            return Err(ConfigError::HiddenPorts(level));
        }
        let (given, lease) = (MKey(config.m_key), config.m_key_lease_s);
        let former = saved.former_keys.clone();
        Ok(Self { policy, given, level, lease, secret: secret.cloned(), former })
    }

    /// The secret after another generation began, if keys are generated.
    pub(crate) fn rotate(&mut self) -> Option<&KeySecret> {
        let secret = self.secret.as_mut().filter(|_| self.policy != KeyPolicy::Given)?;
        secret.generation = secret.generation.checked_add(1)?;
        self.secret.as_ref()
    }

    /// The key that the port with this GUID shall have; 0: none.
    pub(crate) fn wanted(&self, guid: Guid) -> MKey {
        match &self.secret {
            Some(secret) if self.policy != KeyPolicy::Given => {
                generated(secret, secret.generation, self.number(guid))
            }
            _ => self.given,
        }
    }

    /// The key, level and lease that it shall have; none of them without a key.
    fn protection(&self, guid: Guid) -> (MKey, u8, u16) {
        match self.wanted(guid) {
            MKey(0) => (MKey(0), 0, 0),
            key => (key, self.level, self.lease),
        }
    }

    /// The n-th key that the port may have: its own, those of past generations, the operator's, and those of
    /// subnets that were joined to this one, where either policy may have been in force.
    fn candidate(&self, guid: Guid, nth: u8) -> Option<MKey> {
        let secret = self.secret.as_ref().filter(|_| self.policy != KeyPolicy::Given);
        let number = self.number(guid);
        let own =
            secret.into_iter().flat_map(past).map(|(secret, at)| generated(secret, at, number));
        let given = Some(self.given).filter(|given| secret.is_none() || *given != MKey(0));
        let former = self.former.iter().flat_map(past);
        let former =
            former.flat_map(|(secret, at)| [0, guid.0].map(|of| generated(secret, at, of)));
        own.chain(given).chain(former).nth(usize::from(nth))
    }

    /// The number of the port's stream.
    const fn number(&self, guid: Guid) -> u64 {
        match self.policy {
            KeyPolicy::PerPort => guid.0,
            _ => 0,
        }
    }
}

/// The generations of a secret whose keys are tried, the last first.
fn past(secret: &KeySecret) -> impl Iterator<Item = (&KeySecret, u32)> {
    let most = if secret.generation == GIVEN { 0 } else { PAST };
    (0..=secret.generation.min(most)).map(move |back| (secret, secret.generation - back))
}

fn generated(secret: &KeySecret, generation: u32, number: u64) -> MKey {
    if generation == GIVEN {
        let given = secret.secret.first_chunk().map_or(0, |key| u64::from_be_bytes(*key));
        return MKey(given);
    }
    let mut stream = ChaCha20Rng::from_seed(secret.secret);
    stream.set_stream(number);
    // Two words of 32 bits a key.
    stream.set_word_pos(u128::from(generation) * 2);
    // 0 would be none.
    MKey(stream.next_u64().max(1))
}

impl Graph {
    /// The port whose key guards this one: port 0 of a switch guards the whole switch, each port of an end
    /// node itself (IBA 14.2.4).
    pub(crate) fn guard(&self, (id, port): PortId) -> PortId {
        (id, if self.node(id).is_switch() { PortNum::ZERO } else { port })
    }

    /// The key that guards a port, where it is shown.
    pub(crate) fn key(&self, end: PortId) -> Option<MKey> {
        let key = self.port(self.guard(end))?.info.as_ref()?.m_key;
        (key != MKey(0)).then_some(key)
    }

    /// Whether a port may have a key that it does not show.
    pub(crate) fn hides_key(&self, end: PortId) -> bool {
        let info = self.port(self.guard(end)).and_then(|port| port.info.as_ref());
        info.is_some_and(|info| info.m_key == MKey(0) && info.m_key_protect > 0)
    }

    /// The GUID that a port's key follows from.
    fn key_guid(&self, end: PortId) -> Guid {
        let node = self.node(end.0);
        if node.is_switch() {
            return node.guid();
        }
        let own = (node.info.local_port == end.1).then_some(node.info.port_guid);
        self.port(end).and_then(|port| port.guid).or(own).unwrap_or_default()
    }

    /// The key, level and lease that a port shall have.
    pub(crate) fn protection(&self, end: PortId) -> (MKey, u8, u16) {
        self.keyring.protection(self.key_guid(end))
    }

    /// The key to show a port: the one that it shows, of any manager, else the one that it should have, or
    /// the next that it may have. `further`: so many after that.
    pub(crate) fn key_to_show(&self, end: PortId, further: u8) -> MKey {
        let guid = self.key_guid(end);
        let nth = match (self.key(end), further) {
            (Some(key), 0) => return key,
            (Some(_), further) => further - 1,
            (None, further) => {
                let guess = self.port(self.guard(end)).map_or(0, |port| port.guess);
                guess.saturating_add(further)
            }
        };
        self.keyring.candidate(guid, nth).unwrap_or_else(|| self.keyring.wanted(guid))
    }

    /// The key to show the port that is asked.
    pub(crate) fn key_to_ask(&self, query: Query, further: u8) -> MKey {
        match query {
            Query::ReadPort(id, port)
            | Query::ReadKeys(id, port, _)
            | Query::ReadQosTable(id, port, _)
            | Query::Tell(id, port)
            | Query::Bridge(id, port, _)
            | Query::ReadManager(id, port) => self.key_to_show((id, port), further),
            // The port is not known yet.
            Query::Identify(_) | Query::Probe(_) | Query::Step(_) => {
                let nobody = Guid::default();
                let candidate = self.keyring.candidate(nobody, further);
                candidate.unwrap_or_else(|| self.keyring.wanted(nobody))
            }
            Query::Own(port) => match self.home(port) {
                Some(end) => self.key_to_show(end, further),
                None => self.keyring.wanted(Guid::default()),
            },
            Query::Describe(id)
            | Query::ReadSwitch(id)
            | Query::ClearChange(id)
            | Query::ReadBlock(id, _)
            | Query::ReadMasks(id, ..)
            | Query::Order(id, ..) => self.key_to_show(self.any_end(id), further),
            Query::Trial(via, _) => {
                let behind = self.link(via).map_or(via, |link| link.to);
                self.key_to_show(behind, further)
            }
        }
    }

    fn any_end(&self, id: NodeId) -> PortId {
        self.guard((id, self.node(id).info.local_port))
    }

    /// A port that was read, by the key that was `known` for its own if there was one, hides its key: whether
    /// there is another that may be it, which it is shown from now on.
    pub(crate) fn guess_key(&mut self, end: PortId, known: bool) -> bool {
        let (guid, hides) = (self.key_guid(end), self.hides_key(end));
        let Some(port) = self.port(end) else { return false };
        let guess = if known { 0 } else { port.guess.saturating_add(1) };
        let more = hides && self.keyring.candidate(guid, guess).is_some();
        if let Some(port) = self.port_mut(end) {
            port.guess = if more { guess } else { 0 };
        }
        more
    }

    /// Whether a port takes no writes.
    pub(crate) fn is_locked(&self, end: PortId) -> bool {
        self.port(self.guard(end)).is_some_and(|port| port.locked.is_some())
    }

    /// The port takes no writes: it is left as it is. With a switch, so is what only it leads to.
    pub(crate) fn lock(&mut self, end: PortId, why: Lock) {
        let guard = self.guard(end);
        if let Some(port) = self.port_mut(guard) {
            port.locked = Some(why);
        }
        if self.node(end.0).is_switch() {
            self.node_mut(end.0).switch = None;
            self.retrace();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(policy: KeyPolicy, generation: u32) -> Keyring {
        let config =
            Config { m_key: 5, m_key_protect: 1, m_key_policy: policy, ..Config::default() };
        let keys = Some(KeySecret { secret: [7; 32], generation });
        Keyring::new(&config, &Saved { keys, ..Saved::default() }).unwrap()
    }

    #[test]
    fn keys_differ_by_port_and_generation_where_they_shall() {
        let (one, each) = (keyring(KeyPolicy::One, 3), keyring(KeyPolicy::PerPort, 3));
        let ports = [Guid(1), Guid(2)];
        assert_eq!(one.wanted(ports[0]), one.wanted(ports[1]));
        assert_ne!(each.wanted(ports[0]), each.wanted(ports[1]));
        for mut ring in [one, each] {
            let before = ring.wanted(ports[0]);
            ring.rotate().unwrap();
            assert_eq!(ring.candidate(ports[0], 1), Some(before));
            let all: Vec<_> = (0..).map_while(|n| ring.candidate(ports[0], n)).collect();
            // This generation, four before it, the operator's.
            assert_eq!(all.len(), 6);
            assert_eq!((all[0], all[5]), (ring.wanted(ports[0]), MKey(5)));
            assert!((1..6).all(|n| !all[..n].contains(&all[n])), "{all:?}");
        }
        // A subnet that was joined: its keys are tried last, by either policy.
        let mut joined = keyring(KeyPolicy::PerPort, 0);
        joined.former = vec![KeySecret { secret: [7; 32], generation: 3 }];
        let theirs = [KeyPolicy::One, KeyPolicy::PerPort].map(|policy| keyring(policy, 3));
        let all: Vec<_> = (0..).map_while(|n| joined.candidate(ports[0], n)).collect();
        assert_eq!(all.len(), 2 + 2 * 4);
        assert_eq!(all[2..4], theirs.map(|ring| ring.wanted(ports[0])));
        let given = keyring(KeyPolicy::Given, 3);
        assert_eq!((given.wanted(Guid(1)), given.candidate(Guid(1), 1)), (MKey(5), None));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let config = |policy, level| Config {
            m_key_policy: policy,
            m_key_protect: level,
            ..Config::default()
        };
        let secret = KeySecret { secret: [1; 32], generation: 0 };
        let refused = |policy, level, secret: Option<&KeySecret>| {
            let saved = Saved { keys: secret.cloned(), ..Saved::default() };
            Keyring::new(&config(policy, level), &saved).err()
        };
        assert_eq!(refused(KeyPolicy::One, 1, None), Some(ConfigError::NoSecret));
        let hidden = refused(KeyPolicy::PerPort, 2, Some(&secret));
        assert_eq!(hidden, Some(ConfigError::HiddenPorts(2)));
        assert_eq!(refused(KeyPolicy::One, 3, Some(&secret)), None);
        assert!(!format!("{secret:?}").contains("secret:"));
    }
}

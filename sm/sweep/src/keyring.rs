//! Which M_Key guards which port (IBA 14.2.4): the operator's, or generated ones.
//!
//! A generated key is a function of a secret, a generation and, where each port has a key of its own, the
//! port's GUID: the first 64 bits of the ChaCha20 stream with the secret as its key and the GUID as its
//! number. So nothing but the secret and the generation has to be stored. A node that knows one port's key knows
//! no other's, and the keys of past generations are known for ports that missed a change.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use snin_fabric::Guid;
use snin_mad::MKey;

use snin_sm_database::config::Config;
use snin_sm_database::error::ConfigError;
use snin_sm_database::keys::{GIVEN, KeyPolicy, KeySecret};
use snin_sm_database::saved::Saved;

/// Past generations whose keys are tried where a port hides another key than its own.
const PAST: u32 = 7;

/// The keys of every port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring {
    policy: KeyPolicy,
    given: MKey,
    /// The operator's from before.
    given_before: Vec<MKey>,
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
        let given_before = config.former_m_keys.iter().copied().map(MKey).collect();
        Ok(Self { policy, given, given_before, level, lease, secret: secret.cloned(), former })
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
    pub(crate) fn protection(&self, guid: Guid) -> (MKey, u8, u16) {
        match self.wanted(guid) {
            MKey(0) => (MKey(0), 0, 0),
            key => (key, self.level, self.lease),
        }
    }

    /// The n-th key that the port may have: its own, those of past generations, the operator's, now and before,
    /// and those of subnets that were joined to this one, where either policy may have been in force.
    pub(crate) fn candidate(&self, guid: Guid, nth: u8) -> Option<MKey> {
        let secret = self.secret.as_ref().filter(|_| self.policy != KeyPolicy::Given);
        let number = self.number(guid);
        let own =
            secret.into_iter().flat_map(past).map(|(secret, at)| generated(secret, at, number));
        let given = Some(self.given).filter(|given| secret.is_none() || *given != MKey(0));
        let former = self.former.iter().flat_map(past);
        let former =
            former.flat_map(|(secret, at)| [0, guid.0].map(|of| generated(secret, at, of)));
        let before = self.given_before.iter().copied().filter(|before| *before != self.given);
        own.chain(given).chain(before).chain(former).nth(usize::from(nth))
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

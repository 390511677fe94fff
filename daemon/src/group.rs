//! The group whose members may open a daemon's Unix sockets.

use std::fmt;

use nix::unistd::Group;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::settings::{Loaded, SettingsError};

/// What the setting `socket_group` says: a name, or a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupName(String);

/// A group of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketGroup(u32);

/// There is no such group. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoGroup {
    /// The machine has no group of this name.
    #[error(
        "there is no group {0} on this machine: `getent group` lists them, and a number is taken as it is"
    )]
    Unknown(String),
    /// The system cannot say it.
    #[error("group {name} cannot be looked up: {error}")]
    System {
        /// Which.
        name: String,
        /// The system's error.
        error: nix::Error,
    },
}

impl GroupName {
    /// The group of that name, as the system's own services know it.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self) -> Result<SocketGroup, NoGroup> {
        if let Ok(number) = self.0.parse() {
            return Ok(SocketGroup(number));
        }
        match Group::from_name(&self.0) {
            Ok(Some(group)) => Ok(SocketGroup(group.gid.as_raw())),
            Ok(None) => Err(NoGroup::Unknown(self.0.clone())),
            Err(error) => Err(NoGroup::System { name: self.0.clone(), error }),
        }
    }
}

/// The group that a file of settings names under `socket_group`, if it does.
///
/// # Errors
/// When there is none, with the line.
pub fn configured<T>(
    loaded: &Loaded<T>,
    name: Option<&GroupName>,
) -> Result<Option<SocketGroup>, SettingsError> {
    let refuse = |error| loaded.refuse("socket_group", format_args!("socket_group: {error}"));
    name.map(|name| name.find().map_err(refuse)).transpose()
}

impl SocketGroup {
    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl Serialize for GroupName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for GroupName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Named;
        impl de::Visitor<'_> for Named {
            type Value = GroupName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name or the number of a group")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GroupName, E> {
                Ok(GroupName(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<GroupName, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                u32::try_from(number).map(|group| GroupName(group.to_string())).map_err(|_| wrong())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<GroupName, E> {
                let wrong = || E::invalid_value(de::Unexpected::Unsigned(number), &self);
                u32::try_from(number).map(|group| GroupName(group.to_string())).map_err(|_| wrong())
            }
        }
        from.deserialize_any(Named)
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::parse;

    use super::*;

    crate::settings! {
        /// One key.
        pub(crate) struct One {
            /// The group.
            socket_group: Option<GroupName> = None,
        }
    }

    #[test]
    fn a_group_is_a_name_or_a_number() {
        let read = |text: &str| parse::<One>(text, "sm.toml").map(|one| one.value.socket_group);
        let find = |text: &str| read(text).unwrap().unwrap().find();
        assert_eq!(find("socket_group = \"daemon\""), Ok(SocketGroup(1)));
        assert_eq!(find("socket_group = \"4711\""), Ok(SocketGroup(4711)));
        assert_eq!(find("socket_group = 4711").map(SocketGroup::number), Ok(4711));
        let why = find("socket_group = \"no-such-group\"").unwrap_err().to_string();
        assert!(why.starts_with("there is no group no-such-group on this machine"), "{why}");
        let why = read("\nsocket_group = -1").unwrap_err().to_string();
        assert!(why.starts_with("sm.toml:2: socket_group: invalid value: integer `-1`"), "{why}");
    }
}

//! The address at which a session is offered or called.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;

/// See the module's documentation. It is read and written as a URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `unix:///run/snin/controller-sessions.sock`: users that the socket's mode and the list of users let in.
    Unix(PathBuf),
    /// `plain://127.0.0.1:18516`: no certificates, and so on this machine only.
    Plain(SocketAddr),
    /// `tls://host:18516`: certificates at both ends.
    Tls(String),
}

/// A text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAddress {
    /// It has another form.
    #[error("`{0}`: expected tls://HOST:PORT, unix:///PATH or plain://127.0.0.1:PORT")]
    Form(String),
    /// Plain TCP to or from another machine.
    #[error("`{0}`: plain sessions are for this machine only (127.0.0.1 or [::1]): use tls://")]
    NotLoopback(String),
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let form = || BadAddress::Form(format!("{text:.120}"));
        let (scheme, rest) = text.split_once("://").ok_or_else(form)?;
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Self::Unix(rest.into())),
            "plain" => {
                let address: SocketAddr = rest.parse().map_err(|_| form())?;
                let loopback = address.ip().is_loopback();
                loopback
                    .then_some(Self::Plain(address))
                    .ok_or_else(|| BadAddress::NotLoopback(text.to_owned()))
            }
            "tls" => {
                let (host, port) = rest.rsplit_once(':').ok_or_else(form)?;
                let is_one = !host.is_empty() && port.parse::<u16>().is_ok();
                is_one.then(|| Self::Tls(rest.to_owned())).ok_or_else(form)
            }
            _ => Err(form()),
        }
    }
}

impl Address {
    /// Reads one or more, with commas between them.
    ///
    /// # Errors
    /// The first that is none.
    pub fn read_all(text: &str) -> Result<Vec<Self>, BadAddress> {
        text.split(',').map(|one| one.trim().parse()).collect()
    }

    /// The first socket address of a host and port.
    pub(crate) fn resolve(host: &str) -> std::io::Result<SocketAddr> {
        let found = host.to_socket_addrs()?.next();
        found.ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::NotFound, format!("{host}: no such host"))
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Plain(address) => write!(f, "plain://{address}"),
            Self::Tls(host) => write!(f, "tls://{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in [
            "unix:///run/a.sock",
            "plain://127.0.0.1:7",
            "plain://[::1]:7",
            "tls://ctl1.example.org:18516",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "127.0.0.1:7",
            "unix://run",
            "tls://ctl1",
            "tls://:7",
            "http://a:1",
            "plain://host:7",
        ] {
            assert!(matches!(text.parse::<Address>(), Err(BadAddress::Form(_))), "{text}");
        }
        let several = Address::read_all("tls://a:1, tls://b:2").unwrap();
        assert_eq!(
            several.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["tls://a:1", "tls://b:2"]
        );
        assert!(Address::read_all("tls://a:1,").is_err());
        let error = "plain://10.0.0.1:7".parse::<Address>().unwrap_err();
        assert!(matches!(error, BadAddress::NotLoopback(_)));
    }
}

//! A stream of the system, that goes from one runtime to another.

use std::io;

use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A stream that a runtime watches.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A stream on its way to another runtime.
#[derive(Debug)]
pub(super) enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    pub(super) fn leave(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            Self::Tcp(stream) => DetachedSocket::Tcp(stream.into_std()?),
            Self::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
        })
    }
}

impl DetachedSocket {
    pub(super) fn arrive(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

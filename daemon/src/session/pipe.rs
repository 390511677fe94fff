//! Frames over a stream, ciphered or not. Nothing here waits but [`Pipe::work`].

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::Arc;

use rustls::Connection;
use snin_protocol::Time;
use snin_protocol::codec::{self, Frame, MAX_FRAME, Message};
use tokio::io::Interest;

use super::end::SessionEnd;
use super::socket::{DetachedSocket, Socket};
use crate::meter::{Cause, Meter};

/// The most bytes of frames that are kept before they are taken: one frame and what came with it.
const INBOX: usize = 2 * MAX_FRAME;
/// Bytes that are written before more are taken from the outbox.
const OUTBOX: usize = MAX_FRAME;
/// Read at a time.
const CHUNK: usize = 16 << 10;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pipe<S = Socket> {
    socket: S,
    tls: Option<Box<Connection>>,
    /// Plain bytes that came, from `taken` on.
    came: Vec<u8>,
    taken: usize,
    /// Bytes to be written, from `written` on.
    owed: Vec<u8>,
    written: usize,
    /// Is told what reading and writing cost, if that is asked for.
    meter: Option<Arc<Meter>>,
}

impl<S> Pipe<S> {
    pub(super) fn new(socket: S, tls: Option<Connection>) -> Self {
        let tls = tls.map(Box::new);
        Self { socket, tls, came: Vec::new(), taken: 0, owed: Vec::new(), written: 0, meter: None }
    }

    fn on<T>(self, change: impl FnOnce(S) -> io::Result<T>) -> io::Result<Pipe<T>> {
        let Self { socket, tls, came, taken, owed, written, meter } = self;
        Ok(Pipe { socket: change(socket)?, tls, came, taken, owed, written, meter })
    }

    pub(super) fn tls(&self) -> Option<&Connection> {
        self.tls.as_deref()
    }

    /// Charges from now on what reading and writing cost.
    pub(super) fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Work begins that is to be [charged](Self::charge).
    pub(super) fn begin(&self) -> Time {
        self.meter.as_ref().map_or(Time::ZERO, |meter| meter.now())
    }

    /// Work that began at `from` has ended.
    pub(super) fn charge(&self, cause: Cause, from: Time) {
        if let Some(meter) = &self.meter {
            meter.charge(cause, from);
        }
    }
}

impl Pipe<DetachedSocket> {
    /// Comes to this runtime.
    pub(super) fn arrive(self) -> io::Result<Pipe> {
        self.on(DetachedSocket::arrive)
    }
}

impl Pipe {
    /// Leaves this runtime.
    pub(super) fn leave(self) -> io::Result<Pipe<DetachedSocket>> {
        self.on(Socket::leave)
    }

    /// The first frame that came whole. It is still there until it is [taken](Self::take).
    pub(super) fn frame(&self) -> Result<Option<Frame<'_>>, SessionEnd> {
        Ok(Frame::first(&self.came[self.taken..])?)
    }

    /// Done with so many bytes.
    pub(super) fn take(&mut self, length: usize) {
        self.taken = (self.taken + length).min(self.came.len());
        if self.taken == self.came.len() {
            self.came.clear();
            self.taken = 0;
        }
    }

    /// A message to be written.
    pub(super) fn send<M: Message>(&mut self, message: &M) -> Result<(), SessionEnd> {
        self.put(&codec::encode(message)?)
    }

    /// A frame to be written.
    pub(super) fn put(&mut self, frame: &[u8]) -> Result<(), SessionEnd> {
        let begun = self.begin();
        let mut rest = frame;
        while let Some(tls) = self.tls.as_mut().filter(|_| !rest.is_empty()) {
            // TLS takes no more at a time than it has room for: a little less than the longest frame.
            let taken = tls.writer().write(rest)?;
            if taken == 0 {
                return Err(io::Error::from(ErrorKind::WriteZero).into());
            }
            rest = &rest[taken..];
            self.cipher()?;
        }
        self.owed.extend_from_slice(rest);
        self.charge(Cause::Sending, begun);
        Ok(())
    }

    /// What TLS wants written, to the rest of it.
    fn cipher(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.owed)?;
            }
        }
        Ok(())
    }

    /// Whether there is room for more to be written.
    pub(super) const fn has_room(&self) -> bool {
        self.owed.len() - self.written < OUTBOX
    }

    pub(super) const fn is_flushed(&self) -> bool {
        self.owed.len() == self.written
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Waits until something can be read or written, and does so. Nothing is lost when the wait is given up.
    pub(super) async fn work(&mut self) -> Result<(), SessionEnd> {
        self.cipher()?;
        let has_space = self.came.len() - self.taken < INBOX;
        let interest = match (has_space, self.is_flushed()) {
            (true, true) => Interest::READABLE,
            (true, false) => Interest::READABLE | Interest::WRITABLE,
            (false, _) => Interest::WRITABLE,
        };
        let ready = self.socket.ready(interest).await?;
        if ready.is_writable() {
            self.flush()?;
        }
        if ready.is_readable() && has_space {
            let begun = self.begin();
            let came = self.read();
            self.charge(Cause::Frames, begun);
            if came.is_err() {
                // What the other end is told of it goes out if there is room.
                let _ = self.flush();
            }
            came?;
        }
        Ok(())
    }

    /// Writes what can be without waiting.
    pub(super) fn flush(&mut self) -> Result<(), SessionEnd> {
        if self.is_flushed() {
            return Ok(());
        }
        let begun = self.begin();
        let written = self.write();
        self.charge(Cause::Sending, begun);
        written
    }

    fn write(&mut self) -> Result<(), SessionEnd> {
        while !self.is_flushed() {
            match self.socket.try_write(&self.owed[self.written..]) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(count) => self.written += count,
                Err(error) if passes(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.owed.clear();
        self.written = 0;
        Ok(())
    }

    fn read(&mut self) -> Result<(), SessionEnd> {
        let mut buffer = [0; CHUNK];
        let count = match self.socket.try_read(&mut buffer) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(count) => count,
            Err(error) if passes(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if self.taken > 0 {
            self.came.drain(..self.taken);
            self.taken = 0;
        }
        let Some(tls) = &mut self.tls else {
            self.came.extend_from_slice(&buffer[..count]);
            return Ok(());
        };
        let mut bytes = &buffer[..count];
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let plain = match tls.process_new_packets() {
                Ok(state) => state.plaintext_bytes_to_read(),
                Err(error) => {
                    self.cipher()?;
                    return Err(error.into());
                }
            };
            let at = self.came.len();
            self.came.resize(at + plain, 0);
            tls.reader().read_exact(&mut self.came[at..])?;
        }
        self.cipher()?;
        Ok(())
    }
}

/// It will be better another time.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};
    use snin_protocol::identity::{Identity, Role};

    use super::super::credentials::{Credentials, Files, server_name};
    use super::*;
    use crate::pki::Pki;

    fn credentials(folder: &std::path::Path, name: &str) -> Credentials {
        let pki = Pki::at(folder);
        let who: Identity = name.parse().unwrap();
        let pair = pki.issue(&who, 1, None).unwrap();
        let (certificate, key) = (pair.certificate, pair.key);
        Credentials::load(Files {
            certificate,
            key,
            ca_certificate: pki.file("ca.crt"),
            revoked: None,
        })
        .unwrap()
    }

    /// Frames as long as may be, and some bytes less: all that TLS adds fits, too.
    #[tokio::test]
    async fn the_longest_frames_pass_ciphered_and_plain() {
        let folder = tempfile::tempdir().unwrap();
        Pki::at(folder.path()).init("a site", 2).unwrap();
        let called = credentials(folder.path(), "controller/ctl1");
        let calling = credentials(folder.path(), "manager/sm1");
        for ciphered in [false, true] {
            let (one, other) = tokio::net::UnixStream::pair().unwrap();
            let name = server_name(&Role::Controller.dns());
            let client = ClientConnection::new(calling.now().client.clone(), name).unwrap();
            let server = ServerConnection::new(called.now().server.clone()).unwrap();
            let tls = |tls: Connection| ciphered.then_some(tls);
            let mut client = Pipe::new(Socket::Unix(one), tls(Connection::Client(client)));
            let mut server = Pipe::new(Socket::Unix(other), tls(Connection::Server(server)));
            while client.is_handshaking() || server.is_handshaking() {
                tokio::select! {
                    done = client.work() => done.unwrap(),
                    done = server.work() => done.unwrap(),
                }
            }
            for length in (MAX_FRAME - 8..=MAX_FRAME).chain([1, 16_384, 16_385]) {
                let mut frame = (length as u32).to_be_bytes().to_vec();
                frame.extend((0..length).map(|nth| nth as u8));
                client.put(&frame).unwrap();
                while server.frame().unwrap().is_none() {
                    tokio::select! {
                        done = client.work(), if !client.is_flushed() => done.unwrap(),
                        done = server.work() => done.unwrap(),
                    }
                }
                assert_eq!(
                    server.came[server.taken..],
                    frame,
                    "{length} bytes, ciphered: {ciphered}"
                );
                let taken = server.frame().unwrap().unwrap().length;
                server.take(taken);
            }
        }
    }
}

//! A port that writes down what passes, for Wireshark.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use snin_fabric::Lid;
use snin_mad::capture::Recording;
use snin_mad::{Mad, PERMISSIVE};

use super::{Address, Counters, LocalInfo, Port, PortError, Received, Sent};

/// Records every MAD that passes through a port, in the order in which they pass.
pub struct Capture<P: ?Sized> {
    recording: Recording<BufWriter<File>>,
    name: String,
    lid: Lid,
    port: Box<P>,
}

impl<P: Port + ?Sized> Capture<P> {
    /// Begins a new file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(port: Box<P>, path: &Path) -> Result<Self, PortError> {
        let name = path.display().to_string();
        let begin = File::create(path).and_then(|file| Recording::begin(BufWriter::new(file)));
        let recording = begin.map_err(|error| PortError::Capture { file: name.clone(), error })?;
        Ok(Self { recording, name, lid: port.info().lid, port })
    }

    fn write(&mut self, from: Lid, to: Lid, mad: &Mad) -> Result<(), PortError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let written = self.recording.add(now.as_nanos() as u64, from, to, mad);
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> PortError {
        PortError::Capture { file: self.name.clone(), error }
    }

    /// This end's address beside the other's: on directed routes both are permissive.
    fn own(&self, other: Lid) -> Lid {
        if other == PERMISSIVE { PERMISSIVE } else { self.lid }
    }
}

impl<P: Port + ?Sized> Port for Capture<P> {
    fn info(&self) -> &LocalInfo {
        self.port.info()
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.port.readable()
    }

    fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.port.writable()
    }

    fn send(&mut self, mad: &Mad, to: &Address) -> Result<Sent, PortError> {
        let sent = self.port.send(mad, to)?;
        if sent == Sent::Yes {
            self.write(self.own(to.lid), to.lid, mad)?;
        }
        Ok(sent)
    }

    fn receive(&mut self) -> Result<Option<Received>, PortError> {
        let received = self.port.receive()?;
        match &received {
            Some(Received { mad, from }) => self.write(from.lid, self.own(from.lid), mad)?,
            // A moment of quiet.
            None => self.recording.flush().map_err(|error| self.failed(error))?,
        }
        Ok(received)
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.port.events()
    }

    fn has_changed(&mut self) -> bool {
        self.port.has_changed()
    }

    fn announce(&mut self, manager: bool) -> Result<(), PortError> {
        self.port.announce(manager)
    }

    fn counters(&self) -> Counters {
        self.port.counters()
    }
}

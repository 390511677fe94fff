//! A port that writes down what passes, for Wireshark.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use snin_fabric::Lid;
use snin_mad::capture::{FILE_HEADER, Packet, record};
use snin_mad::{Mad, PERMISSIVE};
use snin_protocol::Time;

use super::{Address, Counters, LocalInfo, Port, PortError, Received, Sent};

/// A file of MADs: pcap, link type ERF.
pub struct Recording {
    file: BufWriter<File>,
    name: String,
}

impl Recording {
    /// Begins a new file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self, PortError> {
        let name = path.display().to_string();
        let failed = |error| PortError::Capture { file: name.clone(), error };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        file.write_all(&FILE_HEADER).map_err(failed)?;
        let mut recording = Self { file, name };
        recording.flush()?;
        Ok(recording)
    }

    /// Adds a MAD that passed at `time`, counted from the epoch.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, time: Time, from: Lid, to: Lid, mad: &Mad) -> Result<(), PortError> {
        let record = record(time.nanos(), &Packet::around(mad, from, to), mad);
        let failed = |error| PortError::Capture { file: self.name.clone(), error };
        self.file.write_all(&record).map_err(failed)
    }

    /// Whoever looks at the file now sees all of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), PortError> {
        let failed = |error| PortError::Capture { file: self.name.clone(), error };
        self.file.flush().map_err(failed)
    }
}

/// Records every MAD that passes through a port, in the order in which they pass.
pub struct Capture<P: ?Sized> {
    recording: Recording,
    lid: Lid,
    port: Box<P>,
}

impl<P: Port + ?Sized> Capture<P> {
    /// Begins a new file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(port: Box<P>, path: &Path) -> Result<Self, PortError> {
        let lid = port.info().lid;
        Ok(Self { recording: Recording::create(path)?, lid, port })
    }

    fn write(&mut self, from: Lid, to: Lid, mad: &Mad) -> Result<(), PortError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.recording.add(Time(now.as_nanos() as u64), from, to, mad)
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
            None => self.recording.flush()?,
        }
        Ok(received)
    }

    fn announce(&mut self, manager: bool) -> Result<(), PortError> {
        self.port.announce(manager)
    }

    fn counters(&self) -> Counters {
        self.port.counters()
    }
}

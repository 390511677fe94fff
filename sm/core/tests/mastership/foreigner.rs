//! A manager that is none of ours, as a script.

use snin_emulator::{ClientId, Emulator};
use snin_mad::{Attribute, Mad, Method, SmInfo, Status};

use super::{Subnet, port};

/// It sits at a port, says there what it is, and manages nothing.
pub(crate) struct Foreign {
    pub(crate) client: ClientId,
    pub(crate) info: SmInfo,
    /// What came to it.
    pub(crate) heard: Vec<Mad>,
    /// It says nothing.
    pub(crate) mute: bool,
    /// It refuses to do what it is told.
    pub(crate) refuses: bool,
    /// It answers with an error, as one does that has no memory left.
    pub(crate) fails: bool,
}

impl Foreign {
    fn answer(&mut self, emulator: &mut Emulator) {
        while let Some(mut received) = emulator.poll(self.client) {
            if self.mute {
                continue;
            }
            self.heard.push(received.mad.clone());
            let (method, attribute) =
                (received.mad.header().method(), received.mad.header().attribute());
            if attribute == SmInfo::ID && !method.is_response() {
                received.mad.put(&self.info);
                let refuses = self.refuses && method == Method::Set;
                let status = match refuses {
                    _ if self.fails => Status::BUSY,
                    true => Status::BAD_VALUE,
                    false => Status::OK,
                };
                received.mad.answer(status);
                let now = emulator.now();
                emulator.send(self.client, &received.mad, received.slid, now);
            }
        }
    }
}

impl Subnet {
    /// Another manager takes its place at a host's first port and says this of itself.
    pub(crate) fn appoint(&mut self, host: &str, info: SmInfo) {
        let at = port(&self.topology, host, 1);
        let client = self.emulator.attach(at).unwrap();
        self.emulator.set_manager(client, true);
        let info = SmInfo { guid: self.topology.port(at).guid, ..info };
        let (mute, refuses, fails) = (false, false, false);
        self.foreign = Some(Foreign { client, info, heard: Vec::new(), mute, refuses, fails });
    }

    /// The foreign manager is gone.
    pub(crate) fn dismiss(&mut self) {
        if let Some(foreign) = self.foreign.take() {
            self.emulator.set_manager(foreign.client, false);
            self.emulator.detach(foreign.client);
        }
    }

    pub(super) fn answer_for_the_foreign(&mut self) {
        if let Some(foreign) = &mut self.foreign {
            foreign.answer(&mut self.emulator);
        }
    }
}

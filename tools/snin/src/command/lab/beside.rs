//! The same traffic beside ports that flood base addresses: on one lane, and with one for granted traffic alone.

use snin_lab::lanes::{Lane, Ordinary};
use snin_lab::world::{Setup, World};
use snin_report::{Beside, OrdinaryTraffic, Run, Unasked};

use super::{Fabric, Lab};
use crate::cli;
use crate::failure::Failure;
use crate::output::Progress;

/// What a page shows of it where the command line does not say more: every other port, for so many windows.
const PAGE: (u32, u32) = (500_000, 6);

impl Lab<'_> {
    /// Parts of a million that flood, and for how many windows; a page shows some.
    fn floods(&self) -> Option<(u32, u32)> {
        let args = self.args;
        let page = args.html.is_some() && args.unmanaged == 0 && args.policy != cli::Policy::Off;
        let by_default = || page.then_some((PAGE.0, PAGE.1.min(self.windows)));
        args.ordinary.map(|share| (share.0, self.windows)).or_else(by_default)
    }

    /// Windows that both runs take.
    pub(super) fn windows_beside(&self) -> u32 {
        self.floods().map_or(0, |(_, windows)| windows * 2)
    }

    /// Both runs, and what should not be in the one with two lanes, a line each.
    pub(super) fn beside(
        &self,
        name: &str,
        progress: &Progress,
    ) -> Result<Option<(OrdinaryTraffic, Vec<String>)>, Failure> {
        let Some((share, windows)) = self.floods() else { return Ok(None) };
        let of = |lane| Ordinary { share, lane };
        let (one_lane, _) = self.beside_on(name, of(Lane::Shared), windows, progress)?;
        let (own_lane, wrong) = self.beside_on(name, of(Lane::Own), windows, progress)?;
        let hosts = 0..self.routing.hosts.len() as u32;
        let ports = hosts.filter(|&place| of(Lane::Own).has(place)).count();
        Ok(Some((OrdinaryTraffic { ports, windows, one_lane, own_lane }, wrong)))
    }

    fn beside_on(
        &self,
        name: &str,
        ordinary: Ordinary,
        windows: u32,
        progress: &Progress,
    ) -> Result<(Beside, Vec<String>), Failure> {
        let Fabric { subnet, .. } = self.bring_up(name, ordinary.lane)?;
        let mut setup = Setup { windows, ordinary: Some(ordinary), ..self.setup() };
        // Events may come later than that.
        if windows < self.windows {
            setup.events.clear();
        }
        let mut world = World::new(setup, self.topology, subnet)?;
        let (mut run, mut unasked) = (Run::new("snin"), Unasked::default());
        while world.begin_window(|number| self.pattern(number))?.is_some() {
            let window = world.end_window();
            progress.step(format!("beside floods, window {} of {windows}", window.number + 1));
            run.count(window.number, window.granted.in_time, window.granted.possible);
            unasked.add(&window.unasked);
        }
        run.statistics = Some(world.wire().statistics().clone());
        Ok((Beside::of(&run, unasked), self.wrong(&world)))
    }
}

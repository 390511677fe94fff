//! The controllers of a run: one, or several that share what members of etcd hold, of which one leads.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use serde_json::json;
use snin_protocol::operator::Document;
use snin_protocol::operator::controller::{GetStatus, Status};

use super::UpError;
use super::children::Children;

/// How often it is looked who leads.
const LOOK: Duration = Duration::from_millis(5);
/// How long another controller may take to grant.
const LONGEST: Duration = Duration::from_secs(60);

/// What the files of a controller are called.
pub(super) fn name(number: usize) -> String {
    if number == 0 { "controller".to_owned() } else { format!("controller-{}", number + 1) }
}

/// See the module's documentation. They are known by their numbers.
pub(super) struct Controllers {
    count: usize,
    /// Those that stand still.
    stopped: BTreeSet<usize>,
}

/// One that led, until it was killed or stopped.
pub(super) struct Lost {
    number: usize,
    term: u64,
    since: Instant,
    is_killed: bool,
}

/// That another controller led.
#[derive(Serialize)]
pub(super) struct Failover {
    pub(super) window: u32,
    /// Who led before.
    pub(super) from: String,
    /// Who leads.
    pub(super) to: String,
    pub(super) term: u64,
    /// From the end of the one before until the other led.
    pub(super) led_ms: f64,
    /// From the end of the one before until the other one's first grant.
    pub(super) granted_ms: f64,
}

impl Controllers {
    pub(super) const fn new(count: usize) -> Self {
        Self { count, stopped: BTreeSet::new() }
    }

    /// Starts all, and waits until one leads.
    pub(super) fn start(&self, children: &mut Children) -> Result<(), UpError> {
        (0..self.count).try_for_each(|number| start(number, children))?;
        let begin = Instant::now();
        while self.leader(children).is_none() {
            children.look()?;
            if begin.elapsed() > LONGEST {
                return Err(late("no controller leads", children));
            }
        }
        Ok(())
    }

    /// The one that leads, and what it says of itself.
    pub(super) fn leader(&self, children: &mut Children) -> Option<(usize, Status)> {
        (0..self.count).filter(|number| !self.stopped.contains(number)).find_map(|number| {
            let said = status(number, children).ok()?;
            (!said.standby).then_some((number, said))
        })
    }

    /// Where the one that leads is asked.
    pub(super) fn socket(&self, children: &mut Children) -> String {
        let leader = self.leader(children).map_or(0, |(number, _)| number);
        format!("{}.sock", name(leader))
    }

    /// Kills the one that leads, as `kill -9` does. A single one is started again at once.
    pub(super) fn kill(&self, children: &mut Children) -> Result<Option<Lost>, UpError> {
        let lost = self.lose(true, children)?;
        children.kill(&process(lost.number));
        if self.count > 1 {
            return Ok(Some(lost));
        }
        start(lost.number, children)?;
        Ok(None)
    }

    /// Stops the one that leads, until it is continued.
    pub(super) fn stop(&mut self, children: &mut Children) -> Result<Lost, UpError> {
        let lost = self.lose(false, children)?;
        children.signal(&process(lost.number), Signal::STOP);
        self.stopped.insert(lost.number);
        Ok(lost)
    }

    /// Those that stand still go on; waits until each stands by. Their names.
    pub(super) fn go_on(&mut self, children: &mut Children) -> Result<Vec<String>, UpError> {
        let stopped = std::mem::take(&mut self.stopped);
        for &number in &stopped {
            children.signal(&process(number), Signal::CONT);
            let begin = Instant::now();
            while !status(number, children).is_ok_and(|said| said.standby) {
                children.look_for(LOOK)?;
                if begin.elapsed() > LONGEST {
                    return Err(late("it does not stand by", children));
                }
            }
        }
        Ok(stopped.into_iter().map(name).collect())
    }

    /// The one that leads now; under load it may take a moment until one does.
    fn lose(&self, is_killed: bool, children: &mut Children) -> Result<Lost, UpError> {
        let begin = Instant::now();
        loop {
            if let Some((number, said)) = self.leader(children) {
                return Ok(Lost { number, term: said.term, since: Instant::now(), is_killed });
            }
            children.look_for(LOOK)?;
            if begin.elapsed() > LONGEST {
                return Err(late("no controller leads", children));
            }
        }
    }

    /// Waits until another one than that has granted something. One that was killed is started again then.
    pub(super) fn follow(
        &self,
        window: u32,
        lost: &Lost,
        children: &mut Children,
    ) -> Result<Failover, UpError> {
        let mut led = None;
        loop {
            children.look_for(LOOK)?;
            let others = (0..self.count)
                .filter(|number| *number != lost.number && !self.stopped.contains(number));
            for number in others {
                let Ok(said) = status(number, children) else { continue };
                if said.standby || said.term <= lost.term {
                    continue;
                }
                let since = led.get_or_insert_with(|| lost.since.elapsed());
                if said.counters.get("granted").is_some_and(|granted| *granted > 0) {
                    let failover = Failover {
                        window,
                        from: name(lost.number),
                        to: name(number),
                        term: said.term,
                        led_ms: since.as_secs_f64() * 1e3,
                        granted_ms: lost.since.elapsed().as_secs_f64() * 1e3,
                    };
                    if lost.is_killed {
                        start(lost.number, children)?;
                    }
                    return Ok(failover);
                }
            }
            if lost.since.elapsed() > LONGEST {
                return Err(late("no other controller grants anything", children));
            }
        }
    }
}

/// What a controller's process is called.
fn process(number: usize) -> String {
    format!("snin-{}", name(number))
}

/// Also after it was killed.
fn start(number: usize, children: &mut Children) -> Result<(), UpError> {
    let name = name(number);
    let mut controller = children.command("snin-controller")?;
    controller.arg("--config").arg(children.path(&format!("{name}.toml")));
    children.start(&process(number), "snin-controller", controller)?;
    let socket = format!("{name}.sock");
    children.wait(&process(number), |children| children.request(&socket, &GetStatus {}).map(drop))
}

fn status(number: usize, children: &mut Children) -> Result<Status, String> {
    let said = children.ask(&format!("{}.sock", name(number)), &json!({ "command": "status" }))?;
    let said: Result<Document<Status>, _> = serde_json::from_value(said);
    said.map(|document| document.answer).map_err(|why| why.to_string())
}

fn late(why: &str, children: &Children) -> UpError {
    let log = children.path(&format!("{}.log", process(0))).display().to_string();
    UpError::Late { name: "the controller".to_owned(), why: why.to_owned(), log }
}

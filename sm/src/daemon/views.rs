//! Sessions with controllers: each is told the policy and the whole view first, then what changes.
//!
//! Where only more pairs of switches and trees are unusable than in the view that was told last, those pairs
//! alone are told; everything else is a view.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::group::SocketGroup;
use snin_daemon::session::{Credentials, Files, Limits, Listen, MissingFile, Peer, Post, Received};
use snin_daemon::watch::Watch;
use snin_fabric::routing::tables_hash;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::ViewChange;
use snin_protocol::view::{
    Computed, FromManager, MAX_VIEW, Policy, PortTest, PortTested, ToManager, VIEW_LEASE,
    ViewError, frames, unusable_pairs,
};
use snin_sm_core::FabricView;
use snin_sm_core::events::Preferences;
use tracing::{error, info};

use super::failure::Failure;
use super::link_tests::LinkTests;
use super::preferring::Preferring;
use super::settings::Settings;

/// How long a controller may grant on by the last view, after its session ended here: until it notices, and then
/// for [`VIEW_LEASE`].
fn grants_on() -> Duration {
    Limits::default().idle + Duration::from_nanos(VIEW_LEASE.nanos())
}

/// What this manager shows in sessions, and who it is.
pub type Own = (Option<Arc<Credentials>>, Identity);

/// See the module's documentation.
pub struct Views {
    post: Post<ToManager, FromManager>,
    policy: Policy,
    /// The view now, and the one that was told whole.
    now: Option<Arc<FabricView>>,
    whole: Option<Arc<FabricView>>,
    controllers: Vec<Peer>,
    /// When the last of them was gone, while it may grant on by the view that it was told.
    last_gone: Option<Instant>,
    /// Something that controllers had to be told was dropped: they are told the whole view anew.
    untold: bool,
    /// What the tables of views that were told come to.
    tables: Tables,
    /// Versions that controllers say are clear.
    clear: VecDeque<u64>,
    link_tests: LinkTests<Peer>,
    /// What a controller says of addresses that paths are answered with first: what comes, and the last set.
    preferring: Preferring<Peer>,
    preferences: Option<Box<Preferences>>,
}

impl Views {
    /// Waits for controllers where the settings say so.
    ///
    /// # Errors
    /// When a part of the settings cannot be used.
    pub fn open(
        settings: &Settings,
        group: Option<SocketGroup>,
        own: Option<&Own>,
    ) -> Result<Option<Self>, Failure> {
        let policy = settings.policy.parse().map_err(Failure::Policy)?;
        let own = own.filter(|_| !settings.session_listen.is_empty());
        let Some((credentials, identity)) = own.cloned() else { return Ok(None) };
        let at = settings.session_listen.iter().map(|text| text.parse());
        let at = at.collect::<Result<Vec<_>, _>>()?;
        let post = Post::listen(Listen {
            at,
            service: Service::Views,
            identity,
            roles: vec![Role::Controller],
            users: settings.session_users.clone(),
            group,
            // A whole view may wait for a controller.
            limits: Limits { backlog: MAX_VIEW + (1 << 20), ..Limits::default() },
            credentials,
        })?;
        let (controllers, clear) = (Vec::new(), VecDeque::new());
        Ok(Some(Self {
            post,
            policy,
            now: None,
            whole: None,
            controllers,
            last_gone: None,
            untold: false,
            tables: Tables::default(),
            clear,
            link_tests: LinkTests::default(),
            preferring: Preferring::default(),
            preferences: None,
        }))
    }

    /// Waits for controllers too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.post.watch(watch);
    }

    /// The fabric is another.
    pub fn publish(&mut self, view: &Arc<FabricView>) {
        self.now = Some(view.clone());
        if self.controllers.is_empty() {
            self.whole = None;
            if self.last_gone.is_none_or(|gone| gone.elapsed() >= grants_on()) {
                // No controller grants anything.
                self.clear.push_back(view.version());
            }
            return;
        }
        let said = match self.whole.as_ref().filter(|whole| more_is_unusable(whole, view)) {
            Some(_) => unusable_pairs(&**view).map(|unusable| {
                vec![FromManager::Change(ViewChange { version: view.version(), unusable })]
            }),
            None => self.whole(view),
        };
        self.tell(said, view.version());
    }

    /// Tells every controller. What the session has no room for is told whole, with the view of then.
    fn tell(&mut self, said: Result<Vec<FromManager>, ViewError>, version: u64) {
        let lost = self.post.lost();
        match said {
            Ok(frames) => self.controllers.iter().for_each(|to| {
                frames.iter().for_each(|frame| self.post.send_to(to, frame.clone()));
            }),
            Err(error) => error!("controllers are not told of view {version}: {error}"),
        }
        self.untold = self.post.lost() > lost;
    }

    fn whole(&mut self, view: &Arc<FabricView>) -> Result<Vec<FromManager>, ViewError> {
        let frames = frames(&**view, view.placement())?;
        self.tables.note(view.version(), tables_hash(view.topology(), &view.routing().tables));
        self.whole = Some(view.clone());
        Ok(frames)
    }

    /// A version that a controller says is clear, and all before it.
    pub fn next_clear(&mut self) -> Option<u64> {
        for heard in self.post.work() {
            self.receive(heard);
        }
        if self.untold
            && let Some(view) = self.now.clone()
        {
            let whole = self.whole(&view);
            self.tell(whole, view.version());
        }
        self.clear.pop_front()
    }

    /// A host's agent is to send messages: the controller that it has a session with will tell it. False where no
    /// controller is here.
    pub fn test(&mut self, test: PortTest) -> bool {
        if self.controllers.is_empty() {
            return false;
        }
        self.controllers.iter().for_each(|to| self.post.send_to(to, FromManager::Test(test)));
        self.link_tests.ask(test.number, &self.controllers);
        true
    }

    /// What came of a test.
    pub fn next_tested(&mut self) -> Option<PortTested> {
        self.link_tests.take_done()
    }

    /// The addresses that a controller wants paths answered with, where they are others than before.
    pub const fn take_preferences(&mut self) -> Option<Box<Preferences>> {
        self.preferences.take()
    }

    fn receive(&mut self, heard: Received<ToManager>) {
        match heard {
            Received::Opened(peer) => {
                info!("{peer} is told what the fabric is");
                self.controllers.retain(|known| *known != peer);
                // What it was asked in a session before is lost.
                self.link_tests.gone(&peer);
                self.post.send_to(&peer, FromManager::Policy(self.policy));
                if let Some(view) = self.now.clone() {
                    match self.whole(&view) {
                        Ok(frames) => {
                            frames.into_iter().for_each(|frame| self.post.send_to(&peer, frame));
                        }
                        Err(error) => {
                            error!("{peer} is not told of view {}: {error}", view.version());
                        }
                    }
                }
                self.controllers.push(peer);
            }
            Received::Closed(peer, end) => {
                info!("{peer} is gone: {end}");
                self.controllers.retain(|known| *known != peer);
                self.link_tests.gone(&peer);
                if self.controllers.is_empty() {
                    self.last_gone = Some(Instant::now());
                }
            }
            Received::Said(_, ToManager::Clear(clear)) => self.clear.push_back(clear.version),
            Received::Said(peer, ToManager::Tested(tested)) => {
                self.link_tests.answered(&peer, tested);
            }
            Received::Said(peer, ToManager::Preferred(part)) => {
                if let Some(set) = self.preferring.take(peer, part) {
                    self.preferences = Some(set);
                }
            }
            Received::Said(peer, ToManager::Computed(Computed { version, tables })) => {
                match self.tables.are_same(version, tables) {
                    Some(true) => info!("{peer} computes the same tables of view {version}"),
                    Some(false) => error!(
                        "{peer} computes other tables of view {version} than this manager: it grants nothing by \
                         it; are both of one version?"
                    ),
                    None => info!("{peer} has computed view {version}, which is long past"),
                }
            }
        }
    }
}

/// Views that were told last and may still be computed by some controller: links that flap make views quicker than
/// tables are computed.
const MOST_TOLD: usize = 256;

/// What the tables of the views that were told last come to, by version.
#[derive(Default)]
struct Tables(VecDeque<(u64, u64)>);

impl Tables {
    fn note(&mut self, version: u64, hash: u64) {
        self.0.retain(|(told, _)| *told != version);
        self.0.push_back((version, hash));
        if self.0.len() > MOST_TOLD {
            self.0.pop_front();
        }
    }

    /// Whether a controller computed the same; none where it is not known any more.
    fn are_same(&self, version: u64, theirs: Option<u64>) -> Option<bool> {
        let (_, ours) = self.0.iter().find(|(told, _)| *told == version)?;
        Some(theirs == Some(*ours))
    }
}

/// The identity of this manager in sessions, and how it proves that; none where it has no sessions.
pub(super) fn identity(settings: &Settings) -> Result<Option<Own>, Failure> {
    let addresses = [&settings.session_listen, &settings.mirror_listen, &settings.mirror_of];
    if addresses.iter().all(|addresses| addresses.is_empty()) {
        return Ok(None);
    }
    let credentials = files(settings)?.map(Credentials::load).transpose()?.map(Arc::new);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let identity = match &credentials {
        Some(credentials) => credentials.identity(),
        None => Identity::new(Role::Manager, &host)?,
    };
    Ok(Some((credentials, identity)))
}

/// Where the manager's certificate is, and what goes with it.
pub(super) fn files(settings: &Settings) -> Result<Option<Files>, MissingFile> {
    Files::configured(
        settings.certificate.as_deref(),
        settings.key.as_deref(),
        settings.ca_certificate.as_deref(),
        settings.revoked.as_deref(),
    )
}

/// Whether nothing but that more is unusable has changed.
fn more_is_unusable(whole: &FabricView, view: &FabricView) -> bool {
    whole.is_of_same_target(view) && whole.unusable().is_subset(view.unusable())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller that is still at a view when the next one is told has computed the one and not the other.
    #[test]
    fn what_a_controller_computed_is_compared_with_that_view_and_no_other() {
        let mut tables = Tables::default();
        tables.note(7, 70);
        tables.note(8, 80);
        assert_eq!(tables.are_same(7, Some(70)), Some(true));
        assert_eq!(tables.are_same(8, Some(80)), Some(true));
        assert_eq!(tables.are_same(8, Some(70)), Some(false));
        assert_eq!(tables.are_same(8, None), Some(false), "it found no tables");
        // A session that begins is told the same view again.
        tables.note(7, 71);
        assert_eq!(tables.are_same(7, Some(71)), Some(true));
        (9..9 + MOST_TOLD as u64).for_each(|version| tables.note(version, version));
        assert_eq!((tables.are_same(8, Some(80)), tables.0.len()), (None, MOST_TOLD));
    }
}

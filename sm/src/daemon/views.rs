//! Sessions with controllers, which only the master has: each is told the policy and the whole view first, then
//! what changes.

use std::sync::Arc;

use snin_daemon::clock::Clock;
use snin_daemon::group::SocketGroup;
use snin_daemon::session::{
    Credentials, Files, Limits, Listen, ListenError, MissingFile, Peer, Post, Received,
};
use snin_daemon::watch::Watch;
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::view::{
    FromManager, MAX_VIEW, Policy, PortTest, PortTested, ToManager, VIEW_LEASE, ViewError,
};
use snin_sm_core::Preferences;
use snin_sm_core::controllers::Controllers;
use snin_sweep::FabricView;
use tracing::{error, info};

use super::failure::Failure;
use super::link_tests::LinkTests;
use super::preferring::Preferring;
use super::settings::Settings;

/// How long a controller may grant on by the last view, after its session ended here: until it notices, and then
/// for [`VIEW_LEASE`].
fn grants_on() -> Time {
    Time(u64::try_from(Limits::default().idle.as_nanos()).unwrap_or(u64::MAX)) + VIEW_LEASE
}

/// What this manager shows in sessions, and who it is.
pub type Own = (Option<Arc<Credentials>>, Identity);

/// See the module's documentation.
pub struct Views {
    listen: Listen,
    /// None while another manager is the master: controllers call that one then.
    post: Option<Post<ToManager, FromManager>>,
    clock: Clock,
    policy: Policy,
    controllers: Controllers<Peer>,
    /// Something that controllers had to be told was dropped: they are told the whole view anew.
    untold: bool,
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
        let listen = Listen {
            at,
            service: Service::Views,
            identity,
            roles: vec![Role::Controller],
            users: settings.session_users.clone(),
            group,
            // A whole view may wait for a controller.
            limits: Limits { backlog: MAX_VIEW + (1 << 20), ..Limits::default() },
            credentials,
        };
        Ok(Some(Self {
            post: Some(Post::listen(listen.clone())?),
            listen,
            clock: Clock::system(),
            policy,
            controllers: Controllers::new(grants_on(), Clock::system().now()),
            untold: false,
            link_tests: LinkTests::default(),
            preferring: Preferring::default(),
            preferences: None,
        }))
    }

    /// Waits for controllers too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        if let Some(post) = &self.post {
            post.watch(watch);
        }
    }

    /// Another manager is the master, or will be. Controllers call this one in vain, and so the next one.
    pub fn stand_by(&mut self) {
        for controller in self.controllers.here() {
            info!(
                "{controller} is told nothing any more: this manager is not the master of its fabric"
            );
            self.link_tests.gone(controller);
        }
        self.controllers.stand_by();
        (self.post, self.untold) = (None, false);
    }

    /// This manager is the master.
    ///
    /// # Errors
    /// When controllers cannot call: their addresses are in use, say.
    pub fn lead(&mut self) -> Result<(), ListenError> {
        if self.post.is_none() {
            self.controllers.take_over(self.clock.now());
            self.post = Some(Post::listen(self.listen.clone())?);
        }
        Ok(())
    }

    /// The fabric is another. A manager whose cable is gone says nothing of the others': controllers call the
    /// next.
    pub fn publish(&mut self, view: &Arc<FabricView>) {
        if view.is_alone() {
            return self.stand_by();
        }
        if let Err(error) = self.lead() {
            error!("controllers are told nothing: {error}");
        }
        let said = self.controllers.publish(view, self.clock.now());
        self.tell(said);
    }

    /// Tells every controller. What a session has no room for is told whole, with the view of then.
    fn tell(&mut self, said: Result<Vec<FromManager>, ViewError>) {
        let Some(post) = &mut self.post else { return };
        let lost = post.lost();
        match said {
            Ok(frames) => self.controllers.here().iter().for_each(|to| {
                frames.iter().for_each(|frame| post.send_to(to, frame.clone()));
            }),
            Err(error) => error!("controllers are not told of the newest view: {error}"),
        }
        self.untold = post.lost() > lost;
    }

    /// A version that a controller says is clear, and all before it.
    pub fn next_clear(&mut self) -> Option<u64> {
        for heard in self.post.as_mut().map(Post::work).unwrap_or_default() {
            self.receive(heard);
        }
        if self.untold && self.controllers.version().is_some() {
            let whole = self.controllers.tell_whole();
            self.tell(whole);
        }
        self.controllers.next_clear()
    }

    /// A host's agent is to send messages: the controller that it has a session with will tell it. False where no
    /// controller is here.
    pub fn test(&mut self, test: PortTest) -> bool {
        let here = self.controllers.here();
        let Some(post) = self.post.as_mut().filter(|_| !here.is_empty()) else { return false };
        here.iter().for_each(|to| post.send_to(to, FromManager::Test(test)));
        self.link_tests.ask(test.number, here);
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
                // What it was asked in a session before is lost.
                self.link_tests.gone(&peer);
                let told = self.controllers.opened(peer.clone());
                let Some(post) = &mut self.post else { return };
                post.send_to(&peer, FromManager::Policy(self.policy));
                match told {
                    Ok(frames) => frames.into_iter().for_each(|frame| post.send_to(&peer, frame)),
                    Err(error) => error!("{peer} is not told what the fabric is: {error}"),
                }
            }
            Received::Closed(peer, end) => {
                info!("{peer} is gone: {end}");
                self.link_tests.gone(&peer);
                self.controllers.closed(&peer, self.clock.now());
            }
            Received::Said(_, ToManager::Clear(clear)) => self.controllers.cleared(clear.version),
            Received::Said(peer, ToManager::Tested(tested)) => {
                self.link_tests.answered(&peer, tested);
            }
            Received::Said(peer, ToManager::Preferred(part)) => {
                if let Some(set) = self.preferring.take(peer, part) {
                    self.preferences = Some(set);
                }
            }
            Received::Said(peer, ToManager::Computed(computed)) => {
                let version = computed.version;
                match self.controllers.are_same(&computed) {
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

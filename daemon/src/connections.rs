//! Connections of one Unix socket, for a thread that polls: bounded in number, also of one user, in what they ask
//! at once, in what waits for them and in the time for which nothing happens on them.
//!
//! A connection that comes when the limit is reached takes the place of one that asks nothing: of its own user,
//! where that user has its share, else of the user that has most. Where every connection asks something, the new
//! one is refused with the reason. So idle connections of one user do not keep another user out.
//!
//! A turn takes a few requests, of each connection one, and none of a connection that waits for an answer: so
//! a flood of them waits in its own socket, and everything else has its turn in between.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use serde_json::json;
use tracing::warn;

use crate::watch::Watch;

/// At most so many at once.
const MOST: usize = 64;
/// At most so many of one user, but for root and the daemon's own.
const MOST_OF_USER: usize = 16;
/// One line of those that were turned away in so long.
const QUIET: Duration = Duration::from_secs(10);
/// The longest request.
const LONGEST: usize = 64 * 1024;
/// The most bytes that wait for one who does not read; who is slower than that is cut off.
const BACKLOG: usize = 16 * 1024 * 1024;
/// The same for all together.
const BACKLOG_ALL: usize = 64 * 1024 * 1024;
/// The most requests of one turn.
const PER_TURN: usize = 8;
/// A connection on which nothing happens for so long ends.
const IDLE: Duration = Duration::from_secs(60);

/// A client, as long as its connection lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Client(pub(crate) u64);

struct Connection {
    stream: UnixStream,
    /// Whose process it is, as the system knew it when it came.
    user: Option<u32>,
    asked: Vec<u8>,
    owed: VecDeque<u8>,
    /// The other end asks nothing more; it may still read.
    silent: bool,
    gone: bool,
    /// A whole request is in `asked`.
    ready: bool,
    /// A request is being answered; the next one is not taken before.
    pending: bool,
    /// It follows events: it may be quiet for ever.
    kept: bool,
    /// When it last asked or took something.
    since: Instant,
}

pub(crate) struct Connections {
    listener: UnixListener,
    open: BTreeMap<u64, Connection>,
    next: u64,
    /// Whose turn is next, if he is still there.
    turn: u64,
    /// Those that were refused when they came, and idle ones that gave way.
    pub(crate) turned_away: u64,
    /// When that was last said, and how many of them were told by then.
    said: Option<(Instant, u64)>,
    pub(crate) idle: Duration,
}

impl Connections {
    pub(crate) const fn new(listener: UnixListener) -> Self {
        Self {
            listener,
            open: BTreeMap::new(),
            next: 0,
            turn: 0,
            turned_away: 0,
            said: None,
            idle: IDLE,
        }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.listener.as_fd());
        for connection in self.open.values() {
            let asks = !connection.pending;
            let over = connection.silent && connection.owed.is_empty();
            if asks && (connection.ready || over) {
                watch.until(connection.since);
            } else if asks && !connection.silent {
                watch.readable(connection.stream.as_fd());
            }
            if connection.may_idle_out() {
                watch.until(connection.since + self.idle);
            }
            if !connection.owed.is_empty() {
                watch.writable(connection.stream.as_fd());
            }
        }
    }

    /// Accepts, reads and writes as far as that goes without waiting; the requests that came in, a line each.
    pub(crate) fn work(&mut self) -> Vec<(Client, Vec<u8>)> {
        let now = Instant::now();
        self.accept(now);
        let mut requests = Vec::new();
        let later = self.open.range(self.turn..).chain(self.open.range(..self.turn));
        let order: Vec<u64> = later.map(|(&id, _)| id).collect();
        for id in order {
            let Some(connection) = self.open.get_mut(&id) else { continue };
            connection.write(now);
            connection.gone |= connection.may_idle_out() && now >= connection.since + self.idle;
            if requests.len() >= PER_TURN {
                continue;
            }
            if let Some(request) = connection.next(now) {
                requests.push((Client(id), request));
                self.turn = id + 1;
            }
        }
        self.forget();
        requests
    }

    /// It follows events from now on, and may be quiet for ever.
    pub(crate) fn keep(&mut self, client: Client) {
        if let Some(connection) = self.open.get_mut(&client.0) {
            connection.kept = true;
        }
    }

    fn accept(&mut self, now: Instant) {
        // One bad connection must not keep the others from being served.
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let user = rustix::net::sockopt::socket_peercred(&stream);
            let user = user.ok().map(|credentials| credentials.uid.as_raw());
            if let Err(why) = self.make_room(user) {
                self.turn_away(stream, &why, now);
                continue;
            }
            let connection = Connection {
                stream,
                user,
                asked: Vec::new(),
                owed: VecDeque::new(),
                silent: false,
                gone: false,
                ready: false,
                pending: false,
                kept: false,
                since: now,
            };
            self.open.insert(self.next, connection);
            self.next += 1;
        }
    }

    /// Sees to it that one more may come, or says why it may not.
    fn make_room(&mut self, user: Option<u32>) -> Result<(), String> {
        if self.open.len() < MOST && !self.has_its_share(user) {
            return Ok(());
        }
        // Requests may have come since, and some may be over.
        self.open.values_mut().for_each(Connection::hear);
        self.open.retain(|_, open| !open.gone && !open.is_over());
        if self.has_its_share(user) {
            let whose = match user {
                Some(number) => format!("user {number}"),
                None => "a user that the system does not name".to_owned(),
            };
            let why = format!(
                "{whose} has {MOST_OF_USER} connections here, and all of them ask or follow: end one first"
            );
            return self.give_way(user).ok_or(why);
        }
        if self.open.len() < MOST {
            return Ok(());
        }
        let idle = self.open.values().filter(|open| open.is_idle());
        let most = idle.map(|open| open.user).max_by_key(|&user| self.of_user(user));
        let why = format!("{MOST} connections are here, and all of them ask or follow: try again");
        most.and_then(|most| self.give_way(most)).ok_or(why)
    }

    fn of_user(&self, user: Option<u32>) -> usize {
        self.open.values().filter(|open| open.user == user).count()
    }

    /// Whether the user may have no more; root and the daemon's own may have all.
    fn has_its_share(&self, user: Option<u32>) -> bool {
        let own = rustix::process::geteuid().as_raw();
        user != Some(0) && user != Some(own) && self.of_user(user) >= MOST_OF_USER
    }

    /// Ends that connection of the user on which nothing was asked for the longest time, if there is one.
    fn give_way(&mut self, user: Option<u32>) -> Option<()> {
        let idle = self.open.iter().filter(|(_, open)| open.user == user && open.is_idle());
        let (&id, _) = idle.min_by_key(|(_, open)| open.since)?;
        let gone = self.open.remove(&id)?;
        let why = "another one came, and this one asked nothing: connect again";
        self.turn_away(gone.stream, why, Instant::now());
        Some(())
    }

    /// Counts it, tells it why, and says so in a line now and then.
    fn turn_away(&mut self, mut stream: UnixStream, why: &str, now: Instant) {
        self.turned_away += 1;
        // One who does not hear it sees that the connection ends.
        let _ = stream.write_all(format!("{}\n", json!({ "error": why })).as_bytes());
        let (at, told) = self.said.map_or((None, 0), |(at, told)| (Some(at), told));
        if at.is_none_or(|at| now >= at + QUIET) {
            let many = self.turned_away - told;
            warn!(
                "{many} connections of a Unix socket were turned away, the last one because: {why}"
            );
            self.said = Some((now, self.turned_away));
        }
    }

    /// Writes to one who asked, now or as soon as he reads; to one who is gone, nothing.
    pub(crate) fn answer(&mut self, client: Client, bytes: &[u8]) {
        let all: usize = self.open.values().map(|connection| connection.owed.len()).sum();
        if let Some(connection) = self.open.get_mut(&client.0) {
            let now = Instant::now();
            if connection.owed.is_empty() {
                connection.since = now;
            }
            connection.pending = false;
            if connection.owed.len() + bytes.len() > BACKLOG || all + bytes.len() > BACKLOG_ALL {
                connection.gone = true;
            } else {
                connection.owed.extend(bytes);
                connection.write(now);
            }
        }
        self.forget();
    }

    /// The user who asks, as the system knows it.
    pub(crate) fn user(&self, client: Client) -> Option<u32> {
        self.open.get(&client.0)?.user
    }

    pub(crate) fn is_open(&self, client: Client) -> bool {
        self.open.contains_key(&client.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    fn forget(&mut self) {
        self.open.retain(|_, open| !open.gone);
    }
}

impl Connection {
    /// Whether it ends if nothing happens: it neither waits for an answer nor follows events, or does not take
    /// what it is owed.
    fn may_idle_out(&self) -> bool {
        !self.owed.is_empty() || !self.pending && !self.kept
    }

    /// Whether its other end is gone, and everything that it asked has been answered.
    fn is_over(&self) -> bool {
        self.silent && !self.pending && !self.ready && self.owed.is_empty()
    }

    /// Whether it may give way to another: it waits for nothing, and nothing of it waits.
    fn is_idle(&self) -> bool {
        self.owed.is_empty() && !self.pending && !self.kept && !self.ready
    }

    /// The next request, if it is all there and none is being answered.
    fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.pending {
            return None;
        }
        self.read();
        let request = match line(&self.asked) {
            Some(length) => {
                let rest = self.asked.split_off(length);
                (self.pending, self.since) = (true, now);
                Some(std::mem::replace(&mut self.asked, rest))
            }
            None => {
                // It asks nothing more, and everything that it asked has been answered.
                self.gone |= self.silent && self.owed.is_empty();
                None
            }
        };
        self.ready = line(&self.asked).is_some();
        request
    }

    /// Reads what has come, unless a request is being answered: the next one waits where it is.
    fn hear(&mut self) {
        if !self.pending {
            self.read();
            self.ready = line(&self.asked).is_some();
        }
    }

    /// Reads until a whole request is there, and no further: the rest waits where it is.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while !self.silent && !self.gone && line(&self.asked).is_none() {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.silent = true,
                Ok(_) if self.asked.len() > LONGEST => self.gone = true,
                Ok(n) => {
                    self.asked.extend_from_slice(&buffer[..n]);
                    continue;
                }
                Err(error) => self.gone = !passes(&error),
            }
            return;
        }
    }

    fn write(&mut self, now: Instant) {
        while !self.owed.is_empty() && !self.gone {
            let (front, _) = self.owed.as_slices();
            match self.stream.write(front) {
                Ok(n) => {
                    self.owed.drain(..n);
                    self.since = now;
                }
                Err(error) if passes(&error) => return,
                Err(_) => self.gone = true,
            }
        }
    }
}

/// How long the first line is, with its end.
fn line(asked: &[u8]) -> Option<usize> {
    Some(asked.iter().position(|&byte| byte == b'\n')? + 1)
}

/// It will be better another time.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::io::BufReader;

    use super::*;

    /// Connections of these users, and their other ends.
    fn of_users(
        users: impl IntoIterator<Item = u32>,
    ) -> (tempfile::TempDir, Connections, Vec<UnixStream>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = crate::unix::bind(&path, None).unwrap();
        let mut connections = Connections::new(listener);
        let mut ends = Vec::new();
        for (number, user) in users.into_iter().enumerate() {
            ends.push(UnixStream::connect(&path).unwrap());
            connections.accept(Instant::now());
            connections.open.get_mut(&(number as u64)).unwrap().user = Some(user);
        }
        (folder, connections, ends)
    }

    fn told(end: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::new(end).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn a_user_has_its_share_and_the_idle_give_way() {
        let full = std::iter::repeat_n(7, MOST_OF_USER).chain([8]);
        let (_folder, mut connections, mut ends) = of_users(full);
        assert_eq!(connections.make_room(Some(8)), Ok(()), "another user's share is not full");
        assert_eq!(connections.turned_away, 0);
        // The first has asked meanwhile: the second is idle the longest.
        ends[0].write_all(b"{}\n").unwrap();
        assert_eq!(connections.make_room(Some(7)), Ok(()));
        assert_eq!((connections.turned_away, connections.is_open(Client(1))), (1, false));
        assert!(connections.is_open(Client(0)));
        assert!(told(&ends[1]).contains("another one came, and this one asked nothing"));
        // Where all of them ask, one more is refused.
        connections.open.get_mut(&0).unwrap().user = Some(7);
        let (_folder, mut connections, mut ends) = of_users(std::iter::repeat_n(7, MOST_OF_USER));
        ends.iter_mut().for_each(|end| end.write_all(b"{}\n").unwrap());
        let why = connections.make_room(Some(7)).unwrap_err();
        assert_eq!(
            why,
            "user 7 has 16 connections here, and all of them ask or follow: end one first"
        );
        assert_eq!(connections.make_room(Some(0)), Ok(()), "root has no share but the whole");
    }

    #[test]
    fn of_a_full_socket_the_user_that_has_most_gives_way() {
        let users = (0..MOST as u32).map(|nth| if nth < 15 { 1000 } else { 2000 + nth / 10 });
        let (_folder, mut connections, ends) = of_users(users);
        assert_eq!(connections.open.len(), MOST);
        assert_eq!(connections.make_room(Some(3000)), Ok(()));
        assert_eq!((connections.len(), connections.is_open(Client(0))), (MOST - 1, false));
        assert!(told(&ends[0]).starts_with("{\"error\":"));
    }
}

//! `GET /metrics` and `GET /healthz`, for a thread that polls: enough of HTTP/1.1 for a scraper, and no
//! more.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::time::Duration;

use crate::connections::{Client, Connections, Found, Listener};
use crate::metrics::CONTENT_TYPE;
use crate::watch::Watch;

/// More headers than this are nonsense.
const HEADERS: usize = 64;

/// Why nothing listens there. One line.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}")]
pub struct PageError {
    /// Where.
    pub address: String,
    /// The system's error.
    pub error: io::Error,
}

/// A server of pages.
pub struct Server {
    connections: Connections,
    address: SocketAddr,
}

/// The page that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// `/metrics`
    Metrics(Client),
    /// `/healthz`
    Health(Client),
}

impl Server {
    /// Listens at `host:port`.
    ///
    /// # Errors
    /// When that address is none, or taken.
    pub fn listen(address: &str) -> Result<Self, PageError> {
        let failed = |error| PageError { address: address.to_owned(), error };
        // The standard library sets SO_REUSEADDR.
        let found = address.to_socket_addrs().map_err(failed)?.collect::<Vec<_>>();
        let listener = TcpListener::bind(&found[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { connections: Connections::new(Listener::Tcp(listener)), address })
    }

    /// Where it listens, also if port 0 was asked for.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections on which nothing happens end after this time; a minute where nothing is said.
    pub const fn set_idle(&mut self, idle: Duration) {
        self.connections.idle = idle;
    }

    /// Waits for requests too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.connections.watch(watch);
    }

    /// Reads and writes what can be; what is wanted. What is not here is answered here.
    pub fn work(&mut self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for (client, head) in self.connections.work(end_of_head) {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            // `end_of_head` has parsed it already.
            let _ = request.parse(&head);
            let path = request.path.unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            match (request.method, path) {
                (Some("GET"), "/metrics") => wanted.push(Wanted::Metrics(client)),
                (Some("GET"), "/healthz") => wanted.push(Wanted::Health(client)),
                (Some("GET"), _) => {
                    let text = "there is /metrics and /healthz\n";
                    self.answer(client, "404 Not Found", "text/plain", text);
                }
                _ => self.answer(client, "405 Method Not Allowed", "text/plain", "GET only\n"),
            }
        }
        wanted
    }

    /// Answers with metrics.
    pub fn metrics(&mut self, client: Client, text: &str) {
        self.answer(client, "200 OK", CONTENT_TYPE, text);
    }

    /// Answers whether all is well, with a word on it.
    pub fn health(&mut self, client: Client, well: bool, text: &str) {
        let status = if well { "200 OK" } else { "503 Service Unavailable" };
        self.answer(client, status, "text/plain", &format!("{text}\n"));
    }

    fn answer(&mut self, client: Client, status: &str, kind: &str, body: &str) {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        self.connections.answer(client, head.as_bytes());
        self.connections.answer(client, body.as_bytes());
        self.connections.end(client);
    }
}

fn end_of_head(asked: &[u8]) -> Found {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    match httparse::Request::new(&mut headers).parse(asked) {
        Ok(httparse::Status::Complete(length)) => Found::Request(length),
        Ok(httparse::Status::Partial) => Found::More,
        Err(_) => Found::Nonsense,
    }
}

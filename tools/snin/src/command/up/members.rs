//! Members of etcd, in which the controllers of a run share their state.

use std::net::{Ipv4Addr, TcpListener};

use super::UpError;
use super::children::Children;

/// See the module's documentation.
pub(super) struct Members {
    /// Where each is asked, and where other members call it.
    ports: Vec<(u16, u16)>,
}

impl Members {
    /// So many, at free ports of the loopback.
    pub(super) fn new(count: usize) -> std::io::Result<Self> {
        // All at once, so that no port is given twice.
        let bound = (0..2 * count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let bound: Vec<TcpListener> = bound.collect::<Result<_, _>>()?;
        let ports = bound.iter().map(|bound| Ok(bound.local_addr()?.port()));
        let ports: Vec<u16> = ports.collect::<std::io::Result<_>>()?;
        Ok(Self { ports: ports.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect() })
    }

    /// The address of the store; `None`: there are no members.
    pub(super) fn address(&self) -> Option<String> {
        let at = self.ports.iter().map(|(clients, _)| format!("127.0.0.1:{clients}"));
        let at = at.collect::<Vec<_>>().join(",");
        (!at.is_empty()).then(|| format!("etcd://{at}"))
    }

    /// Starts them, and does not wait for them: controllers ask until they answer.
    pub(super) fn start(&self, children: &mut Children) -> Result<(), UpError> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let all = self.ports.iter().enumerate();
        let all = all.map(|(number, (_, peers))| format!("etcd-{}={}", number + 1, url(*peers)));
        let all = all.collect::<Vec<_>>().join(",");
        for (number, &(clients, peers)) in self.ports.iter().enumerate() {
            let name = format!("etcd-{}", number + 1);
            let mut member = children.command("etcd")?;
            member.env_clear().args(["--name", &name]);
            member.arg("--data-dir").arg(children.path(&name));
            let (clients, peers) = (url(clients), url(peers));
            member.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            member.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
            member.args(["--initial-cluster", &all, "--initial-cluster-token", "snin-up"]);
            // All are on one machine: a member that is silent for half a second is gone.
            member.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
            member.args(["--logger", "zap", "--log-outputs", "stderr", "--log-level", "warn"]);
            children.start(&name, "etcd", member)?;
        }
        Ok(())
    }
}

//! Links that run slower than both their ends can.

use super::Sweep;
use crate::report::Missing;

impl Sweep {
    /// Each link in use whose width or speed is below the greatest that both its ports support and have enabled.
    pub fn slow(&self) -> Vec<Missing> {
        let graph = &self.graph;
        let mut slow = Vec::new();
        for (id, node) in graph.reachable() {
            for (num, port) in node.external().filter(|(_, port)| port.is_up()) {
                let end = (id, num);
                let Some(other) = port.link.map(|link| link.to).filter(|other| end < *other) else {
                    continue;
                };
                let (Some(info), Some(peer)) =
                    (&port.info, graph.port(other).and_then(|port| port.info.as_ref()))
                else {
                    continue;
                };
                let (Some(rate), Some(best)) = (info.rate(None), info.best_rate(peer)) else {
                    continue;
                };
                if rate.width < best.width || rate.speed < best.speed {
                    let (one, other) = (graph.port_name(end), graph.port_name(other));
                    slow.push(Missing::Slow { one, other, rate, best });
                }
            }
        }
        slow
    }
}

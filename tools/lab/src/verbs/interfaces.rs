//! Host ports as network interfaces: a TAP each, with an IP address per tree and a device of rdma_rxe.
//!
//! One kernel has all hosts, and would deliver what one sends to another without any wire. So that frames
//! really cross the TAPs, the table of local addresses is asked only for what comes in: rules before it
//! send what has a host's source address out by that host's TAP.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use snin_fabric::Lid;
use snin_verbs::{Device, LocalAddresses, Port};
use tun_rs::{DeviceBuilder, Layer};

use super::error::VerbsLabError;
use super::fabric::Place;
use super::wire::Tap;

/// Payload of 4 KiB and all headers.
const MTU: u16 = 4500;
/// The upper half of every address: 10.9.
const NETWORK: [u8; 2] = [10, 9];
/// The first of the routing tables, one a host.
const TABLE: usize = 10_900;
const RP_FILTER: &str = "/proc/sys/net/ipv4/conf/all/rp_filter";

/// How long a device may take to have all addresses.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of a host's interface and of its RDMA device.
pub(super) fn name(host: usize) -> String {
    format!("snin{host}")
}

/// The interfaces of all hosts. What was changed besides is undone when this is dropped; the interfaces go
/// with their TAPs.
pub(super) struct Interfaces {
    undo: String,
    rp_filter: String,
}

/// Says what the machine lacks, in one line.
///
/// # Errors
/// What it is.
fn check_machine() -> Result<(), VerbsLabError> {
    let missing = |what, remedy| Err(VerbsLabError::Missing { what, remedy });
    let found = |program: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    };
    if !rustix::process::geteuid().is_root() {
        return missing("root", "interfaces are made; `make lab` needs no root");
    }
    if !Path::new("/dev/net/tun").exists() {
        return missing("/dev/net/tun", "`modprobe tun`, or `make lab` for a machine that has it");
    }
    if !found("ip") || !found("rdma") {
        return missing(
            "`ip` or `rdma`",
            "install iproute2, or `make lab` for a machine that has it",
        );
    }
    // It is loaded by the first device too, where modules are.
    let loads =
        || Command::new("modprobe").arg("rdma_rxe").output().is_ok_and(|o| o.status.success());
    if !Path::new("/sys/module/rdma_rxe").exists() && !loads() {
        return missing(
            "rdma_rxe",
            "boot a kernel that has the module (Debian's has), or `make lab` for a machine that has it",
        );
    }
    Ok(())
}

impl Interfaces {
    /// Makes them all; the TAPs are for the thread that forwards frames, and have to live as long as the devices.
    ///
    /// # Errors
    /// When the machine lacks something, or refuses.
    pub(super) fn make(places: &[Place]) -> Result<(Self, Vec<Tap>), VerbsLabError> {
        check_machine()?;
        let mut taps = Vec::new();
        for (host, place) in places.iter().enumerate() {
            let name = name(host);
            let tap = DeviceBuilder::new().name(&name).layer(Layer::L2).mtu(MTU).enable(false);
            let failed = || VerbsLabError::system(format!("the interface {name}"));
            let device = tap.build_sync().map_err(failed())?;
            device.set_nonblocking(true).map_err(failed())?;
            // No frames but those of RDMA.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            for setting in ["accept_local=1", "rp_filter=0"] {
                let (key, value) = setting.split_once('=').unwrap_or_default();
                let path = format!("/proc/sys/net/ipv4/conf/{name}/{key}");
                fs::write(&path, value).map_err(VerbsLabError::system(path))?;
            }
            taps.push(Tap { port: place.port, device });
        }
        let rp_filter = fs::read_to_string(RP_FILTER).map_err(VerbsLabError::system(RP_FILTER))?;
        fs::write(RP_FILTER, "0").map_err(VerbsLabError::system(RP_FILTER))?;
        // From here on there is something to undo.
        let interfaces = Self { undo: undo(places), rp_filter };
        ip(&["-batch", "-"], &set_up(places))?;
        for host in 0..places.len() {
            let name = name(host);
            run("rdma", &["link", "add", &name, "type", "rxe", "netdev", &name], "")?;
        }
        for (host, place) in places.iter().enumerate() {
            wait_for_addresses(&name(host), place.lmc.addresses())?;
        }
        Ok((interfaces, taps))
    }
}

/// The kernel gives a device its addresses some time after it was made.
fn wait_for_addresses(name: &str, count: usize) -> Result<(), VerbsLabError> {
    let device = Device::open(name)?;
    let start = Instant::now();
    loop {
        let port = device.port(1);
        if let Ok(Port { addresses: LocalAddresses::Gids { table, .. }, .. }) = &port
            && table.len() >= count
        {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            port?;
            return Err(VerbsLabError::Stopped(format!("{name} has not {count} addresses")));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Interfaces {
    fn drop(&mut self) {
        // What cannot be undone is not worth failing for: rules that name no interface do nothing.
        let _ = ip(&["-force", "-batch", "-"], &self.undo);
        let _ = fs::write(RP_FILTER, &self.rp_filter);
    }
}

fn address(lid: Lid) -> String {
    let [high, low] = lid.0.to_be_bytes();
    format!("{}.{}.{high}.{low}", NETWORK[0], NETWORK[1])
}

/// All addresses of a host: blocks are aligned to their length (IBA 4.1.3).
fn block(place: &Place) -> String {
    format!("{}/{}", address(place.base), 32 - place.lmc.bits())
}

fn hardware_address(place: &Place) -> String {
    let [high, low] = place.base.0.to_be_bytes();
    format!("02:00:00:00:{high:02x}:{low:02x}")
}

fn lids(place: &Place) -> impl Iterator<Item = Lid> {
    (0..place.lmc.addresses() as u16).map(|offset| Lid(place.base.0 + offset))
}

/// What `ip` is told.
fn set_up(places: &[Place]) -> String {
    let mut lines = Vec::new();
    for (host, place) in places.iter().enumerate() {
        let (name, table) = (name(host), TABLE + host);
        lines.push(format!("link set {name} address {} up", hardware_address(place)));
        lines.extend(lids(place).map(|lid| format!("addr add {}/32 dev {name}", address(lid))));
        lines.push(format!("rule add pref 100 iif {name} lookup local"));
        lines.push(format!(
            "route add {}.{}.0.0/16 dev {name} table {table}",
            NETWORK[0], NETWORK[1]
        ));
        // What a host sends to itself stays in it, as in an adapter.
        lines.push(format!("route add local {} dev {name} table {table}", block(place)));
        lines.push(format!("rule add pref 200 from {} lookup {table}", block(place)));
        for (_, peer) in places.iter().enumerate().filter(|&(other, _)| other != host) {
            let hardware = hardware_address(peer);
            lines.extend(lids(peer).map(|lid| {
                format!("neigh add {} lladdr {hardware} dev {name} nud permanent", address(lid))
            }));
        }
    }
    lines.push("rule add pref 300 lookup local".to_owned());
    lines.push("rule del pref 0".to_owned());
    lines.join("\n")
}

fn undo(places: &[Place]) -> String {
    let mut lines = vec!["rule add pref 0 lookup local".to_owned(), "rule del pref 300".to_owned()];
    for (host, place) in places.iter().enumerate() {
        let name = name(host);
        lines.push(format!("rule del pref 100 iif {name} lookup local"));
        lines.push(format!("rule del pref 200 from {} lookup {}", block(place), TABLE + host));
        lines.push(format!("link del {name}"));
    }
    lines.join("\n")
}

fn ip(arguments: &[&str], input: &str) -> Result<(), VerbsLabError> {
    run("ip", arguments, input)
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<(), VerbsLabError> {
    let command = format!("{program} {}", arguments.join(" "));
    let failed = |message: String| VerbsLabError::Command { command: command.clone(), message };
    let run = || -> io::Result<_> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    };
    let output = run().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(said.lines().next().unwrap_or("no word why").to_owned()))
}

#[cfg(test)]
mod tests {
    use snin_fabric::{Guid, Lmc, NodeIndex, PortIndex};

    use super::*;

    fn place(base: u16) -> Place {
        let (port, leaf) = (PortIndex(0), NodeIndex(0));
        Place { port, guid: Guid(1), leaf, base: Lid(base), lmc: Lmc::new(1).unwrap() }
    }

    #[test]
    fn the_low_16_bits_of_every_address_are_the_lid() {
        let text = set_up(&[place(0x20), place(0x1fe)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..8],
            [
                "link set snin0 address 02:00:00:00:00:20 up",
                "addr add 10.9.0.32/32 dev snin0",
                "addr add 10.9.0.33/32 dev snin0",
                "rule add pref 100 iif snin0 lookup local",
                "route add 10.9.0.0/16 dev snin0 table 10900",
                "route add local 10.9.0.32/31 dev snin0 table 10900",
                "rule add pref 200 from 10.9.0.32/31 lookup 10900",
                "neigh add 10.9.1.254 lladdr 02:00:00:00:01:fe dev snin0 nud permanent",
            ]
        );
        assert_eq!(
            lines[16..],
            [
                "neigh add 10.9.0.32 lladdr 02:00:00:00:00:20 dev snin1 nud permanent",
                "neigh add 10.9.0.33 lladdr 02:00:00:00:00:20 dev snin1 nud permanent",
                "rule add pref 300 lookup local",
                "rule del pref 0"
            ]
        );
    }

    #[test]
    fn the_local_table_is_never_without_a_rule() {
        let text = undo(&[place(0x20)]);
        assert!(text.starts_with("rule add pref 0 lookup local\nrule del pref 300\n"));
    }
}

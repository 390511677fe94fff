//! Which port, on machines with adapters of our choice. libibumad and the kernel are real: only the files that
//! describe adapters are made up, and shown to the program in a namespace of its own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::SNIN_SM;

/// In a namespace where the caller is root of nothing but its own files, and may not even open those.
const INSIDE: &str =
    "mount --bind \"$1/class\" /sys/class && mount --bind \"$1/dev\" /dev && shift &&
    exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";

/// Adapter, number, GUID, link layer, whether there is a cable.
type Port = (&'static str, u8, u64, &'static str, bool);

/// Its `/sys/class` and `/dev`.
struct Machine(TempDir);

impl Machine {
    /// No user may open the devices.
    fn of(ports: &[Port]) -> Self {
        let machine = Self::without_umad(ports);
        let put =
            |file: &str, text: &str| machine.put(&format!("class/infiniband_mad/{file}"), text);
        put("abi_version", "5");
        for (number, (adapter, port, ..)) in ports.iter().enumerate() {
            put(&format!("umad{number}/ibdev"), adapter);
            put(&format!("umad{number}/port"), &port.to_string());
            let device = format!("dev/infiniband/umad{number}");
            machine.put(&device, "");
            let nobody = Permissions::from_mode(0o000);
            fs::set_permissions(machine.0.path().join(device), nobody).unwrap();
        }
        machine
    }

    /// The kernel's module for user-space management datagrams is not loaded.
    fn without_umad(ports: &[Port]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.put("dev/null", "");
        machine.put("class/README", "");
        for &(adapter, port, guid, link_layer, cable) in ports {
            let guid = format!("{guid:016x}");
            let words: Vec<&str> = (0..4).map(|n| &guid[4 * n..4 * n + 4]).collect();
            let guid = words.join(":");
            let adapter = format!("class/infiniband/{adapter}");
            for (file, text) in [
                ("node_type", "1: CA"),
                ("fw_ver", "22.36.1010"),
                ("hw_rev", "0"),
                ("hca_type", "MT4125"),
                ("node_guid", &*guid),
                ("sys_image_guid", &*guid),
            ] {
                machine.put(&format!("{adapter}/{file}"), text);
            }
            let (state, phys_state) =
                if cable { ("4: ACTIVE", "5: LinkUp") } else { ("1: DOWN", "2: Polling") };
            for (file, text) in [
                ("lid", "0x0"),
                ("lid_mask_count", "0"),
                ("sm_lid", "0x0"),
                ("sm_sl", "0"),
                ("state", state),
                ("phys_state", phys_state),
                ("rate", "100 Gb/sec (4X EDR)"),
                ("cap_mask", "0xa651e848"),
                ("gids/0", &*format!("fe80:0000:0000:0000:{guid}")),
                ("pkeys/0", "0xffff"),
                ("link_layer", link_layer),
            ] {
                machine.put(&format!("{adapter}/ports/{port}/{file}"), text);
            }
        }
        machine
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// The one line by which the program says why it does not start.
    #[track_caller]
    fn refuses(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", INSIDE, "sh"]).arg(self.0.path());
        command.arg(SNIN_SM).args(arguments).env_remove("STATE_DIRECTORY");
        let said = command.output().expect("unshare, of the Debian package util-linux");
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!((said.status.code(), error.lines().count()), (Some(3), 1), "{error}");
        assert_eq!(said.stdout, b"");
        error.trim_end().strip_prefix("snin-sm: ").expect("the program's name").to_owned()
    }
}

/// An adapter with an Ethernet port and one with two InfiniBand ports, of which one has no cable.
const MIXED: [Port; 3] = [
    ("mlx5_bond_0", 1, 0x0002_c903_00a1_0001, "Ethernet", true),
    ("mlx5_0", 1, 0x0002_c903_00a1_0002, "InfiniBand", true),
    ("mlx5_0", 2, 0x0002_c903_00a1_0003, "InfiniBand", false),
];
const SECOND: Port = ("mlx5_1", 1, 0x0002_c903_00a1_0004, "InfiniBand", true);

fn forbidden(port: &str) -> String {
    format!(
        "{port}: Permission denied (os error 13): /dev/infiniband/umad* is for root and its group (udev: \
         group rdma, mode 0660)"
    )
}

/// Which port was meant shows by which one may not be opened.
#[test]
fn a_port_is_chosen_by_name_number_or_guid_and_must_be_open_to_us() {
    let machine = Machine::of(&[&MIXED[..], &[SECOND]].concat());
    let folder = tempfile::tempdir().unwrap();
    let config = |text: &str| {
        let path = folder.path().join("sm.toml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let file = config("sweep_interval = 5\n");
    for (arguments, port) in [
        (&["--ca", "mlx5_0", "--port", "1", "--config", &file][..], "mlx5_0/1"),
        (&["--ca", "mlx5_1"], "mlx5_1/1"),
        (&["--port", "2"], "mlx5_0/2"),
        (&["--guid", "0x0002c90300a10003"], "mlx5_0/2"),
        (&["--ca", "mlx5_0", "--once"], "mlx5_0/1"),
    ] {
        assert_eq!(machine.refuses(arguments), forbidden(port), "{arguments:?}");
    }
    for text in ["ca = \"mlx5_1\"\n", "guid = \"0x0002c90300a10004\"\n"] {
        assert_eq!(machine.refuses(&["--config", &config(text)]), forbidden("mlx5_1/1"));
    }
    let absent = folder.path().join("absent.toml").display().to_string();
    assert_eq!(
        machine.refuses(&["--ca", "mlx5_0", "--port", "1", "--config", &absent]),
        format!("{absent}: there is no such file: --dump-config prints one to begin with")
    );
    // The Ethernet port is no choice where there is one of InfiniBand.
    assert_eq!(Machine::of(&MIXED[..2]).refuses(&["--once"]), forbidden("mlx5_0/1"));
}

#[test]
fn an_open_choice_lists_the_candidates() {
    let machine = Machine::of(&[&MIXED[..], &[SECOND]].concat());
    let candidates = "there is mlx5_0/1 (0x0002c90300a10002, active), mlx5_0/2 (0x0002c90300a10003, down), \
                      mlx5_1/1 (0x0002c90300a10004, active)";
    assert_eq!(
        machine.refuses(&["--once"]),
        format!("which port? choose by --ca and --port, or by --guid: {candidates}")
    );
    for wrong in ["--ca mlx5_7", "--ca mlx5_1 --port 2", "--guid 0x0002c90300a10001"] {
        let arguments: Vec<&str> = wrong.split(' ').collect();
        let expected = format!("no InfiniBand port is {wrong}; {candidates}");
        assert_eq!(machine.refuses(&arguments), expected);
    }
}

#[test]
fn a_machine_without_infiniband_or_umad_says_so() {
    assert_eq!(
        Machine::of(&MIXED[..1]).refuses(&["--once"]),
        "this machine has no InfiniBand port, only Ethernet ones: mlx5_bond_0/1 (0x0002c90300a10001, active)"
    );
    let expected = "/sys/class/infiniband_mad/abi_version: No such file or directory (os error 2): no umad \
                    here; `modprobe ib_umad` loads it";
    assert_eq!(Machine::without_umad(&MIXED).refuses(&["--once"]), expected);
}

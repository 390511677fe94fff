//! The examples of each page: a command line, and what it does.

/// The page, the command line, what it does.
const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "snin",
        "snin topo check fabric.ibnetdiscover",
        "Says which Clos the fabric is that ibnetdiscover printed.",
    ),
    (
        "snin",
        "snin plan fabric.ibnetdiscover --traffic permutation --lfts tables",
        "Packs a random permutation, and writes tables that OpenSM loads.",
    ),
    (
        "snin",
        "snin lab clos:16,8,8 --html report.html",
        "Runs subnet manager, controller and agents on an emulated fabric.",
    ),
    ("snin-topo", "snin topo check fabric.ibnetdiscover", "Which Clos a fabric is."),
    (
        "snin-topo-generate",
        "snin topo generate clos:36,18,18 --cut 10 > fabric.ibnetdiscover",
        "A fabric of 36 leaves, 18 spines and 18 hosts a leaf that lacks ten cables.",
    ),
    (
        "snin-topo-check",
        "ibnetdiscover | snin topo check -",
        "The fabric at hand, every irregularity by name.",
    ),
    (
        "snin-plan",
        "snin plan fabric.ibnetdiscover --traffic jobs.csv --json > plan.json",
        "Every grant with its path, and the reason of each that is left out.",
    ),
    (
        "snin-plan",
        "snin plan fabric.ibnetdiscover --lfts tables",
        "The tables alone, with the addresses that they are for.",
    ),
    (
        "snin-plan-slices",
        "snin plan slices fattree:36 --generate 10000",
        "How trees set aside for 10,000 jobs would be used.",
    ),
    (
        "snin-verify",
        "snin verify fabric.ibnetdiscover --lfts tables --plan plan.json",
        "Judges tables and plan by code that shares nothing with their maker.",
    ),
    (
        "snin-sm-simulate",
        "snin sm simulate fabric.ibnetdiscover --event 'cut leaf3/20 @2s'",
        "What bringing the fabric up and losing a cable cost in management datagrams.",
    ),
    (
        "snin-study",
        "snin study reconfiguration --switches 8 --seeds 1 --html study.html",
        "A switch goes while hosts send: a published mechanism's time line, and ours.",
    ),
    (
        "snin-study-reconfiguration",
        "snin study reconfiguration --clos --html study.html --json study.json",
        "The whole study: five sizes, 100 fabrics each, and the published Clos.",
    ),
    ("snin-sm-status", "snin sm status --json", "The state of the subnet for a program."),
    ("snin-sm-sweep", "snin sm sweep", "After work on cables: looks at everything, and waits."),
    ("snin-sm-dump", "snin sm dump > fabric.ibnetdiscover", "The fabric as it is now, for a plan."),
    ("snin-sm-rotate-keys", "snin sm rotate-keys", "Another M_Key on every port."),
    ("snin-sm-lfts", "snin sm lfts > opensm-lfts.dump", "Tables that OpenSM could go on with."),
    ("snin-sm-events", "snin sm events --follow", "Everything that happens from now on."),
    (
        "snin-lab",
        "snin lab fabric.ibnetdiscover --pattern shift:18 --windows 10 --html report.html",
        "Ten windows of one pattern on a fabric of one's own, as a page with pictures.",
    ),
    (
        "snin-emulate",
        "snin emulate clos:4,4,2 --socket sim",
        "A fabric that `snin-sm --ibsim sim` manages and `ibsim-run` shows to other programs.",
    ),
    ("snin-emulator", "snin emulator status --socket sim", "What a running emulator carries."),
    (
        "snin-emulator-status",
        "snin emulator status --socket sim",
        "Its links, and who is attached.",
    ),
    ("snin-emulator-owners", "snin emulator owners --json", "Whether a link ever had two owners."),
    ("snin-emulator-fault", "snin emulator fault cut leaf3/20", "A cable is pulled."),
    ("snin-up", "snin up clos:4,4,2", "The whole of snin on an emulated fabric, as processes."),
    ("snin-controller", "snin controller status", "What a running controller grants."),
    ("snin-controller-status", "snin controller status", "What a running controller grants."),
    ("snin-controller-windows", "snin controller windows", "The last windows, as decided."),
    ("snin-controller-grants", "snin controller grants --json", "All grants in force."),
    ("snin-controller-fabric", "snin controller fabric", "The fabric that it grants on."),
    ("snin-controller-policy", "snin controller policy strict", "Another policy from now on."),
    ("snin-controller-events", "snin controller events", "What has happened."),
    ("snin-controller-requests", "snin controller requests", "Whose ports are kept, and when."),
    ("snin-slice", "snin slice create slurm/4711 --hosts 16", "A slice for a job of 16 hosts."),
    (
        "snin-slice-create",
        "snin slice create slurm/4711 --on node1,node2,node9",
        "A slice for a job on hosts that the launcher chose.",
    ),
    ("snin-slice-resize", "snin slice resize slurm/4711 --hosts 24", "The job grows."),
    ("snin-slice-delete", "snin slice delete slurm/4711", "The job has ended."),
    ("snin-slice-list", "snin slice list --json", "Every slice, for a program."),
    ("snin-slice-explain", "snin slice explain --hosts 64", "Whether 64 hosts would get one."),
    (
        "snin-request",
        "snin request --from node3 --to node7 --windows 4",
        "The next four windows are for what node3 sends to node7.",
    ),
    (
        "snin-request",
        "snin request --from node3 --to node7 --at 2026-11-25T14:00:00Z --for 90s",
        "A minute and a half of this afternoon.",
    ),
    ("snin-release", "snin release 17", "Request 17 is not needed any more."),
    ("snin-path", "snin path node1 node2", "The way between two hosts."),
    ("snin-owner", "snin owner leaf3/20", "Who owns a link now."),
    ("snin-replay", "snin replay sm.record", "What a manager did, once more."),
    ("snin-pki", "snin pki init", "A certificate authority of the site's own."),
    ("snin-pki-init", "snin pki init", "A certificate authority of the site's own."),
    ("snin-pki-issue", "snin pki issue agent/0x0002c90300a1b2c3", "A certificate for a daemon."),
    (
        "snin-pki-renew",
        "snin pki renew agent/0x0002c90300a1b2c3",
        "A new one before the old runs out.",
    ),
    (
        "snin-pki-revoke",
        "snin pki revoke agent/0x0002c90300a1b2c3",
        "A certificate that counts no more.",
    ),
    ("snin-pki-list", "snin pki list", "All certificates, and until when."),
    ("snin-lat", "snin lat", "Waits for a client on this host."),
    ("snin-lat", "snin lat --peer node17 --size 2,64,4k", "Latencies to the host where one waits."),
    (
        "snin-agent-status",
        "snin agent status",
        "What the agent has counted, and whether it hears its controller.",
    ),
    ("snin-agent-flows", "snin agent flows", "Who is sent to, along which tree, until when."),
    ("snin-agent-mesh", "snin agent mesh --json", "The queue pairs that the agent sends on."),
    ("snin-agent-histogram", "snin agent histogram --flow 3", "How long messages of a flow took."),
    ("snin-agent-events", "snin agent events --since 100", "What happened after event 100."),
    (
        "snin-agent-send",
        "snin agent send --peer 0x0002c90300a1b2c3 --count 1000",
        "A thousand messages to see whether a peer is reached.",
    ),
    ("snin-man", "snin man /usr/local/share/man/man1", "Writes every page."),
    (
        "snin-completions",
        "snin completions bash > /etc/bash_completion.d/snin",
        "Has bash complete the command and the daemons.",
    ),
];

/// The examples of a page.
pub(super) fn of(page: &str) -> impl Iterator<Item = (&'static str, String)> {
    let of_page = EXAMPLES.iter().filter(move |(name, ..)| *name == page);
    of_page.map(|&(_, command, what)| (command, what.to_owned()))
}

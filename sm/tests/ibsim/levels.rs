//! Levels of service by one file, by OpenSM and by the program: `saquery` is answered with the same service level,
//! MTU, rate and lifetime from two hosts to all others, for every question that the files' rules look at.

use std::fs;

use rustix::process::Signal;
use snin_fabric::{PortIndex, dump};
use snin_judges::{JudgeError, OpenSm, Program, finish};

use crate::administration::{host, is_up};
use crate::support::{Lab, PATIENCE, fabric, id};

/// Levels beside DEFAULT, for the rules of several files.
const LEVELS: &str = "
qos-levels
    qos-level
        name: DEFAULT
        use: default
        sl: 1
    end-qos-level
    qos-level
        name: Gold
        use: the best
        sl: 5
        mtu-limit: 3
        packet-life: 12
    end-qos-level
    qos-level
        name: Slow
        sl: 6
        rate-limit: 2
    end-qos-level
    qos-level
        name: Keyed
        sl: 7
        pkey: 0x7FFF
    end-qos-level
end-qos-levels
";

fn rules(rules: &[&str]) -> String {
    let rules: Vec<String> =
        rules.iter().map(|rule| format!("qos-match-rule\n{rule}\nend-qos-match-rule\n")).collect();
    format!("{LEVELS}qos-match-rules\n{}end-qos-match-rules\n", rules.concat())
}

/// Ten files; `{1}` is the GUID of a host's port.
fn files() -> [String; 10] {
    let groups = "port-groups\n\
        port-group\nname: One\nuse: one port\nport-guid: {1}\nend-port-group\n\
        port-group\nname: Others\nport-guid: {2}, {3}\nend-port-group\n\
        port-group\nname: All\nnode-type: ALL\nend-port-group\n\
        port-group\nname: Adapters\nnode-type: CA\nend-port-group\n\
        port-group\nname: Switches\nnode-type: SWITCH\nend-port-group\n\
        end-port-groups\n";
    [
        LEVELS.to_owned(),
        rules(&["service-id: 22,4719-5000\nqos-level-name: Gold", "qos-level-name: Slow"]),
        rules(&["qos-class: 7-9,11\nqos-level-name: Gold", "qos-class: 3\nqos-level-name: Slow"]),
        rules(&["pkey: 0x7FFF\nqos-level-name: Keyed"]),
        format!("{groups}{}", rules(&["source: One\nqos-level-name: Gold"])),
        format!("{groups}{}", rules(&["destination: One,Others\nqos-level-name: Slow"])),
        format!(
            "{groups}{}",
            rules(&[
                "source: Adapters\ndestination: Others\nqos-class: 7\nqos-level-name: Gold",
                "source: Switches\nqos-level-name: Slow",
                "source: All\ndestination: One\nqos-level-name: Keyed",
            ])
        ),
        "qos-ulps\ndefault : 2\nsdp, port-num 30000-30010 : 3\nsdp : 4\nrds : 6\niser, port-num 900 : 7\n\
         iser : 8\nend-qos-ulps\n"
            .to_owned(),
        "qos-ulps\ndefault : 2\nany, service-id 22-30 : 3\nany, pkey 0x7FFF : 4\n\
         srp, target-port-guid {2} : 5\nend-qos-ulps\n"
            .to_owned(),
        format!(
            "{}qos-ulps\nany, service-id 22 : 9\nany, target-port-guid {{3}} : 10\nend-qos-ulps\n",
            rules(&["service-id: 22\nqos-level-name: Gold"])
        ),
    ]
}

/// What is asked besides the two ends.
const QUESTIONS: [&[&str]; 9] = [
    &[],
    &["--service_id", "22"],
    &["--service_id", "4800"],
    &["--service_id", "95536"],
    &["--service_id", "95555"],
    &["--service_id", "17189066"],
    &["--service_id", "17172356"],
    &["-Q", "7"],
    &["--pkey", "0x7FFF"],
];

/// What `saquery` shows of a path: level, MTU, rate, lifetime.
fn answers(lab: &Lab, lids: &[u16]) -> Result<Vec<(String, String)>, JudgeError> {
    let mut answers = Vec::new();
    // From two of them to all.
    for (&from, &to) in lids[..2].iter().flat_map(|from| lids.iter().map(move |to| (from, to))) {
        if from == to {
            continue;
        }
        for question in QUESTIONS {
            let (from, to) = (from.to_string(), to.to_string());
            let mut command = lab.simulator.command(Program::SAQUERY, Some(&host(lab, 1)))?;
            command.args(["PR", "--slid", &from, "--dlid", &to]).args(question);
            let said = finish(&mut command, lab.simulator.folder(), PATIENCE)?;
            let said = String::from_utf8_lossy(&said.out).into_owned();
            let shown = |line: &&str| {
                let line = line.trim_start();
                ["sl.", "mtu.", "rate.", "pkt_life.", "pkey."]
                    .iter()
                    .any(|key| line.starts_with(key))
            };
            let shown: Vec<&str> = said.lines().filter(shown).map(str::trim).collect();
            // A key that is asked for OpenSM repeats as it was asked, and the program as the sender has it.
            let shown = shown.join(" ").replace("0x7FFF", "0xFFFF");
            answers.push((format!("{from} to {to} {question:?}"), shown));
        }
    }
    Ok(answers)
}

#[test]
fn paths_are_those_of_opensm_by_ten_files() -> Result<(), JudgeError> {
    let topology = fabric("clos:2,2,2");
    let ports: Vec<PortIndex> = topology
        .nodes()
        .filter(|&node| !topology.is_switch(node))
        .flat_map(|node| topology.cables(node))
        .map(|(port, _)| port)
        .collect();
    let mut differs = Vec::new();
    let mut asked = 0;
    for (number, file) in files().into_iter().enumerate() {
        let guid = |place: usize| topology.port(ports[place]).guid.to_string();
        let file =
            (1..4).fold(file, |file, place| file.replace(&format!("{{{place}}}"), &guid(place)));
        let lab = Lab::new(&topology)?;
        let path = lab.file("qos-policy.conf");
        fs::write(&path, &file).unwrap();
        // Nothing is granted: all are paths of ordinary traffic, as OpenSM's.
        let settings = format!("lmc = 0\nqos = true\ngranted_sl = 0\nqos_policy_file = {path:?}\n");
        let keeper = lab.keep(&settings)?;
        is_up(&keeper);
        // Dumps are written beside the manager's loop.
        let dumps = ["opensm-lfts.dump", "guid2lid"].map(|name| lab.file("dump").join(name));
        let begun = std::time::Instant::now();
        while !dumps.iter().all(|dump| dump.exists()) && begun.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        let (_, addresses) = lab.told();
        let lids: Vec<u16> = ports.iter().map(|&port| addresses.base(port).unwrap().0).collect();

        let other = Lab::new(&topology)?;
        let text = dump::guid2lid::write(&topology, &addresses);
        fs::write(other.simulator.folder().join("guid2lid"), text).unwrap();
        let theirs = other.file("qos-policy.conf");
        fs::write(&theirs, &file).unwrap();
        let home = id(&topology, lab.home);
        let options = format!("qos TRUE\nqos_policy_file {}\n", theirs.display());
        let opensm = OpenSm { host: Some(&home), options: Some(&options), ..OpenSm::default() };
        let opensm = opensm.keep(&other.simulator)?;
        let (ours, theirs) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| answers(&lab, &lids));
            let theirs = answers(&other, &lids);
            (ours.join(), theirs)
        });
        let (ours, theirs) = (ours.unwrap()?, theirs?);
        asked += ours.len();
        for ((question, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            if ours != theirs {
                differs.push(format!("file {number}: {question}: {ours} beside {theirs}"));
            }
        }
        drop(opensm);
        keeper.end(Signal::TERM);
    }
    assert!(differs.is_empty(), "{} of {asked}:\n{}", differs.len(), differs.join("\n"));
    assert_eq!(asked, 10 * 6 * QUESTIONS.len());
    Ok(())
}

/// The file is read again when it is asked for; with one that is wrong levels stay as they are.
#[test]
fn another_file_is_taken_and_a_wrong_one_is_not() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:2,2,2"))?;
    let path = lab.file("qos-policy.conf");
    fs::write(&path, "qos-ulps\ndefault : 2\nend-qos-ulps\n").unwrap();
    let keeper = lab.keep(&format!("lmc = 0\ngranted_sl = 0\nqos_policy_file = {path:?}\n"))?;
    is_up(&keeper);
    let shows = |sl: &str| -> Result<(), JudgeError> {
        let begun = std::time::Instant::now();
        loop {
            let mut command = lab.simulator.command(Program::SAQUERY, Some(&host(&lab, 1)))?;
            command.args(["PR", "--slid", "1", "--dlid", "2"]);
            let said = finish(&mut command, lab.simulator.folder(), PATIENCE)?;
            let said = String::from_utf8_lossy(&said.out).into_owned();
            if said.lines().any(|line| line.trim_start().starts_with("sl.") && line.ends_with(sl)) {
                return Ok(());
            }
            assert!(begun.elapsed() < PATIENCE, "{sl}: {said}");
        }
    };
    shows(".0x2")?;
    fs::write(&path, "qos-ulps\ndefault : 3\nend-qos-ulps\n").unwrap();
    keeper.signal(Signal::HUP);
    shows(".0x3")?;
    fs::write(&path, "qos-ulps\ndefault : 16\nend-qos-ulps\n").unwrap();
    keeper.signal(Signal::HUP);
    let refused = "the QoS policy stays as it is";
    let begun = std::time::Instant::now();
    while !keeper.tail().contains(refused) {
        assert!(begun.elapsed() < PATIENCE, "{}", keeper.tail());
    }
    assert!(keeper.tail().contains("line 2: sl is `16`: expected 0 to 15"), "{}", keeper.tail());
    shows(".0x3")?;
    keeper.end(Signal::TERM);
    Ok(())
}

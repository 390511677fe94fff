//! Versions of the expected configuration in a real cluster's service: every manager has the newest.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use snin_fabric::ibnet;
use snin_judges::{Etcd, JudgeError, Simulator};

use crate::daemon::{Daemon, fabric, hosts};

fn ask(daemon: &Daemon, command: &str) -> Value {
    daemon.ask(&json!({ "command": command })).unwrap_or_default()
}

/// What each version says of itself.
fn history(daemon: &Daemon) -> Vec<(u64, String, bool)> {
    let said = ask(daemon, "config-history");
    let all = said["versions"].as_array().cloned().unwrap_or_default();
    let told = |it: &Value| {
        let by = it["by"].as_str().unwrap_or_default().to_owned();
        assert!(it["at"].as_u64() > Some(1_700_000_000), "{it}");
        (it["version"].as_u64().unwrap_or(0), by, it["forced"] == true)
    };
    all.iter().map(told).collect()
}

fn line(version: u64, by: &str, forced: bool) -> (u64, String, bool) {
    (version, by.to_owned(), forced)
}

#[test]
fn a_version_that_one_manager_applies_is_every_managers_and_none_is_lost() -> Result<(), JudgeError>
{
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let (hosts, folder) = (hosts(&topology), simulator.folder());
    let mut etcd = Etcd::new(folder, 3, None)?;
    etcd.start()?;
    let address = etcd.address();
    let config = |name: &str, priority: u8| {
        let state = folder.join(format!("{name}.state"));
        format!(
            "sm_priority = {priority}\nsweep_interval = 1\ncluster = {:?}\nstate_dir = {state:?}\n",
            address
        )
    };
    let mut first = Daemon::begin(&simulator, "first", Some(&hosts[0]), &config("first", 5));
    first.until("consented", |first| ask(first, "cluster")["verdict"] == "granted");
    let mut second = Daemon::begin(&simulator, "second", Some(&hosts[5]), &config("second", 3));
    second.until("standby", |second| ask(second, "cluster")["verdict"] == "other");

    // What the first applies the second has too, to the letter.
    let learnt = ask(&first, "config-learn")["text"].as_str().unwrap_or_default().to_owned();
    let file = folder.join("expected.toml");
    fs::write(&file, format!("# as it was built\n{learnt}")).unwrap();
    let apply = |by: &str, force: bool| {
        let mut wanted = json!({ "command": "config-apply", "file": file, "by": by });
        wanted["force"] = json!(force);
        wanted
    };
    let applied = first.ask(&apply("uid 7", false)).unwrap();
    assert_eq!((&applied["version"], &applied["enforced"]), (&1.into(), &true.into()), "{applied}");
    second.until("told", |second| history(second) == [line(1, "uid 7", false)]);
    assert_eq!(ask(&second, "config-show"), ask(&first, "config-show"));
    assert_eq!(ask(&second, "port-status")["version"], 1);
    first.until("named", |_| etcd.get("expected").is_ok_and(|named| named == "1"));

    // And the other way round.
    second.ask(&apply("uid 8", true)).unwrap();
    first.until("told", |first| history(first).last() == Some(&line(2, "uid 8", true)));
    first.until("in force", |first| ask(first, "port-status")["version"] == 2);

    // Both at once, again and again: one of them is refused, or comes after the other.
    let mut known = 2;
    for _ in 0..10 {
        let said: Vec<Result<Value, String>> = thread::scope(|scope| {
            let both =
                [&first, &second].map(|daemon| scope.spawn(|| daemon.ask(&apply("both", true))));
            both.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let versions: Vec<u64> =
            said.iter().flatten().filter_map(|said| said["version"].as_u64()).collect();
        let late = |why: &String| why.contains("was applied meanwhile, by both");
        assert!(said.iter().filter_map(|said| said.as_ref().err()).all(late), "{said:?}");
        known += versions.len();
        assert!(!versions.is_empty() && versions.iter().max() == Some(&(known as u64)), "{said:?}");
        for daemon in [&mut first, &mut second] {
            daemon.until("told of all", |daemon| history(daemon).len() == known);
        }
    }

    // Without a majority none is applied; what was is known without the cluster too.
    etcd.kill(0);
    etcd.kill(1);
    let refused = first.ask(&apply("uid 9", false)).unwrap_err();
    assert!(!refused.is_empty() && refused.lines().count() == 1, "{refused}");
    let before = history(&second);
    second.end();
    let mut second = Daemon::begin(&simulator, "second", Some(&hosts[5]), &config("second", 3));
    second.until("back", |second| history(second) == before);
    assert_eq!(ask(&second, "config-show"), ask(&first, "config-show"));
    etcd.start_member(0)?;
    first.until("applied", |first| first.ask(&apply("uid 9", false)).is_ok());
    second.until("told", |second| history(second).len() > known);
    first.end();
    second.end();
    Ok(())
}

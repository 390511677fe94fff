//! A controller whose disk is full, or gives back something else: it goes on with what it promised, promises
//! nothing new that has to last, and heals.

use std::fs;

use serde_json::{Value, json};
use snin_judges::{Disk, JudgeError, ends_of, flipped};

use super::process::Controller;

const TIMES: &str = "window_us = 20000\nlead_us = 4000\n";

fn create(controller: &Controller, owner: &str) -> Result<Value, String> {
    controller.ask(&json!({ "command": "slice_create", "owner": owner, "count": 1 }))
}

fn owners(controller: &Controller) -> Vec<String> {
    let all = controller.ask(&json!({ "command": "slices" })).unwrap();
    let all = all["slices"].as_array().unwrap().iter();
    all.map(|slice| slice["owner"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_start_on_a_full_disk_waits_for_room_and_grants_nothing() -> Result<(), JudgeError> {
    let mut controller = Controller::prepare("clos:4,4,2", TIMES);
    let disk = Disk::mount(&controller.file("state"), 8)?;
    controller.start();
    let status = controller.until(|status| !status["not_stored"].is_null());
    assert_eq!((&status["healthy"], &status["view"]), (&json!(false), &json!(null)));
    assert_eq!(status["state"], "the state is not stored");
    let why = status["not_stored"].as_str().unwrap();
    assert!(why.contains("controller.redb") && why.contains("No space left"), "{why}");
    assert!(create(&controller, "job/1").is_err());
    assert_eq!(fs::read_dir(disk.folder()).unwrap().count(), 0, "no half of a file");
    // Killed and started again, it is where it was.
    controller.kill();
    controller.start();
    controller.until(|status| !status["not_stored"].is_null());
    disk.resize(16_384)?;
    let status = controller.until(|status| status["healthy"] == true);
    assert_eq!((&status["term"], &status["not_stored"]), (&json!(1), &json!(null)));
    create(&controller, "job/1").unwrap();
    let log = controller.log();
    assert!(log.contains("the state is stored again"), "{log}");
    controller.kill();
    controller.start();
    let status = controller.until(|status| status["healthy"] == true);
    assert_eq!((&status["term"], owners(&controller)), (&json!(2), vec!["job/1".to_owned()]));
    controller.end();
    Ok(())
}

#[test]
fn a_disk_that_fills_ends_no_controller_and_what_it_refused_is_not_done() -> Result<(), JudgeError>
{
    let mut controller = Controller::prepare("clos:8,8,8", TIMES);
    let disk = Disk::mount(&controller.file("state"), 8_192)?;
    controller.start();
    controller.until(|status| status["healthy"] == true);
    let mut promised = vec!["a-first".to_owned()];
    create(&controller, &promised[0]).unwrap();
    let filler = disk.fill("filler")?;
    // What the store has set aside may still do for some.
    let refused = (0..60).find_map(|n| {
        let owner = format!("b-{n:02}-{}", "x".repeat(100));
        match create(&controller, &owner) {
            Ok(_) => {
                promised.push(owner);
                None
            }
            Err(why) => Some((owner, why)),
        }
    });
    let (owner, why) = refused.expect("the disk is full");
    assert!(why.contains("No space left"), "{why:.300}");
    assert_eq!(owners(&controller), promised, "what was refused is not done");
    let status = controller.until(|status| status["healthy"] == false);
    assert!(status["not_stored"].as_str().is_some_and(|why| why.contains("No space left")));
    // It goes on, window after window.
    let windows = |status: &Value| status["counters"]["windows"].as_u64().unwrap();
    let before = windows(&status);
    controller.until(|status| windows(status) > before + 20);
    // Killed on the full disk, it comes again, if not with a term.
    controller.kill();
    controller.start();
    controller.status();
    fs::remove_file(&filler).unwrap();
    let status = controller.until(|status| status["healthy"] == true);
    assert_eq!(status["term"], 2);
    assert_eq!(owners(&controller), promised);
    create(&controller, &owner).unwrap();
    controller.kill();
    controller.start();
    controller.until(|status| status["healthy"] == true);
    promised.push(owner);
    assert_eq!(owners(&controller), promised);
    Ok(())
}

#[test]
fn a_store_that_cannot_be_read_is_one_line_with_its_cure() {
    let mut controller = Controller::of("clos:4,4,2", TIMES);
    controller.until(|status| status["healthy"] == true);
    create(&controller, "job/1").unwrap();
    controller.end();
    let path = controller.file("state/controller.redb");
    let bytes = fs::read(&path).unwrap();
    let cure = format!("`mv {0} {0}.bad` puts it aside", path.display());
    let is_told = |other: &[u8], what: &str| {
        fs::write(&path, other).unwrap();
        let (told, code) = controller.refuses();
        assert_eq!(code, Some(3), "{what}: {told}");
        assert!(told.contains(&cure) && told.contains("slices, and requests"), "{what}: {told}");
        assert_eq!(told.lines().count(), 1, "{what}: {told}");
    };
    is_told(&[], "empty");
    // Some of its lengths: each takes a process.
    for end in ends_of(bytes.len() / 2).step_by(60) {
        is_told(&bytes[..end], &format!("cut at {end}"));
    }
    let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    let damaged = (0..4_000).map(|n| flipped(&bytes, used[n * 7_919 % used.len()] * 8 + n % 8));
    let damaged: Vec<Vec<u8>> = damaged
        .filter(|other| {
            fs::write(&path, other).unwrap();
            snin_daemon::shared::Embedded::open(&path, "all").is_err()
        })
        .take(8)
        .collect();
    assert_eq!(damaged.len(), 8);
    damaged.iter().for_each(|other| is_told(other, "a flipped bit"));
    fs::remove_file(&path).unwrap();
    let (told, code) = controller.refuses();
    assert!(code == Some(3) && told.contains("it was here before and is gone"), "{told}");
    // The cure helps.
    fs::write(&path, &bytes[..4_000]).unwrap();
    fs::rename(&path, controller.file("state/controller.redb.bad")).unwrap();
    controller.start();
    assert_eq!(controller.until(|status| status["healthy"] == true)["term"], 1);
    assert!(owners(&controller).is_empty());
}

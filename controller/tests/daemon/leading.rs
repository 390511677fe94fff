//! Controllers that share their state, on real members of etcd: who leads when etcd is away, and what is left
//! after.

use serde_json::{Value, json};
use snin_judges::{Etcd, JudgeError};

use super::process::Controller;

fn controller(name: &str, etcd: &Etcd) -> Controller {
    let store = format!(
        "name = \"{name}\"\nstore = \"{}\"\nleader_lease_s = 2\nwindow_us = 20000\nlead_us = 4000\n\
         events_file = \"FOLDER/events\"\n",
        etcd.address()
    );
    Controller::of("clos:4,4,2", &store)
}

fn create(controller: &Controller, owner: &str) -> Result<Value, String> {
    controller.ask(&json!({ "command": "slice_create", "owner": owner, "count": 2 }))
}

fn owners(controller: &Controller) -> Vec<String> {
    let all = controller.ask(&json!({ "command": "slices" })).unwrap();
    let all = all["slices"].as_array().unwrap().iter();
    all.map(|slice| slice["owner"].as_str().unwrap().to_owned()).collect()
}

/// How often something happened to a controller.
fn count(controller: &Controller, event: &str) -> usize {
    let text = std::fs::read_to_string(controller.file("events")).unwrap_or_default();
    text.matches(&format!("\"{event}\"")).count()
}

#[test]
fn without_etcd_nobody_leads_and_with_it_one_does_again() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let mut etcd = Etcd::new(folder.path(), 3, None)?;
    let one = controller("one", &etcd);
    // etcd is started last: a controller waits for it, and says so.
    let status = one.until(|status| status["state"].as_str().unwrap().contains("127.0.0.1"));
    assert_eq!((&status["standby"], &status["healthy"]), (&json!(true), &json!(false)));
    etcd.start()?;
    let status = one.until(|status| status["standby"] == false && status["healthy"] == true);
    assert_eq!((&status["term"], &status["leader"]), (&json!(1), &json!(null)));
    create(&one, "job/1").unwrap();

    let other = controller("other", &etcd);
    let status = other.until(|status| status["leader"] == "controller/one");
    assert_eq!((&status["standby"], &status["healthy"]), (&json!(true), &json!(true)));
    assert_eq!(status["state"], "stands by; controller/one leads");
    let refused = create(&other, "job/2").unwrap_err();
    assert_eq!(refused, "this controller stands by; controller/one leads");
    // One member of three is not missed for longer than the others take to elect a leader, if it led them.
    etcd.kill(0);
    let begun = std::time::Instant::now();
    while let Err(why) = create(&one, "job/3") {
        assert!(begun.elapsed() < super::process::PATIENCE, "{why}");
    }

    etcd.kill(1);
    let status = one.until(|status| status["standby"] == true);
    assert_eq!((&status["healthy"], &status["sessions"]), (&json!(false), &json!(0)));
    assert!(status["state"].as_str().unwrap().contains("the store does not answer"), "{status}");
    assert_eq!((count(&one, "STANDS_BY"), count(&one, "STORE_SILENT")), (1, 2));
    assert!(create(&one, "job/4").is_err() && create(&other, "job/4").is_err());

    etcd.start_member(0)?;
    etcd.start_member(1)?;
    let leads = |controller: &Controller| controller.status()["standby"] == false;
    let begun = std::time::Instant::now();
    while !leads(&one) && !leads(&other) {
        assert!(begun.elapsed() < super::process::PATIENCE, "nobody leads");
    }
    let (leader, standby) = if leads(&one) { (one, other) } else { (other, one) };
    let status = leader.until(|status| status["healthy"] == true);
    assert_eq!(
        (&status["term"], owners(&leader)),
        (&json!(2), vec!["job/1".to_owned(), "job/3".to_owned()])
    );
    standby
        .until(|status| status["leader"] == leader.status()["name"] && status["healthy"] == true);

    // One that ends well is followed at once; nothing waits for its lease.
    let mut leader = leader;
    leader.end();
    let status = standby.until(|status| status["healthy"] == true && status["standby"] == false);
    assert_eq!((&status["term"], owners(&standby).len()), (&json!(3), 2));
    Ok(())
}

//! The API by TLS: a certificate says who asks, and what may be asked.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use snin_daemon::http;
use snin_daemon::pki::{Pair, Pki};
use snin_daemon::session::{Address, Credentials, Files};

use super::process::{Controller, PATIENCE, answer};

/// A CA, and a controller that it certifies.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) pki: Pki,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::at(folder.path());
        pki.init("a site", 30).unwrap();
        Self { folder, pki }
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.pki.issue(&name.parse().unwrap(), 10, None).unwrap()
    }

    /// What a controller's configuration says of its certificate.
    pub(crate) fn settings(&self) -> String {
        let pair = self.issue("controller/ctl1");
        let file = |name: &str| self.folder.path().join(name);
        format!(
            "certificate = {:?}\nkey = {:?}\nca_certificate = {:?}\nrevoked = {:?}\n",
            pair.certificate,
            pair.key,
            file("ca.crt"),
            file("revoked.pem")
        )
    }

    pub(crate) fn credentials(&self, pair: &Pair) -> Credentials {
        let (certificate, key) = (pair.certificate.clone(), pair.key.clone());
        let ca_certificate = self.pki.file("ca.crt");
        Credentials::load(Files { certificate, key, ca_certificate, revoked: None }).unwrap()
    }

    /// What curl is answered with the certificate.
    fn curl(&self, at: &Address, pair: &Pair, path: &str, arguments: &[&str]) -> (u16, Value) {
        let Address::Tls(host) = at else { panic!("{at}") };
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--write-out", "\n%{http_code}", "--cacert"]);
        curl.arg(self.pki.file("ca.crt")).arg("--cert").arg(&pair.certificate);
        curl.arg("--key").arg(&pair.key).arg("--connect-to");
        curl.arg(format!("controller.snin.internal:443:{host}"));
        answer(curl.args(arguments).arg(format!("https://controller.snin.internal{path}")))
    }
}

#[test]
fn a_certificate_says_who_asks_and_what_it_may() {
    let site = Site::new();
    let settings = format!(
        "{}api = [\"tls://127.0.0.1:0\"]\nlaunchers = {{ \"launcher/pbs\" = \"pbs/\" }}\n\
         requests_per_user = 2\n",
        site.settings()
    );
    let controller = Controller::of("clos:4,4,2", &settings);
    assert_eq!(controller.status()["healthy"], true);
    let api = controller.api();
    let slice = |owner: &str| json!({ "command": "slice_create", "owner": owner, "count": 2 });
    let ask = |pair: &Pair, request: &Value| {
        let credentials = site.credentials(pair);
        http::ask(&api, Some(&credentials), request, PATIENCE).map_err(|why| why.to_string())
    };
    let [ann, pbs, other, manager] =
        ["operator/ann", "launcher/pbs", "launcher/other", "manager/sm1"]
            .map(|name| site.issue(name));

    // An operator may do everything, a launcher what its setting says, all others look.
    assert_eq!(
        ask(&ann, &json!({ "command": "policy", "set": "strict" })).unwrap()["policy"],
        "strict"
    );
    assert_eq!(
        site.curl(&api, &ann, "/v1/policy", &[]),
        (200, json!({ "policy": "strict", "schema_version": 2 }))
    );
    assert_eq!(ask(&ann, &slice("any/1")).unwrap()["created"], true);
    assert_eq!(ask(&pbs, &slice("pbs/1")).unwrap()["created"], true);
    for (pair, owner, why) in [
        (
            &pbs,
            "any/2",
            "launcher/pbs may not change the slice of any/2, which is not its own: only operators may",
        ),
        (&other, "pbs/2", "launcher/other may not change slices: only operators and launchers may"),
        (&manager, "pbs/2", "manager/sm1 may not change slices: only operators and launchers may"),
    ] {
        assert_eq!(ask(pair, &slice(owner)).unwrap_err(), why);
        assert_eq!(ask(pair, &json!({ "command": "slices" })).unwrap()["free_hosts"], 4);
    }

    // A user of a host asks through its agent: for its host's port, and for so many.
    let fabric = ask(&ann, &json!({ "command": "fabric" })).unwrap();
    let port = |host: usize| fabric["hosts"][host]["port"].as_str().unwrap();
    let agent = site.issue(&format!("agent/{}", port(7)));
    let wanted = |from: Value, user: u64, at: u64| {
        json!({ "command": "request", "from": from, "to": port(1), "user": user,
                "at_ns": now_ns() + at * 1_000_000_000, "for_ns": 1_000_000_000 })
    };
    let first = ask(&agent, &wanted(Value::Null, 1000, 60)).unwrap();
    assert_eq!(
        (&first["from"], &first["owner"]),
        (&fabric["hosts"][7]["name"], &json!(format!("agent/{}/user/1000", port(7))))
    );
    ask(&agent, &wanted("7".into(), 1000, 120)).unwrap();
    let why = ask(&agent, &wanted("7".into(), 1000, 180)).unwrap_err();
    assert!(why.ends_with("/user/1000 has 2 requests: no user of a host has more"), "{why}");
    let third = ask(&agent, &wanted("7".into(), 1001, 180)).unwrap();
    let why = ask(&agent, &wanted("6".into(), 1001, 240)).unwrap_err();
    let what =
        format!("may not have port {} kept: it is not its host's, which is {}", port(6), port(7));
    assert!(why.ends_with(&what), "{why}");
    let why = ask(&agent, &json!({ "command": "request", "from": "7", "to": "1" })).unwrap_err();
    assert!(why.ends_with("may not make requests: only operators and launchers may"), "{why}");
    let mine = ask(&agent, &json!({ "command": "requests", "user": 1000 })).unwrap();
    assert_eq!(mine["requests"].as_array().unwrap().len(), 2);
    let release = |id: &Value, user: u64| json!({ "command": "release", "id": id, "user": user });
    let why = ask(&agent, &release(&third["id"], 1000)).unwrap_err();
    assert!(why.contains("/user/1000 may not release request 2, which is agent/"), "{why}");
    assert_eq!(ask(&agent, &release(&first["id"], 1000)).unwrap()["released"], true);

    // No certificate, one of another site, one that was revoked.
    let refused = http::ask(&api, None, &slice("any/9"), PATIENCE).unwrap_err().to_string();
    assert!(refused.contains("tls:// needs certificate"), "{refused}");
    let Address::Tls(host) = &api else { panic!() };
    let mut bare = Command::new("curl");
    bare.args(["--silent", "--insecure", "--write-out", "\n%{http_code}"]);
    assert_eq!(answer(bare.arg(format!("https://{host}/v1/status"))).0, 0);
    let elsewhere = Site::new();
    let foreign = elsewhere.issue("operator/ann");
    assert!(ask(&foreign, &slice("any/9")).is_err());
    site.pki.revoke(&"operator/ann".parse().unwrap()).unwrap();
    let began = std::time::Instant::now();
    while ask(&ann, &json!({ "command": "status" })).is_ok() {
        assert!(began.elapsed() < PATIENCE, "the list is not read");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ask(&pbs, &json!({ "command": "status" })).unwrap()["healthy"], true);
    let metrics = site.curl(&api, &pbs, "/metrics", &[]).1;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("snin_controller_not_permitted_total 6\n"), "{metrics}");
    let failed = metrics.lines().find_map(|line| {
        line.strip_prefix("snin_controller_api_sessions_handshakes_failed_total ")?
            .parse::<u64>()
            .ok()
    });
    assert!(failed >= Some(3), "{failed:?}");
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}

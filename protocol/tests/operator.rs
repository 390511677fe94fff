//! The types of what operators ask and are answered, beside the schemas in docs/schema.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use snin_protocol::operator::controller::{
    GetPath, GetReservations, GetWindows, Release, Request, Reserve, SliceMade,
};
use snin_protocol::operator::manager::{
    GetCluster, GetDatabase, GetTables, SetPriority, Tables, Verdict,
};
use snin_protocol::operator::{Document, Operation, SCHEMA_VERSION, agent, manager};

fn kept(daemon: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/schema/{daemon}.json"));
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Where two documents differ.
fn differences(a: &Value, b: &Value, at: &str, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let of = |keys: &serde_json::Map<String, Value>| {
                    keys.get(key).cloned().unwrap_or(Value::Null)
                };
                differences(&of(a), &of(b), &format!("{at}/{key}"), found);
            }
        }
        _ if a != b => found.push(at.to_owned()),
        _ => {}
    }
}

#[test]
fn the_schema_in_docs_is_what_the_types_say() {
    for (daemon, types) in [
        ("snin-controller", Request::schema()),
        ("snin-agent", agent::Request::schema()),
        ("snin-sm", manager::Request::schema()),
    ] {
        let mut found = Vec::new();
        differences(&types, &kept(daemon), "", &mut found);
        assert!(found.is_empty(), "{found:?}: {daemon} --dump-schema > docs/schema/{daemon}.json");
    }
}

#[test]
fn a_planted_change_is_found() {
    let mut planted = kept("snin-controller");
    planted["$defs"]["Grant"]["properties"]["tree"] = json!({ "type": "string" });
    let mut found = Vec::new();
    differences(&Request::schema(), &planted, "", &mut found);
    let named = |what: &str| found.iter().any(|at| at.starts_with(what));
    assert!(named("/$defs/Grant/properties/tree"), "{found:?}");
}

#[test]
fn every_command_has_its_request_and_its_answer_in_the_schema() {
    for (schema, all) in [
        (Request::schema(), Request::COMMANDS),
        (agent::Request::schema(), agent::Request::COMMANDS),
        (manager::Request::schema(), manager::Request::COMMANDS),
    ] {
        let commands = schema["properties"].as_object().unwrap();
        assert_eq!(commands.len(), all.len());
        for command in all {
            for part in ["request", "answer"] {
                let kind = &commands[*command]["properties"][part];
                let name = kind["$ref"].as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                assert!(schema["$defs"][name]["description"].is_string(), "{command}: {name}");
            }
        }
    }
}

#[test]
fn requests_are_read_as_they_are_sent() {
    let sent = Reserve { to: "h3".to_owned(), windows: Some(4), ..Reserve::default() }.request();
    assert_eq!(sent, json!({ "command": "request", "to": "h3", "windows": 4 }));
    let mut keys = sent;
    keys.as_object_mut().unwrap().remove("command");
    let read = Request::parse("request", keys).unwrap();
    let Request::Reserve(Reserve { windows: Some(4), from: None, .. }) = read else {
        panic!("{read:?}")
    };
    let read = Request::parse("windows", json!({})).unwrap();
    assert_eq!(read, Request::GetWindows(GetWindows { count: 10 }));
    assert_eq!(GetReservations {}.request(), json!({ "command": "requests" }));
}

#[test]
fn what_is_wrong_is_said_with_its_key() {
    let why = |command: &str, body: Value| Request::parse(command, body).unwrap_err();
    assert_eq!(why(Release::COMMAND, json!({})), "missing field `id`");
    let number = why("release", json!({ "id": "seven" }));
    assert_eq!(number, "`id`: invalid type: string \"seven\", expected u64");
    let key = why(GetPath::COMMAND, json!({ "from": "a", "to": "b", "via": "c" }));
    assert!(key.starts_with("`via`: unknown field `via`, expected"), "{key}");
    let pairs =
        why("slice_trees", json!({ "owner": "a", "pairs": [["0x1", "0x2"], ["0x3", "x"]] }));
    assert!(pairs.starts_with("`pairs[1][1]`: `x` is no GUID"), "{pairs}");
    let command = why("statsu", json!({}));
    assert!(command.starts_with("no command statsu: status, windows"), "{command}");
}

#[test]
fn answers_carry_the_version_of_their_keys() {
    let slice = json!({
        "schema_version": SCHEMA_VERSION, "owner": "slurm/7", "hosts": ["a"], "ports": ["0x0000000000000001"],
        "links": 2, "whole": true, "foreign": 0, "shared": false, "ready": true, "created": true, "later": 1,
    });
    // A key of a later version is no reason not to understand the others.
    let read: Document<SliceMade> = serde_json::from_value(slice).unwrap();
    assert_eq!((read.schema_version, read.answer.created), (SCHEMA_VERSION, true));
    assert_eq!(read.answer.slice.owner, "slurm/7");
}

#[test]
fn a_managers_requests_are_read_or_refused_with_their_key() {
    let read = |command: &str, body: Value| manager::Request::parse(command, body);
    let none = read("lfts", json!({ "switch": null })).unwrap();
    assert_eq!(none, manager::Request::GetTables(GetTables { switch: None }));
    let database = read("database", json!({ "name": null, "secrets": true })).unwrap();
    let asked = GetDatabase { name: None, secrets: true };
    assert_eq!(database, manager::Request::GetDatabase(asked));
    assert_eq!(SetPriority { value: 9 }.request(), json!({ "command": "priority", "value": 9 }));
    let why = |command: &str, body: Value| read(command, body).unwrap_err();
    assert!(why("lfts", json!({ "switch": "leaf" })).starts_with("`switch`: `leaf` is no GUID"));
    assert!(why("priority", json!({ "value": 300 })).starts_with("`value`: invalid value"));
    assert!(why("config-check", json!({ "file": 7 })).starts_with("`file`: invalid type"));
    assert!(why("database", json!({ "secret": true })).starts_with("`secret`: unknown field"));
    assert_eq!(why("port-test", json!({})), "missing field `port`");
}

/// Answers of two forms, and with GUIDs for keys, are read as they are written.
#[test]
fn a_managers_answers_are_read_as_they_are_written() {
    let switch = json!({ "guid": "0x0000000000000007", "name": "leaf0", "lid": 3 });
    let all = json!({ "schema_version": 2, "switches": [switch] });
    let mut one = switch;
    one["schema_version"] = json!(2);
    one["ports"] = json!({ "3": 0, "17": 4 });
    one["text"] = json!("a table");
    for (told, is_one) in [(all, false), (one, true)] {
        let read: Document<Tables> = serde_json::from_value(told.clone()).unwrap();
        assert_eq!(matches!(read.answer, Tables::One(_)), is_one);
        assert_eq!(read.value().unwrap(), told);
    }
    let told = json!({
        "schema_version": 2, "verdict": "not-chosen", "why": "nobody is", "chosen": null, "expected": 0,
        "managers": { "0x0000000000000007": "leaf0" }, "barred": {},
    });
    let read: Document<<GetCluster as Operation>::Answer> =
        serde_json::from_value(told.clone()).unwrap();
    assert_eq!(read.answer.verdict, Verdict::NotChosen);
    assert_eq!(read.value().unwrap(), told);
}

//! The types of what operators ask and are answered, beside the schemas in docs/schema.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use snin_protocol::operator::agent;
use snin_protocol::operator::controller::{
    GetPath, GetReservations, GetWindows, Release, Request, Reserve, SliceMade,
};
use snin_protocol::operator::{Document, Operation, SCHEMA_VERSION};

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
    for (daemon, types) in
        [("snin-controller", Request::schema()), ("snin-agent", agent::Request::schema())]
    {
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
    let agent = (agent::Request::schema(), agent::Request::COMMANDS);
    for (schema, all) in [(Request::schema(), Request::COMMANDS), agent] {
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

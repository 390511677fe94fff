//! What prose cannot keep: crate dependencies as the design draws them, pure crates without clocks and
//! sockets, files of a readable size, no output that panics on a closed pipe.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates and the layer each is in; a crate depends on lower layers only.
const LAYERS: [(&str, u32); 20] = [
    ("snin-fabric", 0),
    ("snin-protocol", 1),
    ("snin-mad", 1),
    ("snin-umad", 1),
    ("snin-daemon", 2),
    ("snin-sm-core", 2),
    ("snin-sm", 3),
    ("snin-controller-core", 2),
    ("snin-controller", 3),
    // Bugs planted in a copy of the controller, for its tests.
    ("snin-mutants", 3),
    ("snin-agent-core", 2),
    ("snin-verbs", 2),
    ("snin-agent", 3),
    ("snin-emulator", 3),
    ("snin-lab", 4),
    ("snin-lat", 4),
    ("snin-report", 5),
    ("snin", 6),
    // Test support: starts the programs that judge our claims.
    ("snin-judges", 7),
    ("snin-benches", 8),
];

/// Crates with lints of their own: two call C, and a test of the agent has an allocator of its own.
const SPEAK_C: [&str; 3] = ["snin-agent", "snin-umad", "snin-verbs"];

/// Sources that know no clocks, sockets, files or threads: whole crates, and the cores of daemons.
const PURE: [&str; 7] = [
    "fabric/src",
    "protocol/src",
    "sm/mad/src",
    "sm/core/src",
    "controller/core/src",
    "endnode-agent/core/src",
    "tools/emulator/src",
];

const IMPURE: [&str; 10] = [
    "std::time",
    "SystemTime",
    "TcpStream",
    "UdpSocket",
    "std::os::unix",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "HashMap",
];

const MOST_LINES: usize = 800;
/// rustfmt keeps code at 100; comments, literals and tables of tests may be a little longer.
const MOST_COLUMNS: usize = 115;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Every file below `directory` with one of the endings, build products left out.
fn files(directory: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != ".git" {
                open.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The manifests of the workspace's crates, by name.
fn manifests() -> BTreeMap<String, toml::Table> {
    let workspace = read_manifest(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("a list of members");
    let member = |path: &toml::Value| {
        let path = path.as_str().expect("a path");
        let manifest = read_manifest(&root().join(path).join("Cargo.toml"));
        let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
        (name, manifest)
    };
    members.iter().map(member).collect()
}

fn read_manifest(path: &Path) -> toml::Table {
    fs::read_to_string(path).expect("a manifest").parse().expect("TOML")
}

fn layer(name: &str) -> u32 {
    let found = LAYERS.iter().find(|(layered, _)| *layered == name);
    found.unwrap_or_else(|| panic!("crate {name} has no place in the design: add it to LAYERS")).1
}

#[test]
fn dependencies_point_down() {
    let manifests = manifests();
    for (name, manifest) in &manifests {
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in dependencies.into_iter().flat_map(toml::Table::keys) {
            if manifests.contains_key(dependency) {
                let (upper, lower) = (layer(name), layer(dependency));
                assert!(lower < upper, "{name} may not depend on {dependency}");
            }
        }
    }
}

#[test]
fn every_dependency_comes_from_the_one_table() {
    for (name, manifest) in manifests() {
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let dependencies = manifest.get(table).and_then(toml::Value::as_table);
            for (dependency, source) in dependencies.into_iter().flatten() {
                let inherited = source.get("workspace").and_then(toml::Value::as_bool);
                assert_eq!(inherited, Some(true), "{name}: {dependency} is not `workspace = true`");
            }
        }
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        let lints = lints.and_then(toml::Value::as_bool);
        assert!(
            lints == Some(true) || SPEAK_C.contains(&name.as_str()),
            "{name} does not take the lints"
        );
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let table = text.split("[workspace.dependencies]").nth(1).expect("the table");
    let table = table.split("\n[").next().expect("its end");
    for line in table.lines().filter(|line| line.contains(" = ") && !line.contains("path = ")) {
        assert!(line.contains("# "), "no reason: {line}");
    }
}

/// The part of a source file before its tests.
fn production(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn pure_sources_are_pure() {
    for directory in PURE {
        let sources = files(&root().join(directory), &[".rs"]);
        assert!(!sources.is_empty(), "{directory} has no sources");
        for path in sources {
            let text = fs::read_to_string(&path).expect("source");
            for word in IMPURE {
                assert!(!production(&text).contains(word), "{} uses {word}", path.display());
            }
        }
    }
}

#[test]
fn files_are_of_a_readable_size() {
    for path in files(&root(), &[".rs", ".sh", "Makefile"]) {
        let text = fs::read_to_string(&path).expect("source");
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{} has {lines} lines (at most {MOST_LINES})", path.display());
        if path.extension().is_some_and(|ending| ending == "rs") {
            for (number, line) in text.lines().enumerate() {
                let columns = line.chars().count();
                assert!(
                    columns <= MOST_COLUMNS,
                    "{}:{}: {columns} columns",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

#[test]
fn nothing_prints_past_its_output() {
    // Clippy forbids the macros; nobody may switch that off.
    let own = Path::new(file!()).file_name().expect("a name");
    for path in files(&root(), &[".rs"]).into_iter().filter(|path| path.file_name() != Some(own)) {
        let text = fs::read_to_string(&path).expect("source");
        let allowed = path
            .components()
            .any(|part| ["tests", "benches"].iter().any(|&d| part.as_os_str() == d));
        let switched_off = text.contains("allow(clippy::disallowed_macros");
        assert!(allowed || !switched_off, "{} prints", path.display());
        assert!(!text.contains("FIXME"), "{} has a FIXME", path.display());
    }
}

#[test]
fn every_page_has_one_title() {
    let pages = files(&root(), &[".md"]);
    for path in pages {
        let text = fs::read_to_string(&path).expect("a page");
        let mut fenced = false;
        let mut titles = 0;
        for line in text.lines() {
            fenced ^= line.starts_with("```");
            titles += usize::from(!fenced && line.starts_with("# "));
        }
        assert_eq!(titles, 1, "{}", path.display());
    }
}

#[test]
fn crates_of_the_design_are_known_once() {
    let names: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), LAYERS.len());
}

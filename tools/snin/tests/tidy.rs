//! What prose cannot keep: crate dependencies as the design draws them, pure crates without clocks and
//! sockets, files of a readable size, no output that panics on a closed pipe.
//!
//! Each check is a function that names what breaks its rule. A test applies it to the workspace, and another
//! to something planted that it has to find.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates and the layer each is in; a crate depends on lower layers only.
const LAYERS: &[(&str, u32)] = &[
    ("snin-fabric", 0),
    ("snin-protocol", 1),
    ("snin-mad", 2),
    ("snin-umad", 1),
    ("snin-daemon", 2),
    ("snin-sm-database", 3),
    ("snin-administration", 4),
    ("snin-configuration", 4),
    ("snin-mastership", 4),
    ("snin-sweep", 4),
    ("snin-sm-core", 5),
    ("snin-controller-core", 2),
    // Bugs planted in a copy of the controller's core, for its tests.
    ("snin-mutants", 3),
    ("snin-sm", 6),
    ("snin-controller", 3),
    ("snin-agent-core", 2),
    ("snin-verbs", 2),
    ("snin-preload", 2),
    // Slurm loads it.
    ("snin-spank", 2),
    ("snin-agent", 3),
    ("snin-agent-software", 3),
    ("snin-emulator", 3),
    ("snin-emulator-server", 4),
    ("snin-lab", 6),
    ("snin-lat", 4),
    ("snin-report", 7),
    ("snin", 8),
    // Test support: starts the programs that judge our claims.
    ("snin-judges", 9),
    ("snin-benches", 10),
];

/// Crates with lints of their own: four call C, and a test of the agent has an allocator of its own.
const SPEAK_C: &[&str] = &["snin-agent", "snin-preload", "snin-spank", "snin-umad", "snin-verbs"];

/// Crates that know no clock, socket, file or thread.
const PURE: &[&str] = &[
    "snin-fabric",
    "snin-protocol",
    "snin-mad",
    "snin-sm-database",
    "snin-administration",
    "snin-configuration",
    "snin-mastership",
    "snin-sweep",
    "snin-sm-core",
    "snin-controller-core",
    "snin-agent-core",
    "snin-emulator",
];

/// All that pure crates may depend on, and what that depends on itself: numbers, text, derived code.
const PURE_DEPENDENCIES: &[&str] = &[
    "bincode",
    "byteorder",
    "csv",
    "csv-core",
    // Of schemars, which makes JSON Schema of types: it reads nothing, and no clock.
    "dyn-clone",
    "hdrhistogram",
    "itoa",
    "memchr",
    "num-traits",
    "ppv-lite86",
    "proc-macro2",
    "quote",
    "rand",
    "rand_chacha",
    "rand_core",
    "ref-cast",
    "ref-cast-impl",
    "ryu",
    "schemars",
    "schemars_derive",
    "serde",
    "serde_core",
    "serde_derive",
    "serde_derive_internals",
    "serde_json",
    // Which key of a request is wrong.
    "serde_path_to_error",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-ident",
    "unty",
    "zerocopy",
    "zerocopy-derive",
    "zmij",
];

/// The standard library's ways to a clock, a socket, a file or a thread, and its map of random order.
const IMPURE: &[&str] = &[
    "std::time",
    "SystemTime",
    "Instant::now",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "std::os",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "HashMap",
];

const MOST_LINES: usize = 600;
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

/// The folders of the workspace's crates, by name.
fn folders() -> BTreeMap<String, PathBuf> {
    let workspace = read_manifest(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("a list of members");
    let member = |path: &toml::Value| {
        let folder = root().join(path.as_str().expect("a path"));
        let manifest = read_manifest(&folder.join("Cargo.toml"));
        (manifest["package"]["name"].as_str().expect("a name").to_owned(), folder)
    };
    members.iter().map(member).collect()
}

/// The manifests of the workspace's crates, by name.
fn manifests() -> BTreeMap<String, toml::Table> {
    let read =
        |(name, folder): (String, PathBuf)| (name, read_manifest(&folder.join("Cargo.toml")));
    folders().into_iter().map(read).collect()
}

fn read_manifest(path: &Path) -> toml::Table {
    fs::read_to_string(path).expect("a manifest").parse().expect("TOML")
}

fn layer(name: &str) -> Option<u32> {
    LAYERS.iter().find(|(layered, _)| *layered == name).map(|(_, layer)| *layer)
}

/// Dependencies of a manifest that do not point down, or have no place.
fn upward(name: &str, manifest: &toml::Table) -> Vec<String> {
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let ours = dependencies.into_iter().flat_map(toml::Table::keys);
    let ours = ours.filter(|dependency| dependency.split('-').next() == Some("snin"));
    ours.filter_map(|dependency| match (layer(name), layer(dependency)) {
        (Some(upper), Some(lower)) if lower < upper => None,
        (Some(_), Some(_)) => Some(format!("{name} may not depend on {dependency}")),
        (None, _) => Some(format!("{name} has no place in LAYERS")),
        (_, None) => Some(format!("{dependency} has no place in LAYERS")),
    })
    .collect()
}

#[test]
fn dependencies_point_down() {
    for (name, manifest) in &manifests() {
        assert!(layer(name).is_some(), "{name} has no place in LAYERS");
        assert_eq!(upward(name, manifest), [""; 0]);
    }
    let planted: toml::Table = "[dependencies]\nsnin-sm.workspace = true".parse().unwrap();
    assert_eq!(upward("snin-fabric", &planted), ["snin-fabric may not depend on snin-sm"]);
    assert_eq!(upward("snin", &planted), [""; 0]);
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

/// Crates below the one with this manifest, by cargo's account, that are not pure.
fn impure_dependencies(manifest: &Path) -> Vec<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let output = tree.arg("--manifest-path").arg(manifest).output().expect("cargo");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {why}");
    let named = String::from_utf8_lossy(&output.stdout);
    // The first line is the crate itself.
    let below: BTreeSet<&str> =
        named.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    let is_pure = |name: &&str| PURE.contains(name) || PURE_DEPENDENCIES.contains(name);
    below.into_iter().filter(|name| !name.is_empty() && !is_pure(name)).map(str::to_owned).collect()
}

#[test]
fn pure_crates_depend_on_pure_ones() {
    for (name, folder) in folders().iter().filter(|(name, _)| PURE.contains(&name.as_str())) {
        assert_eq!(impure_dependencies(&folder.join("Cargo.toml")), [""; 0], "below {name}");
    }
    // A pure crate that gains a clock.
    let planted = tempfile::tempdir().expect("a folder");
    let manifest = planted.path().join("Cargo.toml");
    let daemon = root().join("daemon");
    let text = format!(
        "[package]\nname = \"planted\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
         [workspace]\n[dependencies]\nsnin-daemon = {{ path = {daemon:?} }}\n"
    );
    fs::write(&manifest, text).expect("a manifest");
    fs::write(planted.path().join("lib.rs"), "").expect("a source");
    fs::copy(root().join("Cargo.lock"), planted.path().join("Cargo.lock")).expect("versions");
    let found = impure_dependencies(&manifest);
    for impure in ["rustix", "snin-daemon", "signal-hook"] {
        assert!(found.iter().any(|name| name == impure), "{impure} is not among {found:?}");
    }
}

/// Words of a pure crate's source that reach outside.
fn impure_words(text: &str) -> Vec<&'static str> {
    let code = production(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.collect();
    IMPURE.iter().copied().filter(|word| code.iter().any(|line| line.contains(word))).collect()
}

#[test]
fn pure_sources_are_pure() {
    for (name, folder) in folders().iter().filter(|(name, _)| PURE.contains(&name.as_str())) {
        let sources = files(&folder.join("src"), &[".rs"]);
        assert!(!sources.is_empty(), "{name} has no sources");
        for path in sources {
            let text = fs::read_to_string(&path).expect("source");
            assert_eq!(impure_words(&text), [""; 0], "{}", path.display());
        }
    }
    let planted = "use std::time::SystemTime;\nfn now() -> SystemTime { SystemTime::now() }\n";
    assert_eq!(impure_words(planted), ["std::time", "SystemTime"]);
    assert_eq!(impure_words("/// Not a SystemTime.\n#[cfg(test)]\nuse std::fs;"), [""; 0]);
}

/// What makes a file too long to read, or a line too wide.
fn unreadable(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let long = (lines > MOST_LINES).then(|| format!("{name}: {lines} lines, at most {MOST_LINES}"));
    let wide = text.lines().enumerate().filter_map(|(number, line)| {
        let columns = line.chars().count();
        let wide = name.ends_with(".rs") && columns > MOST_COLUMNS;
        wide.then(|| format!("{name}:{}: {columns} columns, at most {MOST_COLUMNS}", number + 1))
    });
    long.into_iter().chain(wide).collect()
}

#[test]
fn files_are_of_a_readable_size() {
    for path in files(&root(), &[".rs", ".sh", "Makefile"]) {
        let text = fs::read_to_string(&path).expect("source");
        assert_eq!(unreadable(&path.display().to_string(), &text), [""; 0]);
    }
    assert_eq!(unreadable("long.rs", &"\n".repeat(601)), ["long.rs: 601 lines, at most 600"]);
    assert_eq!(unreadable("wide.rs", &"x".repeat(116)), ["wide.rs:1: 116 columns, at most 115"]);
}

#[test]
fn nothing_prints_past_its_output() {
    // Clippy forbids the macros; no file may switch that off.
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

/// Names a test that `make test` leaves out: one inside a program other than snin.
fn left_out(path: &str, text: &str) -> Option<String> {
    let program = path.ends_with("/src/main.rs") || path.contains("/src/bin/");
    let is_left_out =
        program && !path.contains("tools/snin/") && text.contains(concat!("#[", "test]"));
    is_left_out.then(|| format!("{path}: a test inside a program, which `make test` does not run"))
}

#[test]
fn no_test_is_left_out() {
    for path in files(&root(), &[".rs"]) {
        let text = fs::read_to_string(&path).expect("source");
        assert_eq!(left_out(&path.display().to_string(), &text), None);
    }
    assert!(left_out("/sm/src/main.rs", concat!("#[", "test]")).is_some());
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
    let folders = folders();
    for name in PURE.iter().chain(SPEAK_C) {
        assert!(folders.contains_key(*name), "{name} is no crate of the workspace");
    }
}

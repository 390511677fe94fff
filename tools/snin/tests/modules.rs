//! No circle between the modules of a pure crate: data flows one way, so each module can be read after the ones
//! that it imports.
//!
//! The graph is read from the sources: an arrow from a top-level module to each other one that its files name by
//! `crate::` or by enough `super::`. What the crate's root exports again counts as its module's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the pure crates.
const PURE: &[&str] = &[
    "fabric",
    "protocol",
    "sm/mad",
    "sm/database",
    "sm/administration",
    "sm/configuration",
    "sm/mastership",
    "sm/sweep",
    "sm/core",
    "controller/core",
    "endnode-agent/core",
    "tools/emulator",
];

/// Each top-level module and those that it imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every source below a folder, with the path of its module: `["sweep", "apply"]`.
fn sources(folder: &Path) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), Vec::new())];
    while let Some((folder, module)) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let mut below: Vec<String> = module.clone();
            if path.is_dir() {
                below.push(stem);
                open.push((path, below));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                if stem != "mod" && stem != "lib" {
                    below.push(stem);
                }
                found.push((below, fs::read_to_string(&path).expect("a source")));
            }
        }
    }
    found
}

/// A source without comments and without its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Names that the crate's root exports, and the module of each.
fn exported(lib: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for item in code(lib).split(';') {
        let Some((_, item)) = item.split_once("use ") else { continue };
        let item = item.trim_start_matches("self::").trim_start_matches("crate::");
        let Some((module, names)) = item.split_once("::") else { continue };
        exported.extend(words(names).map(|name| (name.to_owned(), module.to_owned())));
    }
    exported
}

/// What a source names in the root of its crate: the words right after a path to the root.
fn named_in_root(module: &[String], code: &str) -> Vec<String> {
    let up = "super::".repeat(module.len().max(1));
    let mut named = Vec::new();
    for path in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(path) {
            // A longer path of `super::`, or a name that ends like this one.
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c == ':' || c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[at + path.len()..];
            if rest.starts_with("super::") {
                continue;
            }
            if let Some(list) = rest.strip_prefix('{') {
                let list = list.split(';').next().unwrap_or(list);
                named.extend(words(list).map(str::to_owned));
            } else {
                named.extend(words(rest).next().map(str::to_owned));
            }
        }
    }
    named
}

fn graph(sources: &[(Vec<String>, String)]) -> Graph {
    let modules: BTreeSet<&String> = sources.iter().filter_map(|(path, _)| path.first()).collect();
    let lib = sources.iter().find(|(path, _)| path.is_empty());
    let exported = lib.map_or_else(BTreeMap::new, |(_, text)| exported(text));
    let mut graph: Graph = modules.iter().map(|&name| (name.clone(), BTreeSet::new())).collect();
    for (path, text) in sources {
        let Some(own) = path.first() else { continue };
        for name in named_in_root(path, &code(text)) {
            let module = if modules.contains(&name) { Some(&name) } else { exported.get(&name) };
            if let Some(to) = module.filter(|to| *to != own && modules.contains(to)) {
                graph.entry(own.clone()).or_default().insert(to.clone());
            }
        }
    }
    graph
}

/// A circle, as the modules on it: `a -> b -> a`.
fn circle(graph: &Graph) -> Option<String> {
    /// Leaves modules that lead into no circle in `done`; a circle comes back as its path.
    fn follow<'a>(
        graph: &'a Graph,
        at: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<&'a str>> {
        if let Some(first) = path.iter().position(|&passed| passed == at) {
            return Some(path[first..].iter().copied().chain([at]).collect());
        }
        if done.contains(at) {
            return None;
        }
        path.push(at);
        let found = graph.get(at).into_iter().flatten();
        let found = found.into_iter().find_map(|next| follow(graph, next, path, done));
        path.pop();
        done.insert(at);
        found
    }
    let mut done = BTreeSet::new();
    let found = graph.keys().find_map(|start| follow(graph, start, &mut Vec::new(), &mut done));
    found.map(|path| path.join(" -> "))
}

#[test]
fn no_pure_crate_has_a_circle_of_modules() {
    for crate_folder in PURE {
        let sources = sources(&root().join(crate_folder).join("src"));
        let graph = graph(&sources);
        assert!(graph.len() > 5, "{crate_folder}: only {} modules were found", graph.len());
        assert!(graph.values().any(|to| !to.is_empty()), "{crate_folder}: no import was found");
        assert_eq!(circle(&graph), None, "{crate_folder}");
    }
}

#[test]
fn a_planted_circle_is_found() {
    let source = |path: &[&str], text: &str| {
        (path.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>(), text.to_owned())
    };
    let mut planted = vec![
        source(&[], "mod a;\nmod b;\nmod c;\npub use c::Third;"),
        source(&["a"], "use crate::b::Second;\n// crate::c is only spoken of.\n"),
        source(&["b", "deep"], "use super::super::{Third};"),
        source(&["c"], "use crate::{unknown};\n#[cfg(test)]\nmod tests { use crate::a::First; }"),
    ];
    assert_eq!(circle(&graph(&planted)), None);
    planted.push(source(&["c", "more"], "fn f() -> crate::a::First {}"));
    assert_eq!(circle(&graph(&planted)).as_deref(), Some("a -> b -> c -> a"));
}

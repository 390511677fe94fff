//! Copies the controller's sources with all bugs in them, each asleep until `bug` says its number: so they cost
//! one compilation, not one each.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

mod bugs;

fn main() -> io::Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let planted = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("planted");
    writeln!(io::stdout(), "cargo::rerun-if-changed={}", source.display())?;
    writeln!(io::stdout(), "cargo::rerun-if-changed=bugs.rs")?;
    if planted.exists() {
        fs::remove_dir_all(&planted)?;
    }
    copy_tree(&source, &planted)?;
    for (number, (file, right, wrong)) in bugs::all().enumerate() {
        let path = planted.join(file);
        let text = fs::read_to_string(&path)?;
        assert_eq!(text.matches(right).count(), 1, "in {file}: {right}");
        let either = format!("if crate::bug({number}) {{ {wrong} }} else {{ {right} }}");
        let is_statement = right.ends_with(';');
        let either = if is_statement { either } else { format!("({either})") };
        fs::write(&path, text.replacen(right, &either, 1))?;
    }
    // What documents a crate cannot be included.
    let root = planted.join("lib.rs");
    let text = fs::read_to_string(&root)?;
    fs::write(&root, text.replace("//!", "//"))
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

//! What the command prints: pictures, pages of the manual, documents, and where they go.

use crate::*;

#[test]
fn a_wrong_command_line_ends_with_two() {
    for arguments in [&["plan"][..], &["topo", "generate", "ring:4"], &["plan", "x", "--lmc", "8"]]
    {
        assert_eq!(code(&snin(arguments)), 2, "{arguments:?}");
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_snin"))
        .args(["topo", "generate", "clos:36,18,18"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), output.stderr.as_slice()), (0, &b""[..]));
}

#[test]
fn man_pages_and_completions_are_made_from_the_command() {
    let folder = Folder::new();
    let pages = folder.path("man").display().to_string();
    done(&["man", &pages]);
    let page = std::fs::read_to_string(folder.path("man/snin-plan.1")).unwrap();
    assert!(page.contains("TOPOLOGY") && page.contains("lfts"), "{page}");
    // Every page says how the command ends, and shows it at work; none hides a daemon's.
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path("man")).unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        for title in ["EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
            let section = page.split_once(&format!(".SH \"{title}\"\n"));
            let begins = section.is_some_and(|(_, rest)| !rest.starts_with(".SH"));
            assert!(begins, "{}: {title}", path.display());
        }
        // What goes on over two lines of a command's help is whole.
        let codes = page.split_once(".SH \"EXIT STATUS\"\n").map_or("", |(_, rest)| rest);
        if path.extension().is_some_and(|kind| kind == "1") {
            let whole = "the line on stderr names file, line and value, or the daemon";
            assert!(codes.contains(whole), "{}: {codes:.500}", path.display());
        }
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    for daemon in names.iter().filter_map(|name| name.strip_suffix(".8")) {
        assert!(!names.contains(&format!("{daemon}.1")), "{daemon}.1 hides the daemon's page");
    }
    // As man lays it out: every section, and each key with its default.
    let manager = ["SIGHUP", "sweep_interval", "Default: 10.", "control.sock", "--ibsim-host"];
    let agent = ["SIGTERM", "heartbeat_ms", "Default: 250.", "agent.sock", "--dump-config"];
    let controller = ["SIGHUP", "window_us", "Default: 16667.", "controller.sock", "--dump-config"];
    let metric = ["METRICS", "snin_controller_windows_missed_by_total{cause} (counter)"];
    let controller = [&controller[..], &metric].concat();
    let pages =
        [("snin-sm.8", &manager[..]), ("snin-controller.8", &controller), ("snin-agent.8", &agent)];
    for (name, all) in pages {
        let file = folder.path("man").join(name);
        let laid_out = Command::new("man").args(["-l".as_ref(), file.as_os_str()]).output();
        let laid_out = laid_out.expect("install the Debian package man-db");
        assert!(laid_out.stderr.is_empty(), "{}", String::from_utf8_lossy(&laid_out.stderr));
        let laid_out = String::from_utf8_lossy(&laid_out.stdout).into_owned();
        let titles = [
            "NAME",
            "SYNOPSIS",
            "OPTIONS",
            "SIGNALS",
            "EXIT STATUS",
            "CONFIGURATION FILE",
            "FILES",
        ];
        for title in titles {
            assert!(laid_out.lines().any(|line| line == title), "{title} is not in {laid_out}");
        }
        for told in all {
            assert!(laid_out.contains(told), "{told} is not in {laid_out}");
        }
    }
    let completions = done(&["completions", "bash"]);
    assert!(completions.contains("_snin") && completions.contains("verify"));
    assert!(completions.contains(" snin-sm\n") && completions.contains("--ibsim-host"));
    assert!(completions.contains(" snin-agent\n") && completions.contains(" snin-controller\n"));
    // bash completes by them.
    let script = format!(
        "{completions}\nCOMP_WORDS=(snin-sm --ibsim-h); COMP_CWORD=1; read -ra words < <(complete -p snin-sm); \
         for n in ${{!words[@]}}; do [ ${{words[n]}} = -F ] && ${{words[n + 1]}} snin-sm --ibsim-h snin-sm; done; \
         echo \"${{COMPREPLY[*]}}\""
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("complete.bash");
    std::fs::write(&file, script).unwrap();
    let completed = Command::new("bash").arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "--ibsim-host\n");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(done(&["completions", shell]).contains("ibsim-host"), "{shell}");
    }
}

#[test]
fn the_picture_shows_every_switch_and_every_owner() {
    let folder = Folder::new();
    let svg = folder.path("plan.svg").display().to_string();
    done(&["plan", "clos:4,2,2", "--traffic", "shift:2", "--svg", &svg]);
    let drawing = std::fs::read_to_string(&svg).unwrap();
    for name in ["leaf0", "leaf3", "spine1", "Paull's matrix", "host0 to host2, tree"] {
        assert!(drawing.contains(name), "{name}");
    }
    // Eight grants of two links each.
    assert_eq!(drawing.matches("<line ").count(), 16);
}

/// `--json` and `--svg` take a file, or stdout in place of the text.
#[test]
fn documents_go_to_a_file_or_to_stdout() {
    let folder = Folder::new();
    let file = |name: &str| folder.path(name).display().to_string();
    let plan = ["plan", "clos:4,2,2", "--traffic", "shift:2"];
    let with = |more: &[&str]| snin(&[&plan[..], more].concat());
    for more in [&["--json"][..], &["--json", "-"], &["--json=-"]] {
        assert!(stdout(&with(more)).starts_with("{\n"), "{more:?}");
    }
    for more in [&["--svg"][..], &["--svg", "-"]] {
        let said = stdout(&with(more));
        assert!(said.starts_with("<svg ") && said.ends_with("</svg>\n"), "{more:?}: {said}");
    }
    let (json_file, svg_file) = (file("plan.json"), file("plan.svg"));
    let output = with(&["--json", &json_file, "--svg", &svg_file]);
    assert!(stdout(&output).starts_with("fabric "), "{}", stdout(&output));
    assert_eq!(std::fs::read_to_string(&json_file).unwrap(), stdout(&with(&["--json"])));
    assert_eq!(std::fs::read_to_string(&svg_file).unwrap(), stdout(&with(&["--svg"])));
    let said = refused(&[&plan[..], &["--json", "--svg"]].concat(), 3);
    assert_eq!(
        said,
        "snin: --json and --svg: only one of them can go to stdout, name a file for the other"
    );
    let all: [&[&str]; 3] = [
        &["topo", "check", "clos:4,2,2"],
        &["sm", "simulate", "clos:2,2,1"],
        &["lab", "clos:2,2,1"],
    ];
    for arguments in all {
        let out = file("document");
        let output = snin(&[arguments, &["--json", &out]].concat());
        assert!(output.status.success(), "{arguments:?}");
        let document: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        assert!(document["schema_version"].is_u64(), "{arguments:?}");
    }
}

/// What cannot be written is refused before the work; what is cut short leaves nothing behind.
#[test]
fn an_output_is_whole_or_not_there() {
    let folder = Folder::new();
    let nowhere = folder.path("nowhere/lab.json").display().to_string();
    let said = refused(&["lab", "clos:4,4,4", "--json", &nowhere], 3);
    assert_eq!(said, format!("snin: {nowhere}: No such file or directory (os error 2)"));
    let said = refused(&["plan", "clos:4,4,4", "--svg", "/dev/full"], 3);
    assert!(said.starts_with("snin: /dev/full: No space left on device"), "{said}");
    // Interrupted: what was there before is there, and no hidden file.
    let html = folder.file("lab.html", "before");
    let json = folder.path("lab.json").display().to_string();
    let arguments = ["lab", "clos:18,9,9", "--windows", "600", "--html", &html, "--json", &json];
    let mut child = Command::new(env!("CARGO_BIN_EXE_snin"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.starts_with("snin: about "), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&html).unwrap(), "before");
    let left: Vec<_> = std::fs::read_dir(folder.0.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn more_cuts_than_cables_are_refused() {
    let said = refused(&["topo", "generate", "clos:2,2,1", "--cut", "5"], 3);
    assert_eq!(said, "snin: --cut 5: only 4 cables join switches");
    done(&["topo", "generate", "clos:2,2,1", "--cut", "4"]);
}

/// A node description can hold anything; what is printed of it does not move the cursor.
#[test]
fn names_do_not_reach_the_terminal_as_they_are() {
    let folder = Folder::new();
    let good = done(&["topo", "generate", "clos:2,2,1"]);
    let bad = folder
        .file("names", good.replace("leaf0", "le\u{1b}[2Jaf\u{7}").replace("spine1", "\u{9b}x"));
    let lfts = folder.path("lfts").display().to_string();
    let svg = folder.path("plan.svg").display().to_string();
    let plain = |text: &str| text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t');
    for arguments in [
        &["plan", &bad, "--traffic", "shift:1", "--lfts", &lfts, "--svg", &svg][..],
        &["topo", "check", &bad],
        &["verify", &bad, "--lfts", &lfts],
        &["sm", "simulate", &bad, "--event", "off host0 @1s"],
    ] {
        let output = snin(arguments);
        assert!(plain(&stdout(&output)), "{arguments:?}: {:?}", stdout(&output));
        assert!(plain(&String::from_utf8_lossy(&output.stderr)), "{arguments:?}");
    }
    for file in [svg, format!("{lfts}/dump_fts.txt")] {
        assert!(plain(&std::fs::read_to_string(&file).unwrap()), "{file}");
    }
    let said = refused(&["topo", "check", &folder.file("bad", "Swit\u{1b}ch 3\n")], 3);
    assert!(plain(&said), "{said:?}");
}

/// What is installed with a program is found beside it, wherever that is.
#[test]
fn libraries_are_those_of_the_programs_own_prefix() {
    let folder = Folder::new();
    let program = folder.path("opt/bin/snin");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_snin"), &program).unwrap();
    let slurm = folder.file("slurm.conf", "ClusterName=a\n");
    let said = |program: &Path| {
        let mut command = Command::new(program);
        let said = command.args(["slurm", "install", "--slurm-conf", &slurm]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    let prefix = folder.path("opt").canonicalize().unwrap();
    let plugin = prefix.join("lib/snin/libsnin_spank.so");
    let told = said(&program);
    assert!(told.contains(&format!("{}: no plugin is there", plugin.display())), "{told}");
    // A link to it, as in /usr/local/bin, leads to the same.
    let link = folder.path("snin");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    assert!(said(&link).contains(&plugin.display().to_string()));
}

/// What every table does with ordinary traffic, side by side: as text, as a document, as a picture.
#[test]
fn routes_are_shown_beside_others() {
    let folder = Folder::new();
    let fabric = folder.file("fabric", done(&["topo", "generate", "torus:6,1,2"]));
    let report = json(&["topo", "routes", &fabric, "--json"]);
    let rows = report["routes"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["routing"] == name).unwrap();
    // Round a ring shortest routes close a circle; up*/down* ones do not, and are longer.
    assert_eq!(
        (&row("snin-sm")["one_lane"], &row("minhop")["one_lane"]),
        (&true.into(), &false.into())
    );
    assert_eq!(row("minhop")["longest"], 4);
    assert!(row("snin-sm")["longest"].as_u64().unwrap() > 4);
    for name in ["snin-sm", "updown", "minhop"] {
        let (most, mean) =
            (row(name)["most"].as_f64().unwrap(), row(name)["mean"].as_f64().unwrap());
        assert!(most >= mean && mean > 0.0, "{name}");
    }
    let told = done(&["topo", "routes", &fabric]);
    let said = |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    // In lanes they close none; how many that takes is the last column.
    for (name, words) in [("snin-sm", "none 1"), ("minhop", "yes 1"), ("lanes", "yes 3")] {
        let words: Vec<&str> = words.split(' ').collect();
        let said = said(name);
        let columns: Vec<&str> = said.split_ascii_whitespace().collect();
        assert!(columns.ends_with(&words), "{told}");
    }
    assert_eq!((&row("lanes")["lanes"], &row("lanes")["longest"]), (&3.into(), &4.into()));
    let drawn = done(&["topo", "routes", &fabric, "--svg"]);
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"), "{drawn}");
    assert_eq!(drawn.matches("<polyline").count(), rows.len());
}

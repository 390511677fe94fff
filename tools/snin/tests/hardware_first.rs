//! `tools/hardware-first`, which a site with hardware runs first: each of its steps holds on a simulated fabric.

use std::path::Path;

use snin_fabric::generate::Recipe;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, OpenSm, Program, Simulator};

const BASH: Program = Program { name: "bash", package: "bash" };

#[test]
fn each_step_of_the_first_script_holds() -> Result<(), JudgeError> {
    let topology = "clos:4,4,2".parse::<Recipe>().unwrap().build().unwrap();
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let keeper = OpenSm::default().keep(&simulator)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware-first");
    let ours = Path::new(env!("CARGO_BIN_EXE_snin")).parent().unwrap();
    let path = format!("{}:/usr/sbin:/sbin:{}", ours.display(), std::env::var("PATH").unwrap());
    let run = |arguments: &[&str]| {
        let mut command = simulator.command(BASH, None)?;
        command.arg(&script).args(arguments).env("PATH", &path);
        Ok::<_, JudgeError>(command.output().unwrap())
    };
    let ended = run(&["--out", "seen"])?;
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{out}{err}");
    assert_eq!(out.lines().filter(|line| line.contains(" held ")).count(), 12, "{out}");
    assert!(simulator.folder().join("seen.tar.gz").is_file(), "{out}");
    // Without a subnet manager two steps do not hold, and are named.
    drop(keeper);
    let ended = run(&["--out", "alone"])?;
    let out = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{out}");
    let failed =
        |line: &&str| line.starts_with("the present SA lists") && line.contains("DID NOT HOLD");
    assert_eq!(out.lines().filter(failed).count(), 2, "{out}");
    assert_eq!(run(&["--nonsense"])?.status.code(), Some(2));
    Ok(())
}

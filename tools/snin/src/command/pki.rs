//! `snin pki`: a site's own CA.

use std::io::Write;

use snin_daemon::pki::{Issued, Pair, Pki};
use snin_protocol::identity::Identity;

use crate::Verdict;
use crate::cli::controller::{Pki as Asked, PkiIssue};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Does what is asked, and says what it has written.
pub(crate) fn run<W: Write>(asked: &Asked, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match asked {
        Asked::Init { name, days, folder } => {
            let pki = Pki::at(&folder.dir);
            pki.init(name, *days)?;
            for (file, what) in [("ca.crt", "ca_certificate"), ("revoked.pem", "revoked")] {
                out.line(format!("{}: every daemon's `{what}`", pki.file(file).display()))?;
            }
            out.line(format!("{}: keep it here, and nowhere else", pki.file("ca.key").display()))?;
        }
        Asked::Issue(issue) => {
            let pair =
                Pki::at(&issue.folder.dir).issue(&who(issue)?, issue.days, issue.out.as_deref())?;
            print_pair(&pair, out)?;
        }
        Asked::Renew(issue) => {
            let pair =
                Pki::at(&issue.folder.dir).renew(&who(issue)?, issue.days, issue.out.as_deref())?;
            print_pair(&pair, out)?;
        }
        Asked::Revoke { name, folder } => {
            let pki = Pki::at(&folder.dir);
            let count = pki.revoke(&name.parse::<Identity>()?)?;
            let list = pki.file("revoked.pem");
            out.line(format!(
                "{count} revoked; {} goes to every daemon's `revoked`",
                list.display()
            ))?;
        }
        Asked::List { folder, format } => {
            let issued = Pki::at(&folder.dir).issued()?;
            let json = Target::open(format.json.as_deref())?;
            out.report(json, &issued, |out| issued.iter().try_for_each(|one| out.line(line(one))))?;
        }
    }
    Ok(Verdict::Well)
}

fn line(one: &Issued) -> String {
    let state = match (one.revoked, one.is_in_force()) {
        (Some(_), _) => "revoked",
        (None, true) => "in force",
        (None, false) => "over",
    };
    format!("{}  {}  until {}  {state}", one.serial, one.name, one.end())
}

fn who(issue: &PkiIssue) -> Result<Identity, Failure> {
    Ok(issue.name.parse()?)
}

fn print_pair<W: Write>(pair: &Pair, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format!("{}: its `certificate`", pair.certificate.display()))?;
    out.line(format!("{}: its `key`", pair.key.display()))
}

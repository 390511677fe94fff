//! Greetings: versions, services, roles, users.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use snin_daemon::session::{Address, Count, Limits};
use snin_protocol::codec::{VERSION, decode, encode};
use snin_protocol::greeting::{Greet, Reason, Refused, Service, SessionMessage};
use snin_protocol::identity::{Identity, Role};

use super::support::{Desk, Good, PATIENCE, agent, controller};

/// What is answered to this greeting.
fn greet(desk: &Desk, greet: Greet) -> SessionMessage {
    let Address::Plain(address) = desk.addresses[0] else { panic!() };
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(&encode(&SessionMessage::Greet(greet)).unwrap()).unwrap();
    let mut came = Vec::new();
    loop {
        if let Some((answer, _)) = decode(&came).unwrap() {
            return answer;
        }
        let mut buffer = [0; 256];
        let count = socket.read(&mut buffer).unwrap();
        assert!(count > 0, "the session ended without an answer");
        came.extend_from_slice(&buffer[..count]);
    }
}

const fn usual(identity: Identity) -> Greet {
    Greet { identity, service: Service::Grants, first: VERSION, last: VERSION }
}

fn reason(answer: &SessionMessage) -> Reason {
    match answer {
        SessionMessage::Refused(Refused { reason, first: VERSION, last: VERSION }) => *reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_of_different_versions_speak_the_greatest_common_one() {
    let desk = Desk::plain(Limits::default());
    let newer = Greet { last: VERSION + 2, ..usual(agent(7)) };
    let welcome = tokio::task::block_in_place(|| greet(&desk, newer));
    assert!(matches!(welcome, SessionMessage::Welcome(welcome) if welcome.version == VERSION));
    let newest = Greet { first: VERSION + 1, last: VERSION + 2, ..usual(agent(8)) };
    assert_eq!(reason(&tokio::task::block_in_place(|| greet(&desk, newest))), Reason::Version);
    desk.counts(Count::Stranger, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_business_here_is_told_so() {
    let mut desk = Desk::plain(Limits { sessions: 1, ..Limits::default() });
    let ask = |who| tokio::task::block_in_place(|| greet(&desk, who));
    assert_eq!(reason(&ask(usual(controller()))), Reason::Role);
    let operator = Identity::new(Role::Operator, "ann").unwrap();
    assert_eq!(reason(&ask(usual(operator))), Reason::Role);
    assert_eq!(reason(&ask(Greet { service: Service::Views, ..usual(agent(7)) })), Reason::Service);
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    assert_eq!(reason(&ask(usual(agent(8)))), Reason::Full);
    good.asks(1).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    desk.counts(Count::Imposter, 2).await;
    desk.counts(Count::Full, 1).await;
}

#[tokio::test]
async fn a_unix_socket_knows_its_users() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/sessions.sock");
    let address = format!("unix://{}", path.display());
    let mut desk = Desk::open(&[&address], Limits::default(), None);
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    good.asks(1).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    // A caller's process of another user, who may open the socket.
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    for open in [folder.path(), &folder.path().join("run"), &path] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    assert!(rustix::process::geteuid().is_root(), "this test starts a process of another user");
    let frame = encode(&SessionMessage::Greet(usual(agent(8)))).unwrap();
    let script = format!(
        "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect('{}');s.sendall(bytes({frame:?}));\
         sys.stdout.write(s.recv(100).hex())",
        path.display()
    );
    let mut python = std::process::Command::new("/usr/bin/python3");
    python.args(["-c", &script]).uid(12_345).gid(12_345);
    let said = tokio::task::spawn_blocking(move || python.output().unwrap()).await.unwrap();
    let hex = String::from_utf8(said.stdout).unwrap();
    let bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let (answer, _) = decode::<SessionMessage>(&bytes).unwrap().expect("an answer");
    assert_eq!(reason(&answer), Reason::Identity);
    desk.counts(Count::Imposter, 1).await;
    good.asks(2).await;
    assert_eq!(desk.so_far(), [""; 0]);
}

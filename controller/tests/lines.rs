//! The lines to agents, over real sockets: who is heard as whom, who is told that he is a stranger, who is let in.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use snin_controller::lines::{Lines, Tally};
use snin_controller_core::events::Event;
use snin_daemon::watch::{Ready, Watch};
use snin_fabric::Guid;
use snin_protocol::codec::{MAX_FRAME, decode, encode};
use snin_protocol::message::{
    AgentMessage, ClockAnswer, ClockQuestion, ControllerMessage, FromAgent, Hello, Lease, ToAgent,
};
use snin_protocol::{Session, Term, Time};

const TERM: Term = Term(3);
const NOW: Time = Time::secs(7);
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines that one thread works on.
struct Desk {
    lines: Lines,
    ready: Ready,
}

impl Desk {
    fn open(most: usize) -> Self {
        let lines = Lines::listen((Ipv4Addr::LOCALHOST, 0).into(), most).unwrap();
        Self { lines, ready: Ready::default() }
    }

    fn call(&self) -> Agent {
        let socket = TcpStream::connect(self.lines.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Agent { socket, came: Vec::new() }
    }

    /// Works until so many things were heard.
    fn receive(&mut self, count: usize) -> Vec<String> {
        let mut heard = Vec::new();
        let began = Instant::now();
        while heard.len() < count {
            assert!(began.elapsed() < PATIENCE, "only {heard:?}");
            heard.extend(self.work());
        }
        heard
    }

    /// Works until something was counted.
    fn until(&mut self, so: impl Fn(Tally) -> bool) -> Vec<String> {
        let mut heard = Vec::new();
        let began = Instant::now();
        while !so(self.lines.tally()) {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.lines.tally());
            heard.extend(self.work());
        }
        heard
    }

    fn work(&mut self) -> Vec<String> {
        let heard = self.lines.work(&self.ready, TERM, NOW);
        self.lines.flush();
        let mut watch = Watch::new();
        self.lines.watch(&mut watch);
        watch.wait(Some(Duration::from_millis(20))).unwrap();
        self.ready = watch.into_ready();
        heard.iter().map(name).collect()
    }
}

fn name(event: &Event) -> String {
    match event {
        Event::Received { from, message } => match message.body {
            AgentMessage::Hello(_) => format!("{} greets", from.0),
            AgentMessage::Clock(question) => format!("{} asks at {}", from.0, question.sent),
            _ => format!("{} says more", from.0),
        },
        Event::AgentLost(port) => format!("{} is lost", port.0),
        other => format!("{other:?}"),
    }
}

struct Agent {
    socket: TcpStream,
    came: Vec<u8>,
}

impl Agent {
    fn send(&mut self, session: u64, body: AgentMessage) {
        let frame = FromAgent { session: Session(session), body };
        self.socket.write_all(&encode(&frame).unwrap()).unwrap();
    }

    fn greet(&mut self, port: u64) {
        self.send(1, AgentMessage::Hello(Hello { port: Guid(port), term: Term(0) }));
    }

    fn ask(&mut self, sent: Time) {
        self.send(1, AgentMessage::Clock(ClockQuestion { sent }));
    }

    fn receive(&mut self) -> ToAgent {
        loop {
            if let Some((message, length)) = decode::<ToAgent>(&self.came).unwrap() {
                self.came.drain(..length);
                return message;
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "the line ended");
            self.came.extend_from_slice(&buffer[..count]);
        }
    }

    fn is_hung_up(&mut self) -> bool {
        matches!(self.socket.read(&mut [0; 64]), Ok(0) | Err(_))
    }
}

fn answer(sent: Time) -> ToAgent {
    let body = ControllerMessage::Clock(ClockAnswer { sent });
    ToAgent { session: Session(1), term: TERM, at: NOW, body }
}

#[test]
fn each_agent_is_heard_and_told_by_its_own_line() {
    let mut desk = Desk::open(8);
    let [mut one, mut two] = [desk.call(), desk.call()];
    one.greet(1);
    assert_eq!(desk.receive(1), ["1 greets"]);
    two.greet(2);
    two.ask(Time(5));
    assert_eq!(desk.receive(2), ["2 greets", "2 asks at 5ns"]);
    desk.lines.send(Guid(2), &answer(Time(5)));
    desk.lines.send(Guid(1), &answer(Time(6)));
    desk.lines.send(Guid(9), &answer(Time(7)));
    desk.lines.flush();
    assert_eq!((one.receive(), two.receive()), (answer(Time(6)), answer(Time(5))));
    drop(one);
    assert_eq!(desk.receive(1), ["1 is lost"]);
    // The other's place has changed, and it is still known.
    two.ask(Time(8));
    assert_eq!(desk.receive(1), ["2 asks at 8ns"]);
    desk.lines.send(Guid(2), &answer(Time(8)));
    desk.lines.flush();
    assert_eq!(two.receive(), answer(Time(8)));
}

#[test]
fn who_goes_on_with_another_conversation_is_a_stranger() {
    let mut desk = Desk::open(8);
    let mut agent = desk.call();
    agent.send(4, AgentMessage::Clock(ClockQuestion { sent: Time(5) }));
    let began = Instant::now();
    agent.socket.set_nonblocking(true).unwrap();
    while agent.socket.peek(&mut [0; 1]).is_err() {
        assert!(began.elapsed() < PATIENCE);
        assert_eq!(desk.work(), Vec::<String>::new());
    }
    agent.socket.set_nonblocking(false).unwrap();
    let body = ControllerMessage::Stranger;
    assert_eq!(agent.receive(), ToAgent { session: Session(4), term: TERM, at: NOW, body });
    agent.greet(1);
    assert_eq!(desk.receive(1), ["1 greets"]);
}

#[test]
fn an_agent_that_calls_again_has_one_line_and_was_never_lost() {
    let mut desk = Desk::open(8);
    let mut before = desk.call();
    before.greet(1);
    desk.receive(1);
    let mut after = desk.call();
    after.greet(1);
    let heard = desk.until(|tally| tally.ended == 1);
    assert_eq!(heard, ["1 greets"]);
    assert!(before.is_hung_up());
    desk.lines.send(Guid(1), &answer(Time(1)));
    desk.lines.flush();
    assert_eq!(after.receive(), answer(Time(1)));
}

#[test]
fn there_are_no_more_lines_frames_and_words_that_wait_than_may_be() {
    let mut desk = Desk::open(2);
    let mut agents = [desk.call(), desk.call()];
    for (agent, port) in agents.iter_mut().zip(1..) {
        agent.greet(port);
    }
    desk.receive(2);
    let mut third = desk.call();
    desk.until(|tally| tally.turned_away == 1);
    assert!(third.is_hung_up());
    // A frame longer than frames may be ends the line of who sends it, and no other.
    agents[0].socket.write_all(&(MAX_FRAME as u32 + 1).to_be_bytes()).unwrap();
    let heard = desk.until(|tally| tally.malformed == 1);
    assert_eq!(heard, ["1 is lost"]);
    // One who does not read is given up before much waits for him.
    let long = Lease { answers: Vec::new(), ..Lease::default() };
    let body = ControllerMessage::Lease(long);
    let frame = ToAgent { session: Session(1), term: TERM, at: NOW, body };
    let mut said = 0_usize;
    while desk.lines.tally().ended == 0 {
        desk.lines.send(Guid(2), &frame);
        said += 1;
        assert!(said < 1 << 22, "all of it was kept");
        if said.is_multiple_of(1 << 14) {
            desk.work();
        }
    }
    // There is room again.
    let mut fourth = desk.call();
    fourth.greet(4);
    assert_eq!(desk.receive(1), ["4 greets"]);
}

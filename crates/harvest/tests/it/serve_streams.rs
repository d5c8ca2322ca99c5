//! Journals under stress: clients that come and go, servers that die, readers that do not read, two servers on one database.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::served::{Client, Server};
use crate::support::{FIX, PATIENCE, World, assert_gapless};

const CLIENTS: usize = 200;

/// Prints a lot, slowly enough to be watched.
fn talkative() -> Value {
    let count = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo $i; sleep 0.02; done";
    let mut replies: Vec<Value> =
        (0..6).map(|number| json!({ "say": format!("Part {number}"), "shell": count })).collect();
    replies.push(json!({ "shell": FIX }));
    replies.push(json!({}));
    json!(replies)
}

/// Reads a few events, goes away, comes back behind the last one, until the end.
fn reconnecting(address: &str, token: &str, session: &str, seed: u64, down: &AtomicBool) -> Vec<Value> {
    let mut heard: Vec<Value> = Vec::new();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "client {seed} heard {} events", heard.len());
        let after = heard.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let few = (random >> 33) % 12 + 1;
        match read_some(address, token, session, after, few as usize) {
            Some(events) => heard.extend(events),
            // Only a server that was killed refuses.
            None => assert!(down.load(Ordering::SeqCst) || begun.elapsed() < PATIENCE),
        }
        if heard.last().is_some_and(|event| event["type"] == "task.finished") {
            return heard;
        }
    }
}

/// At most `few` events over a connection of its own; `None` when there was no answer.
fn read_some(address: &str, token: &str, session: &str, after: u64, few: usize) -> Option<Vec<Value>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let request = format!(
        "GET /api/sessions/{session}/events?after={after} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let (mut text, mut buffer) = (String::new(), [0u8; 8192]);
    let mut events = Vec::new();
    loop {
        let read = stream.read(&mut buffer).ok()?;
        if read == 0 {
            return Some(events);
        }
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        // Whole lines only; the rest may be cut in the middle.
        while let Some(end) = text.find('\n') {
            let line = text[..end].trim_end().to_owned();
            text.drain(..=end);
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let Ok(event) = serde_json::from_str::<Value>(data) else { return Some(events) };
            if event["seq"].is_u64() {
                events.push(event);
            }
            if events.len() == few || events.last().is_some_and(|event| event["type"] == "task.finished") {
                return Some(events);
            }
        }
    }
}

/// Another server at the same address.
pub fn listen_again(world: &World, server: &Server, script: &str) -> Server {
    let args = ["serve", "--listen", server.host(), "--json", "--agents", "1", "--model-script", script];
    Server::started(world.harvest(&args).start())
}

#[test]
fn clients_that_come_and_go_each_end_with_exactly_the_journal() {
    let world = World::new();
    let script = world.script(&talkative());
    let script = script.to_str().unwrap();
    let mut server = world.serve(&["--agents", "1", "--model-script", script]);
    let token = world.token(&[]);
    let task = server.with(&token).post("/api/tasks", &world.ask("Make the failing test pass")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap().to_owned();
    server.with(&token).stream(&format!("/api/sessions/{session}/events")).until("tool.call");
    let address = server.host().to_owned();
    let down = AtomicBool::new(false);
    let heard: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS as u64)
            .map(|seed| {
                let (address, token, session, down) = (&address, &token, &session, &down);
                scope.spawn(move || reconnecting(address, token, session, seed + 1, down))
            })
            .collect();
        server.with(&token).stream(&format!("/api/sessions/{session}/events")).until("tool.result");
        down.store(true, Ordering::SeqCst);
        server.running.signal(Signal::KILL);
        server = listen_again(&world, &server, script);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let journal = server.with(&token).journal(&session, 0);
    assert_gapless(&journal);
    assert!(journal.len() > 20, "{}", journal.len());
    for (number, heard) in heard.iter().enumerate() {
        assert!(*heard == journal, "client {number} heard {} of {} events", heard.len(), journal.len());
    }
}

#[test]
fn row_29_a_thousand_readers_that_do_not_read_harm_nobody() {
    let world = World::new();
    // So much that neither the buffers of the system nor ours hold it.
    let flood = json!({ "say": "word after word ".repeat(3_000), "shell": "true" });
    let server = world.serve_with(&json!([flood, { "shell": FIX }, {}]), &["--agents", "1"]);
    let token = world.token(&[]);
    // Once without them, so that what the work itself takes is not laid at their door.
    assert_eq!(server.with(&token).worked_off(&world.ask("Make the failing test pass"))["status"], "completed");
    let task = server.with(&token).post("/api/tasks", &world.ask("Make it pass again")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap().to_owned();
    let mut stuck: Vec<TcpStream> = (0..1_000)
        .map(|_| {
            let mut stream = TcpStream::connect(server.host()).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
            let request = format!(
                "GET /api/sessions/{session}/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
                 Accept: text/event-stream\r\n\r\n",
                server.host()
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let before = resident(server.running.pid());
    let journal = server.with(&token).journal(&session, 0);
    assert_gapless(&journal);
    assert_eq!(journal.last().unwrap()["data"]["status"], "completed");
    let grown = resident(server.running.pid()).saturating_sub(before);
    assert!(grown < 160 << 20, "the server grew by {} MiB", grown >> 20);
    let unread = most_unread(server.host());
    assert!(unread < 256 << 10, "the system keeps {} KiB for one reader", unread >> 10);
    // Whoever reads at last is told where to go on, and finds everything there.
    let mut text = String::new();
    let mut late = stuck.remove(0);
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&late, 1 << 20).unwrap();
    while !text.contains("event: task.finished") && !text.contains("event: dropped") {
        let mut buffer = [0u8; 65536];
        let Ok(read @ 1..) = late.read(&mut buffer) else { break };
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    let after = text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok()).max().unwrap();
    if let Some((_, last)) = text.split_once("event: dropped\ndata: ") {
        let told: Value = serde_json::from_str(last.lines().next().unwrap()).unwrap();
        assert_eq!(told["after"], after);
    }
    if after < journal.len() as u64 {
        assert_eq!(server.with(&token).journal(&session, after), journal[after as usize..]);
    }
}

/// The most bytes that the system keeps for one client of this address, as `/proc/net/tcp` tells.
fn most_unread(address: &str) -> u64 {
    let port = format!(":{:04X}", address.rsplit(':').next().unwrap().parse::<u16>().unwrap());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let connections = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = connections.filter(|fields| fields[1].ends_with(&port));
    let unread = ours.map(|fields| u64::from_str_radix(fields[4].split(':').next().unwrap(), 16).unwrap());
    unread.max().unwrap()
}

/// Bytes of memory that a process has.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn two_servers_share_one_database_and_the_second_goes_on_without_the_first() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new();
    let url = cluster.url("postgres");
    let script = world.script(&talkative());
    let serve = |data: &str, args: &[&str]| {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--json", "--database-url", &url];
        all.extend(args);
        Server::started(world.harvest_at(&world.path().join(data), &all).start())
    };
    let working = ["--agents", "1", "--lease", "3s", "--model-script", script.to_str().unwrap()];
    let first = serve("first", &working);
    let token = world.json(&["token", "create", "--role", "admin", "--database-url", &url])["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let task = first.with(&token).post("/api/tasks", &world.ask("Make the failing test pass")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap().to_owned();
    let second = serve("second", &working);
    let mut stream = second.with(&token).stream(&format!("/api/sessions/{session}/events"));
    let mut heard = stream.until("tool.result");
    first.running.signal(Signal::KILL);
    heard.extend(stream.until("task.finished"));
    assert_gapless(&heard);
    assert_eq!(heard.last().unwrap()["data"]["status"], "completed");
    let kinds: BTreeMap<&str, usize> = heard.iter().fold(BTreeMap::new(), |mut counts, event| {
        *counts.entry(event["type"].as_str().unwrap()).or_default() += 1;
        counts
    });
    assert_eq!(kinds["task.finished"], 1);
    assert_eq!(kinds["turn.started"], 2, "the second took it over: {kinds:?}");
    let ask = world.ask("And another");
    let another: Client = second.with(&token);
    assert_eq!(another.worked_off(&ask)["status"], "completed");
}

//! The suite that every provider has to pass. One line runs all of it:
//!
//! ```ignore
//! conformance!(container, support::container());
//! ```
//!
//! What it needs to know about a kind of provider is in [`Place`]. Limits that a provider says it does not keep are not
//! tried, and without isolation neither is the network.

use std::time::Duration;

use harvest_core::OutputStream;
use harvest_sandbox::{File, Limit, Limits, Output, ProcessSpec, Sandbox, Signal, Spec, Strength, Workspace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{self, PATIENCE, Place, exceed, finish, next, processes_with, python, run, shell};

macro_rules! conformance {
    ($provider:ident, $place:expr) => {
        conformance!(@each $provider, $place,
            a_process_sees_its_workspace_input_files_and_environment,
            both_streams_come_in_order_with_the_exit_code,
            a_program_that_is_not_there_is_an_error_or_an_exit,
            signals_reach_the_process,
            killing_takes_daemonised_children,
            a_daemonised_child_cannot_hold_up_the_exit,
            several_processes_run_at_the_same_time,
            a_lost_link_is_resumed_without_gap_or_duplicate,
            the_end_is_told_again_after_attaching,
            a_slow_reader_holds_up_no_one_and_loses_nothing,
            ten_megabytes_and_very_long_lines_come_whole,
            the_gateway_may_come_late,
            nothing_can_be_reached_but_the_gateway,
            destroying_leaves_nothing,
            a_sandbox_that_was_killed_is_lost,
            a_later_server_finds_and_removes_what_an_earlier_one_left,
            a_sandbox_whose_folders_are_gone_ends_by_itself,
            what_cannot_be_made_says_why_and_leaves_nothing,
            no_open_file_of_the_server_comes_in,
            the_wall_clock_ends_it,
            endless_output_is_ended,
            too_much_memory_is_ended,
            too_many_processes_are_ended,
            too_much_disk_is_ended,
            too_many_files_are_ended,
        );
    };
    (@each $provider:ident, $place:expr, $($name:ident),+ $(,)?) => {
        mod $provider {
            #[allow(unused_imports, reason = "not every kind of place is made there")]
            use super::support;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($place).await; })+
        }
    };
}

conformance!(local, support::local());
conformance!(none, support::none());
#[cfg(feature = "container")]
conformance!(
    container,
    match crate::container::place() {
        Some(place) => place,
        None => return,
    }
);

async fn a_process_sees_its_workspace_input_files_and_environment(place: Place) {
    let sandbox = place.create().await;
    let paths = sandbox.paths().clone();
    let spec = ProcessSpec {
        argv: vec!["./tool.sh".to_owned()],
        env: vec![("GREETING".to_owned(), "hello there".to_owned())],
        stdin: "line one\nline two".to_owned(),
        files: vec![
            File {
                path: paths.workspace.join("tool.sh").display().to_string(),
                content: "#!/bin/sh\ncat given.txt; echo \"$GREETING\"; cat \"$HOME/deep/note\"; cat; echo; pwd\n"
                    .to_owned(),
                executable: true,
            },
            File {
                path: paths.home.join("deep/note").display().to_string(),
                content: "noted\n".to_owned(),
                executable: false,
            },
        ],
        ..shell("p", "")
    };
    let outcome = finish(&mut sandbox.start(spec).await.unwrap()).await;
    let folder = paths.workspace.display().to_string();
    assert_eq!(outcome.stdout, ["given", "hello there", "noted", "line one", "line two", &folder], "{outcome:?}");
    // What one process writes the next one sees.
    run(&sandbox, "write", "echo kept > here.txt; echo kept > ~/there.txt").await;
    assert_eq!(run(&sandbox, "read", "cat here.txt ~/there.txt").await.stdout, ["kept", "kept"]);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn both_streams_come_in_order_with_the_exit_code(place: Place) {
    let sandbox = place.create().await;
    let script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done; printf 'no newline'; exit 7";
    let outcome = run(&sandbox, "p", script).await;
    assert_eq!(outcome.stdout, ["out 1", "out 2", "out 3", "out 4", "out 5", "no newline"]);
    assert_eq!(outcome.stderr, ["err 1", "err 2", "err 3", "err 4", "err 5"]);
    assert_eq!(outcome.code(), Some(7));
    assert!(outcome.exit.unwrap().max_rss_kb > 0);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn a_program_that_is_not_there_is_an_error_or_an_exit(place: Place) {
    let sandbox = place.create().await;
    let spec = ProcessSpec { argv: vec!["no-such-program".to_owned()], ..shell("p", "") };
    match sandbox.start(spec).await {
        Ok(mut process) => assert_ne!(finish(&mut process).await.code(), Some(0)),
        Err(error) => assert!(error.to_string().contains("no-such-program"), "{error}"),
    }
    for bad in ["", "../x", "a b", ".hidden"] {
        assert!(sandbox.start(shell(bad, "true")).await.is_err(), "{bad}");
    }
    let outside = File { path: "/etc/harvest-test".to_owned(), ..File::default() };
    assert!(sandbox.start(ProcessSpec { files: vec![outside], ..shell("f", "true") }).await.is_err());
    let mut unknown = sandbox.resume("never-started", 0).await.unwrap();
    assert!(matches!(next(&mut unknown).await, Output::Failed { .. }));
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn signals_reach_the_process(place: Place) {
    let sandbox = place.create().await;
    let script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done";
    let mut process = sandbox.start(shell("polite", script)).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    process.signal(Signal::Interrupt).await.unwrap();
    let outcome = finish(&mut process).await;
    assert_eq!((outcome.text().as_str(), outcome.code()), ("caught", Some(3)));

    let mut process = sandbox.start(shell("plain", "echo ready; exec sleep 60")).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    process.signal(Signal::Terminate).await.unwrap();
    let exit = finish(&mut process).await.exit.unwrap();
    assert_eq!((exit.code, exit.signal), (None, Some(15)));

    let mut process =
        sandbox.start(shell("deaf", "trap '' INT TERM; echo ready; while :; do sleep 1; done")).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    process.signal(Signal::Kill).await.unwrap();
    let exit = finish(&mut process).await.exit.unwrap();
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    place.provider.destroy(sandbox.id()).await.unwrap();
}

/// Starts a child in a session of its own that keeps touching a file, and says when it does.
const DAEMON: &str = "rm -f beat; setsid sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' & \
                      while ! [ -s beat ]; do sleep 0.01; done; echo ready; ";

/// Whether the daemon writes within so many tenths of a second.
async fn beats_within(sandbox: &Sandbox, id: &str, tenths: u32) -> bool {
    let script = format!(
        "a=$(cat beat); for _ in $(seq {tenths}); do sleep 0.1; [ \"$a\" = \"$(cat beat)\" ] || {{ echo beating; exit; }}; done"
    );
    run(sandbox, id, &script).await.text() == "beating"
}

/// Waits for the next beat for as long as a busy machine may take.
async fn is_beating(sandbox: &Sandbox, id: &str) -> bool {
    beats_within(sandbox, id, 200).await
}

async fn is_still(sandbox: &Sandbox, id: &str) -> bool {
    !beats_within(sandbox, id, 3).await
}

async fn killing_takes_daemonised_children(place: Place) {
    let sandbox = place.create().await;
    let mut process = sandbox.start(shell("p", &format!("{DAEMON} sleep 60"))).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    assert!(is_beating(&sandbox, "before").await);
    process.signal(Signal::Kill).await.unwrap();
    finish(&mut process).await;
    assert!(is_still(&sandbox, "after").await);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn a_daemonised_child_cannot_hold_up_the_exit(place: Place) {
    let sandbox = place.create().await;
    let outcome = run(&sandbox, "p", &format!("{DAEMON} exit 4")).await;
    assert_eq!(outcome.code(), Some(4));
    assert!(is_still(&sandbox, "after").await);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn several_processes_run_at_the_same_time(place: Place) {
    let sandbox = place.create().await;
    // Each waits for the other, so neither ends unless both run.
    let script =
        |mine: &str, other: &str| format!("touch {mine}; while ! [ -e {other} ]; do sleep 0.01; done; echo {mine}");
    let mut first = sandbox.start(shell("a", &script("a", "b"))).await.unwrap();
    let mut second = sandbox.start(shell("b", &script("b", "a"))).await.unwrap();
    assert_eq!(finish(&mut first).await.text(), "a");
    assert_eq!(finish(&mut second).await.text(), "b");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn a_lost_link_is_resumed_without_gap_or_duplicate(place: Place) {
    let sandbox = place.create().await;
    let id = sandbox.id().clone();
    let script =
        "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.01; done; echo end >&2";
    let mut process = sandbox.start(shell("count", script)).await.unwrap();
    let mut seen = Vec::new();
    let mut safe = 0;
    for _ in 0..250 {
        let Output::Line { line, offset, .. } = next(&mut process).await else { panic!("ended early") };
        seen.push(String::from_utf8(line).unwrap());
        safe = offset;
    }
    process.acknowledge(safe).await.unwrap();
    let port = sandbox.gateway_port();
    // What was read after the last safe offset counts as never seen.
    for _ in 0..50 {
        next(&mut process).await;
    }
    drop((process, sandbox));

    let sandbox = place.provider.attach(&id).await.unwrap();
    assert_eq!(sandbox.gateway_port(), port);
    let mut process = sandbox.resume("count", safe).await.unwrap();
    let rest = finish(&mut process).await;
    seen.extend(rest.stdout);
    assert_eq!(seen, (0..3000).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(rest.stderr, ["end"]);
    place.provider.destroy(&id).await.unwrap();
}

async fn the_end_is_told_again_after_attaching(place: Place) {
    let sandbox = place.create().await;
    let id = sandbox.id().clone();
    assert_eq!(run(&sandbox, "p", "echo one; echo two; exit 5").await.code(), Some(5));
    drop(sandbox);
    let sandbox = place.provider.attach(&id).await.unwrap();
    for _ in 0..2 {
        let outcome = finish(&mut sandbox.resume("p", 0).await.unwrap()).await;
        assert_eq!((outcome.stdout, outcome.exit.unwrap().code), (vec!["one".to_owned(), "two".to_owned()], Some(5)));
    }
    place.provider.destroy(&id).await.unwrap();
}

async fn a_slow_reader_holds_up_no_one_and_loses_nothing(place: Place) {
    let sandbox = place.create().await;
    let mut slow = sandbox.start(shell("slow", "seq 1 200000; echo done >&2")).await.unwrap();
    assert!(matches!(next(&mut slow).await, Output::Line { .. }));
    // Its queue is full by now and stays so, while another comes and goes.
    for number in 0..3 {
        assert_eq!(run(&sandbox, &format!("quick{number}"), "seq 1 2000 | tail -1").await.text(), "2000");
    }
    let rest = finish(&mut slow).await;
    assert_eq!(rest.stdout, (2..=200_000).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(rest.stderr, ["done"]);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn ten_megabytes_and_very_long_lines_come_whole(place: Place) {
    let sandbox = place.create().await;
    let script = "head -c 10000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; head -c 9000000 /dev/zero | tr '\\0' y; echo; echo z";
    let mut process = sandbox.start(shell("p", script)).await.unwrap();
    let (mut short, mut long, mut pieces, mut last) = (0, 0, 0, Vec::new());
    loop {
        match next(&mut process).await {
            Output::Line { stream, line, continued, .. } => {
                assert_eq!(stream, OutputStream::Stdout);
                match line.first() {
                    Some(b'x') => short += line.len(),
                    Some(b'y') => {
                        long += line.len();
                        pieces += 1;
                        assert_eq!(continued, pieces == 1);
                    }
                    _ => last = line,
                }
            }
            Output::Exited(exit) => {
                assert!(exit.success());
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((short, long, pieces, last.as_slice()), (10_000_000, 9_000_000, 2, b"z".as_slice()));
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn the_gateway_may_come_late(place: Place) {
    let sandbox = place.create().await;
    let port = sandbox.gateway_port();
    let script = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\ns.sendall(b'ping')\nprint('asked', flush=True)\n\
         s.shutdown(socket.SHUT_WR)\nprint(s.recv(100).decode())"
    );
    let spec = ProcessSpec { argv: vec!["python3".to_owned(), "-c".to_owned(), script], ..shell("p", "") };
    let mut process = sandbox.start(spec).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }), "the connection must not fail");
    let listener = place.provider.listen(sandbox.id()).unwrap();
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut asked = String::new();
    stream.read_to_string(&mut asked).await.unwrap();
    stream.write_all(format!("{asked}pong").as_bytes()).await.unwrap();
    drop(stream);
    assert_eq!(finish(&mut process).await.stdout, ["pingpong"]);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn destroying_leaves_nothing(place: Place) {
    let spec = place.spec();
    let id = spec.id.clone();
    place.provider.prepare(&id).await.unwrap();
    let gateway = place.provider.listen(&id).unwrap();
    let sandbox = place.provider.create(spec).await.unwrap();
    let mark = format!("mark-{id}");
    let mut process = sandbox
        .start(shell("p", &format!("{DAEMON} mkdir -p a/b; chmod 0 a; exec sh -c 'sleep 60; : {mark}'")))
        .await
        .unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    assert_eq!(place.provider.list().await.unwrap(), std::slice::from_ref(&id));
    assert!(!place.traces(&id).is_empty());
    place.provider.destroy(&id).await.unwrap();
    assert_eq!(next(&mut process).await, Output::Lost);
    assert!(matches!(sandbox.start(shell("late", "true")).await, Err(harvest_sandbox::Error::Lost { .. })));
    drop(gateway);
    assert_eq!(processes_with(&mark), [""; 0]);
    assert_eq!(place.traces(&id), [""; 0]);
    assert!(place.provider.list().await.unwrap().is_empty());
    assert!(!place.provider.gateway_socket(&id).parent().unwrap().exists());
    place.provider.destroy(&id).await.unwrap();
    assert!(place.provider.attach(&id).await.is_err());
}

async fn a_sandbox_that_was_killed_is_lost(place: Place) {
    let sandbox = place.create().await;
    let id = sandbox.id().clone();
    let mut process = sandbox.start(shell("p", "echo ready; sleep 60")).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    (place.crash)(place.folder.path(), &id);
    assert_eq!(next(&mut process).await, Output::Lost);
    assert!(place.provider.attach(&id).await.is_err());
    assert_eq!(place.provider.list().await.unwrap(), std::slice::from_ref(&id));
    place.provider.destroy(&id).await.unwrap();
    assert!(place.provider.list().await.unwrap().is_empty());
}

async fn a_later_server_finds_and_removes_what_an_earlier_one_left(place: Place) {
    let sandbox = place.create().await;
    let id = sandbox.id().clone();
    let mut process = sandbox.start(shell("p", &format!("{DAEMON} sleep 60"))).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    let later = (place.again)(place.folder.path());
    assert_eq!(later.list().await.unwrap(), std::slice::from_ref(&id));
    later.destroy(&id).await.unwrap();
    assert_eq!(next(&mut process).await, Output::Lost);
    assert!(later.list().await.unwrap().is_empty());
    assert_eq!(place.traces(&id), [""; 0]);
}

async fn nothing_can_be_reached_but_the_gateway(place: Place) {
    if !place.provider.capabilities().isolated {
        return harvest_testing::skip("this provider isolates nothing");
    }
    let sandbox = place.create().await;
    let gateway = place.provider.listen(sandbox.id()).unwrap();
    let host = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let (port, open) = (host.local_addr().unwrap().port(), sandbox.gateway_port());
    let script = format!(
        "import socket\n\
         def attempt(name, family, kind, address):\n\
         \x20   try:\n\
         \x20       s = socket.socket(family, kind); s.settimeout(2); s.connect(address); s.send(b'x'); print(name, 'got out')\n\
         \x20   except OSError as e: print(name, 'refused')\n\
         I, S = socket.AF_INET, socket.SOCK_STREAM\n\
         attempt('gateway', I, S, ('127.0.0.1', {open}))\n\
         attempt('host', I, S, ('127.0.0.1', {port}))\n\
         attempt('tcp', I, S, ('192.0.2.1', 80))\n\
         attempt('metadata', I, S, ('169.254.169.254', 80))\n\
         attempt('udp', I, socket.SOCK_DGRAM, ('192.0.2.1', 53))\n\
         attempt('tcp6', socket.AF_INET6, S, ('2001:db8::1', 80))\n\
         attempt('icmp', I, socket.SOCK_RAW, ('192.0.2.1', 0))\n\
         attempt('ping', I, socket.SOCK_DGRAM, ('192.0.2.1', 0))\n"
    );
    let outcome = finish(&mut sandbox.start(python("p", &script)).await.unwrap()).await;
    let got_out: Vec<_> = outcome.stdout.iter().filter(|line| line.ends_with("got out")).collect();
    assert_eq!(got_out, ["gateway got out"], "{outcome:?}");
    assert_eq!(outcome.stdout.len(), 8, "{outcome:?}");
    drop(gateway);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn the_wall_clock_ends_it(place: Place) {
    let mut spec = place.spec();
    spec.limits.wall = Duration::from_secs(1);
    let sandbox = place.provider.create(spec).await.unwrap();
    let mut process = sandbox.start(shell("p", "echo ready; sleep 60")).await.unwrap();
    let (limit, message, _) = exceed(&mut process).await;
    assert_eq!(limit, Limit::Wall, "{message}");
    let id = sandbox.id().clone();
    let gone = async { while place.provider.attach(&id).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    place.provider.destroy(&id).await.unwrap();
}

/// Runs something that goes beyond `limit`. Only that ends: its sandbox can be used afterwards, a neighbour goes on as
/// before, and nothing is left behind.
async fn goes_beyond(place: Place, limits: Limits, limit: Limit, what: ProcessSpec) -> (String, usize) {
    let neighbour = place.create().await;
    let mut steady = neighbour.start(shell("steady", "echo ready; read line; echo $line")).await.unwrap();
    assert!(matches!(next(&mut steady).await, Output::Line { .. }));
    let mut beating = neighbour.start(shell("daemon", &format!("{DAEMON} sleep 600"))).await.unwrap();
    assert!(matches!(next(&mut beating).await, Output::Line { .. }));

    let sandbox = place.provider.create(Spec { limits, ..place.spec() }).await.unwrap();
    let (reached, message, printed) = exceed(&mut sandbox.start(what).await.unwrap()).await;
    assert_eq!(reached, limit, "{message}");
    clear_away(&sandbox, limit).await;

    assert!(is_beating(&neighbour, "look").await);
    let ids = [sandbox.id().clone(), neighbour.id().clone()];
    for id in &ids {
        place.provider.destroy(id).await.unwrap();
        assert_eq!(place.traces(id), [""; 0]);
    }
    (message, printed)
}

/// Removes what went beyond the limit. While that takes, whoever does it is beyond the limit, too.
async fn clear_away(sandbox: &Sandbox, limit: Limit) {
    for attempt in 0..50 {
        let clearing = shell(&format!("clear-{attempt}"), "rm -rf ./* 2>/dev/null; echo alive");
        let mut process = sandbox.start(clearing).await.unwrap();
        match next(&mut process).await {
            Output::Line { line, .. } if line == b"alive" => return,
            Output::Failed { limit: Some(reached), .. } if reached == limit => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("nothing can be removed");
}

async fn endless_output_is_ended(place: Place) {
    let limits = Limits { output_bytes: 1_000_000, ..Limits::default() };
    let (message, printed) = goes_beyond(place, limits, Limit::Output, shell("p", "yes")).await;
    assert!(message.contains("1000000"), "{message}");
    assert!(printed > 100_000 && printed < 1_000_000, "{printed}");
}

async fn too_much_memory_is_ended(place: Place) {
    if place.provider.capabilities().limits.memory == Strength::Absent {
        return harvest_testing::skip("this provider cannot limit memory here");
    }
    let limits = Limits { memory_bytes: 200 << 20, ..Limits::default() };
    let script = "held = []\nwhile True: held.append(bytearray(8 << 20))";
    let (message, _) = goes_beyond(place, limits, Limit::Memory, python("p", script)).await;
    assert!(message.contains("200 MiB"), "{message}");
}

async fn too_many_processes_are_ended(place: Place) {
    if place.provider.capabilities().limits.processes == Strength::Absent {
        return harvest_testing::skip("this provider cannot limit processes here");
    }
    let limits = Limits { processes: 60, ..Limits::default() };
    // Each one makes two more of itself, in a session of its own, whether or not that works.
    let bomb = "import os, time\n\
                while True:\n\
                \x20   try: os.fork() == 0 and os.setsid()\n\
                \x20   except OSError: time.sleep(0.01)";
    let (message, _) = goes_beyond(place, limits, Limit::Processes, python("p", bomb)).await;
    assert!(message.contains("60"), "{message}");
}

async fn too_much_disk_is_ended(place: Place) {
    if place.provider.capabilities().limits.disk == Strength::Absent {
        return harvest_testing::skip("this provider cannot limit disk here");
    }
    let limits = Limits { disk_bytes: 50 << 20, ..Limits::default() };
    // Every second one into the home folder, and into a folder that no one may look into.
    let script = "mkdir -p hidden ~/more; i=0; while :; do i=$((i+1)); head -c 4194304 /dev/zero > hidden/$i; \
                  head -c 4194304 /dev/zero > ~/more/$i; chmod 300 hidden; done";
    let (message, _) = goes_beyond(place, limits, Limit::Disk, shell("p", script)).await;
    assert!(message.contains("50 MiB"), "{message}");
}

async fn too_many_files_are_ended(place: Place) {
    if place.provider.capabilities().limits.inodes == Strength::Absent {
        return harvest_testing::skip("this provider cannot limit inodes here");
    }
    let limits = Limits { inodes: 3000, ..Limits::default() };
    let script = "import os\ni = 0\nwhile True:\n    os.mkdir(f'd{i}'); open(f'd{i}/f', 'w').close(); i += 1";
    let (message, _) = goes_beyond(place, limits, Limit::Inodes, python("p", script)).await;
    assert!(message.contains("3000"), "{message}");
}

async fn what_cannot_be_made_says_why_and_leaves_nothing(place: Place) {
    let missing = place.folder.path().join("missing");
    let overlay = place.provider.capabilities().overlay;
    let workspace = if overlay { Workspace::Overlay { lower: missing } } else { Workspace::Folder { path: missing } };
    let spec = Spec { workspace, ..place.spec() };
    match place.provider.create(spec).await {
        Err(error) => {
            assert_eq!(error.code(), harvest_core::Code::SandboxFailed);
            assert!(error.to_string().contains("missing"), "{error}");
        }
        // Without isolation there is nothing to show; the first process finds out.
        Ok(sandbox) => {
            assert!(!place.provider.capabilities().isolated);
            assert!(sandbox.start(shell("p", "true")).await.is_err());
            place.provider.destroy(sandbox.id()).await.unwrap();
        }
    }
    assert!(place.provider.list().await.unwrap().is_empty());
}

async fn no_open_file_of_the_server_comes_in(place: Place) {
    let file = std::fs::File::create(place.folder.path().join("database")).unwrap();
    // As a careless library, or the shell that started us, would leave it.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let sandbox = place.create().await;
    let outcome = run(&sandbox, "p", "for fd in /proc/$$/fd/*; do readlink $fd; done").await;
    assert!(outcome.stdout.len() <= 4 && !outcome.text().contains("database"), "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

async fn a_sandbox_whose_folders_are_gone_ends_by_itself(place: Place) {
    let sandbox = place.create().await;
    let id = sandbox.id().clone();
    drop(sandbox);
    std::fs::remove_dir_all(place.provider.gateway_socket(&id).parent().unwrap()).unwrap();
    let gone = async {
        while !processes_with(id.as_str()).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

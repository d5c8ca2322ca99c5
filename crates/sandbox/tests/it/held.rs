//! Processes that were held before they were known, and input that comes later: nobody inside can tell the difference.

use std::path::{Path, PathBuf};

use harvest_sandbox::{File, Limit, Limits, Output, ProcessSpec, Sandbox, Signal, Spec};

use crate::support::{self, Place, exceed, finish, next, run, shell};

/// Holds `id` and waits until the stub is there, so that what follows is about a held one.
async fn hold(sandbox: &Sandbox, id: &str) {
    sandbox.hold(id).await.unwrap();
    // Orders are obeyed one after the other, so once this one has answered, the other was at least begun.
    assert_eq!(run(sandbox, &format!("after-{id}"), "true").await.code(), Some(0));
}

async fn create(place: &Place) -> Sandbox {
    place.create().await
}

/// Everything a process can see of itself.
const LOOK: &str = "env | sort; pwd; id -u; id -g; ulimit -a; ls -l /proc/self/fd | wc -l; cat /proc/self/oom_score_adj
grep -E '^(Cap|NoNewPrivs|Seccomp:|SigIgn|SigBlk|SigCgt|NSpid|Groups)' /proc/self/status; cat /proc/1/comm; ps -e | wc -l
ps -o sid=,pgid= -p $$ | tr -s ' '; ls /; ls /tmp; cat given.txt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_process_sees_what_any_other_sees() {
    let place = support::local();
    let sandbox = create(&place).await;
    hold(&sandbox, "held").await;
    let look = |id: &str| ProcessSpec {
        env: vec![("GREETING".to_owned(), "hello there".to_owned())],
        stdin: "to read".to_owned(),
        ..shell(id, &format!("{LOOK}; cat"))
    };
    let held = finish(&mut sandbox.start(look("held")).await.unwrap()).await;
    let cold = finish(&mut sandbox.start(look("cold")).await.unwrap()).await;
    assert_eq!(held.stdout, cold.stdout);
    assert!(held.text().contains("hello there") && held.text().ends_with("to read"), "{held:?}");
    assert!(held.stderr.is_empty() && held.code() == Some(0), "{held:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
    assert_eq!(place.traces(sandbox.id()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_process_ends_like_any_other() {
    let place = support::local();
    let sandbox = create(&place).await;
    for id in ["code", "signal", "child", "absent"] {
        hold(&sandbox, id).await;
    }
    let note = File { path: "/home/harvest/deep/note".to_owned(), content: "noted".to_owned(), executable: false };
    let spec = ProcessSpec { files: vec![note], ..shell("code", "cat ~/deep/note; echo no >&2; exit 7") };
    let outcome = finish(&mut sandbox.start(spec).await.unwrap()).await;
    assert_eq!(
        (outcome.text().as_str(), outcome.stderr, outcome.exit.unwrap().code),
        ("noted", vec!["no".into()], Some(7))
    );

    let mut process = sandbox
        .start(shell("signal", "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"))
        .await
        .unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    process.signal(Signal::Interrupt).await.unwrap();
    assert_eq!(finish(&mut process).await.code(), Some(3));

    let mut process = sandbox.start(shell("child", "setsid sleep 1000 & echo ready; wait")).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    process.signal(Signal::Kill).await.unwrap();
    assert_eq!(finish(&mut process).await.exit.unwrap().signal, Some(9));

    let absent = ProcessSpec { argv: vec!["no-such-program".to_owned()], ..shell("absent", "") };
    let outcome = finish(&mut sandbox.start(absent).await.unwrap()).await;
    assert_eq!(outcome.code(), Some(1));
    assert!(outcome.stderr.concat().contains("no-such-program"), "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_for_a_held_process() {
    let place = support::local();
    let limits = Limits { output_bytes: 1 << 20, ..Limits::default() };
    let sandbox = place.provider.create(Spec { limits, ..place.spec() }).await.unwrap();
    hold(&sandbox, "p").await;
    let (limit, ..) = exceed(&mut sandbox.start(shell("p", "yes")).await.unwrap()).await;
    assert_eq!(limit, Limit::Output);
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_process_that_died_is_no_loss() {
    let place = support::local();
    let sandbox = create(&place).await;
    hold(&sandbox, "p").await;
    // What is held in this sandbox, seen from the host: the stub, and the wrapper around it, which says the same of itself.
    let held = || -> Vec<PathBuf> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let cmdline = |process: &Path| std::fs::read(process.join("cmdline")).unwrap_or_default();
        let processes = processes.filter(|process| cmdline(process).ends_with(b"harvest-runner\0hold\0"));
        processes.filter(|process| belongs(process, sandbox.id().as_str())).collect()
    };
    let is_stub =
        |process: &Path| std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe.ends_with("harvest-runner"));
    let stub = loop {
        if let Some(stub) = held().into_iter().find(|process| is_stub(process)) {
            break stub;
        }
        tokio::task::yield_now().await;
    };
    std::process::Command::new("kill").arg("-9").arg(stub.file_name().unwrap()).status().unwrap();
    while !held().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(run(&sandbox, "p", "echo alive").await.text(), "alive");
    // Nor is one that is never asked for.
    hold(&sandbox, "never").await;
    place.provider.destroy(sandbox.id()).await.unwrap();
    assert_eq!(place.traces(sandbox.id()), Vec::<String>::new());
}

/// Whether one of the ancestors of a process names the sandbox in its command line.
fn belongs(process: &Path, id: &str) -> bool {
    let mut current = process.to_owned();
    while let Ok(status) = std::fs::read_to_string(current.join("status")) {
        if String::from_utf8_lossy(&std::fs::read(current.join("cmdline")).unwrap_or_default()).contains(id) {
            return true;
        }
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned();
        current = Path::new("/proc").join(parent);
    }
    false
}

async fn input_comes_later(place: Place) {
    let sandbox = create(&place).await;
    hold(&sandbox, "held").await;
    for id in ["held", "cold"] {
        let spec =
            ProcessSpec { keep_stdin: true, stdin: "first\n".to_owned(), ..shell(id, "echo ready; cat; echo end") };
        let mut process = sandbox.start(spec).await.unwrap();
        for expected in ["ready", "first"] {
            assert!(matches!(next(&mut process).await, Output::Line { line, .. } if line == expected.as_bytes()));
        }
        process.input("second\n", false).await.unwrap();
        assert!(matches!(next(&mut process).await, Output::Line { line, .. } if line == b"second"));
        process.input("third", true).await.unwrap();
        assert_eq!(finish(&mut process).await.stdout, ["thirdend"]);
        let error = process.input("too late", false).await.unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    }
    // More than a pipe holds, given all at once to one that reads late.
    let spec = ProcessSpec { keep_stdin: true, ..shell("large", "sleep 0.2; wc -c") };
    let mut process = sandbox.start(spec).await.unwrap();
    process.input("x".repeat(3_000_000), true).await.unwrap();
    assert_eq!(finish(&mut process).await.text().trim(), "3000000");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_comes_later_in_a_sandbox() {
    input_comes_later(support::local()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_comes_later_without_one() {
    input_comes_later(support::none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_holds_up_only_who_writes() {
    let place = support::local();
    let sandbox = create(&place).await;
    let deaf = ProcessSpec { keep_stdin: true, ..shell("deaf", "echo ready; exec sleep 1000") };
    let mut deaf = sandbox.start(deaf).await.unwrap();
    assert!(matches!(next(&mut deaf).await, Output::Line { .. }));
    {
        let giving = deaf.input("x".repeat(1_000_000), false);
        tokio::pin!(giving);
        // The sandbox serves others while it waits.
        let other = run(&sandbox, "other", "echo served");
        tokio::select! {
            given = &mut giving => panic!("nobody reads it: {given:?}"),
            outcome = other => assert_eq!(outcome.text(), "served"),
        }
    }
    deaf.signal(Signal::Kill).await.unwrap();
    assert_eq!(finish(&mut deaf).await.exit.unwrap().signal, Some(9));
    let mut plain = sandbox.start(shell("plain", "echo ready; exec sleep 1000")).await.unwrap();
    assert!(plain.input("x", false).await.unwrap_err().to_string().contains("closed when it was started"));
    place.provider.destroy(sandbox.id()).await.unwrap();
    // Closed by the process; a wrapper around it would have kept it open.
    let place = support::none();
    let sandbox = create(&place).await;
    let shut = ProcessSpec { keep_stdin: true, ..shell("shut", "exec <&-; echo ready; exec sleep 1000") };
    let mut shut = sandbox.start(shut).await.unwrap();
    assert!(matches!(next(&mut shut).await, Output::Line { .. }));
    assert!(shut.input("x", false).await.unwrap_err().to_string().contains("closed its input"));
    place.provider.destroy(sandbox.id()).await.unwrap();
}

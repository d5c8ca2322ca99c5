//! Limits that an agent goes beyond in less simple ways than the suite for all providers tries.

use std::time::{Duration, Instant};

use harvest_sandbox::{Limit, Limits, Output, Sandbox, Spec, Strength};

use crate::support::{self, Place, exceed, finish, next, python, run, shell};

const MIB: u64 = 1 << 20;

async fn limited(limits: Limits) -> (Place, Sandbox) {
    let place = support::local();
    let sandbox = place.provider.create(Spec { limits, ..place.spec() }).await.unwrap();
    (place, sandbox)
}

async fn gone(place: &Place, sandbox: &Sandbox) {
    place.provider.destroy(sandbox.id()).await.unwrap();
    assert_eq!(place.traces(sandbox.id()), [""; 0]);
}

#[tokio::test]
async fn a_child_that_takes_all_memory_ends_the_process_that_went_on_without_it() {
    let (place, sandbox) = limited(Limits { memory_bytes: 200 * MIB, ..Limits::default() }).await;
    let script = "python3 -c 'held = []\nwhile True: held.append(bytearray(8 << 20))' & sleep 60";
    let (limit, message, _) = exceed(&mut sandbox.start(shell("p", script)).await.unwrap()).await;
    assert_eq!(limit, Limit::Memory, "{message}");
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn a_daemon_that_takes_all_memory_is_found_too() {
    let (place, sandbox) = limited(Limits { memory_bytes: 200 * MIB, ..Limits::default() }).await;
    let script = "setsid setsid python3 -c 'import os\nif os.fork(): os._exit(0)\nheld = []\nwhile True: held.append(bytearray(8 << 20))'; sleep 60";
    let (limit, message, _) = exceed(&mut sandbox.start(shell("p", script)).await.unwrap()).await;
    assert_eq!(limit, Limit::Memory, "{message}");
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn files_in_memory_are_memory() {
    let (place, sandbox) = limited(Limits { memory_bytes: 200 * MIB, ..Limits::default() }).await;
    // No more than half of it fits into one of them; all three together go beyond.
    // Whether the kernel kills `head`, or the runner is faster and ends everything, is not the question.
    let script = "exec 2>/dev/null; for d in /tmp /var/tmp /dev/shm; do head -c 95000000 /dev/zero > $d/big; \
                  [ $? = 1 ] && echo full; done; sleep 60";
    let (limit, message, printed) = exceed(&mut sandbox.start(shell("p", script)).await.unwrap()).await;
    assert_eq!((limit, printed), (Limit::Memory, 0), "{message}");
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn only_the_process_that_took_the_memory_is_ended() {
    let (place, sandbox) = limited(Limits { memory_bytes: 300 * MIB, ..Limits::default() }).await;
    let mut other =
        sandbox.start(shell("other", "echo ready; while ! [ -e go ]; do sleep 0.02; done; echo went")).await.unwrap();
    assert!(matches!(next(&mut other).await, Output::Line { .. }));
    let script = "held = []\nwhile True: held.append(bytearray(8 << 20))";
    let (limit, ..) = exceed(&mut sandbox.start(python("p", script)).await.unwrap()).await;
    assert_eq!(limit, Limit::Memory);
    run(&sandbox, "go", "touch go").await;
    assert_eq!(finish(&mut other).await.text(), "went");
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn one_huge_file_and_a_file_without_a_name_are_disk() {
    let (place, sandbox) = limited(Limits { disk_bytes: 64 * MIB, output_bytes: 64 * MIB, ..Limits::default() }).await;
    let (limit, message, _) =
        exceed(&mut sandbox.start(shell("huge", "exec head -c 1000000000 /dev/zero > big")).await.unwrap()).await;
    assert_eq!(limit, Limit::Disk, "{message}");
    run(&sandbox, "clear", "rm -f big").await;
    gone(&place, &sandbox).await;

    let (place, sandbox) = limited(Limits { disk_bytes: 40 * MIB, ..Limits::default() }).await;
    let nameless = "import os, time\n\
                    for i in range(10):\n\
                    \x20   f = os.open(f'n{i}', os.O_CREAT | os.O_WRONLY); os.unlink(f'n{i}'); os.write(f, b'x' * (10 << 20))\n\
                    time.sleep(60)";
    let (limit, message, _) = exceed(&mut sandbox.start(python("nameless", nameless)).await.unwrap()).await;
    assert_eq!(limit, Limit::Disk, "{message}");
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn what_is_below_the_layer_does_not_count_as_written() {
    let place = support::local();
    place.workspace();
    let below = place.folder.path().join("snapshot/below");
    std::fs::write(&below, vec![1; 60 << 20]).unwrap();
    let limits = Limits { disk_bytes: 40 * MIB, ..Limits::default() };
    let sandbox = place.provider.create(Spec { limits, ..place.spec() }).await.unwrap();
    let outcome = run(&sandbox, "p", "rm below; head -c 20000000 /dev/zero > own; sleep 1.5; echo fine").await;
    assert_eq!(outcome.text(), "fine");
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn half_a_core_is_half_a_core() {
    let (place, sandbox) = limited(Limits { cpu_millis: Some(500), ..Limits::default() }).await;
    let script =
        "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())";
    let spinning: Vec<_> = ["a", "b"].into_iter().map(|id| python(id, script)).collect();
    let mut processes = Vec::new();
    for spec in spinning {
        processes.push(sandbox.start(spec).await.unwrap());
    }
    let mut used = 0.0;
    for process in &mut processes {
        used += finish(process).await.text().parse::<f64>().unwrap();
    }
    match place.provider.capabilities().limits.cpu {
        // Of two seconds, with some slack for the first period.
        Strength::Hard => assert!(used < 1.4, "{used}"),
        // A whole core, but not two.
        _ => assert!(used < 2.3, "{used}"),
    }
    gone(&place, &sandbox).await;
}

#[tokio::test]
async fn a_group_is_removed_after_a_crash_of_the_sandbox_too() {
    let (place, sandbox) = limited(Limits { cpu_millis: Some(1000), ..Limits::default() }).await;
    let hard = place.provider.capabilities().limits.memory == Strength::Hard;
    assert_eq!(!support::groups(place.folder.path()).is_empty(), hard);
    (place.crash)(place.folder.path(), sandbox.id());
    (place.again)(place.folder.path()).destroy(sandbox.id()).await.unwrap();
    assert_eq!(place.traces(sandbox.id()), [""; 0]);
}

/// Ten gigabytes take a while: `cargo nextest run -p harvest-sandbox --run-ignored only ten_gigabytes`.
#[tokio::test]
#[ignore = "takes a minute and a gigabyte of disk"]
async fn ten_gigabytes_of_output_are_ended_at_the_limit() {
    let (place, sandbox) = limited(Limits::default()).await;
    let began = Instant::now();
    let mut process =
        sandbox.start(shell("p", "head -c 10000000000 /dev/zero | tr '\\0' x | fold -w 1000")).await.unwrap();
    let (mut printed, mut last) = (0, began);
    let limit = loop {
        match next(&mut process).await {
            Output::Line { line, offset, .. } => {
                printed += line.len() as u64 + 1;
                if last.elapsed() > Duration::from_millis(100) {
                    last = Instant::now();
                    process.acknowledge(offset).await.unwrap();
                }
            }
            Output::Failed { limit, .. } => break limit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(limit, Some(Limit::Output));
    assert!(printed <= Limits::default().output_bytes && printed > 1_000_000_000, "{printed}");
    assert_eq!(run(&sandbox, "after", "echo alive").await.text(), "alive");
    gone(&place, &sandbox).await;
}

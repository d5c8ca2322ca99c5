//! The local sandbox: from asking for one to the first instruction of what runs in it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail, ensure};
use harvest_sandbox::{Limits, Output, ProcessSpec, Provider, Sandbox, Spec, Workspace, local};

use super::place::{self, Place};
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const TIMES_BARE: f64 = 3.0;
/// Before a sandbox that is measured: people ask for one, not for one right after the other. See [`burst`].
const PAUSE: Duration = Duration::from_millis(100);
/// From asking a sandbox of the pool for a process to that process' first instruction.
const FROM_THE_POOL: Duration = Duration::from_millis(2);
/// What the runner of a sandbox that waits may take when there are many, in KiB: 5 MB.
const RUNNER_KIB: u64 = 4882;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let provider = place.sandboxes("sandbox")?;
    ensure!(provider.capabilities().overlay, "overlays do not work here, and the bound includes one");
    let lower = place.folder("lower")?;
    let (mut ours, mut created, mut theirs, mut pooled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The first of each only warms up.
    for _ in 0..=size.pick(100, 10) {
        theirs.push(bare()?);
        let (first, outer) = first_instruction(&provider, Workspace::Overlay { lower: lower.clone() }).await?;
        ours.push(first);
        created.push(outer);
    }
    for _ in 0..=size.pick(100, 10) {
        pooled.push(from_the_pool(&provider, Workspace::Overlay { lower: lower.clone() }).await?);
    }
    let together = burst(&provider, &lower, size).await?;
    let row = Row {
        name: "sandbox, create to first instruction",
        ours: Amount::Time(median(&ours[1..])),
        theirs: Some(Amount::Time(median(&theirs[1..]))),
        against: "bwrap --unshare-all --ro-bind / / true",
        bound: Bound::Times(TIMES_BARE),
    };
    let pooled = Row {
        name: "sandbox, from the pool to first instruction",
        ours: Amount::Time(median(&pooled[1..])),
        theirs: Some(Amount::Time(median(&theirs[1..]))),
        against: "bwrap --unshare-all --ro-bind / / true",
        bound: Bound::Within(FROM_THE_POOL),
    };
    let created = Amount::Time(median(&created[1..]));
    let note = format!(
        "sandbox: {created} until its runner reports, the rest for the process nested in it; {} each when there is no pause \
         between them",
        Amount::Time(together)
    );
    let (alive, each) = runners(&provider, &lower, size).await?;
    let memory = Row {
        name: "sandbox, KiB of memory per runner",
        ours: Amount::Count(each),
        theirs: None,
        against: "",
        bound: Bound::AtMost(RUNNER_KIB),
    };
    let counted =
        format!("sandbox: memory is shared pages shared out, of the runner and bubblewrap, with {alive} alive");
    Ok(Findings { rows: vec![row, pooled, memory], notes: vec![note, counted] })
}

/// How long it takes to the first instruction when one sandbox is asked for right after the other, so that no launcher has
/// been got ready in between.
async fn burst(provider: &local::Local, lower: &Path, size: Size) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..size.pick(50, 5) {
        times.push(make_and_ask(provider, Workspace::Overlay { lower: lower.to_owned() }).await?.0);
    }
    Ok(median(&times))
}

/// Makes many sandboxes and measures what keeps each of them: its runner and what is around it. Returns how many, and KiB.
async fn runners(provider: &local::Local, lower: &Path, size: Size) -> anyhow::Result<(usize, u64)> {
    let mut alive = Vec::new();
    for _ in 0..size.pick(200, 20) {
        let workspace = Workspace::Overlay { lower: lower.to_owned() };
        let spec = Spec { id: place::sandbox_id(), workspace, objects: None, limits: Limits::default() };
        alive.push(provider.create(spec).await?);
    }
    let mut total = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&cmdline);
        if alive.iter().any(|sandbox| cmdline.contains(sandbox.id().as_str())) {
            let rollup = std::fs::read_to_string(entry.path().join("smaps_rollup"))?;
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("no Pss in smaps_rollup")?;
            total += line.trim().trim_end_matches("kB").trim().parse::<u64>()?;
        }
    }
    for sandbox in &alive {
        provider.destroy(sandbox.id()).await?;
    }
    Ok((alive.len(), total / alive.len() as u64))
}

/// The same with a sandbox that is there, and a process held in it.
async fn from_the_pool(provider: &local::Local, workspace: Workspace) -> anyhow::Result<Duration> {
    let spec = Spec { id: place::sandbox_id(), workspace, objects: None, limits: Limits::default() };
    let sandbox = provider.create(spec).await?;
    sandbox.hold("date").await?;
    // Until it is held, and a little longer: spares wait for seconds at least.
    let argv = vec!["true".to_owned()];
    let mut after = sandbox.start(ProcessSpec { id: "after".to_owned(), argv, ..ProcessSpec::default() }).await?;
    while let Output::Line { .. } = after.next().await {}
    tokio::time::sleep(Duration::from_millis(20)).await;
    let told = tell_the_time(&sandbox).await?;
    provider.destroy(sandbox.id()).await?;
    Ok(told)
}

/// How long it takes until a process in the sandbox runs.
#[expect(clippy::disallowed_methods, reason = "compared with the time that a program in the sandbox tells")]
async fn tell_the_time(sandbox: &Sandbox) -> anyhow::Result<Duration> {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let argv = vec!["date".to_owned(), "+%s%N".to_owned()];
    let mut process = sandbox.start(ProcessSpec { id: "date".to_owned(), argv, ..ProcessSpec::default() }).await?;
    let told = match process.next().await {
        Output::Line { line, .. } => Duration::from_nanos(String::from_utf8(line)?.trim().parse()?),
        other => bail!("the sandbox did not tell the time: {other:?}"),
    };
    told.checked_sub(began).context("the clock was set back")
}

/// Makes a sandbox after a pause, has it tell the time, and removes it. Returns how long it took until then, and until it was
/// made.
pub async fn first_instruction(provider: &dyn Provider, workspace: Workspace) -> anyhow::Result<(Duration, Duration)> {
    tokio::time::sleep(PAUSE).await;
    make_and_ask(provider, workspace).await
}

async fn make_and_ask(provider: &dyn Provider, workspace: Workspace) -> anyhow::Result<(Duration, Duration)> {
    let began = Instant::now();
    let spec = Spec { id: place::sandbox_id(), workspace, objects: None, limits: Limits::default() };
    let sandbox = provider.create(spec).await?;
    let created = began.elapsed();
    let told = tell_the_time(&sandbox).await?;
    provider.destroy(sandbox.id()).await?;
    Ok((created + told, sandbox.start_time()))
}

#[expect(clippy::disallowed_methods, reason = "the bare program is what is measured")]
fn bare() -> anyhow::Result<Duration> {
    let began = Instant::now();
    let status = std::process::Command::new("bwrap")
        .args(["--unshare-all", "--ro-bind", "/", "/", "true"])
        .stdin(Stdio::null())
        .status()
        .context("bwrap cannot be started")?;
    let took = began.elapsed();
    ensure!(status.success(), "bare bwrap failed: {status}");
    Ok(took)
}

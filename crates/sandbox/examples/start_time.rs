//! How long a sandbox takes from `create` to the first instruction of a process in it, against one bare bubblewrap.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "an example")]

use std::time::{Duration, Instant};

use harvest_core::{Entropy, SandboxId};
use harvest_sandbox::{Binaries, Limits, Output, ProcessSpec, Provider, Spec, Workspace, local};

#[derive(Debug)]
struct Random;
impl Entropy for Random {
    fn bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
        bytes
    }
}

/// Between two sandboxes, as in life: some waits in the kernel are shared by those who come right after each other.
const PAUSE: Duration = Duration::from_millis(60);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let folder = tempfile::Builder::new().prefix("hv").tempdir().unwrap();
    let (state, runtime, lower) = (folder.path().join("state"), folder.path().join("run"), folder.path().join("lower"));
    std::fs::create_dir(&lower).unwrap();
    let binaries = Binaries::in_folder(harvest_sandboxed::write_to(&folder.path().join("bin")).unwrap());
    let began = Instant::now();
    let provider = local::Local::new(local::Options { state, runtime, binaries, tools: Vec::new() }).unwrap();
    println!("provider, with its probe       {:?}", began.elapsed());
    for fact in harvest_sandbox::report(Ok(&provider)) {
        println!("{:?} {}: {}", fact.state, fact.name, fact.detail);
    }
    let (mut bare, mut created, mut first, mut destroyed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..std::env::args().nth(1).map_or(40, |n| n.parse().unwrap()) {
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        let arguments = ["--unshare-all", "--ro-bind", "/", "/", "true"];
        let status = std::process::Command::new("bwrap").args(arguments).status();
        assert!(status.unwrap().success());
        bare.push(began.elapsed());
        tokio::time::sleep(PAUSE).await;

        let began = Instant::now();
        let id = SandboxId::generate(&Random);
        let workspace = Workspace::Overlay { lower: lower.clone() };
        let spec = Spec { id: id.clone(), workspace, objects: None, limits: Limits::default() };
        let sandbox = provider.create(spec).await.unwrap();
        created.push(began.elapsed());
        let argv = vec!["echo".to_owned(), "here".to_owned()];
        let spec = ProcessSpec { id: "p".to_owned(), argv, ..ProcessSpec::default() };
        let mut process = sandbox.start(spec).await.unwrap();
        assert!(matches!(process.next().await, Output::Line { .. }));
        first.push(began.elapsed());
        let began = Instant::now();
        provider.destroy(&id).await.unwrap();
        destroyed.push(began.elapsed());
    }
    let (bare, created, first, destroyed) = (median(bare), median(created), median(first), median(destroyed));
    println!("bare bubblewrap                {bare:?}");
    println!("create                         {created:?}");
    println!("create to first output         {first:?} ({:.1}×)", first.as_secs_f64() / bare.as_secs_f64());
    println!("destroy                        {destroyed:?}");
}

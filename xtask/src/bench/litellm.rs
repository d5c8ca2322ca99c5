//! The LiteLLM proxy, which many put where Harvest has its gateway: the same requests at a rate that it sustains.
//!
//! It is installed from PyPI with the settings of whoever runs this and kept for the next time. Where that cannot be done,
//! there is a note and no row.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Child;

use super::gateway::{self, Load, Quantiles};
use super::place::Place;
use super::programs::{installer, output, program};
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const VERSION: &str = "1.106.0";
/// Requests a second. It was seen to do 60.
const RATE: u32 = 30;
const CONNECTIONS: usize = 8;
const KEY: &str = "sk-bench";
const START: Duration = Duration::from_secs(120);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let installed = match install(place).await {
        Ok(installed) => installed,
        Err(error) => {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default();
            let note = format!("gateway: the LiteLLM proxy could not be installed and is not measured: {why}");
            return Ok(Findings { rows: Vec::new(), notes: vec![note] });
        }
    };
    let model = gateway::start_model(Duration::ZERO).await?;
    let proxy = Proxy::start(&installed, &place.folder("litellm")?, model).await?;
    let served = gateway::Served::in_memory(place, "beside-litellm", model).await?;

    let mut direct = Load::new("/v1/messages", RATE);
    let mut theirs = Load::new("/v1/messages", RATE).with_key(KEY);
    let mut ours = Load::new("/anthropic/v1/messages", RATE);
    for number in 0..CONNECTIONS {
        direct.add(TcpStream::connect(model).await?).await?;
        theirs.add(TcpStream::connect(proxy.address).await?).await?;
        ours.add(UnixStream::connect(served.socket(number)).await?).await?;
    }
    let (mut bare, mut through_ours, mut through_theirs) =
        (Quantiles::default(), Quantiles::default(), Quantiles::default());
    for round in 0..=size.pick(9, 3) {
        let times = [direct.run().await?, ours.run().await?, theirs.run().await?];
        if round > 0 {
            for (quantiles, times) in [&mut bare, &mut through_ours, &mut through_theirs].into_iter().zip(times) {
                quantiles.add(&times);
            }
        }
    }
    served.stop(&ours).await?;
    drop(proxy);
    let added = |through: &[Duration], bare: &[Duration]| Amount::Time(median(through).saturating_sub(median(bare)));
    let row = |name, ours: &[Duration], theirs: &[Duration], bare: &[Duration]| Row {
        name,
        ours: added(ours, bare),
        theirs: Some(added(theirs, bare)),
        against: "the LiteLLM proxy, the same requests",
        bound: Bound::Times(1.0),
    };
    let rows = vec![
        row("gateway beside LiteLLM, added, p50", &through_ours.p50, &through_theirs.p50, &bare.p50),
        row("gateway beside LiteLLM, added, p99", &through_ours.p99, &through_theirs.p99, &bare.p99),
    ];
    let note = format!(
        "LiteLLM {VERSION}, one worker, a key and no database: {RATE} requests/s over {CONNECTIONS} connections"
    );
    Ok(Findings { rows, notes: vec![note] })
}

/// The program, installed where it is kept for the next time.
async fn install(place: &Place) -> anyhow::Result<PathBuf> {
    output(program("python3").arg("--version")).await?;
    let folder = match std::env::var_os("HARVEST_TOOLS") {
        Some(tools) => Path::new(&tools).join(format!("litellm-{VERSION}")),
        None => place.folder("litellm-installed")?,
    };
    let (bin, complete) = (folder.join("bin"), folder.join("complete"));
    if !complete.exists() {
        output(program("python3").args(["-m", "venv"]).arg(&folder)).await?;
        let mut pip = installer(&bin.join("pip").display().to_string());
        pip.args(["install", "--quiet", "--disable-pip-version-check"]).arg(format!("litellm[proxy]=={VERSION}"));
        output(&mut pip).await?;
        std::fs::write(complete, "")?;
    }
    Ok(bin.join("litellm"))
}

/// A running proxy, ended with this.
struct Proxy {
    _process: Child,
    address: SocketAddr,
}

impl Proxy {
    async fn start(installed: &Path, folder: &Path, model: SocketAddr) -> anyhow::Result<Self> {
        // Free a moment ago; whoever takes it in between is noticed when nothing that answers is LiteLLM.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let settings = folder.join("config.yaml");
        std::fs::write(
            &settings,
            format!(
                "model_list:\n  - model_name: claude-sonnet-4-5\n    litellm_params:\n      \
                 model: anthropic/claude-sonnet-4-5\n      api_base: http://{model}\n      api_key: sk-real\n\
                 general_settings:\n  master_key: {KEY}\n"
            ),
        )?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = program(installed);
        command.args(["--host", "127.0.0.1", "--port"]).arg(port.to_string()).arg("--config").arg(&settings);
        command.env("HOME", folder).env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_TELEMETRY", "False");
        command.current_dir(folder).stdout(Stdio::null()).stderr(log);
        let mut process = command.spawn().context("LiteLLM cannot be started")?;
        let began = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            ensure!(process.try_wait()?.is_none(), "LiteLLM ended: {}", tail(&folder.join("log")));
            ensure!(began.elapsed() < START, "LiteLLM did not start: {}", tail(&folder.join("log")));
            // It has no way to tell that it is ready but to answer.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(Self { _process: process, address })
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
}

//! The API of a server in a process of its own, on loopback: reads, a journal that a thousand people follow, and how soon it
//! is there.
//!
//! Whoever asks needs the same cores as the server, so their share of the time is shown. What followers get was written by
//! another process, this one, as by an agent's worker beside the server.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use harvest_core::{EventBody, Timestamp};
use harvest_store::{Lease, Sqlite, Step, Store};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::place::{self, Place};
use super::programs::{build, output, program};
use super::statistics::{median, quantile};
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const TASKS: usize = 10_000;
const LEAST: f64 = 5_000.0;
const CONNECTIONS: usize = 32;
const READY: Duration = Duration::from_millis(200);
const FOLLOWERS: usize = 1_000;
/// Of these; they ask and never read.
const SLOW: usize = 10;
const EVERY: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_millis(10);
/// Begins each of them.
const EVENT: &[u8] = b"event: message.delta\n";
/// What a follower reads at once.
const BUFFER: usize = 2 * 1024;
/// Memory is flat when it grows by no more than this.
const FLAT: f64 = 1.10;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let binary = build(&["-p", "harvest"]).await?;
    let data = place.folder("api")?.join("data");
    let mut ready = Vec::new();
    for _ in 0..size.pick(11, 3) {
        let server = Server::start(&binary, &data).await?;
        ready.push(server.ready);
    }
    let on_disk = Site::at(&binary, &data).await?;
    for _ in 0..TASKS / 100 {
        on_disk.store.create_tasks((0..100).map(|_| place::new_task()).collect::<anyhow::Result<_>>()?).await?;
    }
    let seconds = Duration::from_secs(size.pick(10, 2));
    let session = format!("/api/sessions/{}", on_disk.lease.session);
    let session = on_disk.server.load(&on_disk.token, &session, seconds).await?;
    let page = on_disk.server.load(&on_disk.token, "/api/tasks?limit=50", seconds).await?;
    let events = size.pick(200, 50);
    let live = on_disk.follow(events).await?;
    let sync = syncs(&data, size.pick(50, 10)).await?;
    drop(on_disk);
    let memory = tempfile::tempdir_in("/dev/shm")?;
    let in_memory = Site::at(&binary, &memory.path().join("data")).await?.follow(events).await?;
    let rows = vec![
        Row {
            name: "server, from exec to ready",
            ours: Amount::Time(median(&ready)),
            theirs: None,
            against: "",
            bound: Bound::Within(READY),
        },
        Row {
            name: "API, GET of a session",
            ours: Amount::PerSecond(session.rate),
            theirs: None,
            against: "",
            bound: Bound::AtLeast(LEAST),
        },
        Row {
            name: "API, GET of a session, p99",
            ours: Amount::Time(session.p99),
            theirs: None,
            against: "",
            bound: Bound::Open,
        },
        Row {
            name: "API, page of 50 out of 10,000 tasks",
            ours: Amount::PerSecond(page.rate),
            theirs: None,
            against: "",
            bound: Bound::AtLeast(LEAST),
        },
        Row {
            name: "API, page of 50 out of 10,000 tasks, p99",
            ours: Amount::Time(page.p99),
            theirs: None,
            against: "",
            bound: Bound::Open,
        },
        Row {
            name: "API, event to 1,000 followers, p99",
            ours: Amount::Time(in_memory.p99),
            theirs: Some(Amount::Time(in_memory.p50)),
            against: "the median of the same; in memory",
            bound: Bound::Within(DELAY),
        },
        Row {
            name: "API, event to 1,000 followers, p99, on disk",
            ours: Amount::Time(live.p99),
            theirs: Some(Amount::Time(quantile(&sync, 0.99))),
            against: "one sync of this disk, p99",
            bound: Bound::Open,
        },
        Row {
            name: "API, memory with 1,000 followers",
            ours: Amount::Bytes(live.after),
            theirs: Some(Amount::Bytes(live.before)),
            against: "the same server a third of the way",
            bound: Bound::Times(FLAT),
        },
    ];
    let notes = vec![
        format!(
            "API: {CONNECTIONS} connections that are kept; of the time that all cores had, whoever asks took {:.0} % for sessions and {:.0} % for pages, \
             the server {:.0} % and {:.0} %",
            session.own * 100.0,
            page.own * 100.0,
            session.server * 100.0,
            page.server * 100.0
        ),
        format!(
            "followers: {FOLLOWERS} of one session, {SLOW} of which never read; an event every {} ms, from before it is written \
             by another process until the last byte is read; the followers took {:.0} % of the cores, the server {:.0} %",
            EVERY.as_millis(),
            in_memory.own * 100.0,
            in_memory.server * 100.0
        ),
    ];
    Ok(Findings { rows, notes })
}

/// A server and what there is to look at.
struct Site {
    server: Server,
    store: Sqlite,
    lease: Lease,
    token: String,
}

struct Server {
    process: Child,
    address: String,
    ready: Duration,
}

struct Load {
    rate: f64,
    p99: Duration,
    own: f64,
    server: f64,
}

struct Live {
    p50: Duration,
    p99: Duration,
    before: u64,
    after: u64,
    own: f64,
    server: f64,
}

/// What two processes took of all cores since a moment.
struct Shares {
    since: Instant,
    own: Duration,
    server: Duration,
}

impl Site {
    async fn at(binary: &Path, data: &Path) -> anyhow::Result<Self> {
        let server = Server::start(binary, data).await?;
        let store = Sqlite::open(&data.join("harvest.db"))?;
        let lease = place::claimed_session(&store).await?;
        let mut making = program(binary);
        making.arg("--data-dir").arg(data).args(["token", "create", "--role", "viewer", "--json"]);
        let token: Value = serde_json::from_str(&output(&mut making).await?)?;
        let token = token["token"].as_str().context("no token")?.to_owned();
        Ok(Self { server, store, lease, token })
    }

    /// From an event that is about to be written to everyone who has read it.
    async fn follow(&self, events: usize) -> anyhow::Result<Live> {
        let Self { server, store, lease, token } = self;
        let start = Instant::now();
        let last = store.events(&lease.session, 0, 1000).await?.last().map_or(0, |event| event.seq);
        let path = format!("/api/sessions/{}/events?after={last}", lease.session);
        let (mut slow, mut streams) = (Vec::new(), Vec::new());
        for number in 0..FOLLOWERS {
            let mut stream = TcpStream::connect(&server.address).await?;
            let asked = head(&server.address, token, &path, "accept: text/event-stream\r\n");
            stream.write_all(asked.as_bytes()).await?;
            if number < SLOW {
                slow.push(stream);
            } else {
                streams.push(stream.into_std()?);
            }
        }
        let all_there = Arc::new(Barrier::new(streams.len() + 1));
        // One thread of their own: the less they take of the cores, the more of what is measured is the server's.
        let reading = tokio::task::spawn_blocking({
            let all_there = all_there.clone();
            move || read_all(streams, &all_there, start, events)
        });
        let mut written = Vec::with_capacity(events);
        all_there.wait().await;
        let shares = server.shares()?;
        let mut before = 0;
        let mut tick = tokio::time::interval(EVERY);
        for number in 0..events {
            tick.tick().await;
            if number == events / 3 {
                before = server.resident()?;
            }
            let text = "and then I look at it ".repeat(4);
            written.push(start.elapsed());
            store.append(lease, Step::new(Timestamp::now(), vec![EventBody::MessageDelta { text }])).await?;
        }
        let read = tokio::time::timeout(Duration::from_secs(30), reading).await;
        let read = read.context("a follower did not get everything")???;
        let (own, servers) = shares.now(server)?;
        let after = server.resident()?;
        drop(slow);
        let late = |one: Vec<Duration>| -> Vec<Duration> {
            one.into_iter().zip(&written).map(|(read, written)| read.saturating_sub(*written)).collect()
        };
        let samples: Vec<Duration> = read.into_iter().flat_map(late).collect();
        Ok(Live { p50: median(&samples), p99: quantile(&samples, 0.99), before, after, own, server: servers })
    }
}

impl Server {
    async fn start(binary: &Path, data: &Path) -> anyhow::Result<Self> {
        let mut command = program(binary);
        command.arg("--data-dir").arg(data).args(["serve", "--listen", "127.0.0.1:0", "--agents", "0", "--json"]);
        // Nobody is to be held back here.
        let settings: PathBuf = data.with_extension("toml");
        std::fs::write(&settings, "[rate]\nreads = 100000000\n")?;
        command.arg("--config").arg(&settings).stdout(Stdio::piped());
        let begun = Instant::now();
        let mut process = command.spawn()?;
        let mut said = BufReader::new(process.stdout.take().context("no standard output")?);
        let mut line = String::new();
        tokio::time::timeout(Duration::from_secs(30), said.read_line(&mut line))
            .await
            .context("it does not start")??;
        let listening: Value = serde_json::from_str(&line).with_context(|| format!("the server said {line:?}"))?;
        let address = listening["address"].as_str().context("no address")?.to_owned();
        let mut asking = Asking::connect(&address, "", "/readyz").await?;
        asking.ask().await?;
        Ok(Self { process, address, ready: begun.elapsed() })
    }

    /// As many requests as it answers in this time.
    async fn load(&self, token: &str, path: &str, time: Duration) -> anyhow::Result<Load> {
        // The first second only warms up.
        self.ask_all(token, path, Duration::from_secs(1)).await?;
        let shares = self.shares()?;
        let begun = Instant::now();
        let samples = self.ask_all(token, path, time).await?;
        let took = begun.elapsed();
        let (own, server) = shares.now(self)?;
        Ok(Load { rate: samples.len() as f64 / took.as_secs_f64(), p99: quantile(&samples, 0.99), own, server })
    }

    async fn ask_all(&self, token: &str, path: &str, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut asking = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut one = Asking::connect(&self.address, token, path).await?;
            asking.push(tokio::spawn(async move {
                let mut samples = Vec::new();
                let begun = Instant::now();
                while begun.elapsed() < time {
                    let asked = Instant::now();
                    one.ask().await?;
                    samples.push(asked.elapsed());
                }
                Ok::<_, anyhow::Error>(samples)
            }));
        }
        let mut samples = Vec::new();
        for one in asking {
            samples.extend(one.await??);
        }
        Ok(samples)
    }

    fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    fn id(&self) -> anyhow::Result<u32> {
        self.process.id().context("the server has ended")
    }

    fn shares(&self) -> anyhow::Result<Shares> {
        Ok(Shares { since: Instant::now(), own: worked("self")?, server: worked(&self.id()?.to_string())? })
    }
}

impl Shares {
    fn now(&self, server: &Server) -> anyhow::Result<(f64, f64)> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let all = self.since.elapsed().as_secs_f64() * cores;
        let own = worked("self")?.saturating_sub(self.own).as_secs_f64() / all;
        let theirs = worked(&server.id()?.to_string())?.saturating_sub(self.server).as_secs_f64() / all;
        Ok((own, theirs))
    }
}

/// How long the disk takes to keep a page of a log, at the pace at which events are written.
async fn syncs(data: &Path, count: usize) -> anyhow::Result<Vec<Duration>> {
    let file = std::fs::File::create(data.join("sync"))?;
    file.set_len((count * 4096) as u64)?;
    file.sync_all()?;
    let mut taken = Vec::with_capacity(count);
    for number in 0..count {
        tokio::time::sleep(EVERY).await;
        let begun = Instant::now();
        file.write_at(&[7; 4096], (number * 4096) as u64)?;
        file.sync_data()?;
        taken.push(begun.elapsed());
    }
    Ok(taken)
}

/// What a process has had of the processors.
fn worked(process: &str) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Its name is in brackets and may be anything.
    let fields: Vec<&str> = stat.rsplit_once(')').context("no name")?.1.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// When each of them had read each event.
fn read_all(
    streams: Vec<std::net::TcpStream>,
    all_there: &Arc<Barrier>,
    start: Instant,
    events: usize,
) -> anyhow::Result<Vec<Vec<Duration>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut reading = JoinSet::new();
        for stream in streams {
            let mut stream = TcpStream::from_std(stream)?;
            let all_there = all_there.clone();
            reading.spawn(async move {
                let mut buffer = vec![0; BUFFER];
                let mut greeting = Vec::new();
                while !greeting.windows(6).any(|six| six == b"retry:") {
                    let count = stream.read(&mut buffer).await?;
                    ensure!(count > 0, "a stream ended: {}", String::from_utf8_lossy(&greeting));
                    greeting.extend_from_slice(&buffer[..count]);
                }
                all_there.wait().await;
                // Only counted while it runs: looking closer would take the time that is measured.
                let mut read = Vec::with_capacity(events);
                while read.len() < events {
                    let count = stream.read(&mut buffer).await?;
                    let now = start.elapsed();
                    ensure!(count > 0, "a stream ended before everything was told");
                    let told = buffer[..count].windows(EVENT.len()).filter(|some| *some == EVENT).count();
                    read.extend(std::iter::repeat_n(now, told));
                }
                Ok(read)
            });
        }
        let mut all = Vec::new();
        while let Some(read) = reading.join_next().await {
            all.push(read??);
        }
        Ok(all)
    })
}

/// One connection that asks the same again and again.
struct Asking {
    stream: TcpStream,
    request: String,
    buffer: Vec<u8>,
}

impl Asking {
    async fn connect(address: &str, token: &str, path: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: head(address, token, path, ""), buffer: vec![0; 256 * 1024] })
    }

    async fn ask(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(self.request.as_bytes()).await?;
        let (mut have, mut need) = (0, usize::MAX);
        while have < need {
            let count = self.stream.read(&mut self.buffer[have..]).await?;
            ensure!(count > 0, "the server closed a connection");
            have += count;
            if need == usize::MAX
                && let Some(end) = self.buffer[..have].windows(4).position(|four| four == b"\r\n\r\n")
            {
                let head = std::str::from_utf8(&self.buffer[..end])?;
                ensure!(head.starts_with("HTTP/1.1 200"), "the server answered {head}");
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
                need = end + 4 + length.parse::<usize>()?;
            }
        }
        Ok(())
    }
}

fn head(address: &str, token: &str, path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{more}\r\n")
}

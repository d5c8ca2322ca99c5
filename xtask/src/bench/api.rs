//! The API of a server in a process of its own, on loopback: reads, a journal that a thousand people follow, and how soon it
//! is there.
//!
//! Whoever asks needs the same cores as the server, so their share of the time is shown. What followers get was written by
//! another process, this one, as by an agent's worker beside the server.

use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use harvest_core::{EventBody, Timestamp};
use harvest_store::{Lease, Sqlite, Step, Store};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::sync::oneshot;

use super::place::{self, Place};
use super::programs::{build, program};
use super::rights::{self, Token};
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
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What a follower reads at once.
const BUFFER: usize = 2 * 1024;
/// Memory is flat when it grows by no more than this.
const FLAT: f64 = 1.10;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let binary = build(&["-p", "harvest"]).await?;
    let data = place.folder("api")?.join("data");
    let mut ready = Vec::new();
    for _ in 0..size.pick(11, 3) {
        let server = Server::start(&binary, &data, &[]).await?;
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
    let rights = rights::measure(&binary, place, size).await?;
    let mut rows = vec![
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
    rows.extend(rights);
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
             by another process until the kernel has it for a follower; the followers took {:.0} % of the cores, the server {:.0} %",
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

pub struct Server {
    process: Child,
    pub address: String,
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
        let server = Server::start(binary, data, &[]).await?;
        let store = Sqlite::open(&data.join("harvest.db"))?;
        let lease = place::claimed_session(&store).await?;
        let Token { secret: token, .. } = Token::create(binary, data, &[], &["--role", "viewer"]).await?;
        Ok(Self { server, store, lease, token })
    }

    /// From an event that is about to be written to everyone who has read it.
    async fn follow(&self, events: usize) -> anyhow::Result<Live> {
        let Self { server, store, lease, token } = self;
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
        let (all_there, ready) = oneshot::channel();
        let reading = tokio::task::spawn_blocking(move || read_all(&streams, all_there, events));
        let mut written = Vec::with_capacity(events);
        ready.await.context("not everyone was greeted")?;
        let shares = server.shares()?;
        let mut before = 0;
        let mut tick = tokio::time::interval(EVERY);
        for number in 0..events {
            tick.tick().await;
            if number == events / 3 {
                before = server.resident()?;
            }
            let text = "and then I look at it ".repeat(4);
            written.push(now()?);
            store.append(lease, Step::new(Timestamp::now(), vec![EventBody::MessageDelta { text }])).await?;
        }
        let read = tokio::time::timeout(PATIENCE * 2, reading).await;
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
    pub async fn start(binary: &Path, data: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let mut command = program(binary);
        command.arg("--data-dir").arg(data).args(["serve", "--listen", "127.0.0.1:0", "--agents", "0", "--json"]);
        command.args(options);
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

/// When each event had reached each of them, as the kernel says: it notes the moment, so that nobody has to be awake for it and
/// take the time that is measured.
fn read_all(
    streams: &[std::net::TcpStream],
    all_there: oneshot::Sender<()>,
    events: usize,
) -> anyhow::Result<Vec<Vec<Duration>>> {
    for stream in streams {
        setsockopt(stream, sockopt::ReceiveTimestampns, &true)?;
    }
    let mut greeted = vec![false; streams.len()];
    let mut all = vec![Vec::with_capacity(events); streams.len()];
    let mut all_there = Some(all_there);
    let mut buffer = vec![0; BUFFER];
    let begun = Instant::now();
    while all.iter().any(|read| read.len() < events) {
        ensure!(begun.elapsed() < EVERY * events as u32 + PATIENCE, "a follower did not get everything");
        std::thread::sleep(EVERY * 2 / 5);
        for ((stream, read), greeted) in streams.iter().zip(&mut all).zip(&mut greeted) {
            while let Some((bytes, at)) = arrived(stream, &mut buffer)? {
                *greeted |= bytes.windows(6).any(|six| six == b"retry:");
                let told = bytes.windows(EVENT.len()).filter(|some| *some == EVENT).count();
                read.extend(std::iter::repeat_n(at, told));
            }
        }
        if greeted.iter().all(|greeted| *greeted)
            && let Some(all_there) = all_there.take()
        {
            let _ = all_there.send(());
        }
    }
    Ok(all)
}

/// What has come, and when; `None` when there is nothing.
fn arrived<'a>(stream: &std::net::TcpStream, buffer: &'a mut [u8]) -> anyhow::Result<Option<(&'a [u8], Duration)>> {
    let mut noted = cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let (count, at) = match recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut noted), flags) {
        Err(Errno::EAGAIN) => return Ok(None),
        received => {
            let received = received?;
            let at = received.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
                _ => None,
            });
            (received.bytes, at)
        }
    };
    ensure!(count > 0, "a stream ended before everything was told");
    Ok(Some((&buffer[..count], at.map_or_else(now, Ok)?)))
}

/// By the clock that the kernel notes with.
#[expect(clippy::disallowed_methods, reason = "no other clock can be compared with what the kernel noted")]
fn now() -> anyhow::Result<Duration> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?)
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

//! A git process that serves one request: the body goes in, the answer comes out, and it never outlives the request.

use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Access;
use super::inflate::Decoder;
use super::pack::{Pack, Refused};
use super::pkt::Boundaries;
use super::push::Push;
use crate::answer::{self, Body, BoxError, Cut};

/// How long one request may take altogether.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
const READ_SIZE: usize = 256 << 10;
/// Of the pipe that the answer comes by: git need not wait for us after every packet. As large as anyone may make it.
const PIPE_SIZE: usize = 1 << 20;
const MAX_STDERR: u64 = 8 << 10;

/// Without its input, git gives a push up and removes what it has received. For so long it may take to.
const GRACE: Duration = Duration::from_secs(3);
/// Bytes of a pack that are looked at before others have their turn.
const LOOK: usize = 16 << 10;

/// What goes into the process.
#[derive(Default)]
pub(super) struct Input {
    /// Comes before the body.
    pub(super) start: Bytes,
    /// What has been read of the body already.
    pub(super) first: Bytes,
    pub(super) rest: Option<(Decoder, Incoming)>,
    /// The body's bytes beyond which the request is given up.
    pub(super) limit: u64,
    /// Of a push, whose body is a pack.
    pub(super) push: Option<(Push, Pack)>,
}

/// A running process. Dropping it ends the process and whatever else is in its process group.
pub(super) struct Running {
    /// `None` once it is dropped.
    process: Option<Process>,
    /// Feeds stdin and listens to stderr; ends with this.
    helpers: JoinSet<()>,
    deadline: Instant,
    push: Option<Verdict>,
    slot: Option<OwnedSemaphorePermit>,
}

struct Process {
    child: Child,
    stdout: ChildStdout,
}

/// What becomes of a push: git's answer, or why its pack was not passed on.
struct Verdict {
    push: Push,
    refused: Arc<OnceLock<Refused>>,
    /// Of the answer so far.
    boundaries: Boundaries,
    told: bool,
}

impl Running {
    pub(super) fn start(
        access: &Access,
        args: &[&str],
        protocol: Option<&str>,
        input: Input,
        slot: OwnedSemaphorePermit,
    ) -> std::io::Result<Self> {
        let mut command = access.command.git(args, protocol);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("git was started without pipes"));
        };
        // A smaller one works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_SIZE);
        let Input { start, first, rest, limit, push } = input;
        let refused = Arc::new(OnceLock::new());
        let (push, pack) = push.unzip();
        let push =
            push.map(|push| Verdict { push, refused: refused.clone(), boundaries: Boundaries::default(), told: false });
        let mut helpers = JoinSet::new();
        helpers.spawn(async move {
            let feed = Feed { stdin: Some(stdin), pack, refused, fed: 0, limit };
            if let Err(error) = feed.all(start, first, rest).await {
                tracing::debug!(error, "a git request's body was not fed to its end");
            }
        });
        helpers.spawn(listen(stderr));
        let deadline = Instant::now() + TIMEOUT;
        Ok(Self { process: Some(Process { child, stdout }), helpers, deadline, push, slot: Some(slot) })
    }

    /// Waits for the first bytes of the answer, so that a process that fails at once can be answered with a status.
    pub(super) async fn answer(mut self, before: Bytes) -> Option<Body> {
        let first = match self.read().await {
            Some(first) => first.ok()?,
            None => return Some(answer::full(before)),
        };
        let first = Bytes::from([before, first].concat());
        let frames = stream::unfold((Some(first), self), |(first, mut running)| async move {
            let chunk = match first {
                Some(first) => Ok(first),
                None => running.read().await?,
            };
            Some((chunk.map(Frame::data), (None, running)))
        });
        Some(BodyExt::boxed_unsync(StreamBody::new(frames)))
    }

    /// The next bytes of the answer. `None` at its end: the process is over and was content.
    async fn read(&mut self) -> Option<Result<Bytes, BoxError>> {
        let process = self.process.as_mut()?;
        loop {
            let mut buffer = BytesMut::with_capacity(READ_SIZE);
            match tokio::time::timeout_at(self.deadline, process.stdout.read_buf(&mut buffer)).await {
                Ok(Ok(0)) => break,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Some(Err(error.into())),
                Err(_) => {
                    tracing::warn!("git took too long and was ended");
                    return Some(Err(Cut.into()));
                }
            }
            let passed = self.push.as_mut().map_or(buffer.len(), |verdict| verdict.pass(&buffer));
            if passed > 0 {
                buffer.truncate(passed);
                return Some(Ok(buffer.freeze()));
            }
        }
        let status = match tokio::time::timeout_at(self.deadline, process.child.wait()).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Some(Err(error.into())),
            Err(_) => return Some(Err(Cut.into())),
        };
        let refused = self.push.as_mut().and_then(Verdict::tell);
        if refused.is_some() || status.success() {
            // A client that is still sending would otherwise lose the answer with the connection.
            let drained = async { while self.helpers.join_next().await.is_some() {} };
            let _ = tokio::time::timeout_at(self.deadline, drained).await;
            return refused;
        }
        tracing::debug!(%status, "git failed");
        Some(Err(Cut.into()))
    }
}

impl Verdict {
    /// How many of these bytes of git's answer go to the client: all, unless the gateway has an answer of its own.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        if self.refused.get().is_some() {
            return self.boundaries.rest_of_packet(bytes);
        }
        self.boundaries.pass(bytes);
        bytes.len()
    }

    /// The gateway's own answer, once.
    fn tell(&mut self) -> Option<Result<Bytes, BoxError>> {
        let refused = self.refused.get().filter(|_| !self.told)?;
        self.told = true;
        tracing::debug!(%refused, "a push was refused");
        let report = self.push.refuse_pack(&refused.to_string());
        Some(report.map(Bytes::from).ok_or_else(|| Cut.into()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let (Some(_), true, Ok(runtime)) =
            (&self.push, process.child.id().is_some(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        // A push that is killed leaves what it has received.
        let (mut helpers, slot) = (std::mem::take(&mut self.helpers), self.slot.take());
        runtime.spawn(async move {
            let ended = async {
                helpers.shutdown().await;
                let _ = tokio::io::copy(&mut process.stdout, &mut tokio::io::sink()).await;
                process.child.wait().await
            };
            let _ = tokio::time::timeout(GRACE, ended).await;
            drop((process, slot));
        });
    }
}

impl Drop for Process {
    /// bubblewrap is two processes from its first moments on, and the inner one waits for ever when the outer one is killed
    /// before it has let it begin. As long as nobody has waited for the process, its number is nobody else's.
    fn drop(&mut self) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let Some(pid) = pid else { return };
        // The process itself first: one that has no group yet makes none after this.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

struct Feed {
    /// `None` once git has closed its end or must not get more: the rest is only received.
    stdin: Option<ChildStdin>,
    pack: Option<Pack>,
    refused: Arc<OnceLock<Refused>>,
    fed: u64,
    limit: u64,
}

impl Feed {
    async fn all(mut self, start: Bytes, first: Bytes, rest: Option<(Decoder, Incoming)>) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        self.write(&start).await;
        self.body(&first).await?;
        let Some((mut decoder, mut body)) = rest else { return Ok(()) };
        while let Some(frame) = body.frame().await {
            let Ok(mut chunk) = frame.map_err(|error| text(&error))?.into_data() else { continue };
            while !chunk.is_empty() {
                let plain = decoder.step(&mut chunk).map_err(|error| text(&error))?;
                self.body(&plain).await?;
            }
        }
        let last = decoder.finish().map_err(|error| text(&error))?;
        self.body(&last).await
    }

    async fn body(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.fed += bytes.len() as u64;
        if self.fed > self.limit {
            return Err(format!("it is larger than {} bytes", self.limit));
        }
        for part in bytes.chunks(LOOK) {
            if self.stdin.is_none() {
                return Ok(());
            }
            if let Some(pack) = &mut self.pack {
                if let Err(refused) = pack.feed(part) {
                    let _ = self.refused.set(refused);
                    self.stdin = None;
                    return Ok(());
                }
                tokio::task::yield_now().await;
            }
            self.write(part).await;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin
            && stdin.write_all(bytes).await.is_err()
        {
            self.stdin = None;
        }
    }
}

/// Keeps the beginning of what git complains about, and lets it complain on.
async fn listen(stderr: impl AsyncRead + Unpin) {
    let mut kept = Vec::new();
    let mut limited = stderr.take(MAX_STDERR);
    let _ = limited.read_to_end(&mut kept).await;
    if !kept.is_empty() {
        tracing::debug!(stderr = %String::from_utf8_lossy(&kept), "git said");
    }
    let _ = tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::Semaphore;

    use super::*;

    /// Two halves like those of bubblewrap, the inner of which waits for ever.
    #[derive(Debug)]
    struct TwoHalves;

    impl super::super::Command for TwoHalves {
        #[expect(
            clippy::disallowed_methods,
            reason = "a program of the test's own, which needs nothing of the environment"
        )]
        fn git(&self, _: &[&str], _: Option<&str>) -> tokio::process::Command {
            let mut command = tokio::process::Command::new("/bin/sh");
            command.env_clear().args(["-c", "sleep 987654 & echo $!; wait"]).process_group(0);
            command
        }
    }

    #[tokio::test]
    async fn dropping_it_ends_what_the_process_has_started() {
        let access = Access {
            name: "repo".to_owned(),
            directory: "/nowhere".into(),
            branch: "refs/heads/harvest/fix-1".to_owned(),
            namespace: "refs/harvest/s1/".to_owned(),
            writable: true,
            command: Arc::new(TwoHalves),
        };
        let slot = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let mut running = Running::start(&access, &[], None, Input::default(), slot).unwrap();
        let inner = running.read().await.unwrap().unwrap();
        let inner = format!("/proc/{}/cmdline", String::from_utf8_lossy(&inner).trim());
        assert!(Path::new(&inner).exists(), "{inner}");
        drop(running);
        // One that has ended has no command line, whether or not somebody has waited for it.
        let gone = async {
            while std::fs::read(&inner).is_ok_and(|cmdline| !cmdline.is_empty()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    }
}

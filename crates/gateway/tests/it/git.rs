//! The git endpoint, used by the real git client, which reaches it as in a sandbox: by a loopback port that leads to the
//! session's socket.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use harvest_gateway::{Options, git};
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::net::{TcpListener, UnixStream};
use tokio::process::Command;

use crate::support::{Served, get, post, serve, text};

pub const BRANCH: &str = "refs/heads/harvest/fix-1";
const NAMESPACE: &str = "refs/harvest/session-1/";

/// Starts git with nothing of the surroundings.
#[expect(clippy::disallowed_methods, reason = "the one place where these tests start a program")]
fn command(home: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "T").env(format!("GIT_{role}_EMAIL"), "t@example.com");
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

#[derive(Debug)]
struct Plain(PathBuf);

impl git::Command for Plain {
    fn git(&self, args: &[&str], protocol: Option<&str>) -> Command {
        let mut command = command(&self.0);
        command.args(args).envs(protocol.map(|version| ("GIT_PROTOCOL", version)));
        command
    }
}

pub struct Repository {
    folder: tempfile::TempDir,
    pub served: Served,
    url: String,
}

pub struct Done {
    success: bool,
    stdout: String,
    stderr: String,
}

impl Repository {
    /// A bare repository with one commit on `main`, behind a gateway.
    async fn new(writable: bool) -> Self {
        Self::with(writable, Options::default()).await
    }

    pub async fn with(writable: bool, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bare = folder.path().join("session.git");
        run(folder.path(), folder.path(), ["init", "-q", "-b", "main", "seed"]).await.ok();
        run(folder.path(), &folder.path().join("seed"), ["commit", "-q", "--allow-empty", "-m", "first"]).await.ok();
        let clone: [&OsStr; 4] = ["clone".as_ref(), "--bare".as_ref(), "seed".as_ref(), bare.as_ref()];
        run(folder.path(), folder.path(), clone).await.ok();
        let access = git::Access {
            name: "repo".to_owned(),
            directory: bare,
            branch: BRANCH.to_owned(),
            namespace: NAMESPACE.to_owned(),
            writable,
            command: Arc::new(Plain(folder.path().to_owned())),
        };
        let served = serve(options, Some(access));
        let url = format!("http://{}/git/repo", forward(served.socket.clone()).await);
        Self { folder, served, url }
    }

    /// The session's own one, where what is pushed arrives.
    pub fn bare(&self) -> PathBuf {
        self.folder.path().join("session.git")
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs git in the sandbox's checkout.
    pub async fn git<const N: usize>(&self, args: [&str; N]) -> Done {
        run(self.folder.path(), &self.work(), args).await
    }

    pub async fn clone(&self) {
        run(self.folder.path(), self.folder.path(), ["clone", "-q", &self.url, "work"]).await.ok();
    }

    pub async fn commit(&self, file: &str, content: &[u8]) {
        std::fs::write(self.work().join(file), content).unwrap();
        self.git(["add", "."]).await.ok();
        self.git(["commit", "-q", "-m", "work"]).await.ok();
    }

    /// The refs of the session's repository.
    async fn refs(&self) -> String {
        let listed = ["--git-dir=session.git", "for-each-ref", "--format=%(refname)"];
        run(self.folder.path(), self.folder.path(), listed).await.ok()
    }
}

impl Done {
    pub fn ok(self) -> String {
        assert!(self.success, "{}", self.stderr);
        self.stdout
    }

    pub fn refused(self) -> String {
        assert!(!self.success, "{}", self.stdout);
        self.stderr
    }
}

async fn run<const N: usize>(home: &Path, folder: &Path, args: [impl AsRef<OsStr>; N]) -> Done {
    let output = command(home).current_dir(folder).args(args).output().await.unwrap();
    Done {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A loopback port that leads to the socket.
async fn forward(socket: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = socket.clone();
            client.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                if let Ok(mut gateway) = UnixStream::connect(socket).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn clone_commit_and_push_to_the_own_branch() {
    let repository = Repository::new(true).await;
    repository.clone().await;
    repository.commit("a.txt", b"hello").await;
    repository.git(["push", "-q", "origin", &format!("HEAD:{BRANCH}")]).await.ok();
    repository.git(["push", "-q", "origin", &format!("HEAD:{NAMESPACE}checkpoint/1")]).await.ok();
    let head = repository.git(["rev-parse", "HEAD"]).await.ok();
    let pushed =
        run(repository.folder.path(), repository.folder.path(), ["--git-dir=session.git", "rev-parse", BRANCH]);
    assert_eq!(pushed.await.ok(), head);
    assert_eq!(repository.refs().await, format!("{NAMESPACE}checkpoint/1\n{BRANCH}\nrefs/heads/main"));
    repository.git(["fetch", "-q", "origin"]).await.ok();
}

#[tokio::test]
async fn a_large_pack_goes_in_chunks_and_can_be_fetched_again() {
    let repository = Repository::new(true).await;
    repository.clone().await;
    // Not compressible, and above the size up to which git sends a push as one request.
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    })
    .take(3 << 20)
    .collect();
    repository.commit("noise", &noise).await;
    repository.git(["push", "-q", "origin", &format!("HEAD:{BRANCH}")]).await.ok();
    let again = ["clone", "-q", "-b", "harvest/fix-1", &repository.url, "again"];
    run(repository.folder.path(), repository.folder.path(), again).await.ok();
    assert_eq!(std::fs::read(repository.folder.path().join("again/noise")).unwrap(), noise);
}

#[tokio::test]
async fn other_refs_are_refused_with_a_readable_message() {
    let repository = Repository::new(true).await;
    repository.clone().await;
    repository.commit("a.txt", b"hello").await;
    let before = repository.refs().await;
    let mut seen = Vec::new();
    for push in [
        &["HEAD:refs/heads/main"][..],
        &["+HEAD:refs/heads/main"],
        &[":refs/heads/main"],
        &["HEAD:refs/heads/other"],
        &["HEAD:refs/tags/v1"],
        &["HEAD:refs/harvest/session-2/x"],
        &["HEAD:refs/heads/harvest/fix-1", "HEAD:refs/heads/other"],
    ] {
        let args: Vec<&str> = ["push", "origin"].iter().chain(push).copied().collect();
        let output =
            command(repository.folder.path()).current_dir(repository.work()).args(args).output().await.unwrap();
        assert!(!output.status.success(), "{push:?}");
        seen.push(format!("$ git push origin {}\n{}", push.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    assert_eq!(repository.refs().await, before);
    insta::assert_snapshot!(seen.join("\n").replace(&repository.url, "[url]"));
}

#[tokio::test]
async fn the_own_branch_cannot_be_deleted() {
    let repository = Repository::new(true).await;
    repository.clone().await;
    repository.git(["push", "-q", "origin", &format!("HEAD:{BRANCH}")]).await.ok();
    let refused = repository.git(["push", "origin", &format!(":{BRANCH}")]).await.refused();
    assert!(refused.contains("deleting is not allowed"), "{refused}");
    assert!(repository.refs().await.contains(BRANCH));
}

#[tokio::test]
async fn a_refused_large_push_still_hears_why() {
    let repository = Repository::new(true).await;
    repository.clone().await;
    let noise: Vec<u8> = (0..3u32 << 18).flat_map(|n| n.wrapping_mul(2654435761).to_be_bytes()).collect();
    repository.commit("noise", &noise).await;
    let refused = repository.git(["push", "origin", "HEAD:refs/heads/main"]).await.refused();
    assert!(refused.contains("not a ref of this session"), "{refused}");
}

#[tokio::test]
async fn a_read_only_session_clones_and_cannot_push() {
    let repository = Repository::new(false).await;
    repository.clone().await;
    repository.commit("a.txt", b"hello").await;
    let refused = repository.git(["push", "origin", &format!("HEAD:{BRANCH}")]).await.refused();
    assert!(refused.contains("this session may not push") && refused.contains("403"), "{refused}");
}

#[tokio::test]
async fn every_version_of_the_protocol() {
    let repository = Repository::new(true).await;
    for version in ["0", "1", "2"] {
        let mut traced = command(repository.folder.path());
        traced.current_dir(repository.folder.path()).env("GIT_TRACE_PACKET", "1");
        traced.args(["-c", &format!("protocol.version={version}"), "clone", &repository.url, &format!("v{version}")]);
        let output = traced.output().await.unwrap();
        let trace = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{trace}");
        assert_eq!(trace.contains("git< version 2"), version == "2", "{trace}");
        assert_eq!(trace.contains("git< version 1") || trace.contains("< version 1"), version == "1", "{trace}");
    }
}

#[tokio::test]
async fn many_refs_make_a_compressed_request() {
    let repository = Repository::new(true).await;
    let (home, seed) = (repository.folder.path(), repository.folder.path().join("seed"));
    for number in 0..40 {
        run(home, &seed, ["commit", "-q", "--allow-empty", "-m", &number.to_string()]).await.ok();
        run(home, &seed, ["branch", &format!("b{number}")]).await.ok();
    }
    run(home, &seed, ["push", "-q", "--all", "../session.git"]).await.ok();
    let mut clone = command(home);
    clone.current_dir(home).env("GIT_TRACE_CURL", "1").args(["clone", &repository.url, "many"]);
    let output = clone.output().await.unwrap();
    let trace = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{trace}");
    assert!(trace.contains("Send header: Content-Encoding: gzip"), "{trace}");
}

#[tokio::test]
async fn requests_that_no_git_client_makes() {
    let repository = Repository::new(true).await;
    let served = &repository.served;
    for (path, status) in [
        ("/git/repo/info/refs", StatusCode::FORBIDDEN),
        ("/git/repo/info/refs?service=git-upload-archive", StatusCode::FORBIDDEN),
        ("/git/repo/HEAD", StatusCode::NOT_FOUND),
        ("/git/repo/config", StatusCode::NOT_FOUND),
        ("/git/repo/../../etc/passwd", StatusCode::NOT_FOUND),
        ("/git/other/info/refs?service=git-upload-pack", StatusCode::NOT_FOUND),
        ("/git/repository/info/refs?service=git-upload-pack", StatusCode::NOT_FOUND),
        ("/git/repo.git/info/refs?service=git-upload-pack", StatusCode::OK),
    ] {
        assert_eq!(served.send(get(path)).await.status(), status, "{path}");
    }
    let receive = |body: &'static [u8]| {
        let mut request = post("/git/repo/git-receive-pack", Bytes::from_static(body));
        request.headers_mut().insert("content-type", "application/x-git-receive-pack-request".parse().unwrap());
        request
    };
    for body in [&b"0001"[..], b"0003", b"ffff", b"00", b"zzzz", b"0032short"] {
        let response = served.send(receive(body)).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body:?}");
        assert!(text(response).await.contains("cannot be parsed"));
    }
    assert_eq!(served.send(receive(b"0000")).await.status(), StatusCode::OK, "may I?");
    let unlabelled = served.send(post("/git/repo/git-receive-pack", "0000")).await;
    assert_eq!(unlabelled.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// Stands for a git that never ends.
#[derive(Debug)]
struct Endless;

impl git::Command for Endless {
    #[expect(clippy::disallowed_methods, reason = "a program that ignores what it is asked")]
    fn git(&self, _: &[&str], _: Option<&str>) -> Command {
        let mut command = Command::new("/bin/sh");
        command.env_clear().args(["-c", "echo $$; exec /bin/sleep 1000"]);
        command
    }
}

#[tokio::test]
async fn a_process_ends_when_its_client_hangs_up() {
    let access = git::Access {
        name: "repo".to_owned(),
        directory: "/nowhere".into(),
        branch: BRANCH.to_owned(),
        namespace: NAMESPACE.to_owned(),
        writable: false,
        command: Arc::new(Endless),
    };
    let served = serve(Options::default(), Some(access));
    let mut body = served.send(get("/git/repo/info/refs?service=git-upload-pack")).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let pid = String::from_utf8(first.to_vec()).unwrap().rsplit("0000").next().unwrap().trim().to_owned();
    let status = PathBuf::from(format!("/proc/{pid}/status"));
    assert!(status.exists());
    drop(body);
    let gone = async {
        while std::fs::read_to_string(&status).is_ok_and(|status| !status.contains("State:\tZ")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.expect("the process is gone");
}

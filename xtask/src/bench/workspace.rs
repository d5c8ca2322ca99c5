//! Workspaces: a private copy of a large repository for one sandbox, made from the snapshot of a commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use harvest_sandbox::{Limits, Provider, Spec, Workspace, local};
use harvest_workspace::{Git, Home, Mirror, Mirrors, Snapshots};

use super::place::{self, Place};
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const FILES_IN_A_FOLDER: usize = 100;
const FILE_BYTES: usize = 12_500;
const MOST: Duration = Duration::from_millis(15);
/// Where sandboxes see the objects of the mirror.
const OBJECTS_INSIDE: &str = "/harvest/objects";
const GIT_LIMIT: Duration = Duration::from_secs(600);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let git = Git::new(Home::Nobody).with_limit(GIT_LIMIT);
    let files = size.pick(28_000, 2_800);
    let (repository, commit) = generate(place, &git, files).await?;
    let mirror = mirrored(place, &git, &repository, &commit).await?;

    let snapshots = Snapshots::new(place.folder("snapshots")?);
    let began = Instant::now();
    let snapshot = snapshots.open(&mirror, &commit, Path::new(OBJECTS_INSIDE)).await?;
    let first = began.elapsed();

    let provider = place.sandboxes("workspace")?;
    ensure!(provider.capabilities().overlay, "overlays do not work here, and the bound is about them");
    let (mut added, mut whole) = (Vec::new(), Vec::new());
    // The first pair only warms up.
    for number in 0..=size.pick(30, 10) {
        let began = Instant::now();
        let opened = snapshots.open(&mirror, &commit, Path::new(OBJECTS_INSIDE)).await?;
        let spec = spec(Workspace::Overlay { lower: opened.path().to_owned() }, &mirror);
        let id = provider.create(spec).await?.id().clone();
        let with = began.elapsed();
        provider.destroy(&id).await?;
        let without = on_an_empty_folder(&provider, place.folder(&format!("empty/{number}"))?, &mirror).await?;
        if number > 0 {
            added.push(with.saturating_sub(without));
            whole.push(with);
        }
    }
    drop(snapshot);

    let mut theirs = Vec::new();
    for number in 0..size.pick(3, 2) {
        theirs.push(worktree(place, &git, &repository, &commit, number).await?);
    }
    let row = Row {
        name: if size == Size::Full { "workspace of 28,000 files, 350 MB" } else { "workspace of 2,800 files, 35 MB" },
        ours: Amount::Time(median(&added)),
        theirs: Some(Amount::Time(median(&theirs))),
        against: "git worktree add",
        bound: Bound::Within(MOST),
    };
    let (whole, first) = (Amount::Time(median(&whole)), Amount::Time(first));
    let notes = vec![
        format!(
            "workspace: what it adds to a sandbox on an empty folder, {whole} in all; the snapshot behind it is made"
        ),
        format!("  once per commit, in {first}"),
    ];
    Ok(Findings { rows: vec![row], notes })
}

async fn on_an_empty_folder(provider: &local::Local, path: PathBuf, mirror: &Mirror) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let id = provider.create(spec(Workspace::Folder { path }, mirror)).await?.id().clone();
    let took = began.elapsed();
    provider.destroy(&id).await?;
    Ok(took)
}

fn spec(workspace: Workspace, mirror: &Mirror) -> Spec {
    Spec { id: place::sandbox_id(), workspace, objects: Some(mirror.objects()), limits: Limits::default() }
}

async fn worktree(place: &Place, git: &Git, repository: &Path, commit: &str, number: u32) -> anyhow::Result<Duration> {
    let path = place.folder("worktrees")?.join(number.to_string());
    let path = path.to_str().context("the temporary folder has no plain name")?;
    let began = Instant::now();
    git.run(repository, &["worktree", "add", "--quiet", "--detach", path, commit]).await?;
    let took = began.elapsed();
    git.run(repository, &["worktree", "remove", "--force", path]).await?;
    Ok(took)
}

/// The mirror of a repository, with one commit fetched.
pub async fn mirrored(place: &Place, git: &Git, repository: &Path, commit: &str) -> anyhow::Result<Mirror> {
    let mirror = Mirrors::new(place.folder("mirrors")?).open(repository.as_os_str().as_encoded_bytes(), "sha1").await?;
    let source = repository.to_str().context("the temporary folder has no plain name")?;
    let refspec = format!("{commit}:{}", Mirror::base_ref(commit));
    mirror
        .ensure(commit, || async {
            git.run(mirror.path(), &["fetch", "--quiet", "--no-tags", source, &refspec]).await.map(drop)
        })
        .await?;
    Ok(mirror)
}

/// A repository with one commit of this many files; its folder and the commit.
async fn generate(place: &Place, git: &Git, files: usize) -> anyhow::Result<(PathBuf, String)> {
    let repository = place.folder("repository")?;
    let mut words = Words(0x2545_f491_4f6c_dd1d);
    for number in 0..files {
        let folder =
            repository.join(format!("part{}/module{}", number / FILES_IN_A_FOLDER / 10, number / FILES_IN_A_FOLDER));
        if number % FILES_IN_A_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("file{number}.txt")), words.text(FILE_BYTES))?;
    }
    git.run(&repository, &["init", "--quiet"]).await?;
    git.run(&repository, &["-c", "core.compression=1", "add", "--all"]).await?;
    let author = ["-c", "user.name=Bench", "-c", "user.email=bench@localhost"];
    git.run(&repository, &[&author[..], &["commit", "--quiet", "--message=All of it"]].concat()).await?;
    let commit = git.line(&repository, &["rev-parse", "HEAD"]).await?;
    Ok((repository, commit))
}

/// Text that is the same in every run and neither empty to a compressor nor noise.
pub struct Words(pub u64);

impl Words {
    /// xorshift64
    fn step(&mut self) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
    }

    pub fn next_below(&mut self, limit: usize) -> usize {
        self.step();
        (self.0 >> 16) as usize % limit
    }

    pub fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            self.step();
            let end = if self.0.is_multiple_of(8) { '\n' } else { ' ' };
            text.push_str(&format!("{:x}", self.0 >> 32));
            text.push(end);
        }
        text.truncate(bytes);
        text
    }
}

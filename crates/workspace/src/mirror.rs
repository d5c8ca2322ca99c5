//! Bare mirrors, one per repository: fetched into by Harvest, read by everyone, never holding a session's objects.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::lock::{self, Kind};
use crate::{Error, Git, Home, durable, lockfiles};

const KEY_BYTES: usize = 12;

/// All mirrors of a data directory.
#[derive(Debug, Clone)]
pub struct Mirrors {
    root: PathBuf,
    git: Git,
}

#[derive(Debug, Clone)]
pub struct Mirror {
    key: String,
    path: PathBuf,
    git: Git,
}

impl Mirrors {
    pub fn new(root: PathBuf) -> Self {
        Self { root, git: Git::new(Home::Nobody) }
    }

    /// The mirror of the repository called `identity` (its canonical path or URL), made when it is not there yet.
    pub async fn open(&self, identity: &[u8], object_format: &str) -> Result<Mirror, Error> {
        let key = Mirror::key_for(identity);
        let path = self.root.join(format!("{key}.git"));
        tokio::fs::create_dir_all(&self.root).await.map_err(Error::io("make", &self.root))?;
        let mirror = Mirror { key, git: self.git.clone().in_bare(path.clone()), path };
        if !mirror.path.join("HEAD").exists() {
            let _guard = mirror.lock().await?;
            if !mirror.path.join("HEAD").exists() {
                mirror.init(&self.root, object_format).await?;
            }
        }
        Ok(mirror)
    }
}

impl Mirrors {
    /// The mirror of a repository, if there is one.
    pub fn known(&self, identity: &[u8]) -> Option<Mirror> {
        let key = Mirror::key_for(identity);
        let path = self.root.join(format!("{key}.git"));
        path.join("HEAD").exists().then(|| Mirror { key, git: self.git.clone().in_bare(path.clone()), path })
    }
}

impl Mirror {
    /// The key of the repository called `identity`, whether or not it has a mirror.
    pub fn key_for(identity: &[u8]) -> String {
        Sha256::digest(identity).iter().take(KEY_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// The ref that keeps a base commit alive here.
    pub fn base_ref(commit: &str) -> String {
        format!("refs/bases/{commit}")
    }

    pub async fn has(&self, commit: &str) -> bool {
        let name = format!("{}^{{commit}}", Self::base_ref(commit));
        self.git.run(&self.path, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await.is_ok()
    }

    /// Brings `commit` in with `fetch` unless it is here already. One fetch at a time per mirror.
    pub async fn ensure<F>(&self, commit: &str, fetch: impl FnOnce() -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        if self.has(commit).await {
            return Ok(());
        }
        let _guard = self.lock().await?;
        if self.has(commit).await {
            return Ok(());
        }
        self.remove_unfinished_packs();
        lockfiles::remove(&self.path).await?;
        fetch().await
    }

    /// The content of a file at a commit, or `None` when there is no such file.
    pub async fn file(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let name = format!("{commit}:{path}");
        match self.git.run(&self.path, &["cat-file", "blob", &name]).await {
            Ok(content) => Ok(Some(content)),
            Err(Error::Git { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The paths of all files at a commit.
    pub async fn files(&self, commit: &str) -> Result<Vec<String>, Error> {
        let listed = self.git.run(&self.path, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit]).await?;
        Ok(names(&listed))
    }

    /// Which of these paths are files at a commit.
    pub async fn files_of(&self, commit: &str, paths: &[&str]) -> Result<Vec<String>, Error> {
        let listing = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--"];
        let listed = self.git.run(&self.path, &[&listing[..], paths].concat()).await?;
        Ok(names(&listed))
    }

    /// The paths of all files at a commit, each with the hash of its content.
    pub async fn entries(&self, commit: &str) -> Result<Vec<(String, String)>, Error> {
        let listed = self.git.run(&self.path, &["ls-tree", "-r", "-z", "--full-tree", commit]).await?;
        let entry = |line: &[u8]| {
            let line = String::from_utf8_lossy(line).into_owned();
            let (facts, path) = line.split_once('\t')?;
            Some((path.to_owned(), facts.rsplit(' ').next()?.to_owned()))
        };
        Ok(listed.split(|byte| *byte == 0).filter_map(entry).collect())
    }

    /// What `head` has changed since it went its own way from `onto`, as a patch.
    pub async fn proposed(&self, onto: &str, head: &str) -> Result<Vec<u8>, Error> {
        let safe = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--unified=3"];
        self.git.run(&self.path, &[&safe[..], &["--merge-base", onto, head, "--"]].concat()).await
    }

    /// Whether contents of older files were left out when it was fetched into.
    pub async fn is_partial(&self) -> bool {
        self.git.run(&self.path, &["config", "--get-regexp", r"^remote\..*\.promisor$"]).await.is_ok()
    }

    /// The contents that a commit's files need and that are not here.
    pub async fn missing(&self, commit: &str) -> Result<Vec<String>, Error> {
        let args = ["rev-list", "--objects", "--no-walk", "--missing=print", commit];
        let listed = self.git.run(&self.path, &args).await?;
        let listed = String::from_utf8_lossy(&listed);
        Ok(listed.lines().filter_map(|line| line.strip_prefix('?')).map(str::to_owned).collect())
    }

    /// Everything about `commit` is here: it becomes a base, in place of the ref that kept it so far.
    pub async fn settle(&self, commit: &str, unfinished: &str) -> Result<(), Error> {
        self.git.run(&self.path, &["update-ref", &Self::base_ref(commit), commit]).await?;
        self.git.run(&self.path, &["update-ref", "-d", unfinished]).await.map(drop)
    }

    /// Whether `older` is part of the history of `newer`.
    pub async fn is_ancestor(&self, older: &str, newer: &str) -> bool {
        self.git.run(&self.path, &["merge-base", "--is-ancestor", older, newer]).await.is_ok()
    }

    /// What a fetch that was killed left behind. The lock is held, so no one is writing.
    fn remove_unfinished_packs(&self) {
        let Ok(entries) = std::fs::read_dir(self.objects().join("pack")) else { return };
        for entry in entries.filter_map(Result::ok) {
            if entry.file_name().as_encoded_bytes().starts_with(b"tmp_pack_") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    async fn lock(&self) -> Result<lock::Guard, Error> {
        lock::lock(&self.path.with_extension("lock"), Kind::Exclusive).await
    }

    async fn init(&self, root: &Path, object_format: &str) -> Result<(), Error> {
        let format = format!("--object-format={object_format}");
        let args = ["init", "--quiet", "--bare", "--template=", &format, "--"];
        let args: Vec<&std::ffi::OsStr> =
            args.iter().map(std::ffi::OsStr::new).chain([self.path.as_os_str()]).collect();
        self.git.run(root, &args).await?;
        durable::sync(vec![self.path.join("config"), self.path.clone(), root.to_owned()]).await
    }
}

/// What git lists with `-z`.
fn names(listed: &[u8]) -> Vec<String> {
    let names = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    names.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

//! A repository on this machine. Reading it never writes to it; publishing adds one branch and nothing else.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use harvest_core::BranchName;
use harvest_workspace::{Git, GitFolders, Home, Mirror};
use rustix::fs::Access;

use crate::fetch::{self, fetch_into};
use crate::{Base, Error, Forge, Part, Published, checked_base};

/// How far back a commit is looked for that both repositories have.
const LITTLE: &str = "--max-count=100";
/// What git, too, unpacks rather than keeps as a pack.
const MOST_LOOSE: usize = 100;
/// For so long a branch may be locked by someone who is alive: a git that goes on though its worker was killed, or one that packs.
const LOCK_PATIENCE: &str = "core.filesRefLockTimeout=3000";
/// Where Harvest publishes: whatever is locked there is being delivered, or was by someone who died.
const DELIVERED: &str = "refs/heads/harvest";

#[derive(Debug)]
pub struct Local {
    /// The top of the work tree, or the bare repository itself.
    path: PathBuf,
    /// Where refs live; shared by all work trees of the repository.
    common: PathBuf,
    /// Where this work tree's own state lives.
    own: PathBuf,
    name: String,
    bare: bool,
    git: Git,
}

impl Local {
    /// The repository around `path`.
    pub async fn open(path: &Path, git: Git) -> Result<Self, Error> {
        let path = tokio::fs::canonicalize(path).await.map_err(|error| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            Error::NotARepository { path, details: error.to_string() }
        })?;
        // `.` would name no folder to whoever reads it elsewhere.
        let not_one = |details: String| Error::NotARepository { path: path.clone(), details };
        let ask = async |what: &[&str]| {
            let mut args = vec!["rev-parse", "--path-format=absolute"];
            args.extend(what);
            let mut answer = git.run(&path, &args).await?;
            answer.pop_if(|last| *last == b'\n');
            Ok::<_, harvest_workspace::Error>(answer)
        };
        let folder = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        // One question for all, where the answers can be told apart.
        let all = ask(&["--is-bare-repository", "--git-dir", "--git-common-dir", "--show-toplevel"]).await;
        if let Ok(answers) = all
            && let [b"false", own, common, top] = answers.split(|byte| *byte == b'\n').collect::<Vec<_>>()[..]
        {
            let path = folder(top);
            return Ok(Self::found(path, folder(own), folder(common), false, git));
        }
        let own = match ask(&["--git-dir"]).await {
            Ok(own) => own,
            Err(harvest_workspace::Error::Git { message, .. }) => return Err(not_one(message)),
            Err(error) => return Err(error.into()),
        };
        let common = ask(&["--git-common-dir"]).await?;
        let bare = ask(&["--is-bare-repository"]).await? == b"true";
        let top = if bare { own.clone() } else { ask(&["--show-toplevel"]).await? };
        Ok(Self::found(folder(&top), folder(&own), folder(&common), bare, git))
    }

    fn found(path: PathBuf, own: PathBuf, common: PathBuf, bare: bool, git: Git) -> Self {
        let work_tree = (!bare).then(|| path.clone());
        let folders = GitFolders { directory: path.clone(), own: own.clone(), common: common.clone(), work_tree };
        Self { name: path.display().to_string(), path, common, own, bare, git: git.in_folders(folders) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every folder that git reads of it.
    pub(crate) fn folders(&self) -> [&Path; 3] {
        [&self.path, &self.own, &self.common]
    }

    fn refuse_unfinished_work(&self) -> Result<(), Error> {
        let unfinished = [("MERGE_HEAD", "merge"), ("rebase-merge", "rebase"), ("rebase-apply", "rebase")];
        for (file, operation) in unfinished {
            if self.own.join(file).exists() {
                return Err(Error::InProgress { operation, path: self.path.clone() });
            }
        }
        let locks = [self.own.join("HEAD.lock"), self.common.join("packed-refs.lock")];
        let delivered = self.common.join(DELIVERED);
        let in_refs = || find_lock(&self.common.join("refs"), &delivered);
        match locks.into_iter().find(|lock| lock.exists()).or_else(in_refs) {
            Some(lock) => Err(Error::RefLocked { lock }),
            None => Ok(()),
        }
    }

    /// Brings a commit here out of a session's repository, which is Harvest's own, even where it belongs to a sandbox's uid.
    async fn take(&self, from: &Path, commit: &str) -> Result<(), Error> {
        if self.take_little(from, commit).await.unwrap_or(false) {
            return Ok(());
        }
        // The git on the other side gets none of our settings and folders, so it is told here.
        let folder = from.display().to_string().replace('\'', "'\\''");
        let ours = format!("--upload-pack=GIT_COMMON_DIR='{folder}' git -c 'safe.directory=*' upload-pack --strict");
        Ok(fetch_into(&self.git, &self.path, from.as_os_str(), &[commit], &[&ours]).await?)
    }

    /// The same for a few objects on top of a commit that is here: unlike a fetch it takes no longer where there are many
    /// branches. False, and nothing done, for anything else.
    async fn take_little(&self, from: &Path, commit: &str) -> Result<bool, harvest_workspace::Error> {
        let session = Git::new(Home::Nobody).in_bare(from.to_owned());
        let history = session.run(from, &["rev-list", LITTLE, "--end-of-options", commit]).await?;
        let here = self.git.run_with(&self.path, &["cat-file", "--batch-check=%(objecttype)"], &[], &history).await?;
        let (history, here) = (String::from_utf8_lossy(&history), String::from_utf8_lossy(&here));
        let known = history.lines().zip(here.lines()).filter(|(_, kind)| *kind == "commit");
        let wanted = std::iter::once(commit.to_owned()).chain(known.map(|(id, _)| format!("^{id}")));
        let wanted = wanted.collect::<Vec<_>>().join("\n");
        let list = ["rev-list", "--objects", "--no-object-names", "--stdin"];
        let objects = session.run_with(from, &list, &[], wanted.as_bytes()).await?;
        if objects.iter().filter(|byte| **byte == b'\n').count() > MOST_LOOSE {
            return Ok(false);
        }
        let pack = ["pack-objects", "--stdout", "--quiet", "--window=0"];
        session.pipe(from, &pack, &objects, &self.git, &self.path, &["unpack-objects", "-q", "--strict"]).await?;
        Ok(true)
    }

    /// Removes the lock of a branch of Harvest's own, which was there for as long as git has waited for it: whoever made it was
    /// killed. True when there was one.
    fn break_lock(&self, name: &str) -> bool {
        name.starts_with(DELIVERED) && std::fs::remove_file(self.common.join(format!("{name}.lock"))).is_ok()
    }

    /// Whether there is work that is not committed. No filter of the repository's settings runs on it.
    async fn is_dirty(&self, settings: &Settings) -> bool {
        if self.bare {
            return false;
        }
        let git = self.git.clone().with_settings(settings.without_filters());
        // A submodule has settings of its own.
        let args = ["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty"];
        git.run(&self.path, &args).await.is_ok_and(|listed| !listed.is_empty())
    }

    async fn settings(&self) -> Settings {
        let listed = self.git.run(&self.path, &["config", "--null", "--list"]).await.unwrap_or_default();
        Settings::read(&listed)
    }
}

/// Settings of git as they hold in a repository.
#[derive(Debug, Default)]
struct Settings {
    name: Option<String>,
    email: Option<String>,
    /// Names of the filters that are configured.
    filters: BTreeSet<String>,
}

impl Settings {
    /// What `git config --null --list` prints: the last value of a key holds.
    fn read(listed: &[u8]) -> Self {
        let mut settings = Self::default();
        for entry in String::from_utf8_lossy(listed).split('\0') {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            match key {
                "user.name" => settings.name = Some(value.trim().to_owned()),
                "user.email" => settings.email = Some(value.trim().to_owned()),
                _ => settings.filters.extend(filter_of(key)),
            }
        }
        settings
    }

    fn author(&self) -> Option<(String, String)> {
        Some((self.name.clone()?, self.email.clone()?))
    }

    fn without_filters(&self) -> Vec<(String, String)> {
        let none = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
        let all = self.filters.iter().flat_map(|name| none.map(|(what, value)| (name, what, value)));
        all.map(|(name, what, value)| (format!("filter.{name}.{what}"), value.to_owned())).collect()
    }
}

/// The name of a filter that a setting belongs to.
fn filter_of(key: &str) -> Option<String> {
    let (name, _) = key.strip_prefix("filter.")?.rsplit_once('.')?;
    Some(name.to_owned())
}

#[async_trait]
impl Forge for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> Vec<u8> {
        self.common.as_os_str().as_bytes().to_vec()
    }

    async fn resolve(&self, base: Option<&str>) -> Result<Base, Error> {
        let base = base.map(checked_base).transpose()?;
        self.refuse_unfinished_work()?;
        let name = format!("{}^{{commit}}", base.unwrap_or("HEAD"));
        let found = self.git.line(&self.path, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await;
        let commit = match found {
            Ok(commit) => commit,
            Err(harvest_workspace::Error::Git { .. }) => {
                let any = self.git.line(&self.path, &["rev-list", "--max-count=1", "--all"]).await?;
                return Err(match base {
                    _ if any.is_empty() => Error::Empty { name: self.name.clone() },
                    base => Error::UnknownBase { base: base.unwrap_or("HEAD").to_owned(), name: self.name.clone() },
                });
            }
            Err(error) => return Err(error.into()),
        };
        let object_format = self.git.line(&self.path, &["rev-parse", "--show-object-format"]).await?;
        let mut warnings = Vec::new();
        let settings = self.settings().await;
        if self.is_dirty(&settings).await {
            let from = base.unwrap_or("HEAD");
            warnings.push(format!(
                "uncommitted changes are not part of the work: it starts from {from} ({})",
                &commit[..10]
            ));
        }
        Ok(Base { commit, object_format, author: settings.author(), branch: None, warnings })
    }

    async fn fetch(&self, mirror: &Mirror, commit: &str) -> Result<(), harvest_workspace::Error> {
        self.fetch_part(mirror, commit, Part::default()).await
    }

    async fn fetch_part(&self, mirror: &Mirror, commit: &str, part: Part) -> Result<(), harvest_workspace::Error> {
        // Between two folders of one machine, looking for deltas costs far more time than the bytes it saves.
        let plain = "--upload-pack=git -c pack.window=0 -c pack.compression=0 -c uploadpack.allowFilter=true \
                     -c uploadpack.allowAnySHA1InWant=true upload-pack";
        fetch::fetch(&self.git, mirror, self.common.as_os_str(), commit, part, &[plain]).await
    }

    async fn check_writable(&self) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::ReadOnly { name: self.name.clone(), reason, is_local: true });
        let delivered = self.common.join(DELIVERED);
        let packed = tokio::fs::read_to_string(self.common.join("packed-refs")).await.unwrap_or_default();
        let ending = format!(" {DELIVERED}");
        if delivered.is_file() || packed.lines().any(|line| line.ends_with(&ending)) {
            return Err(Error::BranchConflict { name: self.name.clone() });
        }
        let folders = [self.common.join("objects"), self.common.join("refs/heads"), delivered];
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            if let Err(error) = rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK) {
                return refuse(format!("{} is not writable: {}", folder.display(), std::io::Error::from(error)));
            }
        }
        Ok(())
    }

    async fn publish(
        &self,
        from: &Path,
        branch: &BranchName,
        commit: &str,
        previous: Option<&str>,
    ) -> Result<Published, Error> {
        let name = branch.as_ref_name();
        let found =
            self.git.line(&self.path, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await.ok();
        match found {
            Some(found) if found == commit => return Ok(Published::InRepository),
            Some(found) if Some(found.as_str()) != previous => {
                return Err(Error::BranchMoved { branch: branch.to_string(), found });
            }
            _ => {}
        }
        self.take(from, commit).await?;
        // Git checks the old value under the ref's lock: of two that publish at the same time one is refused.
        let nothing = "0".repeat(commit.len());
        let expected = found.as_deref().unwrap_or(&nothing);
        let update = ["-c", LOCK_PATIENCE, "update-ref", "--no-deref", &name, commit, expected];
        match self.git.run(&self.path, &update).await {
            Err(_) if self.break_lock(&name) => self.git.run(&self.path, &update).await?,
            updated => updated?,
        };
        Ok(Published::InRepository)
    }
}

/// The first `*.lock` below a folder of refs, but for one folder.
fn find_lock(folder: &Path, but: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.filter_map(Result::ok) {
        let path = entry.path();
        if path == but {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if let Some(lock) = find_lock(&path, but) {
                return Some(lock);
            }
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            return Some(path);
        }
    }
    None
}

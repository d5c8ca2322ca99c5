//! The session's own bare repository: the only place where a sandbox's objects arrive, by a push through the gateway.

use std::path::{Component, Path, PathBuf};

use harvest_beneath::Folder;
use harvest_core::{BranchName, FileChange, SessionId};

use crate::{Error, Git, Home, Mirror, durable, lockfiles};

const MAX_COMMITS: &str = "500";
/// The most lines of context around a change. Files with more lines are not text that people read.
pub const MOST_CONTEXT: u32 = 1_000_000;
/// Characters of a commit's id.
const SHA256: usize = 64;
/// Bytes of the longest path that the kernel takes, and the end of its line.
const LONGEST_ALTERNATES: u64 = 4097;
/// Git of the host and git of the gateway write here, under root as different users: each may add to the folders that the other
/// made. Nobody else gets as far as the repository.
const SETTINGS: &str = "[core]
\thooksPath = /dev/null
\tsharedRepository = 0666
[receive]
\tfsckObjects = true
\tdenyDeletes = true
\tautogc = false
[gc]
\tauto = 0
";

#[derive(Debug, Clone)]
pub struct SessionRepository {
    path: PathBuf,
    mirror_objects: PathBuf,
    git: Git,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    pub change: FileChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub subject: String,
}

/// A commit that Harvest makes itself. The same fields are always the same commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit {
    /// The commit, or the tree, whose files it has.
    pub content: String,
    pub parent: String,
    pub message: String,
    pub author: Author,
    /// When, since the epoch.
    pub seconds: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub email: String,
}

/// What carrying work onto another base comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// A commit on the new base that has all of the work.
    Onto(String),
    /// Both sides changed the same places of these files.
    Conflicts(Vec<String>),
}

impl SessionRepository {
    /// Made anew, or opened when a crash left it there. Its objects stand on the mirror's. One whose objects stand on anything
    /// but a mirror is refused.
    pub async fn open(path: PathBuf, mirror: &Mirror, base: &str, branch: &BranchName) -> Result<Self, Error> {
        let git = Git::new(Home::Nobody).in_bare(path.clone());
        let repository = Self { path, mirror_objects: mirror.objects(), git };
        if repository.path.join("HEAD").exists() {
            let mirrors = mirror.path().parent().unwrap_or(Path::new("/"));
            if mirror_of(&repository.path, mirrors).is_none() {
                let shown = repository.path.display();
                return Err(Error::Unexpected(format!(
                    "the objects of {shown} do not stand on a mirror in {}",
                    mirrors.display()
                )));
            }
            return Ok(repository);
        }
        let building = repository.path.with_extension("building");
        let _ = tokio::fs::remove_dir_all(&building).await;
        tokio::fs::create_dir_all(&building).await.map_err(Error::io("make", &building))?;
        let format = if base.len() == SHA256 { "--object-format=sha256" } else { "--object-format=sha1" };
        let head = format!("--initial-branch={branch}");
        repository.git.run(&building, &["init", "--quiet", "--bare", "--template=", format, &head]).await?;
        // One write instead of a git for each.
        let config = building.join("config");
        let mut settings = tokio::fs::read(&config).await.map_err(Error::io("read", &config))?;
        settings.extend_from_slice(SETTINGS.as_bytes());
        tokio::fs::write(&config, settings).await.map_err(Error::io("write", &config))?;
        let alternates = building.join("objects/info/alternates");
        if let Some(parent) = alternates.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(Error::io("make", parent))?;
        }
        tokio::fs::write(&alternates, format!("{}\n", repository.mirror_objects.display()))
            .await
            .map_err(Error::io("write", &alternates))?;
        // Git syncs what it writes itself.
        let mut written = vec![config, alternates];
        let shallow = mirror.path().join("shallow");
        if shallow.exists() {
            let copy = building.join("shallow");
            tokio::fs::copy(&shallow, &copy).await.map_err(Error::io("write", &copy))?;
            written.push(copy);
        }
        repository.git.run(&building, &["update-ref", "refs/harvest/base", base]).await?;
        durable::sync(written).await?;
        tokio::fs::rename(&building, &repository.path).await.map_err(Error::io("make", &repository.path))?;
        durable::sync(repository.path.parent().map(Path::to_owned).into_iter().collect()).await?;
        Ok(repository)
    }

    /// One that was made before, for looking at. `mirrors` is the folder with the mirrors of the same data directory; a repository
    /// whose objects stand on anything else is not opened.
    pub fn existing(path: PathBuf, mirrors: &Path) -> Option<Self> {
        let mirror_objects = mirror_of(&path, mirrors)?.join("objects");
        let git = Git::new(Home::Nobody).in_bare(path.clone());
        Some(Self { path, mirror_objects, git })
    }

    /// Removes the locks that a git has left here which was killed: nobody else ever would. For whoever goes on with a
    /// session, before anyone can push to it again. Where a git is still at work they stay, as one may be its own.
    pub async fn break_locks(&self) -> Result<(), Error> {
        lockfiles::remove(&self.path).await
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn mirror_objects(&self) -> &Path {
        &self.mirror_objects
    }

    /// Brings a commit of another session's repository into this one, without a transport between them: what git itself
    /// would start on the other side does not get our settings.
    pub async fn bring(&self, from: &Self, commit: &str, base: &str) -> Result<(), Error> {
        let wanted = format!("{commit}\n^{base}\n");
        let args = ["pack-objects", "--quiet", "--revs", "--stdout"];
        let pack = from.git.run_with(&from.path, &args, &[], wanted.as_bytes()).await?;
        self.git.run_with(&self.path, &["unpack-objects", "-q"], &[], &pack).await?;
        self.git.run(&self.path, &["update-ref", "refs/harvest/origin", commit]).await.map(drop)
    }

    /// The refs below which a session's checkpoints go.
    pub fn namespace(session: &SessionId) -> String {
        format!("refs/harvest/{session}/")
    }

    /// Where what an agent remembers of a session arrives.
    pub fn conversation_ref(session: &SessionId, agent: &str) -> String {
        format!("{}conversation/{agent}", Self::namespace(session))
    }

    /// The commit a full ref name points at.
    pub async fn tip(&self, reference: &str) -> Result<Option<String>, Error> {
        let name = format!("{reference}^{{commit}}");
        match self.git.line(&self.path, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await {
            Ok(commit) => Ok(Some(commit)),
            Err(Error::Git { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The tree of a commit: two commits with the same one have the same files.
    pub async fn tree(&self, commit: &str) -> Result<Option<String>, Error> {
        let name = format!("{commit}^{{tree}}");
        match self.git.line(&self.path, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await {
            Ok(tree) => Ok(Some(tree)),
            Err(Error::Git { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The newest checkpoint of the session: its number and commit.
    pub async fn last_checkpoint(&self, session: &SessionId) -> Result<Option<(u32, String)>, Error> {
        let namespace = Self::namespace(session);
        let args = ["for-each-ref", "--format=%(objectname) %(refname)", &namespace];
        let listed = self.git.line(&self.path, &args).await?;
        let newest = listed.lines().filter_map(|line| {
            let (commit, name) = line.split_once(' ')?;
            Some((name.strip_prefix(&namespace)?.parse::<u32>().ok()?, commit.to_owned()))
        });
        Ok(newest.max_by_key(|(number, _)| *number))
    }

    pub async fn set_branch(&self, branch: &BranchName, commit: &str) -> Result<(), Error> {
        self.git.run(&self.path, &["update-ref", &branch.as_ref_name(), commit]).await.map(drop)
    }

    pub async fn commit(&self, new: &NewCommit) -> Result<String, Error> {
        let (tree, date) = (format!("{}^{{tree}}", new.content), format!("@{} +0000", new.seconds));
        // What would end the line it stands on in a commit.
        let plain = |text: &str| text.replace(['<', '>', '\n', '\0'], " ").trim().to_owned();
        let (name, email) = (plain(&new.author.name), plain(&new.author.email));
        let env = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"].into_iter().zip([&name, &email, &date]);
        let committer = ["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE"];
        let env: Vec<_> = env.chain(committer.into_iter().zip([&name, &email, &date])).collect();
        let env: Vec<(&str, &std::ffi::OsStr)> =
            env.iter().map(|(key, value)| (*key, value.as_str().as_ref())).collect();
        let args = ["commit-tree", "--no-gpg-sign", "-p", &new.parent, "-F", "-", &tree];
        let made = self.git.run_with(&self.path, &args, &env, new.message.as_bytes()).await?;
        let made = String::from_utf8_lossy(&made).trim().to_owned();
        // Nothing else points at it yet.
        self.git.run(&self.path, &["update-ref", "refs/harvest/delivered", &made]).await?;
        Ok(made)
    }

    /// Whether `older` is part of the history of `newer`.
    pub async fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, Error> {
        Ok(self.git.answer(&self.path, &["merge-base", "--is-ancestor", older, newer]).await?.0)
    }

    /// Puts the work since `base`, as it is in `new.content`, onto `new.parent`, which goes on from `base`. In memory: no work
    /// tree, no index, nothing that the repository's content could make git run.
    pub async fn carry(&self, base: &str, new: &NewCommit) -> Result<Carried, Error> {
        // One commit on the old base, so that git takes that one for what both sides began with.
        let work = self.commit(&NewCommit { parent: base.to_owned(), ..new.clone() }).await?;
        let args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", &new.parent, &work];
        let (clean, printed) = self.git.answer(&self.path, &args).await?;
        let (tree, paths) = merged_paths(&printed);
        if clean {
            return Ok(Carried::Onto(self.commit(&NewCommit { content: tree, ..new.clone() }).await?));
        }
        Ok(Carried::Conflicts(paths))
    }

    /// The newest state of a session's work that arrived here, if any did: its branch, or a checkpoint that goes on from there.
    pub async fn newest(&self, session: &SessionId, branch: &BranchName) -> Result<Option<String>, Error> {
        let (pushed, saved) = (self.tip(&branch.as_ref_name()).await?, self.last_checkpoint(session).await?);
        Ok(match (pushed, saved) {
            (Some(pushed), Some((_, saved))) if self.is_ancestor(&pushed, &saved).await? => Some(saved),
            (pushed, saved) => pushed.or(saved.map(|(_, saved)| saved)),
        })
    }

    /// What differs between two commits, renames shown as delete and add.
    pub async fn changes(&self, from: &str, to: &str) -> Result<Vec<Change>, Error> {
        let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-status", from, to];
        let listed = self.git.run(&self.path, &args).await?;
        let mut fields = listed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let mut changes = Vec::new();
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            let change = match status {
                b"A" => FileChange::Added,
                b"D" => FileChange::Deleted,
                _ => FileChange::Modified,
            };
            changes.push(Change { path: String::from_utf8_lossy(path).into_owned(), change });
        }
        Ok(changes)
    }

    /// How many lines were added and removed between two commits; what is no text counts as one for each file.
    pub async fn changed_lines(&self, from: &str, to: &str) -> Result<u64, Error> {
        let listed = self.show_diff(&["--numstat"], from, to).await?;
        let count = |text: &str| text.parse::<u64>().unwrap_or(1);
        let lines = String::from_utf8_lossy(&listed).into_owned();
        Ok(lines.lines().map(|line| line.split('\t').take(2).map(count).sum::<u64>()).sum())
    }

    /// The commits behind `base` up to `tip`, oldest first.
    pub async fn commits(&self, base: &str, tip: &str) -> Result<Vec<Commit>, Error> {
        let range = format!("{base}..{tip}");
        let args = ["log", "--reverse", "--topo-order", "--max-count", MAX_COMMITS, "--format=%H %s", &range, "--"];
        let listed = self.git.run(&self.path, &args).await?;
        let commits = String::from_utf8_lossy(&listed)
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(id, subject)| Commit { id: id.to_owned(), subject: subject.to_owned() })
            .collect();
        Ok(commits)
    }

    /// A commit as git keeps it: its parents, its author and its message.
    pub async fn commit_object(&self, commit: &str) -> Result<Vec<u8>, Error> {
        self.git.run(&self.path, &["cat-file", "commit", commit]).await
    }

    /// The paths of the files that are there in `to` and not in `from`.
    pub async fn new_paths(&self, from: &str, to: &str) -> Result<Vec<String>, Error> {
        let listed = self.show_diff(&["--name-only", "-z", "--no-renames", "--diff-filter=A"], from, to).await?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    pub async fn diff(&self, from: &str, to: &str) -> Result<Vec<u8>, Error> {
        self.show_diff(&["--patch"], from, to).await
    }

    /// The same of one file alone, or with another number of unchanged lines around each change.
    pub async fn diff_of(
        &self,
        from: &str,
        to: &str,
        path: Option<&str>,
        context: Option<u32>,
    ) -> Result<Vec<u8>, Error> {
        let lines = format!("--unified={}", context.unwrap_or(3).min(MOST_CONTEXT));
        let fixed = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--patch", &lines];
        // Wildcards in the name of a file are letters of it.
        let path = path.map(|path| format!(":(literal,top){path}"));
        let args: Vec<&str> = fixed.into_iter().chain([from, to, "--"]).chain(path.as_deref()).collect();
        self.git.run(&self.path, &args).await
    }

    /// The same with the content of every file in it, whatever the repository says is no text.
    pub async fn whole_diff(&self, from: &str, to: &str) -> Result<Vec<u8>, Error> {
        self.show_diff(&["--patch", "--text", "--no-renames"], from, to).await
    }

    pub async fn diff_stat(&self, from: &str, to: &str) -> Result<String, Error> {
        let stat = self.show_diff(&["--stat=80"], from, to).await?;
        Ok(String::from_utf8_lossy(&stat).trim_end().to_owned())
    }

    pub async fn file(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let name = format!("{commit}:{path}");
        match self.git.run(&self.path, &["cat-file", "blob", &name]).await {
            Ok(content) => Ok(Some(content)),
            Err(Error::Git { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn show_diff(&self, how: &[&str], from: &str, to: &str) -> Result<Vec<u8>, Error> {
        let fixed = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"];
        let args: Vec<&str> = fixed.iter().chain(how).copied().chain([from, to, "--"]).collect();
        self.git.run(&self.path, &args).await
    }
}

/// The mirror that a session's repository stands on, if it is one of `mirrors`. Git wrote the repository for agents, so its file is
/// read by descriptor, and what it says is compared and never used as a path.
pub fn mirror_of(repository: &Path, mirrors: &Path) -> Option<PathBuf> {
    let alternates = Path::new("objects/info/alternates");
    let text = Folder::open(repository).and_then(|folder| folder.read(alternates, LONGEST_ALTERNATES)).ok()?;
    let text = String::from_utf8(text).ok()?;
    let objects = Path::new(text.strip_suffix('\n').unwrap_or(&text));
    let mut parts = objects.components();
    let (Some(Component::Normal(last)), Some(Component::Normal(name))) = (parts.next_back(), parts.next_back()) else {
        return None;
    };
    // The data directory may have been reached by another path then.
    let named = Some(parts.as_path()).filter(|named| named.is_absolute())?;
    let is_ours = named == mirrors || named.canonicalize().ok()? == mirrors.canonicalize().ok()?;
    (last == "objects" && !text.trim_end_matches('\n').contains('\n') && is_ours).then(|| mirrors.join(name))
}

/// What `git merge-tree -z` prints: the tree, and the paths that it could not merge.
pub(crate) fn merged_paths(printed: &[u8]) -> (String, Vec<String>) {
    let printed = String::from_utf8_lossy(printed);
    let mut parts = printed.split('\0').filter(|part| !part.is_empty());
    let tree = parts.next().unwrap_or_default().trim().to_owned();
    let mut paths: Vec<String> = parts.map(str::to_owned).collect();
    paths.dedup();
    (tree, paths)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[derive(Debug)]
    struct Zeros;

    impl harvest_core::Entropy for Zeros {
        fn bytes(&self) -> [u8; 10] {
            [0; 10]
        }
    }

    struct World {
        root: tempfile::TempDir,
    }

    impl World {
        /// A data directory with a mirror and a session, and a repository of the host beside it.
        fn new() -> Self {
            let world = Self { root: tempfile::tempdir().unwrap() };
            for folder in ["data/mirrors/m.git/objects", "data/sessions/s/repository.git/objects/info", "host/objects"]
            {
                fs::create_dir_all(world.path(folder)).unwrap();
            }
            world
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        fn alternates(&self) -> PathBuf {
            self.path("data/sessions/s/repository.git/objects/info/alternates")
        }

        fn opened(&self) -> Option<PathBuf> {
            let found =
                SessionRepository::existing(self.path("data/sessions/s/repository.git"), &self.path("data/mirrors"));
            found.map(|found| found.mirror_objects().to_owned())
        }
    }

    /// Otherwise a push fails whose objects belong into a folder that the other user made.
    #[tokio::test]
    async fn folders_of_the_hosts_git_are_open_to_the_gateways() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let mirror = crate::Mirrors::new(root.path().join("mirrors")).open(b"shop", "sha1").await.unwrap();
        let git = Git::new(Home::Nobody);
        let tree = git.run_with(mirror.path(), &["mktree"], &[], b"").await.unwrap();
        let tree = String::from_utf8(tree).unwrap().trim().to_owned();
        let person = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        let person = person.map(|name| (name, std::ffi::OsStr::new("ada@example.com")));
        let base = git.run_with(mirror.path(), &["commit-tree", "-m", "Start", &tree], &person, b"").await.unwrap();
        let base = String::from_utf8(base).unwrap().trim().to_owned();
        let branch = BranchName::for_session("x", &SessionId::generate(&Zeros));
        let path = root.path().join("repository.git");
        let repository = SessionRepository::open(path.clone(), &mirror, &base, &branch).await.unwrap();
        let author = Author { name: "Ada".to_owned(), email: "ada@example.com".to_owned() };
        let new = NewCommit { content: base.clone(), parent: base, message: "Mend it".to_owned(), author, seconds: 1 };
        repository.commit(&new).await.unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let made: Vec<PathBuf> =
            fs::read_dir(path.join("objects")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let made: Vec<PathBuf> = made.into_iter().filter(|path| path.file_name().unwrap().len() == 2).collect();
        assert!(!made.is_empty());
        for folder in made {
            assert_eq!(mode(folder.clone()), 0o777, "{}", folder.display());
        }
    }

    #[test]
    fn a_repository_that_stands_on_anything_but_a_mirror_is_not_opened() {
        let world = World::new();
        let mirror = world.path("data/mirrors/m.git/objects");
        fs::write(world.alternates(), format!("{}\n", mirror.display())).unwrap();
        assert_eq!(world.opened(), Some(mirror.clone()));
        symlink(world.path("data"), world.path("other")).unwrap();
        fs::write(world.alternates(), format!("{}\n", world.path("other/mirrors/m.git/objects").display())).unwrap();
        assert_eq!(world.opened(), Some(mirror.clone()), "the data directory may have several paths");
        let host = world.path("host/objects");
        for text in [
            host.display().to_string(),
            format!("{}\n{}", mirror.display(), host.display()),
            format!("{}/../../../host/objects", mirror.display()),
            world.path("data/mirrors/m.git").display().to_string(),
            world.path("data/mirrors").display().to_string(),
            "../../../mirrors/m.git/objects".to_owned(),
            String::new(),
            "x".repeat(1 << 20),
        ] {
            fs::write(world.alternates(), format!("{text}\n")).unwrap();
            assert_eq!(world.opened(), None, "{}", &text[..text.len().min(200)]);
        }
    }

    #[test]
    fn a_link_or_a_pipe_in_place_of_the_alternates_is_not_read() {
        let world = World::new();
        let text = format!("{}\n", world.path("data/mirrors/m.git/objects").display());
        fs::write(world.path("host/alternates"), &text).unwrap();
        symlink(world.path("host/alternates"), world.alternates()).unwrap();
        assert_eq!(world.opened(), None, "a link to a file");
        let info = world.path("data/sessions/s/repository.git/objects/info");
        fs::remove_dir_all(&info).unwrap();
        symlink(world.path("host"), &info).unwrap();
        assert_eq!(world.opened(), None, "a link to a folder");
        fs::remove_file(&info).unwrap();
        fs::create_dir(&info).unwrap();
        make_pipe(&world.alternates());
        // It returns at all.
        assert_eq!(world.opened(), None, "a pipe");
    }

    #[expect(clippy::disallowed_methods, reason = "a program of the test's own")]
    fn make_pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").env_clear().arg(path).status().unwrap().success());
    }

    #[tokio::test]
    async fn work_does_not_go_on_in_a_repository_that_stands_on_anything_but_a_mirror() {
        let world = World::new();
        let path = world.path("data/sessions/s/repository.git");
        fs::write(path.join("HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(world.alternates(), format!("{}\n", world.path("host/objects").display())).unwrap();
        let mirror = crate::Mirrors::new(world.path("data/mirrors")).open(b"m", "sha1").await.unwrap();
        let branch = BranchName::for_session("x", &SessionId::generate(&Zeros));
        let refused = SessionRepository::open(path, &mirror, &"0".repeat(40), &branch).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("do not stand on a mirror")));
    }
}

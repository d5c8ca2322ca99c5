//! The one place where git is started on the host: cleared environment, fixed configuration, no hooks, no prompts, no
//! optional locks, a time limit.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::descendants::KillAll;
use crate::{Error, durable};

const LIMIT: Duration = Duration::from_secs(60);
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What reaches another repository, perhaps by ssh.
const CONNECTS: [&str; 3] = ["fetch", "ls-remote", "push"];

/// Overrides whatever a repository's own configuration says. Given by environment, which git trusts like the command line.
const FIXED: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.logAllRefUpdates", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("receive.autogc", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("submodule.recurse", "false"),
    ("protocol.ext.allow", "never"),
    ("protocol.fd.allow", "never"),
    ("diff.external", ""),
    ("core.attributesFile", "/dev/null"),
];

/// Whose settings git may read besides the repository's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// No one's: for repositories that Harvest made.
    Nobody,
    /// The person's, so that their credential helpers and keys work: for their own repositories and remotes.
    Person { home: PathBuf, path: OsString, extra: Vec<(OsString, OsString)> },
    /// No one's, but with the credential of an account: for repositories of a forge.
    Account(Private),
}

/// Settings of git that hold a secret. They reach git by its environment, and are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Private(Vec<(String, String)>);

impl Private {
    pub fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(settings.into_iter().collect())
    }
}

impl std::fmt::Debug for Private {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Private(…)")
    }
}

/// The folders of a repository, told to git so that it looks for none itself: what it finds by itself may be a link, or name
/// folders and settings that someone else wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFolders {
    /// Where git is started.
    pub directory: PathBuf,
    /// The repository, or what it has for this work tree alone.
    pub own: PathBuf,
    /// Where settings, refs and objects are.
    pub common: PathBuf,
    /// `None` of a bare repository.
    pub work_tree: Option<PathBuf>,
}

impl GitFolders {
    /// Those of a repository that Harvest made, bare or with its `.git` in the work tree; `None` where there is none.
    fn of(directory: &Path) -> Option<Self> {
        let inner = directory.join(".git");
        let (own, work_tree) = if is_folder(&inner) && is_repository(&inner) {
            (inner, Some(directory.to_owned()))
        } else if is_repository(directory) {
            (directory.to_owned(), None)
        } else {
            return None;
        };
        Some(Self { directory: directory.to_owned(), common: own.clone(), own, work_tree })
    }

    /// Those of a bare repository, whatever else lies in it.
    fn bare(directory: &Path) -> Option<Self> {
        let [directory, own, common] = [(); 3].map(|()| directory.to_owned());
        is_repository(&own).then_some(Self { directory, own, common, work_tree: None })
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> =
            vec![("GIT_DIR".into(), (&self.own).into()), ("GIT_COMMON_DIR".into(), (&self.common).into())];
        env.push(match &self.work_tree {
            Some(work_tree) => ("GIT_WORK_TREE".into(), work_tree.into()),
            None => ("GIT_IMPLICIT_WORK_TREE".into(), "0".into()),
        });
        env
    }
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn is_repository(path: &Path) -> bool {
    path.join("HEAD").exists() && ["objects", "refs"].iter().all(|name| is_folder(&path.join(name)))
}

#[derive(Debug, Clone)]
pub struct Git {
    home: Home,
    limit: Duration,
    /// Of a person's repository, once it was found.
    folders: Option<GitFolders>,
    /// A bare repository that agents push to: git in it takes it for nothing else.
    bare: Option<PathBuf>,
    settings: Vec<(String, String)>,
}

impl Git {
    pub fn new(home: Home) -> Self {
        Self { home, limit: LIMIT, folders: None, bare: None, settings: Vec::new() }
    }

    /// Git that does not look for the repository it is started in, but takes these folders. Elsewhere it takes those that
    /// Harvest made.
    pub fn in_folders(mut self, folders: GitFolders) -> Self {
        self.folders = Some(folders);
        self
    }

    /// Git that takes this folder for a bare repository, or refuses to work in it.
    pub fn in_bare(mut self, directory: PathBuf) -> Self {
        self.bare = Some(directory);
        self
    }

    /// Git with more settings, which override the repository's own.
    pub fn with_settings(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.extend(settings);
        self
    }

    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// What `git <args>` prints in `directory`.
    pub async fn run<S: AsRef<OsStr>>(&self, directory: &Path, args: &[S]) -> Result<Vec<u8>, Error> {
        self.run_with(directory, args, &[], b"").await
    }

    /// The same as one trimmed line of text.
    pub async fn line<S: AsRef<OsStr>>(&self, directory: &Path, args: &[S]) -> Result<String, Error> {
        let output = self.run(directory, args).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    pub async fn run_with<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        args: &[S],
        env: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let command = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
        let output = self.output(directory, args, env, stdin, &command).await?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Git { command, message: if message.is_empty() { output.status.to_string() } else { message } })
    }

    /// What it prints, and whether it says yes (0) or no (1); anything else is an error.
    pub async fn answer<S: AsRef<OsStr>>(&self, directory: &Path, args: &[S]) -> Result<(bool, Vec<u8>), Error> {
        self.answer_with(directory, args, &[]).await
    }

    pub async fn answer_with<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        args: &[S],
        env: &[(&str, &OsStr)],
    ) -> Result<(bool, Vec<u8>), Error> {
        let command = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
        let output = self.output(directory, args, env, b"", &command).await?;
        match output.status.code() {
            Some(code @ (0 | 1)) => Ok((code == 0, output.stdout)),
            _ => {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(Error::Git { command, message })
            }
        }
    }

    async fn output<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        args: &[S],
        env: &[(&str, &OsStr)],
        stdin: &[u8],
        command: &str,
    ) -> Result<std::process::Output, Error> {
        let mut child = self
            .command(directory, args)?
            .envs(env.iter().copied())
            .stdin(if stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::GitMissing { program: "git".into(), source })?;
        let (feed, id) = (child.stdin.take(), child.id());
        let mut finished = std::pin::pin!(tokio::time::timeout(self.limit, async {
            if let Some(mut feed) = feed {
                // A git that does not want all of it closes early; its exit code tells.
                let _ = feed.write_all(stdin).await;
            }
            child.wait_with_output().await
        }));
        // Dropped before the child is, whoever gives up waiting.
        let unfinished = KillAll::new(id);
        let output = finished.as_mut().await;
        if output.is_ok() {
            unfinished.ended();
        }
        match output {
            Ok(output) => output.map_err(|source| Error::GitMissing { program: "git".into(), source }),
            Err(_) => Err(Error::TimedOut { command: command.to_owned(), seconds: self.limit.as_secs() }),
        }
    }

    /// What `git <args>` prints in `directory` goes to the standard input of another git: `stdin | self | into`.
    pub async fn pipe(
        &self,
        directory: &Path,
        args: &[&str],
        stdin: &[u8],
        into: &Git,
        there: &Path,
        takes: &[&str],
    ) -> Result<(), Error> {
        let missing = |source| Error::GitMissing { program: "git".into(), source };
        let (reads, writes) = std::io::pipe().map_err(missing)?;
        let spawn = |mut command: Command| command.stderr(Stdio::piped()).spawn().map_err(missing);
        let mut command = self.command(directory, args)?;
        command.stdin(Stdio::piped()).stdout(writes);
        let mut gives = spawn(command)?;
        let mut command = into.command(there, takes)?;
        command.stdin(reads).stdout(Stdio::null());
        let takes_it = spawn(command)?;
        let feed = gives.stdin.take();
        let both = tokio::time::timeout(self.limit, async {
            if let Some(mut feed) = feed {
                // A git that does not want all of it closes early; its exit code tells.
                let _ = feed.write_all(stdin).await;
            }
            tokio::try_join!(gives.wait_with_output(), takes_it.wait_with_output())
        });
        let command = format!("{} | git {}", args.join(" "), takes.join(" "));
        let Ok(both) = both.await else {
            return Err(Error::TimedOut { command, seconds: self.limit.as_secs() });
        };
        let (gave, took) = both.map_err(missing)?;
        for output in [gave, took] {
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Error::Git { command, message });
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the layer that clears the environment for git")]
    fn command<S: AsRef<OsStr>>(&self, directory: &Path, args: &[S]) -> Result<Command, Error> {
        let mut command = Command::new("git");
        command.args(args).current_dir(directory).env_clear().envs(self.environment());
        command.envs(self.folders_of(directory)?.iter().flat_map(GitFolders::environment)).kill_on_drop(true);
        // Ctrl-C is for us: git ends its work, or is ended. But ssh may ask a person something at their terminal.
        let connects = args.iter().any(|arg| CONNECTS.iter().any(|connects| arg.as_ref() == *connects));
        if !(connects && matches!(self.home, Home::Person { .. })) {
            command.process_group(0);
        }
        Ok(command)
    }

    /// A person's repository is found by git, once, so that git checks whose it is.
    fn folders_of(&self, directory: &Path) -> Result<Option<GitFolders>, Error> {
        if self.bare.as_deref() == Some(directory) {
            let refuse = || Error::Unexpected(format!("{} is not a bare repository", directory.display()));
            return GitFolders::bare(directory).ok_or_else(refuse).map(Some);
        }
        Ok(match &self.folders {
            Some(folders) if folders.directory == directory => Some(folders.clone()),
            Some(_) => GitFolders::of(directory),
            None if matches!(self.home, Home::Person { .. }) => None,
            None => GitFolders::of(directory),
        })
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = fixed_environment();
        match &self.home {
            Home::Nobody | Home::Account(_) => {
                let protocols = if self.home == Home::Nobody { "file" } else { "https:http" };
                env.push(("PATH".into(), SYSTEM_PATH.into()));
                env.push(("HOME".into(), "/nonexistent".into()));
                env.push(("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()));
                env.push(("GIT_ALLOW_PROTOCOL".into(), protocols.into()));
            }
            Home::Person { home, path, extra } => {
                env.push(("PATH".into(), path.clone()));
                env.push(("HOME".into(), home.into()));
                env.push(("GIT_ALLOW_PROTOCOL".into(), "file:https:http:ssh:git".into()));
                env.extend(extra.iter().cloned());
            }
        }
        // Repositories made here may belong to a sandbox's uid; people's own stay under git's ownership check.
        let ownership = (!matches!(self.home, Home::Person { .. })).then_some(("safe.directory", "*"));
        let private = match &self.home {
            Home::Account(Private(settings)) => settings.as_slice(),
            Home::Nobody | Home::Person { .. } => &[],
        };
        let private = private.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let more = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let fixed = FIXED.iter().copied().chain(durable::SETTINGS);
        let settings: Vec<_> = fixed.chain(ownership).chain(private).chain(more).collect();
        env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
            env.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
        }
        env
    }
}

fn fixed_environment() -> Vec<(OsString, OsString)> {
    [
        ("LC_ALL", "C.UTF-8"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_PAGER", "cat"),
    ]
    .into_iter()
    .map(|(key, value)| (key.into(), value.into()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_repository_that_names_other_folders_as_its_own_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (bare, checkout, evil) =
            (root.path().join("bare.git"), root.path().join("checkout"), root.path().join("evil.git"));
        let git = Git::new(Home::Nobody);
        for (path, kind) in [(&bare, "--bare"), (&checkout, "--quiet"), (&evil, "--bare")] {
            std::fs::create_dir(path).unwrap();
            git.run(path, &["init", "--quiet", kind, "--template=", "."]).await.unwrap();
        }
        git.run(&evil, &["config", "user.name", "mallory"]).await.unwrap();
        // What a git that an agent took over could leave in a session's repository.
        for repository in [&bare, &checkout.join(".git")] {
            std::fs::write(repository.join("commondir"), evil.as_os_str().as_encoded_bytes()).unwrap();
        }
        for directory in [&bare, &checkout] {
            let name = git.line(directory, &["config", "user.name"]).await;
            assert!(name.is_err(), "{name:?}");
            let common = git.line(directory, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await;
            assert!(!common.unwrap().contains("evil"));
        }
        assert_eq!(git.line(&bare, &["rev-parse", "--is-bare-repository"]).await.unwrap(), "true");
        assert_eq!(git.line(&checkout, &["rev-parse", "--show-toplevel"]).await.unwrap(), checkout.to_str().unwrap());
    }

    #[tokio::test]
    async fn a_bare_repository_is_taken_for_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (bare, evil) = (root.path().join("bare.git"), root.path().join("bare.git/.git"));
        let git = Git::new(Home::Nobody).in_bare(bare.clone());
        let plain = Git::new(Home::Nobody);
        std::fs::create_dir(root.path().join("made")).unwrap();
        plain.run(&root.path().join("made"), &["init", "--quiet", "--bare", "--template=", "."]).await.unwrap();
        std::fs::rename(root.path().join("made"), &bare).unwrap();
        std::fs::create_dir(&evil).unwrap();
        plain.run(&evil, &["init", "--quiet", "--bare", "--template=", "."]).await.unwrap();
        plain.run(&evil, &["config", "user.name", "mallory"]).await.unwrap();
        assert_eq!(git.line(&bare, &["rev-parse", "--absolute-git-dir"]).await.unwrap(), bare.to_str().unwrap());
        let name = git.line(&bare, &["config", "user.name"]).await;
        assert!(name.is_err(), "{name:?}");
        // Neither does git go on where its objects are someone else's, nor look for another repository above.
        std::fs::rename(bare.join("objects"), root.path().join("objects")).unwrap();
        std::os::unix::fs::symlink(root.path().join("objects"), bare.join("objects")).unwrap();
        let refused = git.line(&bare, &["rev-parse", "--absolute-git-dir"]).await.unwrap_err();
        assert!(refused.to_string().contains("is not a bare repository"), "{refused}");
    }
}

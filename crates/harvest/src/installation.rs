//! Opens a data directory and wires everything together.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harvest_core::{Clock, Code, Entropy, Outcome, Stopping, TaskId, Timestamp};
use harvest_engine::{
    DataFolder, DeliveryPolicy, Engine, ModelChoice, Options, Orphans, Ownership, Recovered, Recovery, Toolchain,
};
use harvest_forge::{Accounts, ClosedFolders, Forge, Forges};
use harvest_gateway::cassette::Cassette;
use harvest_gateway::{Gateway, Prices, Script, Upstream, registry as packages};
use harvest_sandbox::{Binaries, Provider, local, none};
use harvest_store::{OwnerKind, Postgres, Sqlite, Store};
use harvest_vault::{ExposeSecret, Redactor, SecretString};
use harvest_workspace::durable;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::account::VaultAccount;
use crate::agent::registry;
use crate::cli::{Global, SandboxKind};
use crate::config::Key;
#[cfg(feature = "container")]
use crate::container;
use crate::environment::{Environment, ModelKeys, OwnKey};
use crate::failure::Failure;
use crate::keychain::Keychain;
use crate::keyring::VaultKeyring;
use crate::projects::Directory;
use crate::prompts::prompts;
use crate::signed_in::SignedIn;
use crate::{config, demo, evidence, github, output, programs, toolchain};

/// Tells a data directory from any other folder, whatever database it goes with.
const MARK: &str = ".harvest";

#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[derive(Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        if getrandom::fill(&mut bytes).is_err() {
            // No system that runs sandboxes lacks randomness; without it ids could collide, so nothing may go on.
            std::process::abort();
        }
        bytes
    }
}

/// Where the agents of an engine's tasks are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPrograms {
    /// On this machine, or in the image of this process's containers.
    Here,
    /// Where only the worker can see them.
    Elsewhere,
}

#[derive(Debug)]
pub struct Installation {
    pub environment: Environment,
    pub data: DataFolder,
    pub store: Arc<dyn Store>,
    pub redactor: Arc<Redactor>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// As of the start of this process.
    pub keys: ModelKeys,
    pub config: config::Source,
    /// How repositories are opened, with the account on GitHub if there is one by then.
    pub forges: Forges,
    /// What browsers call the server of this process.
    pub public_url: Option<String>,
    /// What was set up over the API.
    pub projects: Directory,
    /// Other machines may work on the same tasks.
    shares_database: bool,
}

impl Installation {
    /// From when this returns, this process redacts the secrets.
    pub async fn learn(&self, secrets: Vec<SecretString>) -> Result<(), Failure> {
        let redactor = self.redactor.clone();
        let internal = |error: &dyn std::fmt::Display| Failure::failed(Code::Internal, error.to_string());
        let learning = tokio::task::spawn_blocking(move || redactor.learn(&secrets));
        learning.await.map_err(|error| internal(&error))?.map_err(|error| internal(&error))
    }

    /// Keys for models as of now: someone may have added or removed one since this process started.
    pub async fn keys_now(&self) -> Result<ModelKeys, Failure> {
        let records = self.store.credentials().await?;
        let keychain = Keychain::of(&self.environment, self.data.path());
        let opening = tokio::task::spawn_blocking(move || keychain.open(records).0);
        let opened = opening.await.map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
        self.learn(opened.iter().flat_map(github::secrets).collect()).await?;
        Ok(self.environment.model_keys()?.and_of(&opened))
    }

    /// Opens the data directory and puts right what a killed process left there.
    pub async fn open(global: &Global, environment: Environment) -> Result<Self, Failure> {
        let path = data_path(global, &environment)?;
        make_private(&path)?;
        let data = DataFolder::new(path);
        let store = open_store(global, &environment, &data).await.map_err(Failure::refusing)?;
        let (opened, unusable) = Keychain::of(&environment, data.path()).open_all(store.as_ref()).await?;
        for reason in unusable {
            output::complain(&format!("warning[{}]: {reason}", Code::MasterKey));
        }
        let keys = environment.model_keys()?.and_of(&opened);
        let copy = |secret: &SecretString| SecretString::from(secret.expose_secret().to_owned());
        let secrets = keys.own.values().map(|own| copy(&own.key));
        let secrets = secrets.chain(opened.iter().flat_map(github::secrets));
        let internal = |error: harvest_vault::Error| Failure::failed(Code::Internal, error.to_string());
        let redactor = Redactor::of_process().map_err(internal)?;
        let secrets: Vec<SecretString> = secrets.collect();
        redactor.learn(&secrets).map_err(internal)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let projects = Directory::open(store.clone()).await?;
        let shares_database = database_url(global, &environment).is_some();
        let redactor = Arc::new(redactor);
        let keychain = Keychain::of(&environment, data.path());
        let account = VaultAccount::new(store.clone(), keychain, redactor.clone(), clock.clone(), environment.user());
        account.begin(&opened);
        let installation = Self {
            forges: forges(&environment, data.path(), Arc::new(account)),
            public_url: None,
            config: config::source(global, &environment),
            environment,
            data,
            store,
            redactor,
            clock,
            entropy: Arc::new(SystemEntropy),
            keys,
            projects,
            shares_database,
        };
        installation.put_right(Orphans::Leave).await?;
        Ok(installation)
    }

    /// Clears up after processes that were killed, and tells what became of their tasks.
    pub async fn put_right(&self, orphans: Orphans) -> Result<Recovered, Failure> {
        let recovered = self.recover(orphans).await?;
        for task in &recovered.queued_again {
            output::complain(&format!(
                "note: task {} is in the queue again: the worker that had it was killed",
                task.short()
            ));
        }
        if recovered.left > 0 && orphans == Orphans::Leave {
            let (agents, them) = match recovered.left {
                1 => ("1 agent of a worker that was killed is still running".to_owned(), "it"),
                left => (format!("{left} agents of workers that were killed are still running"), "them"),
            };
            output::complain(&format!(
                "note: {agents}; `harvest up` or `harvest serve` takes {them} over, `harvest task cancel` ends one"
            ));
        }
        for task in &recovered.interrupted {
            let id = task.short();
            output::complain(&format!(
                "note: task {id} is interrupted: its command was stopped; `harvest session resume {id}` continues it, and \
                 repeats the work since its last checkpoint"
            ));
        }
        for task in &recovered.ended {
            output::complain(&format!(
                "note[{}]: task {} was ended: the process working on it had been killed",
                Code::OwnerDied,
                task.short()
            ));
        }
        Ok(recovered)
    }

    /// Nothing to do is the usual case and costs two small reads.
    async fn recover(&self, orphans: Orphans) -> Result<Recovered, Failure> {
        let nothing_left =
            std::fs::read_dir(self.data.sandboxes()).map_or(true, |mut entries| entries.next().is_none());
        if self.store.owners().await?.is_empty() && nothing_left {
            return Ok(Recovered::default());
        }
        let git = self.environment.git();
        let open = async |name: &str| -> Option<Box<dyn Forge>> { harvest_forge::open(name, git.clone()).await.ok() };
        let recovered = self.recovery().run(orphans, open).await?;
        self.tidy();
        Ok(recovered)
    }

    /// Ends a task whose worker is dead while its agent is not. False when it is not so.
    pub async fn cancel_left(&self, task: &TaskId) -> Result<bool, Failure> {
        let git = self.environment.git();
        let open = async |name: &str| -> Option<Box<dyn Forge>> { harvest_forge::open(name, git.clone()).await.ok() };
        let cancelled = self.recovery().cancel(task, open).await?;
        if cancelled {
            self.recover(Orphans::Leave).await?;
        }
        // Looking for sandboxes makes the folder that they would be in.
        self.tidy();
        Ok(cancelled)
    }

    /// Cancels a task that no one works on, and delivers what its turn has done. `None` when it is not so.
    pub async fn cancel_waiting(&self, task: &TaskId, how: Stopping) -> Result<Option<Outcome>, Failure> {
        let cancelled = self.recovery().cancel_waiting(task, how, self.entropy.as_ref(), &self.forges).await;
        // Looking for sandboxes makes the folder that they would be in.
        self.tidy();
        Ok(cancelled?)
    }

    fn recovery(&self) -> Recovery {
        let mut kinds = vec![SandboxKind::Local, SandboxKind::None];
        #[cfg(feature = "container")]
        kinds.extend(container::was_used(self).then_some(SandboxKind::Container));
        Recovery {
            data: self.data.clone(),
            store: self.store.clone(),
            providers: kinds.into_iter().filter_map(|kind| self.make_provider(kind).ok()).collect(),
            redactor: self.redactor.clone(),
            clock: self.clock.clone(),
        }
    }

    /// The folder for sockets goes when no sandbox is left in it; whoever needs it makes it again.
    pub fn tidy(&self) {
        if let Ok(folder) = self.runtime_folder() {
            let _ = std::fs::remove_dir(folder);
        }
    }

    /// The end of work: an orderly one leaves nothing to do. After a breakdown this process cleans up after itself like after
    /// any other, so that no task is left unfinished and no sandbox running.
    pub async fn let_go<T>(&self, owner: Ownership, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.is_ok() {
            owner.release().await?;
        } else {
            drop(owner);
            // What cannot be done now, say because the disk is full, the next command does.
            let _ = self.recover(Orphans::Remove).await;
        }
        self.tidy();
        result
    }

    /// For work. Whatever keeps it from beginning is told now.
    pub fn provider(&self, kind: SandboxKind) -> Result<Arc<dyn Provider>, Failure> {
        #[cfg(feature = "container")]
        if kind == SandboxKind::Container {
            container::check(self)?;
        }
        self.make_provider(kind)
    }

    fn make_provider(&self, kind: SandboxKind) -> Result<Arc<dyn Provider>, Failure> {
        let io = |error: std::io::Error| {
            let code =
                if error.kind() == std::io::ErrorKind::StorageFull { Code::DiskFull } else { Code::DataDirectory };
            let message = format!("the programs for the sandbox cannot be written: {error}");
            Failure::refused(
                code,
                message,
                "free some space or check permissions, or choose another place with --data-dir",
            )
        };
        let folder = harvest_sandboxed::write_to(&self.data.path().join("bin")).map_err(io)?;
        let binaries = Binaries::in_folder(folder);
        let (state, runtime) = (self.data.sandboxes(), self.runtime_folder().map_err(io)?);
        Ok(match kind {
            SandboxKind::Local => {
                let (_, tools) = self.toolchain();
                Arc::new(local::Local::new(local::Options { state: state.join("local"), runtime, binaries, tools })?)
            }
            #[cfg(feature = "container")]
            SandboxKind::Container => container::provider(self, state.join(container::FOLDER), runtime, binaries)?,
            SandboxKind::None => {
                Arc::new(none::Unisolated::new(none::Options { state: state.join("none"), runtime, binaries })?)
            }
        })
    }

    /// Sockets of this data directory alone: whatever is found there and is not recorded here counts as left behind. Named
    /// after the folder's number, which is short and the same by whatever path it is reached.
    pub fn runtime_folder(&self) -> std::io::Result<PathBuf> {
        let shared = self.environment.runtime_folder();
        make_own(&shared)?;
        let folder = std::fs::metadata(self.data.path())?;
        Ok(shared.join(format!("{:x}-{:x}", folder.dev(), folder.ino())))
    }

    /// What sandboxes of this machine get to run, and what they must be shown for it.
    pub fn toolchain(&self) -> (Toolchain, Vec<PathBuf>) {
        let (mut toolchain, mut shown) = toolchain::find(&self.environment);
        let search = self.environment.search_path();
        let programs =
            registry(&self.environment).map(|registry| programs::find(&registry, search)).unwrap_or_default();
        toolchain.programs = Some(programs.found);
        for folder in programs.interpreters.iter().rev().filter(|folder| !shown.contains(folder)) {
            toolchain.path = format!("{}:{}", folder.display(), toolchain.path);
        }
        for path in programs.shown {
            if !shown.iter().any(|known| path.starts_with(known)) {
                shown.push(path);
            }
        }
        (toolchain, shown)
    }

    pub fn engine(
        &self,
        provider: Arc<dyn Provider>,
        script: Option<Arc<Script>>,
        model: ModelChoice,
    ) -> Result<Engine, Failure> {
        self.engine_with(provider, script, None, model, AgentPrograms::Here)
    }

    /// An engine that only queues: it needs neither a sandbox nor a model.
    pub fn queueing_engine(&self) -> Result<Engine, Failure> {
        let model = ModelChoice { provider: harvest_agents::Provider::Anthropic, model: None };
        self.engine_with(self.provider(SandboxKind::None)?, None, None, model, self.agent_programs())
    }

    /// Tasks that are queued here may be worked on in containers, or by workers of other machines.
    fn agent_programs(&self) -> AgentPrograms {
        #[cfg(feature = "container")]
        if container::was_used(self) || self.environment.text("HARVEST_CONTAINER_IMAGE").is_some() {
            return AgentPrograms::Elsewhere;
        }
        if self.shares_database { AgentPrograms::Elsewhere } else { AgentPrograms::Here }
    }

    /// An engine whose model calls are recorded, or come from a recording.
    pub fn engine_with(
        &self,
        provider: Arc<dyn Provider>,
        script: Option<Arc<Script>>,
        cassette: Option<Cassette>,
        model: ModelChoice,
        agents: AgentPrograms,
    ) -> Result<Engine, Failure> {
        let internal = |error: &dyn std::fmt::Display| Failure::failed(Code::Internal, error.to_string());
        let settings = self.settings()?;
        let gateway = Gateway::new(harvest_gateway::Options {
            patience: settings.patience(),
            script,
            sample: Some(demo::script(true)?),
            cassette,
            prices: self.prices()?,
            registries: Some(self.registries()?),
            ..harvest_gateway::Options::default()
        })
        .map_err(|error| internal(&error))?;
        let registry = registry(&self.environment)?;
        let (mut toolchain, _) = self.toolchain();
        // A container has what its image has.
        if provider.name() == "container" || agents == AgentPrograms::Elsewhere {
            toolchain.programs = None;
        }
        Ok(Engine::new(Options {
            data: self.data.clone(),
            store: self.store.clone(),
            provider,
            gateway,
            keyring: Arc::new(self.keyring()?),
            tenancy: self.projects.tenancy(settings.tenancy()),
            registry: Arc::new(registry),
            prompts: prompts(&self.environment)?,
            redactor: self.redactor.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            toolchain,
            forges: self.forges.clone(),
            delivery: DeliveryPolicy {
                attestor: Some(Arc::new(evidence::Key::new(self.data.path()))),
                people: Some(Arc::new(SignedIn::new(self))),
                ..settings.delivery(self.public_url.as_deref())
            },
            model,
            egress: self.projects.hosts(settings.hosts()),
            limits: settings.limits(),
        }))
    }

    /// Where sandboxes get packages from.
    pub fn registries(&self) -> Result<packages::Options, Failure> {
        let settings = self.settings()?;
        Ok(packages::Options {
            folder: self.data.registries(),
            max_bytes: packages::Options::MAX_BYTES,
            mirrors: settings.mirrors(),
            file_hosts: settings.names(Key::RegistryFileHosts),
            proxy: settings.text(Key::RegistryProxy),
            ca_file: settings.text(Key::RegistryCaFile).map(PathBuf::from),
            clock: self.clock.clone(),
        })
    }

    /// The table that Harvest is built with, and the rows of `prices.toml` beside the settings.
    fn prices(&self) -> Result<Prices, Failure> {
        let file = self.environment.config_folder().map(|folder| folder.join("prices.toml"));
        let Some(file) = file.filter(|file| file.exists()) else { return Ok(Prices::embedded()) };
        Prices::load(&file).map_err(|error| {
            let help = "correct it, or move it away; docs/gateway.md has an example";
            Failure::refused(Code::BadConfig, error.to_string(), help)
        })
    }

    /// The vault's keys for whoever they belong to, and this installation's own for everyone.
    fn keyring(&self) -> Result<VaultKeyring, Failure> {
        let own = |(provider, OwnKey { key, url }): (&&'static str, &OwnKey)| {
            Upstream::new(provider, "environment", url.as_deref(), key).map_err(|error| {
                let help = "correct it where it is set: the address in ANTHROPIC_BASE_URL, OPENAI_BASE_URL, \
                            GOOGLE_GEMINI_BASE_URL or OLLAMA_HOST, the key in the variable beside it";
                Failure::refused(Code::BadConfig, error.to_string(), help)
            })
        };
        let own = self.keys.own.iter().map(own).collect::<Result<_, _>>()?;
        let keychain = Keychain::of(&self.environment, self.data.path());
        Ok(VaultKeyring::new(keychain, self.store.clone(), self.redactor.clone(), self.clock.clone(), own))
    }

    /// Makes this process an owner of tasks.
    pub async fn own(&self, kind: OwnerKind) -> Result<Ownership, Failure> {
        Ok(Ownership::register(&self.data, self.store.clone(), self.entropy.as_ref(), kind).await?)
    }
}

/// Whether there is a database already that credentials may be in.
pub fn may_have_a_vault(global: &Global, environment: &Environment) -> bool {
    database_url(global, environment).is_some()
        || data_path(global, environment).is_ok_and(|path| DataFolder::new(path).database().exists())
}

/// Where PostgreSQL is, if tasks and journals are to be kept there.
pub fn database_url<'a>(global: &'a Global, environment: &'a Environment) -> Option<&'a str> {
    global.database_url.as_deref().or_else(|| environment.text("HARVEST_DATABASE_URL"))
}

/// Opens repositories as the person who runs this, or with the account on GitHub; none of those that agents could have made.
pub fn forges(environment: &Environment, data: &Path, accounts: Arc<dyn Accounts>) -> Forges {
    let closed = ClosedFolders::new([data.to_owned(), environment.runtime_folder()]);
    // The sample repository, which no sandbox writes to.
    Forges::new(environment.git(), accounts, closed.but(data.join(demo::FOLDER)))
        .without_keys(harvest_engine::looks_like_a_key)
}

/// PostgreSQL where one is named, else the file in the data directory.
pub async fn open_store(
    global: &Global,
    environment: &Environment,
    data: &DataFolder,
) -> Result<Arc<dyn Store>, Failure> {
    match database_url(global, environment) {
        Some(url) => Ok(Arc::new(Postgres::connect(url).await?)),
        None => Ok(Arc::new(Sqlite::open(&data.database())?)),
    }
}

/// The folder of the sockets may lie where anyone can make folders: one that someone else made is not used.
fn make_own(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let message = format!("{} belongs to someone else; remove it, or set XDG_RUNTIME_DIR", path.display());
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, message));
    }
    if let Some(mode) = open_to_others(&found) {
        let message = format!(
            "{0} is open to others (mode {mode:o}); close it: chmod 700 {0}, or set XDG_RUNTIME_DIR",
            path.display()
        );
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// The mode of a folder that others than its owner may look into.
fn open_to_others(folder: &std::fs::Metadata) -> Option<u32> {
    let mode = folder.mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

/// The data directory that was named, or the usual one.
pub fn data_path(global: &Global, environment: &Environment) -> Result<PathBuf, Failure> {
    let path = match &global.data_dir {
        Some(path) => std::path::absolute(path).ok(),
        None => environment.default_data_folder(),
    };
    path.ok_or_else(|| {
        Failure::refused(Code::DataDirectory, "there is no home folder for the data", "name a folder with --data-dir")
    })
}

/// State folders are their owner's alone. A folder that holds someone else's things is not taken over, and the mode of one that is
/// there already is its owner's business: it is refused, never changed.
fn make_private(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.to_str().is_none_or(|text| text.contains(char::is_control)) {
        let message = format!("the data directory {shown:?} has control characters in its path, or is not UTF-8");
        return Err(Failure::refused(Code::DataDirectory, message, "choose another with --data-dir"));
    }
    let help = "check its owner and permissions, or choose another with --data-dir";
    let refuse = |error: std::io::Error| {
        let code = if error.kind() == std::io::ErrorKind::StorageFull { Code::DiskFull } else { Code::DataDirectory };
        Failure::refused(code, format!("the data directory {shown} cannot be used: {error}"), help)
    };
    if !path.exists() {
        let before = durable::nearest_existing(path).to_owned();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(refuse)?;
        durable::write(&path.join(MARK), b"").map_err(refuse)?;
        // What is written into it is worth nothing when its name is lost.
        return durable::sync_names(path, &before).map_err(refuse);
    }
    let ours = path.join(MARK).exists() || path.join("harvest.db").exists();
    if !ours && std::fs::read_dir(path).map_err(refuse)?.next().is_some() {
        let message = format!("the data directory {shown} contains files that are not Harvest's");
        return Err(Failure::refused(Code::DataDirectory, message, "choose an empty or new folder with --data-dir"));
    }
    if let Some(mode) = open_to_others(&std::fs::metadata(path).map_err(refuse)?) {
        let message = format!("the data directory {shown} is open to others (mode {mode:o})");
        let help = format!("close it: chmod 700 {shown}; or choose another with --data-dir");
        return Err(Failure::refused(Code::DataDirectory, message, help));
    }
    rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|error| match error {
        Errno::ACCESS | Errno::ROFS => {
            let message = format!("the data directory {shown} is read-only for you: {error}");
            let help = format!("make it writable: chmod u+rwx {shown}; or choose another with --data-dir");
            Failure::refused(Code::DataDirectory, message, help)
        }
        error => refuse(error.into()),
    })?;
    if path.join(MARK).exists() { Ok(()) } else { std::fs::write(path.join(MARK), "").map_err(refuse) }
}

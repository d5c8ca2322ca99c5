//! `harvest init`: from nothing to the first verified branch, one step after the other. Each step looks at what is there
//! already, so that it can be left at any point and started again.

mod questions;
mod report;
mod signals;

use std::io::IsTerminal;

use clap::Parser;
use clap::error::ErrorKind;
use harvest_agents::Provider;
use harvest_core::{Code, Credential, DEFAULT_CREDENTIAL, Evidence, Scope};
use harvest_engine::prepare::commands_for;
use harvest_engine::{ModelChoice, Stop, Trial, find_test_command};
use harvest_forge::{Base, Forge};
use harvest_gateway::{KeyCheck, Upstream, key_form_mismatch};
use harvest_sandbox::State;
use harvest_store::{OwnerKind, Record, TaskQuery};
use harvest_vault::SecretString;
use harvest_workspace::{Mirror, Mirrors};
use serde_json::json;

use crate::agent::Item;
use crate::cli::{Cli, Command, Global, Init, RepoAdd, RepoBuild, SandboxKind};
use crate::credential::{self, NewCredential};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{self, Installation};
use crate::view::{Style, clean, elapsed};
use crate::{agent, audit, doctor, keychain, output, package_managers, repo, run};

use questions::Questions;
use report::{Report, StepState};
use signals::Signals;

const KEY_TRIES: u32 = 3;

/// Whether nothing was typed but the program's name, at a terminal, and nothing was ever set up.
pub fn is_first_day(error: &clap::Error, environment: &Environment) -> bool {
    error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && std::env::args_os().len() == 1
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && !installation::may_have_a_vault(&command().global, environment)
}

/// `harvest init` without options.
pub fn command() -> Cli {
    Cli::parse_from(["harvest", "init"])
}

pub async fn init(global: &Global, environment: Environment, options: Init) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if !options.yes && (global.json || !std::io::stdin().is_terminal()) {
        let message = "`harvest init` asks questions at a terminal";
        let failure = Failure::refused(Code::BadOption, message, "take the suggested answers: harvest init --yes");
        if global.json {
            Report::new(style, true).close(Some(&failure));
        }
        return Err(failure);
    }
    let mut guide = Guide {
        global,
        style,
        signals: Signals::watch(),
        questions: Questions::new(style, options.yes),
        report: Report::new(style, global.json),
        options,
    };
    // Programs read one document: the commands that the steps run print nothing beside it.
    let diverted = global.json.then(output::divert);
    let exit = guide.run(environment).await;
    drop(diverted);
    guide.report.close(exit.as_ref().err());
    exit
}

struct Guide<'a> {
    global: &'a Global,
    style: Style,
    signals: Signals,
    questions: Questions,
    report: Report,
    options: Init,
}

/// Where the key of a step comes from.
#[derive(Clone, Copy)]
enum KeyOrigin<'k> {
    /// Typed just now; its last four characters.
    Saved(&'k str),
    /// In the environment or in the vault before.
    Present,
}

/// A repository and the commit that work would start from.
struct Chosen {
    /// As it was named.
    source: String,
    forge: Box<dyn Forge>,
    base: Base,
    mirror: Mirror,
}

impl Guide<'_> {
    async fn run(&mut self, environment: Environment) -> Result<Exit, Failure> {
        self.report.greet();
        let installation = Installation::open(self.global, environment.clone()).await.map_err(Failure::refusing)?;
        if !self.machine(&installation).await {
            return Ok(Exit::Failed);
        }
        let agent = self.agent(&installation).await?;
        self.key(&installation, &agent).await?;
        let Some(chosen) = self.repository(&installation).await? else {
            return Ok(self.report.exit());
        };
        self.dependencies(&installation, &chosen).await?;
        let test = self.tests(&installation, &chosen).await?;
        drop(installation);
        self.task(environment, &agent, &chosen, test).await
    }

    async fn machine(&mut self, installation: &Installation) -> bool {
        let facts = doctor::machine(installation).await;
        let missing: Vec<_> = facts.iter().filter(|fact| fact.state == State::Missing).collect();
        for fact in &missing {
            let detail = format!("{}: {}", fact.name, fact.detail);
            self.report.step("machine", StepState::Failed, &detail, fact.fix.as_deref());
        }
        if missing.is_empty() {
            self.report.step("machine", StepState::Done, "git and sandboxes work", None);
        }
        missing.is_empty()
    }

    /// Which agent works, tried with a model that is played by a script.
    async fn agent(&mut self, installation: &Installation) -> Result<Item, Failure> {
        let mut items =
            agent::items(&installation.environment, &installation.keys, &agent::Versions::default()).await?;
        items.sort_by_key(|item| (!item.installed, !item.default));
        loop {
            let installed: Vec<&Item> = items.iter().filter(|item| item.installed).collect();
            let names: Vec<String> = installed.iter().map(|item| describe(item)).collect();
            let missing: Vec<&str> = items.iter().filter(|item| !item.installed).map(|item| item.id.as_str()).collect();
            if !missing.is_empty() {
                let text =
                    format!("not installed: {}; `harvest agent list` says how to install them", missing.join(", "));
                self.report.note(&text);
            }
            let chosen = self.questions.choose("Which agent?", &names).await;
            let Some(id) = installed.get(chosen.unwrap_or(0)).map(|item| item.id.clone()) else {
                return Err(Failure::failed(Code::Internal, "no agent is part of this program"));
            };
            let position = items.iter().position(|item| item.id == id).unwrap_or(0);
            if chosen.is_none() {
                let fix = format!("harvest agent check {id}");
                self.report.step("agent", StepState::Skipped, &format!("{id}, not tried"), Some(&fix));
                return Ok(items.swap_remove(position));
            }
            self.report.note("trying it in a sandbox, with a scripted model");
            let stop = self.signals.stop();
            let checked = agent::rehearsal(self.global, &installation.environment, &id, stop).await;
            self.signals.leave();
            let checked = checked?;
            let broken = checked.checks.iter().find(|check| check.state == harvest_api_types::CheckState::Fails);
            match broken {
                None => self.report.step("agent", StepState::Done, &format!("{id} works in a sandbox"), None),
                Some(check) => {
                    let detail = format!("{id}: {}: {}", check.name, check.detail);
                    let fix = format!("harvest agent check {id}");
                    self.report.step("agent", StepState::Failed, &detail, Some(&fix));
                    if self.questions.confirm("Choose another?", false).await {
                        continue;
                    }
                }
            }
            return Ok(items.swap_remove(position));
        }
    }

    /// A key that the agent's vendor accepts.
    async fn key(&mut self, installation: &Installation, agent: &Item) -> Result<(), Failure> {
        if let Some(provider) = agent.usable_providers.first() {
            let check = check_present(installation, provider.as_str()).await?;
            self.judge(provider.as_str(), &check, KeyOrigin::Present);
            return Ok(());
        }
        let providers: Vec<String> = agent.providers.iter().map(|provider| provider.as_str().to_owned()).collect();
        let chosen = match providers.len() {
            1 => Some(0),
            _ => self.questions.choose("Which model provider?", &providers).await,
        };
        let Some(provider) = chosen.and_then(|index| providers.get(index)) else {
            let fix = format!("harvest credential add {}", providers.first().map_or("PROVIDER", String::as_str));
            self.report.step("key", StepState::Skipped, "no model provider chosen", Some(&fix));
            return Ok(());
        };
        let hint = match provider.as_str() {
            "anthropic" => "an API key, or for a Claude subscription what `claude setup-token` prints",
            _ => "an API key",
        };
        for _ in 0..KEY_TRIES {
            let question = format!("{provider}: paste {hint}; it is not shown, and Enter skips");
            let secret = match self.questions.secret(&question).await {
                Ok(Some(secret)) => secret,
                Ok(None) => break,
                Err(reason) => {
                    self.report.note(&format!("the key {reason}; try again"));
                    continue;
                }
            };
            let base_url = installation.environment.model_host(provider);
            if let Some(reason) = key_form_mismatch(provider, base_url, &secret) {
                self.report
                    .note(&format!("this is not a key of {provider}: it {reason}; try again, or press Enter to skip"));
                continue;
            }
            let check = check(provider, base_url, &secret).await;
            if check == KeyCheck::Refused {
                self.report.note(&format!("{provider} rejects this key; try another, or press Enter to skip"));
                continue;
            }
            let new = NewCredential {
                provider: provider.clone(),
                scope: Scope::User(installation.environment.user()),
                name: DEFAULT_CREDENTIAL.to_owned(),
                base_url: base_url.map(str::to_owned),
            };
            let keeping = credential::keep(installation, new, &secret);
            let saved = recorded("credential.create", &installation.environment, keeping).await?;
            self.judge(provider, &check, KeyOrigin::Saved(&saved.last4));
            return Ok(());
        }
        let fix = format!("harvest credential add {provider}");
        self.report.step("key", StepState::Skipped, &format!("no {provider} key"), Some(&fix));
        Ok(())
    }

    fn judge(&mut self, provider: &str, check: &KeyCheck, origin: KeyOrigin<'_>) {
        let (key, state) = match origin {
            KeyOrigin::Saved(last4) => (format!("{provider} key …{last4}"), "saved"),
            KeyOrigin::Present => (format!("{provider} key"), "present"),
        };
        match check {
            KeyCheck::Accepted => self.report.step("key", StepState::Done, &format!("{key} works"), None),
            KeyCheck::Refused => {
                let fix = format!("harvest credential add {provider}");
                self.report.step("key", StepState::Failed, &format!("{key} was rejected by its host"), Some(&fix));
            }
            KeyCheck::Unclear(reason) => {
                let detail = format!("{key} {state}, not checked: {reason}");
                self.report.step("key", StepState::Unchecked, &detail, Some("harvest doctor --reach"));
            }
        }
    }

    async fn repository(&mut self, installation: &Installation) -> Result<Option<Chosen>, Failure> {
        let mut source = self.options.repo.clone().unwrap_or_else(|| ".".to_owned());
        loop {
            let trouble;
            match choose(installation, &source).await {
                Ok(chosen) => {
                    let commit = chosen.base.commit.get(..10).unwrap_or(&chosen.base.commit);
                    let detail = format!("{} at {commit}", clean(chosen.forge.name()));
                    self.report.step("repository", StepState::Done, &detail, None);
                    return Ok(Some(chosen));
                }
                Err(failure) => {
                    trouble = clean(&failure.message);
                    self.report.note(&clean(&failure.with_help()));
                }
            }
            match self.questions.text("Path or URL of a repository", None).await {
                Some(typed) => source = typed,
                None => {
                    self.report.step("repository", StepState::Skipped, &trouble, Some("harvest init --repo PATH"));
                    return Ok(None);
                }
            }
        }
    }

    /// Installs what the repository needs, once, so that every task starts with it.
    async fn dependencies(&mut self, installation: &Installation, chosen: &Chosen) -> Result<(), Failure> {
        let commands = commands_for(&chosen.mirror, &chosen.base.commit).await?;
        if commands.is_empty() {
            self.report.step("dependencies", StepState::Done, "none to install", None);
            return Ok(());
        }
        let commands = clean(&commands.join("; "));
        let again = format!("harvest repo add {}", chosen.source);
        if !self.questions.confirm(&format!("Install dependencies in a sandbox: {commands}?"), true).await {
            self.report.step("dependencies", StepState::Skipped, &commands, Some(&again));
            return Ok(());
        }
        self.registries(installation).await?;
        let options = RepoAdd { source: chosen.source.clone(), ..RepoAdd::default() };
        let adding = repo::keep(installation, options);
        let added = match recorded("repo.create", &installation.environment, adding).await {
            Ok(added) => added,
            Err(failure) => {
                let fix = failure.help.unwrap_or(again);
                self.report.step("dependencies", StepState::Failed, &clean(&failure.message), Some(&fix));
                return Ok(());
            }
        };
        let build = RepoBuild { name: added.name.clone(), force: false, tries: 1 };
        self.signals.elsewhere();
        let built = repo::build(self.global, installation, self.style, build).await;
        self.signals.leave();
        if built? == Exit::Done {
            self.report.step("dependencies", StepState::Done, &format!("installed by {commands}"), None);
        } else {
            let fix = format!("harvest repo build {}", added.name);
            self.report.step("dependencies", StepState::Failed, "installation failed", Some(&fix));
        }
        Ok(())
    }

    /// Offers to get packages where this person's package managers get them.
    async fn registries(&mut self, installation: &Installation) -> Result<(), Failure> {
        let unused = package_managers::unused(&installation.environment, &installation.registries()?);
        let Some(file) = installation.settings_file().filter(|_| !unused.is_empty()) else { return Ok(()) };
        for setting in &unused {
            self.report.note(&clean(&format!("{} has {}", setting.from, setting.line())));
        }
        if self.questions.confirm("Let sandboxes get packages the same way?", true).await {
            package_managers::adopt(&file, &unused)?;
            self.report.note(&format!("saved under [registries] in {}", file.display()));
        }
        Ok(())
    }

    /// The command that verifies results, if another than the one that is found. It is tried once.
    async fn tests(&mut self, installation: &Installation, chosen: &Chosen) -> Result<Option<String>, Failure> {
        // It is the repository's own text, and shown at a terminal.
        let found = find_test_command(&chosen.mirror, &chosen.base.commit).await?.map(|found| clean(&found));
        let typed = self.questions.text("Test command that verifies results", found.as_deref()).await;
        match (typed, found) {
            (Some(typed), found) if found.as_ref() != Some(&typed) => {
                let keep = format!("commit .harvest.toml with: test = {}", json!(typed));
                let tried = self.try_tests(installation, chosen, &typed).await?;
                self.tried(&typed, "for this first task", tried, Some(&keep));
                Ok(Some(typed))
            }
            (None, Some(found)) => {
                let detail = format!("no choice made: tasks run `{found}`, found in the repository");
                self.report.step("tests", StepState::Skipped, &detail, None);
                Ok(None)
            }
            (Some(_), Some(found)) => {
                let tried = self.try_tests(installation, chosen, &found).await?;
                self.tried(&found, "found in the repository", tried, None);
                Ok(None)
            }
            (_, None) => {
                let fix = "harvest run --test CMD \"Make the failing test pass\"";
                self.report.step("tests", StepState::Skipped, "none: results will not be verified", Some(fix));
                Ok(None)
            }
        }
    }

    /// Runs the test command in a sandbox, with the dependencies that were installed. `None` when that was skipped.
    async fn try_tests(
        &mut self,
        installation: &Installation,
        chosen: &Chosen,
        command: &str,
    ) -> Result<Option<Trial>, Failure> {
        if self.options.skip_test_run {
            return Ok(None);
        }
        let stop = self.signals.stop();
        self.report.note("running it once in a sandbox; Ctrl-C skips this");
        let tried = trial(installation, chosen, command, &stop).await;
        self.signals.leave();
        // What Ctrl-C cuts off says nothing about the command.
        tried.or_else(|failure| if stop.is_requested() { Ok(None) } else { Err(failure) })
    }

    fn tried(&mut self, command: &str, origin: &str, tried: Option<Trial>, keep: Option<&str>) {
        let command = format!("`{command}`, {origin}");
        let Some(trial) = tried else {
            self.report.step("tests", StepState::Unchecked, &format!("{command}, not tried"), keep);
            return;
        };
        let time = elapsed(trial.duration_ms);
        let counts = [(trial.passed, "passed"), (trial.failed, "failed"), (trial.skipped, "skipped")];
        let counts = counts.iter().filter_map(|(count, word)| Some(format!("{} {word}", count.filter(|n| *n > 0)?)));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let unloaded = trial.unloaded.as_deref().map(clean);
        let (state, result) = match (trial.exit_code, &unloaded) {
            _ if trial.timed_out => (StepState::Failed, format!("did not end within {time}")),
            (Some(_), Some(unloaded)) if trial.ran_tests() => {
                (StepState::Unchecked, format!("{counts} in {time}, but {unloaded}"))
            }
            // Tests that fail before the first task are what it may be about.
            (Some(_), None) if trial.ran_tests() => (StepState::Done, format!("{counts} in {time}")),
            (Some(code), Some(unloaded)) => (StepState::Failed, format!("ended with exit code {code}: {unloaded}")),
            (Some(0), _) if trial.proves_nothing.is_some() => {
                (StepState::Unchecked, "passes but proves nothing".to_owned())
            }
            (Some(0), _) if trial.passed.is_none() => (StepState::Done, "passed; it prints no counts".to_owned()),
            (Some(0), _) => (StepState::Unchecked, "ran no tests".to_owned()),
            (Some(code), _) => (StepState::Failed, format!("ended with exit code {code}")),
            (None, _) => (StepState::Failed, "was killed".to_owned()),
        };
        let is_in_doubt = state == StepState::Failed || unloaded.is_some();
        if is_in_doubt {
            clean(&trial.output).lines().for_each(|line| self.report.note(&format!("  {line}")));
        }
        let fix = match (&trial.hint, state) {
            (Some(hint), _) if is_in_doubt => Some(clean(hint)),
            (_, StepState::Unchecked) if trial.proves_nothing.is_some() => trial.proves_nothing.map(str::to_owned),
            (None, StepState::Failed) => Some("harvest init, with a test command that runs in the sandbox".to_owned()),
            _ => keep.map(str::to_owned),
        };
        self.report.step("tests", state, &format!("{command}: {result}"), fix.as_deref());
    }

    /// What the first task, which has completed, came to.
    async fn result(&self, environment: Environment) -> Result<&'static str, Failure> {
        let installation = Installation::open(self.global, environment).await?;
        let newest = installation.store.tasks(TaskQuery { limit: 1, ..TaskQuery::default() }).await?;
        Ok(match newest.items.first() {
            Some(task) if task.branch.is_none() => "done, no changes",
            Some(task) if task.evidence.as_ref().is_some_and(Evidence::proves_success) => "done and verified",
            _ => "done, not verified",
        })
    }

    async fn task(
        &mut self,
        environment: Environment,
        agent: &Item,
        chosen: &Chosen,
        test: Option<String>,
    ) -> Result<Exit, Failure> {
        let prompt = match self.options.task.clone() {
            Some(prompt) => Some(prompt),
            None => self.questions.text("First task, e.g. \"Make the failing test pass\"", None).await,
        };
        let Some(prompt) = prompt else {
            self.report.step("task", StepState::Skipped, "none", Some("harvest run \"Make the failing test pass\""));
            return Ok(self.report.exit());
        };
        let mut words = vec!["harvest", "run", "--repo", &chosen.source, "--agent", &agent.id];
        if let Some(test) = &test {
            words.extend(["--test", test]);
        }
        words.extend(["--", &prompt]);
        let parsed = Cli::try_parse_from(words).map_err(|error| Failure::failed(Code::BadOption, error.to_string()))?;
        let Command::Run(options) = parsed.command else {
            return Err(Failure::failed(Code::Internal, "`run` was parsed as another command"));
        };
        self.report.pause();
        self.signals.elsewhere();
        let asker = environment.clone();
        let ran = recorded("run", &asker, run::run(self.global, environment, *options)).await;
        let exit = ran.inspect_err(|failure| {
            let fix = failure.help.as_deref();
            self.report.step("task", StepState::Failed, &clean(&failure.message), fix);
        })?;
        let (state, detail) = match exit {
            Exit::Done => (StepState::Done, self.result(asker).await?),
            Exit::Stopped => (StepState::Skipped, "stopped"),
            Exit::Failed | Exit::Refused => (StepState::Failed, "failed"),
        };
        self.report.step("task", state, detail, Some("harvest task list"));
        Ok(exit)
    }
}

/// With an entry in the audit log, as if the command of that name had been typed.
async fn recorded<T>(
    name: &str,
    environment: &Environment,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let audit = audit::entry(name.to_owned(), environment);
    harvest_store::recorded(Record { audit, answer: None }, work).await.0
}

fn describe(item: &Item) -> String {
    let version = item.version.as_deref().map(|version| format!(" {}", clean(version))).unwrap_or_default();
    let key = if item.usable_providers.is_empty() { "no key yet" } else { "has a key" };
    format!("{}{version}, {key}", item.name)
}

async fn check(provider: &str, base_url: Option<&str>, secret: &SecretString) -> KeyCheck {
    match Upstream::new(provider, "new", base_url, secret) {
        Ok(upstream) => upstream.check_key().await,
        Err(error) => KeyCheck::Unclear(error.to_string()),
    }
}

/// Asks the host about a key that was there before: one in the environment, else the person's own in the vault.
async fn check_present(installation: &Installation, provider: &str) -> Result<KeyCheck, Failure> {
    if let Some(own) = installation.keys.own.get(provider) {
        return Ok(check(provider, own.url.as_deref(), &own.key).await);
    }
    let keychain = keychain::Keychain::of(&installation.environment, installation.data.path());
    let (opened, _) = keychain.open_all(installation.store.as_ref()).await?;
    let scope = Scope::User(installation.environment.user());
    let is_own = |credential: &Credential| credential.provider == provider && credential.scope == scope;
    match opened.iter().find(|opened| is_own(&opened.record.credential)) {
        Some(found) => Ok(check(provider, found.record.credential.base_url.as_deref(), &found.secret).await),
        None => Ok(KeyCheck::Unclear("someone else added it".to_owned())),
    }
}

async fn choose(installation: &Installation, source: &str) -> Result<Chosen, Failure> {
    let forge = installation.forges.open(source).await?;
    let base = forge.resolve(None).await?;
    let mirror = Mirrors::new(installation.data.mirrors()).open(&forge.identity(), &base.object_format).await?;
    mirror.ensure(&base.commit, || forge.fetch(&mirror, &base.commit)).await.map_err(Failure::from)?;
    Ok(Chosen { source: source.to_owned(), forge, base, mirror })
}

/// One run of a test command. `None` when it was stopped.
async fn trial(
    installation: &Installation,
    chosen: &Chosen,
    command: &str,
    stop: &Stop,
) -> Result<Option<Trial>, Failure> {
    let provider = installation.provider(SandboxKind::Local)?;
    // No model is called, so it needs no key.
    let model = ModelChoice { provider: Provider::Anthropic, model: None };
    let engine = installation.engine(provider, None, model)?;
    let owner = installation.own(OwnerKind::Run).await?;
    let (source, commit) = (chosen.forge.name(), chosen.base.commit.as_str());
    let tried = engine.try_tests(owner.id(), source, &chosen.mirror, commit, command, stop).await;
    installation.let_go(owner, tried.map_err(Failure::from)).await
}

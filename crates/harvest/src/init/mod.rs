//! `harvest init`: from nothing to the first verified branch, one step after the other. Each step looks at what is there
//! already, so that it can be left at any point and started again.

mod questions;
mod report;
mod signals;

use std::io::IsTerminal;

use clap::Parser;
use clap::error::ErrorKind;
use harvest_core::{Code, DEFAULT_CREDENTIAL, Scope};
use harvest_engine::find_test_command;
use harvest_engine::prepare::commands_for;
use harvest_forge::{Base, Forge};
use harvest_gateway::{KeyCheck, Upstream};
use harvest_sandbox::State;
use harvest_store::Record;
use harvest_vault::SecretString;
use harvest_workspace::{Mirror, Mirrors};
use serde_json::json;

use crate::agent::Item;
use crate::cli::{Cli, Command, Global, Init, RepoAdd, RepoBuild};
use crate::credential::{self, NewCredential};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{self, Installation};
use crate::view::{Style, clean};
use crate::{agent, audit, doctor, package_managers, repo, run};

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
    if !options.yes && (global.json || !std::io::stdin().is_terminal()) {
        let message = "`harvest init` asks questions at a terminal";
        return Err(Failure::refused(Code::BadOption, message, "take the suggested answers: harvest init --yes"));
    }
    let style = Style::detect(&environment);
    let mut guide = Guide {
        global,
        style,
        signals: Signals::watch(),
        questions: Questions::new(style, options.yes),
        report: Report::new(style, global.json),
        options,
    };
    let exit = guide.run(environment).await?;
    guide.report.close();
    Ok(exit)
}

struct Guide<'a> {
    global: &'a Global,
    style: Style,
    signals: Signals,
    questions: Questions,
    report: Report,
    options: Init,
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
            self.report.say("Start it again in a repository: cd REPOSITORY && harvest init");
            return Ok(self.report.exit());
        };
        self.dependencies(&installation, &chosen).await?;
        let test = self.tests(&chosen).await?;
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
        let mut items = agent::items(&installation.environment, &installation.keys).await?;
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
            let index = self.questions.choose("Which agent?", &names).await.unwrap_or(0);
            let Some(id) = installed.get(index).map(|item| item.id.clone()) else {
                return Err(Failure::failed(Code::Internal, "no agent is part of this program"));
            };
            self.report.note("trying it in a sandbox, with a scripted model");
            let stop = self.signals.stop();
            let checked = agent::rehearsal(self.global, &installation.environment, &id, stop).await;
            self.signals.leave();
            let checked = checked?;
            let broken = checked.checks.iter().find(|check| check.state == harvest_server::CheckState::Fails);
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
            let position = items.iter().position(|item| item.id == id).unwrap_or(0);
            return Ok(items.swap_remove(position));
        }
    }

    /// A key that the agent's vendor accepts.
    async fn key(&mut self, installation: &Installation, agent: &Item) -> Result<(), Failure> {
        if let Some(provider) = agent.usable_providers.first() {
            let provider = provider.as_str();
            let own = installation.keys.own.get(provider);
            let upstream = own.and_then(|own| Upstream::new(provider, "own", own.url.as_deref(), &own.key).ok());
            let check = match upstream {
                Some(upstream) => upstream.check_key().await,
                None => KeyCheck::Unclear("it was added before".to_owned()),
            };
            self.judge(provider, &check, None);
            return Ok(());
        }
        let providers: Vec<String> = agent.providers.iter().map(|provider| provider.as_str().to_owned()).collect();
        let index = match providers.len() {
            1 => 0,
            _ => self.questions.choose("Whose models?", &providers).await.unwrap_or(0),
        };
        let Some(provider) = providers.get(index) else { return Ok(()) };
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
            let check = check(provider, base_url, &secret).await;
            if check == KeyCheck::Refused {
                self.report.note(&format!("{provider} refuses this key; try another"));
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
            self.judge(provider, &check, Some(saved.last4.as_str()));
            return Ok(());
        }
        let fix = format!("harvest credential add {provider}");
        self.report.step("key", StepState::Skipped, &format!("no {provider} key"), Some(&fix));
        Ok(())
    }

    fn judge(&mut self, provider: &str, check: &KeyCheck, last4: Option<&str>) {
        let key = last4.map_or_else(|| format!("{provider} key"), |last4| format!("{provider} key …{last4}"));
        match check {
            KeyCheck::Accepted => self.report.step("key", StepState::Done, &format!("{key} is accepted"), None),
            KeyCheck::Refused => {
                let fix = format!("harvest credential add {provider}");
                self.report.step("key", StepState::Failed, &format!("{key} is refused by its host"), Some(&fix));
            }
            KeyCheck::Unclear(reason) => {
                self.report.step("key", StepState::Done, &format!("{key} is set; not checked: {reason}"), None);
            }
        }
    }

    async fn repository(&mut self, installation: &Installation) -> Result<Option<Chosen>, Failure> {
        let mut source = self.options.repo.clone().unwrap_or_else(|| ".".to_owned());
        loop {
            match choose(installation, &source).await {
                Ok(chosen) => {
                    let commit = chosen.base.commit.get(..10).unwrap_or(&chosen.base.commit);
                    let detail = format!("{} at {commit}", clean(chosen.forge.name()));
                    self.report.step("repository", StepState::Done, &detail, None);
                    return Ok(Some(chosen));
                }
                Err(failure) => self.report.note(&clean(&failure.message)),
            }
            match self.questions.text("A repository's path or URL", None).await {
                Some(typed) => source = typed,
                None => {
                    self.report.step("repository", StepState::Skipped, "none", Some("harvest init --repo PATH"));
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
            self.report.step("dependencies", StepState::Failed, "they could not be installed", Some(&fix));
        }
        Ok(())
    }

    /// Offers to get packages where this person's package managers get them.
    async fn registries(&mut self, installation: &Installation) -> Result<(), Failure> {
        let unused = package_managers::unused(&installation.environment, &installation.registries()?);
        let Some(file) = installation.settings_file().filter(|_| !unused.is_empty()) else { return Ok(()) };
        for setting in &unused {
            self.report.note(&clean(&format!("{} has {}", setting.from.display(), setting.line())));
        }
        if self.questions.confirm("Let sandboxes get packages the same way?", true).await {
            package_managers::adopt(&file, &unused)?;
            self.report.note(&format!("saved under [registries] in {}", file.display()));
        }
        Ok(())
    }

    /// The command that proves results, if another than the one that is found.
    async fn tests(&mut self, chosen: &Chosen) -> Result<Option<String>, Failure> {
        // It is the repository's own text, and shown at a terminal.
        let found = find_test_command(&chosen.mirror, &chosen.base.commit).await?.map(|found| clean(&found));
        let typed = self.questions.text("The test command that proves results", found.as_deref()).await;
        match (typed, found) {
            (Some(typed), found) if found.as_ref() != Some(&typed) => {
                let keep = format!("commit .harvest.toml with: test = {}", json!(typed));
                self.report.step("tests", StepState::Done, &format!("`{typed}`, for this first task"), Some(&keep));
                Ok(Some(typed))
            }
            (_, Some(found)) => {
                self.report.step("tests", StepState::Done, &format!("`{found}`, found in the repository"), None);
                Ok(None)
            }
            (_, None) => {
                let fix = "name one: harvest run --test CMD";
                self.report.step("tests", StepState::Skipped, "none: results would not be verified", Some(fix));
                Ok(None)
            }
        }
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
            None => self.questions.text("The first task, e.g. \"Make the failing test pass\"; Enter skips", None).await,
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
        let exit = recorded("run", &asker, run::run(self.global, environment, *options)).await?;
        let (state, detail) = match exit {
            Exit::Done => (StepState::Done, "it is done and verified"),
            Exit::Stopped => (StepState::Skipped, "it was stopped"),
            Exit::Failed | Exit::Refused => (StepState::Failed, "it did not succeed"),
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

async fn choose(installation: &Installation, source: &str) -> Result<Chosen, Failure> {
    let forge = installation.forges.open(source).await?;
    let base = forge.resolve(None).await?;
    let mirror = Mirrors::new(installation.data.mirrors()).open(&forge.identity(), &base.object_format).await?;
    mirror.ensure(&base.commit, || forge.fetch(&mirror, &base.commit)).await.map_err(Failure::from)?;
    Ok(Chosen { source: source.to_owned(), forge, base, mirror })
}

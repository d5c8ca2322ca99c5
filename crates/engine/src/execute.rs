//! The agent works: its output becomes events, its limits are watched, its work is committed and brought out.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use harvest_agents::Agent;
use harvest_core::{
    Attempt, AttemptId, Event, EventBody, FailureReason, HookStage, Move, Prompt, SandboxPurpose, StageName, Stopping,
    Task,
};
use harvest_sandbox::{Process, ProcessSpec, Sandbox};
use harvest_store::{AttemptUpdate, Step};
use harvest_workspace::{Author, SessionRepository, script};
use serde::{Deserialize, Serialize};

use crate::conversation::Memory;
use crate::error::Halt;
use crate::place::Place;
use crate::reattach::Returned;
use crate::supervise::Bounds;
use crate::turn::{Turn, for_agent};
use crate::watch::{Ended, SoFar};
use crate::{Engine, Error, Failure, ModelChoice, authorship, failpoint};

const SCRIPT_LIMIT: Duration = Duration::from_secs(120);
/// What everyone is told who is concerned.
const LOST: &str = "the sandbox was lost";
/// So many sandboxes a turn may lose before that is its end.
const MOST_SANDBOXES: usize = 4;
/// Processes of every place, by their ids.
pub(crate) const AGENT: &str = "agent";
/// Journaled when the first agent of a place is not the one that waited there.
pub(crate) const REPLACED: &str = "the agent prepared in the sandbox had exited, and another was started";
/// So many workers in a row may die while they bring out the same work.
const MOST_TAKEOVERS: u32 = 8;
pub(crate) const PREPARE: &str = "prepare";
/// How much an agent's own files of a conversation may take.
const CONVERSATION_KIB: u64 = 64 * 1024;

/// What the agent's work came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Execution {
    /// The result; the base when nothing changed.
    pub(crate) commit: String,
    pub(crate) failure: Option<Failure>,
}

impl Execution {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.reason == FailureReason::Interrupted)
    }

    pub(crate) fn failed(commit: String, failure: Failure) -> Self {
        Self { commit, failure: Some(failure) }
    }
}

/// What an agent is told: the prompt, and what was decided before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Briefing<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) choice: &'a ModelChoice,
    pub(crate) max_turns: u32,
    /// The agent's own name of the conversation to go on with.
    pub(crate) resume: Option<&'a str>,
    pub(crate) plan: bool,
    pub(crate) mcp: &'a [harvest_agents::mcp::Offer],
}

impl<'a> Briefing<'a> {
    pub(crate) fn turn(
        &self,
        gateway_port: u16,
        home: &'a Path,
        workspace: &'a Path,
        bin: &'a Path,
        path: &'a str,
    ) -> harvest_agents::Turn<'a> {
        harvest_agents::Turn {
            prompt: self.prompt,
            provider: self.choice.provider,
            model: self.choice.model.as_deref().unwrap_or_default(),
            gateway_port,
            home,
            workspace,
            bin,
            path,
            max_turns: self.max_turns,
            resume: self.resume,
            plan: self.plan,
            mcp: self.mcp,
        }
    }
}

/// Which run of an agent in a turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempts {
    First,
    Another,
}

/// What the work in a new sandbox begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Begins {
    Anew,
    /// With what a run before it has left, which was cut off for this reason.
    CutOff(String),
}

/// An agent's process, and the agent that it was of.
struct Ran<'a> {
    agent: &'a Agent,
    ended: Ended,
}

impl Turn {
    pub(crate) async fn execute(&self) -> Result<Execution, Halt> {
        failpoint::reach("execute::before")?;
        let mut begins = self.cut_off.clone().map_or(Begins::Anew, Begins::CutOff);
        for _ in 0..MOST_SANDBOXES {
            let (place, result) = match self.take_returned() {
                Some(Returned { place, run }) => {
                    let result = self.go_on_in(&place, run).await;
                    (place, result)
                }
                None => {
                    self.check_possible()?;
                    if let Begins::CutOff(why) = &begins {
                        self.journal.warn(format!("the work continues from where it was interrupted: {why}")).await?;
                    }
                    let place = self.place(SandboxPurpose::Execute, self.meter.clone()).await?;
                    let result = self.execute_in(&place, &begins).await;
                    (place, result)
                }
            };
            // Someone may have been cancelled while an interrupted agent came to its end.
            let result = result.map(|execution| match execution.is_interrupted() {
                true => Execution { failure: self.as_wanted(execution.failure), ..execution },
                false => execution,
            });
            if matches!(result, Err(Halt::Engine(_))) {
                // Only a dead engine leaves the sandbox, to the next one.
                return result;
            }
            let is_lost = result.is_err() && !place.sandbox.is_alive() && !self.stop.is_requested();
            if let Ok(execution) = result.as_ref()
                && !execution.is_interrupted()
            {
                // Before the sandbox goes: what has arrived is never done again.
                self.journal.finish_stage(StageName::Execute, execution).await?;
            }
            self.leave(place).await?;
            if !is_lost {
                self.meter.close().await;
                failpoint::reach("execute::after")?;
                if let Ok(execution) = result.as_ref()
                    && let Err(halt @ Halt::Engine(_)) = self.forecast(&execution.commit).await
                {
                    return Err(halt);
                }
                return result;
            }
            begins = Begins::CutOff(LOST.to_owned());
        }
        let message = format!("{MOST_SANDBOXES} sandboxes were lost one after the other");
        Err(Failure::new(FailureReason::Sandbox, message).into())
    }

    /// Known before anything is spent.
    pub(crate) fn check_possible(&self) -> Result<(), Halt> {
        if self.stop.is_requested() {
            return Err(self.stopped().into());
        }
        if self.task.settings.require_tests && self.task.settings.test.is_none() {
            return Err(Failure::new(FailureReason::Tests, "no test command was found, and tests are required").into());
        }
        match self.engine.check_agent(&self.task.agent) {
            // It is reported where the agent is looked up.
            Ok(()) | Err(Error::UnknownAgent(_)) => Ok(()),
            Err(error) => Err(Failure::new(FailureReason::Agent, error.to_string()).into()),
        }
    }

    async fn execute_in(&self, place: &Place, begins: &Begins) -> Result<Execution, Halt> {
        if !place.is_settled() {
            self.settle(place).await?;
        }
        let agent = self.agent()?;
        let (memory, start) = match begins {
            Begins::CutOff(why) => (self.memory_so_far(agent, why.clone()).await?, self.salvage().await),
            Begins::Anew => (self.memory_at_first(agent).await?, self.start.clone()),
        };
        self.prepare_workspace(place, &memory, &start).await?;
        if let Some(failure) = self.hooks_in(place, HookStage::BeforeExecute).await? {
            return Err(failure.into());
        }
        let ended = self.attempt(place, agent, &memory, Attempts::First).await?;
        self.finish_in(place, agent, memory, ended).await
    }

    /// What is left to do in a place in which an agent has ended.
    pub(crate) async fn finish_in<'a>(
        &'a self,
        place: &Place,
        agent: &'a Agent,
        memory: Memory,
        ended: Ended,
    ) -> Result<Execution, Halt> {
        let ended = self.or_retold(place, agent, memory, ended).await?;
        let Ran { agent, ended } = self.while_out_of_quota(place, Ran { agent, ended }).await?;
        let Ended { mut failure, conversation, .. } = ended;
        if failure.is_none() {
            failure = self.hooks_in(place, HookStage::AfterExecute).await?;
        }
        let commit = match self.collect(place, agent, conversation).await? {
            Ok(commit) => commit,
            Err(problem) => {
                return Ok(Execution::failed(self.salvage().await, failure.unwrap_or(problem)));
            }
        };
        self.announce_changes(&commit).await?;
        Ok(Execution { commit, failure })
    }

    pub(crate) fn agent(&self) -> Result<&Agent, Halt> {
        let unknown = || Failure::new(FailureReason::Agent, format!("there is no agent {}", self.task.agent));
        self.engine.options.registry.get(&self.task.agent).ok_or_else(|| unknown().into())
    }

    pub(crate) async fn prepare_workspace(&self, place: &Place, memory: &Memory, start: &str) -> Result<(), Halt> {
        let (branch, remote) = (self.session.branch.as_str(), Self::remote(place));
        let author = self.author();
        let env = [
            ("BRANCH", branch),
            ("BASE", &self.task.base),
            ("START", start),
            ("CONVERSATION", memory.own.as_ref().map_or("", |kept| &kept.commit)),
            ("REMOTE", &remote),
            ("AUTHOR_NAME", &author.name),
            ("AUTHOR_EMAIL", &author.email),
        ];
        // Now, as a warm agent runs already.
        if !self.plan.is_wanted() && !place.only_asks() {
            place.lay(self.laid_out(&place.sandbox)?);
        }
        let ran = self.run(place, PREPARE, &script::prepare(), &env, SCRIPT_LIMIT).await?;
        if ran.succeeded() {
            return Ok(());
        }
        let message = format!("the workspace could not be prepared: {}", ran.last_line());
        if ran.tail.contains("No space left on device") {
            return Err(Halt::Engine(Error::NoRoom { what: message }));
        }
        Err(Failure::new(FailureReason::Sandbox, message).into())
    }

    /// Where an agent's model has no more quota, those go on in its place that are to, one after the other.
    async fn while_out_of_quota<'a>(&'a self, place: &Place, mut ran: Ran<'a>) -> Result<Ran<'a>, Halt> {
        let others = &self.task.settings.on_quota;
        let had_their_turn = others.iter().position(|id| *id == ran.agent.id).map_or(0, |last| last + 1);
        for next in &others[had_their_turn..] {
            if ran.ended.failure.as_ref().is_none_or(|failure| failure.reason != FailureReason::ModelQuota) {
                break;
            }
            let Some(next) = self.engine.options.registry.get(next).filter(|next| next.id != ran.agent.id) else {
                continue;
            };
            if self.engine.program_of(next) == Some(None) {
                self.journal
                    .warn(format!("{} is not installed on this machine and cannot continue", next.name))
                    .await?;
                continue;
            }
            self.journal
                .warn(format!("the model of {} has no more quota: {} continues", ran.agent.name, next.name))
                .await?;
            let cut_off = format!("the model of {} has no more quota", ran.agent.name);
            let memory = self.memory_so_far(next, cut_off).await?;
            ran = Ran { agent: next, ended: self.attempt(place, next, &memory, Attempts::Another).await? };
        }
        Ok(ran)
    }

    /// Runs the agent once more when it could not go on with a conversation that it should remember.
    async fn or_retold(&self, place: &Place, agent: &Agent, memory: Memory, ended: Ended) -> Result<Ended, Halt> {
        let forgot = memory.own.is_some() && !ended.did_anything;
        if !forgot || ended.failure.as_ref().is_none_or(|failure| failure.reason != FailureReason::Agent) {
            return Ok(ended);
        }
        let message = format!("{} could not continue its conversation: it is told the earlier messages", agent.name);
        self.journal.warn(message).await?;
        self.attempt(place, agent, &memory.retold(), Attempts::Another).await
    }

    pub(crate) async fn attempt(
        &self,
        place: &Place,
        agent: &Agent,
        memory: &Memory,
        which: Attempts,
    ) -> Result<Ended, Halt> {
        let (whole, choice) = (self.whole_prompt(agent, memory).await?, self.choice(agent));
        self.attempt_asking(place, agent, memory, (&whole, &choice), which).await
    }

    /// What the agent is told, with all that belongs to it.
    pub(crate) async fn whole_prompt(&self, agent: &Agent, memory: &Memory) -> Result<String, Halt> {
        let asked = match self.gate.returned() {
            Some(returned) => returned.prompt(self.task.prompt.as_str()),
            None => self.plan.prompt(self.task.prompt.as_str()),
        };
        let asked = match &self.interruption {
            Some(interrupted) => interrupted.prompt(&asked, memory.own.is_some()),
            None => asked,
        };
        let told = memory.told();
        let messages = told.messages();
        let occasion = told.occasion(&messages);
        // One that plans does nothing that there are rules for, and one that remembers has been told the rest.
        Ok(if self.plan.is_wanted() || (memory.own.is_some() && told.is_empty()) {
            asked
        } else if memory.own.is_some() {
            self.compose_alone(&asked, &occasion)?
        } else {
            self.compose(agent, &asked, &occasion).await?
        })
    }

    /// The same with a prompt of its own.
    pub(crate) async fn attempt_asking(
        &self,
        place: &Place,
        agent: &Agent,
        memory: &Memory,
        (prompt, choice): (&str, &ModelChoice),
        which: Attempts,
    ) -> Result<Ended, Halt> {
        let mut spec = self.agent_spec(place, agent, memory, (prompt, choice)).await?;
        spec.files.splice(0..0, place.take_files());
        let attempt = Attempt {
            id: AttemptId::generate(self.engine.options.entropy.as_ref()),
            turn_id: self.lease().turn.clone(),
            agent: agent.id.clone(),
            command: spec.argv.clone(),
            exit_code: None,
            stderr_tail: String::new(),
            started_at: self.journal.now(),
            finished_at: None,
        };
        let id = attempt.id.clone();
        let started =
            EventBody::AgentStarted { attempt_id: id.clone(), agent: agent.id.clone(), model: choice.model.clone() };
        let mut step = Step::new(self.journal.now(), vec![started]).with_attempt(AttemptUpdate::Started(attempt));
        match which {
            // One that was taken over from another worker, or begins in another sandbox, runs already.
            Attempts::First if self.has_started.swap(true, Ordering::Relaxed) => {}
            Attempts::First => step = step.moving(Move::Start),
            Attempts::Another => spec.id = own_process(&id),
        }
        self.journal.step(step).await?;
        failpoint::reach("execute::recorded")?;
        let mut process = self.begin(place, spec, &id).await?;
        failpoint::reach("execute::started")?;
        let so_far = SoFar::nothing(agent.parser(), self.bounds(agent));
        let ended = self.watch(place, &mut process, &id, so_far).await?;
        self.record_end(id, &ended).await?;
        Ok(ended)
    }

    pub(crate) fn bounds(&self, agent: &Agent) -> Bounds {
        Bounds::of(&self.task.settings, agent.counts_turns())
    }

    pub(crate) fn choice(&self, agent: &Agent) -> ModelChoice {
        self.engine.model_choice(agent, &for_agent(&self.task, &agent.id))
    }

    pub(crate) async fn record_end(&self, attempt: AttemptId, ended: &Ended) -> Result<(), Halt> {
        let reason = ended.failure.as_ref().map(|failure| failure.reason);
        let finished = EventBody::AgentFinished { attempt_id: attempt.clone(), exit_code: ended.exit_code, reason };
        let stderr_tail = ended.stderr.clone();
        let update = AttemptUpdate::Finished { attempt, exit_code: ended.exit_code, stderr_tail };
        self.journal.step(Step::new(self.journal.now(), vec![finished]).with_attempt(update)).await?;
        Ok(())
    }

    /// How the agent is started, with all that it is told.
    pub(crate) async fn agent_spec(
        &self,
        place: &Place,
        agent: &Agent,
        memory: &Memory,
        (prompt, choice): (&str, &ModelChoice),
    ) -> Result<ProcessSpec, Halt> {
        let offers = if place.only_asks() { Vec::new() } else { self.offers(agent, &place.sandbox).await? };
        let briefing = Briefing {
            prompt,
            choice,
            max_turns: self.task.settings.max_turns,
            resume: memory.own.as_ref().map(|kept| kept.name.as_str()),
            plan: self.plan.is_wanted() || place.only_asks(),
            mcp: &offers,
        };
        Ok(self.engine.agent_process(agent, &briefing, &place.sandbox, place.network(), &self.path()))
    }

    /// Gives the prompt to the agent that waits for it, or starts one.
    async fn begin(&self, place: &Place, mut spec: ProcessSpec, attempt: &AttemptId) -> Result<Process, Halt> {
        if let Some(mut waiting) = place.take_agent() {
            match waiting.input(spec.stdin.clone(), true).await {
                Ok(()) => return Ok(waiting),
                Err(error) => {
                    tracing::warn!(%error, "the agent that waited is gone");
                    self.journal.warn(REPLACED).await?;
                    spec.id = own_process(attempt);
                }
            }
        }
        Ok(place.sandbox.start(spec).await?)
    }

    /// Commits what is left and pushes it out, with what the agent remembers of the conversation. The inner error says why
    /// the work could not be brought out.
    async fn collect(
        &self,
        place: &Place,
        agent: &Agent,
        conversation: Option<String>,
    ) -> Result<Result<String, Failure>, Halt> {
        let ran = self.bring_out(place, agent, conversation, &self.commit_message()).await?;
        let tip = self.repository.tip(&self.session.branch.as_ref_name()).await?;
        Ok(match tip {
            Some(commit) if ran.succeeded() => Ok(commit),
            _ => {
                let message = format!("the work could not be brought out of the sandbox: {}", ran.last_line());
                Err(Failure::new(FailureReason::Agent, message))
            }
        })
    }

    /// Without a message only what the agent remembers is brought out.
    pub(crate) async fn bring_out(
        &self,
        place: &Place,
        agent: &Agent,
        conversation: Option<String>,
        message: &str,
    ) -> Result<crate::place::Ran, Halt> {
        let remote = Self::remote(place);
        // Who has lost is gone at once: its work is compared, and nobody goes on with what it said.
        let has_lost = matches!(self.stop.how(), Some(Stopping::Lose { .. }));
        let state = if has_lost { String::new() } else { agent.state().join(" ") };
        let limit = CONVERSATION_KIB.to_string();
        let reference = SessionRepository::conversation_ref(&self.session.id, &agent.id);
        let env = [
            ("BRANCH", self.session.branch.as_str()),
            ("REMOTE", &remote),
            ("START", self.start.as_str()),
            ("MESSAGE", message),
            ("STATE", &state),
            ("STATE_REF", &reference),
            ("STATE_KIB", &limit),
        ];
        let mut ran = self.run(place, "finish", &script::finish(), &env, SCRIPT_LIMIT).await?;
        // Each may have been begun by a worker before, and cut off from the gateway with it.
        for again in 1..=MOST_TAKEOVERS {
            if ran.succeeded() || !place.is_taken_over() {
                break;
            }
            ran = self.run(place, &format!("finish-again-{again}"), &script::finish(), &env, SCRIPT_LIMIT).await?;
        }
        if !state.is_empty() {
            self.keep_conversation(agent, conversation, &reference, &ran).await?;
        }
        Ok(ran)
    }

    /// Writes down which conversation has arrived, if one has.
    async fn keep_conversation(
        &self,
        agent: &Agent,
        name: Option<String>,
        reference: &str,
        ran: &crate::place::Ran,
    ) -> Result<(), Halt> {
        if ran.tail.contains(script::TOO_LARGE) {
            let message = format!(
                "the conversation of {} is larger than {} MiB and was not saved: in the next turn it is told the earlier messages",
                agent.name,
                CONVERSATION_KIB / 1024
            );
            self.journal.warn(message).await?;
        }
        let Some(commit) = self.repository.tip(reference).await? else { return Ok(()) };
        let known = |event: &Event| matches!(&event.body, EventBody::ConversationKept { commit: known, .. } if *known == commit);
        let before = self.journal.all().await?.iter().any(known);
        if !before {
            let kept = EventBody::ConversationKept { agent: agent.id.clone(), name, commit };
            self.journal.write(vec![kept]).await?;
        }
        Ok(())
    }

    async fn announce_changes(&self, commit: &str) -> Result<(), Halt> {
        let changes = self.repository.changes(&self.announced, commit).await?;
        let mut events: Vec<EventBody> = changes
            .into_iter()
            .map(|change| EventBody::FileChanged { path: change.path, change: change.change })
            .collect();
        let commits = self.repository.commits(&self.announced, commit).await?;
        events.extend(
            commits.into_iter().map(|commit| EventBody::CommitCreated { commit: commit.id, subject: commit.subject }),
        );
        if !events.is_empty() {
            self.journal.write(events).await?;
        }
        Ok(())
    }

    fn commit_message(&self) -> String {
        const SUBJECT: usize = 72;
        let title = self.request().title();
        let subject: String = title.chars().take(SUBJECT).collect();
        let agent = self.engine.options.registry.get(&self.task.agent);
        let model = agent.and_then(|agent| self.choice(agent).model);
        format!("{subject}\n\n{}", self.trailers(model.as_deref()))
    }

    /// What was asked of this turn, without what Harvest tells the agent besides, such as that the base has moved.
    pub(crate) fn request(&self) -> &Prompt {
        let turn = self.session.turns.iter().find(|turn| turn.id == self.lease().turn);
        turn.map_or(&self.task.prompt, |turn| &turn.prompt)
    }

    /// The author of this turn's commits.
    pub(crate) fn author(&self) -> Author {
        let settings = &self.task.settings;
        if self.actor == self.task.requested_by {
            return Author { name: settings.author_name.clone(), email: settings.author_email.clone() };
        }
        authorship::by_harvest(authorship::person(&self.actor))
    }

    /// The co-authors of this turn's commits.
    pub(crate) fn trailers(&self, model: Option<&str>) -> String {
        let agent = self.engine.options.registry.get(&self.task.agent);
        let name = agent.map_or(self.task.agent.as_str(), |agent| agent.name.as_str());
        let settings = &self.task.settings;
        // On one machine the person's own git says what they are called.
        let person = match settings.author_name.strip_suffix(authorship::SUFFIX) {
            Some(name) if self.actor == self.task.requested_by => {
                Author { name: name.to_owned(), email: settings.author_email.clone() }
            }
            _ => authorship::person(&self.actor),
        };
        authorship::trailers(&person, &self.task.agent, name, model)
    }

    pub(crate) fn stopped(&self) -> Failure {
        self.stop.failure()
    }
}

/// The id of an agent's process that is not the first of its place.
pub(crate) fn own_process(attempt: &AttemptId) -> String {
    format!("{AGENT}-{attempt}")
}

impl Engine {
    pub(crate) fn agent_process(
        &self,
        agent: &Agent,
        briefing: &Briefing<'_>,
        sandbox: &Sandbox,
        network: &[(String, String)],
        path: &str,
    ) -> ProcessSpec {
        let paths = sandbox.paths();
        let turn = briefing.turn(sandbox.gateway_port(), &paths.home, &paths.workspace, &paths.bin, path);
        let mut invocation = agent.command(&turn);
        if let (Some(Some(program)), Some(named)) =
            (self.program_of(agent), invocation.argv.get_mut(invocation.program))
        {
            *named = program.to_string_lossy().into_owned();
        }
        let mut env = network.to_vec();
        env.extend(invocation.env);
        env.extend(self.options.toolchain.env.iter().cloned());
        let files = invocation.files.into_iter().map(|file| harvest_sandbox::File {
            path: file.path.to_string_lossy().into_owned(),
            content: file.content,
            executable: file.executable,
        });
        ProcessSpec {
            id: AGENT.to_owned(),
            argv: invocation.argv,
            env,
            stdin: invocation.stdin,
            files: files.collect(),
            ..ProcessSpec::default()
        }
    }

    /// Refuses an agent that is unknown, or whose program is missing where its sandboxes would run.
    pub(crate) fn check_agent(&self, id: &str) -> Result<(), Error> {
        let agent = self.options.registry.get(id).ok_or_else(|| Error::UnknownAgent(id.to_owned()))?;
        match self.program_of(agent) {
            Some(None) => {
                let (name, install_hint) = (agent.name.clone(), agent.install_hint.clone());
                Err(Error::AgentNotInstalled { name, install_hint })
            }
            _ => Ok(()),
        }
    }

    /// Where the agent's program is on this machine, `Some(None)` when it should be there and is not.
    fn program_of(&self, agent: &Agent) -> Option<Option<&Path>> {
        let installed = self.options.toolchain.programs.as_ref()?;
        Some(installed.get(agent.program.as_ref()?).map(PathBuf::as_path))
    }

    /// What the task says, else what this engine offers, else the agent's own choice.
    pub(crate) fn model_choice(&self, agent: &Agent, task: &Task) -> ModelChoice {
        let offered = &self.options.model;
        let provider = self.vendor_of(agent, task.settings.provider.as_deref());
        let model = task.model.clone().or_else(|| offered.model.clone().filter(|_| provider == offered.provider));
        ModelChoice { provider, model: model.or_else(|| agent.default_model(provider).map(str::to_owned)) }
    }

    fn vendor_of(&self, agent: &Agent, asked: Option<&str>) -> harvest_agents::Provider {
        let offered = self.options.model.provider;
        let named = asked.and_then(|asked| agent.providers.iter().copied().find(|known| known.as_str() == asked));
        let spoken = Some(offered).filter(|provider| agent.providers.contains(provider));
        named.or(spoken).or(agent.providers.first().copied()).unwrap_or(offered)
    }

    /// The vendor whose credential a task of this agent uses, also where it names no model.
    pub(crate) fn provider_of(&self, agent: &str, asked: Option<&str>) -> Option<String> {
        let agent = self.options.registry.get(agent)?;
        Some(self.vendor_of(agent, asked).as_str().to_owned())
    }
}

//! The agent works: its output becomes events, its limits are watched, its work is committed and brought out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use harvest_agents::{Agent, Parser, Verdict};
use harvest_core::{
    Attempt, AttemptId, Event, EventBody, FailureReason, HookStage, Move, OutputStream, SandboxPurpose, Task,
};
use harvest_sandbox::{Output, Process, ProcessSpec, Sandbox, Signal};
use harvest_store::{AttemptUpdate, Step};
use harvest_workspace::{SessionRepository, script};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::checkpoint::Checkpoints;
use crate::conversation::Memory;
use crate::error::Halt;
use crate::place::{Place, Tail};
use crate::supervise::{Bounds, Breach, Ending, Step as EndingStep, Supervisor};
use crate::turn::{Turn, for_agent};
use crate::{Engine, Failure, ModelChoice, failpoint, limit};

const SCRIPT_LIMIT: Duration = Duration::from_secs(120);
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);
/// Processes of every place, by their ids.
pub(crate) const AGENT: &str = "agent";
pub(crate) const PREPARE: &str = "prepare";
/// How much an agent's own files of a conversation may take.
const CONVERSATION_KIB: u64 = 64 * 1024;
/// So many lines go into one transaction at most.
const BATCH: usize = 256;

/// What the agent's work came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Execution {
    /// The result; the base when nothing changed.
    pub(crate) commit: String,
    pub(crate) failure: Option<Failure>,
}

impl Execution {
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

/// How the agent's process ended.
pub(crate) struct Ended {
    exit_code: Option<i32>,
    stderr: String,
    pub(crate) failure: Option<Failure>,
    /// What the agent called the conversation.
    pub(crate) conversation: Option<String>,
    /// It said something, or did.
    did_anything: bool,
}

/// An agent's process, and the agent that it was of.
struct Ran<'a> {
    agent: &'a Agent,
    ended: Ended,
}

/// What the agent's watch has to look at.
enum Next {
    Output(Output),
    Breach(Breach),
    End(Failure),
    Signal(EndingStep),
    Nothing,
}

impl From<Option<Breach>> for Next {
    fn from(breach: Option<Breach>) -> Self {
        breach.map_or(Self::Nothing, Self::Breach)
    }
}

impl Turn {
    pub(crate) async fn execute(&self) -> Result<Execution, Halt> {
        failpoint::reach("execute::before")?;
        self.check_possible()?;
        let place = self.place(SandboxPurpose::Execute, self.meter.clone()).await?;
        let result = self.execute_in(&place).await;
        // Whatever happened, the sandbox goes; only a dead engine leaves it to the next one.
        if !matches!(result, Err(Halt::Engine(_))) {
            self.leave(place).await?;
            self.meter.close().await;
        }
        failpoint::reach("execute::after")?;
        result
    }

    /// Known before anything is spent.
    pub(crate) fn check_possible(&self) -> Result<(), Halt> {
        if self.stop.is_requested() {
            return Err(self.stopped().into());
        }
        if self.task.settings.require_tests && self.task.settings.test.is_none() {
            return Err(Failure::new(FailureReason::Tests, "no test command was found, and tests are required").into());
        }
        if let Some(agent) = self.engine.options.registry.get(&self.task.agent)
            && self.engine.program_of(agent) == Some(None)
        {
            let message = format!("{} is not installed on this machine: {}", agent.name, agent.install_hint);
            return Err(Failure::new(FailureReason::Agent, message).into());
        }
        Ok(())
    }

    async fn execute_in(&self, place: &Place) -> Result<Execution, Halt> {
        if !place.is_settled() {
            self.settle(place).await?;
        }
        let agent = self.agent()?;
        let memory = if self.goes_on { self.memory(agent).await? } else { Memory::default() };
        self.prepare_workspace(place, &memory).await?;
        if let Some(failure) = self.hooks_in(place, HookStage::BeforeExecute).await? {
            return Err(failure.into());
        }
        let Ran { agent, ended } = self.run_agent(place, agent, memory).await?;
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

    pub(crate) async fn prepare_workspace(&self, place: &Place, memory: &Memory) -> Result<(), Halt> {
        let (branch, remote) = (self.session.branch.as_str(), Self::remote(place));
        let settings = &self.task.settings;
        let env = [
            ("BRANCH", branch),
            ("BASE", &self.task.base),
            ("START", &self.start),
            ("CONVERSATION", memory.own.as_ref().map_or("", |kept| &kept.commit)),
            ("REMOTE", &remote),
            ("AUTHOR_NAME", &settings.author_name),
            ("AUTHOR_EMAIL", &settings.author_email),
        ];
        let ran = self.run(place, PREPARE, &script::prepare(), &env, SCRIPT_LIMIT).await?;
        if ran.succeeded() {
            return Ok(());
        }
        let message = format!("the workspace could not be prepared: {}", ran.last_line());
        Err(Failure::new(FailureReason::Sandbox, message).into())
    }

    /// Runs the agent, and where its model has no more quota those that are to go on in its place, one after the other.
    async fn run_agent<'a>(&'a self, place: &Place, agent: &'a Agent, memory: Memory) -> Result<Ran<'a>, Halt> {
        let mut ran = Ran { agent, ended: self.run_remembering(place, agent, memory).await? };
        for next in &self.task.settings.on_quota {
            if ran.ended.failure.as_ref().is_none_or(|failure| failure.reason != FailureReason::ModelQuota) {
                break;
            }
            let Some(next) = self.engine.options.registry.get(next).filter(|next| next.id != ran.agent.id) else {
                continue;
            };
            if self.engine.program_of(next) == Some(None) {
                self.journal.warn(format!("{} is not installed on this machine and cannot go on", next.name)).await?;
                continue;
            }
            self.journal
                .warn(format!("the model of {} has no more quota: {} goes on", ran.agent.name, next.name))
                .await?;
            let cut_off = format!("the model of {} has no more quota", ran.agent.name);
            let memory = self.memory_so_far(next, cut_off).await?;
            ran = Ran { agent: next, ended: self.attempt(place, next, &memory, Attempts::Another).await? };
        }
        Ok(ran)
    }

    /// Runs the agent, once more when it cannot go on with a conversation that it should remember.
    async fn run_remembering(&self, place: &Place, agent: &Agent, memory: Memory) -> Result<Ended, Halt> {
        let ended = self.attempt(place, agent, &memory, Attempts::First).await?;
        let forgot = memory.own.is_some() && !ended.did_anything;
        if !forgot || ended.failure.as_ref().is_none_or(|failure| failure.reason != FailureReason::Agent) {
            return Ok(ended);
        }
        let message = format!("{} could not go on with its conversation: it is told what was said", agent.name);
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
        let asked = match self.gate.returned() {
            Some(returned) => returned.prompt(self.task.prompt.as_str()),
            None => self.plan.prompt(self.task.prompt.as_str()),
        };
        let told = memory.told();
        let messages = told.messages();
        let occasion = told.occasion(&messages);
        // One that plans does nothing that there are rules for, and one that remembers has been told the rest.
        let whole = if self.plan.is_wanted() || (memory.own.is_some() && told.is_empty()) {
            asked
        } else if memory.own.is_some() {
            self.compose_alone(&asked, &occasion)?
        } else {
            self.compose(agent, &asked, &occasion).await?
        };
        let choice = self.engine.model_choice(agent, &for_agent(&self.task, &agent.id));
        self.attempt_asking(place, agent, memory, (&whole, &choice), which).await
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
        let options = &self.engine.options;
        let offers = self.offers(agent, &place.sandbox).await?;
        let briefing = Briefing {
            prompt,
            choice,
            max_turns: self.task.settings.max_turns,
            resume: memory.own.as_ref().map(|kept| kept.name.as_str()),
            plan: self.plan.is_wanted(),
            mcp: &offers,
        };
        let mut spec = self.engine.agent_process(agent, &briefing, &place.sandbox, place.network(), &self.path());
        spec.files.splice(0..0, place.take_files());
        if !self.plan.is_wanted() {
            spec.files.extend(self.laid_out(&place.sandbox)?);
        }
        let attempt = Attempt {
            id: AttemptId::generate(options.entropy.as_ref()),
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
            Attempts::First => step = step.moving(Move::Start),
            Attempts::Another => spec.id = format!("{AGENT}-{id}"),
        }
        self.journal.step(step).await?;
        let mut process = self.begin(place, spec).await?;
        failpoint::reach("execute::started")?;
        let bounds = Bounds::of(&self.task.settings, agent.counts_turns());
        let ended = self.watch(place, &mut process, &id, agent.parser(), bounds).await?;
        let finished = EventBody::AgentFinished {
            attempt_id: id.clone(),
            exit_code: ended.exit_code,
            reason: ended.failure.as_ref().map(|failure| failure.reason),
        };
        let stderr_tail = ended.stderr.clone();
        let update = AttemptUpdate::Finished { attempt: id, exit_code: ended.exit_code, stderr_tail };
        self.journal.step(Step::new(self.journal.now(), vec![finished]).with_attempt(update)).await?;
        Ok(ended)
    }

    /// Gives the prompt to the agent that waits for it, or starts one.
    async fn begin(&self, place: &Place, mut spec: ProcessSpec) -> Result<Process, Halt> {
        if let Some(mut waiting) = place.take_agent() {
            match waiting.input(spec.stdin.clone(), true).await {
                Ok(()) => return Ok(waiting),
                Err(error) => {
                    tracing::warn!(%error, "the agent that waited is gone");
                    spec.id = format!("{AGENT}-again");
                }
            }
        }
        Ok(place.sandbox.start(spec).await?)
    }

    /// Journals what the agent prints until it ends or has to.
    async fn watch(
        &self,
        place: &Place,
        process: &mut Process,
        attempt: &AttemptId,
        mut parser: Parser,
        bounds: Bounds,
    ) -> Result<Ended, Halt> {
        let mut supervisor = Supervisor::new(bounds, Instant::now());
        let mut answers = self.meter.answers();
        let mut stderr = Tail::new(Attempt::TAIL_BYTES);
        let mut checkpoints = Checkpoints::new(self, place);
        let grace = Duration::from_millis(self.task.settings.supervision.grace_ms);
        let mut ending: Option<Ending> = None;
        let mut ended_by: Option<Failure> = None;
        let mut killed = false;
        let mut did_anything = false;
        let exit_code = loop {
            let due = ending.as_ref().map_or(supervisor.due(), Ending::due);
            let next = tokio::select! {
                biased;
                () = self.stop.requested_at_once(), if !killed => {
                    killed = true;
                    ended_by.get_or_insert_with(|| self.stopped());
                    ending = Some(Ending::at_once(Instant::now()));
                    continue;
                }
                () = self.stop.requested(), if ending.is_none() => Next::End(self.stopped()),
                () = self.meter.exhausted(), if ending.is_none() => {
                    Next::End(Failure::new(FailureReason::Budget, self.meter.message()))
                }
                Ok(()) = answers.changed(), if ending.is_none() => {
                    Next::from(supervisor.answered(Instant::now(), *answers.borrow_and_update()))
                }
                () = tokio::time::sleep_until(due) => match &mut ending {
                    None => Next::from(supervisor.check(Instant::now())),
                    Some(ending) => Next::Signal(ending.step(Instant::now())),
                },
                output = process.next() => Next::Output(output),
                taken = checkpoints.taken() => {
                    taken?;
                    continue;
                }
            };
            let output = match next {
                Next::Output(output) => output,
                Next::Breach(breach) => {
                    self.journal.write(vec![breach.event()]).await?;
                    ended_by = Some(breach.into_failure());
                    ending = Some(Ending::new(Instant::now(), grace));
                    continue;
                }
                Next::End(failure) => {
                    ended_by = Some(failure);
                    ending = Some(Ending::new(Instant::now(), grace));
                    continue;
                }
                Next::Signal(EndingStep::Signal(signal)) => {
                    self.signal(process, signal).await;
                    continue;
                }
                Next::Signal(EndingStep::GiveUp) => break None,
                Next::Nothing => continue,
            };
            let mut events = Vec::new();
            let mut journaled = None;
            let mut end = None;
            let mut output = Some(output);
            let mut lines = 0;
            while let Some(current) = output.take() {
                match current {
                    Output::Line { stream, line, continued, offset } => {
                        stderr.push_if(OutputStream::Stderr, stream, &line, !continued);
                        events.extend(parser.parse(stream, &line));
                        journaled = Some(offset);
                        lines += 1;
                    }
                    other => {
                        end = Some(other);
                        break;
                    }
                }
                if lines < BATCH {
                    output = process.next().now_or_never();
                }
            }
            let breach = supervisor.heard(Instant::now(), &events).filter(|_| ending.is_none() && end.is_none());
            if let Some(breach) = breach {
                events.push(breach.event());
                ended_by = Some(breach.into_failure());
                ending = Some(Ending::new(Instant::now(), grace));
            }
            if let Some(offset) = journaled {
                let changed = events.iter().any(|event| matches!(event, EventBody::ToolResult { .. }));
                did_anything |= events.iter().any(is_work);
                let update = AttemptUpdate::Journaled { attempt: attempt.clone(), offset };
                self.journal.step(Step::new(self.journal.now(), events).with_attempt(update)).await?;
                // Only after the events are on disk may the runner forget them.
                process.acknowledge(offset).await?;
                if changed {
                    checkpoints.due();
                }
            }
            match end {
                None => {}
                Some(Output::Exited(exit)) => break exit.code,
                Some(Output::Failed { limit, message }) => {
                    let failure = match limit {
                        Some(limit) => limit::failure(limit, &message),
                        None => Failure::new(FailureReason::Agent, message),
                    };
                    ended_by.get_or_insert(failure);
                    break None;
                }
                Some(_) if ended_by.is_some() => break None,
                Some(_) => return Err(Failure::new(FailureReason::Sandbox, "the sandbox was lost").into()),
            }
        };
        checkpoints.finish().await?;
        let failure = ended_by.or_else(|| self.verdict(&parser, exit_code));
        let conversation = parser.conversation().map(str::to_owned);
        Ok(Ended { exit_code, stderr: stderr.into_text(), failure, conversation, did_anything })
    }

    fn verdict(&self, parser: &Parser, exit_code: Option<i32>) -> Option<Failure> {
        if self.meter.is_exhausted() {
            return Some(Failure::new(FailureReason::Budget, self.meter.message()));
        }
        match parser.verdict(exit_code) {
            Verdict::Done => None,
            Verdict::Failed { .. } if self.meter.has_refused() => {
                Some(Failure::new(FailureReason::Budget, self.meter.message()))
            }
            Verdict::Failed { reason, message } => Some(Failure { reason, message }),
        }
    }

    /// One that cannot be signalled meets the next step, and at last the end of its sandbox.
    async fn signal(&self, process: &Process, signal: Signal) {
        let sending = tokio::time::timeout(SIGNAL_LIMIT, process.signal(signal));
        if !matches!(sending.await, Ok(Ok(()))) {
            tracing::warn!(?signal, "the agent's process could not be signalled");
        }
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
        let (state, limit) = (agent.state().join(" "), CONVERSATION_KIB.to_string());
        let reference = SessionRepository::conversation_ref(&self.session.id, &agent.id);
        let env = [
            ("BRANCH", self.session.branch.as_str()),
            ("REMOTE", &remote),
            ("MESSAGE", message),
            ("STATE", &state),
            ("STATE_REF", &reference),
            ("STATE_KIB", &limit),
        ];
        let ran = self.run(place, "finish", &script::finish(), &env, SCRIPT_LIMIT).await?;
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
                "what {} remembers of this is larger than {} MB and is not kept: in another turn it is told what was said",
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
        let changes = self.repository.changes(&self.start, commit).await?;
        let mut events: Vec<EventBody> = changes
            .into_iter()
            .map(|change| EventBody::FileChanged { path: change.path, change: change.change })
            .collect();
        let commits = self.repository.commits(&self.start, commit).await?;
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
        let title = self.task.prompt.title();
        let subject: String = title.chars().take(SUBJECT).collect();
        let agent = self.engine.options.registry.get(&self.task.agent).map_or("an agent", |agent| agent.name.as_str());
        format!("{subject}\n\nCo-authored-by: {agent} <{}@harvest.local>", self.task.agent)
    }

    pub(crate) fn stopped(&self) -> Failure {
        Failure::new(FailureReason::Cancelled, "stopped by a person")
    }
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

    /// Where the agent's program is on this machine, `Some(None)` when it should be there and is not.
    fn program_of(&self, agent: &Agent) -> Option<Option<&Path>> {
        let installed = self.options.toolchain.programs.as_ref()?;
        Some(installed.get(agent.program.as_ref()?).map(PathBuf::as_path))
    }

    /// What the task says, else what this engine offers, else the agent's own choice.
    pub(crate) fn model_choice(&self, agent: &Agent, task: &Task) -> ModelChoice {
        let offered = &self.options.model;
        let asked = task.settings.provider.as_deref();
        let named = asked.and_then(|asked| agent.providers.iter().copied().find(|known| known.as_str() == asked));
        let spoken = Some(offered.provider).filter(|provider| agent.providers.contains(provider));
        let provider = named.or(spoken).or(agent.providers.first().copied()).unwrap_or(offered.provider);
        let model = task.model.clone().or_else(|| offered.model.clone().filter(|_| provider == offered.provider));
        ModelChoice { provider, model: model.or_else(|| agent.default_model(provider).map(str::to_owned)) }
    }
}

/// Whether an event shows that the agent has come to work.
fn is_work(event: &EventBody) -> bool {
    matches!(event, EventBody::Message { .. } | EventBody::MessageDelta { .. } | EventBody::ToolCall { .. })
}

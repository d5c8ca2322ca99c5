//! The agent works: its output becomes events, its limits are watched, its work is committed and brought out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use harvest_agents::prompt::Occasion;
use harvest_agents::{Agent, Parser, Verdict};
use harvest_core::{Attempt, AttemptId, EventBody, FailureReason, HookStage, Move, OutputStream, SandboxPurpose, Task};
use harvest_sandbox::{Output, Process, ProcessSpec, Sandbox, Signal};
use harvest_store::{AttemptUpdate, Step};
use harvest_workspace::script;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::checkpoint::Checkpoints;
use crate::error::Halt;
use crate::place::{Place, Tail};
use crate::supervise::{Bounds, Breach, Ending, Step as EndingStep, Supervisor};
use crate::turn::Turn;
use crate::{Engine, Failure, ModelChoice, failpoint, limit};

const SCRIPT_LIMIT: Duration = Duration::from_secs(120);
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);
/// Processes of every place, by their ids.
pub(crate) const AGENT: &str = "agent";
pub(crate) const PREPARE: &str = "prepare";
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
        }
    }
}

/// How the agent's process ended.
struct Ended {
    exit_code: Option<i32>,
    stderr: String,
    failure: Option<Failure>,
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
        if self.stop.is_requested() {
            return Err(self.stopped().into());
        }
        // Known before anything is spent.
        if self.task.settings.require_tests && self.task.settings.test.is_none() {
            return Err(Failure::new(FailureReason::Tests, "no test command was found, and tests are required").into());
        }
        if let Some(agent) = self.engine.options.registry.get(&self.task.agent)
            && self.engine.program_of(agent) == Some(None)
        {
            let message = format!("{} is not installed on this machine: {}", agent.name, agent.install_hint);
            return Err(Failure::new(FailureReason::Agent, message).into());
        }
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

    async fn execute_in(&self, place: &Place) -> Result<Execution, Halt> {
        if !place.is_settled() {
            self.settle(place).await?;
        }
        self.prepare_workspace(place).await?;
        if let Some(failure) = self.hooks_in(place, HookStage::BeforeExecute).await? {
            return Err(failure.into());
        }
        let mut failure = self.run_agent(place).await?;
        if failure.is_none() {
            failure = self.hooks_in(place, HookStage::AfterExecute).await?;
        }
        let commit = match self.collect(place).await? {
            Ok(commit) => commit,
            Err(problem) => {
                return Ok(Execution::failed(self.salvage().await, failure.unwrap_or(problem)));
            }
        };
        self.announce_changes(&commit).await?;
        Ok(Execution { commit, failure })
    }

    async fn prepare_workspace(&self, place: &Place) -> Result<(), Halt> {
        let (branch, remote) = (self.session.branch.as_str(), Self::remote(place));
        let settings = &self.task.settings;
        let env = [
            ("BRANCH", branch),
            ("BASE", &self.task.base),
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

    async fn run_agent(&self, place: &Place) -> Result<Option<Failure>, Halt> {
        let options = &self.engine.options;
        let Some(agent) = options.registry.get(&self.task.agent) else {
            return Ok(Some(Failure::new(FailureReason::Agent, format!("there is no agent {}", self.task.agent))));
        };
        let choice = self.engine.model_choice(agent, &self.task);
        let prompt = self.compose(agent, self.task.prompt.as_str(), &Occasion::Task {}).await?;
        let briefing = Briefing { prompt: &prompt, choice: &choice, max_turns: self.task.settings.max_turns };
        let mut spec = self.engine.agent_process(agent, &briefing, &place.sandbox, place.network(), &self.path());
        spec.files.splice(0..0, place.take_files());
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
        let step = Step::new(self.journal.now(), vec![started]).moving(Move::Start);
        self.journal.step(step.with_attempt(AttemptUpdate::Started(attempt))).await?;
        let mut process = self.begin(place, spec).await?;
        failpoint::reach("execute::started")?;
        let bounds = Bounds::of(&self.task.settings, agent.counts_turns());
        let ended = self.watch(place, &mut process, &id, agent.parser(), bounds).await?;
        let finished = EventBody::AgentFinished {
            attempt_id: id.clone(),
            exit_code: ended.exit_code,
            reason: ended.failure.as_ref().map(|failure| failure.reason),
        };
        let update = AttemptUpdate::Finished { attempt: id, exit_code: ended.exit_code, stderr_tail: ended.stderr };
        self.journal.step(Step::new(self.journal.now(), vec![finished]).with_attempt(update)).await?;
        Ok(ended.failure)
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
        let exit_code = loop {
            let due = ending.as_ref().map_or(supervisor.due(), Ending::due);
            let next = tokio::select! {
                biased;
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
        Ok(Ended { exit_code, stderr: stderr.into_text(), failure })
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

    /// Commits what is left and pushes it out. The inner error says why the work could not be brought out.
    async fn collect(&self, place: &Place) -> Result<Result<String, Failure>, Halt> {
        let remote = Self::remote(place);
        let message = self.commit_message();
        let env = [("BRANCH", self.session.branch.as_str()), ("REMOTE", &remote), ("MESSAGE", &message)];
        let ran = self.run(place, "finish", &script::finish(), &env, SCRIPT_LIMIT).await?;
        let tip = self.repository.tip(&self.session.branch.as_ref_name()).await?;
        Ok(match tip {
            Some(commit) if ran.succeeded() => Ok(commit),
            _ => {
                let message = format!("the work could not be brought out of the sandbox: {}", ran.last_line());
                Err(Failure::new(FailureReason::Agent, message))
            }
        })
    }

    async fn announce_changes(&self, commit: &str) -> Result<(), Halt> {
        let changes = self.repository.changes(&self.task.base, commit).await?;
        let mut events: Vec<EventBody> = changes
            .into_iter()
            .map(|change| EventBody::FileChanged { path: change.path, change: change.change })
            .collect();
        let commits = self.repository.commits(&self.task.base, commit).await?;
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

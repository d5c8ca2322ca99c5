//! How an agent comes to know what was said before it: by its own memory, kept from its last turn, or by being told the last
//! messages of the journal.

use std::collections::HashMap;

use harvest_agents::Agent;
use harvest_agents::prompt::{self, HISTORY, History, Occasion};
use harvest_core::{Event, EventBody, MessageRole, TurnId};

use crate::error::Halt;
use crate::plan::Plan;
use crate::turn::Turn;

/// So many bytes of a message are told; what is over is left out in its middle.
const MESSAGE_BYTES: usize = 4 * 1024;

/// So many forks of forks are looked back through.
const FORKS: usize = 8;

/// What an agent knows before it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Its own conversation, which it goes on with.
    pub(crate) own: Option<Kept>,
    /// What it has to be told: all that was said, or what was said since.
    told: Vec<Said>,
    /// What it has to be told when it cannot go on after all.
    all: Vec<Said>,
    /// Why whoever worked before could not end: it goes on in the middle.
    cut_off: Option<String>,
}

/// A conversation as the agent itself keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// What it calls it; empty when it needs no name.
    pub(crate) name: String,
    /// Where its files are.
    pub(crate) commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    who: String,
    text: String,
}

impl Memory {
    /// The same without a conversation of its own.
    pub(crate) fn retold(self) -> Self {
        Self { own: None, told: self.all.clone(), ..self }
    }

    /// What it has to be told, shortened to what a prompt may hold.
    pub(crate) fn told(&self) -> Told {
        let earlier = self.told.len().saturating_sub(HISTORY);
        let shorten = |said: &Said| (said.who.clone(), shortened(said.text.trim(), MESSAGE_BYTES));
        Told {
            messages: self.told[earlier..].iter().map(shorten).collect(),
            earlier,
            others: self.own.is_some(),
            cut_off: self.cut_off.clone(),
        }
    }
}

/// What an agent is told of what was said before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// Who said what.
    messages: Vec<(String, String)>,
    earlier: usize,
    others: bool,
    cut_off: Option<String>,
}

impl Told {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn messages(&self) -> Vec<prompt::Said<'_>> {
        self.messages.iter().map(|(author, text)| prompt::Said { author, text }).collect()
    }

    /// What is new about a prompt that is told along with these messages.
    pub(crate) fn occasion<'a>(&'a self, messages: &'a [prompt::Said<'a>]) -> Occasion<'a> {
        let history = History { messages, earlier: self.earlier, others: self.others };
        match &self.cut_off {
            _ if messages.is_empty() => Occasion::Task {},
            Some(reason) => Occasion::Resume { reason: Some(reason), history },
            None => Occasion::FollowUp(history),
        }
    }
}

impl Turn {
    /// What `agent` knows when it is asked for the first time in this claim of the turn.
    pub(crate) async fn memory_at_first(&self, agent: &Agent) -> Result<Memory, Halt> {
        match &self.cut_off {
            Some(why) => self.memory_so_far(agent, why.clone()).await,
            None if self.goes_on => self.memory(agent).await,
            None => Ok(Memory::default()),
        }
    }

    /// What `agent` knows of what was said before this turn.
    pub(crate) async fn memory(&self, agent: &Agent) -> Result<Memory, Halt> {
        let mut events = self.journal.all().await?;
        let this = &self.lease().turn;
        let begins = |event: &Event| matches!(&event.body, EventBody::TurnStarted { turn_id, .. } if turn_id == this);
        // Its plan was made in this turn, too, and so was what a person did not want, or interrupted.
        let begun = match self.plan {
            Plan::Approved(_) => events.iter().rposition(begins),
            _ if self.gate.returned().is_some() || self.interruption.is_some() => events.iter().rposition(begins),
            _ => events.iter().position(begins),
        };
        events.truncate(begun.unwrap_or(events.len()));
        let mut memory = recall(agent, self.said_in_origin().await?, &events);
        // What another machine has kept is told like anything else.
        if let Some(kept) = &memory.own
            && self.repository.tip(&kept.commit).await?.is_none()
        {
            memory = memory.retold();
        }
        Ok(memory)
    }

    /// What an agent has to be told that takes over in the middle of this turn.
    pub(crate) async fn memory_so_far(&self, agent: &Agent, cut_off: String) -> Result<Memory, Halt> {
        let events = self.journal.all().await?;
        let memory = recall(agent, self.said_in_origin().await?, &events).retold();
        Ok(Memory { cut_off: Some(cut_off), ..memory })
    }

    /// What was said in the session that this one was forked from, and in the one before that.
    async fn said_in_origin(&self) -> Result<Vec<Said>, Halt> {
        let store = &self.engine.options.store;
        let mut origin = self.task.settings.origin.clone();
        let mut earlier = Vec::new();
        for _ in 0..FORKS {
            let Some(from) = origin else { break };
            let mut said = said(&self.journal.of(&from.session, from.seq).await?, 0);
            said.append(&mut earlier);
            earlier = said;
            let session = store.session(&from.session).await?;
            origin = store.task(&session.task_id).await?.task.settings.origin;
        }
        Ok(earlier)
    }
}

fn recall(agent: &Agent, earlier: Vec<Said>, events: &[Event]) -> Memory {
    let mut all = earlier;
    all.extend(said(events, 0));
    let last = events
        .iter()
        .rposition(|event| matches!(&event.body, EventBody::ConversationKept { agent: of, .. } if *of == agent.id));
    let own = last.and_then(|last| match &events[last].body {
        EventBody::ConversationKept { name, commit, .. } => {
            let name = agent.resumable(name.as_deref())?.to_owned();
            Some((last, Kept { name, commit: commit.clone() }))
        }
        _ => None,
    });
    match own {
        Some((last, kept)) => Memory { own: Some(kept), told: said(events, last), all, cut_off: None },
        None => Memory { own: None, told: all.clone(), all, cut_off: None },
    }
}

/// What people and agents said, from an event on.
fn said(events: &[Event], from: usize) -> Vec<Said> {
    let mut prompts: HashMap<&TurnId, &str> = HashMap::new();
    let (mut first, mut agent) = (None, "agent");
    let mut said: Vec<Said> = Vec::new();
    // Whether the agent still speaks: one that prints lines says a message line by line.
    let mut speaks = false;
    for (place, event) in events.iter().enumerate() {
        let new = match &event.body {
            EventBody::TaskCreated { prompt, agent: of, .. } => {
                (first, agent) = (Some(prompt.as_str()), of);
                None
            }
            EventBody::TurnQueued { turn_id, prompt, delivers: false, .. } => {
                prompts.insert(turn_id, prompt.as_str());
                None
            }
            EventBody::TurnStarted { turn_id, number, author } => {
                // Once: a turn that is taken up again asks nothing new.
                let asked = if *number == 1 { first.take() } else { prompts.remove(turn_id) };
                asked.map(|text| (author.as_str(), text))
            }
            EventBody::AgentStarted { agent: of, .. } => {
                agent = of;
                None
            }
            EventBody::Message { role: MessageRole::Assistant, text } => Some((agent, text.as_str())),
            _ => None,
        };
        let is_message = matches!(&event.body, EventBody::Message { role: MessageRole::Assistant, .. });
        let interrupts = matches!(
            &event.body,
            EventBody::ToolCall { .. }
                | EventBody::ToolResult { .. }
                | EventBody::TurnStarted { .. }
                | EventBody::AgentStarted { .. }
                | EventBody::AgentFinished { .. }
        );
        if let Some((who, text)) = new
            && place >= from
            && !text.trim().is_empty()
        {
            match said.last_mut().filter(|_| is_message && speaks) {
                Some(last) => {
                    last.text.push('\n');
                    last.text.push_str(text);
                }
                None => said.push(Said { who: who.to_owned(), text: text.to_owned() }),
            }
            speaks = is_message;
        } else if interrupts {
            speaks = false;
        }
    }
    said
}

/// The beginning and the end of a text that is too long.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (mut head, mut tail) = (most / 2, text.len() - most / 2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[{} bytes are left out]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use harvest_agents::Registry;
    use harvest_core::Prompt;

    use super::*;
    use crate::story::{journal, turn};

    fn created(prompt: &str) -> EventBody {
        EventBody::TaskCreated {
            task_id: "0000000000000009".parse().unwrap(),
            prompt: Prompt::new(prompt).unwrap(),
            repository: String::new(),
            base: String::new(),
            agent: "claude-code".into(),
            model: None,
        }
    }

    fn started(number: u32, author: &str) -> EventBody {
        EventBody::TurnStarted { turn_id: turn(number), number, author: author.into() }
    }

    fn queued(number: u32, prompt: &str) -> EventBody {
        let prompt = Prompt::new(prompt).unwrap();
        EventBody::TurnQueued {
            turn_id: turn(number),
            number,
            author: "lin".into(),
            prompt,
            agent: None,
            model: None,
            delivers: false,
        }
    }

    fn working(agent: &str) -> EventBody {
        EventBody::AgentStarted { attempt_id: "0000000000000008".parse().unwrap(), agent: agent.into(), model: None }
    }

    fn message(text: &str) -> EventBody {
        EventBody::Message { role: MessageRole::Assistant, text: text.into() }
    }

    fn called() -> EventBody {
        EventBody::ToolResult { id: "c1".into(), output: String::new(), is_error: false }
    }

    fn kept(agent: &str, name: Option<&str>) -> EventBody {
        EventBody::ConversationKept { agent: agent.into(), name: name.map(str::to_owned), commit: "c0ffee".into() }
    }

    fn text(memory: &Memory) -> String {
        memory.told().messages.iter().map(|(who, text)| format!("{who}: {text}\n")).collect()
    }

    fn of(agent: &str, events: &[Event]) -> Memory {
        recall(Registry::bundled().unwrap().get(agent).unwrap(), Vec::new(), events)
    }

    #[test]
    fn what_was_said_is_retold_in_its_order() {
        // The second prompt came while the first was worked on, and the worker of the first was lost once.
        let events = journal(vec![
            created("Mend it"),
            started(1, "ada"),
            queued(2, "And test it"),
            started(1, "ada"),
            working("builtin"),
            message("Mended."),
            started(2, "lin"),
            message("Tested."),
        ]);
        let told = [("ada", "Mend it"), ("builtin", "Mended."), ("lin", "And test it"), ("builtin", "Tested.")];
        assert_eq!(of("builtin", &events).told().messages, told.map(|(who, text)| (who.to_owned(), text.to_owned())));
    }

    #[test]
    fn an_agent_that_remembers_is_told_only_what_came_since() {
        let first = vec![
            created("Mend it"),
            started(1, "ada"),
            working("claude-code"),
            message("Mended."),
            kept("claude-code", Some("s-1")),
        ];
        let alone = of("claude-code", &journal(first.clone()));
        assert_eq!(alone.own, Some(Kept { name: "s-1".into(), commit: "c0ffee".into() }));
        assert!(alone.told().is_empty() && alone.told().others);
        assert!(text(&alone.retold()).contains("Mended."));
        let more = [queued(2, "Test it"), started(2, "lin"), working("codex"), message("Tested."), kept("codex", None)];
        let events = journal(first.into_iter().chain(more).collect());
        let told = text(&of("claude-code", &events));
        assert_eq!(told, "lin: Test it\ncodex: Tested.\n");
        // Nobody knows what Codex called it.
        assert_eq!(of("codex", &events).own, None);
        assert!(text(&of("codex", &events)).contains("Mended."));
    }

    #[test]
    fn the_lines_of_an_agent_that_prints_lines_are_one_message() {
        let usage = EventBody::CheckpointCreated { number: 1, commit: "c0ffee".into() };
        let events = journal(vec![
            created("Mend it"),
            started(1, "ada"),
            working("builtin"),
            message("First line"),
            usage,
            message("second line"),
            called(),
            message("Another message"),
            queued(2, "Again"),
            started(2, "lin"),
            message("A third"),
        ]);
        let told =
            "ada: Mend it\nbuiltin: First line\nsecond line\nbuiltin: Another message\nlin: Again\nbuiltin: A third\n";
        assert_eq!(text(&of("builtin", &events)), told);
    }

    #[test]
    fn however_much_was_said_the_prompt_stays_small() {
        let mut bodies = vec![created("x"), started(1, "ada")];
        bodies.extend((0..500).flat_map(|number| [message(&format!("{number} {}", "ß".repeat(100_000))), called()]));
        let memory = of("builtin", &journal(bodies));
        let told = text(&memory);
        assert!(told.len() < 64 * 1024, "{}", told.len());
        assert!(
            memory.told().earlier == 491 && told.contains("builtin: 499 ß") || told.contains("claude-code: 499 ß"),
            "{}",
            &told[..200]
        );
    }
}

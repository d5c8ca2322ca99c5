//! A turn as spans, read from its journal.

use std::collections::HashMap;
use std::time::Duration;

use harvest_core::{Event, EventBody, Source, Task, TaskStatus, Timestamp};
use serde_json::json;

use crate::span::{Kind, Outcome, Span, SpanId, TraceId, request_span, task_span};

/// The last turn of a session, and with the first one the task itself. `events` is the whole journal.
pub fn spans_of(task: &Task, events: &[Event]) -> Vec<Span> {
    let number = events.iter().rev().find_map(|event| match event.body {
        EventBody::TurnStarted { number, .. } => Some(number),
        _ => None,
    });
    let (Some(number), Some(last)) = (number, events.last()) else { return Vec::new() };
    // A turn that was taken up again after a crash has begun once.
    let begun = events
        .iter()
        .position(|event| matches!(event.body, EventBody::TurnStarted { number: one, .. } if one == number));
    let Some(begun) = begun else { return Vec::new() };
    let asked = events.iter().rev().find(|event| match event.body {
        EventBody::TurnQueued { number: one, .. } => one == number,
        EventBody::TaskCreated { .. } => number == 1,
        _ => false,
    });
    let mut tracing = Tracing { task, trace: TraceId::of(&task.id), spans: Vec::new() };
    let start = events[begun].at;
    if number == 1 {
        tracing.task(events[0].at, last.at);
    }
    let key = format!("turn {number}");
    if let Some(asked) = asked {
        tracing.add(&format!("claim {number}"), Some(task_span(&task.id)), "claim", asked.at, start);
    }
    let turn = tracing.add(&key, Some(task_span(&task.id)), "turn", start, last.at);
    tracing.attribute("harvest.turn", json!(number));
    tracing.turn(turn, &events[begun..]);
    tracing.spans
}

struct Tracing<'a> {
    task: &'a Task,
    trace: TraceId,
    spans: Vec<Span>,
}

impl Tracing<'_> {
    /// Its id follows from `key`, which is of this span alone in its task.
    fn add(&mut self, key: &str, parent: Option<SpanId>, name: &str, start: Timestamp, end: Timestamp) -> SpanId {
        let id = SpanId::of(&self.task.id, key);
        self.spans.push(Span {
            trace: self.trace,
            id,
            parent,
            name: name.to_owned(),
            kind: Kind::Internal,
            start,
            end: end.max(start),
            attributes: Vec::new(),
            outcome: Outcome::Unset,
        });
        id
    }

    /// Of the span that was added last.
    fn attribute(&mut self, key: &'static str, value: serde_json::Value) {
        if let Some(span) = self.spans.last_mut() {
            span.attributes.push((key, value));
        }
    }

    fn outcome(&mut self, kind: Kind, outcome: Outcome) {
        if let Some(span) = self.spans.last_mut() {
            (span.kind, span.outcome) = (kind, outcome);
        }
    }

    fn task(&mut self, start: Timestamp, end: Timestamp) {
        let task = self.task;
        let asked_over_http = matches!(task.source, Source::Api | Source::Web);
        self.add("task", asked_over_http.then(|| request_span(&task.id)), "task", start, end);
        self.attribute("harvest.task", json!(task.id));
        self.attribute("harvest.repository", json!(task.repository));
        self.attribute("harvest.agent", json!(task.agent));
        self.attribute("harvest.status", json!(task.status));
        self.attribute("harvest.cost_usd", json!(task.cost_usd.dollars()));
        let outcome = match task.status {
            TaskStatus::Completed => Outcome::Ok,
            TaskStatus::Failed => Outcome::Failed(task.reason.map(|reason| reason.to_string()).unwrap_or_default()),
            _ => Outcome::Unset,
        };
        self.outcome(Kind::Internal, outcome);
    }

    fn turn(&mut self, turn: SpanId, events: &[Event]) {
        let mut agents: HashMap<String, (SpanId, usize)> = HashMap::new();
        let mut working = turn;
        let mut tools: HashMap<&str, (&str, Timestamp, SpanId)> = HashMap::new();
        for event in events {
            let key = format!("event {}", event.seq);
            match &event.body {
                EventBody::SandboxReady { purpose, provider, duration_ms, warm, .. } => {
                    self.add(&key, Some(turn), "sandbox", before(event.at, *duration_ms), event.at);
                    self.attribute("harvest.sandbox.purpose", json!(purpose));
                    self.attribute("harvest.sandbox.provider", json!(provider));
                    self.attribute("harvest.sandbox.warm", json!(warm));
                }
                EventBody::AgentStarted { attempt_id, agent, model } => {
                    working = self.add(&format!("attempt {attempt_id}"), Some(turn), "agent", event.at, event.at);
                    self.attribute("harvest.agent", json!(agent));
                    self.attribute("gen_ai.request.model", json!(model));
                    agents.insert(attempt_id.to_string(), (working, self.spans.len() - 1));
                }
                EventBody::AgentFinished { attempt_id, exit_code, reason } => {
                    if let Some((_, index)) = agents.get(attempt_id.as_str()) {
                        let span = &mut self.spans[*index];
                        span.end = event.at;
                        span.attributes.push(("process.exit.code", json!(exit_code)));
                        span.outcome = reason.map_or(Outcome::Ok, |reason| Outcome::Failed(reason.to_string()));
                    }
                    working = turn;
                }
                EventBody::Usage { provider, model, usage, cost_usd, duration_ms, .. } => {
                    let took = duration_ms.unwrap_or(0);
                    self.add(&key, Some(working), "model call", before(event.at, took), event.at);
                    self.attribute("gen_ai.provider.name", json!(provider));
                    self.attribute("gen_ai.request.model", json!(model));
                    self.attribute("gen_ai.usage.input_tokens", json!(usage.input_tokens));
                    self.attribute("gen_ai.usage.output_tokens", json!(usage.output_tokens));
                    self.attribute("harvest.cost_usd", json!(cost_usd.dollars()));
                    self.outcome(Kind::Client, Outcome::Unset);
                }
                EventBody::ToolCall { id, name, .. } => {
                    tools.insert(id, (name, event.at, working));
                }
                EventBody::ToolResult { id, is_error, .. } => {
                    if let Some((name, start, parent)) = tools.remove(id.as_str()) {
                        self.add(&key, Some(parent), &format!("tool {name}"), start, event.at);
                        let outcome =
                            if *is_error { Outcome::Failed("the tool failed".to_owned()) } else { Outcome::Ok };
                        self.outcome(Kind::Internal, outcome);
                    }
                }
                EventBody::TestsFinished(run) => {
                    self.add(&key, Some(turn), "tests", before(event.at, run.duration_ms), event.at);
                    self.attribute("harvest.sandbox.purpose", json!(run.purpose));
                    self.attribute("process.exit.code", json!(run.exit_code));
                }
                EventBody::HookFinished { stage, duration_ms, exit_code, .. } => {
                    self.add(&key, Some(turn), "hook", before(event.at, *duration_ms), event.at);
                    self.attribute("harvest.hook.stage", json!(stage));
                    self.attribute("process.exit.code", json!(exit_code));
                }
                _ => {}
            }
        }
    }
}

fn before(at: Timestamp, millis: u64) -> Timestamp {
    at.checked_sub(Duration::from_millis(millis)).unwrap_or(at)
}

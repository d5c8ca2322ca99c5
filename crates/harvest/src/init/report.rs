//! What each step came to, as lines for people or a last document for programs.

use serde::Serialize;
use serde_json::json;

use crate::failure::Exit;
use crate::output;
use crate::view::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Done,
    Skipped,
    Failed,
}

#[derive(Debug, Serialize)]
struct Step {
    name: &'static str,
    state: StepState,
    detail: String,
    /// What to type next.
    next: Option<String>,
}

pub struct Report {
    style: Style,
    json: bool,
    steps: Vec<Step>,
}

impl Report {
    pub fn new(style: Style, json: bool) -> Self {
        Self { style, json, steps: Vec::new() }
    }

    pub fn greet(&self) {
        self.say("Harvest, step by step. Enter takes what stands in brackets; Ctrl-C leaves, and `harvest init` continues.\n");
    }

    pub fn step(&mut self, name: &'static str, state: StepState, detail: &str, next: Option<&str>) {
        let sign = match state {
            StepState::Done => self.style.ok(),
            StepState::Skipped => self.style.stopped(),
            StepState::Failed => self.style.failed(),
        };
        self.say(&format!("{sign} {name:<13} {detail}"));
        if let Some(next) = next {
            self.say(&format!("    {} {next}", self.style.arrow()));
        }
        self.steps.push(Step { name, state, detail: detail.to_owned(), next: next.map(str::to_owned) });
    }

    pub fn note(&self, text: &str) {
        self.say(&self.style.dim(&format!("  {text}")));
    }

    /// For people alone.
    pub fn say(&self, text: &str) {
        if !self.json {
            let _ = output::line(text);
        }
    }

    /// A line between the steps and what a task prints.
    pub fn pause(&self) {
        self.say("");
    }

    pub fn exit(&self) -> Exit {
        match self.steps.iter().any(|step| step.state == StepState::Failed) {
            true => Exit::Failed,
            false => Exit::Done,
        }
    }

    pub fn close(&self) {
        if self.json {
            let _ = output::json(&json!({ "type": "setup", "steps": self.steps }));
        }
    }
}

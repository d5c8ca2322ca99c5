//! The outcome of each step, as lines for people or as one document for programs.

use serde::Serialize;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::view::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Done,
    /// It is set, and could not be tried.
    Unchecked,
    Skipped,
    Failed,
}

#[derive(Debug, Serialize)]
struct Step {
    name: &'static str,
    state: StepState,
    detail: String,
    /// What to type next; for a step that is done, something that can be done as well.
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
        self.say(
            "Setting up Harvest, step by step. Press Enter for the answer in brackets, or type `skip`. Ctrl-C quits; run \
             `harvest init` again to continue.\n",
        );
    }

    pub fn step(&mut self, name: &'static str, state: StepState, detail: &str, next: Option<&str>) {
        let sign = match state {
            StepState::Done => self.style.ok(),
            StepState::Skipped | StepState::Unchecked => self.style.stopped(),
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

    /// Lists what is left to do; for programs, prints the document.
    pub fn close(&self, error: Option<&Failure>) {
        if self.json {
            let error = error.map(Failure::document);
            let _ = output::json(&json!({ "type": "setup", "steps": self.steps, "error": error }));
            return;
        }
        let left = self.steps.iter().filter(|step| step.state != StepState::Done);
        let left: Vec<String> =
            left.filter_map(|step| Some(format!("  {:<13} {}", step.name, step.next.as_ref()?))).collect();
        if !left.is_empty() {
            self.say(&format!("\nLeft to do:\n{}", left.join("\n")));
        }
    }
}

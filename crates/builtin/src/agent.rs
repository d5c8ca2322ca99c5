//! The loop: ask the model, do what it wants, tell it what came of it, until it ends its turn.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::conversation::{CallResult, End, Message};
use crate::draft::Draft;
use crate::model::{self, Failure, Model};
use crate::options::Options;
use crate::output::Output;
use crate::tools::Tools;

const RULES: &str = include_str!("system.md");

pub(crate) struct Agent {
    pub(crate) model: Model,
    pub(crate) tools: Tools,
    /// How many replies the model may give.
    pub(crate) max_turns: u32,
}

/// Why the loop ended before the model was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Model(Failure),
    #[error("the model did not finish within {0} turns")]
    Turns(u32),
    #[error("the file {} with more rules cannot be read: {source}", .path.display())]
    SystemFile { path: PathBuf, source: io::Error },
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl From<model::Error> for Stop {
    fn from(error: model::Error) -> Self {
        match error {
            model::Error::Model(failure) => Self::Model(failure),
            model::Error::Output(error) => Self::Output(error),
        }
    }
}

/// The rules that always hold, where the work is, and what the project adds.
pub(crate) fn system_prompt(options: &Options) -> Result<String, Stop> {
    let mut system = format!("{RULES}\nThe repository is at {}.\n", options.workspace.display());
    if let Some(path) = &options.system_file {
        let more = std::fs::read_to_string(path).map_err(|source| Stop::SystemFile { path: path.clone(), source })?;
        system.push('\n');
        system.push_str(&more);
    }
    Ok(system)
}

impl Agent {
    /// Works until the model ends its turn; returns how many replies that took.
    pub(crate) fn run<W: Write>(&self, prompt: &str, output: &mut Output<W>) -> Result<u32, Stop> {
        let mut messages = vec![Message::User(prompt.to_owned())];
        for turn in 1..=self.max_turns {
            let mut draft = Draft::new(output);
            let mut reply = self.model.reply(&messages, &mut draft)?;
            // Not every format has ids, and what belongs together must be seen by everyone.
            for (number, call) in reply.calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
                call.id = format!("call_{turn}_{number}");
            }
            draft.finish()?;

            let mut results = Vec::new();
            for call in &reply.calls {
                output.call(call)?;
                let result = self.tools.call(call);
                output.result(&result)?;
                results.push(result);
            }
            match (results.is_empty(), reply.end) {
                (true, End::Finished) => return Ok(turn),
                (_, End::Refused) => {
                    return Err(Stop::Model(Failure::Refused("the vendor's filter stopped the answer".to_owned())));
                }
                (_, End::TooLong | End::Finished) => {}
            }
            // An answer without anything in it is no part of a conversation.
            if !reply.text.trim().is_empty() || !reply.calls.is_empty() {
                messages.push(Message::Assistant(reply));
            }
            messages.push(answer_to(results));
        }
        Err(Stop::Turns(self.max_turns))
    }
}

/// A reply without calls goes on only when it was cut off for its length.
fn answer_to(results: Vec<CallResult>) -> Message {
    if results.is_empty() {
        return Message::User("Your reply reached the length limit and was cut off. Go on from there.".to_owned());
    }
    Message::Results(results)
}

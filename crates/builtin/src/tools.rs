//! What the model can do: five tools, each with its description for the model in its own file, and those of MCP servers.
//!
//! A tool never ends the agent. Whatever goes wrong is a result the model can read and react to.

mod bash;
mod edit;
mod read;
mod search;
mod write;

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::conversation::{Call, CallResult, Input};
use crate::mcp::Servers;
use crate::options::Mode;

/// More output than this helps no model.
const MAX_OUTPUT: usize = 30_000;

/// A tool as the model is told about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: Cow<'static, str>,
    pub(crate) description: Cow<'static, str>,
    /// The JSON schema of the input.
    pub(crate) schema: Value,
}

#[derive(Debug)]
pub(crate) struct Tools {
    workspace: PathBuf,
    mode: Mode,
    servers: RefCell<Servers>,
}

/// What a tool gives back; an error is a text for the model too.
type Outcome = Result<String, String>;

impl Tools {
    pub(crate) fn new(workspace: PathBuf, mode: Mode, servers: Servers) -> Self {
        Self { workspace, mode, servers: RefCell::new(servers) }
    }

    pub(crate) fn definitions(&self) -> Vec<Definition> {
        let mut definitions = match self.mode {
            Mode::Work => {
                vec![
                    bash::definition(),
                    read::definition(),
                    write::definition(),
                    edit::definition(),
                    search::definition(),
                ]
            }
            Mode::Plan => vec![read::definition(), search::definition()],
        };
        definitions.extend_from_slice(self.servers.borrow().definitions());
        definitions
    }

    pub(crate) fn call(&self, call: &Call) -> CallResult {
        let outcome = match &call.input {
            Input::Object(input) => self.run(&call.name, input),
            Input::Invalid(text) => Err(format!(
                "The input is not a JSON object, so nothing was done. It began: {}",
                text.chars().take(200).collect::<String>()
            )),
        };
        let is_error = outcome.is_err();
        let output = outcome.unwrap_or_else(|error| error);
        CallResult { id: call.id.clone(), output, is_error }
    }

    fn run(&self, name: &str, input: &Map<String, Value>) -> Outcome {
        match name {
            "bash" | "write" | "edit" if self.mode == Mode::Plan => {
                Err(format!("There is no tool `{name}` while you plan. The tools are read and search."))
            }
            "bash" => bash::run(&self.workspace, &read_input(input)?),
            "read" => read::run(&self.workspace, &read_input(input)?),
            "write" => write::run(&self.workspace, &read_input(input)?),
            "edit" => edit::run(&self.workspace, &read_input(input)?),
            "search" => search::run(&self.workspace, &read_input(input)?),
            _ => {
                let answer = self.servers.borrow_mut().call(name, input);
                let unknown =
                    || Err(format!("There is no tool `{name}`. The tools are {}.", names(&self.definitions())));
                answer.unwrap_or_else(unknown)
            }
        }
    }
}

/// `bash, read and write`.
fn names(definitions: &[Definition]) -> String {
    let names: Vec<&str> = definitions.iter().map(|definition| definition.name.as_ref()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "none".to_owned(),
    }
}

fn read_input<T: DeserializeOwned>(input: &Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(input.clone()))
        .map_err(|error| format!("The input does not fit the tool: {error}."))
}

/// Relative paths start at the workspace. A path outside is whatever the sandbox allows.
fn resolve(workspace: &Path, path: &str) -> PathBuf {
    workspace.join(path)
}

fn object_schema(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn cannot(what: &str, path: &str, error: &std::io::Error) -> String {
    format!("Cannot {what} {path}: {error}.")
}

//! One agent: what it is called, what it can do, and the command that starts it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::dialect::{Dialect, Parser};
use crate::mcp;
use crate::template::{Placeholder, Template};
use crate::{File, Invocation, Turn};

/// Which wire format a model call has, and so which path of the gateway it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    Anthropic,
    Openai,
    Gemini,
    Ollama,
}

/// What an agent can do beyond taking a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Features {
    /// It can go on with an earlier conversation of its own.
    pub resume: bool,
    /// It has a read-only planning mode.
    pub plan: bool,
    pub mcp: bool,
    pub hooks: bool,
    pub subagents: bool,
    /// Text arrives in pieces while the model writes it.
    pub streaming: bool,
    /// It commits by itself.
    pub auto_commit: bool,
}

#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    pub name: String,
    /// What it can speak, best first; never empty.
    pub providers: Vec<Provider>,
    pub features: Features,
    /// It can be started before its prompt is known: it reads it from standard input, and nothing else of its command depends
    /// on it or on the session.
    pub warm: bool,
    /// It comes with Harvest.
    pub bundled: bool,
    /// The program that has to be installed for it, by its name or whole path; `None` when Harvest brings it along.
    pub program: Option<String>,
    /// The argument that makes its program tell its version and do nothing else.
    pub version_argument: Option<String>,
    /// Files with a repository's conventions that it reads by itself.
    pub reads: Vec<String>,
    /// What to do to get it.
    pub install_hint: String,
    pub(crate) default_models: BTreeMap<Provider, String>,
    pub(crate) dialect: Dialect,
    /// It insists on a terminal.
    pub(crate) terminal: bool,
    pub(crate) prompt: PromptPassing,
    pub(crate) argv: Vec<Template>,
    /// The same where it goes on with a conversation of its own.
    pub(crate) resume_argv: Option<Vec<Template>>,
    /// The same where it only plans.
    pub(crate) plan_argv: Option<Vec<Template>>,
    pub(crate) state: Vec<String>,
    pub(crate) environment: Vec<(String, Template)>,
    pub(crate) files: Vec<FileTemplate>,
    /// How it is told of MCP servers; `None` when it knows of none.
    pub(crate) mcp: Option<mcp::Style>,
}

/// How the prompt reaches the agent. Standard input has no length limit and shows in no process list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PromptPassing {
    /// As it is.
    Stdin,
    /// As a message of Claude Code's `stream-json`.
    StdinMessage,
}

#[derive(Debug, Clone)]
pub(crate) struct FileTemplate {
    pub(crate) path: Template,
    pub(crate) content: Template,
    pub(crate) executable: bool,
}

impl Provider {
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::Gemini, Self::Ollama];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Where the gateway answers for this provider, seen from inside a sandbox.
    pub fn base_url(self, gateway_port: u16) -> String {
        format!("http://127.0.0.1:{gateway_port}/{}", self.as_str())
    }
}

impl std::fmt::Display for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Agent {
    /// The model to use when nobody named one.
    pub fn default_model(&self, provider: Provider) -> Option<&str> {
        self.default_models.get(&provider).map(String::as_str)
    }

    /// Whether it is told how often it may call the model, and keeps to it.
    pub fn counts_turns(&self) -> bool {
        self.argv.iter().any(|argument| argument.uses(Placeholder::MaxTurns))
    }

    /// Where it keeps its conversations: files and folders, below the home.
    pub fn state(&self) -> &[String] {
        &self.state
    }

    /// What to name when it is to go on with the conversation that it called `known`. `None` when it cannot: it has no way
    /// to, or would have to be told a name that nobody knows.
    pub fn resumable<'c>(&self, known: Option<&'c str>) -> Option<&'c str> {
        let argv = self.resume_argv.as_ref().filter(|_| !self.state.is_empty())?;
        if argv.iter().any(|argument| argument.uses(Placeholder::Conversation)) { known } else { Some("") }
    }

    /// Whether it can use MCP servers.
    pub fn takes_tools(&self) -> bool {
        self.mcp.is_some()
    }

    pub fn command(&self, turn: &Turn<'_>) -> Invocation {
        let value = |placeholder| value_of(placeholder, turn);
        let other = if turn.plan { self.plan_argv.as_ref() } else { turn.resume.and(self.resume_argv.as_ref()) };
        let own = other.unwrap_or(&self.argv);
        let mut env = base_environment(turn);
        for (name, template) in &self.environment {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), template.fill(value)));
        }
        let mut argv = self.bridge(turn);
        let program = argv.len();
        argv.extend(own.iter().map(|template| template.fill(value)));
        let mut invocation = Invocation {
            argv,
            program,
            env,
            stdin: match self.prompt {
                PromptPassing::Stdin => turn.prompt.to_owned(),
                PromptPassing::StdinMessage => user_message(turn.prompt),
            },
            files: self
                .files
                .iter()
                .map(|file| File {
                    path: PathBuf::from(file.path.fill(value)),
                    content: file.content.fill(value),
                    executable: file.executable,
                })
                .collect(),
        };
        // One that plans has nothing to call that could change anything anywhere.
        if let Some(style) = self.mcp.filter(|_| !turn.mcp.is_empty() && !turn.plan) {
            mcp::tell(style, &mut invocation, turn);
        }
        invocation
    }

    /// What stands between the agent and whoever reads its output.
    fn bridge(&self, turn: &Turn<'_>) -> Vec<String> {
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let arguments = match (self.dialect, self.terminal) {
            (Dialect::Acp, _) => vec!["acp".to_owned(), "--workspace".to_owned(), text(turn.workspace)],
            (_, true) => vec!["pty".to_owned()],
            (_, false) => return Vec::new(),
        };
        let program = text(&turn.bin.join("harvest-builtin"));
        std::iter::once(program).chain(arguments).chain(["--".to_owned()]).collect()
    }

    /// Reads the output of one run from its beginning.
    pub fn parser(&self) -> Parser {
        Parser::new(self.dialect)
    }

    /// Each line that it prints is a message: only all of them together are what it says.
    pub fn speaks_in_lines(&self) -> bool {
        matches!(self.dialect, Dialect::Aider | Dialect::Text)
    }
}

/// The line by which Claude Code is given a prompt.
fn user_message(prompt: &str) -> String {
    let message = json!({
        "type": "user",
        "message": { "role": "user", "content": prompt },
        "parent_tool_use_id": null,
        "session_id": "",
    });
    format!("{message}\n")
}

/// The same for every agent, and nothing of the host.
fn base_environment(turn: &Turn<'_>) -> Vec<(String, String)> {
    [
        ("PATH", turn.path.to_owned()),
        ("HOME", turn.home.to_string_lossy().into_owned()),
        ("USER", "harvest".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn value_of(placeholder: Placeholder, turn: &Turn<'_>) -> String {
    match placeholder {
        Placeholder::Bin => turn.bin.to_string_lossy().into_owned(),
        Placeholder::Model => turn.model.to_owned(),
        Placeholder::Provider => turn.provider.as_str().to_owned(),
        Placeholder::BaseUrl => turn.provider.base_url(turn.gateway_port),
        Placeholder::GatewayPort => turn.gateway_port.to_string(),
        Placeholder::Home => turn.home.to_string_lossy().into_owned(),
        Placeholder::Workspace => turn.workspace.to_string_lossy().into_owned(),
        Placeholder::MaxTurns => turn.max_turns.to_string(),
        Placeholder::Conversation => turn.resume.unwrap_or_default().to_owned(),
    }
}

//! The command line: `--name value` pairs and nothing else. It is written by a program, so every mistake is an error.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Which format the model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireName {
    Anthropic,
    Openai,
    Gemini,
    Ollama,
}

/// What it is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    #[default]
    Work,
    /// It looks and says what it would do, and has no tool that changes anything.
    Plan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) wire: WireName,
    pub(crate) base_url: String,
    pub(crate) model: String,
    pub(crate) max_turns: u32,
    pub(crate) workspace: PathBuf,
    /// More rules for the model, after the ones that are always there.
    pub(crate) system_file: Option<PathBuf>,
    /// A list of MCP servers.
    pub(crate) mcp: Option<PathBuf>,
    /// How long one reply may become, where the wire asks for it.
    pub(crate) max_tokens: u32,
    /// The first pause before a request is tried again.
    pub(crate) retry_base: Duration,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("there is no option `{0}`")]
    Unknown(String),
    #[error("the option `{0}` needs a value")]
    NoValue(String),
    #[error("the option `{name}` cannot be `{value}`: {expected}")]
    Value { name: String, value: String, expected: &'static str },
    #[error("the option `{0}` is missing")]
    Missing(&'static str),
}

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut mode = Mode::default();
        let mut wire = None;
        let mut base_url = None;
        let mut model = None;
        let mut workspace = None;
        let mut system_file = None;
        let mut mcp = None;
        let mut max_turns = 50;
        let mut max_tokens = 16_000;
        let mut retry_base = Duration::from_millis(500);
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let name = name.to_string_lossy().into_owned();
            let mut value = || arguments.next().ok_or_else(|| UsageError::NoValue(name.clone()));
            match name.as_str() {
                "--mode" => mode = mode_name(&name, &value()?)?,
                "--wire" => wire = Some(wire_name(&name, &value()?)?),
                "--base-url" => base_url = Some(text(value()?).trim_end_matches('/').to_owned()),
                "--model" => model = Some(text(value()?)),
                "--workspace" => workspace = Some(PathBuf::from(value()?)),
                "--system-file" => system_file = Some(PathBuf::from(value()?)),
                "--mcp" => mcp = Some(PathBuf::from(value()?)),
                "--max-turns" => max_turns = number(&name, &value()?)?,
                "--max-tokens" => max_tokens = number(&name, &value()?)?,
                // Not for people: tests do not want to wait.
                "--retry-base-ms" => {
                    retry_base = Duration::from_millis(u64::from(number(&name, &value()?)?));
                }
                _ => return Err(UsageError::Unknown(name)),
            }
        }
        Ok(Self {
            mode,
            wire: wire.ok_or(UsageError::Missing("--wire"))?,
            base_url: base_url.ok_or(UsageError::Missing("--base-url"))?,
            model: model.ok_or(UsageError::Missing("--model"))?,
            workspace: workspace.ok_or(UsageError::Missing("--workspace"))?,
            system_file,
            mcp,
            max_turns,
            max_tokens,
            retry_base,
        })
    }
}

fn text(value: OsString) -> String {
    value.into_string().unwrap_or_else(|value| value.to_string_lossy().into_owned())
}

fn mode_name(name: &str, value: &OsString) -> Result<Mode, UsageError> {
    match value.to_str() {
        Some("work") => Ok(Mode::Work),
        Some("plan") => Ok(Mode::Plan),
        _ => Err(wrong(name, value, "it is `work` or `plan`")),
    }
}

fn wire_name(name: &str, value: &OsString) -> Result<WireName, UsageError> {
    match value.to_str() {
        Some("anthropic") => Ok(WireName::Anthropic),
        Some("openai") => Ok(WireName::Openai),
        Some("gemini") => Ok(WireName::Gemini),
        Some("ollama") => Ok(WireName::Ollama),
        _ => Err(wrong(name, value, "it is `anthropic`, `openai`, `gemini` or `ollama`")),
    }
}

fn number(name: &str, value: &OsString) -> Result<u32, UsageError> {
    value
        .to_str()
        .and_then(|value| value.parse().ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| wrong(name, value, "it must be a number of at least 1"))
}

fn wrong(name: &str, value: &OsString, expected: &'static str) -> UsageError {
    UsageError::Value { name: name.to_owned(), value: value.to_string_lossy().into_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, UsageError> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    const GOOD: &str = "--wire openai --base-url http://127.0.0.1:1/openai/ --model m --workspace /w";

    #[test]
    fn a_full_command_line() {
        assert_eq!(
            parse(&format!("{GOOD} --mode plan --max-turns 7 --system-file f --mcp m --retry-base-ms 1")).unwrap(),
            Options {
                mode: Mode::Plan,
                wire: WireName::Openai,
                base_url: "http://127.0.0.1:1/openai".to_owned(),
                model: "m".to_owned(),
                max_turns: 7,
                workspace: PathBuf::from("/w"),
                system_file: Some(PathBuf::from("f")),
                mcp: Some(PathBuf::from("m")),
                max_tokens: 16_000,
                retry_base: Duration::from_millis(1),
            }
        );
    }

    #[test]
    fn mistakes_are_named() {
        let message = |line: &str| parse(line).unwrap_err().to_string();
        assert_eq!(message("--wire openai"), "the option `--base-url` is missing");
        assert_eq!(
            message("--wire gopher"),
            "the option `--wire` cannot be `gopher`: it is `anthropic`, `openai`, `gemini` or `ollama`"
        );
        assert_eq!(message("--model"), "the option `--model` needs a value");
        assert_eq!(message("-x"), "there is no option `-x`");
        assert_eq!(
            message(&format!("{GOOD} --max-turns 0")),
            "the option `--max-turns` cannot be `0`: it must be a number of at least 1"
        );
    }
}

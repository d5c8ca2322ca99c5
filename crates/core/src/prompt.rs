//! The text of a turn, checked once at the door.

use std::fmt;

use serde::{Deserialize, Serialize};

pub const MAX_PROMPT_BYTES: usize = 1_000_000;

/// A prompt: not blank, and at most 1,000,000 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Prompt(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    #[error("the prompt is empty")]
    Empty,
    #[error("the prompt has {bytes} bytes; at most {MAX_PROMPT_BYTES} are allowed")]
    TooLong { bytes: usize },
}

impl PromptError {
    pub fn help(&self) -> &'static str {
        match self {
            Self::Empty => "describe the task",
            Self::TooLong { .. } => "shorten it, or put long texts into a file of the repository, and name the file",
        }
    }
}

impl Prompt {
    pub fn new(text: impl Into<String>) -> Result<Self, PromptError> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(PromptError::Empty);
        }
        if text.len() > MAX_PROMPT_BYTES {
            return Err(PromptError::TooLong { bytes: text.len() });
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first line that says something, for titles and lists.
    pub fn title(&self) -> &str {
        self.0.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Prompt {
    type Error = PromptError;

    fn try_from(text: String) -> Result<Self, PromptError> {
        Self::new(text)
    }
}

impl From<Prompt> for String {
    fn from(prompt: Prompt) -> Self {
        prompt.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_oversized_prompts_are_refused() {
        assert_eq!(Prompt::new(" \n\t"), Err(PromptError::Empty));
        assert_eq!(Prompt::new("x".repeat(MAX_PROMPT_BYTES + 1)), Err(PromptError::TooLong { bytes: 1_000_001 }));
        assert!(PromptError::TooLong { bytes: 1_000_001 }.help().contains("into a file of the repository"));
        assert_eq!(Prompt::new("\n  Fix it\nplease").unwrap().title(), "Fix it");
    }
}

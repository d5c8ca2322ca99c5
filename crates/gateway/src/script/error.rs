//! Why a script is refused.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    #[error("the model script {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// `line` counts from 1; `field` is a path such as `conversations[0].replies[2].status`.
    #[error("{}", describe(*line, field.as_deref(), reason))]
    Invalid { line: Option<u64>, field: Option<String>, reason: String },
}

fn describe(line: Option<u64>, field: Option<&str>, reason: &str) -> String {
    let mut text = "the model script is not valid".to_owned();
    if let Some(line) = line {
        text += &format!(", line {line}");
    }
    if let Some(field) = field {
        text += &format!(", field `{field}`");
    }
    text + ": " + reason
}

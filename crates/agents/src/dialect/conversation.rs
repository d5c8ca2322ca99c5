//! What agents call their conversations, so that they can be told later which one to go on with.

use serde_json::Value;

use super::Dialect;

const LONGEST: usize = 128;
const LONGEST_LINE: usize = 64 * 1024;

/// The name that a line of output gives, if it does.
pub(super) fn named_in(dialect: Dialect, line: &[u8]) -> Option<String> {
    let (kind, subtype, field) = match dialect {
        Dialect::ClaudeCode => (Some("system"), Some("init"), "session_id"),
        Dialect::Codex => (Some("thread.started"), None, "thread_id"),
        Dialect::GeminiCli => (Some("init"), None, "session_id"),
        Dialect::Opencode => (None, None, "sessionID"),
        Dialect::Builtin | Dialect::Acp | Dialect::Aider | Dialect::Text => return None,
    };
    // A large line is a result, and reading it twice would take its time.
    let line: Value =
        Some(line).filter(|line| line.len() <= LONGEST_LINE).and_then(|line| serde_json::from_slice(line).ok())?;
    let fits = kind.is_none_or(|kind| line["type"] == kind) && subtype.is_none_or(|subtype| line["subtype"] == subtype);
    line[field].as_str().filter(|name| fits && is_name(name)).map(str::to_owned)
}

/// It becomes an argument of the agent's next command, where it must not pass for anything else.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_names_its_conversation_in_its_own_way() {
        let claude = r#"{"cwd":"/workspace","subtype":"init","session_id":"5e0b2b52-1","type":"system"}"#;
        assert_eq!(named_in(Dialect::ClaudeCode, claude.as_bytes()).as_deref(), Some("5e0b2b52-1"));
        let codex = r#"{"type":"thread.started","thread_id":"019a-7"}"#;
        assert_eq!(named_in(Dialect::Codex, codex.as_bytes()).as_deref(), Some("019a-7"));
        let opencode = r#"{"type":"step_start","sessionID":"ses_1"}"#;
        assert_eq!(named_in(Dialect::Opencode, opencode.as_bytes()).as_deref(), Some("ses_1"));
        assert_eq!(named_in(Dialect::Codex, claude.as_bytes()), None);
        assert_eq!(named_in(Dialect::Text, codex.as_bytes()), None);
    }

    #[test]
    fn a_name_cannot_be_an_option() {
        for name in ["--dangerous", "", "a b", "../x", "$(x)"] {
            let line = serde_json::json!({ "type": "thread.started", "thread_id": name }).to_string();
            assert_eq!(named_in(Dialect::Codex, line.as_bytes()), None, "{name}");
        }
    }
}

//! Strings with `{name}` placeholders, checked when the registry is read, so that a typing error in it cannot reach an agent.
//!
//! Values are put in once and never looked at again: a model name with braces in it stays what it is.

use std::str::FromStr;

/// What a turn has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholder {
    Bin,
    Model,
    Provider,
    BaseUrl,
    GatewayPort,
    Home,
    Workspace,
    MaxTurns,
    /// Only where a conversation goes on.
    Conversation,
}

impl Placeholder {
    const ALL: [Self; 9] = [
        Self::Bin,
        Self::Model,
        Self::Provider,
        Self::BaseUrl,
        Self::GatewayPort,
        Self::Home,
        Self::Workspace,
        Self::MaxTurns,
        Self::Conversation,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Bin => "bin",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::BaseUrl => "base_url",
            Self::GatewayPort => "gateway_port",
            Self::Home => "home",
            Self::Workspace => "workspace",
            Self::MaxTurns => "max_turns",
            Self::Conversation => "conversation",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Template(Vec<Part>);

/// The name of a placeholder that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownPlaceholder(pub(crate) String);

impl Template {
    pub(crate) fn uses(&self, placeholder: Placeholder) -> bool {
        self.0.contains(&Part::Value(placeholder))
    }

    pub(crate) fn fill(&self, value: impl Fn(Placeholder) -> String) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Value(placeholder) => value(*placeholder),
            })
            .collect()
    }
}

impl FromStr for Template {
    type Err = UnknownPlaceholder;

    fn from_str(mut rest: &str) -> Result<Self, UnknownPlaceholder> {
        let mut parts = Vec::new();
        let mut text = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            match word_in_braces(after) {
                Some((word, after)) => {
                    let placeholder = Placeholder::ALL
                        .into_iter()
                        .find(|placeholder| placeholder.name() == word)
                        .ok_or_else(|| UnknownPlaceholder(word.to_owned()))?;
                    if !text.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                    }
                    parts.push(Part::Value(placeholder));
                    rest = after;
                }
                None => {
                    text.push('{');
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self(parts))
    }
}

/// `model} and more` → `model` and ` and more`. Braces around anything but a word are ordinary text (JSON, shell).
fn word_in_braces(after_brace: &str) -> Option<(&str, &str)> {
    let (word, rest) = after_brace.split_once('}')?;
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_word.then_some((word, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_in_once() {
        let template: Template = r#"{"m": "{model}", "a": {}} {home}{"#.parse().unwrap();
        let filled = template.fill(|placeholder| format!("{{{}}}!", placeholder.name()));
        assert_eq!(filled, r#"{"m": "{model}!", "a": {}} {home}!{"#);
    }

    #[test]
    fn a_typing_error_is_found() {
        assert_eq!("--model={modle}".parse::<Template>(), Err(UnknownPlaceholder("modle".to_owned())));
    }
}

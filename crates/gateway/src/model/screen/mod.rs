//! Keeps a sandbox from reaching the outside through a vendor. A vendor searches, fetches, runs code and opens connections for
//! whoever asks in a request; a request that asks for any of it is refused unless the session's [`ServerTools`] open it.
//!
//! The rule is a closed list of what is known to stay between the client and the model: fields, types of tools, types and fields
//! of content parts, and sources. Anything else needs a name in the policy, so a feature that a vendor adds tomorrow is closed.

mod anthropic;
mod betas;
mod gemini;
mod node;
mod openai;

use std::collections::BTreeSet;

use harvest_core::Code;

use super::{Dialect, Endpoint, Vendor};
pub(super) use betas::keep_known_betas;
use node::Node;

use crate::prices::Input;

/// Names that cover one thing of several vendors. A type of tool or a field that is not among them goes by its own name.
pub const GROUPS: [&str; 10] = [
    "web_search",
    "web_fetch",
    "code_execution",
    "mcp",
    "file_search",
    "image_generation",
    "maps",
    "remote_media",
    "stored_files",
    "stored_context",
];

/// The server-side features of model vendors that a session may use. Nothing, unless a policy names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTools(BTreeSet<String>);

impl ServerTools {
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the names of a policy: one of [`GROUPS`], or the type of a tool or a field as the vendor writes it.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let read = |name: &str| {
            let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            if name.is_empty() || name.len() > 64 || !name.bytes().all(is_word) {
                return Err(format!(
                    "`{}` is not the name of a server tool: there are {}, or the type that a vendor gives to another one",
                    name.chars().take(80).collect::<String>(),
                    GROUPS.join(", ")
                ));
            }
            Ok(name.to_owned())
        };
        names.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn open(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The body can be read in more than one way, or not at all.
    NotUnderstood(String),
    /// It asks for something that the policy does not open.
    Closed { field: String, tool: String },
    /// No policy opens it.
    Never { field: String, reason: &'static str },
}

impl Refusal {
    pub(super) fn message(&self) -> String {
        let code = Code::ServerTool;
        match self {
            Self::NotUnderstood(reason) => format!("the request's body cannot be parsed: {reason}"),
            Self::Closed { field, tool } => format!(
                "`{field}` asks the vendor for `{tool}`, which runs outside the sandbox and is not allowed in this session: \
                 leave it out and use tools and sources inside the sandbox, or have an admin of the project add \"{tool}\" to \
                 server_tools in [models] of its settings ({code}; tasks of strangers never get it)"
            ),
            Self::Never { field, reason } => format!("`{field}` is not allowed in any session: {reason} ({code})"),
        }
    }
}

/// What a request asks for that costs more than its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Offered {
    /// Server tools that the model may use, by the names of their fees.
    pub(super) tools: Vec<&'static str>,
    /// The most uses that the request allows.
    pub(super) most_uses: Option<u64>,
    pub(super) input: Input,
}

/// Looks through a request. `body` is empty for those that have none.
pub(super) fn screen(
    vendor: Vendor,
    endpoint: Endpoint,
    body: &[u8],
    policy: &ServerTools,
) -> Result<Offered, Refusal> {
    let mut screen = Screen { policy, offered: Offered::default() };
    if matches!(endpoint, Endpoint::Models) || body.is_empty() {
        return Ok(screen.offered);
    }
    let body: Node<'_> = serde_json::from_slice(body).map_err(|error| Refusal::NotUnderstood(error.to_string()))?;
    if !matches!(body, Node::Object(_)) {
        return Err(Refusal::NotUnderstood("it is not a JSON object".to_owned()));
    }
    match (vendor, endpoint) {
        (Vendor::Anthropic, _) => anthropic::request(&mut screen, &body)?,
        (Vendor::Gemini, _) => gemini::request(&mut screen, &body, "")?,
        (Vendor::OpenAi | Vendor::Ollama(Dialect::OpenAi), Endpoint::Responses) => {
            openai::response(&mut screen, &body)?;
        }
        (Vendor::OpenAi | Vendor::Ollama(Dialect::OpenAi), _) => openai::chat(&mut screen, &body)?,
        (Vendor::Ollama(Dialect::Own), _) => openai::ollama(&mut screen, &body)?,
    }
    Ok(screen.offered)
}

/// The policy while a request is looked through.
struct Screen<'p> {
    policy: &'p ServerTools,
    offered: Offered,
}

impl Screen<'_> {
    /// Passes what the policy opens, and notes it.
    fn ask(&mut self, field: impl Into<String>, tool: &str) -> Result<(), Refusal> {
        if !self.policy.open(tool) {
            return Err(Refusal::Closed { field: field.into(), tool: tool.to_owned() });
        }
        let group = GROUPS.into_iter().find(|group| *group == tool).unwrap_or("other");
        if !self.offered.tools.contains(&group) && !matches!(group, "remote_media" | "stored_files" | "stored_context")
        {
            self.offered.tools.push(group);
        }
        Ok(())
    }

    /// Notes a file that may have sound in it.
    fn hear(&mut self) {
        self.offered.input = Input::WithAudio;
    }

    fn most_uses(&mut self, uses: Option<u64>) {
        if let Some(uses) = uses {
            self.offered.most_uses = Some(self.offered.most_uses.unwrap_or(0).saturating_add(uses));
        }
    }

    /// Refuses the fields that are not among `known`, unless the policy has their names.
    fn fields(&mut self, body: &Node<'_>, known: &[&str]) -> Result<(), Refusal> {
        self.fields_at("", body, known)
    }

    /// The same for an object inside of the request; `path` ends where the name of the field follows.
    fn fields_at(&mut self, path: &str, object: &Node<'_>, known: &[&str]) -> Result<(), Refusal> {
        for (name, value) in object.fields() {
            let plain = snake(name);
            if !known.contains(&plain.as_str()) && !value.is_nothing() {
                self.ask(format!("{path}{}", shown(name)), &shown(&plain))?;
            }
        }
        Ok(())
    }

    /// A picture or another file that is named by its address: inline ones are `data:` URLs.
    fn url(&mut self, field: &str, value: &Node<'_>) -> Result<(), Refusal> {
        let text = match value {
            Node::Object(_) => {
                self.fields_at(&format!("{field}."), value, &["url", "detail", "format", "mime_type"])?;
                value.get("url")?
            }
            other => Some(other),
        };
        match text {
            None | Some(Node::Nothing) => Ok(()),
            Some(Node::Text(text)) if is_data_url(text) => Ok(()),
            Some(_) => self.ask(field, "remote_media"),
        }
    }

    /// Bytes that the request holds itself, in base64 or as a `data:` URL. Some hosts fetch an address that stands there.
    fn inline(&mut self, field: &str, value: &Node<'_>) -> Result<(), Refusal> {
        match value {
            Node::Nothing => Ok(()),
            Node::Text(text) if is_data_url(text) || is_base64(text) => Ok(()),
            _ => self.ask(field, "remote_media"),
        }
    }
}

fn is_data_url(text: &str) -> bool {
    text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"))
}

/// Looks at the beginning only: every address has a `:` or a `.` there, unless it stands behind blanks, which some hosts skip.
fn is_base64(text: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=\r\n ".contains(byte);
    let begins_blank = text.starts_with(|first: char| first.is_ascii_whitespace());
    !begins_blank && text.as_bytes().iter().take(node::KEPT).all(is_digit)
}

/// The beginning of a name, as messages show it.
fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}

/// The type of a tool, a part or an item. One that is no text could be read in several ways.
fn kind<'n>(object: &'n Node<'_>, path: &str) -> Result<Option<&'n str>, Refusal> {
    match object.get("type")? {
        None | Some(Node::Nothing) => Ok(None),
        Some(Node::Text(kind)) => Ok(Some(kind)),
        Some(_) => Err(Refusal::NotUnderstood(format!("`{path}.type` is not a string"))),
    }
}

/// `urlContext` and `url_context` are the same to Google's parser; the other vendors know only the latter.
fn snake(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            plain.push('_');
        }
        plain.push(letter.to_ascii_lowercase());
    }
    plain
}

/// The type of a tool without the date at its end: `web_search_20250305` and `web_search_2025_08_26` are `web_search`.
fn undated(kind: &str) -> &str {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((rest, date)) = kind.rsplit_once('_') {
        if digits(date, 8) {
            return rest;
        }
        if let Some((rest, month)) = rest.rsplit_once('_')
            && let Some((rest, year)) = rest.rsplit_once('_')
            && digits(date, 2)
            && digits(month, 2)
            && digits(year, 4)
        {
            return rest;
        }
    }
    kind
}

/// Models that search the web whenever they are asked, whatever tools a request offers.
fn searches(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let marks = ["-search-preview", "-search-api", "deep-research"];
    marks.iter().any(|mark| name.contains(mark)) || name.ends_with(":online") || name.starts_with("sonar")
}

#[cfg(test)]
mod tests;

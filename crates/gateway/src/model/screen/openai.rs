//! Requests of OpenAI's two formats, of hosts that speak them, and of Ollama's own.

use super::node::Node;
use super::{Refusal, Screen, searches, undated};

/// Fields of Chat Completions that stay between client and model, also of other hosts that speak it.
const CHAT: &[&str] = &[
    "chat_template_kwargs",
    "enable_thinking",
    "frequency_penalty",
    "function_call",
    "functions",
    "keep_alive",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "model",
    "n",
    "num_ctx",
    "options",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "think",
    "thinking",
    "thinking_budget",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "usage",
    "user",
    "verbosity",
    "web_search_options",
];

const RESPONSES: &[&str] = &[
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

const OLLAMA: &[&str] = &[
    "context",
    "format",
    "images",
    "keep_alive",
    "logprobs",
    "messages",
    "model",
    "name",
    "options",
    "prompt",
    "raw",
    "shift",
    "stream",
    "suffix",
    "system",
    "template",
    "think",
    "tools",
    "top_logprobs",
    "truncate",
    "verbose",
];

pub(super) fn chat(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, CHAT)?;
    model(screen, body)?;
    if body.get("web_search_options")?.is_some_and(|options| !options.is_nothing()) {
        screen.ask("web_search_options", "web_search")?;
    }
    tools(screen, body, "tools")?;
    if let Some(messages) = body.get("messages")? {
        for (number, message) in messages.elements() {
            parts(screen, message, &format!("messages[{number}]"))?;
        }
    }
    Ok(())
}

pub(super) fn response(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, RESPONSES)?;
    model(screen, body)?;
    if !matches!(body.get("background")?, None | Some(Node::Nothing | Node::Other)) {
        let reason = "a response that goes on without its caller could not be paid for; ask for it as a stream";
        return Err(Refusal::Never { field: "background".to_owned(), reason });
    }
    for field in ["previous_response_id", "conversation", "prompt"] {
        if body.get(field)?.is_some_and(|value| !value.is_nothing()) {
            screen.ask(field, "stored_context")?;
        }
    }
    tools(screen, body, "tools")?;
    if !screen.offered.tools.is_empty() {
        screen.offered.most_uses = body.number("max_tool_calls")?;
    }
    if let Some(input) = body.get("input")? {
        for (number, item) in input.elements() {
            let path = format!("input[{number}]");
            if item.text("type")? == Some("item_reference") {
                screen.ask(format!("{path}.type"), "stored_context")?;
            }
            parts(screen, item, &path)?;
        }
    }
    Ok(())
}

pub(super) fn ollama(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, OLLAMA)?;
    tools(screen, body, "tools")
}

fn model(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    match body.text("model")? {
        Some(name) if searches(name) => screen.ask("model", "web_search"),
        _ => Ok(()),
    }
}

fn tools(screen: &mut Screen<'_>, owner: &Node<'_>, path: &str) -> Result<(), Refusal> {
    let Some(tools) = owner.get("tools")? else { return Ok(()) };
    for (number, tool) in tools.elements() {
        let field = format!("{path}[{number}].type");
        let kind = match tool.get("type")? {
            None | Some(Node::Nothing) => continue,
            Some(Node::Text(kind)) => kind.as_ref(),
            Some(_) => return Err(Refusal::NotUnderstood(format!("`{field}` is no text"))),
        };
        match undated(kind) {
            // The client runs them, or they are searched for among the request's own.
            "function"
            | "custom"
            | "apply_patch"
            | "local_shell"
            | "computer"
            | "computer_use_preview"
            | "tool_search" => {}
            "namespace" => tools_within(screen, tool, &format!("{path}[{number}]"))?,
            "shell" => match tool.get("environment")? {
                None | Some(Node::Nothing) => {}
                Some(environment) if environment.text("type")? == Some("local") => {}
                Some(_) => screen.ask(format!("{path}[{number}].environment"), "code_execution")?,
            },
            "web_search" | "web_search_preview" => screen.ask(field, "web_search")?,
            "code_interpreter" => screen.ask(field, "code_execution")?,
            other => screen.ask(field, other)?,
        }
    }
    Ok(())
}

fn tools_within(screen: &mut Screen<'_>, owner: &Node<'_>, path: &str) -> Result<(), Refusal> {
    tools(screen, owner, &format!("{path}.tools"))
}

/// A message, an item or a part of one: pictures and files that it names, in itself and in what it holds.
fn parts(screen: &mut Screen<'_>, part: &Node<'_>, path: &str) -> Result<(), Refusal> {
    for name in ["image_url", "video_url", "audio_url", "file_url"] {
        if let Some(url) = part.get(name)? {
            screen.url(&format!("{path}.{name}"), url)?;
        }
    }
    if part.get("file_id")?.is_some_and(|id| !id.is_nothing()) {
        screen.ask(format!("{path}.file_id"), "stored_files")?;
    }
    if let Some(file @ Node::Object(_)) = part.get("file")? {
        parts(screen, file, &format!("{path}.file"))?;
    }
    // Tools that the client has found for the model.
    tools_within(screen, part, path)?;
    for name in ["content", "output"] {
        if let Some(inner) = part.get(name)? {
            for (number, part) in inner.elements() {
                if matches!(part, Node::Object(_)) {
                    parts(screen, part, &format!("{path}.{name}[{number}]"))?;
                }
            }
        }
    }
    Ok(())
}

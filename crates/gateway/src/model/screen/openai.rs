//! Requests of OpenAI's two formats, of hosts that speak them, and of Ollama's own.

use super::node::Node;
use super::{Refusal, Screen, kind, searches, shown, undated};

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

/// Fields of a message of Chat Completions and of Ollama. Clients send back what they got, so those of an answer are among them.
const MESSAGE: &[&str] = &[
    "annotations",
    "audio",
    "cache_control",
    "content",
    "function_call",
    "id",
    "images",
    "name",
    "partial",
    "phase",
    "prefix",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "reasoning_opaque",
    "reasoning_text",
    "refusal",
    "role",
    "thinking",
    "thinking_blocks",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "type",
];

/// Items of a response's input that hold what they show: messages, and calls of tools that the client runs.
const ITEMS: &[&str] = &[
    "apply_patch_call",
    "apply_patch_call_output",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call",
    "function_call_output",
    "ghost_snapshot",
    "local_shell_call",
    "local_shell_call_output",
    "message",
    "reasoning",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
];

const ITEM: &[&str] = &[
    "acknowledged_safety_checks",
    "action",
    "actions",
    "arguments",
    "call_id",
    "caller",
    "content",
    "created_by",
    "encrypted_content",
    "end_turn",
    "environment",
    "execution",
    "ghost_commit",
    "id",
    "input",
    "internal_chat_message_metadata_passthrough",
    "max_output_length",
    "metadata",
    "name",
    "namespace",
    "operation",
    "output",
    "pending_safety_checks",
    "phase",
    "queries",
    "result",
    "results",
    "revised_prompt",
    "role",
    "status",
    "summary",
    "tools",
    "type",
];

/// Content parts of both formats. Those that can name an address are looked at.
const PARTS: &[&str] = &[
    "audio_url",
    "computer_screenshot",
    "content",
    "document_url",
    "encrypted_content",
    "file",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_text",
    "output_text",
    "reasoning_text",
    "refusal",
    "summary_text",
    "text",
    "thinking",
    "video_url",
];

const PART: &[&str] = &[
    "annotations",
    "audio_url",
    "cache_control",
    "content",
    "data",
    "detail",
    "document_name",
    "document_url",
    "encrypted_content",
    "file",
    "file_data",
    "file_id",
    "file_url",
    "filename",
    "format",
    "id",
    "image_url",
    "input_audio",
    "logprobs",
    "outcome",
    "refusal",
    "signature",
    "stderr",
    "stdout",
    "text",
    "thinking",
    "type",
    "video_url",
];

pub(super) fn chat(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, CHAT)?;
    model(screen, body)?;
    if body.get("web_search_options")?.is_some_and(|options| !options.is_nothing()) {
        screen.ask("web_search_options", "web_search")?;
    }
    tools(screen, body, "tools")?;
    if let Some(prediction) = body.get("prediction")? {
        part(screen, prediction, "prediction")?;
    }
    if let Some(messages) = body.get("messages")? {
        for (number, message) in messages.objects("messages")? {
            let path = format!("messages[{number}]");
            screen.fields_at(&format!("{path}."), message, MESSAGE)?;
            // Speech that the vendor keeps is named by its id.
            if message.get("audio")?.is_some_and(|audio| !audio.is_nothing()) {
                screen.ask(format!("{path}.audio"), "stored_context")?;
            }
            parts(screen, message, "content", &path)?;
            images(screen, message, &path)?;
        }
    }
    Ok(())
}

pub(super) fn response(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, RESPONSES)?;
    model(screen, body)?;
    if !matches!(body.get("background")?, None | Some(Node::Nothing | Node::Other)) {
        let reason = "a response in the background cannot be charged; request it as a stream";
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
        for (number, item) in input.objects("input")? {
            self::item(screen, item, &format!("input[{number}]"))?;
        }
    }
    Ok(())
}

pub(super) fn ollama(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, OLLAMA)?;
    images(screen, body, "")?;
    if let Some(messages) = body.get("messages")? {
        for (number, message) in messages.objects("messages")? {
            let path = format!("messages[{number}]");
            screen.fields_at(&format!("{path}."), message, MESSAGE)?;
            parts(screen, message, "content", &path)?;
            images(screen, message, &path)?;
        }
    }
    tools(screen, body, "tools")
}

/// Ollama's pictures are base64 in a list of their own.
fn images(screen: &mut Screen<'_>, owner: &Node<'_>, path: &str) -> Result<(), Refusal> {
    match owner.get("images")? {
        None | Some(Node::Nothing) => Ok(()),
        Some(Node::List(images)) => {
            let dot = if path.is_empty() { "" } else { "." };
            let mut images = images.iter().enumerate();
            images.try_for_each(|(number, image)| screen.inline(&format!("{path}{dot}images[{number}]"), image))
        }
        Some(_) => Err(Refusal::NotUnderstood("`images` is not a list".to_owned())),
    }
}

fn model(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    match body.text("model")? {
        Some(name) if searches(name) => screen.ask("model", "web_search"),
        _ => Ok(()),
    }
}

/// The fields of a tool that says no type: a function, as the client runs it.
const FUNCTION: [&str; 6] = ["description", "function", "name", "parameters", "strict", "type"];

fn tools(screen: &mut Screen<'_>, owner: &Node<'_>, path: &str) -> Result<(), Refusal> {
    let Some(tools) = owner.get("tools")? else { return Ok(()) };
    for (number, tool) in tools.elements() {
        if !matches!(tool, Node::Object(_)) {
            return Err(Refusal::NotUnderstood(format!("`{path}[{number}]` is not an object")));
        }
        let Some(kind) = kind(tool, &format!("{path}[{number}]"))? else {
            // Some hosts take tools of other vendors without a type, by their names.
            for (name, _) in tool.fields().filter(|(name, _)| !FUNCTION.contains(name)) {
                screen.ask(format!("{path}[{number}].{name}"), name)?;
            }
            continue;
        };
        let field = format!("{path}[{number}].type");
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

/// An item of a response's input.
fn item(screen: &mut Screen<'_>, item: &Node<'_>, path: &str) -> Result<(), Refusal> {
    if let Some(kind) = kind(item, path)?.filter(|kind| !ITEMS.contains(kind)) {
        let name = match kind {
            "item_reference" => "stored_context",
            "web_search_call" => "web_search",
            "file_search_call" => "file_search",
            "code_interpreter_call" => "code_execution",
            "image_generation_call" => "image_generation",
            "mcp_call" | "mcp_list_tools" | "mcp_approval_request" | "mcp_approval_response" => "mcp",
            other => other,
        };
        screen.ask(format!("{path}.type"), &shown(name))?;
    }
    screen.fields_at(&format!("{path}."), item, ITEM)?;
    // Tools that the client has found for the model.
    tools_within(screen, item, path)?;
    for name in ["content", "output", "summary"] {
        parts(screen, item, name, path)?;
    }
    Ok(())
}

/// The content parts in a field of a message or an item.
fn parts(screen: &mut Screen<'_>, owner: &Node<'_>, name: &str, path: &str) -> Result<(), Refusal> {
    let Some(inner) = owner.get(name)? else { return Ok(()) };
    let path = format!("{path}.{name}");
    for (number, part) in inner.objects(&path)? {
        self::part(screen, part, &format!("{path}[{number}]"))?;
    }
    Ok(())
}

/// A content part: of a known type, with known fields, and with its picture, sound or file in itself.
fn part(screen: &mut Screen<'_>, part: &Node<'_>, path: &str) -> Result<(), Refusal> {
    if let Some(kind) = kind(part, path)?.filter(|kind| !PARTS.contains(kind)) {
        screen.ask(format!("{path}.type"), &shown(kind))?;
    }
    screen.fields_at(&format!("{path}."), part, PART)?;
    for name in ["input_audio", "audio_url", "video_url"] {
        if part.get(name)?.is_some_and(|heard| !heard.is_nothing()) {
            screen.hear();
        }
    }
    for name in ["image_url", "video_url", "audio_url", "document_url", "file_url"] {
        if let Some(url) = part.get(name)? {
            screen.url(&format!("{path}.{name}"), url)?;
        }
    }
    for name in ["file", "input_audio"] {
        match part.get(name)? {
            None | Some(Node::Nothing) => {}
            Some(file @ Node::Object(_)) => {
                let path = format!("{path}.{name}");
                screen.fields_at(&format!("{path}."), file, &["data", "file_data", "file_id", "filename", "format"])?;
                held(screen, file, &path)?;
            }
            Some(_) => screen.ask(format!("{path}.{name}"), "remote_media")?,
        }
    }
    held(screen, part, path)?;
    for name in ["content", "thinking"] {
        parts(screen, part, name, path)?;
    }
    Ok(())
}

/// The bytes of a file, or the name under which the vendor has them.
fn held(screen: &mut Screen<'_>, file: &Node<'_>, path: &str) -> Result<(), Refusal> {
    if file.get("file_id")?.is_some_and(|id| !id.is_nothing()) {
        screen.ask(format!("{path}.file_id"), "stored_files")?;
    }
    for name in ["data", "file_data"] {
        if let Some(data) = file.get(name)? {
            screen.inline(&format!("{path}.{name}"), data)?;
        }
    }
    Ok(())
}

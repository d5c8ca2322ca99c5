//! Requests of Anthropic's Messages format.

use super::node::Node;
use super::{Refusal, Screen, kind, shown, undated};

/// Fields that stay between client and model. `mcp_servers` and `container` have rules of their own.
const FIELDS: &[&str] = &[
    "anthropic_version",
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// Tools that the client runs, and the search among the request's own tools.
const CLIENT_TOOLS: &[&str] = &[
    "custom",
    "bash",
    "text_editor",
    "computer",
    "memory",
    "tool_search_tool",
    "tool_search_tool_regex",
    "tool_search_tool_bm25",
];

/// Fields of a message. Clients send back what they got, so those of an answer are among them.
const MESSAGE: &[&str] = &[
    "cache_control",
    "content",
    "context_management",
    "id",
    "model",
    "role",
    "stop_details",
    "stop_reason",
    "stop_sequence",
    "type",
    "usage",
];

/// Blocks that hold what they show.
const BLOCKS: &[&str] = &[
    "compaction",
    "document",
    "image",
    "redacted_thinking",
    "search_result",
    "text",
    "thinking",
    "tool_reference",
    "tool_result",
    "tool_search_tool_result",
    "tool_search_tool_result_error",
    "tool_search_tool_search_result",
    "tool_use",
];

/// Fields of all blocks. A `source` has a rule of its own, and a `file_id` names a stored file.
const BLOCK: &[&str] = &[
    "cache_control",
    "caller",
    "citations",
    "content",
    "context",
    "data",
    "encrypted_content",
    "error_code",
    "error_message",
    "file_id",
    "id",
    "input",
    "is_error",
    "name",
    "signature",
    "source",
    "text",
    "thinking",
    "title",
    "tool_name",
    "tool_references",
    "tool_use_id",
    "type",
];

pub(super) fn request(screen: &mut Screen<'_>, body: &Node<'_>) -> Result<(), Refusal> {
    screen.fields(body, FIELDS)?;
    if body.get("mcp_servers")?.is_some_and(|servers| !servers.is_nothing()) {
        screen.ask("mcp_servers", "mcp")?;
    }
    if body.get("container")?.is_some_and(|container| !container.is_nothing()) {
        screen.ask("container", "code_execution")?;
    }
    if let Some(tools) = body.get("tools")? {
        for (number, tool) in tools.elements() {
            let path = format!("tools[{number}]");
            if !matches!(tool, Node::Object(_)) {
                return Err(Refusal::NotUnderstood(format!("`{path}` is not an object")));
            }
            match kind(tool, &path)?.map(undated) {
                None => {}
                Some(name) if CLIENT_TOOLS.contains(&name) => {}
                Some(name) => {
                    screen.ask(format!("{path}.type"), if name == "mcp_toolset" { "mcp" } else { name })?;
                    screen.most_uses(tool.number("max_uses")?);
                }
            }
        }
    }
    if let Some(system) = body.get("system")? {
        blocks(screen, system, "system")?;
    }
    if let Some(messages) = body.get("messages")? {
        for (number, message) in messages.objects("messages")? {
            let path = format!("messages[{number}].");
            screen.fields_at(&path, message, MESSAGE)?;
            if let Some(content) = message.get("content")? {
                blocks(screen, content, &format!("{path}content"))?;
            }
        }
    }
    Ok(())
}

fn blocks(screen: &mut Screen<'_>, content: &Node<'_>, path: &str) -> Result<(), Refusal> {
    for (number, block) in content.objects(path)? {
        let path = format!("{path}[{number}]");
        let kind = kind(block, &path)?;
        match kind {
            None => {}
            Some(kind) if BLOCKS.contains(&kind) => {}
            // The use of a server's tool in an earlier answer.
            Some("server_tool_use") => match block.text("name")?.map(undated) {
                Some(name) if CLIENT_TOOLS.contains(&name) => {}
                Some("bash_code_execution" | "text_editor_code_execution") => {
                    screen.ask(format!("{path}.name"), "code_execution")?;
                }
                name => screen.ask(format!("{path}.name"), &shown(name.unwrap_or("server_tool_use")))?,
            },
            Some(kind) => screen.ask(format!("{path}.type"), server_block(kind))?,
        }
        screen.fields_at(&format!("{path}."), block, BLOCK)?;
        match block.get("source")? {
            None | Some(Node::Nothing) => {}
            Some(source @ Node::Object(_)) => self::source(screen, source, &format!("{path}.source"))?,
            // The source of a search result is a text, and only shown.
            Some(_) if kind == Some("search_result") => {}
            Some(_) => screen.ask(format!("{path}.source"), "remote_media")?,
        }
        if block.get("file_id")?.is_some_and(|id| !id.is_nothing()) {
            screen.ask(format!("{path}.file_id"), "stored_files")?;
        }
        if let Some(content @ (Node::List(_) | Node::Object(_))) = block.get("content")? {
            blocks(screen, content, &format!("{path}.content"))?;
        }
    }
    Ok(())
}

fn source(screen: &mut Screen<'_>, source: &Node<'_>, path: &str) -> Result<(), Refusal> {
    match kind(source, path)? {
        Some("base64") => {
            screen.fields_at(&format!("{path}."), source, &["type", "media_type", "data"])?;
            source.get("data")?.map_or(Ok(()), |data| screen.inline(&format!("{path}.data"), data))
        }
        Some("text") => screen.fields_at(&format!("{path}."), source, &["type", "media_type", "data"]),
        Some("content") => {
            screen.fields_at(&format!("{path}."), source, &["type", "content"])?;
            source.get("content")?.map_or(Ok(()), |content| blocks(screen, content, &format!("{path}.content")))
        }
        Some("file") => screen.ask(path, "stored_files"),
        _ => screen.ask(path, "remote_media"),
    }
}

/// The name in a policy of a block that tells of work outside of the sandbox.
fn server_block(kind: &str) -> &str {
    match kind {
        "container_upload" => "stored_files",
        "web_search_tool_result" | "web_search_result" => "web_search",
        "web_fetch_tool_result" | "web_fetch_result" => "web_fetch",
        "mcp_tool_use" | "mcp_tool_result" => "mcp",
        kind if kind.contains("code_execution") => "code_execution",
        kind => kind,
    }
}

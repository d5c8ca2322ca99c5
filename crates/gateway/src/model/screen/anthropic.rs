//! Requests of Anthropic's Messages format.

use super::node::Node;
use super::{Refusal, Screen, undated};

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
            let Some(kind) = tool.get("type")? else { continue };
            let field = format!("tools[{number}].type");
            match kind {
                Node::Nothing => {}
                Node::Text(kind) if CLIENT_TOOLS.contains(&undated(kind)) => {}
                Node::Text(kind) => {
                    let name = undated(kind);
                    screen.ask(field, if name == "mcp_toolset" { "mcp" } else { name })?;
                    screen.most_uses(tool.number("max_uses")?);
                }
                _ => return Err(Refusal::NotUnderstood(format!("`{field}` is no text"))),
            }
        }
    }
    if let Some(system) = body.get("system")? {
        blocks(screen, system, "system")?;
    }
    if let Some(messages) = body.get("messages")? {
        for (number, message) in messages.elements() {
            if let Some(content) = message.get("content")? {
                blocks(screen, content, &format!("messages[{number}].content"))?;
            }
        }
    }
    Ok(())
}

fn blocks(screen: &mut Screen<'_>, content: &Node<'_>, path: &str) -> Result<(), Refusal> {
    for (number, block) in content.elements() {
        if !matches!(block, Node::Object(_)) {
            continue;
        }
        let path = || format!("{path}[{number}]");
        if block.text("type")? == Some("container_upload") {
            screen.ask(path(), "stored_files")?;
        }
        // The source of a search result is a text, and only shown.
        if let Some(source @ Node::Object(_)) = block.get("source")? {
            match source.text("type")? {
                Some("base64" | "text") => {}
                Some("content") => {
                    if let Some(content) = source.get("content")? {
                        blocks(screen, content, &format!("{}.source.content", path()))?;
                    }
                }
                Some("file") => screen.ask(format!("{}.source", path()), "stored_files")?,
                _ => screen.ask(format!("{}.source", path()), "remote_media")?,
            }
        }
        if let Some(content @ (Node::List(_) | Node::Object(_))) = block.get("content")? {
            blocks(screen, content, &format!("{}.content", path()))?;
        }
    }
    Ok(())
}

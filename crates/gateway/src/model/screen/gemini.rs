//! Requests of Gemini's generateContent. Google's parser takes names in either spelling, so both are looked for.

use super::node::Node;
use super::{Refusal, Screen, snake};

const FIELDS: &[&str] = &[
    "cached_content",
    "contents",
    "generate_content_request",
    "generation_config",
    "labels",
    "model",
    "safety_settings",
    "service_tier",
    "store",
    "system_instruction",
    "tool_config",
    "tools",
];

/// Where Google keeps files that were sent to it before.
const FILES: &str = "generativelanguage.googleapis.com/";

pub(super) fn request(screen: &mut Screen<'_>, body: &Node<'_>, path: &str) -> Result<(), Refusal> {
    screen.fields(body, FIELDS)?;
    if body.any(&["cachedContent", "cached_content"])?.is_some_and(|name| !name.is_nothing()) {
        screen.ask(format!("{path}cachedContent"), "stored_context")?;
    }
    // What is counted.
    if let Some(counted) = body.any(&["generateContentRequest", "generate_content_request"])? {
        request(screen, counted, "generateContentRequest.")?;
    }
    if let Some(config) = body.any(&["generationConfig", "generation_config"])?
        && let Some(wanted) = config.any(&["responseModalities", "response_modalities"])?
    {
        // Pictures and speech have prices of their own.
        let is_text = |node: &Node<'_>| matches!(node, Node::Text(text) if text.eq_ignore_ascii_case("text"));
        if wanted.elements().any(|(_, kind)| !is_text(kind)) {
            screen.ask(format!("{path}generationConfig.responseModalities"), "image_generation")?;
        }
    }
    if let Some(tools) = body.get("tools")? {
        for (number, tool) in tools.elements() {
            for (name, value) in tool.fields() {
                if matches!(value, Node::Nothing) {
                    continue;
                }
                let plain = snake(name);
                let shown: String = name.chars().take(80).collect();
                let field = format!("{path}tools[{number}].{shown}");
                match plain.as_str() {
                    // The client runs them.
                    "function_declarations" | "computer_use" => {}
                    "google_search" | "google_search_retrieval" | "enterprise_web_search" => {
                        screen.ask(field, "web_search")?;
                    }
                    "url_context" => screen.ask(field, "web_fetch")?,
                    "google_maps" => screen.ask(field, "maps")?,
                    "file_search" | "retrieval" => screen.ask(field, "file_search")?,
                    "mcp_servers" => screen.ask(field, "mcp")?,
                    other => screen.ask(field, &other.chars().take(80).collect::<String>())?,
                }
            }
        }
    }
    let system = body.any(&["systemInstruction", "system_instruction"])?;
    for content in system.into_iter().chain(body.get("contents")?) {
        for (number, content) in content.elements() {
            if let Some(parts) = content.get("parts")? {
                self::parts(screen, parts, &format!("{path}contents[{number}].parts"))?;
            }
        }
    }
    Ok(())
}

fn parts(screen: &mut Screen<'_>, parts: &Node<'_>, path: &str) -> Result<(), Refusal> {
    for (number, part) in parts.elements() {
        if let Some(file @ Node::Object(_)) = part.any(&["fileData", "file_data"])? {
            let field = format!("{path}[{number}].fileData");
            match file.any(&["fileUri", "file_uri"])? {
                Some(Node::Text(uri)) if uri.contains(FILES) => screen.ask(field, "stored_files")?,
                _ => screen.ask(field, "remote_media")?,
            }
        }
        if let Some(answer) = part.any(&["functionResponse", "function_response"])?
            && let Some(more) = answer.get("parts")?
        {
            self::parts(screen, more, &format!("{path}[{number}].functionResponse.parts"))?;
        }
    }
    Ok(())
}

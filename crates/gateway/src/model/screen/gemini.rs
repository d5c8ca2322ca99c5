//! Requests of Gemini's generateContent. Google's parser takes names in either spelling, so both are looked for.

use super::node::Node;
use super::{Refusal, Screen, shown, snake};

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
const FILES: &str = "https://generativelanguage.googleapis.com/";

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
            if !matches!(tool, Node::Object(_)) {
                return Err(Refusal::NotUnderstood(format!("`{path}tools[{number}]` is not an object")));
            }
            for (name, value) in tool.fields() {
                if matches!(value, Node::Nothing) {
                    continue;
                }
                let plain = snake(name);
                let field = format!("{path}tools[{number}].{}", shown(name));
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
                    other => screen.ask(field, &shown(other))?,
                }
            }
        }
    }
    let system = body.any(&["systemInstruction", "system_instruction"])?;
    for content in system.into_iter().chain(body.get("contents")?) {
        for (number, content) in content.objects("contents")? {
            let path = format!("{path}contents[{number}].");
            screen.fields_at(&path, content, &["parts", "role"])?;
            if let Some(parts) = content.get("parts")? {
                self::parts(screen, parts, &format!("{path}parts"))?;
            }
        }
    }
    Ok(())
}

fn parts(screen: &mut Screen<'_>, parts: &Node<'_>, path: &str) -> Result<(), Refusal> {
    for (number, part) in parts.objects(path)? {
        let path = format!("{path}[{number}].");
        for (name, value) in part.fields() {
            if matches!(value, Node::Nothing) {
                continue;
            }
            let field = format!("{path}{}", shown(name));
            match snake(name).as_str() {
                "text" | "thought" | "thought_signature" | "function_call" | "video_metadata" | "media_resolution"
                | "part_metadata" => {}
                "inline_data" => {
                    screen.fields_at(&format!("{field}."), value, &["data", "display_name", "mime_type"])?;
                    if let Some(data) = value.get("data")? {
                        screen.inline(&format!("{field}.data"), data)?;
                    }
                    note_audio(screen, value)?;
                }
                "file_data" => {
                    match value.any(&["fileUri", "file_uri"])? {
                        Some(Node::Text(uri)) if uri.starts_with(FILES) => screen.ask(field, "stored_files")?,
                        _ => screen.ask(field, "remote_media")?,
                    }
                    note_audio(screen, value)?;
                }
                "function_response" => {
                    let known = ["id", "name", "parts", "response", "scheduling", "will_continue"];
                    screen.fields_at(&format!("{field}."), value, &known)?;
                    if let Some(more) = value.get("parts")? {
                        self::parts(screen, more, &format!("{field}.parts"))?;
                    }
                }
                "executable_code" | "code_execution_result" => screen.ask(field, "code_execution")?,
                other => screen.ask(field, &shown(other))?,
            }
        }
    }
    Ok(())
}

/// Notes a file unless it is of a type that has no sound: sound costs more, and films have some too.
fn note_audio(screen: &mut Screen<'_>, file: &Node<'_>) -> Result<(), Refusal> {
    const SILENT: [&str; 3] = ["image/", "text/", "application/pdf"];
    let kind = match file.any(&["mimeType", "mime_type"])? {
        Some(Node::Text(kind)) => kind.trim().to_ascii_lowercase(),
        _ => String::new(),
    };
    if !SILENT.iter().any(|silent| kind.starts_with(silent)) {
        screen.hear();
    }
    Ok(())
}

//! Requests that reach outside of the sandbox are refused by field, and ordinary ones of every format pass.

use serde_json::{Value, json};

use super::*;

fn screened(vendor: Vendor, endpoint: Endpoint, body: &Value, policy: &ServerTools) -> Result<Offered, Refusal> {
    screen(vendor, endpoint, body.to_string().as_bytes(), policy)
}

/// The field that a request is refused for and what it asks for, with nothing open; and that the policy which names it opens it.
#[track_caller]
fn refused(vendor: Vendor, endpoint: Endpoint, body: &Value) -> (String, String) {
    let refusal = screened(vendor, endpoint, body, &ServerTools::none());
    let Err(Refusal::Closed { field, tool }) = refusal else { panic!("{body} passes: {refusal:?}") };
    let mut open: Vec<String> = vec![tool.clone()];
    loop {
        let policy = ServerTools::new(open.iter().map(String::as_str)).unwrap();
        match screened(vendor, endpoint, body, &policy) {
            Ok(_) => break,
            Err(Refusal::Closed { tool, .. }) if !open.contains(&tool) => open.push(tool),
            Err(other) => panic!("{body} stays closed: {other:?}"),
        }
    }
    (field, tool)
}

#[track_caller]
fn passes(vendor: Vendor, endpoint: Endpoint, body: &Value) {
    let offered = screened(vendor, endpoint, body, &ServerTools::none());
    assert_eq!(offered.map(|offered| (offered.tools, offered.most_uses)), Ok((vec![], None)), "{body}");
}

#[test]
fn what_anthropic_does_outside_of_the_sandbox_is_refused_by_field() {
    let tool = |kind: &str| json!({ "tools": [{ "name": "a", "input_schema": {} }, { "type": kind, "name": "b" }] });
    let block = |block: Value| json!({ "messages": [{ "role": "user", "content": [{ "type": "text" }, block] }] });
    for (body, field, name) in [
        (json!({ "mcp_servers": [{ "type": "url", "url": "https://evil.test" }] }), "mcp_servers", "mcp"),
        (json!({ "container": "container_1" }), "container", "code_execution"),
        (json!({ "container": { "skills": [] } }), "container", "code_execution"),
        (tool("web_search_20250305"), "tools[1].type", "web_search"),
        (tool("web_search_20271231"), "tools[1].type", "web_search"),
        (tool("web_fetch_20250910"), "tools[1].type", "web_fetch"),
        (tool("code_execution_20250825"), "tools[1].type", "code_execution"),
        (tool("mcp_toolset"), "tools[1].type", "mcp"),
        (tool("advisor_20260301"), "tools[1].type", "advisor"),
        (tool("bash_evil"), "tools[1].type", "bash_evil"),
        (
            block(json!({ "type": "image", "source": { "type": "url", "url": "https://evil.test/?leak" } })),
            "messages[0].content[1].source",
            "remote_media",
        ),
        (
            block(json!({ "type": "document", "source": { "type": "file", "file_id": "file_1" } })),
            "messages[0].content[1].source",
            "stored_files",
        ),
        (
            block(json!({ "type": "tool_result", "content": [{ "type": "image", "source": { "type": "url" } }] })),
            "messages[0].content[1].content[0].source",
            "remote_media",
        ),
        (
            block(
                json!({ "type": "document", "source": { "type": "content", "content": [{ "type": "image", "source": { "type": "url" } }] } }),
            ),
            "messages[0].content[1].source.content[0].source",
            "remote_media",
        ),
        (block(json!({ "type": "container_upload", "file_id": "f" })), "messages[0].content[1].type", "stored_files"),
        (json!({ "new_feature": { "url": "https://evil.test" } }), "new_feature", "new_feature"),
    ] {
        for endpoint in [Endpoint::Messages, Endpoint::CountTokens] {
            assert_eq!(refused(Vendor::Anthropic, endpoint, &body), (field.to_owned(), name.to_owned()), "{body}");
        }
    }
}

#[test]
fn what_openai_does_outside_of_the_sandbox_is_refused_by_field() {
    let tool = |tool: Value| json!({ "tools": [{ "type": "function", "name": "a" }, tool] });
    let part = |part: Value| json!({ "input": [{ "role": "user", "content": [part] }] });
    for (body, field, name) in [
        (tool(json!({ "type": "mcp", "server_url": "https://evil.test" })), "tools[1].type", "mcp"),
        (tool(json!({ "type": "web_search" })), "tools[1].type", "web_search"),
        (tool(json!({ "type": "web_search_preview_2025_03_11" })), "tools[1].type", "web_search"),
        (tool(json!({ "type": "file_search", "vector_store_ids": [] })), "tools[1].type", "file_search"),
        (
            tool(json!({ "type": "code_interpreter", "container": { "type": "auto" } })),
            "tools[1].type",
            "code_execution",
        ),
        (tool(json!({ "type": "image_generation" })), "tools[1].type", "image_generation"),
        (
            tool(json!({ "type": "shell", "environment": { "type": "container_auto" } })),
            "tools[1].environment",
            "code_execution",
        ),
        (tool(json!({ "type": "namespace", "tools": [{ "type": "mcp" }] })), "tools[1].tools[0].type", "mcp"),
        (tool(json!({ "type": "tomorrow" })), "tools[1].type", "tomorrow"),
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id", "stored_context"),
        (json!({ "conversation": "conv_1" }), "conversation", "stored_context"),
        (json!({ "prompt": { "id": "pmpt_1" } }), "prompt", "stored_context"),
        (json!({ "model": "o3-deep-research" }), "model", "web_search"),
        (json!({ "input": [{ "type": "item_reference", "id": "x" }] }), "input[0].type", "stored_context"),
        (
            json!({ "input": [{ "type": "tool_search_output", "tools": [{ "type": "mcp" }] }] }),
            "input[0].tools[0].type",
            "mcp",
        ),
        (
            part(json!({ "type": "input_image", "image_url": "https://evil.test/?leak" })),
            "input[0].content[0].image_url",
            "remote_media",
        ),
        (part(json!({ "type": "input_image", "file_id": "file-1" })), "input[0].content[0].file_id", "stored_files"),
        (
            part(json!({ "type": "input_file", "file_url": "https://evil.test" })),
            "input[0].content[0].file_url",
            "remote_media",
        ),
        (
            json!({ "input": [{ "type": "function_call_output", "output": [{ "type": "input_image", "image_url": "HTTP://evil.test" }] }] }),
            "input[0].output[0].image_url",
            "remote_media",
        ),
        (
            json!({ "input": [{ "type": "computer_call_output", "output": { "type": "computer_screenshot", "image_url": "https://evil.test" } }] }),
            "input[0].output[0].image_url",
            "remote_media",
        ),
    ] {
        assert_eq!(refused(Vendor::OpenAi, Endpoint::Responses, &body), (field.to_owned(), name.to_owned()), "{body}");
    }
    for background in [json!(true), json!("true"), json!({})] {
        let asked =
            screened(Vendor::OpenAi, Endpoint::Responses, &json!({ "background": background }), &ServerTools::none());
        assert!(matches!(asked, Err(Refusal::Never { ref field, .. }) if field == "background"), "{asked:?}");
    }
    let part = |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }] });
    for (body, field, name) in [
        (json!({ "web_search_options": {} }), "web_search_options", "web_search"),
        (json!({ "model": "gpt-4o-search-preview" }), "model", "web_search"),
        (json!({ "model": "openai/gpt-5:online" }), "model", "web_search"),
        (json!({ "plugins": [{ "id": "web" }] }), "plugins", "plugins"),
        (
            part(json!({ "type": "image_url", "image_url": { "url": "https://evil.test" } })),
            "messages[0].content[0].image_url",
            "remote_media",
        ),
        (
            part(json!({ "type": "file", "file": { "file_id": "file-1" } })),
            "messages[0].content[0].file.file_id",
            "stored_files",
        ),
    ] {
        let vendors = [Vendor::OpenAi, Vendor::Ollama(Dialect::OpenAi)];
        for vendor in vendors {
            assert_eq!(
                refused(vendor, Endpoint::ChatCompletions, &body),
                (field.to_owned(), name.to_owned()),
                "{body}"
            );
        }
    }
}

#[test]
fn what_google_does_outside_of_the_sandbox_is_refused_in_either_spelling() {
    let tool = |name: &str| json!({ "tools": [{ "functionDeclarations": [] }, { name: {} }] });
    let part = |part: Value| json!({ "contents": [{ "parts": [{ "text": "x" }, part] }] });
    for (body, field, name) in [
        (tool("urlContext"), "tools[1].urlContext", "web_fetch"),
        (tool("url_context"), "tools[1].url_context", "web_fetch"),
        (tool("googleSearch"), "tools[1].googleSearch", "web_search"),
        (tool("google_search_retrieval"), "tools[1].google_search_retrieval", "web_search"),
        (tool("codeExecution"), "tools[1].codeExecution", "code_execution"),
        (tool("googleMaps"), "tools[1].googleMaps", "maps"),
        (tool("fileSearch"), "tools[1].fileSearch", "file_search"),
        (tool("tomorrowTool"), "tools[1].tomorrowTool", "tomorrow_tool"),
        (json!({ "cachedContent": "cachedContents/1" }), "cachedContent", "stored_context"),
        (json!({ "cached_content": "cachedContents/1" }), "cachedContent", "stored_context"),
        (
            part(json!({ "fileData": { "fileUri": "https://evil.test" } })),
            "contents[0].parts[1].fileData",
            "remote_media",
        ),
        (
            part(json!({ "fileData": { "fileUri": "https://evil.test/?generativelanguage.googleapis.com/" } })),
            "contents[0].parts[1].fileData",
            "remote_media",
        ),
        (
            part(json!({ "file_data": { "file_uri": "https://generativelanguage.googleapis.com/v1beta/files/x" } })),
            "contents[0].parts[1].file_data",
            "stored_files",
        ),
        (
            part(json!({ "functionResponse": { "parts": [{ "fileData": { "fileUri": "gs://x" } }] } })),
            "contents[0].parts[1].functionResponse.parts[0].fileData",
            "remote_media",
        ),
        (
            json!({ "generationConfig": { "responseModalities": ["IMAGE"] } }),
            "generationConfig.responseModalities",
            "image_generation",
        ),
    ] {
        assert_eq!(
            refused(Vendor::Gemini, Endpoint::GenerateContent, &body),
            (field.to_owned(), name.to_owned()),
            "{body}"
        );
        let counted = json!({ "generateContentRequest": body });
        refused(Vendor::Gemini, Endpoint::CountTokens, &counted);
    }
}

/// In every format a content part passes only if its type and its fields are known and it holds what it shows.
#[test]
fn content_parts_are_a_closed_list_in_every_format() {
    let url = "https://evil.test/?leak";
    let behind_blanks = format!("{}{url}", " ".repeat(300));
    let chat = |part: Value| json!({ "messages": [{ "role": "user", "content": [{ "type": "text" }, part] }] });
    let response = |part: Value| json!({ "input": [{ "role": "user", "content": [part] }] });
    let messages = |block: Value| json!({ "messages": [{ "role": "user", "content": [block] }] });
    let gemini = |part: Value| json!({ "contents": [{ "parts": [part] }] });
    let open_ai = Vendor::OpenAi;
    for (vendor, endpoint, body, field, name) in [
        (
            open_ai,
            Endpoint::ChatCompletions,
            chat(json!({ "type": "document_url", "document_url": url })),
            "document_url",
            "remote_media",
        ),
        (
            open_ai,
            Endpoint::ChatCompletions,
            chat(json!({ "type": "file", "file": { "file_data": url } })),
            "file.file_data",
            "remote_media",
        ),
        (
            open_ai,
            Endpoint::ChatCompletions,
            chat(json!({ "type": "file", "file": { "file_url": url } })),
            "file.file_url",
            "file_url",
        ),
        (open_ai, Endpoint::ChatCompletions, chat(json!({ "type": "file", "file": url })), "file", "remote_media"),
        (
            open_ai,
            Endpoint::ChatCompletions,
            chat(json!({ "type": "input_audio", "input_audio": { "data": url } })),
            "input_audio.data",
            "remote_media",
        ),
        (
            open_ai,
            Endpoint::ChatCompletions,
            chat(json!({ "type": "image_url", "image_url": { "uri": url } })),
            "image_url.uri",
            "uri",
        ),
        (open_ai, Endpoint::ChatCompletions, chat(json!({ "type": "tomorrow", "address": url })), "type", "tomorrow"),
        (open_ai, Endpoint::ChatCompletions, chat(json!({ "type": "text", "address": url })), "address", "address"),
        (
            open_ai,
            Endpoint::ChatCompletions,
            json!({ "messages": [{ "role": "user", "address": url }] }),
            "address",
            "address",
        ),
        (
            open_ai,
            Endpoint::ChatCompletions,
            json!({ "messages": [{ "role": "assistant", "audio": { "id": "a" } }] }),
            "audio",
            "stored_context",
        ),
        (
            open_ai,
            Endpoint::Responses,
            response(json!({ "type": "input_file", "file_data": url })),
            "file_data",
            "remote_media",
        ),
        (open_ai, Endpoint::Responses, response(json!({ "type": "tomorrow", "address": url })), "type", "tomorrow"),
        (open_ai, Endpoint::Responses, response(json!({ "type": "input_text", "address": url })), "address", "address"),
        (open_ai, Endpoint::Responses, json!({ "input": [{ "type": "tomorrow" }] }), "type", "tomorrow"),
        (
            open_ai,
            Endpoint::Responses,
            json!({ "input": [{ "type": "message", "address": url }] }),
            "address",
            "address",
        ),
        (open_ai, Endpoint::Responses, json!({ "input": [{ "type": "mcp_approval_response" }] }), "type", "mcp"),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "image", "source": url })),
            "source",
            "remote_media",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "image", "source": { "type": "base64", "data": url } })),
            "source.data",
            "remote_media",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "image", "source": { "type": "base64", "data": behind_blanks } })),
            "source.data",
            "remote_media",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "image", "source": { "type": "base64", "url": url } })),
            "source.url",
            "url",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "tomorrow", "address": url })),
            "type",
            "tomorrow",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "text", "address": url })),
            "address",
            "address",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "document", "file_id": "f" })),
            "file_id",
            "stored_files",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "server_tool_use", "name": "web_fetch" })),
            "name",
            "web_fetch",
        ),
        (
            Vendor::Anthropic,
            Endpoint::Messages,
            messages(json!({ "type": "mcp_tool_use", "name": "x" })),
            "type",
            "mcp",
        ),
        (
            Vendor::Gemini,
            Endpoint::GenerateContent,
            gemini(json!({ "tomorrowData": { "uri": url } })),
            "tomorrowData",
            "tomorrow_data",
        ),
        (
            Vendor::Gemini,
            Endpoint::GenerateContent,
            gemini(json!({ "inlineData": { "fileUri": url } })),
            "inlineData.fileUri",
            "file_uri",
        ),
        (
            Vendor::Gemini,
            Endpoint::GenerateContent,
            gemini(json!({ "inlineData": { "data": url } })),
            "inlineData.data",
            "remote_media",
        ),
        (Vendor::Gemini, Endpoint::GenerateContent, gemini(json!({ "fileData": url })), "fileData", "remote_media"),
        (
            Vendor::Gemini,
            Endpoint::GenerateContent,
            gemini(json!({ "executableCode": { "code": "x" } })),
            "executableCode",
            "code_execution",
        ),
        (
            Vendor::Ollama(Dialect::Own),
            Endpoint::OllamaChat,
            json!({ "messages": [{ "images": [url] }] }),
            "images[0]",
            "remote_media",
        ),
        (
            Vendor::Ollama(Dialect::Own),
            Endpoint::OllamaGenerate,
            json!({ "images": [url] }),
            "images[0]",
            "remote_media",
        ),
        (Vendor::Ollama(Dialect::Own), Endpoint::OllamaChat, chat(json!({ "type": "tomorrow" })), "type", "tomorrow"),
    ] {
        let (at, tool) = refused(vendor, endpoint, &body);
        assert!(at.ends_with(field) && tool == name, "{body}: {at}, {tool}");
    }
    for (vendor, endpoint, body) in [
        (
            open_ai,
            Endpoint::ChatCompletions,
            json!({ "messages": [{ "content": [[{ "type": "image_url", "image_url": url }]] }] }),
        ),
        (open_ai, Endpoint::ChatCompletions, chat(json!({ "type": ["image_url"] }))),
        (open_ai, Endpoint::ChatCompletions, json!({ "tools": ["web_search"] })),
        (Vendor::Anthropic, Endpoint::Messages, messages(json!([{ "type": "image" }]))),
        (Vendor::Anthropic, Endpoint::Messages, json!({ "tools": ["web_search"] })),
        (Vendor::Gemini, Endpoint::GenerateContent, gemini(json!([{ "fileData": {} }]))),
        (Vendor::Gemini, Endpoint::GenerateContent, json!({ "tools": ["googleSearch"] })),
        (Vendor::Ollama(Dialect::Own), Endpoint::OllamaChat, json!({ "messages": [{ "images": url }] })),
    ] {
        let asked = screened(vendor, endpoint, &body, &ServerTools::none());
        assert!(matches!(asked, Err(Refusal::NotUnderstood(_))), "{body}: {asked:?}");
    }
    for part in [
        json!({ "type": "file", "file": { "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf" } }),
        json!({ "type": "file", "file": { "file_data": "AAAA/+==" } }),
        json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } }),
        json!({ "type": "document_url", "document_url": "data:application/pdf;base64,AAAA" }),
        json!({ "type": "text", "text": url, "cache_control": { "type": "ephemeral" } }),
    ] {
        passes(open_ai, Endpoint::ChatCompletions, &chat(part));
    }
}

#[test]
fn tools_of_the_client_and_inline_sources_pass() {
    let data = "data:image/png;base64,AAAA";
    let inline = json!({ "type": "base64", "data": "AAAA", "media_type": "image/png" });
    passes(
        Vendor::Anthropic,
        Endpoint::Messages,
        &json!({
            "model": "m", "max_tokens": 1, "stream": true, "metadata": { "user_id": "x" }, "mcp_servers": [], "container": null,
            "thinking": { "type": "adaptive" }, "context_management": { "edits": [] },
            "system": [{ "type": "text", "text": "s", "cache_control": { "type": "ephemeral" } }],
            "tools": [
                { "name": "file_id", "input_schema": { "properties": { "source": { "type": "url" }, "file_id": {} } } },
                { "type": "custom", "name": "c" }, { "type": "bash_20250124", "name": "bash" },
                { "type": "text_editor_20250728", "name": "e" }, { "type": "computer_20251124", "name": "d" },
                { "type": "memory_20250818", "name": "m" }, { "type": "tool_search_tool_regex_20251119", "name": "t" },
            ],
            "messages": [
                { "role": "user", "content": "https://example.com" },
                { "role": "assistant", "content": [{ "type": "tool_use", "input": { "source": { "type": "url" } } }] },
                { "role": "user", "content": [
                    { "type": "image", "source": inline }, { "type": "document", "source": { "type": "text", "data": "x" } },
                    { "type": "search_result", "source": "https://example.com", "content": [{ "type": "text", "text": "x" }] },
                    { "type": "tool_result", "content": "https://example.com" },
                ] },
            ],
        }),
    );
    passes(
        Vendor::OpenAi,
        Endpoint::Responses,
        &json!({
            "model": "gpt-5", "store": false, "background": false, "previous_response_id": null, "client_metadata": {},
            "tools": [
                { "type": "function", "name": "f", "parameters": { "properties": { "file_id": {}, "image_url": {} } } },
                { "type": "custom", "name": "apply" }, { "type": "local_shell" }, { "type": "apply_patch" },
                { "type": "shell" }, { "type": "shell", "environment": { "type": "local" } },
                { "type": "namespace", "name": "n", "tools": [{ "type": "function", "name": "f" }] },
            ],
            "input": [
                { "role": "user", "content": [{ "type": "input_image", "image_url": data }, { "type": "input_text", "text": "x" }] },
                { "type": "function_call", "arguments": "{\"file_id\":\"x\"}" },
                { "type": "function_call_output", "output": "https://example.com" },
                { "type": "message", "content": [{ "type": "output_text", "annotations": [{ "file_id": "x" }] }] },
            ],
        }),
    );
    passes(
        Vendor::OpenAi,
        Endpoint::ChatCompletions,
        &json!({
            "model": "gpt-5", "stream": true, "stream_options": {}, "web_search_options": null,
            "tools": [{ "type": "function", "function": { "name": "f", "parameters": {} } }],
            "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": data } }] }],
        }),
    );
    passes(
        Vendor::Gemini,
        Endpoint::StreamGenerateContent,
        &json!({
            "tools": [{ "functionDeclarations": [{ "name": "f", "parametersJsonSchema": {} }], "googleSearch": null }],
            "generationConfig": { "responseModalities": ["TEXT"], "temperature": 0 },
            "contents": [{ "parts": [
                { "inlineData": { "data": "AA" } }, { "functionCall": { "args": { "fileData": { "fileUri": "https://x" } } } },
                { "functionResponse": { "response": { "fileData": {} } } },
            ] }],
        }),
    );
    passes(
        Vendor::Ollama(Dialect::Own),
        Endpoint::OllamaChat,
        &json!({ "model": "q", "messages": [{ "images": ["AAAA"] }], "tools": [{ "type": "function" }], "options": {} }),
    );
}

#[test]
fn what_two_parsers_could_read_differently_is_refused() {
    for body in [
        r#"{"tools":[],"tools":[{"type":"mcp"}]}"#,
        r#"{"tools":[{"type":"function","type":"mcp"}]}"#,
        r#"{"tools":[{"type":"function","\u0074ype":"mcp"}]}"#,
        r#"{"tools":[{"type":7}]}"#,
        "[]",
        "{",
    ] {
        let asked = screen(Vendor::OpenAi, Endpoint::Responses, body.as_bytes(), &ServerTools::none());
        assert!(matches!(asked, Err(Refusal::NotUnderstood(_))), "{body}: {asked:?}");
    }
    let escaped = r#"{"tools":[{"\u0074ype":"\u006dcp"}]}"#;
    let asked = screen(Vendor::OpenAi, Endpoint::Responses, escaped.as_bytes(), &ServerTools::none());
    assert!(matches!(asked, Err(Refusal::Closed { .. })), "{asked:?}");
}

#[test]
fn sound_in_a_request_is_noted_and_pictures_are_none() {
    let gemini =
        |kind: Value| json!({ "contents": [{ "parts": [{ "inlineData": { "mimeType": kind, "data": "AAAA" } }] }] });
    let answer = json!({ "contents": [{ "parts": [{ "functionResponse": { "name": "f", "response": {}, "parts": [
        { "inlineData": { "mimeType": "audio/wav", "data": "AAAA" } },
    ] } }] }] });
    let chat = |part: Value| json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": [part] }] });
    let sound = json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } });
    let picture = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } });
    let (generate, completions) = (Endpoint::GenerateContent, Endpoint::ChatCompletions);
    for (vendor, endpoint, body, input) in [
        (Vendor::Gemini, generate, gemini(json!("audio/mp3")), Input::WithAudio),
        (Vendor::Gemini, generate, gemini(json!("AUDIO/MP3")), Input::WithAudio),
        (Vendor::Gemini, generate, gemini(json!("video/mp4")), Input::WithAudio),
        (Vendor::Gemini, generate, gemini(Value::Null), Input::WithAudio),
        (Vendor::Gemini, generate, answer, Input::WithAudio),
        (Vendor::Gemini, generate, gemini(json!("image/png")), Input::Silent),
        (Vendor::Gemini, generate, gemini(json!("application/pdf")), Input::Silent),
        (Vendor::OpenAi, completions, chat(sound), Input::WithAudio),
        (Vendor::OpenAi, completions, chat(picture), Input::Silent),
    ] {
        let noted = screened(vendor, endpoint, &body, &ServerTools::none()).map(|offered| offered.input);
        assert_eq!(noted, Ok(input), "{body}");
    }
}

#[test]
fn what_is_opened_is_told_with_its_bound() {
    let policy = ServerTools::new(["web_search"]).unwrap();
    let body = json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search", "max_uses": 8 }] });
    let offered = Offered { tools: vec!["web_search"], most_uses: Some(8), input: Input::Silent };
    assert_eq!(screened(Vendor::Anthropic, Endpoint::Messages, &body, &policy), Ok(offered));
    assert!(ServerTools::new(["Web Search"]).is_err_and(|reason| reason.contains("web_fetch")));
}

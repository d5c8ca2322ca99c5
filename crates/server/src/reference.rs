//! The API reference as plain HTML, for readers without scripts and installations without the page. It is made from the OpenAPI
//! document alone.

use std::fmt::Write;

use serde_json::Value;

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width, initial-scale=1\"><title>Harvest API</title><h1>Harvest API</h1>";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// A type is written out to this depth; what is deeper has its own entry.
const DEEPEST: usize = 6;

/// Every operation with its parameters, the fields of its body and its answers, then every schema.
pub fn html(document: &Value) -> String {
    let mut page = String::from(HEAD);
    for paragraph in text(&document["info"]["description"]).split("\n\n") {
        paragraphs(&mut page, paragraph);
    }
    page.push_str("<p><a href=/api/openapi.json>openapi.json</a>, <a href=#schemas>schemas</a></p>");
    for (path, item) in entries(&document["paths"]) {
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                describe_operation(&mut page, document, method, path, operation);
            }
        }
    }
    page.push_str("<h2 id=schemas>Schemas</h2>");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        let _ = write!(page, "<h3 id=\"schema-{}\"><code>{}</code></h3>", escape(name), escape(name));
        paragraphs(&mut page, text(&schema["description"]));
        describe_schema(&mut page, document, schema);
    }
    page
}

fn describe_operation(page: &mut String, document: &Value, method: &str, path: &str, operation: &Value) {
    let _ = write!(page, "<h2><code>{} {}</code></h2>", method.to_uppercase(), escape(path));
    paragraphs(page, text(&operation["summary"]));
    paragraphs(page, text(&operation["description"]));
    let mut roles: Vec<&str> = items(&operation["security"])
        .flat_map(|scheme| entries(scheme).flat_map(|(_, words)| items(words).filter_map(Value::as_str)))
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if !roles.is_empty() {
        let _ = write!(page, "<p>Needs: {}</p>", escape(&roles.join(", ")));
    }
    let mut parameters = items(&operation["parameters"]).peekable();
    if parameters.peek().is_some() {
        page.push_str("<h3>Parameters</h3>");
        open_table(page);
        for parameter in parameters {
            let about = described(document, parameter, &parameter["schema"]);
            let kind = format!("{}, in the {}", kind_of(&parameter["schema"], 0), escape(text(&parameter["in"])));
            row(page, text(&parameter["name"]), &kind, parameter["required"] == true, about);
        }
        page.push_str("</table>");
    }
    for (media, content) in entries(&operation["requestBody"]["content"]) {
        let schema = &content["schema"];
        let _ = write!(page, "<h3>Body</h3><p><code>{}</code>: {}</p>", escape(media), kind_of(schema, 0));
        describe_schema(page, document, resolved(document, schema));
    }
    page.push_str("<h3>Answers</h3><ul>");
    for (status, answer) in entries(&operation["responses"]) {
        let kinds: Vec<String> = entries(&answer["content"])
            .map(|(media, content)| format!("<code>{}</code> {}", escape(media), kind_of(&content["schema"], 0)))
            .collect();
        let about = escape(text(&answer["description"]));
        let _ = write!(page, "<li><code>{}</code> {about} {}</li>", escape(status), kinds.join(", "));
    }
    page.push_str("</ul>");
}

/// The fields of an object, or the type of anything else.
fn describe_schema(page: &mut String, document: &Value, schema: &Value) {
    let parts: Vec<&Value> = items(&schema["allOf"]).collect();
    if !parts.is_empty() {
        for part in parts {
            describe_schema(page, document, resolved(document, part));
        }
        return;
    }
    if !schema["properties"].is_object() {
        let _ = write!(page, "<p>{}</p>", kind_of(schema, 0));
        return;
    }
    open_table(page);
    for (name, field) in entries(&schema["properties"]) {
        let required = items(&schema["required"]).any(|known| known == name);
        row(page, name, &kind_of(field, 0), required, described(document, field, field));
    }
    page.push_str("</table>");
}

fn open_table(page: &mut String) {
    page.push_str("<table border=1 cellpadding=4><tr><th>name<th>type<th>required<th>meaning</tr>");
}

fn row(page: &mut String, name: &str, kind: &str, required: bool, about: &str) {
    let required = if required { "yes" } else { "no" };
    let _ = write!(page, "<tr><td><code>{}</code><td>{kind}<td>{required}<td>{}</tr>", escape(name), escape(about));
}

/// The description of a field: its own, else that of its type.
fn described<'d>(document: &'d Value, field: &'d Value, schema: &'d Value) -> &'d str {
    let own = text(&field["description"]);
    if !own.is_empty() {
        return own;
    }
    let choices = items(&schema["oneOf"]).map(|choice| (text(&choice["description"]), choice));
    let choices = choices.chain([("", schema)]);
    let known = choices
        .map(|(own, choice)| if own.is_empty() { text(&resolved(document, choice)["description"]) } else { own });
    known.into_iter().find(|known| !known.is_empty()).unwrap_or_default()
}

/// A type in words, as HTML.
fn kind_of(schema: &Value, depth: usize) -> String {
    if depth > DEEPEST {
        return "…".to_owned();
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#schema-{}\">{}</a>", escape(name), escape(name));
    }
    for (key, joined) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        let kinds: Vec<String> = items(&schema[key]).map(|choice| kind_of(choice, depth + 1)).collect();
        if !kinds.is_empty() {
            return kinds.join(joined);
        }
    }
    let values: Vec<String> =
        items(&schema["enum"]).map(|value| format!("<code>{}</code>", escape(&value.to_string()))).collect();
    if !values.is_empty() {
        return values.join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let kind = |name: &str| match name {
        "array" => format!("array of {}", kind_of(&schema["items"], depth + 1)),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object, each value {}", kind_of(&schema["additionalProperties"], depth + 1))
        }
        "object" if schema["properties"].is_object() => {
            let fields = entries(&schema["properties"])
                .map(|(name, field)| format!("<code>{}</code>: {}", escape(name), kind_of(field, depth + 1)));
            format!("object with {}", fields.collect::<Vec<_>>().join(", "))
        }
        name => escape(name),
    };
    let mut words = names.into_iter().map(kind).collect::<Vec<_>>().join(" or ");
    for (key, word) in [
        ("format", "format"),
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "shortest length"),
        ("maxLength", "longest length"),
        ("maxItems", "most items"),
        ("pattern", "pattern"),
        ("default", "default"),
    ] {
        match &schema[key] {
            Value::Null => {}
            Value::String(value) => words.push_str(&format!(", {word} {}", escape(value))),
            value => words.push_str(&format!(", {word} {value}")),
        }
    }
    words
}

fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    let path = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    path.and_then(|path| document.pointer(path)).unwrap_or(schema)
}

fn paragraphs(page: &mut String, text: &str) {
    if !text.is_empty() {
        let _ = write!(page, "<p>{}</p>", escape(text));
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field that a request may have, with the operation that takes it.
    fn request_fields(document: &Value) -> Vec<(String, &str, &Value)> {
        let mut fields = Vec::new();
        for (path, item) in entries(&document["paths"]) {
            for (method, operation) in entries(item) {
                for (_, content) in entries(&operation["requestBody"]["content"]) {
                    let schema = resolved(document, &content["schema"]);
                    let parts = items(&schema["allOf"]).map(|part| resolved(document, part)).chain([schema]);
                    for (name, field) in parts.flat_map(|part| entries(&part["properties"])) {
                        fields.push((format!("{} {path}", method.to_uppercase()), name, field));
                    }
                }
            }
        }
        fields
    }

    #[test]
    fn the_plain_reference_has_every_field_of_every_request_with_its_type_and_meaning() {
        let document = serde_json::to_value(crate::openapi::document()).unwrap();
        let page = html(&document);
        let fields = request_fields(&document);
        assert!(fields.len() > 80, "{}", fields.len());
        for (operation, name, field) in fields {
            let start = page.find(&format!("<h2><code>{operation}</code></h2>")).unwrap();
            let section = &page[start..];
            let section = &section[..section[4..].find("<h2").map_or(section.len(), |end| end + 4)];
            let about = described(&document, field, field);
            assert!(!about.is_empty(), "{operation}: `{name}` has no description");
            let kind = kind_of(field, 0);
            let row = format!("<tr><td><code>{name}</code><td>{kind}<td>");
            assert!(section.contains(&row) && section.contains(&escape(about)), "{operation}: {row} {about}");
        }
        for (path, item) in entries(&document["paths"]) {
            for parameter in entries(item).flat_map(|(_, operation)| items(&operation["parameters"])) {
                let about = described(&document, parameter, &parameter["schema"]);
                assert!(!about.is_empty(), "{path}: {} has no description", parameter["name"]);
            }
        }
    }

    #[test]
    fn types_are_words() {
        let kind = |schema: Value| kind_of(&schema, 0);
        assert_eq!(
            kind(serde_json::json!({ "type": ["string", "null"], "maxLength": 3 })),
            "string or null, longest length 3"
        );
        assert_eq!(
            kind(serde_json::json!({ "type": "array", "items": { "$ref": "#/components/schemas/Cost" } })),
            "array of <a href=\"#schema-Cost\">Cost</a>"
        );
        assert_eq!(kind(serde_json::json!({ "type": "string", "enum": ["a<b"] })), "<code>&quot;a&lt;b&quot;</code>");
    }
}

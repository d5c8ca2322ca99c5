//! OTLP in its JSON form: the names are those of its protocol buffers, ids are hexadecimal, and whole numbers are text.

use serde_json::{Value, json};

use crate::span::{Kind, Outcome, Span};

pub fn document(spans: &[Span]) -> Value {
    let resource =
        [attribute("service.name", &json!("harvest")), attribute("service.version", &json!(env!("CARGO_PKG_VERSION")))];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{
                "scope": { "name": "harvest", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(span: &Span) -> Value {
    let kind = match span.kind {
        Kind::Internal => 1,
        Kind::Server => 2,
        Kind::Client => 3,
    };
    let status = match &span.outcome {
        Outcome::Unset => json!({}),
        Outcome::Ok => json!({ "code": 1 }),
        Outcome::Failed(message) => json!({ "code": 2, "message": message }),
    };
    let mut shown = json!({
        "traceId": span.trace.hex(),
        "spanId": span.id.hex(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.start.as_nanosecond().to_string(),
        "endTimeUnixNano": span.end.as_nanosecond().to_string(),
        "attributes": span.attributes.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = span.parent {
        shown["parentSpanId"] = parent.hex().into();
    }
    shown
}

fn attribute(key: &str, value: &Value) -> Value {
    let typed = match value {
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": key, "value": typed })
}

//! The same request for another model.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Endpoint;
use super::vendor::model_action;

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    model: &'a RawValue,
}

/// Path and body with `model` in place of the one that was asked for; every other byte stays. `None` for a request that names
/// no model.
pub(super) fn substitute(endpoint: Endpoint, path: &str, body: &Bytes, model: &str) -> Option<(String, Bytes)> {
    if matches!(endpoint, Endpoint::GenerateContent | Endpoint::StreamGenerateContent) {
        let (asked, action) = model_action(path)?;
        let before = path.strip_suffix(&format!("{asked}:{action}"))?;
        return Some((format!("{before}{model}:{action}"), body.clone()));
    }
    let text = std::str::from_utf8(body).ok()?;
    let named: Named<'_> = serde_json::from_str(text).ok()?;
    let at = named.model.get().as_ptr() as usize - text.as_ptr() as usize;
    let (before, rest) = text.split_at(at);
    let after = rest.get(named.model.get().len()..)?;
    let quoted = serde_json::to_string(model).ok()?;
    Some((path.to_owned(), Bytes::from([before, &quoted, after].concat())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_model_changes() {
        let other = |endpoint, path, body: &'static str| {
            let (path, body) = substitute(endpoint, path, &Bytes::from_static(body.as_bytes()), "other")?;
            Some((path, String::from_utf8(body.to_vec()).unwrap()))
        };
        let messages = other(Endpoint::Messages, "v1/messages", r#"{ "x":1.0, "model" : "big" ,"y":{"model":"z"}}"#);
        let expected = r#"{ "x":1.0, "model" : "other" ,"y":{"model":"z"}}"#;
        assert_eq!(messages, Some(("v1/messages".into(), expected.into())));
        let gemini = other(Endpoint::StreamGenerateContent, "v1beta/models/big:streamGenerateContent", "{}");
        assert_eq!(gemini, Some(("v1beta/models/other:streamGenerateContent".into(), "{}".into())));
        assert_eq!(other(Endpoint::Messages, "v1/messages", "{}"), None);
    }
}

//! One issue per line. What Harvest understands is checked; everything else is carried along, byte for byte and in order.

use std::collections::HashMap;
use std::fmt;

use harvest_core::Priority;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// A JSON object that keeps the order of its fields and how their values were written.
#[derive(Debug, Clone, Default)]
pub struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    pub fn raw(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, value)| value.get())
    }

    /// `None` also for null.
    pub fn get(&self, field: &str) -> Option<Value> {
        serde_json::from_str(self.raw(field)?).ok().filter(|value: &Value| !value.is_null())
    }

    pub fn text(&self, field: &str) -> Option<String> {
        self.get(field)?.as_str().map(str::to_owned)
    }

    /// In place, or behind everything else.
    pub fn set(&mut self, field: &str, text: &str) -> Result<(), serde_json::Error> {
        let value = serde_json::value::to_raw_value(text)?;
        match self.0.iter_mut().find(|(name, _)| name == field) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.to_owned(), value)),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an issue as a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format!("`{name}` appears twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{reason}", .field.as_ref().map(|field| format!("`{field}` ")).unwrap_or_default())]
pub struct BadLine {
    pub line: usize,
    pub field: Option<String>,
    pub reason: String,
}

/// What Harvest reads out of an issue.
#[derive(Debug, Clone)]
pub struct Issue {
    pub line: usize,
    /// The line as it stands in the file.
    pub raw: String,
    pub object: Object,
    pub id: String,
    pub status: String,
    pub priority: Priority,
    pub labels: Vec<String>,
    /// The issues that have to be closed before this one.
    pub blocked_by: Vec<String>,
    pub prompt: String,
}

/// All issues of a file, in order. Blank lines are allowed.
pub fn parse(text: &str) -> Result<Vec<Issue>, BadLine> {
    let mut issues: Vec<Issue> = Vec::new();
    let mut lines: HashMap<String, usize> = HashMap::new();
    for (index, raw) in text.split('\n').enumerate() {
        if raw.trim().is_empty() {
            continue;
        }
        let issue = Issue::parse(index + 1, raw.trim_end_matches('\r'))?;
        if let Some(before) = lines.insert(issue.id.clone(), issue.line) {
            let reason = format!("is `{}`, which line {before} has already", issue.id);
            return Err(BadLine { line: issue.line, field: Some("id".into()), reason });
        }
        issues.push(issue);
    }
    Ok(issues)
}

impl Issue {
    fn parse(line: usize, raw: &str) -> Result<Self, BadLine> {
        let object: Object = serde_json::from_str(raw).map_err(|error| {
            let text = error.to_string();
            let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
            BadLine { line, field: None, reason: format!("column {}: {reason}", error.column()) }
        })?;
        Self::read(line, raw, object)
    }

    pub fn read(line: usize, raw: &str, object: Object) -> Result<Self, BadLine> {
        let bad =
            |field: &str, reason: &str| BadLine { line, field: Some(field.to_owned()), reason: reason.to_owned() };
        let text = |field: &str| match object.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(bad(field, "must be text")),
        };
        let needed = |field: &str| text(field)?.ok_or_else(|| bad(field, "is missing or empty"));
        let id = needed("id")?;
        let priority = match object.get("priority") {
            None => Priority::Normal,
            Some(number) => match number.as_u64() {
                Some(0) => Priority::Urgent,
                Some(1) => Priority::High,
                Some(2) => Priority::Normal,
                Some(3 | 4) => Priority::Low,
                _ => return Err(bad("priority", "must be a whole number from 0 to 4")),
            },
        };
        let labels = match object.get("labels") {
            None => Vec::new(),
            Some(Value::Array(labels)) => {
                let label = |label: &Value| label.as_str().map(str::to_owned);
                labels
                    .iter()
                    .map(label)
                    .collect::<Option<_>>()
                    .ok_or_else(|| bad("labels", "must be a list of texts"))?
            }
            Some(_) => return Err(bad("labels", "must be a list of texts")),
        };
        let blocked_by = blockers(&id, object.get("dependencies")).map_err(|(field, reason)| bad(&field, reason))?;
        let mut prompt = needed("title")?;
        for (heading, field) in
            [("", "description"), ("## Design\n\n", "design"), ("## Acceptance criteria\n\n", "acceptance_criteria")]
        {
            if let Some(part) = text(field)? {
                prompt = format!("{prompt}\n\n{heading}{}", part.trim_end());
            }
        }
        let status = text("status")?.unwrap_or_else(|| "open".to_owned());
        Ok(Self { line, raw: raw.to_owned(), id, status, priority, labels, blocked_by, prompt, object })
    }

    /// Nothing is left to do about it.
    pub fn is_closed(&self) -> bool {
        matches!(self.status.as_str(), "closed" | "tombstone")
    }

    /// The name behind the label `convoy:`.
    pub fn convoy(&self) -> Option<&str> {
        self.labels.iter().find_map(|label| label.strip_prefix("convoy:"))
    }

    /// Of everything that a task is made from. A status that was written back does not count as a change.
    pub fn digest(&self) -> String {
        let mut blockers = self.blocked_by.clone();
        blockers.sort();
        let parts = (&self.prompt, self.priority.as_str(), &blockers, self.convoy());
        let text = serde_json::to_string(&parts).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Reads `[{issue_id, depends_on_id, type}]` as well as `["id"]`. Only dependencies of type `blocks` count.
fn blockers(id: &str, dependencies: Option<Value>) -> Result<Vec<String>, (String, &'static str)> {
    let list = match dependencies {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(("dependencies".into(), "must be a list")),
    };
    let mut blockers = Vec::new();
    for (index, dependency) in list.iter().enumerate() {
        let field = |name: &str| format!("dependencies[{index}]{name}");
        let on = match dependency {
            Value::String(on) => on,
            Value::Object(fields) => {
                let text = |name: &str| match fields.get(name) {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::String(text)) => Ok(Some(text)),
                    Some(_) => Err((field(&format!(".{name}")), "must be text")),
                };
                if text("type")?.is_some_and(|kind| kind != "blocks") {
                    continue;
                }
                if text("issue_id")?.is_some_and(|other| other != id) {
                    return Err((field(".issue_id"), "is another issue's"));
                }
                text("depends_on_id")?.ok_or_else(|| (field(".depends_on_id"), "is missing"))?
            }
            _ => return Err((field(""), "must be an id or an object")),
        };
        if !blockers.contains(on) {
            blockers.push(on.clone());
        }
    }
    Ok(blockers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_issue_with_everything() {
        let text = r#"{"id":"bd-7","title":"Fix login","description":"It fails.\n","design":"Use a token.","acceptance_criteria":"- [ ] logs in","status":"open","priority":1,"issue_type":"bug","labels":["web","convoy:spring"],"dependencies":[{"issue_id":"bd-7","depends_on_id":"bd-1","type":"blocks"},{"issue_id":"bd-7","depends_on_id":"bd-2","type":"related"},{"depends_on_id":"bd-1"}]}"#;
        let issue = parse(text).unwrap().remove(0);
        assert_eq!(
            issue.prompt,
            "Fix login\n\nIt fails.\n\n## Design\n\nUse a token.\n\n## Acceptance criteria\n\n- [ ] logs in"
        );
        assert_eq!((issue.priority, issue.convoy(), issue.is_closed()), (Priority::High, Some("spring"), false));
        assert_eq!(issue.blocked_by, ["bd-1"]);
    }

    #[test]
    fn little_is_needed() {
        let issues = parse("\n{\"id\":\"a\",\"title\":\"A\",\"description\":null}\r\n\n{\"id\":\"b\",\"title\":\"B\",\"status\":\"closed\",\"dependencies\":[\"a\"]}\n").unwrap();
        assert_eq!(issues.iter().map(|issue| issue.line).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(
            (issues[0].status.as_str(), issues[0].priority, issues[0].prompt.as_str()),
            ("open", Priority::Normal, "A")
        );
        assert!(issues[1].is_closed());
        assert_eq!(issues[1].blocked_by, ["a"]);
    }

    #[test]
    fn priorities() {
        let of = |number: u8| parse(&format!(r#"{{"id":"a","title":"A","priority":{number}}}"#)).unwrap()[0].priority;
        assert_eq!(
            [0, 1, 2, 3, 4].map(of),
            [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low, Priority::Low]
        );
    }

    #[test]
    fn lines_and_fields_are_named() {
        let good = r#"{"id":"a","title":"A"}"#;
        assert_eq!(refused(&format!("{good}\n{{\"id\":")), "line 2: column 6: EOF while parsing a value");
        assert_eq!(refused("[1]"), "line 1: column 0: invalid type: sequence, expected an issue as a JSON object");
        assert_eq!(refused(r#"{"title":"A"}"#), "line 1: `id` is missing or empty");
        assert_eq!(refused(r#"{"id":"a"}"#), "line 1: `title` is missing or empty");
        assert_eq!(refused(r#"{"id":"a","title":7}"#), "line 1: `title` must be text");
        assert_eq!(
            refused(r#"{"id":"a","title":"A","priority":5}"#),
            "line 1: `priority` must be a whole number from 0 to 4"
        );
        assert_eq!(
            refused(r#"{"id":"a","title":"A","priority":"high"}"#),
            "line 1: `priority` must be a whole number from 0 to 4"
        );
        assert_eq!(refused(r#"{"id":"a","title":"A","labels":[1]}"#), "line 1: `labels` must be a list of texts");
        assert_eq!(
            refused(r#"{"id":"a","title":"A","dependencies":[{}]}"#),
            "line 1: `dependencies[0].depends_on_id` is missing"
        );
        assert_eq!(
            refused(r#"{"id":"a","title":"A","dependencies":[7]}"#),
            "line 1: `dependencies[0]` must be an id or an object"
        );
        assert_eq!(
            refused(r#"{"id":"a","title":"A","dependencies":[{"issue_id":"z","depends_on_id":"b"}]}"#),
            "line 1: `dependencies[0].issue_id` is another issue's"
        );
        assert_eq!(refused(&format!("{good}\n{good}")), "line 2: `id` is `a`, which line 1 has already");
        assert!(refused(r#"{"id":"a","id":"b"}"#).contains("`id` appears twice"));
    }

    #[test]
    fn objects_keep_their_order_and_every_value() {
        let text = r#"{"z":1.50e3,"id":"a","big":123456789012345678901234567890,"nested":{"b":[1, 2],"a":"\u00e9"},"status":"open"}"#;
        let mut object: Object = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        object.set("status", "closed").unwrap();
        object.set("close_reason", "done \"well\"").unwrap();
        let changed = text.replace("\"open\"}", "\"closed\",\"close_reason\":\"done \\\"well\\\"\"}");
        assert_eq!(serde_json::to_string(&object).unwrap(), changed);
    }

    #[test]
    fn a_status_that_was_written_back_is_no_change() {
        let digest = |text: &str| parse(text).unwrap()[0].digest();
        let before = digest(r#"{"id":"a","title":"A","status":"open"}"#);
        assert_eq!(before, digest(r#"{"id":"a","title":"A","status":"in_progress","updated_at":"x","notes":"y"}"#));
        assert_ne!(before, digest(r#"{"id":"a","title":"B","status":"open"}"#));
        assert_ne!(before, digest(r#"{"id":"a","title":"A","priority":0}"#));
    }
}

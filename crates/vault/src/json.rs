//! Redaction of JSON values in place: every string and every key.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::Redactor;

impl Redactor {
    /// Redacts every string and key of `value`.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(map) => {
                map.values_mut().for_each(|value| self.redact_json(value));
                if map.keys().any(|key| matches!(self.redact(key), Cow::Owned(_))) {
                    *map = self.redacted_keys(std::mem::take(map));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Keys that become equal are numbered, so that no value is lost.
    fn redacted_keys(&self, map: Map<String, Value>) -> Map<String, Value> {
        let mut clean = Map::new();
        for (key, value) in map {
            let wanted = self.redact(&key).into_owned();
            let mut key = wanted.clone();
            let mut number = 1;
            while clean.contains_key(&key) {
                number += 1;
                key = format!("{wanted} ({number})");
            }
            clean.insert(key, value);
        }
        clean
    }
}

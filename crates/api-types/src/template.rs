//! Templates: prompts with parameters, and the tasks that are created from them.

use std::collections::BTreeMap;

use harvest_core::Timestamp;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Ask;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Template {
    pub name: String,
    /// Text with `{{ parameter }}`.
    pub prompt: String,
    pub parameters: Vec<String>,
    /// Options of the tasks created from it.
    pub options: Value,
    pub created_at: Timestamp,
}

/// A template to add.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTemplate {
    /// The name of the template.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 64, example = "upgrade"))]
    pub name: String,
    /// The prompt may have parameters, as in `Upgrade {{ package }}`; the other fields apply to all tasks created from
    /// it.
    pub task: TemplateTask,
}

/// Values for the parameters of a template, and options of this task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Filling {
    /// A value for each parameter.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Override the options of the template for this task.
    #[serde(default)]
    pub options: TemplateOptions,
}

/// The task of a template: its repository is empty where it is named when the template is used.
#[derive(Debug, Clone)]
pub struct TemplateTask(pub Ask);

/// What overrides a template: the prompt is always empty, and so is the repository where the template's is used.
#[derive(Debug, Clone, Default)]
pub struct TemplateOptions(pub Ask);

/// The fields that a request for a task from a template cannot set.
pub(crate) const OF_THE_TEMPLATE: [&str; 2] = ["prompt", "race"];

impl<'de> Deserialize<'de> for TemplateTask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        with_open(Map::deserialize(deserializer)?, &["repository"]).map(Self)
    }
}

impl<'de> Deserialize<'de> for TemplateOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        if let Some(name) = OF_THE_TEMPLATE.iter().find(|name| fields.contains_key(**name)) {
            return Err(D::Error::custom(format!("`{name}` cannot be set when a template is used; leave it out")));
        }
        with_open(fields, &["prompt", "repository"]).map(Self)
    }
}

impl Serialize for TemplateTask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        without_open(&self.0, &["repository"]).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl Serialize for TemplateOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = without_open(&self.0, &["prompt", "repository"]).map_err(S::Error::custom)?;
        OF_THE_TEMPLATE.iter().for_each(|name| _ = fields.remove(*name));
        fields.serialize(serializer)
    }
}

/// A task without these fields where they are empty.
fn without_open(ask: &Ask, open: &[&str]) -> serde_json::Result<Map<String, Value>> {
    let mut fields: Map<String, Value> = serde_json::from_value(serde_json::to_value(ask)?)?;
    fields.retain(|name, value| !open.contains(&name.as_str()) || value != "");
    Ok(fields)
}

/// A task with these fields empty where they are left out.
fn with_open<E: serde::de::Error>(mut fields: Map<String, Value>, open: &[&str]) -> Result<Ask, E> {
    for name in open {
        if fields.get(*name).is_some_and(|value| value == "") {
            return Err(E::custom(format!("`{name}` is empty; leave it out")));
        }
        fields.entry(*name).or_insert_with(|| Value::from(""));
    }
    serde_json::from_value(Value::Object(fields)).map_err(E::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_says_nothing_of_a_repository_that_is_named_later() {
        let task = TemplateTask(Ask { prompt: "Upgrade {{ package }}".to_owned(), ..Ask::default() });
        let sent = serde_json::to_value(&task).unwrap();
        assert_eq!((&sent["prompt"], sent.get("repository")), (&json!("Upgrade {{ package }}"), None));
        let TemplateTask(read) = serde_json::from_value(sent).unwrap();
        assert_eq!((read.prompt.as_str(), read.repository.as_str()), ("Upgrade {{ package }}", ""));
    }

    #[test]
    fn what_overrides_a_template_can_be_read_as_it_is_sent() {
        let race = Some(crate::AskRace::default());
        let options = TemplateOptions(Ask { agent: Some("builtin".to_owned()), gate: true, race, ..Ask::default() });
        let sent = serde_json::to_value(&options).unwrap();
        let mut names: Vec<&str> = sent.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        let expected =
            ["after", "agent", "fallback_agents", "gate", "mcp", "on_failed_dependency", "plan", "require_tests"];
        assert_eq!(names, expected);
        let TemplateOptions(read) = serde_json::from_value(sent).unwrap();
        assert_eq!((read.agent.as_deref(), read.gate), (Some("builtin"), true));
    }
}

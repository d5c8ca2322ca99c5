//! What an agent's memory begins with, in the format of the MCP server for it: one JSON object per line, an entity with its
//! observations or a relation between two.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    #[serde(rename_all = "camelCase")]
    Entity {
        name: String,
        entity_type: String,
        #[serde(default)]
        observations: Vec<String>,
    },
    #[serde(rename_all = "camelCase")]
    Relation { from: String, to: String, relation_type: String },
}

/// What an installation or a project wants known from the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seed(Vec<Line>);

#[derive(Debug, thiserror::Error)]
#[error("line {line} is neither an entity nor a relation: {reason}")]
pub struct BadSeed {
    line: usize,
    reason: String,
}

/// What is known about a task before anyone begins.
#[derive(Debug, Clone, Copy)]
pub struct Knowledge<'a> {
    pub repository: &'a str,
    pub branch: &'a str,
    pub base: &'a str,
    pub test: Option<&'a str>,
}

impl Seed {
    /// Reads what people wrote; what cannot be meant is found now and not in a turn.
    pub fn parse(text: &str) -> Result<Self, BadSeed> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| BadSeed { line: number + 1, reason: error.to_string() })
        };
        lines.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The whole file: what is known of the task, then what people wanted known.
    pub fn about(&self, known: Knowledge<'_>) -> String {
        let entity = |name: &str, kind: &str, observations: Vec<String>| Line::Entity {
            name: name.to_owned(),
            entity_type: kind.to_owned(),
            observations,
        };
        let mut observations = vec![format!("The work starts from commit {}", known.base)];
        observations.extend(known.test.map(|test| format!("It is tested with: {test}")));
        let own = [
            entity(known.repository, "repository", observations),
            entity(known.branch, "branch", vec!["The work is done on this branch alone".to_owned()]),
            Line::Relation {
                from: known.branch.to_owned(),
                to: known.repository.to_owned(),
                relation_type: "belongs to".to_owned(),
            },
        ];
        let line = |line: &Line| serde_json::to_string(line).map(|text| text + "\n").unwrap_or_default();
        own.iter().chain(&self.0).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_begins_with_the_task_and_what_people_wanted_known() {
        let text = "{\"type\":\"entity\",\"name\":\"Ada\",\"entityType\":\"person\",\"observations\":[\"likes tests\"]}\n\n\
                    {\"type\":\"relation\",\"from\":\"Ada\",\"to\":\"/srv/shop\",\"relationType\":\"owns\"}\n";
        let known = Knowledge { repository: "/srv/shop", branch: "harvest/x", base: "c0ffee", test: Some("make test") };
        let file = Seed::parse(text).unwrap().about(known);
        let expected = "{\"type\":\"entity\",\"name\":\"/srv/shop\",\"entityType\":\"repository\",\"observations\":[\
                        \"The work starts from commit c0ffee\",\"It is tested with: make test\"]}\n\
                        {\"type\":\"entity\",\"name\":\"harvest/x\",\"entityType\":\"branch\",\"observations\":[\
                        \"The work is done on this branch alone\"]}\n\
                        {\"type\":\"relation\",\"from\":\"harvest/x\",\"to\":\"/srv/shop\",\"relationType\":\"belongs to\"}\n";
        assert_eq!(file, format!("{expected}{}", text.replace("\n\n", "\n")));
        let error = Seed::parse("{\"type\":\"entity\"}").unwrap_err().to_string();
        assert!(error.starts_with("line 1 is neither an entity nor a relation: "), "{error}");
    }
}

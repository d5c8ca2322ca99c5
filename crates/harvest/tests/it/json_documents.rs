//! What `--json` prints is what the API answers: the same names, on this machine and over `HARVEST_URL`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::killed::journal;
use crate::reattach::wait_until;
use crate::remote::remote;
use crate::support::{FIX, Harvest, World};

const KEY: &str = "sk-ant-api03-canary-0123456789-wxyz";

/// Everything in `schema` that a value may or must have.
#[derive(Default)]
struct Fields<'s> {
    known: BTreeMap<&'s str, &'s Value>,
    required: BTreeSet<&'s str>,
}

pub struct Document {
    pub schemas: Value,
}

impl Document {
    pub fn read() -> Self {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json");
        let mut document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        Self { schemas: document["components"]["schemas"].take() }
    }

    fn follow<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(name) => self.follow(&self.schemas[name.rsplit('/').next().unwrap()]),
            None => schema,
        }
    }

    fn fields<'s>(&'s self, schema: &'s Value, fields: &mut Fields<'s>) {
        let schema = self.follow(schema);
        let known = schema["properties"].as_object().into_iter().flatten();
        fields.known.extend(known.map(|(name, field)| (name.as_str(), field)));
        fields.required.extend(schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
        schema["allOf"].as_array().into_iter().flatten().for_each(|part| self.fields(part, fields));
    }

    /// How the names in a value differ from those in the schema.
    pub fn differences(&self, schema: &Value, value: &Value, place: &str) -> Vec<String> {
        let schema = self.follow(schema);
        if let Some(choices) = schema["oneOf"].as_array() {
            // What may be null is described by what it is otherwise.
            let others = choices.iter().filter(|choice| choice["type"] != "null");
            let tried = others.map(|choice| self.differences(choice, value, place));
            return tried.min_by_key(Vec::len).unwrap_or_default();
        }
        match value {
            Value::Array(items) => {
                items.iter().flat_map(|item| self.differences(&schema["items"], item, &format!("{place}[]"))).collect()
            }
            Value::Object(object) => {
                let mut fields = Fields::default();
                self.fields(schema, &mut fields);
                if fields.known.is_empty() {
                    return Vec::new();
                }
                let missing = fields.required.iter().filter(|name| !object.contains_key(**name));
                let mut wrong: Vec<String> = missing.map(|name| format!("{place}.{name} is missing")).collect();
                for (name, value) in object {
                    match fields.known.get(name.as_str()) {
                        Some(field) => wrong.extend(self.differences(field, value, &format!("{place}.{name}"))),
                        None => wrong.push(format!("{place}.{name} is not in the schema")),
                    }
                }
                wrong
            }
            _ => Vec::new(),
        }
    }

    #[track_caller]
    fn assert_is(&self, name: &str, value: &Value) {
        assert!(self.schemas[name].is_object(), "there is no schema {name}");
        let wrong = self.differences(&self.schemas[name], value, name);
        assert!(value.is_object() && wrong.is_empty(), "{wrong:#?}\n{value:#}");
    }
}

#[test]
fn what_is_not_in_a_schema_is_found() {
    let document = Document {
        schemas: json!({
            "Name": { "properties": { "first": {} } },
            "Person": { "allOf": [{ "properties": { "names": { "items": { "$ref": "#/x/Name" } } }, "required": ["names"] }] },
        }),
    };
    let wrong = |value: Value| document.differences(&document.schemas["Person"], &value, "Person");
    assert_eq!(wrong(json!({ "names": [{ "first": "Ada" }] })), Vec::<String>::new());
    assert_eq!(wrong(json!({ "names": [{ "last": "L" }] })), ["Person.names[].last is not in the schema"]);
    assert_eq!(wrong(json!({})), ["Person.names is missing"]);
}

fn json_of(harvest: Harvest) -> Value {
    let ran = harvest.args(&["--json"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

#[test]
fn commands_print_the_objects_of_the_api_here_and_over_a_server() {
    let document = Document::read();
    let world = World::new();
    let script = world.conversations(&[
        ("Make a plan", json!([{ "say": "First this, then that." }])),
        ("Take your time", json!([{ "shell": "sleep 987654" }])),
        ("", json!([{ "say": "I mend it.", "shell": FIX }, { "say": "Done." }])),
    ]);
    let server = world.serve(&["--agents", "1", "--model-script", script.to_str().unwrap()]);
    let token = world.token(&["--role", "admin", "--user", "ada"]);
    let client = server.with(&token);
    let repo = world.repo().display().to_string();
    let here = |args: &[&str]| json_of(world.harvest(args));
    let there = |args: &[&str]| json_of(remote(&world, &server.url, args).env("HARVEST_TOKEN", &token));
    for run in [&here as &dyn Fn(&[&str]) -> Value, &there] {
        let added = run(&["task", "add", "Plan it", "--repo", &repo, "--plan"]);
        document.assert_is("TaskDetail", &added);
        let id = added["id"].as_str().unwrap();
        let status_of = |id: &str, wanted: &str| {
            wait_until(wanted, || client.get(&format!("/api/tasks/{id}")).ok()["status"] == wanted);
        };
        let status = |wanted: &str| status_of(id, wanted);
        status("awaiting_approval");
        for (command, wanted) in [("reject", "cancelled"), ("retry", "awaiting_approval"), ("approve", "completed")] {
            let decided = run(&["task", command, id]);
            document.assert_is("TaskDetail", &decided);
            assert_eq!(decided["id"], id, "{command}: {decided:#}");
            status(wanted);
        }
        let shown = run(&["session", "show", id]);
        document.assert_is("SessionDetail", &shown);
        let turn = run(&["session", "prompt", id, "And now?"]);
        document.assert_is("Turn", &turn);
        let session = turn["session_id"].as_str().unwrap();
        let asked_after = &shown["last_seq"];
        client.stream(&format!("/api/sessions/{session}/events?after={asked_after}")).until("turn.finished");
        let last = client.get(&format!("/api/sessions/{session}")).ok()["last_seq"].to_string();
        document.assert_is("TaskDetail", &run(&["session", "fork", session, "--at", &last, "Again"]));
        document.assert_is("Queue", &run(&["queue", "pause"]));
        let waiting = run(&["task", "add", "Wait", "--repo", &repo]);
        document.assert_is("TaskDetail", &run(&["task", "cancel", waiting["id"].as_str().unwrap()]));
        let racing = run(&["task", "add", "Race", "--repo", &repo, "--race", "2"]);
        document.assert_is("TaskDetail", &racing);
        let race = racing["settings"]["race"]["id"].as_str().unwrap();
        let table = run(&["race", "show", race]);
        document.assert_is("RaceTable", &table);
        assert_eq!(table, client.get(&format!("/api/races/{race}")).ok());
        let convoy = run(&["convoy", "show", race]);
        document.assert_is("Convoy", &convoy);
        assert_eq!(convoy, client.get(&format!("/api/convoys/{race}")).ok());
        for entrant in table["items"].as_array().unwrap() {
            client.post(&format!("/api/tasks/{}/cancel", entrant["task_id"].as_str().unwrap()), &json!({}));
        }
        document.assert_is("Queue", &run(&["queue", "resume"]));
        let long = run(&["task", "add", "Take your time", "--repo", &repo]);
        let long = long["id"].as_str().unwrap();
        wait_until("it works", || journal(&world, long).iter().any(|event| event["type"] == "tool.call"));
        let interrupted = run(&["interrupt", long]);
        document.assert_is("TaskDetail", &interrupted);
        assert_eq!(interrupted["id"], long);
        status_of(long, "interrupted");
        run(&["task", "cancel", long]);
        document.assert_is("Queue", &run(&["status"]));
        let shown = run(&["task", "show", id]);
        document.assert_is("TaskDetail", &shown);
        assert_eq!(shown, client.get(&format!("/api/tasks/{id}")).ok());
        document.assert_is("Repository", &run(&["repo", "add", &repo]));
        document.assert_is("Template", &run(&["template", "add", "upgrade", "Upgrade {{ package }}", "--repo", &repo]));
        let used = run(&["template", "use", "upgrade", "--set", "package=serde"]);
        document.assert_is("TaskDetail", &used);
        document.assert_is("Schedule", &run(&["schedule", "add", "0 6 * * 1", "Tidy up", "--repo", &repo]));
        document.assert_is("NewToken", &run(&["token", "create", "--role", "viewer"]));
        document.assert_is("Stats", &run(&["stats"]));
        for (command, schema) in [
            ("repo list", "Page_Repository"),
            ("task list", "Page_ListedTask"),
            ("template list", "Page_Template"),
            ("schedule list", "Page_Schedule"),
            ("token list", "Page_Token"),
            ("credential list", "Page_ListedCredential"),
            ("convoy list", "Page_Convoy"),
        ] {
            document.assert_is(schema, &run(&command.split(' ').collect::<Vec<_>>()));
        }
    }
    let add = ["credential", "add", "anthropic", "--name", "spare", "--from-stdin"];
    for harvest in [world.harvest(&add), remote(&world, &server.url, &add).env("HARVEST_TOKEN", &token)] {
        document.assert_is("Credential", &json_of(harvest.input(KEY)));
    }
    // These two are about this machine, wherever the tasks are.
    document.assert_is("Page_AgentInfo", &here(&["agent", "list"]));
    document.assert_is("AgentCheck", &here(&["agent", "check", "builtin"]));
    // Not only the names: the very same.
    let first = client.get("/api/tasks?limit=500").ok()["items"].as_array().unwrap().last().unwrap().clone();
    let session = here(&["session", "show", first["id"].as_str().unwrap()]);
    assert_eq!(session, client.get(&format!("/api/sessions/{}", session["id"].as_str().unwrap())).ok());
    for (command, path) in
        [("repo list", "/api/repositories"), ("template list", "/api/templates"), ("status", "/api/queue")]
    {
        let args: Vec<&str> = command.split(' ').collect();
        // The server may be building its snapshot meanwhile.
        let still = |mut list: Value| {
            let items = list["items"].as_array_mut().into_iter().flatten();
            items.for_each(|item| drop(item["snapshot"].take()));
            list
        };
        let answer = still(client.get(path).ok());
        assert_eq!((&still(here(&args)), &still(there(&args))), (&answer, &answer), "{command}");
    }
}

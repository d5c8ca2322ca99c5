//! Fits the script's calls to the tools that a client offers: their names and the names of their arguments.

use serde_json::{Map, Value, json};

use super::conversation::ToolOffer;
use super::format::{Action, Tool, Write};

/// Names of shell tools of known clients, compared without regard to case.
const SHELL_TOOLS: [&str; 10] = [
    "bash",
    "shell",
    "exec_command",
    "run_shell_command",
    "execute_command",
    "run_command",
    "run_terminal_cmd",
    "execute_bash",
    "local_shell",
    "terminal",
];
const COMMAND_ARGUMENTS: [&str; 4] = ["command", "cmd", "script", "code"];

const WRITE_TOOLS: [&str; 6] = ["write", "write_file", "create_file", "write_to_file", "file_write", "writefile"];
const PATH_ARGUMENTS: [&str; 7] = ["path", "file_path", "filePath", "filename", "file", "target_file", "absolute_path"];
const CONTENT_ARGUMENTS: [&str; 5] = ["content", "contents", "text", "file_text", "code_content"];
/// Clients with these arguments want an absolute path.
const ABSOLUTE_PATH_ARGUMENTS: [&str; 3] = ["file_path", "filePath", "absolute_path"];

/// The name and arguments of the call that carries out `action`, or which tools there are instead.
pub(super) fn fit(action: &Action, offers: &[ToolOffer]) -> Result<(String, Value), String> {
    match action {
        Action::Shell(command) => shell(command, offers).ok_or_else(|| {
            format!("the model script calls a shell, but the request offers no shell tool; {}", offered(offers))
        }),
        Action::Write(file) => write(file, offers).or_else(|| shell(&write_command(file), offers)).ok_or_else(|| {
            format!(
                "the model script writes a file, but the request offers neither a tool for that nor a shell; {}",
                offered(offers)
            )
        }),
        Action::Tool(Tool { name, input }) => {
            let known = offers.iter().any(|offer| offer.name == *name);
            let call = known.then(|| (name.clone(), Value::Object(input.clone())));
            call.ok_or_else(|| {
                format!("the model script calls `{name}`, which the request does not offer; {}", offered(offers))
            })
        }
    }
}

fn offered(offers: &[ToolOffer]) -> String {
    let names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).take(100).collect();
    format!("offered are: {}", names.join(", "))
}

fn shell(command: &str, offers: &[ToolOffer]) -> Option<(String, Value)> {
    let by_shape = |offer: &&ToolOffer| {
        let argument = offer.argument(&COMMAND_ARGUMENTS[..2]);
        argument.is_some_and(|name| offer.requires(name) && offer.kind(name).as_deref() == Some("string"))
    };
    let offer = named(offers, &SHELL_TOOLS).or_else(|| offers.iter().find(by_shape))?;
    let usual = if offer.name.eq_ignore_ascii_case("exec_command") { "cmd" } else { "command" };
    let argument = offer.argument(&COMMAND_ARGUMENTS).unwrap_or(usual);
    let value = match offer.kind(argument).as_deref() {
        Some("array") => json!(["sh", "-c", command]),
        _ => json!(command),
    };
    Some((offer.name.clone(), offer.fill([(argument, value)])))
}

fn write(file: &Write, offers: &[ToolOffer]) -> Option<(String, Value)> {
    let offer = named(offers, &WRITE_TOOLS)?;
    let (path, content) = (offer.argument(&PATH_ARGUMENTS)?, offer.argument(&CONTENT_ARGUMENTS)?);
    let absolute = file.path.starts_with('/');
    if ABSOLUTE_PATH_ARGUMENTS.contains(&path) && !absolute && shell("", offers).is_some() {
        return None;
    }
    Some((offer.name.clone(), offer.fill([(path, json!(file.path)), (content, json!(file.content))])))
}

/// A command that writes the file, whatever its name and content hold.
fn write_command(file: &Write) -> String {
    let folder = file.path.rsplit_once('/').map(|(folder, _)| folder).filter(|folder| !folder.is_empty());
    let make = folder.map(|folder| format!("mkdir -p -- {} && ", quoted(folder))).unwrap_or_default();
    format!("{make}printf %s {} > {}", quoted(&file.content), quoted(&file.path))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn named<'a>(offers: &'a [ToolOffer], names: &[&str]) -> Option<&'a ToolOffer> {
    names.iter().find_map(|name| offers.iter().find(|offer| offer.name.eq_ignore_ascii_case(name)))
}

impl ToolOffer {
    /// The first of `names` that the tool takes.
    fn argument(&self, names: &[&'static str]) -> Option<&'static str> {
        let properties = self.schema.get("properties")?;
        names.iter().copied().find(|name| properties.get(name).is_some())
    }

    /// In lower case: Gemini's schemas have types in upper case.
    fn kind(&self, argument: &str) -> Option<String> {
        let kind = match self.schema.get("properties")?.get(argument)?.get("type")? {
            Value::String(kind) => Some(kind.as_str()),
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            _ => None,
        };
        kind.map(str::to_ascii_lowercase)
    }

    fn required(&self) -> impl Iterator<Item = &str> {
        let list = self.schema.get("required").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    fn requires(&self, argument: &str) -> bool {
        self.required().any(|name| name == argument)
    }

    /// The arguments given, and something harmless for whatever else the tool insists on.
    fn fill<const N: usize>(&self, given: [(&str, Value); N]) -> Value {
        let mut input: Map<String, Value> = given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for name in self.required() {
            if !input.contains_key(name) {
                input.insert(name.to_owned(), self.harmless(name));
            }
        }
        Value::Object(input)
    }

    fn harmless(&self, argument: &str) -> Value {
        let schema = self.schema.get("properties").and_then(|properties| properties.get(argument));
        let stated = |key| schema.and_then(|schema| schema.get(key));
        if let Some(value) = stated("default").or_else(|| stated("enum")?.get(0)) {
            return value.clone();
        }
        match self.kind(argument).as_deref() {
            Some("boolean") => json!(false),
            // Most often a timeout, in seconds or milliseconds.
            Some("integer" | "number") => json!(60_000),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("scripted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, schema: Value) -> ToolOffer {
        ToolOffer::function(name.to_owned(), schema)
    }

    fn takes(name: &str, arguments: &[(&str, &str)]) -> ToolOffer {
        let properties: Map<String, Value> =
            arguments.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
        let required: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
        offer(name, json!({ "type": "object", "properties": properties, "required": required }))
    }

    fn ls() -> Action {
        Action::Shell("ls".to_owned())
    }

    fn file(path: &str, content: &str) -> Action {
        Action::Write(Write { path: path.to_owned(), content: content.to_owned() })
    }

    #[test]
    fn the_shell_tools_of_known_clients() {
        for (tool, expected) in [
            (takes("bash", &[("command", "string")]), json!({ "command": "ls" })),
            (takes("Bash", &[("command", "string")]), json!({ "command": "ls" })),
            (takes("exec_command", &[("cmd", "string")]), json!({ "cmd": "ls" })),
            (takes("run_shell_command", &[("command", "string")]), json!({ "command": "ls" })),
            (takes("shell", &[("command", "array")]), json!({ "command": ["sh", "-c", "ls"] })),
            (
                takes("bash", &[("command", "string"), ("description", "string")]),
                json!({ "command": "ls", "description": "scripted" }),
            ),
            (
                takes("execute_command", &[("command", "string"), ("requires_approval", "boolean")]),
                json!({ "command": "ls", "requires_approval": false }),
            ),
            (takes("run_shell_command", &[("command", "STRING")]), json!({ "command": "ls" })),
            (takes("shell", &[("command", "ARRAY")]), json!({ "command": ["sh", "-c", "ls"] })),
            (takes("do_it", &[("cmd", "string")]), json!({ "cmd": "ls" })),
            (offer("bash", Value::Null), json!({ "command": "ls" })),
            (offer("exec_command", Value::Null), json!({ "cmd": "ls" })),
        ] {
            let name = tool.name.clone();
            let others = takes("read", &[("path", "string")]);
            assert_eq!(fit(&ls(), &[others, tool]), Ok((name, expected)));
        }
    }

    #[test]
    fn files_are_written_with_the_tool_or_the_shell() {
        let bash = takes("Bash", &[("command", "string")]);
        let claude = takes("Write", &[("file_path", "string"), ("content", "string")]);
        let builtin = takes("write", &[("path", "string"), ("content", "string")]);
        assert_eq!(
            fit(&file("a/b", "x"), &[bash.clone(), builtin]),
            Ok(("write".to_owned(), json!({ "path": "a/b", "content": "x" })))
        );
        assert_eq!(
            fit(&file("/w/b", "x"), &[bash.clone(), claude.clone()]),
            Ok(("Write".to_owned(), json!({ "file_path": "/w/b", "content": "x" })))
        );
        assert_eq!(
            fit(&file("a b/c", "it's\n"), &[bash, claude.clone()]),
            Ok(("Bash".to_owned(), json!({ "command": "mkdir -p -- 'a b' && printf %s 'it'\\''s\n' > 'a b/c'" })))
        );
        assert_eq!(
            fit(&file("b", "x"), &[claude]),
            Ok(("Write".to_owned(), json!({ "file_path": "b", "content": "x" })))
        );
    }

    #[test]
    fn what_is_not_offered_is_named() {
        let tools = [takes("read", &[("path", "string")]), takes("grep", &[])];
        let unknown = Action::Tool(Tool { name: "fly".to_owned(), input: Map::new() });
        insta::assert_snapshot!(
            [ls(), file("a", ""), unknown].map(|action| fit(&action, &tools).unwrap_err()).join("\n"),
            @r"
        the model script calls a shell, but the request offers no shell tool; offered are: read, grep
        the model script writes a file, but the request offers neither a tool for that nor a shell; offered are: read, grep
        the model script calls `fly`, which the request does not offer; offered are: read, grep
        "
        );
    }
}

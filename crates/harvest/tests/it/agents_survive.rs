//! The real agents when things go wrong: a model that refuses, one that is busy once, a person who stops them, and tools that
//! print more than anyone reads. Each ends with the right reason, keeps its work and leaves no process.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{package, program, python_package};
use crate::support::{FIX, Harvest, PATH, Ran, World};

/// More than this is in no journal of a task that printed 20 MB.
const JOURNAL: usize = 30_000_000;

#[derive(Clone, Copy)]
pub struct Cli {
    pub id: &'static str,
    program: fn() -> PathBuf,
}

pub const CLAUDE_CODE: Cli = Cli {
    id: "claude-code",
    program: || {
        package("claude-code-2.1.325", "@anthropic-ai/claude-code-linux-x64@2.1.325")
            .join("@anthropic-ai/claude-code-linux-x64/claude")
    },
};
pub const CODEX: Cli = Cli {
    id: "codex",
    program: || {
        package("codex-0.166.0", "@openai/codex-linux-x64@npm:@openai/codex@0.166.0-linux-x64")
            .join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
    },
};
pub const GEMINI_CLI: Cli =
    Cli { id: "gemini-cli", program: || package("gemini-cli-0.61.0", "@google/gemini-cli@0.61.0").join(".bin/gemini") };
pub const OPENCODE: Cli = Cli {
    id: "opencode",
    program: || package("opencode-1.18.33", "opencode-linux-x64@1.18.33").join("opencode-linux-x64/bin/opencode"),
};
pub const AIDER: Cli =
    Cli { id: "aider", program: || python_package("aider-0.86.2", "aider-chat==0.86.2").join("bin/aider") };

impl Cli {
    /// The folder in which its program is.
    pub fn installed(self, world: &World) -> PathBuf {
        let bin = world.path().join("bin");
        let program = (self.program)();
        let _ = fs::create_dir(&bin);
        let _ = symlink(&program, bin.join(program.file_name().unwrap()));
        bin
    }

    /// `harvest run` with this agent, on a model that gives these replies to the prompt and is brief with all else.
    pub fn run_with(self, world: &World, replies: &Value) -> Harvest {
        let bin = self.installed(world);
        let conversations = json!([
            { "when_prompt_contains": "failing test", "replies": replies },
            { "when_prompt_contains": "failing test", "without_tools": true, "replies": replies },
            { "replies": [{ "say": "Yes." }] },
        ]);
        let script = world.path().join("script.json");
        fs::write(&script, json!({ "model": "gpt-5", "conversations": conversations }).to_string()).unwrap();
        let args = ["run", "Make the failing test pass", "--agent", self.id, "--json", "--model-script"];
        let mut run = world.harvest(&args);
        run.command.arg(&script).env("PATH", format!("{}:{PATH}", bin.display()));
        run
    }
}

fn assert_fix_kept(world: &World, outcome: &Value) {
    let branch = outcome["branch"].as_str().unwrap_or_else(|| panic!("no branch: {outcome:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
}

/// The model is busy once, which nobody notices, and refuses for good later.
fn survives_a_model_that_fails(cli: Cli) {
    let world = World::new();
    let replies = json!([{ "status": 529, "shell": FIX }, { "expect": "words that nobody says" }]);
    let ran = cli.run_with(&world, &replies).finish();
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert!(outcome["error"].as_str().unwrap().contains("words that nobody says"), "{outcome:#}");
    assert_fix_kept(&world, &outcome);
    assert_eq!(ran.of_type("agent.finished").len(), 1);
    world.assert_nothing_left();
}

/// Stopped while it waits for the model, with something done and something running in the background.
fn survives_being_stopped(cli: Cli) {
    let world = World::new();
    let background = format!("{FIX}; (setsid sleep 987654 >/dev/null 2>&1 </dev/null &)");
    let replies = json!([{ "shell": background }, { "stall": "10m", "say": "Late." }]);
    let mut running = cli.run_with(&world, &replies).start();
    running.wait_for_type("tool.result");
    running.signal(Signal::INT);
    let outcome = running.finish().assert_ended(3, "cancelled", Some("cancelled"));
    assert_fix_kept(&world, &outcome);
    world.assert_nothing_left();
}

fn survives_much_output(cli: Cli) {
    let world = World::new();
    let much = format!("{FIX}; yes 0123456789abcdef0123456789abcdef | head -c 20000000");
    let ran = cli.run_with(&world, &json!([{ "shell": much }, { "say": "That was a lot." }])).finish();
    let outcome = ran.assert_ended(0, "completed", None);
    assert_fix_kept(&world, &outcome);
    assert_bounded(&ran);
    world.assert_nothing_left();
}

#[track_caller]
fn assert_bounded(ran: &Ran) {
    assert!(ran.stdout.len() < JOURNAL, "{} bytes were journaled", ran.stdout.len());
}

macro_rules! survival {
    ($($module:ident: $cli:expr;)*) => {$(
        mod $module {
            use super::*;

            #[test]
            #[ignore = "needs the network"]
            fn a_model_that_fails() {
                survives_a_model_that_fails($cli);
            }

            #[test]
            #[ignore = "needs the network"]
            fn being_stopped() {
                survives_being_stopped($cli);
            }

            #[test]
            #[ignore = "needs the network"]
            fn much_output() {
                survives_much_output($cli);
            }
        }
    )*};
}

survival! {
    claude_code: CLAUDE_CODE;
    codex: CODEX;
    gemini_cli: GEMINI_CLI;
    opencode: OPENCODE;
}

/// It does its edits at the end of an answer, and runs no commands but those of the repository's settings for it.
pub mod aider {
    use super::*;

    pub fn edit(file: &str, from: &str, to: &str) -> String {
        format!("Here.\n\n{file}\n```\n<<<<<<< SEARCH\n{from}=======\n{to}\n>>>>>>> REPLACE\n```\n")
    }

    /// A model that always says the same: it is asked once more when a file is mentioned that Aider was not given.
    pub fn script(world: &World, name: &str, reply: &Value) -> String {
        let conversations = json!([{ "without_tools": true, "replies": [reply] }]);
        let file = world.path().join(name);
        fs::write(&file, json!({ "model": "gpt-5", "conversations": conversations }).to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    #[test]
    #[ignore = "needs the network"]
    fn a_model_that_fails() {
        let world = World::new();
        let ran = AIDER.run_with(&world, &json!([{ "status": 400 }])).finish();
        let outcome = ran.assert_ended(1, "failed", Some("agent"));
        assert!(outcome["error"].as_str().unwrap().starts_with("litellm."), "{outcome:#}");
        world.assert_nothing_left();
    }

    #[test]
    #[ignore = "needs the network"]
    fn being_stopped() {
        let world = World::new();
        let mut running = AIDER.run_with(&world, &json!([{ "stall": "10m", "say": "Late." }])).start();
        running.wait_for("its greeting", |event| {
            event["type"] == "message" && event["data"]["text"].as_str().unwrap().starts_with("Aider v")
        });
        running.signal(Signal::INT);
        running.finish().assert_ended(3, "cancelled", Some("cancelled"));
        world.assert_nothing_left();
    }

    #[test]
    #[ignore = "needs the network"]
    fn much_output() {
        let world = World::new();
        // Each line that it prints is a message of its own.
        let test = "yes $(printf %01000d 7) | head -c 20000000";
        world.write(".aider.conf.yml", format!("auto-test: true\ntest-cmd: {test}\n"));
        world.commit("A test that says much");
        let mended = edit("src/two.sh", "echo three\n", "echo two");
        let script = script(&world, "script", &json!({ "say": mended }));
        let bin = AIDER.installed(&world);
        let args = ["run", "Make the failing test pass", "--agent", "aider", "--json", "--model-script", &script];
        let ran = world.harvest(&args).env("PATH", &format!("{}:{PATH}", bin.display())).finish();
        let outcome = ran.assert_ended(0, "completed", None);
        assert_fix_kept(&world, &outcome);
        assert!(ran.stdout.len() > 20_000_000, "it shows what its commands print: {} bytes", ran.stdout.len());
        assert_bounded(&ran);
        world.assert_nothing_left();
    }

    /// It has no name for its conversation, and goes on with the one that is there; stopped midway, too.
    #[test]
    #[ignore = "needs the network"]
    fn going_on() {
        let world = World::new();
        let mended = edit("src/two.sh", "echo three\n", "echo two");
        let (bin, program) = (world.path().join("bin"), (AIDER.program)());
        fs::create_dir(&bin).unwrap();
        symlink(&program, bin.join("aider")).unwrap();
        let path = format!("{}:{PATH}", bin.display());
        let first = script(&world, "first", &json!({ "say": mended }));
        let args = ["run", "Make the failing test pass", "--agent", "aider", "--json", "--model-script", &first];
        let first = world.harvest(&args).env("PATH", &path).finish().assert_ended(0, "completed", None);
        let task = first["task_id"].as_str().unwrap();
        let up = |script: &str| {
            world.harvest(&["up", "--until-empty", "--json", "--model-script", script]).env("PATH", &path).start()
        };
        world.json(&["session", "prompt", task, "Now do the second thing"]);
        let stuck = up(&script(&world, "stuck", &json!({ "stall": "10m", "say": "Late." })));
        let greeted = |journal: &[Value]| {
            let said = journal.iter().filter_map(|event| event["data"]["text"].as_str());
            said.filter(|text| text.starts_with("Aider v")).count() == 2
        };
        let deadline = std::time::Instant::now() + crate::support::PATIENCE;
        while !greeted(&world.harvest(&["task", "logs", task, "--json"]).finish().events()) {
            assert!(std::time::Instant::now() < deadline, "it never came to the second thing");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        assert_eq!(world.json(&["task", "cancel", task])["status"], "cancelled");
        assert_eq!(stuck.finish().exit, Some(0));
        world.json(&["session", "prompt", task, "Now do the third thing"]);
        let done = script(&world, "done", &json!({ "say": edit("third.txt", "", "3") }));
        assert_eq!(up(&done).finish().exit, Some(0));
        let shown = world.json(&["task", "show", task]);
        assert_eq!(shown["status"], "completed", "{shown:#}");
        assert_eq!(world.show(&format!("{}:third.txt", shown["branch"].as_str().unwrap())), "3");
        let journal = world.journal(task);
        assert!(crate::session::of_type(&journal, "conversation.kept").len() >= 2, "{journal:#?}");
        let command = shown["sessions"][0]["turns"][2]["attempts"][0]["command"].to_string();
        assert!(command.contains("--restore-chat-history"), "{command}");
        world.assert_nothing_left();
    }
}

/// Whatever a program prints: 20 MB in one line, and 20 MB in many.
#[test]
fn any_agent_may_print_20_mb() {
    let world = World::new();
    let text = format!("#!/bin/sh\n{FIX}\nhead -c 20000000 /dev/zero | tr '\\0' x\necho\nyes ab | head -c 60000\n");
    let folder = program("mine", &text);
    let definition = format!(
        "[[agent]]\nid = 'mine'\nname = 'Mine'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
         command = '{}'\ninstall_hint = 'write it'\n",
        folder.path().join("mine").display()
    );
    crate::agents::add_agent(&world, &definition);
    let ran = world.run(&json!([{}]), &["--agent", "mine"]);
    ran.assert_ended(0, "completed", None);
    let printed: usize = ran.of_type("message").iter().map(|data| data["text"].as_str().unwrap().len()).sum();
    assert!(printed >= 20_000_000, "{printed}");
    assert_bounded_per_event(&ran);
    world.assert_nothing_left();
}

/// No event is larger than the longest line.
#[track_caller]
fn assert_bounded_per_event(ran: &Ran) {
    const LINE: usize = 8 * 1024 * 1024;
    let longest = ran.stdout.lines().map(str::len).max().unwrap();
    assert!(longest < LINE + 1000, "{longest}");
}

/// The built-in agent on every wire, through the gateway.
#[test]
fn the_built_in_agent_speaks_to_every_provider() {
    for (model, path) in [
        ("claude-sonnet-4-5", "anthropic"),
        ("gpt-5", "openai"),
        ("gemini-2.5-pro", "gemini"),
        ("qwen3-coder:30b", "ollama"),
    ] {
        let world = World::new();
        let tokens = json!({ "input": 100, "output": 10 });
        let replies = json!([
            { "say": "I will look first.", "shell": "cat src/two.sh", "tokens": tokens },
            { "expect": "echo three", "shell": FIX, "write": { "path": "notes.txt", "content": "mended\n" }, "tokens": tokens },
            { "status": 500, "say": "The test passes.", "tokens": tokens },
        ]);
        let ran = world.run(&replies, &["--model", model]);
        let outcome = ran.assert_ended(0, "completed", None);
        assert_eq!(outcome["usage"]["input_tokens"], 300, "{path}: {outcome:#}");
        let calls = ran.of_type("tool.call");
        let ids: std::collections::BTreeSet<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
        assert_eq!((calls.len(), ids.len()), (3, 3), "{path}: each call has an id of its own");
        assert_eq!(ran.of_type("message").last().unwrap()["text"], "The test passes.");
        assert_eq!(ran.of_type("file.changed").len(), 2, "{path}");
        let task = world.json(&["task", "show", outcome["task_id"].as_str().unwrap()]);
        assert!(task.to_string().contains(&format!("\"--wire\",\"{path}\"")), "{task:#}");
    }
}

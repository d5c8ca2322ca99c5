//! Every block of the documents is of a kind that a test checks: commands, settings, scripts, events, or output of the program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;
use serde_json::{Value, json};

use crate::guides::{Block, Story, USER, blocks, documents, free_port, pages, shell, squeezed, words};
use crate::json_documents::Document;
use crate::support::{FIX, PATH, World};

/// The block of a page that begins so.
#[track_caller]
fn block(page: &str, first: &str) -> Block {
    let all = blocks(&documents().join(page)).into_iter();
    let mut fitting = all.filter(|block| block.lines.first().is_some_and(|line| line.starts_with(first)));
    fitting.next().unwrap_or_else(|| panic!("{page} has no block that begins with `{first}`"))
}

/// Each line of a block is among those that were printed.
#[track_caller]
fn assert_printed(story: &mut Story<'_>, block: &Block, printed: &str) {
    let printed: Vec<String> = printed.lines().map(squeezed).collect();
    for line in block.lines.iter().filter(|line| !line.trim().is_empty()) {
        let is_there = printed.iter().any(|printed| story.matches(line, printed));
        assert!(is_there, "{}\nshown:   {line}\nprinted: {printed:#?}", block.place);
    }
}

#[test]
fn every_event_in_the_documents_has_the_fields_of_its_type() {
    let document = Document::read();
    let variants = document.schemas["EventBody"]["oneOf"].as_array().unwrap();
    let mut checked = 0;
    for page in pages() {
        for block in blocks(&page) {
            for line in block.lines.iter().filter(|line| line.starts_with("{\"seq\"")) {
                let text = line.replace(",…,", ",").replace("{…}", "null");
                let event: Value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {line}", block.place));
                let is_its = |variant: &&Value| variant["properties"]["type"]["enum"][0] == event["type"];
                let variant = variants.iter().find(is_its).unwrap_or_else(|| panic!("{}: {line}", block.place));
                let wrong = document.differences(&variant["properties"]["data"], &event["data"], "data");
                assert!(wrong.is_empty(), "{}: {wrong:#?}\n{line}", block.place);
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn the_end_of_a_run_in_the_guide_is_what_the_program_prints() {
    let world = World::new();
    world.write("Makefile", "test:\n\t@sh test.sh\n");
    world.write("tests/three.sh", "true\n");
    world.commit("Make");
    let mut story = Story::new(&world, &[("", json!([{ "shell": FIX }, {}]))]);
    story.names.push(("src/sum.py".to_owned(), "src/two.sh".to_owned()));
    let script = story.script.to_str().unwrap().to_owned();
    let ran = world.harvest(&["run", "Make the failing test pass", "--model-script", &script]).finish();
    for first in ["✓ completed and verified", "evidence  `make test`"] {
        assert_printed(&mut story, &block(USER, first), &ran.stdout);
    }
}

#[test]
fn the_demo_in_the_readme_is_what_the_program_prints() {
    let (world, other) = (World::empty(), World::new());
    let mut story = Story::new(&other, &[]);
    story.names.clear();
    let ran = world.harvest(&["demo", "--once"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_printed(&mut story, &block("README.md", "✓ Make the failing sum test pass"), &ran.stdout);
}

#[test]
fn refusals_in_the_documents_are_what_the_program_prints() {
    let world = World::new();
    let issue = |id: &str, title: &str, after: &str| {
        let blocks = json!([{ "issue_id": id, "depends_on_id": after, "type": "blocks" }]);
        json!({ "id": id, "title": title, "status": "open", "dependencies": blocks }).to_string()
    };
    world.write("circle.jsonl", format!("{}\n{}\n", issue("a", "A", "b"), issue("b", "B", "a")));
    world.write(
        "bad.jsonl",
        format!("{}\n{}\n", json!({ "id": "a", "title": "A", "status": "open" }), json!({ "id": "b" })),
    );
    world.write("script.yaml", "model: scripted-1\nconversations:\n  - replies:\n      - status: 200\n");
    world.commit("Mistakes");
    let mut story = Story::new(&world, &[]);
    let cases: [(&str, &str, &[&[&str]]); 4] = [
        (USER, "error[HV-0103]", &[&["task", "add", "Mend it", "--base", "nope"]]),
        (USER, "error[HV-0181]", &[&["schedule", "add", "0 25 * * *", "Tidy up"]]),
        (USER, "error[HV-0172]", &[&["import", "beads", "circle.jsonl"], &["import", "beads", "bad.jsonl"]]),
        (
            "docs/model-script.md",
            "the model script is not valid",
            &[&["run", "Mend it", "--model-script", "script.yaml"]],
        ),
    ];
    // Some blocks show the message without the code before it.
    let coded = Regex::new(r"(?m)^error\[HV-\d+\]: (the model script .*)$").unwrap();
    for (page, first, commands) in cases {
        let printed: String = commands.iter().map(|command| world.harvest(command).finish().stderr).collect();
        let bare = coded.replace_all(&printed, "$1").into_owned();
        assert_printed(&mut story, &block(page, first), &bare);
    }
}

#[test]
fn notes_after_a_crash_in_the_operator_guide_are_those_of_the_program() {
    let source = fs::read_to_string(documents().join("crates/harvest/src/installation.rs")).unwrap();
    let source = source.replace("{}", "\u{1}").replace("note[\u{1}]", "note[HV-0501]");
    let block = block("docs/operator-guide.md", "note[HV-0501]");
    assert_eq!(block.lines.len(), 3, "{}", block.place);
    let task = Regex::new(r"task [0-9a-z]{8} ").unwrap();
    for line in &block.lines {
        let masked = task.replace(line, "task \u{1} ");
        // The third is put together from two parts.
        let parts: Vec<String> = match masked.split_once("note: 3 agents") {
            Some((_, rest)) => {
                rest.splitn(2, "; ").map(|part| part.replace(" takes them ", " takes {them} ")).collect()
            }
            None => vec![masked.into_owned()],
        };
        for part in parts {
            assert!(source.contains(part.trim()), "{}: {part}", block.place);
        }
    }
}

#[test]
fn every_model_script_in_the_documents_can_be_played() {
    let mut played = 0;
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| block.language == "yaml") {
            let world = World::new();
            let script = world.path().join("greeting.yaml");
            fs::write(&script, block.lines.join("\n")).unwrap();
            let args = ["run", "Add a greeting", "--json", "--test", "test -s greeting.txt", "--model-script"];
            let ran = world.harvest(&args).args(&[script]).finish();
            ran.assert_ended(0, "completed", None);
            played += 1;
        }
    }
    assert_eq!(played, 2);
}

#[test]
fn the_lines_of_the_api_page_run_against_a_real_server() {
    if ["curl", "jq"].iter().any(|name| Command::new(name).arg("--version").output().is_err()) {
        return harvest_testing::skip("curl or jq is not installed");
    }
    let world = World::new();
    world.without_spares();
    let shop = world.path().join("shop");
    crate::support::git(world.path(), &["clone", "--quiet", world.repo().to_str().unwrap(), "shop"]);
    let port = free_port().to_string();
    let here = |text: &str| text.replace("/srv/shop", shop.to_str().unwrap()).replace("7070", &port);
    let block = block("docs/api.md", "harvest repo add /srv/shop");
    // Commands over several lines are one.
    let text = block.lines.join("\n").replace("\\\n", " ");
    let lines: Vec<&str> = text.lines().collect();
    let [add, serve, token, ask, watch] = lines[..] else { panic!("{} has {} commands", block.place, lines.len()) };
    shell(&world, &here(add));
    let script = world.script(&json!([{ "shell": FIX }, { "say": "Done." }]));
    let mut server = world.harvest(&words(serve)[1..]);
    server.command.args(["--listen", &format!("127.0.0.1:{port}"), "--json", "--model-script"]).arg(script);
    let mut server = server.start();
    server.wait_for_type("listening");
    let token = shell(&world, &format!("{token}; printf %s \"$HARVEST_TOKEN\""));
    world.give(&token);
    let given = |line: &str| format!("export HARVEST_TOKEN={token}; {}", here(line).replace("curl ", "curl -sS "));
    let session: Value = serde_json::from_str(&shell(&world, &given(ask))).unwrap();
    let id = session["id"].as_str().unwrap_or_else(|| panic!("{session:#}"));
    let watch = given(watch).replace("7k3m9x2c4v6b8n0q", id);
    // `exec`, so that curl is what is ended.
    let watch = watch.replace("; curl", "; exec curl");
    let mut watching =
        Command::new("sh").args(["-c", &watch]).env_clear().env("PATH", PATH).stdout(Stdio::piped()).spawn().unwrap();
    let stream = BufReader::new(watching.stdout.take().unwrap());
    let ended = stream.lines().map_while(Result::ok).any(|line| line.contains("\"type\":\"task.finished\""));
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(ended, "the stream ended before the task");
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.finish().exit, Some(0));
}

/// What checks a block.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// `every_command_in_the_guides_is_understood`, and for other programs nothing: they are not Harvest's.
    Commands,
    /// Typed, with what it prints compared.
    Session,
    /// `every_block_of_settings_in_the_guides_can_be_read`.
    Settings,
    /// `every_model_script_in_the_documents_can_be_played`.
    Script,
    /// `every_event_in_the_documents_has_the_fields_of_its_type`.
    Events,
    /// Named in this file or in `guides.rs`.
    Output,
    /// A unit of systemd, or lines that a person writes: its form is checked here.
    Input,
}

/// Programs whose lines are typed and print nothing that is shown.
const PROGRAMS: &[&str] = &[
    "harvest",
    "target/debug/harvest",
    "make",
    "cargo",
    "git",
    "curl",
    "export",
    "podman",
    "createuser",
    "createdb",
    "initdb",
    "postgres",
    "chmod",
    "chown",
    "cd",
    "cat",
    "printf",
    "echo",
    "sudo",
    "sysctl",
    "systemctl",
    "systemd-run",
    "apt",
    "npm",
    "find",
    "bd",
    "sed",
    "jq",
    "pg_dump",
    "ls",
    "df",
    "bwrap",
    "env",
    "kill",
    "scripts/compare-journals",
    "psql",
    "rm",
    "mv",
    "ps",
    "loginctl",
    "ssh-add",
    "openssl",
    "timedatectl",
    "mkdir",
    "cp",
];

fn kind(block: &Block) -> Option<Kind> {
    let first = block.lines.first()?;
    let is_command = |line: &str| {
        let line = line.trim_start_matches("# ").trim_start();
        let words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with(['-', '"']));
        words.clone().next().is_some_and(|word| PROGRAMS.contains(&word))
    };
    let tests = concat!(include_str!("guides.rs"), include_str!("guides_blocks.rs")).replace("\\\"", "\"");
    let is_named =
        || (8..=first.len()).any(|end| first.get(..end).is_some_and(|start| tests.contains(&format!("\"{start}\""))));
    Some(match block.language.as_str() {
        "toml" => Kind::Settings,
        "yaml" => Kind::Script,
        _ if first.starts_with("$ ") => Kind::Session,
        _ if block.lines.iter().all(|line| line.starts_with("{\"seq\"")) => Kind::Events,
        _ if is_command(first) => Kind::Commands,
        _ if is_named() || first.starts_with("{\"id\":\"or-1\"") => Kind::Output,
        _ if first == "[Service]" || first.starts_with('#') => Kind::Input,
        _ if block.lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()) => Kind::Input,
        _ => return None,
    })
}

#[test]
fn every_block_of_the_documents_is_of_a_kind_that_is_checked() {
    let (mut unknown, mut all) = (Vec::new(), std::collections::BTreeMap::<Kind, usize>::new());
    for page in pages() {
        for block in blocks(&page) {
            match kind(&block) {
                Some(kind) => *all.entry(kind).or_default() += 1,
                None => unknown.push(format!("{}: {}", block.place, block.lines.first().map_or("", String::as_str))),
            }
        }
    }
    assert!(unknown.is_empty(), "no test checks these blocks: {unknown:#?}");
    assert!(all[&Kind::Output] >= 9 && all[&Kind::Session] >= 20 && all[&Kind::Input] <= 4, "{all:?}");
}

#[test]
fn the_unit_in_the_operator_guide_starts_a_command_that_is_understood() {
    let block = block("docs/operator-guide.md", "[Service]");
    let start = block.lines.iter().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut args = words(start);
    assert!(Path::new(&args.remove(0)).ends_with("harvest"), "{start}");
    args.push("--help".to_owned());
    let ran = World::empty().harvest(&args).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

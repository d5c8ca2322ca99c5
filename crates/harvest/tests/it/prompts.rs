//! What an agent is told: the person's words first, the conventions of the base commit, files that are mentioned, the rules; and
//! the templates of an installation and of a project in place of Harvest's.

use std::fs;

use serde_json::json;

use crate::agents::{add_agent, program};
use crate::support::World;

/// The prompt as the agent got it.
fn told(world: &World, prompt: &str) -> String {
    let folder = program("mine", "#!/bin/sh\ncat > prompt.txt\n");
    let definition = format!(
        "[[agent]]\nid = 'mine'\nname = 'Mine'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
         reads = ['CLAUDE.md']\ncommand = '{}'\ninstall_hint = 'write it'\n",
        folder.path().join("mine").display()
    );
    add_agent(world, &definition);
    let script = world.script(&json!([{}])).display().to_string();
    let args = ["run", prompt, "--agent", "mine", "--json", "--test", "true", "--model-script", &script];
    let outcome = world.harvest(&args).finish().assert_ended(0, "completed", None);
    world.show(&format!("{}:prompt.txt", outcome["branch"].as_str().unwrap()))
}

#[test]
fn the_agent_is_told_what_the_base_commit_says() {
    let world = World::new();
    world.write("AGENTS.md", "Use tabs.\n");
    world.write("CLAUDE.md", "Claude reads this itself.\n");
    world.write("GEMINI.md", "Use tabs.\n");
    world.write("docs/notes.md", "The answer is 42.\n");
    world.commit("Conventions");
    world.write("AGENTS.md", "Not committed.\n");
    let prompt = told(&world, "Mend it.\n\n\nSee notes.md:1 and src/two.sh!");
    assert!(prompt.starts_with("Mend it.\n\n\nSee notes.md:1 and src/two.sh!\n\n## Conventions"), "{prompt}");
    assert_eq!(prompt.matches("Use tabs.").count(), 1, "{prompt}");
    assert!(prompt.contains("### docs/notes.md\n\n```\nThe answer is 42.\n```"), "{prompt}");
    assert!(prompt.contains("### src/two.sh") && prompt.contains("Run the tests before you end: `true`"), "{prompt}");
    assert!(!prompt.contains("Claude reads") && !prompt.contains("Not committed"), "{prompt}");
}

#[test]
fn an_installation_and_a_project_have_their_own_words() {
    let world = World::new();
    let folder = world.home().join(".config/harvest/prompts");
    fs::create_dir_all(folder.join("shop")).unwrap();
    fs::write(folder.join("rules.md"), "Rules of the house.\n").unwrap();
    assert_eq!(told(&world, "Mend it"), "Mend it\n\nRules of the house.");
    fs::write(folder.join("shop/task.md"), "{{ request }}, for the shop.\n{% include 'rules' %}\n").unwrap();
    let settings = format!("[project.shop]\nrepositories = ['{}']\n", world.repo().canonicalize().unwrap().display());
    fs::write(world.home().join(".config/harvest/harvest.toml"), settings).unwrap();
    assert_eq!(told(&world, "Mend it"), "Mend it, for the shop.\nRules of the house.");

    fs::write(folder.join("rules.md"), "{% if %}").unwrap();
    let refused = world.harvest(&["run", "Mend it", "--model-script", "script.yaml"]).finish();
    assert_eq!(refused.exit, Some(2), "{refused:?}");
}

/// What an agent can look up later: the rules, and what its memory begins with.
#[test]
fn rules_and_memory_are_laid_into_the_home() {
    let world = World::new();
    let folder = world.home().join(".config/harvest/prompts");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("rules.md"), "Run {{ test }}.\n").unwrap();
    let line = json!({ "type": "entity", "name": "Prices", "entityType": "module", "observations": ["Ask Ada"] });
    fs::write(folder.join("memory.jsonl"), format!("{line}\n")).unwrap();
    let ran =
        world.run(&json!([{ "shell": "cat ~/.harvest/rules.md ~/.harvest/memory.jsonl" }, {}]), &["--test", "true"]);
    let seen = ran.tool_outputs().remove(0);
    assert!(seen.starts_with("Run true.\n{"), "{seen}");
    let lines = seen.lines().filter(|line| line.starts_with('{'));
    let memory: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((memory.len(), &memory[3]), (4, &line), "{seen}");
    assert_eq!(memory[0]["observations"][1], "It is tested with: true");
    fs::write(folder.join("memory.jsonl"), "Prices: ask Ada\n").unwrap();
    let refused = world.run(&json!([{}]), &[]);
    assert!(
        refused.exit == Some(2) && refused.stderr.contains("memory.jsonl: line 1 is neither an entity"),
        "{refused:?}"
    );
}

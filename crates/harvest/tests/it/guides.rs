//! The guides: every command in them is understood, every block of settings can be read, and what they show is what the program
//! prints.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use crate::reattach::wait_until;
use crate::support::{FIX, PATH, World};

/// A fenced block of a page.
pub struct Block {
    pub place: String,
    pub language: String,
    pub lines: Vec<String>,
}

pub fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn pages() -> Vec<PathBuf> {
    let mut pages = vec![documents().join("README.md")];
    for folder in ["docs", "docs/errors"] {
        let entries = fs::read_dir(documents().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages.sort();
    pages
}

pub fn blocks(page: &Path) -> Vec<Block> {
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (number, line) in fs::read_to_string(page).unwrap().lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let place = format!("{name}:{}", number + 1);
                open = Some(Block { place, language: language.to_owned(), lines: Vec::new() });
            }
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{name}: a block has no end");
    blocks
}

/// As a shell splits it, up to whatever takes what the command prints, or to an explanation in another column.
pub fn words(command: &str) -> Vec<String> {
    let command = command.split("   ").next().unwrap_or_default();
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '|' | '<' | '>' | ')' | ';' | '&') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The commands of a page: in its blocks, and in the middle of a sentence.
fn commands(page: &Path) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let started = Regex::new(r"(?:^|[ (/])harvest (.*)$").unwrap();
    for block in blocks(page).iter().filter(|block| ["", "sh", "bash"].contains(&block.language.as_str())) {
        for line in &block.lines {
            let is_command = ["harvest ", "$ harvest ", "target/debug/harvest ", "printf ", "export "]
                .iter()
                .any(|start| line.trim_start().starts_with(start));
            if let Some(rest) = started.captures(line).filter(|_| is_command) {
                found.push((format!("{}: {line}", block.place), words(&rest[1])));
            }
        }
    }
    let inline = Regex::new(r"`harvest ([^`]+)`").unwrap();
    for line in fs::read_to_string(page).unwrap().lines() {
        let name = page.file_name().unwrap().to_string_lossy();
        found.extend(inline.captures_iter(line).map(|rest| (format!("{name}: {}", &rest[0]), words(&rest[1]))));
    }
    found
}

/// Something in the place of a word that stands for many.
fn meant(word: &str) -> String {
    let meant = match word {
        "ADDRESS" => "10.0.0.5",
        "SEQ" => "41",
        "NAME" => "user:ada",
        word => word,
    };
    meant.to_owned()
}

/// With `--help` behind them: whatever comes before is read first, and nothing happens.
#[test]
fn every_command_in_the_guides_is_understood() {
    let world = World::empty();
    let mut wrong = Vec::new();
    let all: Vec<(String, Vec<String>)> = pages().iter().flat_map(|page| commands(page)).collect();
    assert!(all.len() > 200, "{}", all.len());
    for (place, words) in all {
        let mut words: Vec<String> = words.iter().map(|word| meant(word)).collect();
        match words.as_slice() {
            [.., option, dots] if dots == "…" && option.starts_with("--") => {}
            [.., dots] if dots == "…" => drop(words.pop()),
            [.., option] if option == "--race" => words.push("2".to_owned()),
            _ => {}
        }
        words.push("--help".to_owned());
        let ran = world.harvest(&words).finish();
        if ran.exit != Some(0) {
            wrong.push(format!("{place}\n  {}", ran.stderr.lines().next().unwrap_or_default()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_block_of_settings_in_the_guides_can_be_read() {
    let world = World::new();
    let config = world.home().join(".config/harvest");
    fs::create_dir_all(config.join("agents")).unwrap();
    let all: Vec<Block> = pages().iter().flat_map(|page| blocks(page)).collect();
    let settings: Vec<&Block> = all.iter().filter(|block| block.language == "toml").collect();
    assert!(settings.len() > 8, "{}", settings.len());
    for block in settings {
        let text = block.lines.join("\n");
        let script = world.script(&json!([{}]));
        let (file, command) = if text.contains("[[agent]]") {
            (config.join("agents/guide.toml"), vec!["agent", "list"])
        } else if text.contains("as_of") {
            (config.join("prices.toml"), vec!["up", "--until-empty", "--model-script", script.to_str().unwrap()])
        } else {
            (config.join("harvest.toml"), vec!["config", "show"])
        };
        fs::write(&file, &text).unwrap();
        let ran = world.harvest(&command).finish();
        assert_eq!(ran.exit, Some(0), "{}: {ran:?}", block.place);
        fs::remove_file(file).unwrap();
    }
}

/// Blocks of a page that are typed one after the other, and what they stand for here.
pub struct Story<'w> {
    world: &'w World,
    pub script: PathBuf,
    /// What the page says, and what it is here.
    pub names: Vec<(String, String)>,
    /// Ids in the page by those of this run.
    ids: HashMap<String, String>,
}

impl<'w> Story<'w> {
    pub fn new(world: &'w World, conversations: &[(&str, Value)]) -> Self {
        world.without_spares();
        let path = |name: &str| world.path().join(name).to_str().unwrap().to_owned();
        let names = [
            ("/home/ada/orchard", path("repo")),
            ("/home/ada/.config", path("home/.config")),
            ("/mnt/backups", path("backups")),
            ("/srv/harvest", path("data")),
            ("/srv/restored", path("restored")),
            ("orchard", "repo".to_owned()),
            ("user:ada", format!("user:{}", asker(world))),
        ];
        let names = names.into_iter().map(|(page, here)| (page.to_owned(), here)).collect();
        Self { world, script: world.conversations(conversations), names, ids: HashMap::new() }
    }

    pub fn here(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (page, here)| text.replace(page, here))
    }

    /// Types the block of a page that begins with this command, and holds what comes against what the page shows.
    #[track_caller]
    fn tell(&mut self, page: &str, first: &str) {
        let all = blocks(&documents().join(page));
        let begins = |block: &&Block| block.lines[0].starts_with(&format!("$ {first}"));
        let block = all.iter().find(begins).unwrap_or_else(|| panic!("{page} has no block with `{first}`"));
        let mut lines = block.lines.iter().peekable();
        while let Some(line) = lines.next() {
            let command = line.strip_prefix("$ harvest ").unwrap_or_else(|| panic!("{}: {line}", block.place));
            let mut shown = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                shown.push(line.as_str());
            }
            self.type_in(&format!("{}: {line}", block.place), command, &shown);
        }
    }

    #[track_caller]
    fn type_in(&mut self, place: &str, command: &str, shown: &[&str]) {
        let mut args: Vec<String> = words(&self.here(command)).into_iter().map(|word| self.id_here(word)).collect();
        if ["up", "run"].contains(&args[0].as_str()) {
            args.extend(["--model-script".to_owned(), self.script.to_str().unwrap().to_owned()]);
        }
        let ran = self.world.harvest(&args).finish();
        assert!(!shown.is_empty() || ran.exit == Some(0), "{place}\n{ran:?}");
        let printed = format!("{}{}", ran.stdout, ran.stderr);
        let mut printed: Vec<String> = printed.lines().map(squeezed).filter(|line| !line.is_empty()).collect();
        let is_cut = shown.iter().any(|line| line.trim() == "…") || shown.is_empty();
        for line in shown.iter().filter(|line| !["", "…"].contains(&line.trim())) {
            let found = printed.iter().position(|printed| self.matches(line, printed));
            let Some(found) = found else { panic!("{place}\nshown:   {line}\nprinted: {printed:#?}\n{ran:?}") };
            printed.remove(found);
        }
        assert!(is_cut || printed.is_empty(), "{place}\nalso printed: {printed:#?}");
    }

    /// An id of the page, perhaps shortened, as it is here.
    fn id_here(&self, word: String) -> String {
        let known = self.ids.iter().find(|(page, _)| word.len() >= 4 && page.starts_with(&word));
        known.map_or(word, |(_, here)| here.clone())
    }

    /// Whether a printed line is the one that the page shows, but for ids, times, sizes and money. Remembers its ids.
    pub fn matches(&mut self, shown: &str, printed: &str) -> bool {
        let kinds = Regex::new(
            r"(?x) (?<id>\b[0-9a-hjkmnp-tv-z]{8}\b) | (?<commit>\b[0-9a-f]{10}\b) | (?<money>\$[0-9.]+)
                 | (?<time>\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d[:0-9.]*Z?) | (?<amount>\b[0-9.]+\ (?:s|min|ms|h|KiB|MiB|bytes)\b)
                 | (?<count>\b\d+\ files,) | (?<tokens>\b\d+\ tokens\ in,\ \d+\ out) | (?<packages>added\ \d+\ packages?\ in\ \d+m?s) | (?<long>\b[0-9a-hjkmnp-tv-z]{16}\b)
                 | (?<rest>…)",
        )
        .unwrap();
        let shown = squeezed(&self.here(shown));
        let (mut pattern, mut end, mut ids) = ("^".to_owned(), 0, Vec::new());
        for found in kinds.captures_iter(&shown) {
            let whole = found.get(0).unwrap();
            if found.name("id").is_some_and(|id| !id.as_str().contains(|letter: char| letter.is_ascii_digit())) {
                continue;
            }
            pattern.push_str(&regex::escape(&shown[end..whole.start()]));
            end = whole.end();
            pattern.push_str(&match found.name("id").map(|id| id.as_str()) {
                Some(id) => match self.ids.get(id) {
                    Some(known) => known.clone(),
                    None => {
                        ids.push(id.to_owned());
                        "([0-9a-z]{8})".to_owned()
                    }
                },
                None if found.name("commit").is_some() => "[0-9a-f]{10}".to_owned(),
                None if found.name("money").is_some() => r"\$[0-9.]+".to_owned(),
                None if found.name("time").is_some() => r"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?".to_owned(),
                None if found.name("amount").is_some() => r"[0-9.]+ (?:s|min|ms|h|KiB|MiB|bytes)".to_owned(),
                None if found.name("count").is_some() => r"\d+ files,".to_owned(),
                None if found.name("tokens").is_some() => r"\d+ tokens in, \d+ out".to_owned(),
                None if found.name("packages").is_some() => r"added \d+ packages? in \d+m?s".to_owned(),
                None if found.name("long").is_some() => "[0-9a-z]{16}".to_owned(),
                None => ".*".to_owned(),
            });
        }
        pattern.push_str(&regex::escape(&shown[end..]));
        pattern.push('$');
        let Some(matched) = Regex::new(&pattern).unwrap().captures(printed) else { return false };
        for (place, id) in ids.into_iter().enumerate() {
            self.ids.insert(id, matched[place + 1].to_owned());
        }
        true
    }
}

/// Who gives tasks in this world.
fn asker(world: &World) -> String {
    let installed = world.json(&["task", "add", "Who am I?"]);
    let id = installed["id"].as_str().unwrap();
    world.json(&["task", "cancel", id]);
    world.json(&["task", "delete", id]);
    installed["requested_by"].as_str().unwrap().to_owned()
}

/// Columns are as wide as what is in them.
pub fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub const USER: &str = "docs/user-guide.md";
const OPERATOR: &str = "docs/operator-guide.md";

#[test]
fn the_queue_in_the_guide_is_what_the_program_prints() {
    let world = World::new();
    world.write("Makefile", "test:\n\t@sh test.sh\n");
    world.commit("Make");
    let fixed = |file: &str| json!([{ "shell": format!("{FIX}; echo {file} > {file}") }, {}]);
    let mut story = Story::new(
        &world,
        &[
            ("Now add a test for it", json!([{ "shell": "echo more > more" }, {}])),
            ("failing basket", fixed("basket")),
            ("Use the new price list", fixed("prices")),
            ("Remove the old price list", fixed("old")),
            ("Round the wrong way", json!([{ "shell": "echo echo three > src/one.sh" }, {}])),
        ],
    );
    story.tell(USER, "harvest task add \"Make the failing basket");
    story.tell(USER, "harvest up --agents 3 --until-empty");
    story.tell(USER, "harvest convoy show spring-clean");
    story.tell(OPERATOR, "harvest queue cap");
    story.tell(USER, "harvest task retry");
    story.tell(USER, "harvest session prompt");
    world.harvest(&["credential", "add", "anthropic", "--from-stdin"]).input("sk-ant-canary").finish();
    world.json(&["evidence", "key"]);
    fs::create_dir(world.path().join("backups")).unwrap();
    story.tell(OPERATOR, "harvest backup");
}

#[test]
fn retries_schedules_and_templates_in_the_guide_are_what_the_program_prints() {
    let world = World::new();
    // The first time with the status, from then on with the rest.
    let refused_first = json!([{ "status": 400, "shell": FIX }, {}]);
    let mut story = Story::new(&world, &[("Fix the flaky basket", refused_first)]);
    story.tell(USER, "harvest task add \"Fix the flaky basket\"");
    story.tell(USER, "harvest schedule add");
    story.tell(USER, "harvest template add");
}

#[test]
fn beads_in_the_guide_are_what_the_program_prints() {
    let world = World::new();
    let issue = |id: &str, title: &str, status: &str| json!({ "id": id, "title": title, "status": status }).to_string();
    let issues = [
        issue("or-1", "Sum the whole basket", "open"),
        issue("or-2", "Round to cents", "open"),
        issue("or-3", "Say hello", "closed"),
    ];
    world.write(".beads/issues.jsonl", format!("{}\n", issues.join("\n")));
    world.write("Makefile", "test:\n\t@sh test.sh\n");
    world.commit("Issues");
    let mut story = Story::new(&world, &[("", json!([{ "shell": FIX }, {}]))]);
    story.tell(USER, "harvest import beads");
    let all = blocks(&documents().join(USER));
    let block = all.iter().find(|block| block.lines[0].starts_with(r#"{"id":"or-1""#)).unwrap();
    let shown: Value = serde_json::from_str(&block.lines[0].replace(",…,", ",")).unwrap();
    let file = fs::read_to_string(world.repo().join(".beads/issues.jsonl")).unwrap();
    let written: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
    for (name, value) in shown.as_object().unwrap() {
        let here = written[name].as_str().map(str::to_owned).unwrap_or_else(|| written[name].to_string());
        let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
        // What nobody but its owner knows stays as it is.
        assert!(name.starts_with("x_") || story.matches(&text, &squeezed(&here)), "{name}: {text}\n{written:#}");
    }
}

#[test]
fn agents_and_settings_in_the_guide_are_what_the_program_prints() {
    let world = World::new();
    let mut story = Story::new(&world, &[]);
    story.tell(USER, "harvest agent check builtin");
    world.write(
        ".harvest.toml",
        "test = 'make test'\ntimeout = '45m'\nbudget_usd = 50\negress.allow = ['api.example.com']\n",
    );
    world.commit("Settings");
    let own = "budget_usd = 5\nretries = 1\nagents = 3\negress.allow = ['api.example.com', 'b.example.com']\n[registries]\nnpm = 'https://mirror.example.com/npm'\n";
    fs::write(world.home().join(".config/harvest/harvest.toml"), own).unwrap();
    story.tell(USER, "harvest config show");
}

#[test]
fn the_status_in_the_guide_is_what_the_program_prints_while_three_agents_work() {
    let world = World::new();
    let mut story = Story::new(&world, &[("", json!([{ "shell": "sleep 600" }, {}]))]);
    story.tell(USER, "harvest task add \"Make the failing basket");
    let up = world.harvest(&["up", "--agents", "3", "--model-script"]).args(&[story.script.to_str().unwrap()]).start();
    wait_until("three agents have called the model", || world.harvest(&["status"]).finish().stdout.contains("3 calls"));
    story.tell(USER, "harvest status");
    for task in world.tasks() {
        world.harvest(&["task", "terminate", task["id"].as_str().unwrap()]).finish();
    }
    up.signal(rustix::process::Signal::TERM);
    up.finish();
}

#[test]
fn plans_forks_and_other_agents_in_the_guide_are_what_the_program_prints() {
    let world = World::new();
    let agent = world.home().join(".config/harvest/agents/other.toml");
    fs::create_dir_all(agent.parent().unwrap()).unwrap();
    let text = "[[agent]]\nid = 'other'\nname = 'Other'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'
command = '/bin/sh'\narguments = ['-c', 'cat > /dev/null; echo Done.']\ninstall_hint = 'It is a shell.'\n";
    fs::write(agent, text).unwrap();
    let fixed = json!([{ "shell": FIX }, {}]);
    let plan = json!([{ "say": "1. Move prices to a file of their own." }]);
    let conversations = [("Make a plan", plan), ("", fixed)];
    // The tasks of the queue, whose ids the blocks below name.
    let mut story = Story::new(&world, &conversations);
    story.tell(USER, "harvest task add \"Make the failing basket");
    let script = story.script.to_str().unwrap().to_owned();
    let ran = world.harvest(&["up", "--until-empty", "--model-script", &script]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let task = story.id_here("qb2q".to_owned());
    let events = world.harvest(&["task", "logs", &task, "--json"]).finish().stdout;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // An agent that is done in no time may end before its first checkpoint; its commit is there always.
    let is_saved = |event: &Value| event["type"] == "checkpoint.created" || event["type"] == "commit.created";
    let saved = events.rev().find(is_saved).unwrap()["seq"].clone();
    for before in ["--at ", "event "] {
        story.names.push((format!("{before}41"), format!("{before}{saved}")));
    }
    story.tell(USER, "harvest task logs qb2q --json | grep");
    story.names.push(("codex".to_owned(), "other".to_owned()));
    story.tell(USER, "harvest session continue qb2q --agent codex");
    story.ids.clear();
    story.tell(USER, "harvest run \"Split the price module\" --plan");
}

#[test]
fn what_gc_would_remove_in_the_guide_is_what_the_program_prints() {
    let world = World::new();
    let mut story = Story::new(&world, &[("", json!([{ "shell": FIX }, {}]))]);
    let script = story.script.to_str().unwrap().to_owned();
    for task in ["One", "Two", "Three"] {
        let ran = world.harvest(&["run", task, "--model-script", &script]).finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let age = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()";
    let update = "UPDATE tasks SET finished_at = '2020-01-31T00:00:00Z'";
    let file = world.data().join("harvest.db");
    let aged = Command::new("python3").args(["-c", age, file.to_str().unwrap(), update]).output().unwrap();
    assert!(aged.status.success(), "{}", String::from_utf8_lossy(&aged.stderr));
    story.tell(OPERATOR, "harvest gc --older-than 7d --dry-run");
}

#[test]
fn mcp_servers_and_prepared_repositories_in_the_guide_are_what_the_program_prints() {
    let world = World::new();
    let mut story = Story::new(&world, &[]);
    story.tell(USER, "harvest mcp list");
    if Command::new("npm").arg("--version").output().is_err() {
        return harvest_testing::skip("npm is not installed");
    }
    world.write("package.json", r#"{"name":"shop","version":"1.0.0","dependencies":{"price":"file:./price"}}"#);
    world.write("price/package.json", r#"{"name":"price","version":"1.0.0"}"#);
    let root = json!({ "name": "shop", "version": "1.0.0", "dependencies": { "price": "file:./price" } });
    let link = json!({ "resolved": "price", "link": true });
    let packages = json!({ "": root, "price": { "version": "1.0.0" }, "node_modules/price": link });
    let lock = json!({ "name": "shop", "version": "1.0.0", "lockfileVersion": 3, "packages": packages });
    world.write("package-lock.json", lock.to_string());
    world.commit("Depend on something");
    story.names.insert(0, ("/home/ada/shop".to_owned(), world.repo().display().to_string()));
    story.names.push(("shop".to_owned(), "repo".to_owned()));
    story.tell(USER, "harvest repo add .");
}

/// What the doctor says differs between machines: the names and their order do not, nor does what is said where the judgement
/// is the same and no number or path is in it.
#[test]
fn the_doctor_in_the_guide_is_what_the_program_prints() {
    let world = World::new();
    let all = blocks(&documents().join(USER));
    let block = all.iter().find(|block| block.lines[0] == "$ harvest doctor").unwrap();
    let shown: Vec<&str> = block.lines[1..].iter().map(String::as_str).take_while(|line| *line != "…").collect();
    let ran = world.harvest(&["doctor"]).finish();
    let facts = |lines: &[&str]| -> Vec<(String, Vec<String>, Option<String>)> {
        let mut facts: Vec<(String, Vec<String>, Option<String>)> = Vec::new();
        for line in lines {
            match (line.trim_start().strip_prefix("→ "), facts.last_mut()) {
                (Some(hint), Some((_, _, last))) => *last = Some(hint.to_owned()),
                _ => {
                    let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
                    let name = columns.next().unwrap().to_owned();
                    facts.push((name, columns.map(str::to_owned).collect(), None));
                }
            }
        }
        facts
    };
    let printed = facts(&ran.stdout.lines().collect::<Vec<_>>());
    let name = |fact: &(String, Vec<String>, Option<String>)| fact.0.split_once(' ').unwrap().1.to_owned();
    let shown = facts(&shown);
    let printed = &printed[..shown.len()];
    assert_eq!(shown.iter().map(name).collect::<Vec<_>>(), printed.iter().map(name).collect::<Vec<_>>());
    let differs = |text: &String| text.contains(|letter: char| letter.is_ascii_digit() || letter == '/');
    for (shown, printed) in shown.iter().zip(printed) {
        let is_same_judgement = shown.0 == printed.0 && shown.1.len() == printed.1.len();
        let is_same_strength = shown.1.len() < 2 || shown.1.first() == printed.1.first();
        if is_same_judgement && is_same_strength {
            assert!(shown.1.iter().any(differs) || shown.1 == printed.1, "{shown:?}\n{printed:?}");
            assert_eq!(shown.2, printed.2, "{}", shown.0);
        }
    }
}

#[test]
fn the_last_event_in_the_readme_is_what_the_program_prints() {
    let world = World::new();
    world.write("Makefile", "test:\n\t@sh test.sh\n");
    world.write("tests/three.sh", "true\n");
    world.commit("Make");
    let all = blocks(&documents().join("README.md"));
    let block =
        all.iter().find(|block| block.lines[0].starts_with("$ harvest run \"Make the failing test pass\" --json"));
    let shown: Value = serde_json::from_str(&block.unwrap().lines[2..].join("\n")).unwrap();
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &[]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "task.finished");
    // What the filter of the page picks, in its order.
    let pick = |from: &Value, names: &[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), from[*name].clone())).collect::<serde_json::Map<_, _>>().into()
    };
    let mut picked = pick(&last["data"], &["status", "branch", "cost_usd", "evidence"]);
    let names = ["command", "exit_code", "passed", "failed", "baseline", "flags"];
    picked["evidence"] = pick(&picked["evidence"].clone(), &names);
    let branch = |value: &Value| value["branch"].as_str().unwrap().rsplit_once('-').unwrap().0.to_owned();
    assert_eq!(branch(&picked), branch(&shown));
    assert!(picked["cost_usd"].is_number() && shown["cost_usd"].is_number(), "{picked:#}");
    for name in ["branch", "cost_usd"] {
        picked[name] = shown[name].clone();
    }
    assert_eq!(picked, shown);
}

/// No block with output is left out: each is typed by a test above.
#[test]
fn every_block_with_output_in_the_guides_is_typed_by_a_test() {
    let tests = include_str!("guides.rs").replace("\\\"", "\"");
    let mut missing = Vec::new();
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| block.lines.first().is_some_and(|line| line.starts_with("$ ")))
        {
            let command = block.lines[0].trim_start_matches("$ ");
            let is_typed = (12..=command.len())
                .any(|end| command.get(..end).is_some_and(|start| tests.contains(&format!("\"{start}\")"))));
            if !is_typed
                && !["harvest doctor"].contains(&command)
                && !command.starts_with("harvest run \"Make the failing")
            {
                missing.push(format!("{}: {command}", block.place));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// What a shell printed in the folder above the repositories.
#[track_caller]
pub fn shell(world: &World, text: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_harvest")).parent().unwrap();
    let mut command = Command::new("sh");
    command.args(["-euc", text]).current_dir(world.path()).env_clear();
    command.env("PATH", format!("{}:{PATH}", programs.display())).env("HOME", world.home());
    command.env("HARVEST_DATA_DIR", world.data());
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "Ada").env(format!("GIT_{name}_EMAIL"), "ada@example.com");
    }
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{text}\n{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_github_trial_in_the_guide_ends_with_a_pull_request_by_typing_its_lines_without_a_key() {
    let world = World::empty();
    world.without_spares();
    let ports: Vec<String> = ["7070", "7090"].map(|_| free_port().to_string()).to_vec();
    let here = |line: &str| line.replace("7070", &ports[0]).replace("7090", &ports[1]);
    let start = |line: &str| {
        let mut harvest = world.harvest(&words(&here(line))[1..]);
        harvest.command.current_dir(world.path());
        harvest
    };
    let all = blocks(&documents().join("docs/github.md"));
    let typed: Vec<&Block> = all.iter().filter(|block| block.language == "sh").collect();
    let [make, serve, ask] = typed.as_slice() else { panic!("the trial has {} blocks", typed.len()) };
    let (fake, before) = make.lines.split_last().unwrap();
    shell(&world, &before.join("\n"));
    let mut hub = start(&format!("{fake} --listen 127.0.0.1:7090")).start();
    let add = hub.wait_for_line("add its App: ");
    shell(&world, add.split_once("add its App: ").unwrap().1);
    let (server, before) = serve.lines.split_last().unwrap();
    shell(&world, &before.join("\n"));
    let server = start(&format!("{server} --listen 127.0.0.1:7070")).start();
    let [open @ .., read] = ask.lines.as_slice() else { panic!("{}", ask.place) };
    shell(&world, &here(&open.join("\n")));
    wait_until("the issue is done", || shell(&world, &here(read)).contains("**Done**"));
    for running in [server, hub] {
        running.signal(rustix::process::Signal::TERM);
        assert_eq!(running.finish().exit, Some(0));
    }
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The names of all fields of a schema, with those of the objects in them.
fn fields(schemas: &Value, schema: &Value, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        fields(schemas, &schemas[name.rsplit('/').next().unwrap()], found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        found.push(name.clone());
        fields(schemas, field, found);
    }
    for list in ["allOf", "oneOf"] {
        schema[list].as_array().into_iter().flatten().for_each(|part| fields(schemas, part, found));
    }
}

#[test]
fn every_field_of_every_event_is_described_in_the_list_of_events() {
    let document: Value = serde_json::from_str(&fs::read_to_string(documents().join("openapi.json")).unwrap()).unwrap();
    let schemas = &document["components"]["schemas"];
    let page = fs::read_to_string(documents().join("docs/events.md")).unwrap();
    let sections: Vec<&str> = page.split("\n### ").skip(1).collect();
    let types = schemas["EventBody"]["oneOf"].as_array().unwrap();
    assert!(types.len() > 30, "{}", types.len());
    let mut missing = Vec::new();
    for event in types {
        let kind = event["properties"]["type"]["enum"][0].as_str().unwrap();
        let is_its = |section: &&&str| section.lines().next().unwrap().contains(&format!("`{kind}`"));
        let Some(section) = sections.iter().find(is_its) else {
            missing.push(kind.to_owned());
            continue;
        };
        let mut names = Vec::new();
        fields(schemas, &event["properties"]["data"], &mut names);
        let refers = section.contains("as in\n[`task.finished`]");
        let also = sections.iter().find(|section| refers && section.starts_with("`task.finished`"));
        let is_missing = |name: &&String| {
            let name = format!("`{name}`");
            !section.contains(&name) && !also.is_some_and(|section| section.contains(&name))
        };
        missing.extend(names.iter().filter(is_missing).map(|name| format!("{kind}: {name}")));
    }
    assert!(missing.is_empty(), "docs/events.md does not describe {missing:#?}");
}

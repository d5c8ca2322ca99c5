//! Keys of every known shape go in wherever people, agents, models and hosts can put them, and come out nowhere.

use std::fs;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::github::{self, Hub};
use crate::interrupts::hanging;
use crate::secret_scan::Scanner;
use crate::serve_limits::{settings, text};
use crate::support::{FIX, World};

/// One of every shape, made up.
pub const SHAPES: &[&str] = &[
    "sk-ant-api03-canary0123456789abcdefgh",
    "sk-proj-canary0123456789abcdefgh",
    "sk-svcacct-canary0123456789abcdefgh",
    "sk-admin-canary0123456789abcdefgh",
    "sk-or-v1-canary0123456789abcdefgh",
    "sk-canary0123456789abcdefghijklmnopqrstuv",
    "ghp_canary0123456789abcdefghijklmnopqr",
    "gho_canary0123456789abcdefghijklmnopqr",
    "ghu_canary0123456789abcdefghijklmnopqr",
    "ghs_canary0123456789abcdefghijklmnopqr",
    "ghr_canary0123456789abcdefghijklmnopqr",
    "github_pat_canary0123456789abcdefghijklmnop",
    "xoxa-canary0123456789",
    "xoxb-canary0123456789",
    "xoxe-canary0123456789",
    "xoxp-canary0123456789",
    "xoxr-canary0123456789",
    "xoxs-canary0123456789",
    "xapp-canary0123456789",
    "hv_canary0123456789abcdefghjkmnpqrstvwxyz0123456789abcd",
    "glpat-canary0123456789abcdef",
    "npm_canary0123456789abcdefghijklmnopqrstuv",
    "pypi-AgEIcanary0123456789abcdefghijklmnopqrstuvwxyzabcd",
    "hf_canary0123456789abcdefghijklmnop",
    "lin_api_canary0123456789abcdefghijklmn",
    "sk_live_canary0123456789abcdefgh",
    "rk_live_canary0123456789abcdefgh",
    "AKIACANARY0123456789",
    "ASIACANARY0123456789",
    "AIzacanary0123456789abcdefghijklmnopqrs",
    "ya29.canary0123456789abcdefghijklmnopqrs",
    "gsk_canary0123456789abcdefghijklmnopqrstuvwxyz",
    "xai-canary0123456789abcdefghijklmnopqrstuvwxyz",
    "AQ.canary0123456789abcdefghijklmnopqrstuvwxyzABCDEF",
];
/// Has no shape; only the vault knows it.
const KEPT: &str = "canary/of+the=vault 0123456789";

fn all() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().copied().chain([KEPT])
}

#[test]
fn a_key_of_every_known_shape_is_planted() {
    for prefix in harvest_vault::token_prefixes() {
        let planted = |shape: &&&str| shape.starts_with(prefix);
        assert!(SHAPES.iter().find(planted).is_some(), "no key that begins with {prefix} is planted");
    }
    assert_eq!(SHAPES.len(), harvest_vault::token_prefixes().count());
}

#[test]
fn every_form_of_key_that_is_accepted_for_a_vendor_is_a_known_shape() {
    for prefix in harvest_gateway::key_prefixes() {
        let key = format!("{prefix}{}", "0a1B".repeat(12));
        assert_eq!(harvest_engine::redact(&key), "[redacted]", "a key that begins with {prefix}");
    }
}

/// Nothing below the data directory has any of them, in any form.
#[track_caller]
pub fn assert_nowhere(world: &World, scanner: &Scanner, exits: &[(&str, String)]) {
    for (exit, text) in exits {
        assert_eq!(scanner.found_in(text.as_bytes()), Vec::<&str>::new(), "{exit}: {text}");
    }
    assert_eq!(scanner.scan(&world.data()), Vec::<String>::new());
}

/// Comments on a plan, a changed plan, and the prompt of a follow-up.
#[test]
fn keys_in_decisions_of_the_command_line_are_kept_nowhere() {
    let world = World::new();
    let (scanner, planted) = (Scanner::new(SHAPES.iter().copied()), SHAPES.join(" and "));
    let mut exits = Vec::new();
    let mut say = |name: &'static str, args: &[&str]| {
        let ran = world.harvest(args).finish();
        assert_eq!(ran.exit, Some(0), "{name}: {ran:?}");
        exits.push((name, format!("{}{}", ran.stdout, ran.stderr)));
    };
    let task = world.json(&["task", "add", "Make the failing test pass", "--plan"])["id"].as_str().unwrap().to_owned();
    let plans = [("Make a plan", json!([{ "say": "I would mend two.sh." }]))];
    world.work_off(&plans);
    say("reject", &["task", "reject", &task, "--comment", &format!("Not with {planted}")]);
    world.work_off(&plans);
    let plan = world.path().join("plan.md");
    fs::write(&plan, format!("Mend two.sh with {planted}.\n")).unwrap();
    say("approve", &["task", "approve", &task, "--edit", plan.to_str().unwrap(), "--json"]);
    fs::remove_file(&plan).unwrap();
    world.work_off(&[("The plan for it is approved", json!([{ "shell": FIX }, { "say": "Done." }]))]);
    say("prompt", &["session", "prompt", &task, &format!("Once more with {planted}")]);
    say("schedule", &["schedule", "add", "0 3 * * *", &format!("Each night with {planted}")]);
    say("show", &["task", "show", &task]);
    say("logs", &["task", "logs", &task]);
    say("journal", &["task", "logs", &task, "--json"]);
    assert!(exits.iter().any(|(name, text)| *name == "journal" && text.contains("Not with [redacted]")), "{exits:?}");
    assert!(
        exits.iter().any(|(name, text)| *name == "journal" && text.contains("two.sh with [redacted]")),
        "{exits:?}"
    );
    assert_nowhere(&world, &scanner, &exits);
}

/// Test commands of saved requests, and every field of an imported issue.
#[test]
fn keys_in_saved_requests_and_imported_issues_are_kept_nowhere() {
    let world = World::new();
    let (scanner, planted) = (Scanner::new(SHAPES.iter().copied()), SHAPES.join(" and "));
    let mut exits = Vec::new();
    let mut say = |name: &'static str, args: &[&str]| {
        let ran = world.harvest(args).finish();
        assert_eq!(ran.exit, Some(0), "{name}: {ran:?}");
        exits.push((name, format!("{}{}", ran.stdout, ran.stderr)));
    };
    let test = format!("echo {planted}");
    say("template", &["template", "add", "canary", "Mend it", "--test", &test]);
    say("schedule", &["schedule", "add", "0 3 * * *", "Mend it", "--test", &test]);
    let beads = world.path().join("beads.jsonl");
    let issue =
        json!({ "id": "b-1", "title": "Mend it", "status": "open", "description": planted, "notes": [planted] });
    fs::write(&beads, format!("{issue}\n")).unwrap();
    say("import", &["import", "beads", beads.to_str().unwrap()]);
    fs::remove_file(&beads).unwrap();
    say("templates", &["template", "list", "--json"]);
    say("schedules", &["schedule", "list", "--json"]);
    say("tasks", &["task", "list", "--json"]);
    for list in ["templates", "schedules", "tasks"] {
        assert!(exits.iter().any(|(name, text)| *name == list && text.contains("[redacted]")), "{list}: {exits:?}");
    }
    assert_nowhere(&world, &scanner, &exits);
}

/// The reason of an interrupt, and what a session is resumed with.
#[test]
fn keys_in_interrupts_and_resumes_are_kept_nowhere() {
    let world = World::new();
    world.without_spares();
    let (scanner, planted) = (Scanner::new(SHAPES.iter().copied()), SHAPES.join(" and "));
    let (mut running, task) = hanging(&world, "Go on with [redacted]");
    let mut exits = Vec::new();
    let reason = format!("because of {planted}");
    for args in [
        vec!["interrupt", &task, "--reason", &reason, "--json"],
        vec!["session", "resume", &task, &format!("Go on with {planted}")],
    ] {
        let ran = world.harvest(&args).finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        exits.push(("command", format!("{}{}", ran.stdout, ran.stderr)));
    }
    running.wait_for("its end", |notice| notice["type"] == "finished" && notice["task_id"] == task);
    running.signal(rustix::process::Signal::TERM);
    let up = running.finish();
    exits.push(("up", format!("{}{}", up.stdout, up.stderr)));
    for args in [["task", "logs", &task, "--json"].as_slice(), &["task", "logs", &task]] {
        let ran = world.harvest(args).finish();
        assert!(ran.stdout.contains("because of [redacted]"), "{ran:?}");
        exits.push(("logs", ran.stdout));
    }
    assert_nowhere(&world, &scanner, &exits);
}

/// A hook and a failing agent print keys where their output is cut, so that half of one would be left.
#[test]
fn output_that_is_cut_within_a_key_shows_no_part_of_it() {
    let key = "sk-ant-api03-canary0123456789abcdefghijklmnopqrstuvwxyz";
    let world = World::new();
    let settings = world.home().join(".config/harvest/harvest.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    // 8 KiB of a hook's output are kept, its last newline included, and 256 KiB are looked at.
    // In two parts, since settings with a key are refused.
    let (one, two) = key.split_at("sk-ant-".len());
    let print = |after: usize| format!("printf %s {one}'{two}'; head -c {after} /dev/zero | tr '\\0' .");
    let hooks = [8 * 1024 - 24, 256 * 1024 - 24].map(|after| format!("after_execute: {}", print(after)));
    fs::write(settings, format!("hooks = {}", json!(hooks))).unwrap();
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &[]);
    ran.assert_ended(0, "completed", None);
    let tails = ran.of_type("hook.finished");
    assert_eq!(tails.len(), 2);
    for tail in &tails {
        let tail = tail["output_tail"].as_str().unwrap();
        assert!(!tail.contains("qrstuvwxyz") && !tail.contains("canary"), "{}", &tail[..100]);
    }
    // The last kilobyte that a failing agent printed is told.
    let script = format!("cat > /dev/null; {}; echo; exit 3", print(1024 - 24));
    world.add_agent("failing", "text", &script);
    let ran = world.run(&json!([{}]), &["--agent", "failing"]);
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    let error = outcome["error"].as_str().unwrap();
    assert!(error.contains("...") && !error.contains("qrstuvwxyz"), "{error}");
    assert!(!ran.stdout.contains("qrstuvwxyz"), "{}", ran.stdout);
}

/// What a build prints is in its log, its report and its alert.
#[test]
fn a_build_that_prints_keys_leaves_none_in_its_log() {
    let world = World::new();
    let (scanner, planted) = (Scanner::new(all()), SHAPES.join(" "));
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    // Below the limit of a line, across it, and in what is told of a command that fails.
    let long = "x".repeat(390);
    let print = format!("for key in {planted} '{KEPT}'; do echo \"$key\"; echo \"{long}$key\"; done");
    let alert = world.path().join("alert");
    world.write("print.sh", format!("{print}\n"));
    world.commit("A script that prints");
    let add = ["repo", "add", ".", "--setup", "sh print.sh; exit 3", "--alert", &format!("cat > {}", alert.display())];
    assert_eq!(world.harvest(&add).finish().exit, Some(0));
    let built = world.harvest(&["repo", "build", "repo", "--json", "--tries", "1"]).finish();
    assert!(built.stdout.contains("[redacted]") && built.exit == Some(1), "{built:?}");
    let shown = world.harvest(&["repo", "list", "--json"]).finish();
    let alert = fs::read_to_string(&alert).unwrap();
    let exits = [("build", format!("{built:?}")), ("list", format!("{shown:?}")), ("alert", alert)];
    for (exit, text) in &exits {
        assert_eq!(scanner.found_in(text.as_bytes()), Vec::<&str>::new(), "{exit}: {text}");
        assert!(!text.contains("xxsk-ant-a"), "half a key is left in {exit}: {text}");
    }
    let logs: Vec<_> = find(&world.data(), "build.log");
    assert!(!logs.is_empty());
    for log in logs {
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(scanner.found_in(text.as_bytes()), Vec::<&str>::new(), "{text}");
        assert!(text.contains("[redacted]") && !text.contains("xsk-ant-a"), "{text}");
    }
}

/// What someone wants to be run for a repository is stored as it is, and shown; a key in it is refused, not kept.
#[test]
fn a_key_in_a_command_of_a_repository_is_refused_and_kept_nowhere() {
    let world = World::new();
    let scanner = Scanner::new(all());
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let mut exits = Vec::new();
    for key in all() {
        for field in ["setup", "build", "alert"] {
            let add = ["repo", "add", ".", &format!("--{field}"), &format!("TOKEN='{key}' make {field}")];
            let ran = world.harvest(&add).finish();
            assert_eq!(ran.exit, Some(2), "{ran:?}");
            assert!(ran.stderr.contains(&format!("{field}: the command contains a key")), "{ran:?}");
            exits.push(("add", format!("{ran:?}")));
        }
    }
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    for (field, key) in ["setup", "build"].into_iter().flat_map(|field| all().map(move |key| (field, key))) {
        let mut ask = json!({ "source": world.repo() });
        ask[field] = json!(format!("TOKEN='{key}' make {field}"));
        let answer = admin.post("/api/repositories", &ask);
        assert!(text(&answer.problem(400, "HV-0141"), "detail").contains(field), "{answer:?}");
        exits.push(("POST", answer.text.clone()));
    }
    assert_eq!(admin.get("/api/repositories").ok()["items"], json!([]), "nothing is left of what was refused");
    assert_nowhere(&world, &scanner, &exits);
}

/// Addresses are stored, shown and told to agents.
#[test]
fn a_key_in_the_address_of_a_repository_is_refused_and_kept_nowhere() {
    let world = World::new();
    let scanner = Scanner::new(all());
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let encoded: String = KEPT.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let keys: Vec<&str> = SHAPES.iter().copied().chain([encoded.as_str()]).collect();
    let places =
        ["KEY@host.test/x.git", "ada:KEY@host.test/x.git", "host.test/x.git?private_token=KEY", "host.test/KEY/x.git"];
    let addresses = |key: &str| places.map(|place| format!("https://{}", place.replace("KEY", key)));
    let mut exits = Vec::new();
    for address in addresses(SHAPES[0]).iter().chain(&addresses(&encoded)[..3]) {
        for command in [&["run", "Mend it", "--repo"][..], &["task", "add", "Mend it", "--repo"], &["repo", "add"]] {
            let ran = world.harvest(&[command, &[address]].concat()).finish();
            assert_eq!(ran.exit, Some(2), "{command:?} {ran:?}");
            assert!(ran.stderr.contains("HV-0107") && ran.stderr.contains("password, query or key"), "{ran:?}");
            exits.push(("command", format!("{ran:?}")));
        }
        settings(&world, &format!("[project.shop]\nrepositories = ['{address}']\n"));
        let ran = world.harvest(&["task", "add", "Mend it"]).finish();
        assert_eq!(ran.exit, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("a key in an address of `repositories`"), "{ran:?}");
        exits.push(("settings", format!("{ran:?}")));
        settings(&world, "");
    }
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    for (key, address) in keys.iter().flat_map(|key| addresses(key).map(|address| (*key, address))) {
        // A secret without a shape is known to the vault alone; in a path it is what somebody called a folder.
        if key == encoded && address.ends_with("/x.git") && !address.contains('@') {
            continue;
        }
        let task = json!({ "prompt": "Mend it", "repository": address });
        let project = json!({ "name": "shop", "repositories": [address] });
        for (path, ask, code) in [
            ("/api/tasks", task, "HV-0107"),
            ("/api/repositories", json!({ "source": address }), "HV-0107"),
            ("/api/projects", project, "HV-0604"),
        ] {
            let answer = admin.post(path, &ask);
            let problem = answer.problem(400, code);
            assert!(text(&problem, "detail").contains("password, query or key"), "{path}: {problem}");
            exits.push((path, answer.text.clone()));
        }
    }
    for (key, place) in SHAPES.iter().flat_map(|key| places.map(|place| (key, place))) {
        let name = format!("repository:https://{}", place.replace("KEY", key));
        let refused = admin.send(Method::PUT, "/api/queue/caps", Some(&json!({ "name": name, "size": 1 })));
        assert!(text(&refused.problem(400, "HV-0604"), "detail").contains("query or key"), "{refused:?}");
        exits.push(("cap", refused.text.clone()));
    }
    let capped =
        world.harvest(&["queue", "cap", &format!("repository:https://{}@host.test/x", SHAPES[0]), "1"]).finish();
    assert_eq!(capped.exit, Some(2), "{capped:?}");
    exits.push(("cap", format!("{capped:?}")));
    assert_eq!(admin.get("/api/queue").ok()["caps"], json!([]));
    for path in ["/api/repositories", "/api/projects", "/api/tasks"] {
        assert_eq!(admin.get(path).ok()["items"], json!([]), "{path}: nothing is left of what was refused");
    }
    assert_nowhere(&world, &scanner, &exits);
}

/// Whoever sees a task sees its servers, and their programs may run beside the agent.
#[test]
fn a_key_in_the_definition_of_an_mcp_server_is_refused_and_kept_nowhere() {
    let world = World::new();
    let scanner = Scanner::new(all());
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let mut exits = Vec::new();
    let mut refused = |args: &[&str], field: &str| {
        let ran = world.harvest(args).finish();
        assert_eq!(ran.exit, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(&format!("`{field}` contains a key")), "{args:?}: {ran:?}");
        exits.push(("command", format!("{ran:?}")));
    };
    for key in all() {
        let add = ["mcp", "add", "tracker"];
        let program = ["--command", "npx"];
        refused(&[&add[..], &program, &["--arg", &format!("--token={key}")]].concat(), "args");
        refused(&[&add[..], &program, &["--env", &format!("TOKEN={key}")]].concat(), "environment");
        refused(&[&add[..], &["--url", &format!("https://mcp.example.com/?key={key}")]].concat(), "url");
    }
    for definition in ["command = 'npx'\nenvironment = { TOKEN = 'KEY' }", "url = 'https://mcp.example.com/?key=KEY'"] {
        let definition = definition.replace("KEY", SHAPES[0]);
        settings(&world, &format!("[mcp.tracker]\n{definition}\n"));
        let field = if definition.starts_with("url") { "url" } else { "environment" };
        refused(&["task", "add", "Mend it", "--mcp", "tracker"], field);
    }
    settings(&world, "");
    assert_eq!(world.tasks().len(), 0);
    assert_nowhere(&world, &scanner, &exits);
}

/// A name that somebody pasted a key into.
#[test]
fn keys_in_names_of_reviewers_and_models_are_kept_nowhere() {
    let world = World::new();
    let (scanner, planted) = (Scanner::new(SHAPES.iter().copied()), SHAPES.join(":"));
    let reviewer = format!("builtin:{planted}");
    let add = ["task", "add", "Mend it", "--plan", "--review-plan", &reviewer, "--model", &planted, "--json"];
    let added = world.harvest(&add).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let shown = world.harvest(&["task", "show", "--json", world.tasks()[0]["id"].as_str().unwrap()]).finish();
    assert!(shown.stdout.contains("[redacted]"), "{shown:?}");
    assert_nowhere(&world, &scanner, &[("add", format!("{added:?}")), ("show", format!("{shown:?}"))]);
}

/// A secret can be any text, also one that Harvest itself uses. Nothing but what people wrote may change by it.
#[test]
fn a_secret_that_is_the_name_of_a_setting_harms_no_task() {
    let world = World::new();
    settings(&world, "[mcp.tracker]\nurl = 'https://mcp.example.com/'\n");
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let words = ["max_turns", "base_branch", "plan_review", "before_deliver", "research-plan-implement", "https://"];
    for (number, secret) in words.iter().enumerate() {
        let ask = json!({ "provider": "mcp", "name": format!("word-{number}"), "secret": secret });
        admin.post("/api/credentials", &ask).ok();
    }
    let options = ["--workflow", "research-plan-implement", "--review-plan", "builtin", "--base", "main", "--json"];
    let added = world.harvest(&[&["task", "add", "Mend it"][..], &options].concat()).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let file = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    let kept: String = file.query_row("SELECT settings FROM tasks", [], |row| row.get(0)).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let wanted = json!(["research-plan-implement", "builtin", 50]);
    assert_eq!(json!([kept["workflow"], kept["plan_review"], kept["max_turns"]]), wanted, "{kept:#}");
    let saved = world.harvest(&[&["schedule", "add", "0 3 * * *", "Mend it"][..], &options[..4]].concat()).finish();
    assert_eq!(saved.exit, Some(0), "{saved:?}");
    let kept: String = file.query_row("SELECT request FROM schedules", [], |row| row.get(0)).unwrap();
    assert!(kept.contains("\"review_plan\"") || kept.contains("\"plan_review\""), "{kept}");
}

#[test]
fn secrets_that_a_command_is_started_with_are_redacted() {
    let world = World::new();
    let token = "tk7canary0of1the2server3";
    let added = world.harvest(&["task", "add", &format!("Ask with {token}"), "--json"]).env("HARVEST_TOKEN", token);
    let added = added.finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let shown = world.harvest(&["task", "list", "--json"]).finish();
    assert!(shown.stdout.contains("Ask with [redacted]") && !shown.stdout.contains("canary"), "{shown:?}");
    // The address of a database names nothing that its errors or logs repeat.
    let address = "postgres://ada:pw7canary0of1the2database3@127.0.0.1:1/harvest";
    let refused = world.harvest(&["task", "add", "Mend it", "--database-url", address]).env("HARVEST_LOG", "trace");
    let refused = refused.finish();
    assert!(refused.exit == Some(2) && !format!("{refused:?}").contains("canary0of1the2database"), "{refused:?}");
}

#[test]
fn a_key_in_the_settings_is_refused() {
    let world = World::new();
    for text in ["test = 'TOKEN=KEY make check'", "hooks = ['before_deliver: curl -H KEY https://a.test']"] {
        settings(&world, &text.replace("KEY", SHAPES[0]));
        let ran = world.harvest(&["task", "add", "Mend it"]).finish();
        assert_eq!(ran.exit, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("contains a key") && !ran.stderr.contains(SHAPES[0]), "{ran:?}");
    }
    settings(&world, "");
}

#[test]
fn nobody_gets_a_token_in_the_name_of_someone_on_github() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    for user in ["github:ada", "ci[bot]", "github:checks[bot]"] {
        let ran = world.harvest(&["token", "create", "--role", "member", "--user", user]).finish();
        assert!(ran.exit == Some(2) && ran.stderr.contains("on GitHub"), "{ran:?}");
        let ask = json!({ "name": "robot", "role": "member", "user": user });
        assert!(text(&admin.post("/api/tokens", &ask).problem(400, "HV-0604"), "detail").contains("on GitHub"));
    }
}

#[test]
fn the_alert_of_a_repository_is_shown_to_admins_alone() {
    let world = World::new();
    let alert = "mail -s 'no snapshot' ada";
    assert_eq!(world.harvest(&["repo", "add", ".", "--setup", "true", "--alert", alert]).finish().exit, Some(0));
    let server = world.serve(&["--agents", "0"]);
    let alert_for = |role: &str| {
        let all = server.with(&world.token(&["--role", role])).get("/api/repositories").ok();
        assert_eq!(all["items"][0]["settings"]["setup"], "true", "{all}");
        all["items"][0]["settings"]["alert"].clone()
    };
    assert_eq!(alert_for("admin"), alert);
    assert_eq!(alert_for("viewer"), Value::Null);
    assert_eq!(alert_for("member"), Value::Null);
}

fn find(folder: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(find(&entry.path(), name));
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
    found
}

/// Title, body and comments of an issue, a review with remarks, a mention, and what a fork is asked to do.
#[test]
fn keys_in_texts_of_github_and_of_forks_are_kept_nowhere() {
    let world = World::new();
    let hub = Hub::new(&world);
    let server = github::serve(&world, &hub, &[]);
    let (scanner, planted) = (Scanner::new(SHAPES.iter().copied()), SHAPES.join(" and "));
    let ada = hub.person("ada");
    let mut mine = Vec::new();
    let mut say = |path: &str, body: Value| {
        ada.post(path, &body).ok();
        mine.push(body);
    };
    let title = format!("Make the failing test pass with {}", SHAPES[0]);
    say("/issues", json!({ "title": title, "body": format!("It needs {planted}") }));
    say("/issues/1/comments", json!({ "body": format!("Or {planted}") }));
    say("/issues/1/labels", json!({ "labels": ["harvest"] }));
    hub.status("Done");
    let remarks = json!([{ "path": "src/two.sh", "line": 1, "body": format!("Say {planted}") }]);
    say(
        "/pulls/2/reviews",
        json!({ "event": "REQUEST_CHANGES", "body": format!("Not {planted}"), "comments": remarks }),
    );
    say("/issues/2/comments", json!({ "body": format!("@harvest and mention {planted}") }));
    let task = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let client = server.with(&world.token(&["--role", "admin"]));
    let of = |shown: &Value| shown["sessions"][0]["turns"].as_array().unwrap().clone();
    let ended = |shown: &Value| of(shown).len() == 3 && of(shown).iter().all(|turn| turn["status"] == "done");
    let shown = github::wait_for(|| Some(client.get(&format!("/api/tasks/{task}")).ok()).filter(ended));
    for (turn, words) in of(&shown).iter().zip(["It needs [redacted]", "Not [redacted]", "and mention [redacted]"]) {
        assert!(turn["prompt"].as_str().unwrap().contains(words), "{words}: {turn:#}");
    }
    let session = shown["sessions"][0]["id"].as_str().unwrap().to_owned();
    let moment = client.get(&format!("/api/sessions/{session}")).ok()["last_seq"].clone();
    let fork = json!({ "at": moment, "prompt": format!("Another way with {planted}") });
    let forked = client.post(&format!("/api/sessions/{session}/fork"), &fork).ok();
    client.journal(forked["sessions"][0]["id"].as_str().unwrap(), 0);
    assert!(forked.to_string().contains("Another way with [redacted]"), "{forked:#}");
    let mut exits = vec![("task", shown.to_string()), ("fork", forked.to_string())];
    for path in
        ["/api/tasks".to_owned(), format!("/api/sessions/{session}"), format!("/api/sessions/{session}/messages")]
    {
        exits.push(("api", client.get(&path).ok().to_string()));
    }
    exits.push(("journal", world.harvest(&["task", "logs", &task, "--json"]).finish().stdout));
    for call in hub.fake.exchanges() {
        let theirs = call.request.filter(|request| !mine.contains(request));
        exits.extend(theirs.map(|request| ("to GitHub", request.to_string())));
    }
    drop(server);
    assert_nowhere(&world, &scanner, &exits);
}

#[test]
fn keys_go_in_at_every_entrance_and_come_out_nowhere() {
    let world = World::new();
    let scanner = Scanner::new(all());
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let planted = all().collect::<Vec<_>>().join(" and ");
    // The model says them, and the agent prints them.
    let print = format!("printf '%s\\n' '{}'", SHAPES.join("' '"));
    let replies = json!([
        { "say": format!("I found {planted}."), "shell": print },
        { "shell": format!("{FIX}; printf '%s' '{}' >&2", SHAPES.join("' '")) },
        { "say": format!("Done: {planted}") },
    ]);
    let prompt = format!("Make the failing test pass with {planted}");
    let script = world.script(&replies);
    let args = ["run", &prompt, "--json", "--log", "trace", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).finish();
    ran.assert_ended(0, "completed", None);
    let mut exits: Vec<(&str, String)> = vec![("stdout", ran.stdout.clone()), ("log", ran.stderr.clone())];
    assert!(ran.stdout.contains("I found [redacted] and [redacted]"), "{}", ran.stdout);
    // Templates and schedules are kept for later.
    let kept = world.harvest(&["template", "add", "canary", &format!("Do it with {planted}")]).finish();
    exits.push(("template", format!("{kept:?}")));
    let listed = world.harvest(&["template", "list", "--json"]).finish();
    exits.push(("templates", format!("{listed:?}")));
    // What is refused repeats what it refuses.
    let refused = world.harvest(&["task", "show", SHAPES[0]]).finish();
    exits.push(("refusal", format!("{refused:?}")));
    let server = world.serve(&[]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let asked = client.post("/api/tasks", &json!({ "prompt": prompt, "repository": planted }));
    exits.push(("problem", asked.json().to_string()));
    let asked = client.post("/api/tasks", &json!({ "prompt": prompt, "repository": world.repo() }));
    exits.push(("api", asked.ok().to_string()));
    // Whatever else a task can be given.
    let given = json!({ "prompt": "Mend it", "repository": world.repo(), "test": format!("echo {planted}"), "convoy": SHAPES[0] });
    let given = client.post("/api/tasks", &given);
    exits.push(("given", given.json().to_string()));
    let schedule = json!({ "cron": "0 3 1 1 *", "task": { "prompt": prompt, "repository": world.repo() } });
    exits.push(("schedule", client.post("/api/schedules", &schedule).json().to_string()));
    exits.push(("tasks", client.get("/api/tasks").ok().to_string()));
    // Words of people beside prompts.
    let session = ran.outcome()["session_id"].as_str().unwrap().to_owned();
    let comment = json!({ "about": { "kind": "event", "seq": 1 }, "text": format!("See {planted}") });
    exits.push(("comment", client.post(&format!("/api/sessions/{session}/comments"), &comment).ok().to_string()));
    drop(server);
    let backup = world.path().join("backup.tar");
    let saved = world.harvest(&["backup", backup.to_str().unwrap()]).finish();
    assert_eq!(saved.exit, Some(0), "{saved:?}");
    for (exit, text) in &exits {
        assert_eq!(scanner.found_in(text.as_bytes()), Vec::<&str>::new(), "{exit}: {text}");
    }
    fs::remove_file(&script).unwrap();
    assert_eq!(scanner.scan(&world.data()), Vec::<String>::new());
    let kept = tempfile::tempdir().unwrap();
    fs::copy(&backup, kept.path().join("backup.tar")).unwrap();
    assert_eq!(scanner.scan(kept.path()), Vec::<String>::new());
}

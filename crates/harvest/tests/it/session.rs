//! Sessions that go on: more prompts, in their order, from what the session has.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::reattach::wait_until;
use crate::support::{FIX, Ran, World, assert_gapless, git};

impl World {
    /// A model that knows several conversations; the first that fits what it is asked is taken.
    pub fn conversations(&self, conversations: &[(&str, Value)]) -> PathBuf {
        let each = |(text, replies): &(&str, Value)| json!({ "when_prompt_contains": text, "replies": replies });
        let script = json!({ "conversations": conversations.iter().map(each).collect::<Vec<_>>() });
        let path = self.path().join("conversations.json");
        std::fs::write(&path, script.to_string()).unwrap();
        path
    }

    /// An agent that is only data: a shell script.
    pub fn add_agent(&self, id: &str, dialect: &str, script: &str) {
        self.add_agent_with(id, dialect, script, "");
    }

    pub fn add_agent_with(&self, id: &str, dialect: &str, script: &str, more: &str) {
        let agents = self.home().join(".config/harvest/agents");
        std::fs::create_dir_all(&agents).unwrap();
        let text = format!(
            "[[agent]]\nid = \"{id}\"\nname = \"{id}\"\nproviders = [\"openai\"]\ndialect = \"{dialect}\"\nprompt = \"stdin\"\n\
             command = \"/bin/sh\"\narguments = [\"-c\", '''{script}''']\ninstall_hint = \"It is a shell.\"\n{more}\n"
        );
        std::fs::write(agents.join(format!("{id}.toml")), text).unwrap();
    }

    pub fn work_off(&self, conversations: &[(&str, Value)]) -> Ran {
        let script = self.conversations(conversations);
        let ran = self.harvest(&["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()]).finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        ran
    }

    pub fn journal(&self, task: &str) -> Vec<Value> {
        let journal = self.harvest(&["task", "logs", task, "--json"]).finish().events();
        assert_gapless(&journal);
        journal
    }
}

pub fn of_type<'j>(journal: &'j [Value], kind: &str) -> Vec<&'j Value> {
    journal.iter().filter(|event| event["type"] == kind).map(|event| &event["data"]).collect()
}

#[test]
fn a_follow_up_goes_on_from_what_the_session_has() {
    let world = World::new();
    let ran = world.run(&json!([{ "say": "I will mend it.", "shell": FIX }, { "say": "Mended." }]), &[]);
    let first = ran.assert_ended(0, "completed", None);
    let task = first["task_id"].as_str().unwrap();
    let queued = world.json(&["session", "prompt", task, "Now write it down"]);
    assert_eq!((&queued["number"], &queued["status"]), (&json!(2), &json!("ready")), "{queued:#}");
    let shown = world.json(&["session", "show", first["session_id"].as_str().unwrap()]);
    assert_eq!((&shown["task"]["status"], &shown["turns"][1]), (&json!("pending"), &queued), "{shown:#}");
    world.work_off(&[
        // What was said is told to an agent that cannot remember it.
        ("write it down", json!([{ "expect": "Mended.", "shell": "cat src/two.sh > NOTES" }, { "say": "Written." }])),
    ]);
    let shown = world.json(&["task", "show", task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(first["branch"], branch, "the same branch");
    assert_eq!(git(&world.repo(), &["show", &format!("{branch}:NOTES")]), "echo two", "it began with what was there");
    let log = git(&world.repo(), &["log", "--format=%H", &format!("{}..{branch}", first["base"].as_str().unwrap())]);
    assert_eq!(log.lines().nth(1), first["commit"].as_str(), "behind the first turn's commit");
    assert_eq!(shown["evidence"]["baseline"]["exit_code"], 1, "proved against the base: {shown:#}");
    let journal = world.journal(task);
    let changed: Vec<_> = of_type(&journal, "file.changed").iter().map(|change| &change["path"]).collect();
    assert_eq!(changed, ["src/two.sh", "NOTES"], "each turn tells what it changed itself");
    assert_eq!(of_type(&journal, "task.finished").len(), 2);
    world.assert_nothing_left();
}

#[test]
fn a_session_whose_work_was_collected_goes_on_from_its_branch() {
    let world = World::new();
    let first = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let task = first["task_id"].as_str().unwrap();
    let session = first["session_id"].as_str().unwrap();
    wait_until("its work is collected", || {
        world.json(&["gc", "--older-than", "1s"])["removed"].to_string().contains(session)
    });
    world.json(&["session", "prompt", task, "Now write it down"]);
    world.work_off(&[("write it down", json!([{ "shell": "cat src/two.sh > NOTES" }, {}]))]);
    let shown = world.json(&["task", "show", task]);
    assert_eq!((&shown["status"], &shown["branch"]), (&json!("completed"), &first["branch"]), "{shown:#}");
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(git(&world.repo(), &["show", &format!("{branch}:NOTES")]), "echo two", "it began with what was there");
}

#[test]
fn prompts_sent_while_the_agent_works_wait_and_keep_their_order() {
    let world = World::new();
    let task = world.json(&["task", "add", "Begin"])["id"].as_str().unwrap().to_owned();
    let script = world.conversations(&[
        ("third thing", json!([{ "shell": "echo 3 >> order" }, {}])),
        ("second thing", json!([{ "shell": "echo 2 >> order" }, {}])),
        ("Begin", json!([{ "shell": format!("{FIX}; echo 1 >> order") }, { "stall": "3s", "say": "Begun." }])),
    ]);
    let mut up = world.harvest(&["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()]).start();
    up.wait_for("the start", |notice| notice["type"] == "started");
    let second = world.json(&["session", "prompt", &task, "Do the second thing"]);
    let third = world.json(&["session", "prompt", &task, "Do the third thing"]);
    assert_eq!((&second["status"], &third["status"]), (&json!("queued"), &json!("queued")));
    let ran = up.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let shown = world.json(&["task", "show", &task]);
    let order = git(&world.repo(), &["show", &format!("{}:order", shown["branch"].as_str().unwrap())]);
    assert_eq!(order, "1\n2\n3");
    let statuses: Vec<_> =
        shown["sessions"][0]["turns"].as_array().unwrap().iter().map(|turn| &turn["status"]).collect();
    assert_eq!(statuses, ["done"; 3]);
    world.assert_nothing_left();
}

#[test]
fn a_stopped_session_goes_on_with_another_prompt() {
    let world = World::new();
    let stuck = json!([{ "shell": format!("{FIX} && git add . && git commit -qm half") }, { "stall": "60s" }]);
    let mut run = world.run_with(&stuck, &[]).start();
    run.wait_for("the first half", |event| event["type"] == "tool.result");
    run.signal(rustix::process::Signal::INT);
    let stopped = run.finish().assert_ended(3, "cancelled", Some("cancelled"));
    let task = stopped["task_id"].as_str().unwrap();
    let mut follow = world.harvest(&["session", "prompt", task, "Do the other half", "--follow", "--json"]).start();
    follow.wait_for_type("turn.queued");
    world.work_off(&[("other half", json!([{ "shell": "cp src/two.sh src/half.sh" }, {}]))]);
    let followed = follow.finish();
    assert_eq!(followed.exit, Some(0), "{followed:?}");
    let events: Vec<Value> = followed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "turn.queued", "nothing of what was before it");
    let outcome = &events.last().unwrap()["data"];
    assert_eq!(outcome["status"], "completed");
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(git(&world.repo(), &["show", &format!("{branch}:src/half.sh")]), "echo two");
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let world = World::new();
    let task = world.json(&["task", "add", "Begin"])["id"].as_str().unwrap().to_owned();
    for (args, code) in [
        (vec!["session", "prompt", "zzzz", "x"], "HV-0154"),
        (vec!["session", "show", "%"], "HV-0154"),
        (vec!["session", "prompt", &task, " "], "HV-0111"),
        (vec!["session", "prompt", &task, "x", "--agent", "nobody"], "HV-0121"),
    ] {
        let ran = world.harvest(&args).finish();
        assert!(ran.exit == Some(2) && ran.stderr.starts_with(&format!("error[{code}]")), "{args:?}: {ran:?}");
    }
    let once = ["session", "prompt", &task, "x", "--idempotency-key", "k"];
    assert_eq!(world.json(&once), world.json(&once));
    assert_eq!(world.json(&["session", "show", &task])["turns"].as_array().unwrap().len(), 2);
}

#[test]
fn a_fork_goes_on_from_a_moment_of_another_session() {
    let world = World::new();
    let replies = json!([
        { "say": "I begin with one.", "shell": format!("{FIX}; echo 1 > state") },
        { "delay": "4s", "say": "Now two.", "shell": "echo 2 > state" },
        { "delay": "4s", "say": "Done." },
    ]);
    let mut run = world.run_with(&replies, &[]).start();
    let saved = run.wait_for_type("checkpoint.created");
    let (session, at) = (saved["session_id"].as_str().unwrap(), saved["seq"].as_u64().unwrap());
    // While the other is at work.
    let at = at.to_string();
    let fork = world.json(&["session", "fork", session, "--at", &at, "Look at it"]);
    let first = run.finish().assert_ended(0, "completed", None);
    assert_eq!(world.show(&format!("{}:state", first["branch"].as_str().unwrap())), "2");
    // And after its end.
    let number = saved["data"]["number"].to_string();
    let late = world.json(&["session", "restore", session, "--checkpoint", &number]);
    let look = json!([{ "expect": "I begin with one.", "shell": "cp state seen" }, {}]);
    world.work_off(&[("Look at it", look.clone()), ("Go on with the work", look)]);
    for fork in [fork, late] {
        let shown = world.json(&["task", "show", fork["id"].as_str().unwrap()]);
        assert_eq!((&shown["status"], &shown["base"]), (&json!("completed"), &first["base"]), "{shown:#}");
        let origin = &shown["settings"]["origin"];
        assert_eq!((&origin["session"], &origin["seq"]), (&json!(session), &saved["seq"]));
        let branch = shown["branch"].as_str().unwrap();
        assert_ne!(first["branch"], branch);
        assert_eq!(world.show(&format!("{branch}:seen")), "1", "as it was then, not as it became");
    }
    for (at, why) in [
        ("99999", "there is no event 99999"),
        ("1", "nothing of the session's work was saved"),
        ("0", "there is no event 0"),
    ] {
        let refused = world.harvest(&["session", "fork", session, "--at", at]).finish();
        assert!(refused.exit == Some(2) && refused.stderr.starts_with("error[HV-0155]"), "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
        let way_out = format!("harvest task logs {} --json", &session[..8]);
        assert!(refused.stderr.contains(&way_out), "{refused:?}");
    }
    let missing = world.harvest(&["session", "restore", session, "--checkpoint", "999"]).finish();
    assert!(missing.exit == Some(2) && missing.stderr.starts_with("error[HV-0155]"), "{missing:?}");
    assert!(
        missing.stderr.contains("has no checkpoint 999") && missing.stderr.contains("it has checkpoints from"),
        "{missing:?}"
    );
    let unknown = world.harvest(&["session", "fork", "zzzz", "--at", "3"]).finish();
    assert!(unknown.stderr.starts_with("error[HV-0154]"), "{unknown:?}");
    world.assert_nothing_left();
}

#[test]
fn another_agent_goes_on_when_there_is_no_more_quota() {
    let world = World::new();
    // Two that are only data: one that says what Claude Code says when it has no more quota, one that repeats what it is told.
    let limited = format!(
        r#"echo '{{"type":"assistant","message":{{"content":[{{"type":"text","text":"I begin."}}]}}}}'; {FIX}
        echo '{{"type":"assistant","error":"rate_limit","message":{{"content":[{{"type":"text","text":"No more."}}]}}}}'
        echo '{{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["rate limit"]}}'; exit 1"#
    );
    world.add_agent("limited", "claude_code", &limited);
    world.add_agent("parrot", "text", "cat; cp src/two.sh src/copy.sh");
    let ran = world.run(&json!([{}]), &["--agent", "limited", "--fallback-agent", "parrot"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(world.show(&format!("{}:src/copy.sh", outcome["branch"].as_str().unwrap())), "echo two");
    let task = outcome["task_id"].as_str().unwrap();
    let said: Vec<Value> = ran.of_type("message");
    let repeated =
        said.iter().filter(|message| message["text"].as_str().is_some_and(|text| text.ends_with("I begin."))).count();
    assert_eq!(repeated, 2, "it was told what was said: {said:#?}");
    // By hand it is another turn.
    world.json(&["session", "continue", task, "--agent", "parrot", "Say it again"]);
    world.work_off(&[("never", json!([{}]))]);
    let journal = world.journal(task);
    let started: Vec<_> = of_type(&journal, "agent.started").iter().map(|started| &started["agent"]).collect();
    assert_eq!(started, ["limited", "parrot", "parrot"]);
}

/// Prints what Claude Code prints at its start, which names the conversation.
const INIT: &str = r#"echo '{"type":"system","subtype":"init","session_id":"c-1"}'"#;
const MENDED: &str = r#"echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Mended."}]}}'"#;
const END: &str = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":""}'"#;

#[test]
fn what_an_agent_keeps_of_its_conversation_is_there_again() {
    let world = World::new();
    let first = format!("{INIT}; {FIX}; mkdir -p $HOME/.keeper/deep; cat > $HOME/.keeper/deep/log; {MENDED}; {END}");
    let again = format!("{INIT}; (echo $1; cat $HOME/.keeper/deep/log; cat) > remembered; {MENDED}; {END}");
    let resume = format!("resume_arguments = [\"-c\", '''{again}''', \"sh\", \"{{conversation}}\"]");
    world.add_agent_with("keeper", "claude_code", &first, &format!("state = [\".keeper\"]\n{resume}"));
    let ran = world.run(&json!([{}]), &["--agent", "keeper"]);
    let task = ran.assert_ended(0, "completed", None)["task_id"].as_str().unwrap().to_owned();
    let kept = &ran.of_type("conversation.kept")[0];
    assert_eq!((&kept["agent"], &kept["name"]), (&json!("keeper"), &json!("c-1")));
    world.json(&["session", "prompt", &task, "And now?"]);
    world.work_off(&[("never", json!([{}]))]);
    let shown = world.json(&["task", "show", &task]);
    let remembered = world.show(&format!("{}:remembered", shown["branch"].as_str().unwrap()));
    let (before, now) =
        (remembered.strip_prefix("c-1\nMake the failing test pass\n"), remembered.ends_with("\nAnd now?"));
    assert!(before.is_some() && now, "{remembered}");
    assert_eq!(remembered.matches("## How to work here").count(), 1, "it is told nothing that it remembers");
    let branch = git(&world.repo(), &["ls-tree", "-r", "--name-only", shown["branch"].as_str().unwrap()]);
    assert!(!branch.contains("keeper"), "what it keeps is not part of the work: {branch}");
}

#[test]
fn an_agent_that_cannot_go_on_with_its_conversation_is_told_what_was_said() {
    let world = World::new();
    let first =
        format!("{INIT}; {FIX}; mkdir -p $HOME/.keeper; echo x > $HOME/.keeper/log; cat > told; {MENDED}; {END}");
    let more = "state = [\".keeper\"]\nresume_arguments = [\"-c\", \"echo no such conversation >&2; exit 1\"]";
    world.add_agent_with("forgetful", "claude_code", &first, more);
    let ran = world.run(&json!([{}]), &["--agent", "forgetful"]);
    let task = ran.assert_ended(0, "completed", None)["task_id"].as_str().unwrap().to_owned();
    world.json(&["session", "prompt", &task, "And now?"]);
    world.work_off(&[("never", json!([{}]))]);
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let told = world.show(&format!("{}:told", shown["branch"].as_str().unwrap()));
    assert!(
        told.contains("Make the failing test pass") && told.contains("Mended.") && told.starts_with("And now?\n"),
        "{told}"
    );
    let journal = world.journal(&task);
    assert_eq!(of_type(&journal, "agent.started").len(), 3, "once more in the same turn");
    let warned = of_type(&journal, "warning")
        .iter()
        .any(|warning| warning["message"].as_str().unwrap().contains("could not continue"));
    assert!(warned, "{journal:#?}");
}

#[test]
fn a_conversation_that_is_too_large_is_not_kept_and_keeps_nothing_else_from_coming_out() {
    let world = World::new();
    let first = format!(
        "{INIT}; {FIX}; mkdir -p $HOME/.keeper; head -c 70000000 /dev/zero | tr '\\0' x > $HOME/.keeper/log; {MENDED}; {END}"
    );
    world.add_agent_with("hoarder", "claude_code", &first, "state = [\".keeper\"]\nresume_arguments = []");
    let ran = world.run(&json!([{}]), &["--agent", "hoarder"]);
    ran.assert_ended(0, "completed", None);
    assert_eq!(ran.of_type("conversation.kept"), Vec::<Value>::new());
    let warning = ran.of_type("warning");
    assert!(
        warning.iter().any(|warning| warning["message"].as_str().unwrap().contains("larger than 64 MiB")),
        "{warning:#?}"
    );
}

//! The same task for several: the verified one wins, then the cheaper, and only its work is delivered.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::killed::journal;
use crate::support::{FIX, World, git};

/// Everyone in a race by the name of its model.
fn entrants(world: &World, race: &str) -> BTreeMap<String, Value> {
    let shown = world.json(&["race", "show", race]);
    let items = shown["items"].as_array().unwrap().iter();
    items.map(|item| (item["model"].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
}

/// One breaks the tests, one takes for ever, one mends it. How soon the loser is stopped is measured by `make bench ARGS=recovery`.
#[test]
fn the_verified_one_wins_and_the_others_are_stopped() {
    let world = World::new();
    let tokens = json!({ "input": 1000, "output": 100 });
    // The built-in agent tells the model its name; the script answers by the prompt alone, so the prompts differ by agent.
    world.add_agent("breaks", "text", "echo broken > src/one.sh; echo Done.");
    world.add_agent("hangs", "text", "echo x > junk; sleep 987654");
    world.add_agent("mends", "text", &format!("sleep 1; {FIX}; echo Done."));
    let script = world.script(&json!([{ "tokens": tokens }]));
    let added = world.json(&["task", "add", "Mend it", "--race", "breaks,hangs,mends", "--judged-by", "time"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.json(&["race", "show", &race])["items"].as_array().unwrap().len(), 3);
    let up = world.worker(&script, &["--until-empty", "--agents", "3"]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let shown = world.json(&["race", "show", &race]);
    let by_agent: BTreeMap<&str, &Value> =
        shown["items"].as_array().unwrap().iter().map(|item| (item["agent"].as_str().unwrap(), item)).collect();
    let status = |agent: &str| by_agent[agent]["status"].as_str().unwrap();
    assert_eq!((status("breaks"), status("hangs"), status("mends")), ("failed", "cancelled", "completed"), "{shown:#}");
    assert_eq!(shown["winner"], by_agent["mends"]["task_id"]);
    assert!(by_agent["hangs"]["error"].as_str().unwrap().contains("lost the race"), "{shown:#}");
    // Only the winner's branch is there, and nobody's work is lost.
    let branches = git(&world.repo(), &["branch", "--list", "harvest/*", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    assert_eq!(world.show(&format!("{branches}:src/two.sh")), "echo two");
    let diff = world.harvest(&["task", "diff", by_agent["hangs"]["task_id"].as_str().unwrap()]).finish();
    assert!(diff.stdout.contains("junk"), "{diff:?}");
    world.assert_nothing_left();
}

/// With one agent's place they run one after the other: who waits for the verdict takes none.
#[test]
fn the_cheaper_of_two_that_pass_wins_even_with_one_place() {
    let world = World::new();
    let dear = json!([{ "shell": format!("{FIX}; echo more > more"), "tokens": { "input": 9000, "output": 1 } }, {}]);
    let conversations = json!([
        { "when_prompt_contains": "Mend it", "replies": dear },
    ]);
    let path = world.path().join("dear.json");
    let price = json!({ "input_per_mtok": 10.0, "output_per_mtok": 10.0 });
    std::fs::write(&path, json!({ "price": price, "conversations": conversations }).to_string()).unwrap();
    let added = world.json(&["task", "add", "Mend it", "--race", "builtin:one,builtin:two"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap();
    let up = world.worker(&path, &["--until-empty", "--agents", "1"]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let entrants = entrants(&world, race);
    let statuses: Vec<&str> = entrants.values().map(|entrant| entrant["status"].as_str().unwrap()).collect();
    // Both cost the same and changed as much: there is one winner all the same.
    assert_eq!(statuses.iter().filter(|status| **status == "completed").count(), 1, "{entrants:#?}");
    assert_eq!(statuses.iter().filter(|status| **status == "cancelled").count(), 1, "{entrants:#?}");
    assert!(entrants.values().all(|entrant| entrant["passed"] == true && entrant["changed_lines"].as_u64() > Some(0)));
    world.assert_nothing_left();
}

#[test]
fn a_race_in_the_foreground_ends_with_its_winner() {
    let world = World::new();
    world.add_agent("breaks", "text", "echo broken > src/one.sh; echo Done.");
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let args = ["run", "Mend it", "--json", "--race", "breaks,builtin", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let ended: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == "task.finished")
        .collect();
    assert_eq!(ended.len(), 2);
    assert_eq!(ended.iter().filter(|event| event["data"]["status"] == "completed").count(), 1);
    world.assert_nothing_left();
    let tasks = world.tasks();
    let winner = tasks.iter().find(|task| task["status"] == "completed").unwrap()["id"].as_str().unwrap();
    let page = world.harvest(&["race", "show", winner]).finish().stdout;
    assert!(page.contains("won: the only entrant that passed"), "{page}");
    assert!(page.contains(&format!("next  harvest task apply {}", &winner[..8])), "{page}");
    for (args, code) in [
        (vec!["run", "x", "--race", "1"], "HV-0141"),
        (vec!["run", "x", "--race", "builtin"], "HV-0141"),
        (vec!["run", "x", "--race", "builtin,nobody", "--model-script", script.to_str().unwrap()], "HV-0121"),
        (vec!["race", "show", "zzzz"], "HV-0151"),
    ] {
        let refused = world.harvest(&args).finish();
        assert!(refused.exit == Some(2) && refused.stderr.contains(code), "{args:?}: {refused:?}");
    }
}

fn branches(world: &World) -> Vec<String> {
    let found = git(&world.repo(), &["branch", "--list", "harvest/*", "--format=%(refname:short)"]);
    found.lines().map(str::to_owned).collect()
}

/// A worker dies with the verdict in its hands: the next one comes to the same, though it might have judged otherwise by then.
#[test]
fn who_has_won_has_won_for_good() {
    let world = World::new();
    let tokens = json!({ "input": 1000, "output": 100 });
    let script = world.script(&json!([{ "shell": FIX, "tokens": tokens }, {}]));
    let added = world.json(&["task", "add", "Mend it", "--race", "builtin:one,builtin:two"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap();
    let died = world
        .worker(&script, &["--until-empty", "--agents", "2"])
        .env("HARVEST_FAILPOINTS", "race::won=return(crash)")
        .finish();
    assert_ne!(died.exit, Some(0), "{died:?}");
    let winner = world.json(&["race", "show", race])["winner"].clone();
    assert!(winner.is_string(), "the store knows who has won");
    let up = world.worker(&script, &["--until-empty"]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let over = world.json(&["race", "show", race]);
    assert_eq!(over["winner"], winner);
    let completed: Vec<&Value> =
        over["items"].as_array().unwrap().iter().filter(|row| row["status"] == "completed").collect();
    assert_eq!(completed.len(), 1, "{over:#}");
    assert_eq!(completed[0]["task_id"], winner);
    assert_eq!(branches(&world).len(), 1);
    world.assert_nothing_left();
}

/// What is asked of an entrant later is no race, and what is tried on its side neither.
#[test]
fn a_loser_that_is_asked_for_more_delivers_and_its_fork_races_with_nobody() {
    let world = World::new();
    world.add_agent("idles", "text", "echo x > junk; echo Done.");
    world.add_agent("mends", "text", &format!("{FIX}; echo Done."));
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let added = world.json(&["task", "add", "Mend it", "--race", "idles,mends", "--judged-by", "time"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap();
    assert_eq!(world.worker(&script, &["--until-empty"]).finish().exit, Some(0));
    let over = world.json(&["race", "show", race]);
    let loser = over["items"].as_array().unwrap().iter().find(|row| row["agent"] == "idles").unwrap().clone();
    let session = loser["session_id"].as_str().unwrap();
    let asked = world.harvest(&["session", "prompt", session, "Mend it now", "--agent", "mends"]).finish();
    assert_eq!(asked.exit, Some(0), "{asked:?}");
    let seq = journal(&world, loser["task_id"].as_str().unwrap()).last().unwrap()["seq"].to_string();
    let forked = world.json(&["session", "fork", session, "--at", &seq, "Mend it beside", "--agent", "mends"]);
    assert_eq!(world.worker(&script, &["--until-empty"]).finish().exit, Some(0));
    let task = world.json(&["task", "show", loser["task_id"].as_str().unwrap()]);
    assert_eq!(task["status"], "completed", "{task:#}");
    let fork = forked["id"].as_str().unwrap();
    let fork = world.json(&["task", "show", fork]);
    assert_eq!((&fork["convoy"], &fork["settings"]["race"]), (&Value::Null, &Value::Null), "{fork:#}");
    let again = world.json(&["race", "show", race]);
    assert_eq!((&again["winner"], again["items"].as_array().unwrap().len()), (&over["winner"], 2), "{again:#}");
    assert!(branches(&world).len() >= 2, "{:?}", branches(&world));
}

/// Who waits for the verdict takes no place under a cap either.
#[test]
fn a_cap_smaller_than_the_race_holds_nobody_up() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let repo = world.repo();
    let cap = format!("repository:{}", repo.display());
    assert_eq!(world.harvest(&["queue", "cap", &cap, "1"]).finish().exit, Some(0));
    let added = world.json(&["task", "add", "Mend it", "--race", "builtin:one,builtin:two"]);
    let up = world.worker(&script, &["--until-empty", "--agents", "2"]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let entrants = entrants(&world, added["settings"]["race"]["id"].as_str().unwrap());
    assert!(entrants.values().all(|entrant| entrant["passed"] == true), "{entrants:#?}");
    let status = world.json(&["status"]);
    assert!(status.to_string().contains(r#""used":0"#), "{status:#}");
    world.assert_nothing_left();
}

#[test]
fn a_race_that_is_queued_says_its_warnings_once() {
    let world = World::new();
    std::fs::write(world.repo().join("two.sh"), "exit 1\n").unwrap();
    let added = world.harvest(&["task", "add", "Mend it", "--race", "builtin:one,builtin:two"]).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    assert_eq!(added.stderr.matches("uncommitted changes").count(), 1, "{added:?}");
}

/// A worker that takes no more work leaves those who wait to the next one.
#[test]
fn a_worker_that_ends_lets_go_of_who_waits_for_the_verdict() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let added = world.json(&["task", "add", "Mend it", "--race", "builtin:one,builtin:two"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap();
    let first = world.worker(&script, &["--max-tasks", "1", "--agents", "1"]).finish();
    assert_eq!(first.exit, Some(0), "{first:?}");
    let begun = world.json(&["race", "show", race]);
    let rows = begun["items"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["status"] == "pending"), "{begun:#}");
    assert_eq!(rows.iter().filter(|row| row["passed"] == true).count(), 1, "{begun:#}");
    let up = world.worker(&script, &["--until-empty", "--agents", "1"]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let over = world.json(&["race", "show", race]);
    let mut statuses: Vec<&str> =
        over["items"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["cancelled", "completed"], "{over:#}");
    // What was done before was not done again.
    for row in over["items"].as_array().unwrap() {
        let events = journal(&world, row["task_id"].as_str().unwrap());
        assert_eq!(events.iter().filter(|event| event["type"] == "agent.started").count(), 1);
    }
    world.assert_nothing_left();
}

#[test]
fn of_a_killed_race_nothing_is_delivered_and_everything_kept() {
    let world = World::new();
    world.add_agent("waits", "text", "echo x > junk; git add junk; git commit -qm junk; sleep 987654");
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let args = ["run", "Mend it", "--json", "--race", "waits,builtin", "--model-script", script.to_str().unwrap()];
    let mut running = world.harvest(&args).start();
    running.wait_for_type("race.placed");
    running.signal(Signal::KILL);
    running.finish();
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 2);
    for task in &tasks {
        assert_eq!((&task["status"], &task["branch"]), (&json!("failed"), &Value::Null), "{task:#}");
    }
    assert_eq!(branches(&world), Vec::<String>::new());
    let mended = tasks.iter().find(|task| task["agent"] == "builtin").unwrap();
    let diff = world.harvest(&["task", "diff", mended["id"].as_str().unwrap()]).finish();
    assert!(diff.stdout.contains("src/two.sh"), "{diff:?}");
    world.assert_nothing_left();
}

#[test]
fn races_are_counted_for_agents_and_models() {
    let world = World::new();
    world.add_agent("breaks", "text", "echo broken > src/one.sh; echo Done.");
    world.add_agent("mends", "text", &format!("{FIX}; echo Done."));
    let script = world.script(&json!([{}]));
    assert_eq!(world.harvest(&["stats"]).finish().stderr, "no task has ended in that time\n");
    world.json(&["task", "add", "Mend it", "--race", "breaks,mends", "--judged-by", "time"]);
    assert_eq!(world.worker(&script, &["--until-empty"]).finish().exit, Some(0));
    let stats = world.json(&["stats", "--by", "agent"]);
    let sums: Vec<_> = stats["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["key"].as_str().unwrap(),
                one["races"].as_u64().unwrap(),
                one["wins"].as_u64().unwrap(),
                &one["win_rate"],
            )
        })
        .collect();
    assert_eq!(sums, [("breaks", 1, 0, &json!(0.0)), ("mends", 1, 1, &json!(1.0))]);
    assert_eq!((&stats["total"]["races"], &stats["total"]["win_rate"]), (&json!(2), &json!(0.5)));
    let shown = world.harvest(&["stats", "--by", "agent"]).finish();
    let rows: Vec<Vec<&str>> = shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["AGENT", "COMPLETED", "FAILED", "CANCELLED", "COST", "WINS"], "{shown:?}");
    assert!(rows[2].starts_with(&["mends", "1", "0", "0"]) && rows[2].ends_with(&["1", "of", "1"]), "{shown:?}");
    assert!(rows[3].starts_with(&["total"]) && rows[3].ends_with(&["1", "of", "2"]), "{shown:?}");
    let convoys = world.harvest(&["convoy", "list"]).finish();
    assert!(convoys.stdout.contains("won; 1 of 2 entrants did not win"), "{convoys:?}");
    let bad = world.harvest(&["stats", "--from", "yesterday"]).finish();
    assert_eq!(bad.exit, Some(2), "{bad:?}");
}

/// Two that pass, of which the second has changed more, and whoever judges them.
fn judged(world: &World, judge: &str) -> Value {
    world.add_agent("brief", "text", &format!("{FIX}; echo Done."));
    world.add_agent("wordy", "text", &format!("{FIX}; echo spam > more; echo Done."));
    world.add_agent("judge", "text", judge);
    let script = world.script(&json!([{}]));
    let added = world.json(&["task", "add", "Mend it", "--race", "brief,wordy", "--judge", "judge"]);
    let up = world.worker(&script, &["--until-empty", "--agents", "2"]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    world.assert_nothing_left();
    world.json(&["race", "show", added["settings"]["race"]["id"].as_str().unwrap()])
}

#[test]
fn a_judge_that_has_seen_all_works_says_which_is_the_best() {
    let world = World::new();
    let over = judged(
        &world,
        "asked=$(cat); touch junk; case $asked in *'Mend it'*'Number 1'*two.sh*'Number 2'*spam*) \
         echo 'WINNER: 2'; echo It has more.;; esac",
    );
    let [brief, wordy] = over["items"].as_array().unwrap().as_slice() else { panic!("{over:#}") };
    assert_eq!(
        (&over["winner"], &wordy["status"], &brief["status"]),
        (&wordy["task_id"], &json!("completed"), &json!("cancelled"))
    );
    assert_eq!(over["judgement"], json!({ "agent": "judge", "reason": "It has more." }));
    assert_eq!(wordy["verdict"], "won: chosen by judge");
    assert_eq!(brief["verdict"], "passes, but judge finds another better");
    // Who would have won without it has asked, once.
    let told = |row: &Value, kind: &str| {
        let events = journal(&world, row["task_id"].as_str().unwrap());
        events.into_iter().filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect::<Vec<_>>()
    };
    let [judgement] = told(brief, "race.judged").try_into().unwrap();
    assert_eq!((&judgement["winner"], &judgement["agent"]), (&wordy["task_id"], &json!("judge")));
    let purposes: Vec<Value> = told(brief, "sandbox.ready").iter().map(|ready| ready["purpose"].clone()).collect();
    assert_eq!(purposes.iter().filter(|purpose| **purpose == "opinion").count(), 1, "{purposes:?}");
    assert_eq!(told(wordy, "race.judged").len(), 0);
    assert_eq!(told(wordy, "agent.started").len(), 1);
    // Only the winner's work has left, and nothing of the judge's.
    let branch = branches(&world).join(" ");
    assert_eq!(world.show(&format!("{branch}:more")), "spam");
    let diff = world.harvest(&["task", "diff", brief["task_id"].as_str().unwrap()]).finish();
    assert!(diff.stdout.contains("two.sh") && !diff.stdout.contains("junk"), "{diff:?}");
}

#[test]
fn a_judge_that_says_nothing_of_use_leaves_it_to_cost_and_size() {
    let world = World::new();
    let over = judged(&world, "echo I like them both.");
    let [brief, _] = over["items"].as_array().unwrap().as_slice() else { panic!("{over:#}") };
    assert_eq!((&over["winner"], &over["judgement"]), (&brief["task_id"], &Value::Null), "{over:#}");
    let events = journal(&world, brief["task_id"].as_str().unwrap());
    let warned = |event: &&Value| event["type"] == "warning" && event.to_string().contains("without its judge");
    assert_eq!(events.iter().filter(warned).count(), 1);
    let script = world.script(&json!([{}]));
    for (args, code) in [
        (vec!["task", "add", "x", "--judge", "builtin"], "HV-0141"),
        (vec!["run", "x", "--race", "2", "--judge", "nobody", "--model-script", script.to_str().unwrap()], "HV-0121"),
    ] {
        let refused = world.harvest(&args).finish();
        assert!(refused.exit == Some(2) && refused.stderr.contains(code), "{args:?}: {refused:?}");
    }
}

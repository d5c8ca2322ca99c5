//! The same task for several: the verified one wins, then the cheaper, and only its work is delivered.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::killed::journal;
use crate::support::{FIX, World, git};

/// What the sandboxes of losers may outlive the verdict by, on a machine that does other things as well.
const GONE: Duration = Duration::from_secs(1);
const BUSY: u32 = 4;

/// Everyone in a race by the name of its model.
fn entrants(world: &World, race: &str) -> BTreeMap<String, Value> {
    let shown = world.json(&["race", "show", race]);
    let items = shown["items"].as_array().unwrap().iter();
    items.map(|item| (item["model"].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
}

fn at(event: &Value) -> SystemTime {
    let at: harvest_core::Timestamp = event["at"].as_str().unwrap().parse().unwrap();
    at.into()
}

/// One breaks the tests, one takes for ever, one mends it.
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
    let race = added["race"]["id"].as_str().unwrap().to_owned();
    assert_eq!(added["items"].as_array().unwrap().len(), 3);
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
    let decided = journal(&world, by_agent["mends"]["task_id"].as_str().unwrap());
    let verdict = decided.iter().find(|event| event["type"] == "race.decided").unwrap();
    let loser = journal(&world, by_agent["hangs"]["task_id"].as_str().unwrap());
    let gone = at(loser.last().unwrap()).duration_since(at(verdict)).unwrap_or_default();
    println!("the loser was gone {gone:?} after the verdict");
    assert!(gone < GONE * BUSY, "{gone:?}");
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
    let race = added["race"]["id"].as_str().unwrap();
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

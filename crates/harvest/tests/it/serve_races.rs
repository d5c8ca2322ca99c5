//! Races, rehearsals and the logs of builds over the API: what the page asks for.

use serde_json::{Value, json};

use crate::support::{FIX, World};

#[test]
fn a_race_is_asked_for_with_one_request_and_everyone_is_told_why() {
    let world = World::new();
    world.add_agent("breaks", "text", "echo broken > src/one.sh; echo Done.");
    world.add_agent("mends", "text", &format!("{FIX}; echo Done."));
    let server = world.serve_with(&json!([{}]), &["--agents", "2"]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let race = |race: Value| {
        let mut ask = world.ask("Mend it");
        ask["race"] = race;
        ask
    };
    let keyed = client.clone().header("idempotency-key", "one race");
    let asked = race(json!({ "agents": ["breaks", "mends"], "judged_by": "cost" }));
    let task = keyed.post("/api/tasks", &asked).ok();
    let id = task["settings"]["race"]["id"].as_str().unwrap().to_owned();
    assert_eq!(task["convoy"], json!(id));
    let again = keyed.post("/api/tasks", &asked).ok();
    assert_eq!(again["id"], task["id"], "the same key asks for nothing new");
    let path = format!("/api/races/{id}");
    let begun = client.get(&path).ok();
    let rows = begun["items"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{begun:#}");
    for row in rows {
        client.journal(row["session_id"].as_str().unwrap(), 0);
    }
    let over = client.get(&path).ok();
    let [breaks, mends] = over["items"].as_array().unwrap().as_slice() else { panic!("{over:#}") };
    assert_eq!((&over["winner"], &over["judged_by"]), (&mends["task_id"], &json!("cost")));
    assert_eq!((&mends["verdict"], &mends["passed"]), (&json!("won: the only entrant that passed"), &json!(true)));
    assert_eq!((&breaks["status"], &breaks["passed"]), (&json!("failed"), &json!(false)));
    assert_eq!(breaks["verdict"], breaks["error"]);
    assert_eq!(world.json(&["race", "show", &id])["items"], over["items"], "the command line says the same");

    let before = client.get("/api/tasks").ok()["items"].as_array().unwrap().len();
    for wrong in [
        json!({}),
        json!({ "agents": ["mends"] }),
        json!({ "number": 1 }),
        json!({ "number": 2, "agents": ["a", "b"] }),
    ] {
        let problem = client.post("/api/tasks", &race(wrong)).problem(400, "HV-0604");
        assert_eq!(problem["field"], "race", "{problem}");
    }
    client.post("/api/tasks", &race(json!({ "agents": ["mends", "nobody"] }))).problem(400, "HV-0121");
    let mut kept = race(json!({ "number": 2 }));
    kept["prompt"] = json!("Again");
    let schedule = json!({ "cron": "0 3 * * *", "task": kept });
    assert_eq!(client.post("/api/schedules", &schedule).problem(400, "HV-0604")["field"], "race");
    assert_eq!(client.get("/api/tasks").ok()["items"].as_array().unwrap().len(), before, "all of a race or none of it");
    client.get("/api/races/race-nobody").problem(404, "HV-0151");
}

#[test]
fn an_agent_is_rehearsed_with_over_the_api_as_on_the_command_line() {
    let world = World::new();
    world.add_agent("mute", "text", "exit 3");
    let server = world.serve(&["--agents", "0"]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let good = client.post("/api/agents/builtin/check", &json!({})).ok();
    assert_eq!(good, world.json(&["agent", "check", "builtin"]));
    assert_eq!(good["works"], true, "{good:#}");
    let bad = client.post("/api/agents/mute/check", &json!({})).ok();
    assert_eq!(bad["works"], false, "{bad:#}");
    client.post("/api/agents/nobody/check", &json!({})).problem(400, "HV-0121");
    assert!(client.get("/api/tasks").ok()["items"].as_array().unwrap().is_empty(), "nothing of it is a task");
}

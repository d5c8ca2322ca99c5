//! Agents side by side: tasks that mostly wait for the model, worked off by the release of Harvest with one agent and with
//! several.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};

use super::installation::Installation;
use super::place::Place;
use super::programs::{build, output};
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

/// Tasks that each agent gets, one after the other.
const WAVES: usize = 3;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let installation = Installation::new(place, "agents", build(&["-p", "harvest"]).await?).await?;
    let delay = size.pick("10s", "2s");
    let script =
        installation.write_script(&json!([{ "replies": [{ "say": "There is nothing to do.", "delay": delay }] }]))?;
    let one = throughput(&installation, &script, 1).await?;
    let three = throughput(&installation, &script, 3).await?;
    let ten = throughput(&installation, &script, 10).await?;
    let row = |name, ours, least| Row {
        name,
        ours: Amount::PerSecond(ours),
        theirs: Some(Amount::PerSecond(one)),
        against: "one agent",
        bound: Bound::TimesAtLeast(least),
    };
    let rows = vec![row("3 agents, tasks", three, 2.9), row("10 agents, tasks", ten, 9.5)];
    let notes = vec![format!(
        "agents: {WAVES} tasks for each, the model takes {delay} to answer; from the start of `harvest up` to its end"
    )];
    Ok(Findings { rows, notes })
}

/// Tasks per second with this many agents.
async fn throughput(installation: &Installation, script: &Path, agents: usize) -> anyhow::Result<f64> {
    let data = installation.path(&format!("data{agents}"));
    let tasks = agents * WAVES;
    for number in 0..tasks {
        let mut add = installation.harvest(&data);
        output(add.args(["task", "add", &format!("Wait for answer {number}"), "--json"])).await?;
    }
    let mut up = installation.harvest(&data);
    up.args(["up", "--until-empty", "--json", "--agents", &agents.to_string(), "--model-script"]).arg(script);
    let began = Instant::now();
    let told = output(&mut up).await?;
    let took = began.elapsed();
    let completed = told.lines().filter(|line| is_completed(line)).count();
    ensure!(completed == tasks, "{completed} of {tasks} tasks were completed: {told}");
    Ok(tasks as f64 / took.as_secs_f64())
}

fn is_completed(line: &str) -> bool {
    let notice: Value = serde_json::from_str(line).unwrap_or_default();
    notice["type"] == "finished" && notice["outcome"]["status"] == "completed"
}

//! Agents side by side: tasks that mostly wait for the model, worked off by the release of Harvest with one agent and with
//! several.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::ensure;
use harvest_workspace::{Git, Home};
use serde_json::{Value, json};
use tokio::process::Command;

use super::place::Place;
use super::programs::{build, output, program};
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

/// Tasks that each agent gets, one after the other.
const WAVES: usize = 3;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let harvest = build(&["-p", "harvest"]).await?;
    let delay = size.pick("10s", "2s");
    let world = World::new(place, harvest, delay).await?;
    let one = world.throughput(1).await?;
    let (three, ten) = (world.throughput(3).await?, world.throughput(10).await?);
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

/// A small repository, a model that takes its time, and the program.
#[derive(Debug)]
struct World {
    folder: PathBuf,
    harvest: PathBuf,
}

impl World {
    async fn new(place: &Place, harvest: PathBuf, delay: &str) -> anyhow::Result<Self> {
        let world = Self { folder: place.folder("agents")?, harvest };
        for name in ["home", "run", "repository"] {
            std::fs::create_dir_all(world.folder.join(name))?;
        }
        let script = json!({"conversations": [{"replies": [{"say": "There is nothing to do.", "delay": delay}]}]});
        std::fs::write(world.script(), script.to_string())?;
        let (git, repository) = (Git::new(Home::Nobody), world.repository());
        git.run(&repository, &["init", "--quiet"]).await?;
        git.run(&repository, &["config", "user.name", "Bench"]).await?;
        git.run(&repository, &["config", "user.email", "bench@localhost"]).await?;
        std::fs::write(repository.join("README.md"), "# Orchard\n")?;
        git.run(&repository, &["add", "--all"]).await?;
        git.run(&repository, &["commit", "--quiet", "--message=Begin"]).await?;
        Ok(world)
    }

    fn script(&self) -> PathBuf {
        self.folder.join("script.yaml")
    }

    fn repository(&self) -> PathBuf {
        self.folder.join("repository")
    }

    fn harvest(&self, data: &Path) -> Command {
        let mut command = program(&self.harvest);
        command
            .env("HOME", self.folder.join("home"))
            .env("XDG_RUNTIME_DIR", self.folder.join("run"))
            .current_dir(self.repository())
            .arg("--data-dir")
            .arg(data);
        command
    }

    /// Tasks per second with this many agents.
    async fn throughput(&self, agents: usize) -> anyhow::Result<f64> {
        let data = self.folder.join(format!("data{agents}"));
        let tasks = agents * WAVES;
        for number in 0..tasks {
            let mut add = self.harvest(&data);
            output(add.args(["task", "add", &format!("Wait for answer {number}"), "--json"])).await?;
        }
        let mut up = self.harvest(&data);
        up.args(["up", "--until-empty", "--json", "--agents", &agents.to_string(), "--model-script"])
            .arg(self.script());
        let began = Instant::now();
        let told = output(&mut up).await?;
        let took = began.elapsed();
        let completed = told.lines().filter(|line| is_completed(line)).count();
        ensure!(completed == tasks, "{completed} of {tasks} tasks were completed: {told}");
        Ok(tasks as f64 / took.as_secs_f64())
    }
}

fn is_completed(line: &str) -> bool {
    let notice: Value = serde_json::from_str(line).unwrap_or_default();
    notice["type"] == "finished" && notice["outcome"]["status"] == "completed"
}

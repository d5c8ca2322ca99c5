//! graphile-worker, a queue on PostgreSQL that many use: the same number of workers on jobs that do nothing.

use std::path::{Path, PathBuf};

use super::place::Place;
use super::postgres::Cluster;
use super::programs::{installer, output, program};

const VERSION: &str = "0.17.3";
const SCRIPT: &str = include_str!("graphile.mjs");
/// Jobs that each process fetches at a time when it batches.
const BATCH: usize = 500;

#[derive(Debug)]
pub struct Graphile {
    script: PathBuf,
}

#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// As it comes.
    pub plain: f64,
    /// With the options that it has for high throughput.
    pub batched: f64,
}

impl Graphile {
    /// Installs it where it is kept for the next time.
    pub async fn install(place: &Place) -> anyhow::Result<Self> {
        for name in ["node", "npm"] {
            output(program(name).arg("--version")).await?;
        }
        let folder = match std::env::var_os("HARVEST_TOOLS") {
            Some(tools) => Path::new(&tools).join(format!("graphile-worker-{VERSION}")),
            None => place.folder("graphile-worker")?,
        };
        std::fs::create_dir_all(&folder)?;
        if !folder.join("node_modules/graphile-worker/package.json").exists() {
            let mut npm = installer("npm");
            npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
            output(npm.arg(format!("graphile-worker@{VERSION}")).current_dir(&folder)).await?;
        }
        let script = folder.join("graphile.mjs");
        std::fs::write(&script, SCRIPT)?;
        Ok(Self { script })
    }

    pub async fn rates(&self, cluster: &Cluster, jobs: usize) -> anyhow::Result<Rates> {
        Ok(Rates {
            plain: self.rate(cluster, jobs, None).await?,
            batched: self.rate(cluster, jobs, Some(BATCH)).await?,
        })
    }

    async fn rate(&self, cluster: &Cluster, jobs: usize, batch: Option<usize>) -> anyhow::Result<f64> {
        const DATABASE: &str = "graphile";
        cluster.create(DATABASE)?;
        let mut node = program("node");
        node.arg(&self.script).arg(cluster.socket()).arg(DATABASE).arg(jobs.to_string());
        node.args(batch.map(|batch| batch.to_string()));
        let rate = output(&mut node).await?.trim().parse()?;
        cluster.remove(DATABASE)?;
        Ok(rate)
    }
}

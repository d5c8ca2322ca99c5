//! An installation of the release of Harvest to measure: a small repository, a scripted model, and commands with a home and a
//! runtime folder of their own.

use std::path::{Path, PathBuf};

use harvest_workspace::{Git, Home};
use serde_json::{Value, json};
use tokio::process::Command;

use super::place::Place;
use super::programs::program;

#[derive(Debug)]
pub struct Installation {
    folder: PathBuf,
    harvest: PathBuf,
}

impl Installation {
    pub async fn new(place: &Place, name: &str, harvest: PathBuf) -> anyhow::Result<Self> {
        let installation = Self { folder: place.folder(name)?, harvest };
        for name in ["home", "run", "repository"] {
            std::fs::create_dir_all(installation.folder.join(name))?;
        }
        let (git, repository) = (Git::new(Home::Nobody), installation.repository());
        git.run(&repository, &["init", "--quiet"]).await?;
        git.run(&repository, &["config", "user.name", "Bench"]).await?;
        git.run(&repository, &["config", "user.email", "bench@localhost"]).await?;
        std::fs::write(repository.join("README.md"), "# Orchard\n")?;
        git.run(&repository, &["add", "--all"]).await?;
        git.run(&repository, &["commit", "--quiet", "--message=Begin"]).await?;
        Ok(installation)
    }

    /// A path below the installation's folder; nothing is made there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn repository(&self) -> PathBuf {
        self.path("repository")
    }

    /// Writes the model's script and returns its path.
    pub fn write_script(&self, conversations: &Value) -> anyhow::Result<PathBuf> {
        let path = self.path("script.yaml");
        std::fs::write(&path, json!({ "conversations": conversations }).to_string())?;
        Ok(path)
    }

    /// Writes a file below the settings folder of the installation's user.
    pub fn write_setting(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path("home/.config/harvest").join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        Ok(std::fs::write(path, text)?)
    }

    /// `harvest` on this data directory, in the repository.
    pub fn harvest(&self, data: &Path) -> Command {
        let mut command = program(&self.harvest);
        command
            .env("HOME", self.path("home"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .current_dir(self.repository())
            .arg("--data-dir")
            .arg(data);
        command
    }
}

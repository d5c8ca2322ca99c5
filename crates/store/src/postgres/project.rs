//! Projects and their members.

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::connection::Connection;
use super::read::{number, time};
use super::step::text;
use crate::Error;
use crate::contract::{Member, Project, Projects};
use crate::decode::{from_json, from_word, to_json, to_word};

#[async_trait]
impl Projects for Postgres {
    async fn projects(&self) -> Result<Vec<Project>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query("SELECT * FROM projects ORDER BY name", &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Project {
                    name: row.get("name"),
                    repositories: from_json(row.get("repositories"), "projects.repositories")?,
                    settings: from_json(row.get("settings"), "projects.settings")?,
                    version: number(row, "version"),
                    created_at: time(row, "created_at")?,
                    updated_at: time(row, "updated_at")?,
                })
            })
            .collect()
    }

    async fn add_project(&self, project: Project) -> Result<bool, Error> {
        let sql = "INSERT INTO projects (name, repositories, settings, version, created_at, updated_at)
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        let Project { name, repositories, settings, version, created_at, updated_at } = project;
        let (repositories, settings) = (to_json(&repositories, "repositories")?, to_json(&settings, "settings")?);
        let (name, created, updated) = (text(&name), created_at.to_string(), updated_at.to_string());
        let version = i64::try_from(version).map_err(|error| Error::corrupt("a version", error))?;
        self.change_and_wake(
            format!("project:{name}"),
            sql,
            &[&name, &text(&repositories), &text(&settings), &version, &created, &updated],
        )
        .await
    }

    async fn change_project(&self, project: Project) -> Result<bool, Error> {
        let sql = "UPDATE projects SET repositories = $2, settings = $3, version = $4, updated_at = $5
                   WHERE name = $1 AND version + 1 = $4";
        let Project { name, repositories, settings, version, updated_at, .. } = project;
        let (repositories, settings) = (to_json(&repositories, "repositories")?, to_json(&settings, "settings")?);
        let version = i64::try_from(version).map_err(|error| Error::corrupt("a version", error))?;
        let (name, updated) = (text(&name), updated_at.to_string());
        self.change_and_wake(
            format!("project:{name}"),
            sql,
            &[&name, &text(&repositories), &text(&settings), &version, &updated],
        )
        .await
    }

    async fn remove_project(&self, name: &str) -> Result<bool, Error> {
        let sql = "WITH gone AS (DELETE FROM projects WHERE name = $1 RETURNING name),
                        left_over AS (DELETE FROM members WHERE project IN (SELECT name FROM gone))
                   SELECT name FROM gone";
        self.change_and_wake(format!("project:{name}"), sql, &[&text(name)]).await
    }

    async fn members(&self) -> Result<Vec<Member>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query("SELECT * FROM members ORDER BY project, \"user\"", &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Member {
                    project: row.get("project"),
                    user: row.get("user"),
                    role: from_word(row.get("role"), "members.role")?,
                    since: time(row, "since")?,
                })
            })
            .collect()
    }

    async fn set_member(&self, member: Member) -> Result<(), Error> {
        let sql = "INSERT INTO members (project, \"user\", role, since) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (project, \"user\") DO UPDATE SET role = excluded.role";
        let Member { project, user, role, since } = member;
        let values: [&(dyn ToSql + Sync); 4] = [&text(&project), &text(&user), &to_word(&role)?, &since.to_string()];
        self.change_and_wake(format!("member:{project}/{user}"), sql, &values).await.map(drop)
    }

    async fn remove_member(&self, project: &str, user: &str) -> Result<bool, Error> {
        let sql = "DELETE FROM members WHERE project = $1 AND \"user\" = $2";
        self.change_and_wake(format!("member:{project}/{user}"), sql, &[&text(project), &text(user)]).await
    }
}

impl Postgres {
    /// Whether anything was changed; whoever waits for the queue looks again.
    async fn change_and_wake(&self, made: String, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<bool, Error> {
        let change = self.change(made).await?;
        let done = change_and_wake(change.db()?, sql, values).await;
        change.end(done).await
    }
}

async fn change_and_wake(db: &Connection, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<bool, Error> {
    let changed = db.execute(sql, values).await? > 0;
    db.query("SELECT harvest_wake()", &[]).await?;
    Ok(changed)
}

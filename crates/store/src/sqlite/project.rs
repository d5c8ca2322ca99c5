//! Projects and their members.

use async_trait::async_trait;
use rusqlite::params;

use super::Sqlite;
use super::read::time;
use crate::Error;
use crate::contract::{Member, Project, Projects};
use crate::decode::{from_json, from_word, to_json, to_word};

#[async_trait]
impl Projects for Sqlite {
    async fn projects(&self) -> Result<Vec<Project>, Error> {
        self.read(|db| {
            let sql =
                "SELECT name, repositories, settings, version, created_at, updated_at FROM projects ORDER BY name";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            let mut projects = Vec::new();
            while let Some(row) = rows.next()? {
                projects.push(Project {
                    name: row.get(0)?,
                    repositories: from_json(&row.get::<_, String>(1)?, "projects.repositories")?,
                    settings: from_json(&row.get::<_, String>(2)?, "projects.settings")?,
                    version: row.get(3)?,
                    created_at: time(row, 4)?,
                    updated_at: time(row, 5)?,
                });
            }
            Ok(projects)
        })
        .await
    }

    async fn add_project(&self, project: Project) -> Result<bool, Error> {
        self.change(format!("project:{}", project.name), move |db, effects| {
            effects.queue = true;
            let sql = "INSERT INTO projects (name, repositories, settings, version, created_at, updated_at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
            let Project { name, repositories, settings, version, created_at, updated_at } = &project;
            let (repositories, settings) = (to_json(repositories, "repositories")?, to_json(settings, "settings")?);
            let (created, updated) = (created_at.to_string(), updated_at.to_string());
            Ok(db.execute(sql, params![name, repositories, settings, version, created, updated])? > 0)
        })
        .await
    }

    async fn change_project(&self, project: Project) -> Result<bool, Error> {
        self.change(format!("project:{}", project.name), move |db, effects| {
            effects.queue = true;
            let sql = "UPDATE projects SET repositories = ?2, settings = ?3, version = ?4, updated_at = ?5
                       WHERE name = ?1 AND version = ?4 - 1";
            let Project { name, repositories, settings, version, updated_at, .. } = &project;
            let (repositories, settings) = (to_json(repositories, "repositories")?, to_json(settings, "settings")?);
            Ok(db.execute(sql, params![name, repositories, settings, version, updated_at.to_string()])? > 0)
        })
        .await
    }

    async fn remove_project(&self, name: &str) -> Result<bool, Error> {
        let name = name.to_owned();
        self.change(format!("project:{name}"), move |db, effects| {
            effects.queue = true;
            let removed = db.execute("DELETE FROM projects WHERE name = ?1", [&name])? > 0;
            if removed {
                db.execute("DELETE FROM members WHERE project = ?1", [&name])?;
            }
            Ok(removed)
        })
        .await
    }

    async fn members(&self) -> Result<Vec<Member>, Error> {
        self.read(|db| {
            let sql = "SELECT project, user, role, since FROM members ORDER BY project, user";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            let mut members = Vec::new();
            while let Some(row) = rows.next()? {
                members.push(Member {
                    project: row.get(0)?,
                    user: row.get(1)?,
                    role: from_word(&row.get::<_, String>(2)?, "members.role")?,
                    since: time(row, 3)?,
                });
            }
            Ok(members)
        })
        .await
    }

    async fn set_member(&self, member: Member) -> Result<(), Error> {
        self.change(format!("member:{}/{}", member.project, member.user), move |db, effects| {
            effects.queue = true;
            let sql = "INSERT INTO members (project, user, role, since) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT (project, user) DO UPDATE SET role = ?3";
            db.execute(sql, params![member.project, member.user, to_word(&member.role)?, member.since.to_string()])?;
            Ok(())
        })
        .await
    }

    async fn remove_member(&self, project: &str, user: &str) -> Result<bool, Error> {
        let (project, user) = (project.to_owned(), user.to_owned());
        self.change(format!("member:{project}/{user}"), move |db, effects| {
            effects.queue = true;
            Ok(db.execute("DELETE FROM members WHERE project = ?1 AND user = ?2", [&project, &user])? > 0)
        })
        .await
    }
}

//! `harvest export beads`: what became of imported issues, written back into the file they came from. Lines that nothing
//! happened to stay byte for byte; the file is replaced at once or not at all.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use harvest_core::{Code, Task, TaskStatus};
use serde_json::json;

use super::format::{self, Object};
use crate::cli::{Export, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

const NEW_FILE_MODE: u32 = 0o666;

pub async fn export(global: &Global, environment: Environment, command: Export) -> Result<Exit, Failure> {
    let Export::Beads { file, repo, all } = command;
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    let repository = match repo {
        _ if all => None,
        Some(repo) => Some(installation.forges.open(&repo).await?.name().to_owned()),
        None => {
            let here = installation.forges.open(".").await.map_err(|error| {
                let message = format!("the current directory is not in a repository: {error}");
                Failure::refused(Code::BadOption, message, "name one with --repo, or write those of all with --all")
            })?;
            Some(here.name().to_owned())
        }
    };
    let tasks = only_one_each(super::imported(&installation, repository).await?)?;
    let before = if file.exists() { super::read(&file)? } else { String::new() };
    let written = write_back(&before, &tasks).map_err(|error| super::bad_line(&file, &error))?;
    if written.text != before {
        harvest_store::record_now(installation.store.as_ref(), &format!("file:{}", file.display())).await?;
        replace(&file, &written.text).map_err(|error| {
            let message = format!("{} cannot be written: {error}", file.display());
            Failure::refused(Code::BadOption, message, "check its folder and permissions; nothing was changed")
        })?;
    }
    let _ = if global.json {
        output::json(&json!({ "updated": written.updated, "added": written.added, "unchanged": written.unchanged }))
    } else {
        let dot = style.dot();
        let (updated, added) = (written.updated.len(), written.added.len());
        output::line(&format!(
            "{} {updated} updated {dot} {added} added {dot} {} unchanged",
            style.ok(),
            written.unchanged
        ))
    };
    Ok(Exit::Done)
}

fn only_one_each(found: HashMap<String, Vec<Task>>) -> Result<HashMap<String, Task>, Failure> {
    let mut tasks = HashMap::new();
    for (id, mut same) in found {
        if same.len() > 1 {
            let names: Vec<&str> = same.iter().map(|task| task.repository.as_str()).collect();
            let message = format!("issue `{id}` was imported for several repositories: {}", names.join(", "));
            return Err(Failure::refused(Code::BadOption, message, "name one with --repo instead of --all"));
        }
        tasks.extend(same.pop().map(|task| (id, task)));
    }
    Ok(tasks)
}

#[derive(Debug, Default)]
struct Written {
    text: String,
    updated: Vec<String>,
    /// Issues that the file did not have.
    added: Vec<String>,
    unchanged: usize,
}

fn write_back(before: &str, tasks: &HashMap<String, Task>) -> Result<Written, format::BadLine> {
    let issues = format::parse(before)?;
    let mut lines: Vec<String> = before.split('\n').map(str::to_owned).collect();
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let mut written = Written::default();
    let internal =
        |line| move |error: serde_json::Error| format::BadLine { line, field: None, reason: error.to_string() };
    for issue in &issues {
        let mut object = issue.object.clone();
        let changed = match tasks.get(&issue.id) {
            Some(task) if !issue.is_closed() => tell(&mut object, task).map_err(internal(issue.line))?,
            _ => false,
        };
        if changed {
            lines[issue.line - 1] = serde_json::to_string(&object).map_err(internal(issue.line))?;
            written.updated.push(issue.id.clone());
        } else {
            written.unchanged += 1;
        }
    }
    let mut missing: Vec<(&String, &Task)> =
        tasks.iter().filter(|(id, _)| !issues.iter().any(|issue| issue.id == **id)).collect();
    missing.sort_by_key(|(id, task)| (task.created_at, *id));
    for (id, task) in missing {
        let Some(mut object) = super::original(task) else { continue };
        tell(&mut object, task).map_err(internal(0))?;
        lines.push(serde_json::to_string(&object).map_err(internal(0))?);
        written.added.push(id.clone());
    }
    written.text = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(written)
}

/// Writes into the issue what became of its task. False when it says so already.
fn tell(object: &mut Object, task: &Task) -> Result<bool, serde_json::Error> {
    let status = object.text("status").unwrap_or_else(|| "open".to_owned());
    let at = task.finished_at.map(|finished| finished.to_string());
    match task.status {
        TaskStatus::Completed => {
            object.set("status", "closed")?;
            object.set("close_reason", &close_reason(task))?;
            if let Some(at) = &at {
                object.set("closed_at", at)?;
                object.set("updated_at", at)?;
            }
            Ok(true)
        }
        TaskStatus::Failed | TaskStatus::Cancelled => {
            let note = note(task);
            let notes = object.text("notes").unwrap_or_default();
            let noted = notes.contains(&note);
            if noted && status == "open" {
                return Ok(false);
            }
            object.set("status", "open")?;
            if !noted {
                let notes = if notes.is_empty() { note } else { format!("{}\n{note}", notes.trim_end()) };
                object.set("notes", &notes)?;
            }
            if let Some(at) = &at {
                object.set("updated_at", at)?;
            }
            Ok(true)
        }
        TaskStatus::Running | TaskStatus::Provisioning | TaskStatus::AwaitingApproval | TaskStatus::Interrupted => {
            if status == "in_progress" {
                return Ok(false);
            }
            object.set("status", "in_progress")?;
            Ok(true)
        }
        TaskStatus::Pending => Ok(false),
    }
}

fn close_reason(task: &Task) -> String {
    let branch = task.branch.as_ref().map_or("no changes".to_owned(), |branch| format!("branch {branch}"));
    let evidence = task.evidence.as_ref().map_or("no evidence".to_owned(), |evidence| {
        let count = |name: &str, count: Option<u64>| count.map(|count| format!(", {count} {name}")).unwrap_or_default();
        let (passed, failed) = (count("passed", evidence.passed), count("failed", evidence.failed));
        format!("evidence `{}` exit code {}{passed}{failed}", evidence.command, evidence.exit_code)
    });
    format!("completed by Harvest: {branch}, {evidence} (task {})", task.id)
}

fn note(task: &Task) -> String {
    let reason = task.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let error = task.error.as_deref().map(|error| format!(": {}", error.trim())).unwrap_or_default();
    let branch = match &task.branch {
        Some(branch) => format!("; branch {branch}"),
        None if task.has_undelivered_work() => format!("; not delivered: harvest task diff {}", task.id.short()),
        None => String::new(),
    };
    format!("Harvest: task {} {}{reason}{error}{branch}", task.id, task.status)
}

/// A file beside it takes its place in one step; a link stays one.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let target = if file.exists() { file.canonicalize()? } else { std::path::absolute(file)? };
    let folder = target.parent().ok_or_else(|| std::io::Error::other("it has no folder"))?;
    let mode = std::fs::metadata(&target).map_or(NEW_FILE_MODE, |metadata| metadata.permissions().mode() & 0o777);
    let mut beside = tempfile::Builder::new()
        .prefix(".harvest-")
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    beside.write_all(text.as_bytes())?;
    beside.as_file().sync_all()?;
    beside.persist(&target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beads::tests::task;

    fn back(before: &str, tasks: &[(&str, Task)]) -> Written {
        let tasks = tasks.iter().map(|(id, task)| ((*id).to_owned(), task.clone())).collect();
        write_back(before, &tasks).unwrap()
    }

    const A: &str = r#"{"id":"a","z_custom":{"b":1,"a":[2, 3]},"title":"A","status":"open","weight":1.50e3,"created_at":"2026-01-01T00:00:00Z"}"#;
    const B: &str = r#"{"id":"b", "title":"B" ,"status":"open","notes":"by hand"}"#;
    const C: &str = r#"{"id":"c","title":"C","status":"closed","close_reason":"obsolete"}"#;

    #[test]
    fn the_file_as_a_whole() {
        let before = format!("{A}\n{B}\n\n{C}\n");
        let written =
            back(&before, &[("a", task("completed", A)), ("b", task("failed", B)), ("c", task("completed", C))]);
        let a = r#"{"id":"a","z_custom":{"b":1,"a":[2, 3]},"title":"A","status":"closed","weight":1.50e3,"created_at":"2026-01-01T00:00:00Z","close_reason":"completed by Harvest: branch harvest/fix-01234567, evidence `make check` exit code 0, 12 passed, 0 failed (task 0123456789abcdef)","closed_at":"2026-02-03T04:05:06Z","updated_at":"2026-02-03T04:05:06Z"}"#;
        let b = r#"{"id":"b","title":"B","status":"open","notes":"by hand\nHarvest: task 0123456789abcdef failed (tests): 2 tests fail; branch harvest/fix-01234567","updated_at":"2026-02-03T04:05:06Z"}"#;
        assert_eq!(written.text, format!("{a}\n{b}\n\n{C}\n"));
        assert_eq!(
            (written.updated, written.added, written.unchanged),
            (vec!["a".to_owned(), "b".to_owned()], vec![], 1)
        );
    }

    #[test]
    fn twice_is_the_same_as_once() {
        let tasks = [("a", task("completed", A)), ("b", task("failed", B)), ("c", task("running", C))];
        let once = back(&format!("{A}\n{B}\n"), &tasks);
        let twice = back(&once.text, &tasks);
        assert_eq!(once.text, twice.text);
        assert!(twice.updated.is_empty() && twice.added.is_empty());
    }

    #[test]
    fn what_nothing_happened_to_stays_byte_for_byte() {
        for before in ["", &format!("{B}\r\n  \n{A}\n")] {
            assert_eq!(back(before, &[]).text, before);
        }
        let before = format!("{B}\n{A}\n");
        assert_eq!(back(&before, &[("a", task("pending", A)), ("b", task("pending", B))]).text, before);
    }

    #[test]
    fn running_is_in_progress_and_back() {
        let text = back(&format!("{B}\n"), &[("b", task("running", B))]).text;
        assert_eq!(text, "{\"id\":\"b\",\"title\":\"B\",\"status\":\"in_progress\",\"notes\":\"by hand\"}\n");
        let text = back(&text, &[("b", task("cancelled", B))]).text;
        assert!(text.contains("\"status\":\"open\"") && text.contains("task 0123456789abcdef cancelled"), "{text}");
    }

    #[test]
    fn without_a_file_everything_is_written_with_every_field() {
        let written = back("", &[("a", task("pending", A))]);
        assert_eq!((written.text, written.added), (format!("{A}\n"), vec!["a".to_owned()]));
    }

    #[test]
    fn the_file_is_replaced_whole_and_keeps_its_mode_and_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("issues.jsonl"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
        assert!(replace(&folder.path().join("no/such/folder"), "x").is_err());
    }
}

//! `harvest import beads`: all open issues of a file become tasks, or none does.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use harvest_core::{Code, Prompt, Task, TaskId, find_cycle};
use harvest_engine::{BaseChoice, Queueing, Request, check_name, find_test_command};
use harvest_store::IdempotencyKey;
use harvest_workspace::Mirrors;
use serde_json::json;

use super::format::{self, BadLine, Issue};
use super::{EXTRA, EXTRA_LINE};
use crate::ask;
use crate::cli::{Global, Import, ImportBeads};
use crate::config::Key;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::{Style, clean};

pub async fn import(global: &Global, environment: Environment, command: Import) -> Result<Exit, Failure> {
    let Import::Beads(options) = command;
    let style = Style::detect(&environment);
    // What can be refused by looking at the file alone is, before anything is made.
    let issues = format::parse(&super::read(&options.file)?).map_err(|error| super::bad_line(&options.file, &error))?;
    refuse_cycles(&options.file, &issues)?;
    let installation = Installation::open(global, environment).await?;
    let request = first_request(&installation, &options).await?;
    let known = super::imported(&installation, Some(request.forge.name().to_owned())).await?;
    let plan = Plan::new(&options.file, issues, &known, || TaskId::generate(installation.entropy.as_ref()))?;
    let retries = match options.retries {
        Some(retries) => retries,
        None => installation.settings()?.count(Key::Retries).unwrap_or(0),
    };
    let mut requests = Vec::new();
    for new in &plan.new {
        requests.push(new.request(&options, &request, retries)?);
    }
    let submitted = match requests.is_empty() {
        true => Vec::new(),
        false => {
            let engine = installation.queueing_engine()?;
            engine.submit_all(requests).await.map_err(|error| Failure::from(error).refusing())?
        }
    };
    let made = plan.new.iter().zip(&submitted).map(|(new, submitted)| (new.issue.id.as_str(), &submitted.task));
    let _ = if global.json {
        let imported: Vec<_> = made.map(|(issue, task)| json!({ "issue": issue, "task_id": task.id })).collect();
        output::json(&json!({
            "imported": imported,
            "unchanged": plan.unchanged,
            "changed": plan.changed,
            "closed": plan.closed,
        }))
    } else {
        output::line(&page(style, made, &plan))
    };
    Ok(Exit::Done)
}

/// What all tasks of the file have in common, looked up once.
async fn first_request(installation: &Installation, options: &ImportBeads) -> Result<Request, Failure> {
    let any = Prompt::new("import").map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    let mut request = ask::request_for_later(installation, any, &options.options).await?;
    if request.test.is_none() {
        let mirrors = Mirrors::new(installation.data.mirrors());
        let mirror = mirrors.open(&request.forge.identity(), &request.base.object_format).await?;
        request.test = find_test_command(&mirror, &request.base.commit).await?;
    }
    Ok(request)
}

/// Among issues that are still to be done; closed ones hold nobody up.
fn refuse_cycles(file: &Path, issues: &[Issue]) -> Result<(), Failure> {
    let open: HashSet<&str> = issues.iter().filter(|issue| !issue.is_closed()).map(|issue| issue.id.as_str()).collect();
    let edges: Vec<(&str, &str)> = issues
        .iter()
        .filter(|issue| !issue.is_closed())
        .flat_map(|issue| issue.blocked_by.iter().map(|on| (issue.id.as_str(), on.as_str())))
        .filter(|(_, on)| open.contains(on))
        .collect();
    let Some(cycle) = find_cycle(&edges) else { return Ok(()) };
    let message = format!("{}: issues wait for each other in a cycle: {}", file.display(), cycle.join(" → "));
    Err(Failure::refused(Code::DependencyCycle, message, "remove one of these dependencies; nothing was changed"))
}

/// What an import comes to.
#[derive(Debug)]
struct Plan {
    new: Vec<New>,
    unchanged: Vec<String>,
    /// Imported before and edited since: left to a person.
    changed: Vec<String>,
    closed: usize,
}

/// An issue that becomes a task.
#[derive(Debug)]
struct New {
    issue: Issue,
    id: TaskId,
    after: Vec<TaskId>,
}

impl Plan {
    fn new(
        file: &Path,
        issues: Vec<Issue>,
        known: &HashMap<String, Vec<Task>>,
        mut generate: impl FnMut() -> TaskId,
    ) -> Result<Self, Failure> {
        let closed: HashSet<String> =
            issues.iter().filter(|issue| issue.is_closed()).map(|issue| issue.id.clone()).collect();
        let mut tasks: HashMap<String, TaskId> = HashMap::new();
        for (id, earlier) in known {
            tasks.extend(earlier.first().map(|task| (id.clone(), task.id.clone())));
        }
        let mut plan = Self { new: Vec::new(), unchanged: Vec::new(), changed: Vec::new(), closed: closed.len() };
        for issue in issues.into_iter().filter(|issue| !issue.is_closed()) {
            match known.get(&issue.id).and_then(|earlier| earlier.first()) {
                Some(earlier) if digest_of(earlier).is_some_and(|digest| digest == issue.digest()) => {
                    plan.unchanged.push(issue.id);
                }
                Some(_) => plan.changed.push(issue.id),
                None => {
                    let id = generate();
                    tasks.insert(issue.id.clone(), id.clone());
                    plan.new.push(New { issue, id, after: Vec::new() });
                }
            }
        }
        for new in &mut plan.new {
            for on in new.issue.blocked_by.iter().filter(|on| !closed.contains(*on)) {
                let Some(task) = tasks.get(on) else {
                    let reason = format!("names `{}`, which is neither in the file nor imported before", clean(on));
                    let error = BadLine { line: new.issue.line, field: Some("dependencies".into()), reason };
                    return Err(Failure { code: Code::UnknownDependency, ..super::bad_line(file, &error) });
                };
                new.after.push(task.clone());
            }
        }
        Ok(plan)
    }
}

fn digest_of(task: &Task) -> Option<String> {
    Issue::read(0, "", super::original(task)?).ok().map(|issue| issue.digest())
}

impl New {
    fn request(&self, options: &ImportBeads, common: &Request, retries: u32) -> Result<Request, Failure> {
        let issue = &self.issue;
        let bad = |field: &str, reason: String| {
            super::bad_line(&options.file, &BadLine { line: issue.line, field: Some(field.to_owned()), reason })
        };
        let prompt = Prompt::new(issue.prompt.clone()).map_err(|error| bad("description", error.to_string()))?;
        // The name of the issue is part of the key that keeps it from being imported twice.
        check_name("id", &issue.id).map_err(|error| bad("id", error.to_string()))?;
        let convoy = match (&options.convoy, issue.convoy()) {
            (Some(convoy), _) => {
                check_name("--convoy", convoy)?;
                Some(convoy.clone())
            }
            (None, Some(label)) => Some(
                crate::cli::convoy_name(label).map_err(|reason| bad("labels", format!("names a convoy: {reason}")))?,
            ),
            (None, None) => None,
        };
        // A number that fits no type of ours is still in the line.
        let fields = serde_json::from_str(&issue.raw).unwrap_or_else(|_| json!({ "id": issue.id }));
        let queue = Queueing {
            id: Some(self.id.clone()),
            priority: issue.priority,
            after: self.after.clone(),
            base: BaseChoice::Dependencies,
            convoy,
            retries,
            key: Some(IdempotencyKey {
                key: format!("beads:{}:{}", common.forge.name(), issue.id),
                digest: issue.digest(),
            }),
            extra: Some(json!({ EXTRA: fields, EXTRA_LINE: issue.raw })),
            ..Queueing::default()
        };
        Ok(Request { prompt, queue, ..common.clone() })
    }
}

fn page<'t>(style: Style, made: impl Iterator<Item = (&'t str, &'t Task)>, plan: &Plan) -> String {
    let mut lines: Vec<String> = made
        .map(|(issue, task)| {
            format!("  {} {}  {}", style.bold(task.id.short()), clean(issue), clean(task.prompt.title()))
        })
        .collect();
    let dot = style.dot();
    let (new, unchanged) = (plan.new.len(), plan.unchanged.len());
    lines.push(format!("{} {new} queued {dot} {unchanged} known already {dot} {} closed", style.ok(), plan.closed));
    if !plan.changed.is_empty() {
        let ids: Vec<String> = plan.changed.iter().map(|id| clean(id)).collect();
        lines.push(format!(
            "{} changed since they were imported, left as they are: {}",
            style.stopped(),
            ids.join(", ")
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beads::tests::{entropy, task};

    fn plan(text: &str, known: &[(&str, Task)]) -> Result<Plan, Failure> {
        let file = Path::new("issues.jsonl");
        let issues = format::parse(text).unwrap();
        refuse_cycles(file, &issues)?;
        let known = known.iter().map(|(id, task)| ((*id).to_owned(), vec![task.clone()])).collect();
        let mut next = 0;
        Plan::new(file, issues, &known, || {
            next += 1;
            TaskId::generate(&entropy(next))
        })
    }

    fn said(planned: Result<Plan, Failure>) -> (Code, String) {
        let failure = planned.unwrap_err();
        assert_eq!(failure.exit, Exit::Refused);
        (failure.code, failure.message)
    }

    #[test]
    fn open_issues_become_tasks_that_wait_for_each_other() {
        let text = r#"{"id":"a","title":"A","status":"open","dependencies":[{"issue_id":"a","depends_on_id":"b","type":"blocks"}]}
{"id":"b","title":"B","status":"in_progress","dependencies":["c"]}
{"id":"c","title":"C","status":"closed"}
{"id":"d","title":"D","status":"blocked","dependencies":[{"depends_on_id":"a","type":"parent-child"}]}"#;
        let plan = plan(text, &[]).unwrap();
        let ids: Vec<&str> = plan.new.iter().map(|new| new.issue.id.as_str()).collect();
        assert_eq!((ids, plan.closed), (vec!["a", "b", "d"], 1));
        assert_eq!(plan.new[0].after, [plan.new[1].id.clone()], "also on one further down");
        assert!(plan.new[1].after.is_empty(), "what is closed holds nobody up");
        assert!(plan.new[2].after.is_empty(), "only `blocks` does");
    }

    #[test]
    fn importing_again_makes_nothing_twice() {
        let line = r#"{"id":"a","title":"A","priority":1}"#;
        let earlier = task("completed", line);
        let text = format!("{line}\n{}", r#"{"id":"b","title":"B","dependencies":["a"]}"#);
        let again = plan(&text, &[("a", earlier.clone())]).unwrap();
        assert_eq!((again.unchanged, again.changed), (vec!["a".to_owned()], vec![]));
        assert_eq!(again.new[0].after, std::slice::from_ref(&earlier.id), "new ones wait for those imported before");

        let edited = plan(r#"{"id":"a","title":"A, but better","priority":1}"#, &[("a", earlier)]).unwrap();
        assert_eq!((edited.unchanged, edited.changed, edited.new.len()), (vec![], vec!["a".to_owned()], 0));
    }

    #[test]
    fn circles_are_printed_with_their_ids() {
        let text = r#"{"id":"a","title":"A","dependencies":["b"]}
{"id":"b","title":"B","dependencies":["c"]}
{"id":"c","title":"C","dependencies":["a"]}"#;
        let message = "issues.jsonl: issues wait for each other in a cycle: a → b → c → a".to_owned();
        assert_eq!(said(plan(text, &[])), (Code::DependencyCycle, message));
        let own = said(plan(r#"{"id":"a","title":"A","dependencies":["a"]}"#, &[]));
        assert_eq!(own.1, "issues.jsonl: issues wait for each other in a cycle: a → a");
        let closed = text.replace(r#""title":"C""#, r#""title":"C","status":"closed""#);
        assert_eq!(plan(&closed, &[]).unwrap().new.len(), 2);
    }

    #[test]
    fn a_dependency_that_is_nowhere_is_named() {
        let text = "\n{\"id\":\"a\",\"title\":\"A\",\"dependencies\":[\"z\"]}";
        let message =
            "issues.jsonl: line 2: `dependencies` names `z`, which is neither in the file nor imported before";
        assert_eq!(said(plan(text, &[])), (Code::UnknownDependency, message.to_owned()));
    }
}

//! Answers in the shapes that GitHub's own description gives them: more than anyone here reads, so that every client works.

use serde_json::{Map, Value, json};

use super::world::{Check, Comment, Remark, Repository, Review, Thread};

/// Addresses that every user has below their own.
const OF_USERS: [&str; 9] = [
    "events",
    "followers",
    "following",
    "gists",
    "organizations",
    "received_events",
    "repos",
    "starred",
    "subscriptions",
];
/// Addresses that every repository has below its own, with what follows them.
const OF_REPOSITORIES: [(&str, &str); 36] = [
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
];

fn api(web: &str) -> String {
    format!("{web}/api/v3")
}

fn at(web: &str, repository: &Repository) -> String {
    format!("{}/repos/{}/{}", api(web), repository.owner, repository.name)
}

fn page(web: &str, repository: &Repository) -> String {
    format!("{web}/{}/{}", repository.owner, repository.name)
}

/// The same number for the same name, whoever asks.
fn number_of(name: &str) -> u64 {
    name.bytes().fold(17, |sum: u64, byte| (sum * 31 + u64::from(byte)) % 1_000_003) + 1
}

pub(super) fn user(web: &str, login: &str) -> Value {
    let path = login.replace('[', "%5B").replace(']', "%5D");
    let url = format!("{}/users/{path}", api(web));
    let mut user = json!({
        "login": login,
        "id": number_of(login),
        "node_id": "MDQ6VXNlcjE=",
        "avatar_url": format!("{web}/avatars/{path}"),
        "gravatar_id": "",
        "url": url,
        "html_url": format!("{web}/{path}"),
        "site_admin": false,
        "type": if login.ends_with("[bot]") { "Bot" } else { "User" },
    });
    for name in OF_USERS {
        user[format!("{name}_url")] = json!(format!("{url}/{name}"));
    }
    user
}

pub(super) fn private_user(web: &str, login: &str) -> Value {
    let more = json!({
        "bio": null, "blog": null, "company": null, "email": null, "followers": 0, "following": 0, "hireable": null,
        "location": null, "name": login, "public_gists": 0, "public_repos": 0, "created_at": "2020-01-01T00:00:00Z",
        "updated_at": "2020-01-01T00:00:00Z", "collaborators": 0, "disk_usage": 0, "owned_private_repos": 0,
        "private_gists": 0, "total_private_repos": 0, "two_factor_authentication": true,
    });
    with(user(web, login), more)
}

pub(super) fn permission(web: &str, login: &str, permission: &str) -> Value {
    let role = json!({ "role_name": permission });
    json!({ "permission": permission, "role_name": permission, "user": with(user(web, login), role) })
}

pub(super) fn full_repository(web: &str, repository: &Repository) -> Value {
    let (url, page) = (at(web, repository), page(web, repository));
    let mut shown = json!({
        "id": repository.id, "node_id": "MDEwOlJlcG9zaXRvcnkx", "name": repository.name,
        "full_name": format!("{}/{}", repository.owner, repository.name),
        "owner": user(web, &repository.owner), "private": false, "html_url": page, "description": null, "fork": false,
        "url": url, "clone_url": format!("{page}.git"), "git_url": format!("{page}.git"), "ssh_url": format!("{page}.git"),
        "svn_url": page, "mirror_url": null, "homepage": null, "language": null, "license": null,
        "default_branch": repository.branch, "forks": 0, "forks_count": 0, "has_downloads": true, "has_issues": true,
        "has_projects": true, "has_wiki": true, "has_pages": false, "has_discussions": false, "archived": repository.archived,
        "disabled": false, "open_issues": 0, "open_issues_count": 0, "size": 1, "stargazers_count": 0, "watchers": 0,
        "watchers_count": 0, "network_count": 0, "subscribers_count": 0, "pushed_at": repository.created,
        "created_at": repository.created, "updated_at": repository.created,
    });
    for (name, rest) in OF_REPOSITORIES {
        shown[name] = json!(format!("{url}{rest}"));
    }
    shown
}

fn plain_repository(web: &str, repository: &Repository) -> Value {
    let mut shown = full_repository(web, repository);
    if let Some(fields) = shown.as_object_mut() {
        // Only one that is asked for by itself has these.
        for name in ["network_count", "subscribers_count"] {
            fields.remove(name);
        }
    }
    shown
}

pub(super) fn installation(web: &str, repository: &Repository, id: u64, app: u64) -> Value {
    let api = api(web);
    json!({
        "id": id, "app_id": app, "app_slug": "harvest", "target_id": number_of(&repository.owner), "target_type": "User",
        "single_file_name": null, "repository_selection": "selected", "account": user(web, &repository.owner),
        "access_tokens_url": format!("{api}/app/installations/{id}/access_tokens"),
        "html_url": format!("{web}/settings/installations/{id}"),
        "repositories_url": format!("{api}/installation/repositories"),
        "events": ["issues", "pull_request", "check_run"],
        "permissions": { "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read" },
        "created_at": repository.created, "updated_at": repository.created, "suspended_by": null, "suspended_at": null,
    })
}

fn label(web: &str, repository: &Repository, name: &str) -> Value {
    json!({
        "id": number_of(name), "node_id": "MDU6TGFiZWwx", "url": format!("{}/labels/{name}", at(web, repository)),
        "name": name, "description": "", "color": "8b6f47", "default": false,
    })
}

fn association(repository: &Repository, login: &str) -> &'static str {
    match login {
        login if login == repository.owner => "OWNER",
        login if repository.may_write(login) => "COLLABORATOR",
        _ => "NONE",
    }
}

/// What issues and pull requests have in common.
fn thread(web: &str, repository: &Repository, thread: &Thread) -> Value {
    let labels: Vec<Value> = thread.labels.iter().map(|name| label(web, repository, name)).collect();
    let assignees: Vec<Value> = thread.assignees.iter().map(|login| user(web, login)).collect();
    json!({
        "id": thread.id, "node_id": "MDU6SXNzdWUx", "number": thread.number, "title": thread.title, "body": thread.body,
        "state": if thread.open { "open" } else { "closed" }, "locked": false, "user": user(web, &thread.author),
        "labels": labels, "assignee": assignees.first(), "assignees": assignees, "milestone": null,
        "created_at": thread.created, "updated_at": thread.updated, "closed_at": thread.closed,
        "author_association": association(repository, &thread.author),
        "comments_url": format!("{}/issues/{}/comments", at(web, repository), thread.number),
    })
}

pub(super) fn issue(web: &str, repository: &Repository, about: &Thread) -> Value {
    let url = format!("{}/issues/{}", at(web, repository), about.number);
    let kind = if about.pull.is_some() { "pull" } else { "issues" };
    let html = format!("{}/{kind}/{}", page(web, repository), about.number);
    let comments = repository.comments.iter().filter(|comment| comment.thread == about.number).count();
    let mut more = json!({
        "url": url, "html_url": html, "repository_url": at(web, repository), "comments": comments,
        "events_url": format!("{url}/events"), "labels_url": format!("{url}/labels{{/name}}"),
    });
    if about.pull.is_some() {
        let pull = format!("{}/pulls/{}", at(web, repository), about.number);
        more["pull_request"] = json!({ "url": pull, "html_url": html, "diff_url": format!("{html}.diff"),
            "patch_url": format!("{html}.patch") });
    }
    with(thread(web, repository, about), more)
}

pub(super) fn comment(web: &str, repository: &Repository, comment: &Comment) -> Value {
    let url = format!("{}/issues/comments/{}", at(web, repository), comment.id);
    json!({
        "id": comment.id, "node_id": "MDEyOklzc3VlQ29tbWVudDE=", "url": url, "body": comment.body,
        "html_url": format!("{}/issues/{}#issuecomment-{}", page(web, repository), comment.thread, comment.id),
        "issue_url": format!("{}/issues/{}", at(web, repository), comment.thread), "user": user(web, &comment.author),
        "created_at": comment.created, "updated_at": comment.updated,
        "author_association": association(repository, &comment.author),
    })
}

pub(super) fn simple_pull(web: &str, repository: &Repository, about: &Thread) -> Option<Value> {
    let pull = about.pull.as_ref()?;
    let url = format!("{}/pulls/{}", at(web, repository), about.number);
    let html = format!("{}/pull/{}", page(web, repository), about.number);
    let end = |name: &str, sha: &str| {
        json!({ "label": format!("{}:{name}", repository.owner), "ref": name, "sha": sha,
            "repo": plain_repository(web, repository), "user": user(web, &repository.owner) })
    };
    let links: Map<String, Value> =
        ["self", "html", "issue", "comments", "review_comments", "review_comment", "commits", "statuses"]
            .iter()
            .map(|name| ((*name).to_owned(), json!({ "href": url })))
            .collect();
    let reviewers: Vec<Value> = pull.reviewers.iter().map(|login| user(web, login)).collect();
    let more = json!({
        "url": url, "html_url": html, "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"),
        "issue_url": format!("{}/issues/{}", at(web, repository), about.number),
        "commits_url": format!("{url}/commits"), "review_comments_url": format!("{url}/comments"),
        "review_comment_url": format!("{url}/comments{{/number}}"),
        "statuses_url": format!("{}/statuses/{}", at(web, repository), pull.head_sha),
        "head": end(&pull.head, &pull.head_sha), "base": end(&pull.base, &pull.base_sha), "_links": links,
        "draft": pull.draft, "auto_merge": null, "requested_reviewers": reviewers, "requested_teams": [],
        "merge_commit_sha": pull.merged.as_ref().map(|(commit, _, _)| commit),
        "merged_at": pull.merged.as_ref().map(|(_, at, _)| at),
    });
    Some(with(thread(web, repository, about), more))
}

pub(super) fn pull(web: &str, repository: &Repository, about: &Thread) -> Option<Value> {
    let merged = about.pull.as_ref()?.merged.as_ref();
    let comments = repository.comments.iter().filter(|comment| comment.thread == about.number).count();
    let more = json!({
        "merged": merged.is_some(), "merged_by": merged.map(|(_, _, login)| user(web, login)), "mergeable": true,
        "mergeable_state": "clean", "maintainer_can_modify": true, "additions": 1, "deletions": 0, "changed_files": 1,
        "comments": comments, "commits": 1, "review_comments": 0, "rebaseable": true,
    });
    Some(with(simple_pull(web, repository, about)?, more))
}

pub(super) fn review(web: &str, repository: &Repository, review: &Review) -> Value {
    let html = format!("{}/pull/{}#pullrequestreview-{}", page(web, repository), review.thread, review.id);
    let pull = format!("{}/pulls/{}", at(web, repository), review.thread);
    json!({
        "id": review.id, "node_id": "MDE3OlB1bGxSZXF1ZXN0UmV2aWV3MQ==", "user": user(web, &review.author),
        "body": review.body, "state": review.state, "html_url": html, "pull_request_url": pull,
        "_links": { "html": { "href": html }, "pull_request": { "href": pull } }, "commit_id": review.commit,
        "submitted_at": review.submitted, "author_association": association(repository, &review.author),
    })
}

pub(super) fn remark(web: &str, repository: &Repository, review: &Review, remark: &Remark) -> Value {
    let url = format!("{}/pulls/comments/{}", at(web, repository), remark.id);
    let html = format!("{}/pull/{}#discussion_r{}", page(web, repository), review.thread, remark.id);
    let pull = format!("{}/pulls/{}", at(web, repository), review.thread);
    json!({
        "id": remark.id, "node_id": "MDI0", "url": url, "body": remark.body, "diff_hunk": "@@ -1 +1 @@",
        "path": remark.path, "position": 1, "original_position": 1, "commit_id": review.commit,
        "original_commit_id": review.commit, "user": user(web, &review.author), "pull_request_review_id": review.id,
        "html_url": html, "pull_request_url": pull, "created_at": review.submitted, "updated_at": review.submitted,
        "_links": { "self": { "href": url }, "html": { "href": html }, "pull_request": { "href": pull } },
        "author_association": association(repository, &review.author), "line": remark.line,
        "original_line": remark.line, "side": "RIGHT",
    })
}

pub(super) fn check(web: &str, repository: &Repository, check: &Check) -> Value {
    let url = format!("{}/check-runs/{}", at(web, repository), check.id);
    let html = format!("{}/runs/{}", page(web, repository), check.id);
    let small = |name: &str, sha: &str| json!({ "ref": name, "sha": sha, "repo": { "id": repository.id, "url": at(web, repository), "name": repository.name } });
    let of = |thread: &&Thread| thread.open && thread.pull.as_ref().is_some_and(|pull| pull.head_sha == check.commit);
    let pulls: Vec<Value> = repository
        .threads
        .values()
        .filter(of)
        .filter_map(|thread| {
            let pull = thread.pull.as_ref()?;
            Some(json!({ "id": thread.id, "number": thread.number,
                "url": format!("{}/pulls/{}", at(web, repository), thread.number),
                "head": small(&pull.head, &pull.head_sha), "base": small(&pull.base, &pull.base_sha) }))
        })
        .collect();
    json!({
        "id": check.id, "node_id": "MDg6Q2hlY2tSdW4x", "head_sha": check.commit, "external_id": "", "name": check.name,
        "url": url, "html_url": html, "details_url": html, "status": check.status, "conclusion": check.conclusion,
        "started_at": check.started, "completed_at": check.completed, "check_suite": { "id": 1 },
        "output": { "title": check.title, "summary": check.summary, "text": check.text, "annotations_count": 0,
            "annotations_url": format!("{url}/annotations") },
        "app": { "id": 1, "slug": "github-actions", "node_id": "MDM6QXBwMQ==", "owner": user(web, "github"),
            "name": "GitHub Actions", "description": null, "external_url": format!("{web}/actions"),
            "html_url": format!("{web}/apps/github-actions"), "created_at": repository.created,
            "updated_at": repository.created, "permissions": { "checks": "write" }, "events": ["check_run"] },
        "pull_requests": pulls,
    })
}

fn with(mut value: Value, more: Value) -> Value {
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

//! Pull requests, comments, checks and reviews on GitHub, and how GitHub's moods are lived with.

use harvest_core::{BranchName, Code, SessionId};
use harvest_forge::{Comment, Error, FailedCheck, Forge, Proposal, PullRequestState, Remark, Review, Standing, Thread};
use serde_json::json;

use crate::description;
use crate::support::{World, person};

fn branch() -> BranchName {
    BranchName::for_session("Fix it", &"0123456789abcdef".parse::<SessionId>().unwrap())
}

fn proposal() -> Proposal {
    Proposal {
        branch: branch(),
        into: None,
        title: "Fix it".into(),
        body: "It was broken.".into(),
        draft: false,
        labels: vec!["harvest".into()],
        reviewers: vec!["grace".into(), "nobody-here".into()],
    }
}

async fn pushed(world: &World, forge: &dyn Forge) -> String {
    let (path, commit) = world.work("work", "fixed");
    forge.publish(&path, &branch(), &commit, None).await.unwrap();
    commit
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_has_one_pull_request_however_often_it_is_proposed() {
    let world = World::new().await;
    world.fake.add_writer("ada/shop", "grace");
    let forge = world.as_app().await;
    let hosting = forge.hosting().unwrap();
    let commit = pushed(&world, forge.as_ref()).await;
    let opened = hosting.propose(&proposal(), None).await.unwrap();
    assert_eq!((opened.number, opened.head.as_str(), opened.into.as_str()), (1, commit.as_str(), "main"));
    assert_eq!(opened.url, format!("{}/ada/shop/pull/1", world.fake.url()));
    assert_eq!(hosting.propose(&proposal(), None).await.unwrap(), opened);
    let later = Proposal { title: "Fix it well".into(), ..proposal() };
    assert_eq!(hosting.propose(&later, None).await.unwrap().number, 1);
    assert_eq!((world.calls("POST", "/repos/ada/shop/pulls"), world.calls("PATCH", "/repos/ada/shop/pulls/1")), (1, 1));
    // Of two reviewers the one that there is was asked; a label is put on once.
    let exchanges = world.fake.exchanges();
    let asked = exchanges.iter().filter(|call| call.path.ends_with("requested_reviewers"));
    assert_eq!(asked.map(|call| call.status).collect::<Vec<_>>(), [201, 422]);
    assert_eq!(world.calls("POST", "/repos/ada/shop/issues/1/labels"), 1);
    world.ada("PUT", "/repos/ada/shop/pulls/1/merge", json!({})).await;
    assert_eq!(hosting.pull_request(1).await.unwrap().state, PullRequestState::Merged);
    assert_eq!(
        hosting.propose(&proposal(), None).await.unwrap().state,
        PullRequestState::Merged,
        "it is not opened again"
    );
    description::holds(&world.fake.exchanges());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_is_written_once_and_edited_from_then_on() {
    let world = World::new().await;
    let forge = world.as_app().await;
    let hosting = forge.hosting().unwrap();
    world.ada("POST", "/repos/ada/shop/issues", json!({ "title": "Broken", "body": "It is." })).await;
    for text in ["Working", "Working", "Done"] {
        hosting.tell(1, "status of x", text).await.unwrap();
    }
    world.ada("POST", "/repos/ada/shop/issues/1/comments", json!({ "body": "Thanks" })).await;
    let comment = |author: &str, body: &str| Comment { author: author.into(), body: body.into() };
    let expected = Thread {
        title: "Broken".into(),
        body: "It is.".into(),
        author: "ada".into(),
        comments: vec![comment("harvest[bot]", "<!-- harvest: status of x -->\nDone"), comment("ada", "Thanks")],
    };
    assert_eq!(hosting.thread(1).await.unwrap(), expected);
    let edits = world.fake.exchanges().iter().filter(|call| call.method == "PATCH").count();
    assert_eq!(edits, 1, "what has not changed is not sent");
    description::holds(&world.fake.exchanges());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_checks_come_with_their_log() {
    let world = World::new().await;
    let forge = world.as_app().await;
    let check = |name: &str, conclusion: &str| {
        let output = json!({ "title": "T", "summary": "S", "text": "line 1\nit broke here" });
        json!({ "name": name, "head_sha": world.base, "status": "completed", "conclusion": conclusion, "output": output })
    };
    for (name, conclusion) in [("lint", "success"), ("build", "failure")] {
        world.ada("POST", "/repos/ada/shop/check-runs", check(name, conclusion)).await;
    }
    let failed = forge.hosting().unwrap().failed_checks(&world.base).await.unwrap();
    let [FailedCheck { name, output, url: Some(_) }] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!((name.as_str(), output.matches("it broke here").count()), ("build", 2), "as it said, and in its log");
    description::holds(&world.fake.exchanges());
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_given_and_read() {
    let world = World::new().await;
    let forge = world.as_app().await;
    let hosting = forge.hosting().unwrap();
    let commit = pushed(&world, forge.as_ref()).await;
    hosting.propose(&Proposal { reviewers: Vec::new(), labels: Vec::new(), ..proposal() }, None).await.unwrap();
    let remark = Remark { path: "README.md".into(), line: Some(1), author: String::new(), body: "Why?".into() };
    let review = Review { marker: "m".into(), commit, body: "Hm.".into(), remarks: vec![remark.clone()] };
    for _ in 0..2 {
        hosting.review(1, &review).await.unwrap();
    }
    let is_given = |call: &harvest_forge::fake::Exchange| call.method == "POST" && call.path.ends_with("/reviews");
    let mut given: Vec<_> = world.fake.exchanges().into_iter().filter(is_given).collect();
    assert_eq!(given.len(), 1, "a review is given once");
    let given = given.remove(0);
    let id = given.answer.unwrap()["id"].as_u64().unwrap();
    let read = hosting.remarks(1, id).await.unwrap();
    assert_eq!(read, [Remark { author: "harvest[bot]".into(), ..remark }]);
    description::holds(&world.fake.exchanges());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_write_is_no_stranger() {
    let world = World::new().await;
    world.fake.add_writer("ada/shop", "grace");
    let forge = world.as_app().await;
    let hosting = forge.hosting().unwrap();
    for (login, expected) in [("ada", Standing::Writer), ("grace", Standing::Writer), ("eve", Standing::Stranger)] {
        assert_eq!(hosting.standing(login).await.unwrap(), expected, "{login}");
    }
    description::holds(&world.fake.exchanges());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_token_can_do_one_thing_in_one_repository() {
    let world = World::new().await;
    let forge = world.as_app().await;
    let hosting = forge.hosting().unwrap();
    pushed(&world, forge.as_ref()).await;
    hosting.propose(&proposal(), None).await.unwrap();
    hosting.failed_checks(&world.base).await.unwrap();
    let exchanges = world.fake.exchanges();
    let tokens: Vec<_> = exchanges.iter().filter(|call| call.path.ends_with("access_tokens")).collect();
    for call in &tokens {
        let asked = call.request.as_ref().unwrap();
        assert_eq!(asked["repositories"], json!(["shop"]));
    }
    let push = tokens.iter().find(|call| call.request.as_ref().unwrap()["permissions"]["contents"] == "write").unwrap();
    assert_eq!(push.request.as_ref().unwrap()["permissions"], json!({ "contents": "write" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_renewed_for_the_api_and_for_git() {
    let world = World::new().await;
    let forge = world.as_app().await;
    let commit = pushed(&world, forge.as_ref()).await;
    world.fake.forget_tokens();
    assert_eq!(forge.resolve(None).await.unwrap().commit, world.base);
    let (path, later) = world.work("more", "more");
    world.fake.forget_tokens();
    forge.publish(&path, &branch(), &later, Some(&commit)).await.unwrap();
    world.fake.forget_tokens();
    forge.hosting().unwrap().standing("ada").await.unwrap();
    // A person's own token cannot be asked for anew: the refusal is told.
    let refused = world.forges(&"nobodys".to_owned().into()).open("github:ada/shop").await.unwrap().resolve(None).await;
    assert!(matches!(refused, Err(Error::Fetch { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fake_that_is_started_again_knows_its_threads_and_a_failed_copy_leaves_nothing() {
    let World { folder, fake, .. } = World::new().await;
    let issue = json!({ "title": "Fix it", "labels": ["harvest"] });
    let made = person(fake.url(), "ada", "POST", "/repos/ada/shop/issues", issue.clone()).await;
    assert_eq!(made["number"], 1);
    let bad = fake.add_repository("eve/none", Some(&folder.path().join("missing"))).await;
    assert!(bad.is_err() && !folder.path().join("hub/eve").exists(), "{bad:?}");
    drop(fake);
    let again = World::start_in(&folder.path().join("hub")).await;
    again.add_repository("ada/shop", None).await.unwrap();
    let thread = person(again.url(), "ada", "GET", "/repos/ada/shop/issues/1", json!({})).await;
    assert_eq!(thread["title"], "Fix it", "{thread:#}");
    let next = person(again.url(), "ada", "POST", "/repos/ada/shop/issues", issue).await;
    assert_eq!((&next["number"], next["id"] == made["id"]), (&json!(2), false));
}

#[tokio::test(flavor = "multi_thread")]
async fn github_is_left_alone_when_it_says_so() {
    let world = World::new().await;
    let forge = world.with_token().await;
    let hosting = forge.hosting().unwrap();
    world.ada("POST", "/repos/ada/shop/issues", json!({ "title": "Broken" })).await;
    world.fake.refuse_next(1, 403, &[("retry-after", "1")]);
    let begun = std::time::Instant::now();
    hosting.tell(1, "m", "Hello").await.unwrap();
    assert!(begun.elapsed() >= std::time::Duration::from_millis(900), "it did not wait");
    assert_eq!(world.calls("POST", "/repos/ada/shop/issues/1/comments"), 1);
    // An hour is too long for anyone to wait; nobody asks meanwhile.
    let reset = harvest_core::Timestamp::now().as_second() + 3600;
    world.fake.refuse_next(1, 429, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset.to_string())]);
    let before = world.fake.exchanges().len();
    for _ in 0..2 {
        let refused = hosting.tell(1, "m", "Bye").await;
        assert!(matches!(refused, Err(Error::RateLimited { seconds: 3500.. })), "{refused:?}");
    }
    assert_eq!(world.fake.exchanges().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_waited_for_where_asking_again_is_safe() {
    let world = World::new().await;
    let forge = world.with_token().await;
    let hosting = forge.hosting().unwrap();
    world.ada("POST", "/repos/ada/shop/issues", json!({ "title": "Broken" })).await;
    world.fake.refuse_next(2, 502, &[]);
    assert_eq!(hosting.thread(1).await.unwrap().title, "Broken");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_in_githubs_words() {
    let world = World::new().await;
    let forge = world.as_app().await;
    let missing = forge.hosting().unwrap().propose(&proposal(), None).await.unwrap_err();
    assert!(missing.to_string().contains("head or base is not a branch"), "{missing}");
    let elsewhere = world.forges(&harvest_forge::fake::Fake::app(None)).open("github:ada/other").await.unwrap();
    let error = elsewhere.resolve(None).await.unwrap_err();
    assert!(matches!(&error, Error::NotInstalled { repository } if repository == "ada/other"), "{error:?}");
    let eve = person(world.fake.url(), "eve", "GET", "/repos/ada/shop", json!(null)).await;
    assert_eq!(eve["default_branch"], "main");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_is_archived_is_refused_before_any_work_and_an_outage_is_no_reason_to() {
    let world = World::new().await;
    let forge = world.as_app().await;
    forge.check_writable().await.unwrap();
    world.fake.archive("ada/shop");
    let refused = forge.check_writable().await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.to_string()),
        (Code::ForgeRefused, format!("{} cannot take branches: it is archived", forge.name()))
    );
    assert!(refused.help().starts_with("unarchive it"), "{}", refused.help());
    description::holds(&world.fake.exchanges());
    world.fake.refuse_next(100, 503, &[]);
    forge.check_writable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_repository_is_writable_is_not_asked_for_longer_than_people_wait() {
    let world = World::new().await;
    let forge = world.as_app().await;
    world.fake.archive("ada/shop");
    world.fake.refuse_next(1, 403, &[("retry-after", "50")]);
    let begin = std::time::Instant::now();
    forge.check_writable().await.unwrap();
    assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
}

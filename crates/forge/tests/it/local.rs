//! A repository on this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use harvest_core::BranchName;
use harvest_forge::{Accounts, ClosedFolders, Error, Forges};
use harvest_workspace::{Git, Home};

use crate::support::{git, sample};

/// Without any account.
fn nobody() -> Arc<dyn Accounts> {
    Arc::new(None)
}

/// A clone with `files` more, as one commit on top.
fn worked_on(folder: &Path, repository: &Path, files: usize) -> String {
    git(repository, &["clone", "--quiet", "--bare", ".", folder.to_str().unwrap()]);
    let tree: String = (0..files)
        .map(|number| {
            std::fs::write(folder.join("blob"), format!("file {number}\n")).unwrap();
            let blob = git(folder, &["hash-object", "-w", "blob"]);
            format!("100644,{blob},file{number}\n")
        })
        .collect();
    let work = folder.join("work");
    git(folder, &["worktree", "add", "--quiet", "--detach", work.to_str().unwrap()]);
    for entry in tree.lines() {
        git(&work, &["update-index", "--add", "--cacheinfo", entry]);
    }
    git(&work, &["commit", "--quiet", "--message", "Work"]);
    git(&work, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn what_is_published_is_whole_however_much_it_is() {
    for files in [3, 150] {
        let folder = tempfile::tempdir().unwrap();
        let (repository, session) = (folder.path().join("shop"), folder.path().join("session"));
        sample(&repository);
        let commit = worked_on(&session, &repository, files);
        let forge = Forges::new(Git::new(Home::Nobody), nobody(), ClosedFolders::default())
            .open(repository.to_str().unwrap())
            .await
            .unwrap();
        let branch = BranchName::for_session("work", &"0000000000000001".parse().unwrap());
        // What a git that an agent took over could leave in it is not taken for the repository.
        git(&session, &["init", "--quiet", "--bare", ".git"]);
        for _ in 0..2 {
            forge.publish(&session, &branch, &commit, None).await.unwrap();
        }
        assert_eq!(git(&repository, &["rev-parse", branch.as_str()]), commit);
        assert_eq!(git(&repository, &["ls-tree", "--name-only", branch.as_str()]).lines().count(), files + 1);
        git(&repository, &["fsck", "--full", "--strict"]);
        // A few objects need no pack of their own: thousands of deliveries would make thousands of packs.
        let packs = std::fs::read_dir(repository.join(".git/objects/pack")).unwrap().count();
        assert_eq!(packs == 0, files == 3, "{packs} files of packs");
    }
}

#[tokio::test]
async fn the_lock_of_a_git_that_was_killed_holds_up_no_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let (repository, session) = (folder.path().join("shop"), folder.path().join("session"));
    sample(&repository);
    let commit = worked_on(&session, &repository, 1);
    let forge = Forges::new(Git::new(Home::Nobody), nobody(), ClosedFolders::default())
        .open(repository.to_str().unwrap())
        .await
        .unwrap();
    let branch = BranchName::for_session("work", &"0000000000000001".parse().unwrap());
    let lock = repository.join(format!(".git/{}.lock", branch.as_ref_name()));
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(&lock, "").unwrap();
    forge.publish(&session, &branch, &commit, None).await.unwrap();
    assert_eq!(git(&repository, &["rev-parse", branch.as_str()]), commit);
    assert!(!lock.exists());
}

#[tokio::test]
async fn a_delivery_under_way_refuses_no_task_and_any_other_lock_does() {
    let folder = tempfile::tempdir().unwrap();
    let base = sample(folder.path());
    let forge = Forges::new(Git::new(Home::Nobody), nobody(), ClosedFolders::default())
        .open(folder.path().to_str().unwrap())
        .await
        .unwrap();
    let refs = folder.path().join(".git/refs/heads");
    std::fs::create_dir_all(refs.join("harvest")).unwrap();
    std::fs::write(refs.join("harvest/work.lock"), "").unwrap();
    assert_eq!(forge.resolve(None).await.unwrap().commit, base);
    std::fs::write(refs.join("main.lock"), "").unwrap();
    let refused = forge.resolve(None).await.unwrap_err();
    assert!(matches!(&refused, Error::RefLocked { lock } if lock.ends_with("refs/heads/main.lock")), "{refused}");
}

#[tokio::test]
async fn a_repository_that_takes_no_branches_of_harvest_is_known_before_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("shop");
    sample(&repository);
    let forge = Forges::new(Git::new(Home::Nobody), nobody(), ClosedFolders::default())
        .open(repository.to_str().unwrap())
        .await
        .unwrap();
    forge.check_writable().await.unwrap();
    git(&repository, &["branch", "harvest/another"]);
    forge.check_writable().await.unwrap();
    git(&repository, &["branch", "--move", "harvest/another", "harvest"]);
    for _ in 0..2 {
        let refused = forge.check_writable().await.unwrap_err();
        assert!(refused.to_string().contains("its branch `harvest` conflicts with branches"), "{refused}");
        assert_eq!(refused.help(), "rename it: git branch -m harvest NEW-NAME");
        git(&repository, &["pack-refs", "--all"]);
    }
    git(&repository, &["branch", "--move", "harvest", "other"]);

    let heads = repository.join(".git/refs/heads");
    let set_mode = |mode| std::fs::set_permissions(&heads, std::fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o555);
    // Modes do not hold for root, who could deliver there.
    let may_write = std::fs::write(heads.join("probe"), "").is_ok();
    let checked = forge.check_writable().await;
    set_mode(0o755);
    assert_eq!(checked.is_ok(), may_write, "{checked:?}");
    if let Err(refused) = checked {
        assert!(refused.to_string().contains("refs/heads is not writable"), "{refused}");
    }
}

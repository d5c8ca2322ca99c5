//! Snapshots of two commits with real git, where the second one turns a folder of the first into a link.

use std::os::unix::fs::symlink;

use super::*;
use crate::Mirrors;

struct World {
    root: tempfile::TempDir,
    git: Git,
}

impl World {
    async fn new() -> Self {
        let world = Self { root: tempfile::tempdir().unwrap(), git: Git::new(Home::Nobody) };
        for folder in ["repository/d", "host", "workspaces"] {
            std::fs::create_dir_all(world.path(folder)).unwrap();
        }
        world.git.run(&world.path("repository"), &["init", "--quiet", "--template="]).await.unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    async fn commit(&self) -> (Mirror, String) {
        let (git, repository) = (&self.git, self.path("repository"));
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        git.run(&repository, &["add", "--all"]).await.unwrap();
        git.run(&repository, &[&identity[..], &["commit", "--quiet", "-m", "x"]].concat()).await.unwrap();
        let commit = git.line(&repository, &["rev-parse", "HEAD"]).await.unwrap();
        let mirror = Mirrors::new(self.path("mirrors")).open(b"repository", "sha1").await.unwrap();
        let spec = format!("{commit}:{}", Mirror::base_ref(&commit));
        let from = repository.display().to_string();
        git.run(mirror.path(), &["fetch", "--quiet", &from, &spec]).await.unwrap();
        (mirror, commit)
    }

    fn manifest(commit: &str, at: i64) -> Manifest {
        Manifest {
            commit: commit.to_owned(),
            fingerprint: "f".to_owned(),
            recipe: "r".to_owned(),
            built_at: Timestamp::from_second(at).unwrap(),
            bytes: 0,
            extras: Vec::new(),
            programs: Vec::new(),
            details: Value::Null,
        }
    }
}

#[tokio::test]
async fn a_folder_that_became_a_link_gets_nothing_of_the_snapshot_before() {
    let world = World::new().await;
    let (prepared, objects) = (Prepared::new(world.path("prepared")), Path::new("/objects"));
    std::fs::write(world.path("repository/d/keep"), "keep").unwrap();
    let (mirror, first) = world.commit().await;
    let work = world.path("workspaces/first");
    let building = prepared.begin("key").await.unwrap().unwrap();
    building.check_out(&mirror, &first, objects, &[], &work).await.unwrap();
    // The installation.
    for name in ["d/x", "kept"] {
        std::fs::write(work.join(name), "installed").unwrap();
    }
    let manifest = building.freeze(&work, World::manifest(&first, 1)).await.unwrap();
    assert_eq!(manifest.extras, ["d/x", "kept"]);
    drop(building);

    std::fs::remove_dir_all(world.path("repository/d")).unwrap();
    symlink(world.path("host"), world.path("repository/d")).unwrap();
    let (mirror, second) = world.commit().await;
    let work = world.path("workspaces/second");
    let earlier = prepared.open("key", &manifest).await.unwrap().unwrap();
    let building = prepared.begin("key").await.unwrap().unwrap();
    building.check_out(&mirror, &second, objects, &[], &work).await.unwrap();
    building.reuse(&earlier, &work).await.unwrap();
    assert_eq!(std::fs::read_dir(world.path("host")).unwrap().count(), 0, "the host's folder was written to");
    assert_eq!(std::fs::read_to_string(work.join("kept")).unwrap(), "installed");
    let manifest = building.freeze(&work, World::manifest(&second, 2)).await.unwrap();
    assert_eq!(manifest.extras, ["kept"]);
}

#[tokio::test]
async fn what_the_commit_has_itself_is_not_replaced() {
    let world = World::new().await;
    let prepared = Prepared::new(world.path("prepared"));
    std::fs::write(world.path("repository/d/keep"), "keep").unwrap();
    let (mirror, first) = world.commit().await;
    let work = world.path("workspaces/first");
    let building = prepared.begin("key").await.unwrap().unwrap();
    building.check_out(&mirror, &first, Path::new("/objects"), &[], &work).await.unwrap();
    std::fs::write(work.join("d/x"), "installed").unwrap();
    let manifest = building.freeze(&work, World::manifest(&first, 1)).await.unwrap();
    let earlier = prepared.open("key", &manifest).await.unwrap().unwrap();
    for (round, target) in ["file", "link"].into_iter().enumerate() {
        let work = world.path("workspaces").join(target);
        building.check_out(&mirror, &first, Path::new("/objects"), &[], &work).await.unwrap();
        match round {
            0 => std::fs::write(work.join("d/x"), "the commit's").unwrap(),
            _ => symlink(world.path("host/x"), work.join("d/x")).unwrap(),
        }
        building.reuse(&earlier, &work).await.unwrap();
        assert_eq!(std::fs::read_dir(world.path("host")).unwrap().count(), 0);
        assert!(round == 1 || std::fs::read_to_string(work.join("d/x")).unwrap() == "the commit's");
    }
}

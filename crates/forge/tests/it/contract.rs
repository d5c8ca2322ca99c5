//! What every forge does, whatever is behind it.

use harvest_core::{BranchName, SessionId};
use harvest_forge::{Error, Forge, Published};
use harvest_workspace::{Git, Home, Mirrors};

use crate::support::{World, git};

fn branch() -> BranchName {
    BranchName::for_session("Fix it", &"0123456789abcdef".parse::<SessionId>().unwrap())
}

async fn keeps_the_contract(world: &World, forge: &dyn Forge, expected: Published, tip: impl Fn() -> String) {
    let base = forge.resolve(None).await.unwrap();
    assert_eq!((base.commit.as_str(), base.object_format.as_str()), (world.base.as_str(), "sha1"));
    assert_eq!(forge.resolve(Some("main")).await.unwrap().commit, world.base);
    assert!(matches!(forge.resolve(Some("nothing")).await, Err(Error::UnknownBase { .. })));
    assert!(matches!(forge.resolve(Some("--upload-pack=x")).await, Err(Error::BadBase { .. })));
    let mirrors = Mirrors::new(world.path("mirrors"));
    let mirror = mirrors.open(&forge.identity(), &base.object_format).await.unwrap();
    mirror.ensure(&base.commit, || forge.fetch(&mirror, &base.commit)).await.unwrap();
    assert_eq!(mirror.files(&base.commit).await.unwrap(), ["README.md"]);
    // Published twice is published once; moved on from where it was; and never over what someone else put there.
    let (path, first) = world.work("first", "one");
    for _ in 0..2 {
        assert_eq!(forge.publish(&path, &branch(), &first, None).await.unwrap(), expected);
    }
    if expected == Published::KeptHere {
        return;
    }
    assert_eq!(tip(), first);
    let (path, second) = world.work("second", "two");
    let moved = forge.publish(&path, &branch(), &second, None).await;
    assert!(matches!(&moved, Err(Error::BranchMoved { found, .. }) if *found == first), "{moved:?}");
    assert_eq!(tip(), first);
    forge.publish(&path, &branch(), &second, Some(&first)).await.unwrap();
    assert_eq!(tip(), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_repository() {
    let world = World::new().await;
    let path = world.path("shop");
    let forge = harvest_forge::open(path.to_str().unwrap(), Git::new(Home::Nobody)).await.unwrap();
    assert!(forge.hosting().is_none());
    let tip = || git(&path, &["rev-parse", branch().as_str()]);
    keeps_the_contract(&world, forge.as_ref(), Published::InRepository, tip).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_on_github_as_an_app() {
    let world = World::new().await;
    let hub = world.fake.repository("ada/shop");
    let tip = || git(&hub, &["rev-parse", branch().as_str()]);
    keeps_the_contract(&world, world.as_app().await.as_ref(), Published::Hosted, tip).await;
    // For fetching and for pushing, each once, however often it was done.
    assert_eq!(world.calls("POST", "/app/installations/815/access_tokens"), 2);
    assert_eq!(world.calls("GET", "/repos/ada/shop/installation"), 1);
    crate::description::holds(&world.fake.exchanges());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_on_github_with_a_personal_token() {
    let world = World::new().await;
    let hub = world.fake.repository("ada/shop");
    let tip = || git(&hub, &["rev-parse", branch().as_str()]);
    keeps_the_contract(&world, world.with_token().await.as_ref(), Published::Hosted, tip).await;
}

//! Pushes that are too large, by what they send or by what that unpacks to. The repository stays as it is.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use harvest_gateway::{Options, git::PushLimits};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::git::{BRANCH, Repository};
use crate::support::{post, text};

const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn limits() -> Options {
    let pushes = PushLimits { pack_bytes: MIB, object_bytes: 16 * MIB, unpacked_bytes: 64 * MIB };
    Options { pushes, ..Options::default() }
}

/// Every file and folder with its size.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.insert(entry.path(), 0);
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), entry.metadata().unwrap().len());
        }
    }
    found
}

/// Nothing can compress it.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(length).collect()
}

async fn push_works(repository: &Repository) {
    repository.git(["reset", "-q", "--hard", "origin/main"]).await.ok();
    repository.commit("small", b"small").await;
    repository.git(["push", "-q", "-f", "origin", &format!("HEAD:{BRANCH}")]).await.ok();
}

#[tokio::test]
async fn a_push_beyond_the_bound_is_refused_and_leaves_nothing() {
    let repository = Repository::with(true, limits()).await;
    repository.clone().await;
    let before = files(&repository.bare());
    repository.commit("large", &noise(3 << 20)).await;
    let said = repository.git(["push", "origin", &format!("HEAD:{BRANCH}")]).await.refused();
    assert!(said.contains("remote: harvest: the push is larger than 1 MiB"), "{said}");
    assert!(said.contains("remote unpack failed: the push is larger than 1 MiB"), "{said}");
    assert_eq!(files(&repository.bare()), before);
    // In many objects, which git keeps as a pack.
    for number in 0..150_u8 {
        let content = [&noise(20 << 10)[..], &[number]].concat();
        std::fs::write(repository.work().join(format!("file{number}")), content).unwrap();
    }
    std::fs::write(repository.work().join("more"), noise(2 << 20)).unwrap();
    repository.commit("last", b"").await;
    let said = repository.git(["push", "origin", &format!("HEAD:{BRANCH}")]).await.refused();
    assert!(said.contains("the push is larger than 1 MiB"), "{said}");
    assert_eq!(files(&repository.bare()), before);
    // Of one that is far beyond, not even the rest is received.
    repository.commit("huge", &noise(30 << 20)).await;
    repository.git(["push", "origin", &format!("HEAD:{BRANCH}")]).await.refused();
    assert_eq!(files(&repository.bare()), before);
    push_works(&repository).await;
}

fn size(mut size: u64, first: u8, bits: u32) -> Vec<u8> {
    let mut bytes = vec![first | u8::try_from(size & ((1 << bits) - 1)).unwrap()];
    size >>= bits;
    while size > 0 {
        *bytes.last_mut().unwrap() |= 128;
        bytes.push(u8::try_from(size & 127).unwrap());
        size >>= 7;
    }
    bytes
}

fn object(kind: u8, length: u64, base: &[u8], data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new([&size(length, kind << 4, 4), base].concat(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// The object `back` bytes before this one, `times` times.
fn repeated(length: u64, times: u64, back: usize) -> Vec<u8> {
    let mut delta = [size(length, 0, 7), size(length * times, 0, 7)].concat();
    for _ in 0..times {
        delta.extend([0xf0, length.to_le_bytes()[0], length.to_le_bytes()[1], length.to_le_bytes()[2]]);
    }
    let mut offset = vec![u8::try_from(back & 127).unwrap()];
    let mut rest = back >> 7;
    while rest > 0 {
        rest -= 1;
        offset.insert(0, u8::try_from(rest & 127).unwrap() | 128);
        rest >>= 7;
    }
    object(6, delta.len() as u64, &offset, &delta)
}

/// A push of these objects to the session's own branch.
fn push(objects: &[Vec<u8>]) -> Vec<u8> {
    let line = format!("{} {} {BRANCH}\0 report-status side-band-64k", "0".repeat(40), "1".repeat(40));
    let count = u32::try_from(objects.len()).unwrap().to_be_bytes();
    let command = format!("{:04x}{line}0000PACK\0\0\0\x02", line.len() + 4);
    // Git never comes as far as the checksum.
    [command.as_bytes(), &count, &objects.concat(), &[0; 20]].concat()
}

#[tokio::test]
async fn a_small_pack_that_unpacks_to_too_much_is_refused_and_takes_no_room() {
    let repository = Repository::with(true, limits()).await;
    repository.clone().await;
    let before = files(&repository.bare());
    let zeros = |kind| object(kind, 15 * MIB, &[], &vec![0; 15 << 20]);
    let base = object(3, 40_000, &[], &noise(40_000));
    // Each stands on the one before and is sixteen times as long.
    let mut chain = vec![base.clone()];
    for step in 0..4 {
        let back = chain.last().unwrap().len();
        chain.push(repeated(40_000 * 16_u64.pow(step), 16, back));
    }
    let mut wide = vec![base.clone()];
    for _ in 0..6 {
        wide.push(repeated(40_000, 300, wide.concat().len()));
    }
    for (name, objects, reason) in [
        (
            "a blob of a tebibyte",
            vec![object(3, 1 << 40, &[], &vec![0; 1 << 20])],
            "object of the push is larger than 16",
        ),
        (
            "a commit of a gibibyte",
            vec![object(1, 1 << 30, &[], &vec![0; 1 << 20])],
            "object of the push is larger than 16",
        ),
        ("blobs", vec![zeros(3), zeros(3), zeros(3), zeros(3), zeros(3)], "unpacks to more than 64 MiB"),
        ("trees", vec![zeros(2), zeros(2), zeros(2), zeros(2), zeros(2)], "unpacks to more than 64 MiB"),
        ("a chain of deltas", chain, "object of the push is larger than 16"),
        ("many deltas", wide, "unpacks to more than 64 MiB"),
    ] {
        let body = push(&objects);
        assert!(body.len() < 100 << 10, "{name}: {} bytes", body.len());
        let mut request = post("/git/repo/git-receive-pack", body);
        request.headers_mut().insert("content-type", "application/x-git-receive-pack-request".parse().unwrap());
        let said = text(repository.served.send(request).await).await;
        assert!(said.contains(reason) && said.contains(&format!("ng {BRANCH} unpacker error")), "{name}: {said}");
        assert_eq!(files(&repository.bare()), before, "{name}");
    }
    push_works(&repository).await;
}

#[tokio::test]
async fn what_a_push_has_brought_goes_when_its_client_hangs_up() {
    let repository = Repository::with(true, Options::default()).await;
    let before = files(&repository.bare());
    let arrived =
        || files(&repository.bare()).into_keys().any(|path| path.to_string_lossy().contains("tmp_objdir-incoming"));
    for count in [3, 500] {
        let blobs: Vec<_> = (0..count).map(|_| object(3, 1000, &[], &noise(1000))).collect();
        let body = push(&blobs);
        let mut stream = UnixStream::connect(&repository.served.socket).await.unwrap();
        let head = format!(
            "POST /git/repo/git-receive-pack HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\
             content-type: application/x-git-receive-pack-request\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body[..body.len() - 500]).await.unwrap();
        let wait = async |wanted: bool| {
            let seen = async {
                while arrived() != wanted {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{count}: {wanted}"));
        };
        wait(true).await;
        drop(stream);
        wait(false).await;
        assert_eq!(files(&repository.bare()), before);
    }
}

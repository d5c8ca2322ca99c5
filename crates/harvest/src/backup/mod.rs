//! `harvest backup` and `harvest restore`: everything in one file, and back into a new data directory. Either happens as a
//! whole: what is half done never has the name that was asked for.

mod archive;

use std::fs::{File, Permissions};
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harvest_core::{Clock, Code};
use harvest_engine::DataFolder;
use harvest_store::Sqlite;
use serde_json::json;

use crate::cli::{Backup, Global, Restore};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::gc::{amount, plural};
use crate::installation::{SystemClock, data_path, database_url, open_store};
use crate::output;
use crate::view::{Style, clean, local};
use crate::{evidence, keychain};
use archive::{Error, Keys, LeftOut, Manifest};

pub async fn backup(global: &Global, environment: &Environment, options: &Backup) -> Result<Exit, Failure> {
    let style = Style::detect(environment);
    let data = DataFolder::new(data_path(global, environment)?);
    if database_url(global, environment).is_some() {
        let help = format!(
            "use pg_dump for the database, and copy {0}/sessions and {0}/mirrors as well",
            data.path().display()
        );
        return Err(Failure::refused(
            Code::BadBackup,
            "tasks and journals are in PostgreSQL, which has its own backups",
            help,
        ));
    }
    if !data.database().is_file() {
        let message = format!("there is nothing to back up in {}", data.path().display());
        return Err(Failure::refused(Code::BadBackup, message, "name the data directory with --data-dir"));
    }
    let file = std::path::absolute(&options.file).unwrap_or_else(|_| options.file.clone());
    let manifest = write(&data, &file)?;
    // Afterwards, since opening the database brings it to the newest version and the backup is to have it as it was. A backup is
    // worth more than the entry: a full disk is a reason to make one.
    if let Err(reason) = record(global, environment, &data, &file).await {
        output::complain(&format!(
            "warning[{}]: the audit log has no entry of this backup: {}",
            reason.code, reason.message
        ));
    }
    let left_out = &manifest.left_out;
    let _ = if global.json {
        output::json(&json!({
            "file": file,
            "files": manifest.files.len(),
            "bytes": manifest.bytes(),
            "left_out": left_out,
            "keys_left_out": manifest.keys.files(),
        }))
    } else {
        let (files, size) = (plural(manifest.files.len(), "file"), amount(manifest.bytes()));
        let line = format!("{} {} {} {files}, {size}", style.ok(), file.display(), style.dot());
        output::line(&line).and_then(|()| told(style, left_out).map_or(Ok(()), |line| output::line(&line)))
    };
    let keys = manifest.keys.files();
    if !keys.is_empty() && !global.json {
        let loss = loss_without(&keys);
        let (keys, folder) = (keys.join(" and "), data.path().display());
        output::complain(&format!(
            "note: a backup has no keys; keep a copy of {keys} of {folder} in another safe place: {loss}"
        ));
    }
    Ok(Exit::Done)
}

/// What a restored data directory cannot do without these keys.
fn loss_without(keys: &[&str]) -> &'static str {
    match (keys.contains(&"master.key"), keys.contains(&"evidence.key")) {
        (true, true) => "without them credentials cannot be decrypted and evidence cannot be signed",
        (true, false) => "without it credentials cannot be decrypted",
        _ => "without it evidence cannot be signed",
    }
}

async fn record(global: &Global, environment: &Environment, data: &DataFolder, file: &Path) -> Result<(), Failure> {
    let store = open_store(global, environment, data).await?;
    Ok(harvest_store::record_now(store.as_ref(), &format!("file:{}", file.display())).await?)
}

/// The line about links and special files, if there are any.
fn told(style: Style, left_out: &LeftOut) -> Option<String> {
    let LeftOut { count, first } = left_out;
    let rest = count.saturating_sub(first.len() as u64);
    let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    let things =
        if *count == 1 { "1 link or special file is" } else { &format!("{count} links and special files are") };
    let names: Vec<String> = first.iter().map(|name| clean(name)).collect();
    (*count > 0).then(|| format!("{} {things} left out: {}{rest}", style.stopped(), names.join(", ")))
}

pub async fn restore(global: &Global, environment: &Environment, options: &Restore) -> Result<Exit, Failure> {
    let style = Style::detect(environment);
    if database_url(global, environment).is_some() {
        let help = "use pg_restore or psql with the output of pg_dump";
        return Err(Failure::refused(
            Code::BadBackup,
            "a backup is restored into a data directory, not into PostgreSQL",
            help,
        ));
    }
    let target = data_path(global, environment)?;
    let manifest = read(&options.file, &target).await?;
    let _ = if global.json {
        let (count, at) = (manifest.files.len(), manifest.created_at.to_string());
        output::json(&json!({
            "data_dir": target,
            "files": count,
            "bytes": manifest.bytes(),
            "created_at": at,
            "left_out": manifest.left_out,
            "keys_left_out": manifest.keys.files(),
        }))
    } else {
        let at = local(manifest.created_at);
        let line = format!("{} {} restored to its state of {at}", style.ok(), target.display());
        output::line(&line).and_then(|()| told(style, &manifest.left_out).map_or(Ok(()), |line| output::line(&line)))
    };
    let keys = manifest.keys.files();
    if !keys.is_empty() && !global.json {
        let (keys, from, to) = (keys.join(" and "), manifest.data_dir.display(), target.display());
        output::complain(&format!("note: a backup has no keys; copy {keys} of {} into {to}", clean(&from.to_string())));
    }
    Ok(Exit::Done)
}

fn write(data: &DataFolder, file: &Path) -> Result<Manifest, Failure> {
    let shown = file.display();
    let help = "choose another place; nothing was changed";
    let refuse = |error: Error| {
        Failure::refused(code_of(&error), format!("the backup {shown} cannot be written: {error}"), help)
    };
    if std::fs::symlink_metadata(file).is_ok() {
        return Err(Failure::refused(Code::BadBackup, format!("{shown} exists already"), help));
    }
    let Some(folder) = file.parent().filter(|folder| folder.is_dir()) else {
        return Err(Failure::refused(Code::BadBackup, format!("the folder of {shown} does not exist"), help));
    };
    let scratch =
        tempfile::Builder::new().prefix(".harvest-backup-").tempdir_in(folder).map_err(|error| refuse(error.into()))?;
    // Readable by its owner alone, as the data directory is.
    let half = tempfile::NamedTempFile::new_in(scratch.path()).map_err(|error| refuse(error.into()))?;
    let has = |key: &str| data.path().join(key).exists();
    let keys = Keys { master: has(keychain::KEY_FILE), evidence: evidence::own_key(data.path()).ok() };
    let out = BufWriter::new(half.as_file());
    let manifest = archive::write(data, keys, scratch.path(), out, SystemClock.now()).map_err(refuse)?;
    half.as_file().sync_all().map_err(|error| refuse(error.into()))?;
    half.persist_noclobber(file).map_err(|error| refuse(error.error.into()))?;
    sync_folder(folder);
    Ok(manifest)
}

async fn read(file: &Path, target: &Path) -> Result<Manifest, Failure> {
    let shown = file.display();
    let refuse = |error: Error| {
        let message = format!("the backup {shown} cannot be restored: {error}");
        Failure::refused(code_of(&error), message, "use another backup; nothing was changed")
    };
    let is_free = match std::fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !is_free {
        let message = format!("{} is not an empty folder", target.display());
        return Err(Failure::refused(Code::BadBackup, message, "restore into a new one with --data-dir"));
    }
    let source = File::open(file).map_err(|error| refuse(error.into()))?;
    let parent = target.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
    std::fs::create_dir_all(&parent).map_err(|error| refuse(error.into()))?;
    let staging = tempfile::Builder::new()
        .prefix(".harvest-restore-")
        // It becomes the data directory, which is its owner's alone.
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .map_err(|error| refuse(error.into()))?;
    let manifest = archive::read(BufReader::new(source), staging.path(), target).map_err(refuse)?;
    if let Some(public) = &manifest.keys.evidence {
        std::fs::write(staging.path().join(evidence::PUBLIC_FILE), public).map_err(|error| refuse(error.into()))?;
    }
    record_restored(&staging.path().join("harvest.db"), file).await.map_err(|error| refuse(Error::Database(error)))?;
    // Takes the place of an empty folder in one step.
    std::fs::rename(staging.path(), target).map_err(|error| refuse(error.into()))?;
    sync_folder(&parent);
    Ok(manifest)
}

/// The restored audit log goes on with an entry that it was restored. It is there before the data directory is.
async fn record_restored(database: &Path, file: &Path) -> Result<(), harvest_store::Error> {
    let store = Sqlite::open(database)?;
    harvest_store::record_now(&store, &format!("file:{}", file.display())).await
}

/// A name that was just given survives a power cut only after this; where it cannot be done, nothing better is left.
fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => Code::DiskFull,
        _ => Code::BadBackup,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
        data: DataFolder,
    }

    impl World {
        /// A data directory with a database, a mirror and a session that stands on it.
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let data = DataFolder::new(folder.path().join("data"));
            std::fs::create_dir(data.path()).unwrap();
            let store = Sqlite::open(&data.database()).unwrap();
            drop(store);
            let put = |name: &str, text: &str| {
                let path = data.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            let objects = data.path().join("mirrors/m.git/objects");
            put("sessions/s/repository.git/HEAD", "ref: refs/heads/harvest/x\n");
            put("sessions/s/repository.git/objects/info/alternates", &format!("{}\n", objects.display()));
            put("sessions/s/repository.git/objects/tmp_obj_x", "half");
            put("mirrors/m.git/objects/pack/pack-1.pack", &"pack".repeat(10_000));
            put("mirrors/m.git/refs/bases/1", "1\n");
            put("mirrors/m.git/refs/bases/1.lock", "");
            put("snapshots/m/1/file", "left out");
            std::fs::create_dir_all(data.path().join("mirrors/m.git/refs/heads")).unwrap();
            Self { folder, data }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.folder.path()).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[tokio::test]
    async fn there_and_back() {
        let world = World::new().await;
        let (file, target) = (world.path("b.tar"), world.path("new"));
        let _writing = Sqlite::open(&world.data.database()).unwrap();
        let written = write(&world.data, &file).unwrap();
        std::fs::create_dir(&target).unwrap();
        let restored = read(&file, &target).await.unwrap();
        assert_eq!(written.files, restored.files);
        let names: Vec<&str> = written.files.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "harvest.db",
                "mirrors/m.git/objects/pack/pack-1.pack",
                "mirrors/m.git/refs/bases/1",
                "sessions/s/repository.git/HEAD",
                "sessions/s/repository.git/objects/info/alternates",
            ]
        );
        let alternates =
            std::fs::read_to_string(target.join("sessions/s/repository.git/objects/info/alternates")).unwrap();
        assert_eq!(alternates, format!("{}\n", target.join("mirrors/m.git/objects").display()));
        assert!(target.join("mirrors/m.git/refs/heads").is_dir(), "git wants its empty folders");
        assert_eq!(std::fs::read(target.join("mirrors/m.git/objects/pack/pack-1.pack")).unwrap().len(), 40_000);
        Sqlite::open(&target.join("harvest.db")).unwrap();
        assert_eq!(world.names(), ["b.tar", "data", "new"]);
    }

    #[tokio::test]
    async fn a_link_in_a_repository_is_left_out_of_a_backup_and_named() {
        let world = World::new().await;
        std::fs::create_dir(world.path("host")).unwrap();
        std::fs::write(world.path("host/key"), "secret").unwrap();
        let repository = world.data.path().join("sessions/s/repository.git");
        std::os::unix::fs::symlink(world.path("host"), repository.join("refs")).unwrap();
        std::os::unix::fs::symlink(world.path("host/key"), repository.join("packed-refs")).unwrap();
        for number in 0..20 {
            std::os::unix::fs::symlink("nowhere", repository.join(format!("link-{number:02}"))).unwrap();
        }
        let written = write(&world.data, &world.path("b.tar")).unwrap();
        assert_eq!(written.left_out.count, 22);
        let below = |name: &str| format!("sessions/s/repository.git/{name}");
        let first: Vec<String> = (0..10).map(|number| below(&format!("link-{number:02}"))).collect();
        assert_eq!(written.left_out.first, first);
        let line = told(Style::plain(false), &written.left_out).unwrap();
        assert!(line.contains("22 links and special files are left out: ") && line.ends_with(" and 12 more"), "{line}");
        let restored = read(&world.path("b.tar"), &world.path("new")).await.unwrap();
        assert_eq!(restored.left_out, written.left_out);
        assert!(!written.files.keys().any(|name| name.contains("refs") && name.starts_with("sessions")), "{written:?}");
        let tar = std::fs::read(world.path("b.tar")).unwrap();
        assert!(!tar.windows(6).any(|bytes| bytes == b"secret"));
    }

    #[tokio::test]
    async fn one_wrong_byte_anywhere_is_noticed() {
        let world = World::new().await;
        let file = world.path("b.tar");
        write(&world.data, &file).unwrap();
        let good = std::fs::read(&file).unwrap();
        let damages: Vec<(usize, usize)> = (0..40).map(|n| (n * good.len() / 40, good.len())).collect();
        for (place, _) in &damages {
            let mut bad = good.clone();
            bad[*place] ^= 0x40;
            let was_padding = good[*place] == 0 && bad.len() > place + 1;
            std::fs::write(world.path("bad.tar"), &bad).unwrap();
            match read(&world.path("bad.tar"), &world.path("new")).await {
                Err(failure) => assert_eq!((failure.code, failure.exit), (Code::BadBackup, Exit::Refused)),
                // Bytes between the files of a tar mean nothing; what came out was checked against its digest.
                Ok(_) => {
                    assert!(was_padding, "byte {place}");
                    std::fs::remove_dir_all(world.path("new")).unwrap();
                }
            }
            assert!(!world.path("new").exists());
        }
        for length in [0, 100, 512, good.len() / 2, good.len() - 3000] {
            std::fs::write(world.path("bad.tar"), &good[..length]).unwrap();
            assert_eq!(
                read(&world.path("bad.tar"), &world.path("new")).await.unwrap_err().code,
                Code::BadBackup,
                "{length}"
            );
        }
        assert_eq!(world.names(), ["b.tar", "bad.tar", "data"]);
    }

    #[tokio::test]
    async fn nothing_is_overwritten() {
        let world = World::new().await;
        let file = world.path("b.tar");
        write(&world.data, &file).unwrap();
        assert_eq!(write(&world.data, &file).unwrap_err().message, format!("{} exists already", file.display()));
        assert!(write(&world.data, &world.path("no/b.tar")).is_err());
        let failure = read(&file, world.data.path()).await.unwrap_err();
        assert_eq!(failure.message, format!("{} is not an empty folder", world.data.path().display()));
        assert!(read(&file, &world.path("b.tar")).await.is_err(), "a file is no folder either");
    }

    #[tokio::test]
    async fn files_that_want_to_go_elsewhere_do_not() {
        let world = World::new().await;
        for name in ["../evil", "etc/passwd", "sessions/../../evil"] {
            let mut tar = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(1);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            tar.append(&header, &b"x"[..]).unwrap();
            std::fs::write(world.path("evil.tar"), tar.into_inner().unwrap()).unwrap();
            let failure = read(&world.path("evil.tar"), &world.path("new")).await.unwrap_err();
            assert!(failure.message.contains("files that do not belong in a backup"), "{}", failure.message);
        }
        assert_eq!(world.names(), ["data", "evil.tar"]);
    }
}

//! The master keys. The first seals; the others open what was sealed before, until nothing is left that needs them.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use zeroize::Zeroizing;

const KEY: usize = 32;
const ID: usize = 8;
const MAX_FILE: u64 = 64 * 1024;

/// Names a master key without telling anything about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyId(String);

type Key = Zeroizing<[u8; KEY]>;

/// Never empty.
pub struct Ring {
    keys: Vec<(KeyId, Key)>,
}

#[derive(Debug, thiserror::Error)]
pub enum RingError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} can be read by others (mode {mode:03o}); chmod 600 it")]
    Open { path: PathBuf, mode: u32 },
    #[error("{0}")]
    Malformed(String),
    #[error("no random bytes are available: {0}")]
    Randomness(String),
}

impl KeyId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyId {
    type Err = RingError;

    fn from_str(text: &str) -> Result<Self, RingError> {
        let valid = (1..=32).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if valid {
            return Ok(Self(text.to_owned()));
        }
        Err(RingError::Malformed("the name of a master key is 1 to 32 letters, digits, - and _".to_owned()))
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

impl Ring {
    /// One new key.
    pub fn generate() -> Result<Self, RingError> {
        Ok(Self { keys: vec![new_key()?] })
    }

    /// The key in the file, or a new one in a new file that only its owner can read.
    pub fn load_or_create(path: &Path) -> Result<Self, RingError> {
        match Self::load(path) {
            Err(RingError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                // Of several that start at once, one makes the file and all use it.
                Self::generate()?.create(path)?;
                Self::load(path)
            }
            loaded => loaded,
        }
    }

    pub fn load(path: &Path) -> Result<Self, RingError> {
        let io = |source| RingError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(RingError::Open { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(MAX_FILE).read_to_string(&mut text).map_err(io)?;
        Self::parse(&text).map_err(|error| RingError::Malformed(format!("{}: {error}", path.display())))
    }

    /// A line for each key, the current one first: a name, a space, 32 bytes as base64. The name may be left out where there
    /// is only one key.
    pub fn parse(text: &str) -> Result<Self, RingError> {
        let mut keys: Vec<(KeyId, Key)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |reason: &str| RingError::Malformed(format!("line {number} {reason}"));
            let (name, key) = line.trim().split_once(' ').unwrap_or(("only", line.trim()));
            let bytes = BASE64.decode(key.trim()).map(Zeroizing::new).map_err(|_| bad("is not base64"))?;
            let key: [u8; KEY] = bytes.as_slice().try_into().map_err(|_| bad("has a key that is not 32 bytes long"))?;
            let id: KeyId = name.parse()?;
            if keys.iter().any(|(known, _)| *known == id) {
                return Err(bad("names a key that was named before"));
            }
            keys.push((id, Zeroizing::new(key)));
        }
        if keys.is_empty() {
            return Err(RingError::Malformed("there is no key in it".to_owned()));
        }
        Ok(Self { keys })
    }

    /// Puts a new key before the others, in the file first: whatever is sealed with it can be opened after any crash.
    pub fn rotate(&mut self, path: &Path) -> Result<(), RingError> {
        let mut keys = self.keys.clone();
        keys.insert(0, new_key()?);
        let rotated = Self { keys };
        rotated.replace(path)?;
        *self = rotated;
        Ok(())
    }

    /// Forgets every key but the current one. Only for whoever has made sure that nothing is sealed with the others.
    pub fn retire_old(&mut self, path: &Path) -> Result<(), RingError> {
        let current = Self { keys: self.keys[..1].to_vec() };
        current.replace(path)?;
        *self = current;
        Ok(())
    }

    pub fn current_id(&self) -> &KeyId {
        self.current().0
    }

    pub fn has_old(&self) -> bool {
        self.keys.len() > 1
    }

    pub(crate) fn current(&self) -> (&KeyId, &[u8; KEY]) {
        let (id, key) = &self.keys[0];
        (id, key)
    }

    pub(crate) fn get(&self, id: &KeyId) -> Option<&[u8; KEY]> {
        self.keys.iter().find(|(known, _)| known == id).map(|(_, key)| &**key)
    }

    fn create(&self, path: &Path) -> Result<(), RingError> {
        let io = |source| RingError::Io { path: path.to_owned(), source };
        let new = self.write_beside(path)?;
        // Unlike a rename, a link does not replace what someone else has just made.
        let linked = std::fs::hard_link(&new, path);
        let _ = std::fs::remove_file(&new);
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(io(error)),
            _ => sync_folder(path).map_err(io),
        }
    }

    fn replace(&self, path: &Path) -> Result<(), RingError> {
        let io = |source| RingError::Io { path: path.to_owned(), source };
        let new = self.write_beside(path)?;
        std::fs::rename(new, path).map_err(io)?;
        sync_folder(path).map_err(io)
    }

    fn write_beside(&self, path: &Path) -> Result<PathBuf, RingError> {
        let (name, _) = new_key()?;
        let new = path.with_extension(format!("new-{name}"));
        let io = |source| RingError::Io { path: new.clone(), source };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(io)?;
        file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
        Ok(new)
    }

    fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(self.keys.len() * 64));
        for (id, key) in &self.keys {
            let encoded = Zeroizing::new(BASE64.encode(**key));
            for part in [id.as_str(), " ", encoded.as_str(), "\n"] {
                text.push_str(part);
            }
        }
        text
    }
}

fn new_key() -> Result<(KeyId, Key), RingError> {
    let random = |error: getrandom::Error| RingError::Randomness(error.to_string());
    let (mut name, mut key) = ([0u8; ID], Zeroizing::new([0u8; KEY]));
    getrandom::fill(&mut name).map_err(random)?;
    getrandom::fill(&mut *key).map_err(random)?;
    Ok((KeyId(name.iter().map(|byte| format!("{byte:02x}")).collect()), key))
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let first = Ring::load_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Ring::load_or_create(&path).unwrap().current(), first.current());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn many_that_start_at_once_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let starting: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || Ring::load_or_create(&path).unwrap().current_id().clone())
            })
            .collect();
        let ids: std::collections::HashSet<KeyId> = starting.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(ids.len(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        Ring::load_or_create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Ring::load(&path), Err(RingError::Open { mode: 0o640, .. })));
    }

    #[test]
    fn rotation_keeps_the_old_key_until_it_is_retired() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let mut ring = Ring::load_or_create(&path).unwrap();
        let old = ring.current_id().clone();
        ring.rotate(&path).unwrap();
        let loaded = Ring::load(&path).unwrap();
        assert!(loaded.get(&old).is_some() && *loaded.current_id() != old);
        ring.retire_old(&path).unwrap();
        let loaded = Ring::load(&path).unwrap();
        assert!(loaded.get(&old).is_none() && loaded.current() == ring.current());
    }

    #[test]
    fn what_is_wrong_is_named_without_showing_the_key() {
        let key = BASE64.encode([7u8; 32]);
        assert_eq!(Ring::parse(&key).unwrap().current_id().as_str(), "only");
        for (text, said) in [
            ("", "there is no key in it".to_owned()),
            ("a AAAA", "line 1 has a key that is not 32 bytes long".to_owned()),
            ("a !!!!", "line 1 is not base64".to_owned()),
            (&format!("a {key}\n\na {key}"), "line 3 names a key that was named before".to_owned()),
        ] {
            assert_eq!(Ring::parse(text).unwrap_err().to_string(), said, "{text}");
        }
        let shown = format!("{:?}", Ring::parse(&format!("a {key}")).unwrap());
        assert_eq!(shown, "[KeyId(\"a\")]");
    }
}

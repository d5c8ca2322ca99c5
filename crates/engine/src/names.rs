//! Names that people give to tokens, projects, convoys, caps and the like hold no key: they are stored, shown and logged.

use harvest_store::{Store, describe};
use harvest_vault::{MARK, MIN_SECRET_BYTES, Redactor, looks_random};

use crate::caps::find_kept_cap;

/// A name that somebody gave holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} contains a key; names are stored and visible to others")]
pub struct KeyInName {
    pub field: String,
}

/// What to do about a [`KeyInName`].
pub const USE_A_PLAIN_NAME: &str = "use a short plain name";

/// Every door through which a request gives a name asks this, with the field that the name stands in. The name may hold neither
/// something of the shape of a well-known vendor's key nor a secret that this process knows and that looks random.
pub fn check_name(field: &str, name: &str) -> Result<(), KeyInName> {
    refuse(field, Redactor::of_process().map_or(true, |redactor| redactor.finds_in_name(name)))
}

/// The same for a name in a file, which may be any word: a secret without a shape that is such a word makes no file invalid.
pub fn check_name_in_file(field: &str, name: &str) -> Result<(), KeyInName> {
    refuse(field, looks_like_a_key(name))
}

/// The same for a URL. It may have no user (but of SSH), password, query or fragment either.
pub fn check_address(field: &str, address: &str) -> Result<(), KeyInName> {
    refuse(field, harvest_forge::holds_access(address)).and_then(|()| check_name(field, address))
}

/// The same for the name of a cap, which may end in the address of a repository.
fn check_cap_name(field: &str, name: &str) -> Result<(), KeyInName> {
    match name.strip_prefix("repository:") {
        Some(address) => check_address(field, address),
        None => check_name(field, name),
    }
}

/// Whether the name of a cap may be used for this change. One that was kept with a key in its name before such names were refused
/// can be taken away; the audit log says so without the name.
pub async fn may_change_cap(store: &dyn Store, name: &str, size: Option<u32>) -> Result<bool, harvest_store::Error> {
    if check_cap_name("name", name).is_ok() {
        return Ok(true);
    }
    let is_kept = size.is_none() && find_kept_cap(store, name).await?.is_some();
    if is_kept {
        describe(|entry| entry.target = format!("cap:{MARK}"));
    }
    Ok(is_kept)
}

fn refuse(field: &str, holds_key: bool) -> Result<(), KeyInName> {
    if holds_key { Err(KeyInName { field: field.to_owned() }) } else { Ok(()) }
}

/// Whether a text has something of the shape of a well-known vendor's key in it.
pub fn looks_like_a_key(text: &str) -> bool {
    Redactor::new([]).is_ok_and(|redactor| redactor.finds(text))
}

/// Whether a secret, once it is stored, could hide what others write: secrets are redacted from everyone's texts, and this one
/// neither has the shape of a well-known vendor's key nor is a random token.
pub fn could_hide_words(secret: &str) -> bool {
    secret.len() >= MIN_SECRET_BYTES && !looks_like_a_key(secret) && !is_random_token(secret)
}

/// Whether a secret is one token that nobody writes by chance. A command, a path, an identifier such as
/// `AbstractAuthenticationProcessingFilter`, the hash of a commit or of a file, and an ID of Harvest's own are none.
fn is_random_token(secret: &str) -> bool {
    let digest = secret.rsplit_once(':').map_or(secret, |(_, digest)| digest);
    let is_hash = DIGESTS.contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_one_word = !secret.contains(char::is_whitespace) && !secret.contains("://");
    let numbers = secret.split(|letter: char| !letter.is_ascii_digit()).filter(|number| !number.is_empty());
    secret.len() >= MIN_TOKEN_BYTES && is_one_word && !is_hash && numbers.count() >= MIN_NUMBERS && looks_random(secret)
}

/// A shorter random token may be an ID.
const MIN_TOKEN_BYTES: usize = 20;
/// Runs of digits of a random token. An identifier of a program rarely has so many.
const MIN_NUMBERS: usize = 2;
/// The lengths of SHA-1, SHA-256 and SHA-512, in hexadecimal digits.
const DIGESTS: [usize; 3] = [40, 64, 128];

/// Whether the address of a repository in a file holds what someone gets in with: addresses are stored and visible to others.
pub fn address_holds_access(address: &str) -> bool {
    harvest_forge::holds_access(address) || looks_like_a_key(address)
}

#[cfg(test)]
mod tests {
    use harvest_vault::SecretString;

    use super::*;

    const SHAPED: &str = "sk-ant-api03-canary0123456789abcdefgh";
    const KEPT: &str = "canary0of1the2names3";
    /// A secret of words does not look random.
    const WORDS: &str = "canary of the names";

    #[test]
    fn a_name_holds_neither_a_shape_nor_a_secret_of_this_process() {
        Redactor::of_process().unwrap().learn([&KEPT.to_owned().into()]).unwrap();
        let refused = |field: &str| Err(KeyInName { field: field.to_owned() });
        for key in [SHAPED, KEPT] {
            assert_eq!(check_name("convoy", &format!("spring-{key}")), refused("convoy"));
            assert_eq!(check_cap_name("name", &format!("user:{key}")), refused("name"));
            assert_eq!(check_address("base_url", &format!("https://models.example.com/{key}")), refused("base_url"));
        }
        Redactor::of_process().unwrap().learn([&WORDS.to_owned().into()]).unwrap();
        assert_eq!(check_name("convoy", &format!("spring {WORDS}")), Ok(()));
        assert_eq!(check_address("base_url", &format!("https://models.example.com/{WORDS}")), Ok(()));
        assert_eq!(check_name("convoy", "spring"), Ok(()));
        assert_eq!(check_cap_name("name", "user:ada"), Ok(()));
        assert_eq!(check_address("base_url", "https://models.example.com/v1"), Ok(()));
    }

    #[test]
    fn names_in_files_may_be_any_word() {
        Redactor::of_process().unwrap().learn([&KEPT.to_owned().into()]).unwrap();
        assert!(check_name_in_file("project", SHAPED).is_err());
        assert_eq!(check_name_in_file("project", KEPT), Ok(()));
        assert!(!address_holds_access(&format!("/srv/{KEPT}")));
    }

    #[test]
    fn an_address_in_the_name_of_a_cap_holds_no_key_and_may_be_any_word() {
        Redactor::of_process().unwrap().learn(&[KEPT, WORDS].map(|key| SecretString::from(key.to_owned()))).unwrap();
        assert_eq!(check_cap_name("name", &format!("repository:/srv/{WORDS}")), Ok(()));
        assert_eq!(check_cap_name("name", "repository:git@example.com:ada/shop.git"), Ok(()));
        for address in [
            &format!("/srv/{SHAPED}"),
            &format!("https://example.com/{KEPT}/shop.git"),
            "https://ada:pass@example.com/shop",
            "https://example.com/shop?key=1",
        ] {
            assert!(check_cap_name("name", &format!("repository:{address}")).is_err(), "{address}");
        }
    }

    #[test]
    fn a_secret_that_is_a_word_could_hide_what_others_write() {
        for secret in [SHAPED, KEPT, "0123456789abcdef0123456789abcdef", "short", ""] {
            assert!(!could_hide_words(secret), "{secret}");
        }
        let commit = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b";
        let digest = format!("sha256:{commit}3e2c0a5d8f1b4c7e9a6d0f2c");
        for words in [
            "cargo te",
            "cargo test --workspace",
            "https://",
            "https://git.example.com/",
            "https://build7.example.com/job/a1b2c3d4e5f6a7b8",
            "production",
            "AbstractAuthenticationProcessingFilter",
            "mvn -Dtest=CustomerAccountRepositoryIntegrationTest test",
            "pytest tests/a1b2c3d4e5f6a7b8c9d0e1f2",
            "k3d9w8x7v6t5s4r3",
            commit,
            &digest,
        ] {
            assert!(could_hide_words(words), "{words}");
        }
    }
}

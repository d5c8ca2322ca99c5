//! Secrets that this process is started with and that no vault holds: the password in the address of the database and the token
//! for a server. The redactor of the process knows them before the first line is logged.

use harvest_core::Code;
use harvest_engine::could_hide_words;
use harvest_vault::{Redactor, SecretString};

use crate::cli::Global;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::installation::database_url;

pub fn learn(global: &Global, environment: &Environment) -> Result<(), Failure> {
    let secrets = secrets(database_url(global, environment), environment.text("HARVEST_TOKEN"));
    if secrets.is_empty() {
        return Ok(());
    }
    let internal = |error: harvest_vault::Error| Failure::failed(Code::Internal, error.to_string());
    Redactor::of_process().map_err(internal)?.learn(&secrets).map_err(internal)
}

/// A password that is a word, such as `postgres`, would be taken out of everything that anyone writes: it is looked for only in
/// the ways it stands in an address.
fn secrets(database: Option<&str>, token: Option<&str>) -> Vec<SecretString> {
    let mut found: Vec<String> =
        token.filter(|token| !could_hide_words(token)).map(str::to_owned).into_iter().collect();
    for password in database.map(harvest_store::passwords_in).unwrap_or_default() {
        found.extend([format!(":{password}@"), format!("password={password}"), format!("password='{password}'")]);
        if !could_hide_words(&password) {
            found.push(password);
        }
    }
    found.into_iter().map(SecretString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "pw7canary0of1the2database3";

    fn redacted(database: &str, text: &str) -> String {
        Redactor::new(secrets(Some(database), None)).unwrap().redact(text).into_owned()
    }

    #[test]
    fn the_password_of_the_database_is_redacted_in_every_form_of_its_address() {
        let mark = harvest_vault::MARK;
        for address in [
            format!("postgres://ada:{RANDOM}@db.test/harvest"),
            format!("postgres://ada@db.test/harvest?password={RANDOM}"),
            format!("host=db.test user=ada password={RANDOM}"),
            format!("host=db.test user=ada password='{RANDOM}' sslmode=require"),
            format!("postgres://ada:{RANDOM}@db.test:port/not-an-address"),
        ] {
            assert_eq!(redacted(&address, &format!("it said {RANDOM}.")), format!("it said {mark}."), "{address}");
        }
        let encoded = redacted("postgres://ada:pw7%63anary0of1the2database3@db.test/x", &format!("{RANDOM} %63"));
        assert_eq!(encoded, format!("{mark} %63"));
    }

    #[test]
    fn a_password_that_is_a_word_is_redacted_only_where_it_stands_in_an_address() {
        let address = "postgres://postgres:postgres@db.test/harvest";
        assert_eq!(redacted(address, "Use postgres for the queue"), "Use postgres for the queue");
        assert!(!redacted(address, address).contains("postgres@"));
    }

    #[test]
    fn the_token_for_a_server_is_redacted() {
        let token = "tk7canary0of1the2server3";
        let redactor = Redactor::new(secrets(None, Some(token))).unwrap();
        assert_eq!(redactor.redact(token), harvest_vault::MARK);
        assert!(secrets(None, Some("a plain password")).is_empty());
    }
}

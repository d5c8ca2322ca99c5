//! What a reader of journals, logs and pages would notice: secrets are gone, everything else is as it was.

mod redact;
mod stream;

use harvest_vault::{Redactor, SecretString};

fn redactor(secrets: &[&str]) -> Redactor {
    Redactor::new(secrets.iter().map(|secret| SecretString::from(*secret))).unwrap()
}

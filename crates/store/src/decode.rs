//! How words, ids, times and documents are kept in a column, in either database.

use std::str::FromStr;

use harvest_core::{BranchName, IdError, Prompt, Stopping, Timestamp};
use serde::Serialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::Error;

const EXAMPLES: usize = 3;

pub(crate) fn id<T: FromStr<Err = IdError>>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::corrupt("an id", error))
}

/// What a person typed of an id. `None` when no id begins like this: nothing else ever becomes part of a query.
pub(crate) fn prefix(text: &str) -> Option<String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| text.to_ascii_lowercase())
}

/// The one id that was found for a prefix.
pub(crate) fn only<T: FromStr<Err = IdError>>(
    what: &'static str,
    prefix: String,
    found: &[String],
    unknown: fn(String) -> Error,
) -> Result<T, Error> {
    match found {
        [] => Err(unknown(prefix)),
        [only] => id(only),
        several => Err(Error::AmbiguousId {
            what,
            prefix,
            count: several.len(),
            examples: several.iter().take(EXAMPLES).cloned().collect::<Vec<_>>().join(", "),
        }),
    }
}

pub(crate) fn prompt(text: String) -> Result<Prompt, Error> {
    Prompt::new(text).map_err(|error| Error::corrupt("a prompt", error))
}

pub(crate) fn branch(text: String) -> Result<BranchName, Error> {
    serde_json::from_value(text.into()).map_err(|error| Error::corrupt("a branch", error))
}

pub(crate) fn milliseconds(value: Option<i64>) -> Result<Option<Timestamp>, Error> {
    value.map(Timestamp::from_millisecond).transpose().map_err(|error| Error::corrupt("a time", error))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str, what: &'static str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::corrupt(what, error))
}

pub(crate) fn to_json(value: &impl Serialize, what: &'static str) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::corrupt(what, error))
}

/// A stop from before there were several kinds is a cancellation.
pub(crate) fn stopping(text: Option<&str>) -> Result<Stopping, Error> {
    text.map_or(Ok(Stopping::Cancel), |text| from_json(text, "a stop"))
}

/// Enums without fields are stored under the word that the wire uses.
pub(crate) fn from_word<T: DeserializeOwned>(word: &str, what: &'static str) -> Result<T, Error> {
    let word: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
    T::deserialize(word).map_err(|error| Error::corrupt(what, error))
}

pub(crate) fn to_word(value: &impl Serialize) -> Result<String, Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(Error::corrupt("an enum", format!("{other} is not a word"))),
        Err(error) => Err(Error::corrupt("an enum", error)),
    }
}

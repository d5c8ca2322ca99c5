//! `docs/configuration.md`: every setting, as its definition says.

use crate::config::key::{Definition, Key, SetBy};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
const HEAD: &str = "# Settings

Where settings are written and which one applies: [user guide](user-guide.md#settings). `harvest config show` prints those in
force and where each comes from. Durations are written like `\"90s\"`, `\"30m\"` or `\"1h30m\"`, sizes like `\"8GiB\"`, money in dollars.

This page is made from the definitions in `crates/harvest/src/config/key.rs`.
";

fn row(key: Key) -> String {
    let Definition { about, set_by, without, .. } = key.definition();
    let (_, name) = key.definition().place();
    let default = match key.default() {
        Some(value) => format!("`{}`", toml_of(&value.json())),
        None => without.trim_matches(['(', ')']).to_owned(),
    };
    let who = match set_by {
        SetBy::Operator => "",
        SetBy::Project => "projects",
        SetBy::Repository => "projects, repositories",
    };
    format!("| `{name}` | {default} | {who} | {about} |\n")
}

fn toml_of(value: &serde_json::Value) -> String {
    // TOML and JSON write these values alike.
    value.to_string()
}

fn table(name: Option<&str>) -> String {
    let mut text = name.map(|name| format!("\n## `[{name}]`\n")).unwrap_or_default();
    text.push_str("\n| setting | default | may also be set by | meaning |\n|---|---|---|---|\n");
    text.extend(Key::ALL.iter().filter(|key| key.definition().place().0 == name).map(|key| row(*key)));
    text
}

#[test]
fn the_document_lists_every_setting_as_it_is_defined() {
    let tables = Key::tables().into_iter().map(|name| table(Some(name)));
    let wanted = [HEAD.to_owned(), table(None)].into_iter().chain(tables).collect::<String>();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(FILE, &wanted).unwrap();
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    assert_eq!(written, wanted, "INSTA_UPDATE=always writes docs/configuration.md anew");
}

#[test]
fn every_setting_has_a_meaning_and_an_example_that_it_accepts() {
    for key in Key::ALL {
        let definition = key.definition();
        assert!(!definition.about.is_empty(), "{}", definition.name);
        let example = key.example();
        let written = example.split(" in [").next().unwrap();
        let (_, value) = written.parse::<toml::Table>().unwrap().into_iter().next().unwrap();
        let read = definition.kind.read(&value).unwrap_or_else(|error| panic!("{example}: {error}"));
        // What is shown can be written back.
        let again = toml::Value::try_from(read.json()).unwrap();
        assert_eq!(definition.kind.read(&again).as_ref(), Ok(&read), "{example}");
        if let Some(default) = key.default() {
            let again = toml::Value::try_from(default.json()).unwrap();
            assert_eq!(definition.kind.read(&again), Ok(default), "the default of {}", definition.name);
        }
    }
}

#[test]
fn names_are_unique() {
    for key in Key::ALL {
        assert_eq!(Key::parse(key.name()), Some(*key));
    }
}

//! Commands that messages, help and documents tell people to type. Each of them exists, with its options.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use super::Cli;

/// The source and the documents of the whole project.
fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut folders, mut texts) = (vec![root.join("crates"), root.join("docs"), root.join("web/src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let is_text =
                path.extension().is_some_and(|kind| ["rs", "md", "tsx", "ts"].iter().any(|known| kind == *known));
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(path),
                _ if is_text => texts.push((path.clone(), std::fs::read_to_string(path).unwrap())),
                _ => {}
            }
        }
    }
    texts.extend(
        ["README.md", "CHANGELOG.md"].map(|name| (name.into(), std::fs::read_to_string(root.join(name)).unwrap())),
    );
    texts
}

/// What follows `harvest ` where it is a command: behind a backtick, a prompt, or at the beginning of a line of an example.
fn commands(text: &str) -> Vec<Vec<String>> {
    let ends =
        |c: char| matches!(c, '`' | '"' | '\n' | '|' | '(' | ')' | ';' | '&' | '>' | '<' | '#' | '\\' | '…' | '\'');
    let starts = ["`harvest ", "$ harvest ", "\n  harvest ", "\n    harvest ", "\nharvest ", ": harvest "];
    let found = starts.iter().flat_map(|start| text.split(start).skip(1));
    found
        .map(|rest| rest.split(ends).next().unwrap_or_default().split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// The first word that is no subcommand or option of what is before it.
fn unknown(words: &[String]) -> Option<String> {
    let root = Cli::command();
    let mut command: &Command = &root;
    let known = |command: &Command, word: &str| {
        let name =
            word.trim_start_matches('-').split('=').next().unwrap_or_default().trim_end_matches([',', '.', ':', '?']);
        let long = |argument: &clap::Arg| {
            let all = argument.get_long_and_visible_aliases().unwrap_or_default();
            all.contains(&name) || name.len() == 1 && argument.get_short() == name.chars().next()
        };
        ["help", "version", "h", "V", ""].contains(&name)
            || command.get_arguments().any(long)
            || root.get_arguments().any(|argument| argument.is_global_set() && long(argument))
    };
    let mut is_name = true;
    for word in words {
        if word.starts_with("--") {
            if !known(command, word) {
                return Some(word.clone());
            }
            is_name = false;
        } else if is_name && command.has_subcommands() {
            match command.find_subcommand(word.trim_end_matches([',', '.', ':', '?'])) {
                Some(found) => command = found,
                // A sentence about Harvest, such as "`harvest ID`", has no lower-case word there.
                None if word.chars().all(|c| c.is_ascii_lowercase() || c == '-') => return Some(word.clone()),
                None => return None,
            }
        } else {
            is_name = false;
        }
    }
    None
}

#[test]
fn every_command_that_people_are_told_to_type_exists() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for (path, text) in texts() {
        for words in commands(&text) {
            seen += 1;
            if let Some(word) = unknown(&words) {
                faults.push(format!("{}: harvest {}: there is no {word}", path.display(), words.join(" ")));
            }
        }
    }
    faults.sort();
    assert!(seen > 200, "{seen}");
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(unknown(&words("task vanish 7k3m")), Some("vanish".to_owned()));
    assert_eq!(unknown(&words("task show 7k3m --vanish")), Some("--vanish".to_owned()));
    assert_eq!(unknown(&words("task logs 7k3m --follow --json")), None);
}

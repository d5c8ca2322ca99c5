//! Reads the texts that commands are written in, as far as it takes to see which files they name.

use std::collections::BTreeSet;

/// Commands that run the command after them.
const PREFIXES: &[&str] = &[
    "env", "exec", "time", "nice", "command", "sudo", "timeout", "xvfb-run", "then", "do", "else", "if", "elif",
    "while", "until", "!", "@", "-", "+", "run:",
];
const MOST_SECTIONS: usize = 2_000;
const MOST_STARTS: usize = 20;
const ASSIGNMENTS: &[&str] = &["=", ":=", "::=", "?=", "+="];

/// The part of a tool's file that is asked for: the targets and scripts named in `asked`, with all that these lead to. Of
/// other files everything.
pub(super) fn asked_for(path: &str, content: &str, asked: &BTreeSet<String>) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let sections = match name {
        "package.json" | "composer.json" | "deno.json" | "deno.jsonc" => of_json(content),
        _ if name.eq_ignore_ascii_case("justfile") || name == ".justfile" || name.ends_with(".just") => {
            of_rules(content, |line| line.starts_with(char::is_whitespace))
        }
        "GNUmakefile" | "makefile" | "Makefile" => of_rules(content, |line| line.starts_with('\t')),
        _ if name.ends_with(".mk") || name.ends_with(".make") => of_rules(content, |line| line.starts_with('\t')),
        _ => return without_comments(content),
    };
    follow(sections, asked)
}

/// A target, a variable or a script, with the text that belongs to it.
#[derive(Debug, Default)]
struct Section {
    names: Vec<String>,
    text: String,
    is_target: bool,
}

impl Section {
    /// Text without a name belongs to every command, and so does a rule for any target of a pattern.
    fn is_asked_for(&self, asked: &Asked) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name.contains('%') || asked.has(name))
    }
}

/// Names of targets, variables and scripts that are asked for.
#[derive(Debug, Default)]
struct Asked {
    names: BTreeSet<String>,
    /// Of names with a star at their end, as in `run-s check:*`.
    starts: BTreeSet<String>,
}

impl Asked {
    fn add(&mut self, words: impl IntoIterator<Item = String>) {
        for word in words {
            if let (Some(start), true) = (word.strip_suffix('*'), self.starts.len() < MOST_STARTS) {
                self.starts.insert(start.to_owned());
            }
            self.names.insert(word);
        }
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.starts.iter().any(|start| name.starts_with(start.as_str()))
    }
}

fn follow(mut sections: Vec<Section>, words_asked: &BTreeSet<String>) -> String {
    let mut asked = Asked::default();
    asked.add(words_asked.iter().cloned());
    if !sections.iter().any(|section| section.is_target && section.is_asked_for(&asked)) {
        let default = sections.iter().find(|section| section.is_target).and_then(|section| section.names.first());
        asked.add(default.cloned());
    }
    // To follow names through a very long file takes too long: all of it counts.
    let is_long = sections.len() > MOST_SECTIONS;
    let mut followed = String::new();
    loop {
        let (now, later): (Vec<Section>, _) =
            sections.into_iter().partition(|section| is_long || section.is_asked_for(&asked));
        if now.is_empty() {
            return followed;
        }
        for section in now {
            asked.add(words(&section.text));
            followed.push_str(&section.text);
            followed.push('\n');
        }
        sections = later;
    }
}

/// The scripts of `package.json`, and their like in other tools' files.
fn of_json(content: &str) -> Vec<Section> {
    let package: serde_json::Value = serde_json::from_str(content).unwrap_or_default();
    let scripts = ["scripts", "tasks"].into_iter().filter_map(|key| package[key].as_object()).flatten();
    let lines = |value: &serde_json::Value| match value {
        serde_json::Value::String(command) => command.clone(),
        serde_json::Value::Array(commands) => {
            commands.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let section = |(name, value): (&String, &serde_json::Value)| {
        let hooked = ["pre", "post"].into_iter().filter_map(|hook| name.strip_prefix(hook)).map(str::to_owned);
        Section { names: [name.clone()].into_iter().chain(hooked).collect(), text: lines(value), is_target: false }
    };
    scripts.map(section).collect()
}

/// Rules with recipes, variables, and lines that are neither, such as `include`.
fn of_rules(content: &str, is_recipe: impl Fn(&str) -> bool) -> Vec<Section> {
    let joined = content.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut sections: Vec<Section> = Vec::new();
    let mut in_definition = false;
    for line in joined.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        let trimmed = line.trim();
        if in_definition {
            in_definition = trimmed != "endef";
        }
        if in_definition || is_recipe(line) {
            if let Some(last) = sections.last_mut() {
                last.text.push_str(trimmed.trim_start_matches(['@', '-', '+']));
                last.text.push('\n');
            }
            continue;
        }
        if let Some(name) = trimmed.strip_prefix("define ") {
            in_definition = true;
            let name = name.split_whitespace().next().unwrap_or_default().to_owned();
            sections.push(Section { names: vec![name], ..Section::default() });
            continue;
        }
        sections.push(section(trimmed));
    }
    sections
}

fn section(line: &str) -> Section {
    let colon = line.find(':');
    if let Some(equals) = line.find('=')
        && colon.is_none_or(|colon| equals < colon || line[colon..equals].chars().all(|letter| letter == ':'))
    {
        let name = line[..equals].trim_end_matches([':', '?', '+', '!']).split_whitespace().last().unwrap_or_default();
        return Section { names: vec![name.to_owned()], text: format!("{}\n", &line[equals + 1..]), is_target: false };
    }
    match colon {
        Some(colon) => {
            let names: Vec<String> =
                line[..colon].split_whitespace().map(|name| plain_target(name).to_owned()).collect();
            // A target that begins with a dot is a setting of make, and a list of targets is no demand for them.
            let is_target = names.first().is_some_and(|name| !name.starts_with('.'));
            let needs = line[colon..].trim_start_matches([':', '&']);
            Section { names, text: format!("{}\n", needs.replace(';', "\n")), is_target }
        }
        None => Section { text: format!("{line}\n"), ..Section::default() },
    }
}

fn plain_target(name: &str) -> &str {
    name.trim_start_matches('@')
}

fn without_comments(content: &str) -> String {
    let joined = content.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// The words of a text, without quotes, and with what stands behind an equals sign as a word of its own.
pub(super) fn words(text: &str) -> Vec<String> {
    simple_commands(text).into_iter().flatten().collect()
}

/// The words that are run as programs, as far as a line shows it.
pub(super) fn first_words(text: &str) -> Vec<String> {
    let is_number = |word: &str| word.starts_with(|letter: char| letter.is_ascii_digit());
    let skipped = |word: &&String| {
        PREFIXES.contains(&word.as_str()) || word.contains('=') || word.starts_with('-') || is_number(word)
    };
    let is_command = |words: &Vec<String>| words.first().is_some_and(|first| !first.ends_with('='));
    let commands = simple_commands(text).into_iter().filter(is_command);
    commands.filter_map(|command| command.into_iter().find(|word| !skipped(&word))).collect()
}

fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let ends = |letter: char| matches!(letter, '\n' | ';' | '&' | '|' | '(' | ')' | '{' | '}' | '`');
    let mut commands = Vec::new();
    for part in text.split(ends) {
        let mut command = Vec::new();
        let separates =
            |letter: char| letter.is_whitespace() || matches!(letter, '\'' | '"' | '<' | '>' | ',' | '[' | ']');
        for word in part.split(separates).filter(|word| !word.is_empty()) {
            if ASSIGNMENTS.contains(&word) {
                commands.push(std::mem::take(&mut command));
                continue;
            }
            let word = if command.is_empty() { word.trim_start_matches(['@', '+']) } else { word };
            match word.split_once('=') {
                Some((name, value)) if !value.is_empty() && name.starts_with("--") => {
                    command.extend([name.to_owned(), value.to_owned()]);
                }
                Some((name, value)) if !value.is_empty() => {
                    // A variable that is set for the command after it.
                    commands.push(vec![format!("{name}="), value.to_owned()]);
                }
                _ if !word.is_empty() => command.push(word.to_owned()),
                _ => {}
            }
        }
        commands.push(command);
    }
    commands
}

/// A path as it is in a tree: without a start that only the shell knows.
pub(super) fn plain(word: &str) -> &str {
    let word = match word.strip_prefix('$') {
        Some(variable) => variable.split_once('/').map_or("", |(_, rest)| rest),
        None => word,
    };
    let word = word.trim_start_matches('/').trim_end_matches('/');
    if word == "." { "" } else { word }
}

/// The files that a word names, from any of these folders.
pub(super) fn resolve(word: &str, folders: &[String], files: &BTreeSet<String>, most: usize) -> Vec<String> {
    let word = plain(word);
    let mut found: Vec<String> = Vec::new();
    if word.is_empty() {
        return found;
    }
    for path in folders.iter().map(|folder| join(folder, word)) {
        if files.contains(&path) {
            found.push(path);
        } else if let Some((start, _)) = path.split_once('*')
            && !start.is_empty()
        {
            let candidates = files.range(start.to_owned()..).take_while(|file| file.starts_with(start));
            found.extend(candidates.filter(|file| matches_pattern(&path, file)).take(most).cloned());
        }
    }
    found
}

/// A path below a folder, with its `.` and `..` resolved.
pub(super) fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a path matches a pattern whose stars stand for parts of one name.
fn matches_pattern(pattern: &str, path: &str) -> bool {
    let (patterns, parts) = (pattern.split('/'), path.split('/'));
    patterns.clone().count() == parts.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| matches_name(pattern, part))
}

fn matches_name(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

/// The start of a text, cut between letters.
pub(super) fn start_of(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|index| text.is_char_boundary(*index)).unwrap_or_default();
    &text[..end]
}

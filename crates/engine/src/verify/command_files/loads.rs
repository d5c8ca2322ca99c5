//! Finds the files that a script loads as code: what a shell sources, and what other languages import or require.

use std::collections::BTreeSet;

use super::text;

const MOST_LOADED: usize = 200;
/// Words that may stand before a command in a line of a shell script.
const KEYWORDS: &[&str] = &["then", "do", "else", "if", "!", "{", "command", "builtin"];
const LOADING: &[&str] = &["import", "require", "require_relative", "include", "load", "dofile", "from", "use", "do"];
const JAVASCRIPT: &[&str] = &["js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx"];

/// The paths that a script may load, from any of these folders. Not all of them exist.
pub(super) fn loaded_by(path: &str, is_shell: bool, content: &str, folders: &[String]) -> BTreeSet<String> {
    let extension = super::extension(path);
    let names: Vec<String> = if is_shell {
        content.lines().flat_map(sourced).collect()
    } else if extension == "py" || content.starts_with("#!") && first_line(content).contains("python") {
        content.lines().flat_map(imported).collect()
    } else {
        content.lines().flat_map(|line| required(line, extension)).collect()
    };
    let below = |name: &String| {
        let name = text::plain(name).to_owned();
        folders.iter().filter(|_| !name.is_empty()).map(|folder| text::join(folder, &name)).collect::<Vec<_>>()
    };
    names.iter().flat_map(below).take(MOST_LOADED).collect()
}

fn first_line(content: &str) -> &str {
    content.lines().next().unwrap_or_default()
}

/// `. tests/lib.sh`, `source "$(dirname "$0")/lib.sh"`
fn sourced(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in line.split([';', '&', '|']) {
        let mut rest = part.trim_start();
        while let Some((first, after)) = rest.split_once(char::is_whitespace)
            && KEYWORDS.contains(&first)
        {
            rest = after.trim_start();
        }
        let Some((".", argument) | ("source", argument)) = rest.split_once(char::is_whitespace) else { continue };
        let argument = argument.replace(['"', '\''], "");
        // Of `$(dirname $0)/lib.sh` and `${here}/lib.sh` only the end is known.
        let known = argument.rsplit([')', '}']).next().unwrap_or_default();
        found.extend(known.split_whitespace().next().map(str::to_owned));
    }
    found
}

/// `import helper`, `from tests.helper import check`, `from . import helper`
fn imported(line: &str) -> Vec<String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let module = |name: &str| name.trim_start_matches('.').replace('.', "/");
    let named = |list: &str| -> Vec<String> {
        let names = list.split([',', '(', ')']).filter_map(|name| name.split_whitespace().next());
        names.map(module).filter(|name| !name.is_empty()).collect()
    };
    let modules = if let Some(list) = line.strip_prefix("import ") {
        named(list)
    } else if let Some((from, list)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) {
        let from = module(from.trim());
        let inside = named(list).into_iter().map(|name| text::join(&from, &name));
        inside.chain(Some(from.clone()).filter(|from| !from.is_empty())).collect()
    } else {
        Vec::new()
    };
    modules.iter().flat_map(|module| [format!("{module}.py"), format!("{module}/__init__.py")]).collect()
}

/// `const helper = require("./helper")`, `} from "./helper.js"`, `require_relative "helper"`
fn required(line: &str, extension: &str) -> Vec<String> {
    let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    if !words.any(|word| LOADING.contains(&word)) {
        return Vec::new();
    }
    let extensions = if JAVASCRIPT.contains(&extension) { JAVASCRIPT } else { &[extension] };
    let quoted = line.split(['"', '\'', '`']).skip(1).step_by(2).filter(|name| !name.trim().is_empty());
    let with_extensions = |name: &str| {
        let more = extensions
            .iter()
            .flat_map(|extension| [format!("{name}.{extension}"), format!("{name}/index.{extension}")]);
        std::iter::once(name.to_owned()).chain(more).collect::<Vec<_>>()
    };
    quoted.flat_map(with_extensions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn loads(path: &str, content: &str, expected: &[&str]) {
        let folders = ["tests".to_owned(), String::new()];
        let found = loaded_by(path, path.ends_with(".sh"), content, &folders);
        for path in expected {
            assert!(found.contains(*path), "{content}: {found:?}");
        }
        assert_eq!(found.is_empty(), expected.is_empty(), "{content}: {found:?}");
    }

    #[test]
    fn what_scripts_load_is_found_in_each_language() {
        loads("tests/run.sh", ". tests/lib.sh\n", &["tests/lib.sh"]);
        loads("tests/run.sh", "set -e; source \"$(dirname \"$0\")/lib.sh\" --quiet\n", &["tests/lib.sh"]);
        loads("tests/run.sh", "[ -f env.sh ] && . \"${here}/env.sh\"\n", &["tests/env.sh", "env.sh"]);
        loads("tests/run.sh", "if . $here/lib.sh; then true; fi\n", &["tests/lib.sh"]);
        loads("tests/run.sh", "sh tests/one.sh\n./two.sh\n# . tests/lib.sh\n", &[]);
        loads("tests/run.py", "import os, helper as h\n", &["tests/helper.py", "tests/os.py"]);
        loads("tests/run.py", "    from tests.helper import (check,\n", &["tests/helper.py", "tests/helper/check.py"]);
        loads("tests/run.py", "from . import helper  # ours\n", &["tests/helper.py"]);
        loads("tests/run.py", "print('import')\n", &[]);
        loads(
            "tests/run.js",
            "const { check } = require('./helper');\n",
            &["tests/helper.js", "tests/helper/index.js"],
        );
        loads("tests/run.mjs", "} from \"../helper.ts\"\n", &["helper.ts"]);
        loads("tests/run.rb", "require_relative 'helper'\n", &["tests/helper.rb"]);
        loads("tests/run.js", "check('./helper')\n", &[]);
    }
}

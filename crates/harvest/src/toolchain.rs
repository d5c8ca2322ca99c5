//! What a sandbox gets to run besides the system: toolchains that live in a person's home, read-only, and nothing else of it.

use std::path::{Path, PathBuf};

use harvest_engine::Toolchain;

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A toolchain manager: the folders it needs to be seen, the one with its programs, and a variable that points at it.
struct Manager {
    folders: &'static [&'static str],
    programs: &'static str,
    variable: Option<(&'static str, &'static str)>,
}

const MANAGERS: &[Manager] = &[
    Manager {
        // The last one is empty as a rule; where it is not there, rustup tries to make it and fails.
        folders: &[".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml", ".rustup/update-hashes"],
        programs: ".cargo/bin",
        variable: Some(("RUSTUP_HOME", ".rustup")),
    },
    Manager {
        folders: &[".pyenv/versions", ".pyenv/shims", ".pyenv/libexec", ".pyenv/version", ".pyenv/bin"],
        programs: ".pyenv/shims",
        variable: Some(("PYENV_ROOT", ".pyenv")),
    },
    Manager {
        folders: &[".volta/bin", ".volta/tools"],
        programs: ".volta/bin",
        variable: Some(("VOLTA_HOME", ".volta")),
    },
    Manager { folders: &[".bun/bin"], programs: ".bun/bin", variable: None },
    Manager { folders: &[".deno/bin"], programs: ".deno/bin", variable: None },
];

/// The search path and variables inside, and the folders to show. System tools come first.
pub fn find(home: Option<&Path>) -> (Toolchain, Vec<PathBuf>) {
    let mut toolchain = Toolchain { path: SYSTEM_PATH.to_owned(), ..Toolchain::default() };
    let mut shown = Vec::new();
    for Manager { folders, programs, variable } in MANAGERS {
        let Some(programs) = home.map(|home| home.join(programs)).filter(|programs| programs.is_dir()) else {
            continue;
        };
        let Some(home) = home else { continue };
        toolchain.path = format!("{}:{}", toolchain.path, programs.display());
        shown.extend(folders.iter().map(|folder| home.join(folder)).filter(|folder| folder.exists()));
        if let Some((name, value)) = variable {
            toolchain.env.push(((*name).to_owned(), home.join(value).display().to_string()));
        }
    }
    (toolchain, shown)
}

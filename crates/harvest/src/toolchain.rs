//! What a sandbox gets to run besides the system: toolchains that live in a person's home or where the variables of their
//! managers point, read-only, and nothing else of there.

use std::path::PathBuf;

use harvest_engine::Toolchain;

use crate::environment::Environment;
use crate::programs::is_of_the_system;

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A toolchain manager.
struct Manager {
    /// The variable with its folder, and where that is in the home without it.
    variable: &'static str,
    default: &'static str,
    /// The parts of the folder that must be seen.
    shown: &'static [&'static str],
    /// The part with its programs.
    programs: Option<&'static str>,
    /// Whether its programs look for the variable.
    passed: bool,
}

const MANAGERS: &[Manager] = &[
    // What cargo writes goes to the sandbox's home, so that its variable is not passed.
    Manager { variable: "CARGO_HOME", default: ".cargo", shown: &["bin"], programs: Some("bin"), passed: false },
    Manager {
        variable: "RUSTUP_HOME",
        default: ".rustup",
        // The last one is empty as a rule; where it is not there, rustup tries to make it and fails.
        shown: &["toolchains", "settings.toml", "update-hashes"],
        programs: None,
        passed: true,
    },
    Manager {
        variable: "PYENV_ROOT",
        default: ".pyenv",
        shown: &["versions", "shims", "libexec", "version", "bin"],
        programs: Some("shims"),
        passed: true,
    },
    Manager {
        variable: "VOLTA_HOME",
        default: ".volta",
        shown: &["bin", "tools"],
        programs: Some("bin"),
        passed: true,
    },
    Manager { variable: "BUN_INSTALL", default: ".bun", shown: &["bin"], programs: Some("bin"), passed: false },
    Manager { variable: "DENO_INSTALL", default: ".deno", shown: &["bin"], programs: Some("bin"), passed: false },
];

/// The search path and variables inside, and the folders to show. Programs of the system come first.
pub fn find(environment: &Environment) -> (Toolchain, Vec<PathBuf>) {
    let mut toolchain = Toolchain { path: SYSTEM_PATH.to_owned(), ..Toolchain::default() };
    let mut shown = Vec::new();
    for manager in MANAGERS {
        let named = environment.text(manager.variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let Some(root) = named.or_else(|| Some(environment.home()?.join(manager.default))) else { continue };
        let places: Vec<PathBuf> =
            manager.shown.iter().map(|part| root.join(part)).filter(|place| place.exists()).collect();
        if !root.is_absolute() || places.is_empty() {
            continue;
        }
        if let Some(programs) = manager.programs.map(|part| root.join(part)).filter(|programs| programs.is_dir()) {
            toolchain.path = format!("{}:{}", toolchain.path, programs.display());
        }
        // Below /usr or /opt it is there already, and cannot be shown again.
        shown.extend(places.into_iter().filter(|place| !is_of_the_system(place)));
        if manager.passed {
            toolchain.env.push((manager.variable.to_owned(), root.display().to_string()));
        }
    }
    (toolchain, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchains_are_shown_where_their_variables_say_or_in_the_home_and_nothing_beside_them() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("with a space");
        for folder in ["cargo/bin", "cargo/registry", "rustup/toolchains/stable", "home/.bun/bin", "home/.ssh"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("rustup/settings.toml"), "").unwrap();
        let (cargo, rustup, home) = (root.join("cargo"), root.join("rustup"), root.join("home"));
        let variables = [("HOME", home.as_path()), ("CARGO_HOME", &cargo), ("RUSTUP_HOME", &rustup)];
        let (toolchain, shown) = find(&Environment::with(&variables));
        let expected =
            [cargo.join("bin"), rustup.join("toolchains"), rustup.join("settings.toml"), home.join(".bun/bin")];
        assert_eq!(shown, expected);
        let path = format!("{SYSTEM_PATH}:{}:{}", cargo.join("bin").display(), home.join(".bun/bin").display());
        assert_eq!(toolchain.path, path);
        assert_eq!(toolchain.env, [("RUSTUP_HOME".to_owned(), rustup.display().to_string())]);
    }

    /// As images of containers have it: `/usr/local/cargo`, `/usr/local/rustup`.
    #[test]
    fn a_toolchain_of_the_system_is_used_and_not_shown_again() {
        let root = PathBuf::from("/usr");
        let variables = [("HOME", std::path::Path::new("/nonexistent")), ("CARGO_HOME", &root)];
        let (toolchain, shown) = find(&Environment::with(&variables));
        assert_eq!(shown, Vec::<PathBuf>::new());
        assert_eq!(toolchain.path, format!("{SYSTEM_PATH}:/usr/bin"));
    }
}

//! Who may know whom.
//!
//! Dependencies point downwards only. [`LAYERS`] is the whole rule: change it together with `ARCHITECTURE.md`, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::Package;

/// One crate and what it stands on.
struct Layer {
    name: &'static str,
    /// Crates of this workspace it may use.
    uses: &'static [&'static str],
    /// Libraries that would make it know what it must not.
    never: &'static [&'static [&'static str]],
    /// Said to whoever breaks the rule.
    because: &'static str,
}

const ASYNC: &[&str] = &["async-trait", "tokio", "tokio-util", "futures-util"];
const HTTP: &[&str] = &["axum", "hyper", "reqwest", "ureq"];
const SQL: &[&str] = &["postgres", "rusqlite", "sqlx", "tokio-postgres", "tokio-postgres-rustls"];

/// A library that only the tests of a crate may use, although the crate never may.
struct TestException {
    name: &'static str,
    dependency: &'static str,
    because: &'static str,
}

const TEST_EXCEPTIONS: &[TestException] = &[
    TestException {
        name: "harvest",
        dependency: "rusqlite",
        because: "the end-to-end tests read, and damage, the database behind the back of the program",
    },
    TestException {
        name: "harvest",
        dependency: "ureq",
        because: "the end-to-end tests are clients of the served API",
    },
];

/// From the bottom up.
const LAYERS: &[Layer] = &[
    Layer {
        name: "harvest-core",
        uses: &[],
        never: &[ASYNC, HTTP, SQL, &["getrandom", "rustix", "libc"]],
        because: "it is the nouns that all others agree on: no I/O, no async, no clock",
    },
    Layer {
        name: "harvest-api-types",
        uses: &["harvest-core"],
        never: &[ASYNC, HTTP, SQL],
        because: "it is what the API is asked and answers: shapes and no behaviour",
    },
    Layer {
        name: "harvest-testing",
        uses: &[],
        never: &[ASYNC, HTTP, SQL],
        because: "it supports the tests of every crate and so stands on none",
    },
    Layer {
        name: "harvest-link",
        uses: &[],
        never: &[ASYNC, HTTP, SQL],
        because: "it is linked into the small static runner: bytes in, messages out",
    },
    Layer {
        name: "harvest-runner",
        uses: &["harvest-link"],
        never: &[HTTP, SQL],
        because: "it lives in the sandbox and knows the link and nothing else",
    },
    Layer {
        name: "harvest-builtin",
        uses: &["harvest-core"],
        never: &[ASYNC, SQL],
        because: "it is an agent like any other and reaches Harvest only through the gateway",
    },
    Layer {
        name: "harvest-sandboxed",
        uses: &[],
        never: &[ASYNC, HTTP, SQL],
        because: "it carries the finished programs along and links none of them",
    },
    Layer {
        name: "harvest-vault",
        uses: &["harvest-core"],
        never: &[HTTP, SQL],
        because: "secrets are kept where no one speaks to the network",
    },
    Layer {
        name: "harvest-beneath",
        uses: &[],
        never: &[ASYNC, HTTP, SQL],
        because: "it opens files below folders that it was given and knows nothing of what they mean",
    },
    Layer {
        name: "harvest-store",
        uses: &["harvest-core"],
        never: &[HTTP],
        because: "it stores what it is told and asks no one",
    },
    Layer {
        name: "harvest-workspace",
        uses: &["harvest-beneath", "harvest-core"],
        never: &[HTTP, SQL],
        because: "it knows git and nothing of agents or of the inside of sandboxes",
    },
    Layer {
        name: "harvest-agents",
        uses: &["harvest-core"],
        never: &[ASYNC, HTTP, SQL, &["rustix", "libc"]],
        because: "dialects are pure functions over lines: no processes, no files",
    },
    Layer {
        name: "harvest-sandbox",
        uses: &["harvest-beneath", "harvest-core", "harvest-link"],
        never: &[HTTP, SQL],
        because: "a sandbox runs processes and knows neither agents nor git hosting",
    },
    Layer {
        name: "harvest-gateway",
        uses: &["harvest-core", "harvest-vault"],
        never: &[SQL],
        because: "it must not know which agent is calling; books are kept behind its Meter",
    },
    Layer {
        name: "harvest-forge",
        uses: &["harvest-core", "harvest-workspace"],
        never: &[SQL],
        because: "it knows where branches go, not whose session made them",
    },
    Layer {
        name: "harvest-engine",
        uses: &[
            "harvest-agents",
            "harvest-beneath",
            "harvest-core",
            "harvest-forge",
            "harvest-gateway",
            "harvest-sandbox",
            "harvest-store",
            "harvest-vault",
            "harvest-workspace",
        ],
        never: &[HTTP, SQL],
        because: "the stages of a turn speak to everything through contracts: no SQL, no HTTP, no link",
    },
    Layer {
        name: "harvest-outbound",
        uses: &[],
        never: &[SQL],
        because: "it asks others over HTTP, whoever wants to know",
    },
    Layer {
        name: "harvest-telemetry",
        uses: &["harvest-core", "harvest-outbound"],
        never: &[SQL],
        because: "it tells what journals say, and asks nobody for them",
    },
    Layer {
        name: "harvest-server",
        uses: &[
            "harvest-api-types",
            "harvest-core",
            "harvest-engine",
            "harvest-forge",
            "harvest-outbound",
            "harvest-store",
            "harvest-telemetry",
            "harvest-workspace",
        ],
        never: &[SQL],
        because: "it speaks HTTP and asks the engine, the store and the installation by their handles",
    },
    Layer {
        name: "harvest",
        uses: &[
            "harvest-agents",
            "harvest-api-types",
            "harvest-beneath",
            "harvest-core",
            "harvest-engine",
            "harvest-forge",
            "harvest-gateway",
            "harvest-outbound",
            "harvest-sandbox",
            "harvest-sandboxed",
            "harvest-server",
            "harvest-store",
            "harvest-telemetry",
            "harvest-vault",
            "harvest-workspace",
        ],
        never: &[HTTP, SQL],
        because: "the binary wires the others together and has no business rules of its own",
    },
    Layer {
        name: "xtask",
        uses: &[
            "harvest-agents",
            "harvest-core",
            "harvest-engine",
            "harvest-gateway",
            "harvest-sandbox",
            "harvest-sandboxed",
            "harvest-store",
            "harvest-vault",
            "harvest-workspace",
        ],
        never: &[SQL],
        because: "it measures single parts from outside; no one depends on it",
    },
];

impl Layer {
    fn forbids(&self, library: &str) -> bool {
        self.never.iter().any(|libraries| libraries.contains(&library))
    }
}

impl TestException {
    fn is_for(&self, name: &str, dependency: &str) -> bool {
        self.name == name && self.dependency == dependency
    }
}

/// What breaks the rule, one sentence each.
pub fn faults(packages: &[Package]) -> Vec<String> {
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut faults = Vec::new();
    for Package { name, dependencies, dev_dependencies, .. } in packages {
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            faults.push(format!("{name} has no place yet: say what it may use in xtask/src/layers.rs"));
            continue;
        };
        for dependency in dependencies {
            let dependency = dependency.as_str();
            let foreign = !ours.contains(dependency);
            let allowed = if foreign { !layer.forbids(dependency) } else { layer.uses.contains(&dependency) };
            if !allowed {
                faults.push(format!("{name} must not depend on {dependency}: {}", layer.because));
            }
        }
        // Tests may look at other crates of the workspace, but a library that the crate must not know needs a reason.
        for dependency in dev_dependencies.iter().filter(|dependency| layer.forbids(dependency)) {
            if !TEST_EXCEPTIONS.iter().any(|exception| exception.is_for(name, dependency)) {
                faults.push(format!(
                    "the tests of {name} must not depend on {dependency}: {}; a reason for them belongs to the exceptions in xtask/src/layers.rs",
                    layer.because
                ));
            }
        }
    }
    for TestException { name, dependency, because } in TEST_EXCEPTIONS {
        let is_used =
            packages.iter().any(|package| package.name == *name && package.dev_dependencies.contains(*dependency));
        if !is_used {
            faults.push(format!("the tests of {name} do not use {dependency} any more ({because}): take it out of the exceptions in xtask/src/layers.rs"));
        }
    }
    faults.extend(
        LAYERS
            .iter()
            .filter(|layer| !ours.contains(layer.name))
            .map(|layer| format!("{} is not there any more: take it out of xtask/src/layers.rs", layer.name)),
    );
    faults.extend(cycle(packages));
    faults
}

/// Tests may look further than the crate itself, but not in a circle: that would build a crate twice and test the wrong one.
fn cycle(packages: &[Package]) -> Option<String> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = packages
        .iter()
        .map(|package| {
            let all = package.dependencies.union(&package.dev_dependencies).map(String::as_str);
            let ours = all.filter(|name| packages.iter().any(|other| other.name == *name));
            (package.name.as_str(), ours.collect())
        })
        .collect();
    // What depends on nothing that is left cannot be part of a circle.
    while let Some(name) = left.iter().find(|(_, uses)| uses.is_empty()).map(|(name, _)| *name) {
        left.remove(name);
        left.values_mut().for_each(|uses| _ = uses.remove(name));
    }
    let names: Vec<&str> = left.into_keys().collect();
    (!names.is_empty()).then(|| format!("these depend on each other in a circle, tests included: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;

    #[test]
    fn dependencies_point_downwards() {
        let faults = faults(&manifest::read_workspace().unwrap());
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    fn with(name: &str, change: impl FnOnce(&mut Package)) -> Vec<String> {
        let mut packages = manifest::read_workspace().unwrap();
        change(packages.iter_mut().find(|package| package.name == name).unwrap());
        faults(&packages)
    }

    #[test]
    fn a_crate_that_knows_too_much_is_named_with_the_reason() {
        let found = with("harvest-core", |core| core.dependencies.extend(["tokio".to_owned()]));
        let expected = "harvest-core must not depend on tokio: it is the nouns that all others agree on: no I/O, no async, no clock";
        assert_eq!(found, [expected]);
        let found = with("harvest-runner", |runner| runner.dependencies.extend(["harvest-core".to_owned()]));
        let expected = "harvest-runner must not depend on harvest-core: it lives in the sandbox and knows the link and nothing else";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn tests_may_look_further_but_not_in_a_circle() {
        let allowed =
            with("harvest-sandbox", |sandbox| sandbox.dev_dependencies.extend(["harvest-gateway".to_owned()]));
        assert!(allowed.is_empty(), "{allowed:?}");
        let found = with("harvest-core", |core| core.dev_dependencies.extend(["harvest-store".to_owned()]));
        assert!(found.iter().any(|fault| fault.contains("circle") && fault.contains("harvest-store")), "{found:?}");
    }

    #[test]
    fn tests_need_a_reason_for_a_library_that_their_crate_must_not_know() {
        let found = with("harvest-core", |core| core.dev_dependencies.extend(["rusqlite".to_owned()]));
        let expected = "the tests of harvest-core must not depend on rusqlite: it is the nouns";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        for exception in TEST_EXCEPTIONS {
            let found = with(exception.name, |package| _ = package.dev_dependencies.remove(exception.dependency));
            let expected = format!("the tests of {} do not use {} any more", exception.name, exception.dependency);
            assert!(found.iter().any(|fault| fault.starts_with(&expected)), "{found:?}");
            assert!(!exception.because.is_empty());
        }
    }

    #[test]
    fn a_new_crate_must_be_given_a_place() {
        let found = with("harvest-vault", |vault| vault.name = "harvest-drawer".to_owned());
        assert!(found.iter().any(|fault| fault.starts_with("harvest-drawer has no place yet")), "{found:?}");
        assert!(found.iter().any(|fault| fault.starts_with("harvest-vault is not there any more")), "{found:?}");
    }

    #[test]
    fn the_rule_itself_points_downwards() {
        for (height, layer) in LAYERS.iter().enumerate() {
            for name in layer.uses {
                assert!(
                    LAYERS[..height].iter().any(|below| below.name == *name),
                    "{} uses {name}, which is not below it",
                    layer.name
                );
            }
        }
    }
}

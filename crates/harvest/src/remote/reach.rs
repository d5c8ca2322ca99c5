//! Which commands speak to the server in `HARVEST_URL`, and what becomes of the others while it is set.
//!
//! A command that only works on this machine's data directory must not pass for one that has reached the server. One that
//! looks or works here says where it does; one that changes something is refused until the place is named. The match has no
//! wildcard: a new command does not compile before it is decided what it is.

use harvest_core::Code;

use crate::cli::{Agent, Audit, Cli, Command, Config, Dev, Evidence, Export, Github, Import, Mcp};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output;

/// Where a command works while `HARVEST_URL` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// On the server.
    Server,
    /// It is about this machine, and has nothing to do with any data directory.
    Machine,
    /// It looks at this machine's settings or data directory, or runs its queue.
    Here,
    /// It changes this machine's data directory.
    ChangesHere,
}

impl Reach {
    pub fn of(command: &Command) -> Self {
        match command {
            Command::Run(_)
            | Command::Task(_)
            | Command::Session(_)
            | Command::Token(_)
            | Command::Login(_)
            | Command::Status { .. }
            | Command::Stats(_)
            | Command::Interrupt(_)
            | Command::Queue(_)
            | Command::Repo(_)
            | Command::Convoy(_)
            | Command::Schedule(_)
            | Command::Template(_)
            | Command::Credential(_)
            | Command::Evidence(Evidence::Export { .. } | Evidence::Key)
            | Command::Race(_) => Self::Server,
            Command::Agent(Agent::Check { .. })
            | Command::Evidence(Evidence::Verify { .. })
            | Command::Dev(Dev::FakeGithub(_))
            | Command::Doctor(_)
            | Command::Completion { .. }
            | Command::Explain { .. } => Self::Machine,
            Command::Up(_)
            | Command::Serve(_)
            | Command::Demo(_)
            | Command::Backup(_)
            | Command::Audit(Audit::Verify | Audit::Export)
            | Command::Mcp(Mcp::List | Mcp::Show { .. })
            | Command::Agent(Agent::List)
            | Command::Config(Config::Show { .. })
            | Command::Export(Export::Beads { .. }) => Self::Here,
            Command::Init(_)
            | Command::Restore(_)
            | Command::Gc(_)
            | Command::Mcp(Mcp::Add(_) | Mcp::Remove { .. })
            | Command::Import(Import::Beads(_))
            | Command::Github(Github::Setup(_)) => Self::ChangesHere,
        }
    }
}

/// Says that a command does not speak to the server, or refuses it. `name` is its name in the audit log.
pub fn check(cli: &Cli, name: &str, environment: &Environment) -> Result<(), Failure> {
    let Some(url) = environment.text("HARVEST_URL") else { return Ok(()) };
    if cli.global.data_dir.is_some() || cli.global.database_url.is_some() {
        return Ok(());
    }
    let (url, name) = (crate::view::clean(url), name.replace(".create", ".add").replace('.', " "));
    match Reach::of(&cli.command) {
        Reach::Server | Reach::Machine => Ok(()),
        Reach::Here => {
            output::complain(&format!(
                "note: `harvest {name}` works on this machine, not on the server in HARVEST_URL ({url})"
            ));
            Ok(())
        }
        Reach::ChangesHere => {
            let message = format!(
                "`harvest {name}` changes this machine's data directory, and HARVEST_URL names a server ({url}), which it \
                 does not use"
            );
            let help =
                "run it on the server's machine; to change this one, name it with --data-dir DIR, or unset HARVEST_URL";
            Err(Failure::refused(Code::BadOption, message, help))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};

    use super::*;

    /// Every command with what it needs, and where it works.
    const COMMANDS: &[(&str, Reach)] = &[
        ("run x", Reach::Server),
        ("task add x", Reach::Server),
        ("task retry 1", Reach::Server),
        ("task list", Reach::Server),
        ("task show 1", Reach::Server),
        ("task logs 1", Reach::Server),
        ("task diff 1", Reach::Server),
        ("task apply 1", Reach::Server),
        ("task approve 1", Reach::Server),
        ("task reject 1", Reach::Server),
        ("task cancel 1", Reach::Server),
        ("task delete 1", Reach::Server),
        ("task terminate 1", Reach::Server),
        ("session show 1", Reach::Server),
        ("session prompt 1 x", Reach::Server),
        ("session resume 1", Reach::Server),
        ("session continue 1 --agent builtin", Reach::Server),
        ("session fork 1 --at 1", Reach::Server),
        ("session restore 1 --checkpoint 1", Reach::Server),
        ("token create", Reach::Server),
        ("token list", Reach::Server),
        ("token revoke 1", Reach::Server),
        ("token link", Reach::Server),
        ("login", Reach::Server),
        ("status", Reach::Server),
        ("stats", Reach::Server),
        ("interrupt 1", Reach::Server),
        ("queue resize 1", Reach::Server),
        ("queue pause", Reach::Server),
        ("queue resume", Reach::Server),
        ("queue cap user:ada 1", Reach::Server),
        ("race show 1", Reach::Server),
        ("init", Reach::ChangesHere),
        ("demo", Reach::Here),
        ("agent list", Reach::Here),
        ("agent check builtin", Reach::Machine),
        ("config show", Reach::Here),
        ("evidence verify x", Reach::Machine),
        ("dev fake-github", Reach::Machine),
        ("doctor", Reach::Machine),
        ("completion bash", Reach::Machine),
        ("explain 0101", Reach::Machine),
        ("up", Reach::Here),
        ("serve", Reach::Here),
        ("backup x", Reach::Here),
        ("audit verify", Reach::Here),
        ("audit export", Reach::Here),
        ("repo list", Reach::Server),
        ("convoy list", Reach::Server),
        ("convoy show x", Reach::Server),
        ("schedule list", Reach::Server),
        ("template list", Reach::Server),
        ("credential list", Reach::Server),
        ("mcp list", Reach::Here),
        ("mcp show x", Reach::Here),
        ("export beads x", Reach::Here),
        ("evidence export 1", Reach::Server),
        ("evidence key", Reach::Server),
        ("restore x", Reach::ChangesHere),
        ("gc", Reach::ChangesHere),
        ("repo add x", Reach::Server),
        ("repo build x", Reach::Server),
        ("repo remove x", Reach::Server),
        ("schedule add @daily x", Reach::Server),
        ("schedule remove 1", Reach::Server),
        ("template add x y", Reach::Server),
        ("template use x", Reach::Server),
        ("template remove x", Reach::Server),
        ("credential add anthropic", Reach::Server),
        ("credential rotate 1", Reach::Server),
        ("credential remove 1", Reach::Server),
        ("mcp add x", Reach::ChangesHere),
        ("mcp remove x", Reach::ChangesHere),
        ("import beads x", Reach::ChangesHere),
        ("github setup --public-url https://harvest.example", Reach::ChangesHere),
    ];

    fn leaves(command: &clap::Command, path: &str, into: &mut BTreeSet<String>) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            leaves(below, format!("{path} {}", below.get_name()).trim(), into);
        }
        if !command.has_subcommands() {
            into.insert(path.to_owned());
        }
    }

    #[test]
    fn every_command_says_whether_it_speaks_to_the_server() {
        let mut missing = BTreeSet::new();
        leaves(&Cli::command(), "", &mut missing);
        for (line, reach) in COMMANDS {
            let cli = Cli::try_parse_from(std::iter::once("harvest").chain(line.split(' ')));
            let cli = cli.unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(Reach::of(&cli.command), *reach, "{line}");
            missing.retain(|leaf| *line != *leaf && !line.starts_with(&format!("{leaf} ")));
        }
        assert_eq!(missing, BTreeSet::new(), "these commands are in no line above");
    }
}

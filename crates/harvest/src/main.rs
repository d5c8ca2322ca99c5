//! The `harvest` program: command line, configuration, and the wiring of everything below.

mod account;
mod agent;
mod ask;
mod audit;
mod backup;
mod beads;
mod cli;
mod completion;
mod config;
#[cfg(feature = "container")]
mod container;
mod convoy;
mod credential;
mod demo;
mod desk;
mod dev;
mod doctor;
mod environment;
mod evidence;
mod explain;
mod failure;
mod follow;
mod gc;
mod github;
mod init;
mod installation;
mod interrupt;
mod keychain;
mod keyring;
mod log;
mod login;
mod mcp;
mod output;
mod own_secrets;
mod package_managers;
mod programs;
mod projects;
mod prompt_template;
mod prompts;
mod queue;
mod race;
mod reload;
mod remote;
mod repo;
mod run;
mod saved;
mod schedule;
mod serve;
mod server_lock;
mod session;
mod sign_in;
mod signals;
mod signed_in;
mod stats;
mod status;
mod tape;
mod task;
mod template;
mod token;
mod toolchain;
mod tracer;
mod up;
mod upkeep;
mod view;
mod works;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use environment::Environment;
use failure::{Exit, Failure};
use harvest_core::Code;
use harvest_store::Record;

fn main() -> ExitCode {
    signals::prepare();
    let environment = Environment::read();
    let parsed =
        Cli::command().try_get_matches().and_then(|given| Ok((Cli::from_arg_matches(&given)?, command_name(&given))));
    let (cli, name) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if init::is_first_day(&error, &environment) => (init::command(), "init".to_owned()),
        Err(error) => return ExitCode::from(usage(&error) as u8),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            Failure::failed(Code::Internal, format!("the runtime could not be started: {error}")).print();
            return ExitCode::from(Exit::Failed as u8);
        }
    };
    let is_doctor = matches!(cli.command, Command::Doctor(_));
    let exit = match runtime.block_on(recorded(name, cli, environment)) {
        Ok(exit) => exit,
        Err(failure) => {
            failure.print();
            failure.exit
        }
    };
    if is_doctor {
        // It may still look up a name that no server answers for, on a thread that cannot be stopped.
        runtime.shutdown_background();
    }
    ExitCode::from(exit as u8)
}

/// The words of a command, as operations are called in the audit log: `task.create`.
fn command_name(given: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut here = given;
    while let Some((word, below)) = here.subcommand() {
        words.push(if word == "add" { "create" } else { word });
        here = below;
    }
    words.join(".")
}

/// What is done on the command line is in the audit log too: the first change of a command carries its entry. Commands that change
/// files alone write it with [`harvest_store::record_now`]; `audit.rs` has the list of all.
async fn recorded(name: String, cli: Cli, environment: Environment) -> Result<Exit, Failure> {
    remote::reach::check(&cli, &name, &environment)?;
    // Each change that they make has an entry of its own.
    if matches!(cli.command, Command::Up(_) | Command::Serve(_) | Command::Demo(_) | Command::Init(_)) {
        return dispatch(cli, environment).await;
    }
    let audit = audit::entry(name, &environment);
    harvest_store::recorded(Record { audit, answer: None }, dispatch(cli, environment)).await.0
}

async fn dispatch(cli: Cli, environment: Environment) -> Result<Exit, Failure> {
    own_secrets::learn(&cli.global, &environment)?;
    log::start(&cli.global, &environment)?;
    #[cfg(feature = "failpoints")]
    if let Some(settings) = environment.text("HARVEST_FAILPOINTS") {
        harvest_engine::failpoint::configure(settings).map_err(|error| Failure::failed(Code::Internal, error))?;
    }
    let global = &cli.global;
    match cli.command {
        Command::Init(options) => init::init(global, environment, options).await,
        Command::Run(options) => run::run(global, environment, *options).await,
        Command::Demo(options) => demo::demo(global, environment, &options).await,
        Command::Task(command) => task::task(global, environment, command).await,
        Command::Session(command) => session::session(global, environment, command).await,
        Command::Up(options) => up::up(global, environment, options).await,
        Command::Serve(options) => serve::serve(global, environment, options).await,
        Command::Token(command) => token::token(global, environment, command).await,
        Command::Audit(command) => audit::audit(global, environment, command).await,
        Command::Login(options) => login::login(global, &environment, options).await,
        Command::Repo(command) => repo::repo(global, environment, command).await,
        Command::Status { watch } => status::status(global, environment, watch).await,
        Command::Stats(options) => stats::stats(global, environment, options).await,
        Command::Interrupt(options) => interrupt::interrupt(global, environment, options).await,
        Command::Queue(command) => queue::queue(global, environment, command).await,
        Command::Convoy(command) => convoy::convoy(global, environment, command).await,
        Command::Race(cli::Race::Show { id }) => race::show(global, environment, &id).await,
        Command::Schedule(command) => schedule::schedule(global, environment, command).await,
        Command::Template(command) => template::template(global, environment, command).await,
        Command::Credential(command) => credential::credential(global, environment, command).await,
        Command::Config(command) => config::config(global, environment, command).await,
        Command::Import(command) => beads::import(global, environment, command).await,
        Command::Export(command) => beads::export(global, environment, command).await,
        Command::Backup(options) => backup::backup(global, &environment, &options).await,
        Command::Restore(options) => backup::restore(global, &environment, &options).await,
        Command::Gc(options) => gc::gc(global, environment, &options).await,
        Command::Agent(cli::Agent::Check { id }) => agent::check(global, environment, &id).await,
        Command::Agent(cli::Agent::List) => agent::list(global, environment).await,
        Command::Github(command) => github::github(global, environment, command).await,
        Command::Evidence(command) => evidence::evidence(global, environment, command).await,
        Command::Dev(command) => dev::dev(global, environment, command).await,
        Command::Mcp(command) => mcp::mcp(global, environment, command).await,
        Command::Doctor(options) => doctor::doctor(global, environment, options).await,
        Command::Completion { shell } => completion::completion(shell),
        Command::Explain { code } => explain::explain(global, &code),
    }
}

/// The command that was typed, as far as there is one: `harvest task add`.
fn typed_command(words: impl Iterator<Item = OsString>) -> String {
    let root = Cli::command();
    let (mut here, mut typed) = (&root, "harvest".to_owned());
    for word in words {
        if !here.has_subcommands() {
            break;
        }
        // A word that is no command may be the value of an option before it.
        if let Some(below) = here.find_subcommand(&word) {
            typed.push(' ');
            typed.push_str(below.get_name());
            here = below;
        }
    }
    typed
}

/// Help and version go to standard output; anything wrong is refused like all bad input, with its code.
fn usage(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            Exit::Done
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let text = format!("a command is missing\n\n{}", error.render());
            Failure::refused(Code::BadOption, text.trim_end(), "name one of the commands above").print();
            Exit::Refused
        }
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let text = text.strip_suffix("For more information, try '--help'.").unwrap_or(text).trim_end();
            let help = format!("{} --help shows what it takes", typed_command(std::env::args_os().skip(1)));
            Failure::refused(Code::BadOption, text, help).print();
            Exit::Refused
        }
    }
}

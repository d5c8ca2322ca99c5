//! The runner's one way to start a program: with nothing of its own environment.

use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "this is the layer that clears the environment")]
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

//! Processes that are all but started: their namespaces stand, their pipes are laid, and a stub waits in the innermost place to
//! be told what to become.
//!
//! The stub is told by its standard input, which the later process inherits: one frame, read to its last byte and no further.
//! So there is no descriptor that the process would not have had anyway, and nothing to close before it begins.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;

use harvest_link::{Boot, ProcessSpec};

use crate::command::command;
use crate::process::{self, Running};
use crate::supervisor::Context;

/// The stub's argument.
pub const STUB: &str = "hold";
/// More than any one needs; each costs about a megabyte.
const MOST: usize = 8;
const LENGTH: usize = 4;

/// What is held, by the id of the process it is to become.
#[derive(Debug, Default)]
pub struct Holds(RefCell<BTreeMap<String, Running>>);

impl Holds {
    /// The one held for `id`, if it is still there. Killed in this very moment it may not have ended yet, and then is an end
    /// like that of any process which is killed as it starts.
    pub fn take(&self, id: &str) -> Option<Running> {
        self.0.borrow_mut().remove(id).filter(Running::is_alive)
    }
}

/// Without a wrapper a process starts fast enough. What cannot be held is started when it is asked for.
pub fn hold(context: &Context, id: &str) {
    let Context { boot, registry, holds, .. } = context;
    let is_known = registry.get(id).is_some() || holds.0.borrow().contains_key(id);
    if boot.wrap.is_empty() || is_known || holds.0.borrow().len() >= MOST {
        return;
    }
    match start(boot) {
        Ok(held) => drop(holds.0.borrow_mut().insert(id.to_owned(), held)),
        Err(message) => eprintln!("harvest-runner: no process could be held: {message}"),
    }
}

fn start(boot: &Boot) -> Result<Running, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let argv = [this.to_str().ok_or("the runner's path is not UTF-8")?.to_owned(), STUB.to_owned()];
    process::launch(boot, &argv, &[], &boot.workspace, process::Stdin::Open)
}

/// What a stub is to become, as it is written to it.
pub fn order(spec: &ProcessSpec, cwd: &Path) -> Result<Vec<u8>, String> {
    let folder = cwd.to_str().ok_or("the folder's name is not UTF-8")?;
    let body = serde_json::to_vec(&(&spec.argv, &spec.env, folder)).map_err(|error| error.to_string())?;
    let length = u32::try_from(body.len()).map_err(|error| error.to_string())?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(body);
    Ok(frame)
}

/// `harvest-runner hold`: waits, and becomes what it is told to. Never told anything, it ends.
pub fn stub() -> Result<(), io::Error> {
    let mut length = [0; LENGTH];
    if !read_exactly(&mut length)? {
        return Ok(());
    }
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    if !read_exactly(&mut body)? {
        return Ok(());
    }
    let (argv, env, cwd): (Vec<String>, Vec<(String, String)>, String) = serde_json::from_slice(&body)?;
    drop(body);
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = command(program);
    // The wrapper, which would have set it, is past that.
    command.args(arguments).envs(env).env("PWD", &cwd).current_dir(&cwd);
    let error = command.exec();
    Err(io::Error::new(error.kind(), format!("{program}: {error}")))
}

/// Not through a buffer: what follows is for the process. False when the input ended.
fn read_exactly(mut buffer: &mut [u8]) -> io::Result<bool> {
    while !buffer.is_empty() {
        match rustix::io::read(io::stdin(), &mut *buffer) {
            Ok(0) => return Ok(false),
            Ok(length) => buffer = buffer.get_mut(length..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

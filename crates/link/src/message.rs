//! What runner and control plane say to each other.

use serde::{Deserialize, Serialize};

use crate::frame::{self, Error, Message};
use crate::record::Record;

/// How much output may be under way to a reader, in bytes of the spool, unless it says otherwise. A record may go beyond it by
/// its own length.
pub const WINDOW: u64 = 256 * 1024;

/// From the runner to the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromRunner {
    Control(Report),
    Output(Record),
}

/// The control messages of a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Report {
    /// The first message of every connection.
    Hello {
        version: u32,
        gateway_port: u16,
        pid: u32,
    },
    Started {
        process: String,
        pid: u32,
    },
    /// The process has ended and `offset` is the end of its output.
    Exited {
        process: String,
        offset: u64,
        code: Option<i32>,
        signal: Option<i32>,
        user_ms: u64,
        system_ms: u64,
        max_rss_kb: u64,
        duration_ms: u64,
    },
    /// Input up to `offset` has reached the process; or no more of it ever will, and why.
    Took {
        process: String,
        offset: u64,
        #[serde(default)]
        refused: Option<String>,
    },
    /// The process could not be started (`offset` is 0), or was ended by the runner itself.
    Failed {
        process: String,
        offset: u64,
        /// The limit it was ended for, if it was one.
        #[serde(default)]
        limit: Option<Limit>,
        message: String,
    },
}

/// What a sandbox may use only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Memory,
    Processes,
    Disk,
    Inodes,
    Output,
    Wall,
}

/// From the control plane to the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToRunner {
    Welcome {
        version: u32,
    },
    /// Gets everything around a process ready that can be before it is known what it is. A later start of the same id has
    /// less to wait for; one that never comes, or comes after what was held has died, is none the worse.
    Hold {
        process: String,
    },
    /// More for the standard input of a process that was started to [keep it](ProcessSpec::keep_stdin). `offset` is what was
    /// given before, and closing counts as one, so that an order may be repeated.
    Input {
        process: String,
        offset: u64,
        text: String,
        close: bool,
    },
    /// Starting an id that is known already only sends its output again from the beginning, so that a start whose answer
    /// was lost can be repeated.
    Start {
        process: ProcessSpec,
    },
    /// Send everything from this offset on, then what comes, then how it ended.
    Resume {
        process: String,
        offset: u64,
    },
    /// Records that begin before this offset may be sent. After a start or a resume it is [`WINDOW`] from there.
    Window {
        process: String,
        limit: u64,
    },
    /// Output up to here is safe elsewhere and may be forgotten.
    Ack {
        process: String,
        offset: u64,
    },
    Signal {
        process: String,
        signal: Signal,
    },
    /// End every process, then the runner.
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Interrupt,
    Terminate,
    /// Takes every child along, daemonised or not.
    Kill,
}

/// One process to run in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// Chosen by the caller, unique within the sandbox: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_`, `.`, not beginning with a dot.
    pub id: String,
    pub argv: Vec<String>,
    /// The whole environment, but for what the provider adds when it is missing (`PATH`, `HOME`, `USER`, `LANG`).
    pub env: Vec<(String, String)>,
    /// Empty: the workspace.
    pub cwd: String,
    /// Given to the process, then closed unless it is kept.
    pub stdin: String,
    /// More input comes later, by [`ToRunner::Input`].
    #[serde(default)]
    pub keep_stdin: bool,
    /// Written before the process starts; paths must lie in the workspace or the home folder.
    pub files: Vec<File>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute, as seen inside the sandbox.
    pub path: String,
    pub content: String,
    pub executable: bool,
}

impl ProcessSpec {
    /// Ids become file names of the spool, so their alphabet is small.
    pub fn has_valid_id(&self) -> bool {
        is_valid_id(&self.id)
    }
}

pub(crate) fn is_valid_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && !id.starts_with('.')
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

impl FromRunner {
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        match self {
            Self::Control(report) => frame::control(report),
            Self::Output(record) => record.encode(),
        }
    }
}

impl ToRunner {
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        frame::control(self)
    }
}

impl Message for FromRunner {
    fn from_control(payload: &[u8]) -> Result<Self, Error> {
        frame::read_control(payload).map(Self::Control)
    }

    fn from_output(payload: &[u8]) -> Result<Self, Error> {
        Record::decode(payload).map(Self::Output)
    }
}

impl Message for ToRunner {
    fn from_control(payload: &[u8]) -> Result<Self, Error> {
        frame::read_control(payload)
    }

    fn from_output(_payload: &[u8]) -> Result<Self, Error> {
        Err(Error::BadRecord)
    }
}

//! Error codes. Each has a page `docs/errors/HV-nnnn.md`, printed by `harvest explain HV-nnnn`.

use std::fmt;
use std::str::FromStr;

macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal;)+) => {
        /// A stable name for one kind of failure that a person can look up.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($name),+ }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => concat!("HV-", $number)),+ }
            }

            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }
        }
    };
}

codes! {
    NotARepository = "0101", "not a git repository";
    EmptyRepository = "0102", "the repository has no commit";
    UnknownBase = "0103", "the base does not exist";
    BadBase = "0104", "the base is not a ref name or hash";
    OperationInProgress = "0105", "a merge or rebase is in progress";
    RefLocked = "0106", "no branch can be created in the repository";
    UnsupportedUrl = "0107", "the repository's URL cannot be used";
    FetchFailed = "0108", "the repository could not be fetched";
    ForgeRefused = "0109", "GitHub refused the request";
    ForgeUnreachable = "0110", "GitHub cannot be reached";
    BadPrompt = "0111", "the prompt is empty or too long";
    Submodules = "0112", "submodules are not fetched";
    LargeFiles = "0113", "Git LFS files are not fetched";
    UnknownAgent = "0121", "there is no such agent";
    NoModel = "0122", "no model key and no model script";
    AgentNotInstalled = "0123", "the agent is not installed";
    UnreadableScript = "0131", "the model script cannot be read";
    BadScript = "0132", "the model script is not valid";
    BadCassette = "0133", "the cassette cannot be used";
    Diverged = "0134", "the replay diverged from the recording";
    BadOption = "0141", "an option has an invalid value";
    UnknownTask = "0151", "there is no such task";
    AmbiguousId = "0152", "the ID prefix is ambiguous";
    TaskFinished = "0153", "the task has already ended";
    UnknownSession = "0154", "there is no such session";
    CannotFork = "0155", "the session cannot be forked there";
    NotAwaiting = "0156", "the task is not waiting for approval";
    WorkRemoved = "0157", "the work of the session was removed";
    Undelivered = "0158", "the task's work was not delivered";
    NothingToApply = "0161", "the task has no branch";
    CannotApply = "0162", "the branch cannot be applied here";
    CannotPropose = "0163", "the pull request cannot be created";
    UnknownDependency = "0171", "the task to wait for does not exist";
    DependencyCycle = "0172", "tasks depend on each other in a cycle";
    KeyReused = "0173", "the idempotency key was used for another request";
    NotRetryable = "0174", "the task cannot be retried";
    NotAtWork = "0175", "the task is not running";
    NotInterrupted = "0176", "the session is not interrupted";
    BadCron = "0181", "the schedule's time is not valid";
    UnknownSchedule = "0182", "there is no such schedule";
    UnknownTemplate = "0183", "there is no such template";
    UnknownRepository = "0184", "there is no such repository";
    BadImport = "0191", "the file to import is not valid";
    BadEvidence = "0192", "the evidence cannot be trusted";
    SandboxToolMissing = "0201", "bubblewrap is not installed";
    NamespacesForbidden = "0202", "user namespaces are forbidden on this host";
    SandboxFailed = "0203", "the sandbox could not be created";
    SandboxLost = "0204", "the sandbox was lost";
    EngineMissing = "0205", "the container engine or its image is missing";
    DataDirectory = "0301", "the data directory cannot be used";
    DiskFull = "0302", "the disk is full";
    DatabaseTooNew = "0303", "the database was created by a newer version of Harvest";
    Database = "0304", "the database failed";
    DatabaseUnreachable = "0305", "the database cannot be reached";
    ServerRunning = "0306", "another server runs on the data directory";
    BadConfig = "0311", "the configuration is not valid";
    BadBackup = "0321", "the backup cannot be used";
    Guard = "0331", "this machine has too few resources for more work";
    CredentialExists = "0341", "a credential with that name already exists";
    UnknownCredential = "0342", "there is no such credential";
    MasterKey = "0343", "the master key cannot be used";
    BadSecret = "0344", "the secret cannot be used";
    Budget = "0401", "the budget is spent";
    Model = "0402", "the model refused or failed";
    Timeout = "0403", "the turn took too long";
    Stall = "0404", "the agent was silent for too long";
    Cancelled = "0405", "stopped by a user";
    Agent = "0406", "the agent failed";
    Tests = "0407", "the result does not pass its tests";
    NoTests = "0408", "no test command was found";
    Loop = "0409", "the agent was stuck in a loop";
    Turns = "0410", "the agent reached its limit of model calls";
    Hook = "0411", "a required hook failed";
    ServerTool = "0412", "the model request asks for something outside the sandbox";
    Unpriced = "0413", "the model request has no known price";
    OwnerDied = "0501", "the process working on the task was killed";
    NotSignedIn = "0601", "not authenticated";
    NotAllowed = "0602", "the role or the project does not allow it";
    Forged = "0603", "the request may come from another site";
    BadRequest = "0604", "the request is not valid";
    UnknownAddress = "0605", "there is nothing at this address";
    TooLarge = "0606", "the request is too large";
    TooMany = "0607", "too many requests";
    Outdated = "0608", "someone else changed it in the meantime";
    UnsafeAddress = "0609", "the address is reachable from the network";
    CannotListen = "0610", "the server cannot listen on the address";
    UnknownToken = "0611", "there is no such token";
    UnknownProject = "0612", "there is no such project";
    BrokenAudit = "0613", "the audit log was changed";
    UnknownMember = "0614", "there is no such member of the project";
    ProjectExists = "0615", "a project with that name already exists";
    SignInUnreachable = "0616", "GitHub cannot be reached to verify a sign-in";
    Quota = "0617", "a quota is exhausted";
    SessionBusy = "0618", "the session is still in use";
    ServerUnreachable = "0619", "the server cannot be reached";
    Internal = "0901", "internal error";
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no error code `{0}`; codes look like HV-0101")]
pub struct UnknownCode(pub String);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    /// Accepts `HV-0101`, `hv-0101` and `0101`.
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let upper = text.to_ascii_uppercase();
        let number = upper.strip_prefix("HV-").unwrap_or(&upper);
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str().strip_prefix("HV-") == Some(number))
            .ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_parse_back() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse::<Code>().as_ref(), Ok(code));
        }
        assert!("HV-9999".parse::<Code>().is_err());
    }
}

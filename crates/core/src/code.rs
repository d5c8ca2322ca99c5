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
    RefLocked = "0106", "a ref of the repository is locked";
    UnsupportedUrl = "0107", "the repository's URL cannot be used";
    FetchFailed = "0108", "the repository could not be fetched";
    ForgeRefused = "0109", "GitHub refused";
    ForgeUnreachable = "0110", "GitHub cannot be reached";
    BadPrompt = "0111", "the prompt is empty or too long";
    Submodules = "0112", "submodules are not fetched";
    LargeFiles = "0113", "files kept by Git LFS are not fetched";
    UnknownAgent = "0121", "there is no such agent";
    NoModel = "0122", "no model key and no model script";
    AgentNotInstalled = "0123", "the agent is not installed";
    UnreadableScript = "0131", "the model script cannot be read";
    BadScript = "0132", "the model script is not valid";
    BadCassette = "0133", "the cassette cannot be used";
    Diverged = "0134", "the replay went another way";
    BadOption = "0141", "an option has a value it cannot have";
    UnknownTask = "0151", "there is no such task";
    AmbiguousId = "0152", "the id fits more than one";
    TaskFinished = "0153", "the task has already ended";
    UnknownSession = "0154", "there is no such session";
    CannotFork = "0155", "the session cannot be forked there";
    NotAwaiting = "0156", "the task does not wait for approval";
    NothingToApply = "0161", "the task has no branch";
    CannotApply = "0162", "the branch cannot be applied here";
    CannotPropose = "0163", "the pull request cannot be created";
    UnknownDependency = "0171", "there is no such task to wait for";
    DependencyCycle = "0172", "tasks wait for each other in a circle";
    KeyReused = "0173", "the idempotency key was used for something else";
    NotRetryable = "0174", "the task cannot be tried again";
    NotAtWork = "0175", "the task is not running";
    NotInterrupted = "0176", "the session is not interrupted";
    BadCron = "0181", "the schedule's time cannot be read";
    UnknownSchedule = "0182", "there is no such schedule";
    UnknownTemplate = "0183", "there is no such template";
    UnknownRepository = "0184", "there is no such repository";
    BadImport = "0191", "the file to import is not valid";
    BadEvidence = "0192", "the evidence cannot be believed";
    SandboxToolMissing = "0201", "bubblewrap is not installed";
    NamespacesForbidden = "0202", "user namespaces are forbidden on this host";
    SandboxFailed = "0203", "the sandbox could not be made";
    SandboxLost = "0204", "the sandbox was lost";
    EngineMissing = "0205", "there is no container engine, or it lacks the image";
    DataDirectory = "0301", "the data directory cannot be used";
    DiskFull = "0302", "the disk is full";
    DatabaseTooNew = "0303", "the database was made by a newer Harvest";
    Database = "0304", "the database failed";
    DatabaseUnreachable = "0305", "the database cannot be reached";
    ServerRunning = "0306", "another server runs on the data directory";
    BadConfig = "0311", "the configuration is not valid";
    BadBackup = "0321", "the backup cannot be used";
    Guard = "0331", "this machine has too little room for more work";
    CredentialExists = "0341", "there is a credential of that name already";
    UnknownCredential = "0342", "there is no such credential";
    MasterKey = "0343", "the master key cannot be used";
    BadSecret = "0344", "the secret cannot be used";
    Budget = "0401", "the budget is spent";
    Model = "0402", "the model refused or failed";
    Timeout = "0403", "the turn took too long";
    Stall = "0404", "the agent was silent for too long";
    Cancelled = "0405", "stopped by a person";
    Agent = "0406", "the agent failed";
    Tests = "0407", "the result does not pass its tests";
    NoTests = "0408", "no test command was found";
    Loop = "0409", "the agent did the same again and again";
    Turns = "0410", "the agent used up its turns";
    Hook = "0411", "a hook that must succeed did not";
    ServerTool = "0412", "the model request asks for something outside the sandbox";
    Unpriced = "0413", "what the model request asks for has no price";
    OwnerDied = "0501", "the process working on the task was killed";
    NotSignedIn = "0601", "not authenticated";
    NotAllowed = "0602", "the role or the project does not allow it";
    Forged = "0603", "the request may come from another page";
    BadRequest = "0604", "the request cannot be read";
    UnknownAddress = "0605", "there is nothing at this address";
    TooLarge = "0606", "the request is too large";
    TooMany = "0607", "there were too many requests";
    Outdated = "0608", "someone else changed it meanwhile";
    UnsafeAddress = "0609", "the address is reachable from outside";
    CannotListen = "0610", "the address cannot be listened on";
    UnknownToken = "0611", "there is no such token";
    UnknownProject = "0612", "there is no such project";
    BrokenAudit = "0613", "the audit log was changed";
    UnknownMember = "0614", "there is no such member of the project";
    ProjectExists = "0615", "there is a project of that name already";
    SignInUnreachable = "0616", "GitHub cannot be asked who someone is";
    Quota = "0617", "a quota is used up";
    SessionBusy = "0618", "the session is still needed";
    ServerUnreachable = "0619", "the server cannot be asked";
    Internal = "0901", "an error inside Harvest";
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

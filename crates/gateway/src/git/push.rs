//! A push: the list of commands that precedes the pack, read before git sees anything, and judged.

use super::pkt::{self, Malformed, Packet};
use super::{Access, refname};

const MAX_COMMANDS: usize = 64;
const MAX_SHALLOW: usize = 256;
const MAX_SECTION: usize = 128 << 10;
/// What is passed on of the client's capabilities; the rest is none of git's business here.
const CAPABILITIES: [&str; 6] = ["report-status", "report-status-v2", "side-band-64k", "quiet", "atomic", "ofs-delta"];

/// Reads the command section from chunks cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    read: usize,
    push: Push,
}

/// The commands of one push.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Push {
    commands: Vec<Command>,
    shallow: Vec<String>,
    capabilities: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Command {
    old: String,
    new: String,
    name: String,
}

/// Why a push is not let through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Told to the client as the outcome of each of its refs.
    Report(Vec<u8>),
    /// Not even its refs can be named.
    Text(String),
}

impl Reader {
    /// Reads on. Once the section is complete, returns it and what follows it.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<Option<(Push, Vec<u8>)>, Malformed> {
        // What lies beyond the section is the beginning of the pack and may be as long as it likes.
        self.buffer.extend_from_slice(chunk);
        while let Some((packet, taken)) = pkt::next(self.buffer.get(self.read..).unwrap_or_default())? {
            let flushed = packet == Packet::Flush;
            if let Packet::Line(line) = packet {
                self.push.line(line)?;
            }
            self.read += taken;
            if self.read > MAX_SECTION {
                return Err(Malformed("the list of refs is too long"));
            }
            if flushed {
                let rest = self.buffer.split_off(self.read);
                return Ok(Some((std::mem::take(&mut self.push), rest)));
            }
        }
        if self.buffer.len() > 2 * MAX_SECTION {
            return Err(Malformed("the list of refs is too long"));
        }
        Ok(None)
    }
}

impl Push {
    fn line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let (line, capabilities) = match line.iter().position(|byte| *byte == 0) {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..)),
            None => (line.strip_suffix(b"\n").unwrap_or(line), None),
        };
        let text = std::str::from_utf8(line).map_err(|_| Malformed("a ref name is not UTF-8"))?;
        if let Some(hash) = text.strip_prefix("shallow ") {
            if self.shallow.len() >= MAX_SHALLOW || !is_hash(hash) || capabilities.is_some() {
                return Err(Malformed("a bad shallow line"));
            }
            self.shallow.push(hash.to_ascii_lowercase());
            return Ok(());
        }
        let mut words = text.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(Malformed("a command that is not `old new ref`"));
        };
        if !is_hash(old) || !is_hash(new) || old.len() != new.len() {
            return Err(Malformed("a command without two hashes"));
        }
        if self.commands.len() >= MAX_COMMANDS {
            return Err(Malformed("more than 64 refs at once"));
        }
        match capabilities {
            Some(list) if self.commands.is_empty() => self.read_capabilities(list)?,
            Some(_) => return Err(Malformed("capabilities on a second command")),
            None => {}
        }
        let (old, new) = (old.to_ascii_lowercase(), new.to_ascii_lowercase());
        self.commands.push(Command { old, new, name: name.to_owned() });
        Ok(())
    }

    fn read_capabilities(&mut self, list: &[u8]) -> Result<(), Malformed> {
        let list = std::str::from_utf8(list).map_err(|_| Malformed("capabilities are not text"))?;
        for word in list.split_ascii_whitespace() {
            if word == "push-options" || word.starts_with("push-cert") {
                return Err(Malformed("push options and signed pushes are not accepted"));
            }
            if CAPABILITIES.contains(&word) || matches!(word, "object-format=sha1" | "object-format=sha256") {
                self.capabilities.push(word.to_owned());
            }
        }
        Ok(())
    }

    /// Nothing is pushed: clients ask so whether they may, before they send a large pack.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether the session may do all of this. One bad command refuses the push as a whole.
    pub(super) fn judge(&self, access: &Access) -> Result<(), Refusal> {
        let verdicts: Vec<Option<&str>> = self.commands.iter().map(|command| command.objection(access)).collect();
        if verdicts.iter().all(Option::is_none) {
            return Ok(());
        }
        let namespace = access.namespace.trim_end_matches('/');
        let reasons = verdicts.into_iter().map(|verdict| verdict.unwrap_or("another ref of this push is not allowed"));
        let rule = format!(
            "this session may create and update {} and refs below {namespace}/, and delete nothing",
            access.branch
        );
        let nameable = self.commands.iter().all(|command| refname::is_valid(&command.name));
        match self.report("ok", reasons, &rule).filter(|_| nameable) {
            Some(report) => Err(Refusal::Report(report)),
            None => Err(Refusal::Text(rule)),
        }
    }

    /// The answer of a push whose pack is refused. `None` for a client that does not read one.
    pub(super) fn refuse_pack(&self, reason: &str) -> Option<Vec<u8>> {
        self.report(reason, std::iter::repeat("unpacker error"), reason)
    }

    /// How many bytes a hash has.
    pub(super) fn hash_bytes(&self) -> usize {
        self.commands.first().map_or(0, |command| command.new.len() / 2)
    }

    fn report<'r>(&self, unpack: &str, reasons: impl Iterator<Item = &'r str>, message: &str) -> Option<Vec<u8>> {
        let has = |capability: &str| self.capabilities.iter().any(|known| known == capability);
        if !(has("report-status") || has("report-status-v2")) {
            return None;
        }
        let mut report = Vec::new();
        pkt::write(&mut report, format!("unpack {unpack}\n").as_bytes());
        for (command, reason) in self.commands.iter().zip(reasons) {
            pkt::write(&mut report, format!("ng {} {reason}\n", command.name).as_bytes());
        }
        pkt::flush(&mut report);
        if has("side-band-64k") {
            let mut banded = Vec::new();
            pkt::write(&mut banded, format!("\u{2}harvest: {message}\n").as_bytes());
            pkt::write(&mut banded, &[b"\x01", report.as_slice()].concat());
            pkt::flush(&mut banded);
            report = banded;
        }
        Some(report)
    }

    /// The section as git gets it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut section = Vec::new();
        for hash in &self.shallow {
            pkt::write(&mut section, format!("shallow {hash}\n").as_bytes());
        }
        for (number, Command { old, new, name }) in self.commands.iter().enumerate() {
            let capabilities =
                if number == 0 { format!("\0 {}", self.capabilities.join(" ")) } else { "\n".to_owned() };
            pkt::write(&mut section, format!("{old} {new} {name}{capabilities}").as_bytes());
        }
        pkt::flush(&mut section);
        section
    }
}

impl Command {
    fn objection(&self, access: &Access) -> Option<&'static str> {
        let namespace = format!("{}/", access.namespace.trim_end_matches('/'));
        if !refname::is_valid(&self.name) {
            Some("not a valid ref name")
        } else if self.new.bytes().all(|digit| digit == b'0') {
            Some("deleting is not allowed")
        } else if self.name != access.branch && !self.name.starts_with(&namespace) {
            Some("not a ref of this session")
        } else {
            None
        }
    }
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proptest::prelude::*;

    const OLD: &str = "0000000000000000000000000000000000000000";
    const NEW: &str = "1111111111111111111111111111111111111111";
    const OWN: &str = "refs/heads/harvest/fix-1";

    #[derive(Debug)]
    struct NoGit;

    impl super::super::Command for NoGit {
        fn git(&self, _: &[&str], _: Option<&str>) -> tokio::process::Command {
            panic!("git must not be started")
        }
    }

    fn access() -> Access {
        Access {
            name: "repo".to_owned(),
            directory: "/nowhere".into(),
            branch: OWN.to_owned(),
            namespace: "refs/harvest/s1/".to_owned(),
            writable: true,
            command: Arc::new(NoGit),
        }
    }

    fn section(lines: &[String]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            pkt::write(&mut bytes, line.as_bytes());
        }
        pkt::flush(&mut bytes);
        bytes
    }

    fn update(name: &str) -> String {
        format!("{OLD} {NEW} {name}\0 report-status side-band-64k agent=git/2")
    }

    fn read(bytes: &[u8]) -> Result<Option<(Push, Vec<u8>)>, Malformed> {
        Reader::default().feed(bytes)
    }

    fn judge(line: String) -> Result<(), Refusal> {
        read(&section(&[line])).unwrap().unwrap().0.judge(&access())
    }

    #[test]
    fn own_refs_may_be_pushed() {
        for name in [OWN, "refs/harvest/s1/checkpoint/1"] {
            assert_eq!(judge(update(name)), Ok(()), "{name}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for name in [
            "HEAD",
            "refs/heads/main",
            "refs/heads/harvest/fix-12",
            "refs/heads/harvest/fix-1/x",
            "refs/tags/v1",
            "refs/harvest/s1",
            "refs/harvest/s11/x",
            "refs/harvest/s2/x",
            "refs/harvest/s1/../s2/x",
            "refs/harvest/s1/-x",
            "refs/harvest/s1/x.lock",
            "refs/harvest/s1/x\ny",
            "refs/harvest/s1/",
            "--upload-pack=x",
            "",
            " refs/heads/harvest/fix-1",
            "refs/heads/harvest/fix-1\n",
        ] {
            assert!(judge(update(name)).is_err(), "{name:?}");
        }
        let delete = format!("{NEW} {OLD} {OWN}\0report-status");
        assert!(judge(delete).is_err());
    }

    #[test]
    fn a_refusal_reaches_the_client_ref_by_ref() {
        let lines = [update(OWN), format!("{OLD} {NEW} refs/heads/main")];
        let push = read(&section(&lines)).unwrap().unwrap().0;
        let Err(Refusal::Report(report)) = push.judge(&access()) else { panic!("refused with a report") };
        insta::assert_snapshot!(String::from_utf8(report).unwrap().escape_debug().to_string().replace("\\n", "\n"));
    }

    #[test]
    fn malformed_sections() {
        let long = format!("{OLD} {NEW} refs/heads/{}", "x".repeat(60_000));
        for (bytes, why) in [
            (b"0001".to_vec(), "special"),
            (b"ffff".to_vec(), "too long"),
            (section(&["push-cert\0push-cert".to_owned()]), "old new ref"),
            (section(&[format!("{OLD} {NEW} {OWN}\0push-options")]), "push options"),
            (section(&[format!("{OLD} {NEW}")]), "old new ref"),
            (section(&[format!("{OLD} 12345 {OWN}")]), "hashes"),
            (section(&[update(OWN), update(OWN)]), "second command"),
            (section(&["shallow x".to_owned()]), "shallow"),
            (section(&vec![format!("{OLD} {NEW} {OWN}"); 65]), "64"),
            (section(&vec![long; 3]), "too long"),
        ] {
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(read(b"00").unwrap(), None, "a truncated section is waited for");
    }

    #[test]
    fn git_gets_the_commands_as_they_were_understood() {
        let shallow = format!("shallow {NEW}");
        let mut bytes = section(&[shallow, update(OWN), format!("{OLD} {NEW} refs/harvest/s1/x\n")]);
        bytes.extend_from_slice(b"PACK...");
        let (push, rest) = read(&bytes).unwrap().unwrap();
        assert_eq!(rest, b"PACK...");
        let (again, _) = read(&push.encode()).unwrap().unwrap();
        assert_eq!(again, push);
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(chunks: Vec<Vec<u8>>) {
            let mut reader = Reader::default();
            for chunk in &chunks {
                if reader.feed(chunk).is_err() {
                    break;
                }
            }
        }

        #[test]
        fn any_line_is_judged_without_panic(line in "[0-9a-f]{40} [0-9a-f]{40} .{0,40}") {
            if let Ok(Some((push, _))) = read(&section(&[line])) {
                let _ = push.judge(&access());
            }
        }

        #[test]
        fn chunks_may_be_cut_anywhere(cut in 0usize..120) {
            let bytes = section(&[update(OWN)]);
            let cut = cut.min(bytes.len() - 1);
            let mut reader = Reader::default();
            prop_assert_eq!(reader.feed(&bytes[..cut]), Ok(None));
            prop_assert_eq!(reader.feed(&bytes[cut..]), read(&bytes));
        }
    }
}

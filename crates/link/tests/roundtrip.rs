//! Whatever is encoded comes back, however it is cut; whatever comes in never panics.

use harvest_link::{
    Decoder, File, FromRunner, Limit, ProcessSpec, Record, Report, Signal, SpoolRecord, Stream, ToRunner,
};
use proptest::prelude::*;

fn record() -> impl Strategy<Value = Record> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    ("[a-zA-Z0-9_-]{1,64}", stream, any::<bool>(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..300))
        .prop_map(|(process, stream, continued, before, line)| {
            let offset = u64::from(before) + 5 + line.len() as u64;
            Record { process, offset, stream, continued, line }
        })
}

fn from_runner() -> impl Strategy<Value = FromRunner> {
    prop_oneof![
        record().prop_map(FromRunner::Output),
        (any::<u32>(), any::<u16>(), any::<u32>()).prop_map(|(version, gateway_port, pid)| {
            FromRunner::Control(Report::Hello { version, gateway_port, pid })
        }),
        (".*", any::<u64>(), proptest::option::of(Just(Limit::Memory)), ".*").prop_map(
            |(process, offset, limit, message)| FromRunner::Control(Report::Failed { process, offset, limit, message })
        ),
    ]
}

fn to_runner() -> impl Strategy<Value = ToRunner> {
    let spec = (".*", proptest::collection::vec(".*", 0..4), ".*", ".*").prop_map(|(id, argv, stdin, content)| {
        let files = vec![File { path: "/workspace/x".to_owned(), content, executable: true }];
        let env = vec![("A".to_owned(), "b".to_owned())];
        ProcessSpec { id, argv, stdin, keep_stdin: true, files, env, cwd: String::new() }
    });
    prop_oneof![
        spec.prop_map(|process| ToRunner::Start { process }),
        (".*", any::<u64>()).prop_map(|(process, offset)| ToRunner::Resume { process, offset }),
        ".*".prop_map(|process| ToRunner::Signal { process, signal: Signal::Interrupt }),
        ".*".prop_map(|process| ToRunner::Hold { process }),
        (".*", any::<u64>(), ".*", any::<bool>()).prop_map(|(process, offset, text, close)| ToRunner::Input {
            process,
            offset,
            text,
            close
        }),
        Just(ToRunner::Shutdown),
    ]
}

proptest! {
    #[test]
    fn messages_survive_any_cutting(messages in proptest::collection::vec(from_runner(), 0..8), cut in 1usize..64) {
        let mut bytes = Vec::new();
        for message in &messages {
            bytes.extend(message.encode().unwrap());
        }
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        for piece in bytes.chunks(cut) {
            decoder.feed(piece);
            while let Some(message) = decoder.message::<FromRunner>().unwrap() {
                seen.push(message);
            }
        }
        prop_assert_eq!(seen, messages);
    }

    #[test]
    fn orders_come_back(message in to_runner()) {
        let mut decoder = Decoder::new();
        decoder.feed(&message.encode().unwrap());
        prop_assert_eq!(decoder.message::<ToRunner>().unwrap(), Some(message));
    }

    #[test]
    fn any_bytes_never_panic(bytes: Vec<u8>, cut in 1usize..16) {
        let mut decoder = Decoder::new();
        for piece in bytes.chunks(cut) {
            decoder.feed(piece);
            match decoder.message::<FromRunner>() {
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let _ = SpoolRecord::read(&bytes);
    }

    #[test]
    fn any_payload_in_a_good_frame_never_panics(kind in 0u8..4, payload: Vec<u8>) {
        let mut bytes = (payload.len() as u32 + 1).to_be_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(payload);
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        let _ = decoder.message::<FromRunner>();
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        let _ = decoder.message::<ToRunner>();
    }

    #[test]
    fn a_record_knows_where_it_began(record in record()) {
        let mut spool = Vec::new();
        SpoolRecord { stream: record.stream, continued: record.continued, line: &record.line }.append_to(&mut spool).unwrap();
        prop_assert_eq!(record.offset - record.start(), spool.len() as u64);
        let read = SpoolRecord::read(&spool).unwrap().unwrap();
        prop_assert_eq!(read.line, &record.line[..]);
        prop_assert_eq!((read.stream, read.continued), (record.stream, record.continued));
    }
}

#[test]
fn a_start_of_the_version_before_closes_its_input() {
    let before = r#"{"id":"p","argv":["true"],"env":[],"cwd":"","stdin":"","files":[]}"#;
    let spec: ProcessSpec = serde_json::from_str(before).unwrap();
    assert!(!spec.keep_stdin);
}

#[test]
fn a_frame_that_is_too_large_is_refused_before_it_arrives() {
    let mut decoder = Decoder::new();
    decoder.feed(&u32::MAX.to_be_bytes());
    assert!(decoder.message::<FromRunner>().is_err());
    let stdin = "x".repeat(17 * 1024 * 1024);
    assert!(ToRunner::Start { process: ProcessSpec { stdin, ..ProcessSpec::default() } }.encode().is_err());
}

//! A container engine that refuses, fails, or loses its answer after it has made the container: the error is told, and nothing
//! is left of the sandbox.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use harvest_sandbox::{Provider, container};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::container::{options, place};
use crate::podman;

/// The fault that the next such request meets.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Status(u16),
    /// The engine does what it is asked, and nobody hears of it.
    LostAnswer,
}

/// Stands before the engine and passes on everything but requests with this in their first line.
async fn stand_before(engine: &Path, at: &Path, request: &'static str, fault: Fault) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(at).unwrap();
    let (engine, met) = (engine.to_owned(), Arc::new(AtomicUsize::new(0)));
    let counter = met.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, engine.clone(), request, fault, counter.clone()));
        }
    });
    met
}

async fn pass_on(client: UnixStream, engine: std::path::PathBuf, request: &str, fault: Fault, met: Arc<AtomicUsize>) {
    let Ok(engine) = UnixStream::connect(engine).await else { return };
    let (mut from_client, to_client) = client.into_split();
    let (mut from_engine, mut to_engine) = engine.into_split();
    let to_client = Arc::new(Mutex::new(Some(to_client)));
    let answers = to_client.clone();
    let answering = tokio::spawn(async move {
        let mut piece = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from_engine.read(&mut piece).await {
            let taken = answers.lock().unwrap().take();
            // An answer that is lost has been given nevertheless.
            let Some(mut client) = taken else { return };
            if client.write_all(&piece[..read]).await.is_err() {
                return;
            }
            *answers.lock().unwrap() = Some(client);
        }
        // Some wait for the end of the connection.
        drop(answers.lock().unwrap().take());
    });
    let mut piece = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from_client.read(&mut piece).await {
        let line = piece[..read].split(|byte| *byte == b'\r').next().unwrap_or_default();
        if String::from_utf8_lossy(line).contains(request) {
            met.fetch_add(1, Ordering::SeqCst);
            let client = to_client.lock().unwrap().take();
            match fault {
                Fault::Status(status) => {
                    let body = r#"{"message":"not now"}"#;
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    if let Some(mut client) = client {
                        let _ = client.write_all(head.as_bytes()).await;
                    }
                    return;
                }
                Fault::LostAnswer => {
                    let _ = to_engine.write_all(&piece[..read]).await;
                    let _ = answering.await;
                    drop(client);
                    return;
                }
            }
        }
        if to_engine.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_refuses_or_loses_its_answers_leaves_nothing() {
    let Some(place) = place() else { return };
    let engine = podman::get().unwrap().socket.clone();
    for request in ["/containers/create", "/start"] {
        for fault in [Fault::Status(429), Fault::Status(500), Fault::LostAnswer] {
            let folder = tempfile::Builder::new().prefix("hv").tempdir().unwrap();
            let socket = folder.path().join("engine.sock");
            let met = stand_before(&engine, &socket, request, fault).await;
            let through = container::Options { sockets: vec![socket], ..options(place.folder.path()) };
            let provider = container::Container::new(through).unwrap();
            let spec = place.spec();
            let id = spec.id.clone();
            let created = provider.create(spec).await;
            assert!(met.load(Ordering::SeqCst) > 0, "{request} {fault:?}");
            let error = created.expect_err("the engine did not say that it worked").to_string();
            assert!(error.contains("container"), "{request} {fault:?}: {error}");
            assert_eq!(place.traces(&id), [""; 0], "{request} {fault:?}: {error}");
            assert!(provider.list().await.unwrap().is_empty(), "{request} {fault:?}");
        }
    }
    // The engine itself is as well as before.
    let sandbox = place.create().await;
    place.provider.destroy(sandbox.id()).await.unwrap();
}

//! The runner's end of the link: dials, greets, obeys and reports, and dials again.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use harvest_link::{Decoder, FromRunner, Report, ToRunner, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::registry::Registry;
use crate::supervisor::Context;
use crate::{gateway, hold, process};

/// Returns when it is told to shut down, or when no one can ever listen again.
pub async fn serve(context: Context, gateway_port: u16) {
    let Context { boot, registry, .. } = &context;
    loop {
        let stream = tokio::select! {
            stream = gateway::connect(&boot.link) => stream,
            () = removed(&boot.link) => return,
        };
        registry.forget_listener();
        match converse(stream, &context, gateway_port).await {
            Ok(()) => return,
            // Also keeps a server that refuses us from being called without pause.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Waits until the folder of the socket is removed: whoever did that will not come back for us.
async fn removed(socket: &Path) {
    let folder = socket.parent().unwrap_or(socket);
    loop {
        // A mounted folder stays visible when it is removed, but is linked from nowhere.
        match std::fs::metadata(folder) {
            Ok(data) if data.nlink() == 0 => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

async fn converse(stream: UnixStream, context: &Context, gateway_port: u16) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let hello = Report::Hello { version: VERSION, gateway_port, pid: std::process::id() };
    writer.write_all(&FromRunner::Control(hello).encode().map_err(io::Error::other)?).await?;
    // Obeying goes on while reporting waits for a slow reader, so that neither side can block the other.
    tokio::select! {
        told = obey(reader, context) => told,
        failed = tell(writer, &context.registry) => failed,
    }
}

/// Sends whatever there is to send, each process in turn.
async fn tell(mut writer: OwnedWriteHalf, registry: &Registry) -> io::Result<()> {
    loop {
        let mut idle = true;
        if let Some(frame) = registry.due()? {
            writer.write_all(&frame).await?;
            idle = false;
        }
        for process in registry.all() {
            if let Some(frames) = process.due()? {
                writer.write_all(&frames).await?;
                idle = false;
            }
        }
        if idle {
            registry.idle.notify_one();
            registry.changed.notified().await;
        }
    }
}

/// Returns `Ok` only when told to shut down.
async fn obey(mut reader: OwnedReadHalf, context: &Context) -> io::Result<()> {
    let Context { boot, registry, .. } = context;
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        while let Some(order) = decoder.message::<ToRunner>().map_err(io::Error::other)? {
            match order {
                ToRunner::Welcome { .. } => {}
                ToRunner::Start { process } => match registry.get(&process.id) {
                    Some(known) => known.announce(),
                    None => process::start(context, process),
                },
                ToRunner::Hold { process } => hold::hold(context, &process),
                ToRunner::Input { process: id, offset, text, close } => match registry.get(&id) {
                    Some(process) => process.input.give(offset, text, close),
                    None => registry.refuse(&id, 0),
                },
                ToRunner::Resume { process: id, offset } => match registry.get(&id) {
                    Some(process) => process.resume(offset),
                    None => registry.refuse(&id, offset),
                },
                ToRunner::Window { process, limit } => {
                    if let Some(process) = registry.get(&process) {
                        process.open_window(limit);
                    }
                }
                ToRunner::Ack { process, offset } => {
                    if let Some(process) = registry.get(&process)
                        && let Some(spool) = process.spool.borrow_mut().as_mut()
                    {
                        spool.forget(offset);
                    }
                }
                ToRunner::Signal { process, signal } => {
                    if let Some(process) = registry.get(&process) {
                        process::signal(boot, &process, signal);
                    }
                }
                ToRunner::Shutdown => return Ok(()),
            }
            registry.changed.notify_one();
        }
        let length = reader.read(&mut buffer).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        decoder.feed(buffer.get(..length).unwrap_or_default());
    }
}

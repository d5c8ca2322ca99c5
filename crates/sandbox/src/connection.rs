//! One connection of a runner, from its greeting on.

use std::io;
use std::time::Duration;

use harvest_link::{Decoder, FromRunner, Report, ToRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const GREETING: Duration = Duration::from_secs(5);
const READ: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    buffer: Vec<u8>,
}

/// What a runner says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello {
    pub gateway_port: u16,
    /// The version both speak.
    pub version: u32,
}

impl Connection {
    /// Waits for the runner of this sandbox and greets it. Anyone else is sent away.
    pub async fn accept(listener: &UnixListener, peer_uid: u32) -> io::Result<(Self, Hello)> {
        let (stream, _) = listener.accept().await?;
        let uid = stream.peer_cred()?.uid();
        if uid != peer_uid {
            return Err(invalid(format!("uid {uid} is not the sandbox's")));
        }
        let mut connection = Self { stream, decoder: Decoder::new(), buffer: vec![0; READ] };
        match tokio::time::timeout(GREETING, connection.receive()).await?? {
            FromRunner::Control(Report::Hello { version, gateway_port, .. }) => {
                let version = harvest_link::negotiate(version).map_err(invalid)?;
                connection.send_all(&[ToRunner::Welcome { version }]).await?;
                Ok((connection, Hello { gateway_port, version }))
            }
            _ => Err(invalid("the runner did not greet")),
        }
    }

    /// The next message. May be cancelled and called again.
    pub async fn receive(&mut self) -> io::Result<FromRunner> {
        loop {
            if let Some(message) = self.decoder.message().map_err(invalid)? {
                return Ok(message);
            }
            let length = self.stream.read(&mut self.buffer).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.decoder.feed(self.buffer.get(..length).unwrap_or_default());
        }
    }

    pub async fn send_all(&mut self, orders: &[ToRunner]) -> io::Result<()> {
        for order in orders {
            self.stream.write_all(&order.encode().map_err(invalid)?).await?;
        }
        Ok(())
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

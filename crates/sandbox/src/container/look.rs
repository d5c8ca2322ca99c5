//! Looks at containers, past the types of the client library: Podman has states that these do not know (`stopped`, for a moment
//! after a container ends), and one such container would hide all others.

use std::io;
use std::path::{Path, PathBuf};

use bollard::ClientVersion;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::engine::PATIENCE;
use crate::Error;

/// More than any list of containers of one machine.
const MOST: u64 = 64 << 20;
const NOT_FOUND: u16 = 404;

#[derive(Debug)]
pub(super) struct Looking {
    pub socket: PathBuf,
    pub version: ClientVersion,
}

/// A container in a list.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    #[serde(rename = "Labels", default)]
    pub labels: std::collections::HashMap<String, String>,
}

/// A container by itself.
#[derive(Debug, Deserialize)]
pub(super) struct Inspected {
    #[serde(rename = "State")]
    state: State,
}

#[derive(Debug, Deserialize)]
struct State {
    #[serde(rename = "Pid", default)]
    pid: i32,
}

impl Inspected {
    /// The pid of its first process, unless that has ended.
    pub fn pid(&self) -> Option<i32> {
        Some(self.state.pid).filter(|pid| *pid > 0)
    }
}

impl Looking {
    /// All containers with this label, whatever state they are in.
    pub async fn list(&self, label: &str) -> Result<Vec<Listed>, Error> {
        let filters = serde_json::json!({ "label": [label] }).to_string();
        let found = self.get(&format!("containers/json?all=true&filters={}", encode(&filters))).await?;
        found.ok_or_else(|| Error::failed("listing containers: the engine knows no such thing"))
    }

    /// None when there is no such container.
    pub async fn inspect(&self, name: &str) -> Result<Option<Inspected>, Error> {
        self.get(&format!("containers/{name}/json")).await
    }

    /// None when the engine has no such thing.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        let ClientVersion { major_version, minor_version } = &self.version;
        // In version 1.0 an answer is whole, and ends with the connection.
        let request = format!("GET /v{major_version}.{minor_version}/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let failed = |error: io::Error| Error::failed(format!("looking at containers: {error}"));
        let answer = tokio::time::timeout(PATIENCE, exchange(&self.socket, &request));
        let answer = answer.await.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)?;
        let (status, body) = split(&answer).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        match status {
            200 => serde_json::from_slice(body).map(Some).map_err(|error| failed(error.into())),
            NOT_FOUND => Ok(None),
            _ => Err(failed(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(body).trim())))),
        }
    }
}

async fn exchange(socket: &Path, request: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Status and body of an answer.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.get(end + 4..)?))
}

fn encode(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart_and_filters_survive_a_query() {
        assert_eq!(split(b"HTTP/1.0 404 Not Found\r\nA: b\r\n\r\n{}"), Some((404, b"{}".as_slice())));
        assert_eq!(split(b"HTTP/1.0 200"), None);
        assert_eq!(split(b""), None);
        assert_eq!(encode("{\"a b\"=ü&x}"), "%7B%22a%20b%22%3D%C3%BC%26x%7D");
    }
}

//! One connection: how it is made, what it remembers, and what its failures mean.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row, Socket, Statement};

use super::tls::{Security, Wish};
use crate::Error;

/// The oldest version that is tested.
const OLDEST: u32 = 13;
const CONNECT: Duration = Duration::from_secs(5);
/// How long one call may take, waiting for others included.
const CALL: Duration = Duration::from_secs(30);
/// The server gives up before we do, so that nothing goes on behind our back. Every statement is short, made for an index and
/// the same each time: its first plan is its best, whatever the tables looked like when it was made.
const SESSION: &str = "SET statement_timeout = '25s'; SET idle_in_transaction_session_timeout = '30s';
     SET client_min_messages = warning; SET timezone = 'UTC';
     SET jit = off; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan";

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];
/// What reads the socket, and what the server says on its own; it has to be polled for anything to happen.
pub(super) type Driver = BoxStream<'static, Result<AsyncMessage, tokio_postgres::Error>>;

/// Where the database is.
#[derive(Debug, Clone)]
pub(super) struct Address {
    config: Config,
    security: Security,
    /// For people: never the password.
    place: String,
}

/// The passwords in the address of a database, as they are written there and as they are meant; also in one that cannot be read.
pub fn passwords_in(url: &str) -> Vec<String> {
    let read: Option<Config> = Wish::take_from(url).0.parse().ok();
    let meant = read.and_then(|config| String::from_utf8(config.get_password()?.to_vec()).ok());
    let authority = url.split_once("://").map(|(_, rest)| rest.rsplit_once('@').map_or("", |(authority, _)| authority));
    let written = authority.and_then(|authority| authority.split_once(':')).map(|(_, password)| password.to_owned());
    let mut found: Vec<String> = meant.into_iter().chain(written).filter(|password| !password.is_empty()).collect();
    found.dedup();
    found
}

impl Address {
    /// Reads `postgres://…` and `key=value` strings.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let bad = |error: &tokio_postgres::Error| match error.source() {
            Some(cause) => Error::BadAddress(cause.to_string()),
            None => Error::BadAddress(error.to_string()),
        };
        let (url, wish) = Wish::take_from(url);
        let mut config: Config = url.parse().map_err(|error| bad(&error))?;
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        let security = wish.security(&config)?;
        config.ssl_mode(security.mode());
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("harvest");
        }
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let place = format!("{}/{}", hosts.join(","), config.get_dbname().unwrap_or("(default)"));
        Ok(Self { config, security, place })
    }

    pub(super) fn unreachable(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Unreachable { place: self.place.clone(), source: source.into() }
    }

    pub(super) async fn dial(&self) -> Result<(Client, Driver), Error> {
        let connecting = async {
            Ok(match &self.security {
                Security::Plain => with_driver(self.config.connect(NoTls).await?),
                Security::Encrypted(tls) => with_driver(self.config.connect(tls.clone()).await?),
            })
        };
        let made: Result<_, tokio_postgres::Error> =
            timeout(CONNECT + Duration::from_secs(1), connecting).await.map_err(|late| self.unreachable(late))?;
        made.map_err(|error| self.unreachable(error))
    }

    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        let (client, mut driver) = self.dial().await?;
        // Ends by itself: with the client, or with the database.
        tokio::spawn(async move { while let Some(Ok(_)) = driver.next().await {} });
        let connection =
            Connection { address: self.clone(), client, statements: Mutex::default(), unclear: AtomicBool::new(false) };
        connection.refuse_old().await?;
        connection.batch(SESSION).await?;
        Ok(connection)
    }
}

fn with_driver<T>((client, mut connection): (Client, tokio_postgres::Connection<Socket, T>)) -> (Client, Driver)
where
    T: TlsStream + Unpin + Send + 'static,
{
    (client, stream::poll_fn(move |context| connection.poll_message(context)).boxed())
}

/// A client with its prepared statements.
#[derive(Debug)]
pub(super) struct Connection {
    address: Address,
    client: Client,
    statements: Mutex<HashMap<String, Statement>>,
    /// A call or a transaction is under way, or was given up: no one knows what still happens on it.
    unclear: AtomicBool,
}

impl Connection {
    /// Whether someone else may go on with it.
    pub(super) fn is_clean(&self) -> bool {
        !self.client.is_closed() && !self.unclear.load(Ordering::Relaxed)
    }

    pub(super) async fn begin(&self) -> Result<(), Error> {
        self.batch("BEGIN").await?;
        self.unclear.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the transaction: for good when it went well, otherwise nothing of it remains.
    pub(super) async fn end<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        let ended = match &done {
            Ok(_) => self.batch("COMMIT").await,
            Err(Error::Unreachable { .. }) => return done,
            Err(_) => self.batch("ROLLBACK").await,
        };
        self.unclear.store(ended.is_err(), Ordering::Relaxed);
        ended.and(done)
    }

    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql).await?;
        self.limited(self.client.query(&statement, params)).await
    }

    /// The single row of a query that always has one.
    pub(super) async fn row(&self, sql: &str, params: Params<'_>) -> Result<Row, Error> {
        let rows = self.query(sql, params).await?;
        rows.into_iter().next().ok_or_else(|| Error::corrupt("an answer", "no row"))
    }

    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Error> {
        let statement = self.prepare(sql).await?;
        self.limited(self.client.execute(&statement, params)).await
    }

    /// Statements without parameters, prepared by no one.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Error> {
        self.limited(self.client.batch_execute(sql)).await
    }

    /// The same, for what may take long and has nobody waiting: a migration.
    pub(super) async fn patient_batch(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await.map_err(|error| self.meaning(error))
    }

    async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.limited(self.client.prepare(sql)).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    async fn limited<T>(&self, call: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
        // Stays so when the time is up, and when whoever called is no longer there to hear the answer.
        let before = self.unclear.swap(true, Ordering::Relaxed);
        let answer = timeout(CALL, call).await.map_err(|late| self.address.unreachable(late))?;
        self.unclear.store(before, Ordering::Relaxed);
        answer.map_err(|error| self.meaning(error))
    }

    fn meaning(&self, error: tokio_postgres::Error) -> Error {
        let Some(state) = error.code() else {
            // No word from the server: the connection is gone, unless the values themselves could not be sent.
            let broken = error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            let lost = broken || error.is_closed() || self.client.is_closed();
            return if lost { self.address.unreachable(error) } else { Error::Postgres(error) };
        };
        let away = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
        match state {
            state if *state == SqlState::DISK_FULL => Error::DiskFull(Box::new(error)),
            state if away.contains(state) => self.address.unreachable(error),
            _ => Error::Postgres(error),
        }
    }

    async fn refuse_old(&self) -> Result<(), Error> {
        let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')";
        let row = self.row(sql, &[]).await?;
        let (found, number): (String, String) = (row.get(0), row.get(1));
        check_version(&found, number.parse().unwrap_or(0))
    }
}

fn check_version(found: &str, number: u32) -> Result<(), Error> {
    if number / 10_000 < OLDEST {
        return Err(Error::TooOld { found: found.to_owned(), needed: OLDEST });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_form_are_read_and_passwords_are_not_shown() {
        for url in [
            "postgres://ada:secret@db.example.com:6432/harvest",
            "postgresql://ada:secret@db.example.com/harvest?sslmode=prefer",
            "host=db.example.com user=ada password=secret dbname=harvest",
            "postgres://ada:secret@%2Frun%2Fpostgresql/harvest",
            "host=/run/postgresql user=ada dbname=harvest",
        ] {
            let address = Address::parse(url).unwrap();
            assert!(address.place.ends_with("/harvest") && !address.place.contains("secret"), "{}", address.place);
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let reason = |url| match Address::parse(url) {
            Err(Error::BadAddress(reason)) => reason,
            other => panic!("{url}: {other:?}"),
        };
        assert!(reason("postgres://db/harvest?sslmode=perhaps").contains("sslmode=perhaps"));
        assert!(reason("host=db sslmode=require sslrootcert=/nowhere").contains("sslrootcert=/nowhere"));
        assert!(!reason("mysql://db/harvest").is_empty());
    }

    #[test]
    fn old_servers_are_refused() {
        assert!(matches!(check_version("12.17", 120_017), Err(Error::TooOld { needed: 13, .. })));
        assert!(check_version("13.0", 130_000).is_ok());
    }
}

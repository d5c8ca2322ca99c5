//! A few connections that are lent out one at a time. One that broke is thrown away and the next call makes a new one, so
//! that everything works again as soon as the database does.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::connection::{Address, Connection};
use crate::Error;

const MOST: usize = 8;

#[derive(Debug)]
pub(super) struct Pool {
    address: Address,
    places: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(address: Address) -> Self {
        Self { address, places: Semaphore::new(MOST), idle: Mutex::default() }
    }

    pub(super) async fn lend(&self) -> Result<Lent<'_>, Error> {
        let place = self.places.acquire().await.map_err(|_| Error::Closed)?;
        let connection = match self.take() {
            Some(connection) => connection,
            None => self.address.connect().await?,
        };
        Ok(Lent { pool: self, connection: Some(connection), _place: place })
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(Connection::is_clean);
        idle.pop()
    }
}

/// A connection that goes back when it is no longer needed, unless it broke.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    /// Only taken on the way back.
    connection: Option<Connection>,
    _place: SemaphorePermit<'a>,
}

impl Lent<'_> {
    pub(super) fn get(&self) -> Result<&Connection, Error> {
        self.connection.as_ref().ok_or(Error::Closed)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let back = self.connection.take().filter(Connection::is_clean);
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(back);
    }
}

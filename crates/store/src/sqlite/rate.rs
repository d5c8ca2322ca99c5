//! A data directory has one server, which counts for itself.

use async_trait::async_trait;

use super::Sqlite;
use crate::Error;
use crate::contract::{Rate, Rates, Taken};

#[async_trait]
impl Rates for Sqlite {
    async fn take_rates(&self, _: &[Rate]) -> Result<Option<Taken>, Error> {
        Ok(None)
    }

    async fn forget_rates(&self) -> Result<u64, Error> {
        Ok(0)
    }
}

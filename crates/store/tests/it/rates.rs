//! Rates that the servers on one database share.

use harvest_store::{Rate, Rates, Sqlite, Store, Taken};

use crate::support::make::*;

//! The suite that every store passes. Each test runs on a database of its own, once in SQLite and once in PostgreSQL.

mod claims;
mod durability;
mod journal;
mod lists;
mod support;

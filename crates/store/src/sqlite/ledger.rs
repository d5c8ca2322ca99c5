//! Reservations and spending.

use harvest_core::{CallId, Cost, OwnerId, TaskId, Usage};
use rusqlite::{Connection, params};

use super::write::step::check_fence;
use crate::Error;
use crate::contract::{Balance, Bill, Charge, Lease, Reservation, Settlement, Spending};
use crate::decode::{from_json, id, to_json};

pub(super) fn reserve(db: &Connection, lease: &Lease, reservation: &Reservation) -> Result<Vec<Balance>, Error> {
    check_fence(db, lease)?;
    let Reservation { call, owner, bill, provider, model, amount } = reservation;
    db.prepare_cached(
        "INSERT INTO reservations (call, task, owner, accounts, day, provider, model, amount_nanos)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        call.as_str(),
        lease.rows.task,
        owner.as_str(),
        to_json(&bill.accounts, "accounts")?,
        bill.day,
        provider,
        model,
        amount.nanos()
    ])?;
    balances(db, bill, owner)
}

pub(super) fn balances(db: &Connection, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT (SELECT coalesce(sum(cost_nanos), 0) FROM spending WHERE day = ?1 AND account = ?2 AND owner <> ?3),
             (SELECT coalesce(sum(amount_nanos), 0) FROM reservations WHERE day = ?1 AND owner <> ?3
                AND EXISTS (SELECT 1 FROM json_each(accounts) WHERE value = ?2))",
    )?;
    let mut balance = |account: &String| -> Result<Balance, Error> {
        let (spent, reserved) = statement
            .query_row(params![bill.day, account, asker.as_str()], |row| Ok((cost(row, 0)?, cost(row, 1)?)))?;
        Ok(Balance { account: account.clone(), spent, reserved })
    };
    bill.accounts.iter().map(&mut balance).collect()
}

pub(super) fn settle(db: &Connection, settlement: &Settlement) -> Result<(), Error> {
    db.prepare_cached("DELETE FROM reservations WHERE call = ?1")?.execute([settlement.call.as_str()])?;
    let Some(Charge { owner, bill, usage, cost }) = &settlement.charge else { return Ok(()) };
    let mut add = db.prepare_cached(
        "INSERT INTO spending (day, account, owner, calls, input_tokens, output_tokens, cache_read_tokens,
             cache_write_tokens, reasoning_tokens, cost_nanos) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (day, account, owner) DO UPDATE SET calls = calls + 1,
             input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
             cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
             cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
             reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, cost_nanos = cost_nanos + excluded.cost_nanos",
    )?;
    for account in &bill.accounts {
        add.execute(params![
            bill.day,
            account,
            owner.as_str(),
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            cost.nanos()
        ])?;
    }
    Ok(())
}

pub(super) fn unsettled(db: &Connection, task: &TaskId) -> Result<Vec<Reservation>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT call, owner, accounts, day, provider, model, amount_nanos FROM reservations
         WHERE task = (SELECT number FROM tasks WHERE id = ?1) ORDER BY call",
    )?;
    let mut rows = statement.query([task.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (call, owner, accounts): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        found.push(Reservation {
            call: id::<CallId>(&call)?,
            owner: id(&owner)?,
            bill: Bill { accounts: from_json(&accounts, "accounts")?, day: row.get(3)? },
            provider: row.get(4)?,
            model: row.get(5)?,
            amount: cost(row, 6)?,
        });
    }
    Ok(found)
}

pub(super) fn spending(db: &Connection, day: &str) -> Result<Vec<Spending>, Error> {
    let mut statement = db.prepare_cached(
        "WITH named AS (
             SELECT account FROM spending WHERE day = ?1
             UNION SELECT value FROM reservations, json_each(accounts) WHERE day = ?1)
         SELECT named.account, coalesce(sum(calls), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
             coalesce(sum(cache_read_tokens), 0), coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0),
             coalesce(sum(cost_nanos), 0),
             (SELECT coalesce(sum(amount_nanos), 0) FROM reservations WHERE day = ?1
                AND EXISTS (SELECT 1 FROM json_each(accounts) WHERE value = named.account))
         FROM named LEFT JOIN spending ON spending.account = named.account AND day = ?1
         GROUP BY named.account ORDER BY named.account",
    )?;
    let rows = statement.query_map([day], |row| {
        Ok(Spending {
            account: row.get(0)?,
            calls: row.get(1)?,
            usage: Usage {
                input_tokens: row.get(2)?,
                output_tokens: row.get(3)?,
                cache_read_tokens: row.get(4)?,
                cache_write_tokens: row.get(5)?,
                reasoning_tokens: row.get(6)?,
            },
            cost_usd: cost(row, 7)?,
            reserved_usd: cost(row, 8)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn cost(row: &rusqlite::Row<'_>, place: usize) -> rusqlite::Result<Cost> {
    row.get(place).map(Cost::from_nanos)
}

//! Reservations and spending.

use std::collections::BTreeMap;

use harvest_core::{CallId, Cost, OwnerId, TaskId, Usage};
use tokio_postgres::Row;

use super::connection::Connection;
use super::step::text;
use crate::Error;
use crate::contract::{Balance, Bill, Charge, Lease, Reservation, Settlement, Spending};
use crate::decode::id;

/// Calls, five kinds of tokens, cost.
type Sums = [i64; 7];

pub(super) async fn reserve(db: &Connection, lease: &Lease, reservation: &Reservation) -> Result<Vec<Balance>, Error> {
    let Reservation { call, owner, bill, provider, model, amount } = reservation;
    let row = db
        .row(
            "SELECT harvest_reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            &[
                &lease.rows.turn,
                &(lease.fence as i64),
                &lease.rows.task,
                &call.as_str(),
                &owner.as_str(),
                &accounts(bill),
                &bill.day,
                &text(provider),
                &text(model),
                &nanos(*amount),
            ],
        )
        .await?;
    if !row.get::<_, bool>(0) {
        return Err(Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence });
    }
    // After the commit: of two that set the last money aside at the same time, at least the later one sees both.
    balances(db, bill, owner).await
}

pub(super) async fn balances(db: &Connection, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, Error> {
    if bill.accounts.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT account, spent, reserved FROM harvest_balances($1, $2, $3)";
    let rows = db.query(sql, &[&accounts(bill), &bill.day, &asker.as_str()]).await?;
    let balance = |row: &Row| Balance { account: row.get(0), spent: cost(row, 1), reserved: cost(row, 2) };
    Ok(rows.iter().map(balance).collect())
}

/// In the transaction of the steps that these belong to.
pub(super) async fn settle(db: &Connection, settlements: &[&Settlement]) -> Result<(), Error> {
    let calls: Vec<&str> = settlements.iter().map(|settlement| settlement.call.as_str()).collect();
    db.execute("DELETE FROM reservations WHERE call = ANY($1)", &[&calls]).await?;
    // Each row once, and in one order everywhere, so that no two processes wait for each other.
    let mut sums: BTreeMap<(&str, String, &str), Sums> = BTreeMap::new();
    for Charge { owner, bill, usage, cost } in settlements.iter().filter_map(|settlement| settlement.charge.as_ref()) {
        for account in accounts(bill) {
            let sum = sums.entry((bill.day.as_str(), account, owner.as_str())).or_default();
            for (sum, more) in sum.iter_mut().zip(counted(usage, *cost)) {
                *sum = sum.saturating_add(more);
            }
        }
    }
    if sums.is_empty() {
        return Ok(());
    }
    let days: Vec<&str> = sums.keys().map(|(day, ..)| *day).collect();
    let names: Vec<&str> = sums.keys().map(|(_, account, _)| account.as_str()).collect();
    let owners: Vec<&str> = sums.keys().map(|(.., owner)| *owner).collect();
    let column = |place: usize| sums.values().map(|sum| sum[place]).collect::<Vec<i64>>();
    let sql = "INSERT INTO spending AS s (day, account, owner, calls, input_tokens, output_tokens, cache_read_tokens,
             cache_write_tokens, reasoning_tokens, cost_nanos)
         SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
             $8::bigint[], $9::bigint[], $10::bigint[])
         ON CONFLICT (day, account, owner) DO UPDATE SET calls = s.calls + excluded.calls,
             input_tokens = s.input_tokens + excluded.input_tokens,
             output_tokens = s.output_tokens + excluded.output_tokens,
             cache_read_tokens = s.cache_read_tokens + excluded.cache_read_tokens,
             cache_write_tokens = s.cache_write_tokens + excluded.cache_write_tokens,
             reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens,
             cost_nanos = s.cost_nanos + excluded.cost_nanos";
    let columns: [Vec<i64>; 7] = std::array::from_fn(column);
    let [calls, input, output, read, write, reasoning, costs] = &columns;
    db.execute(sql, &[&days, &names, &owners, calls, input, output, read, write, reasoning, costs]).await.map(drop)
}

pub(super) async fn unsettled(db: &Connection, task: &TaskId) -> Result<Vec<Reservation>, Error> {
    let sql = "SELECT call, owner, accounts, day, provider, model, amount_nanos FROM reservations
         WHERE task = (SELECT number FROM tasks WHERE id = $1) ORDER BY call";
    let rows = db.query(sql, &[&task.as_str()]).await?;
    let reservation = |row: &Row| {
        Ok(Reservation {
            call: id::<CallId>(row.get(0))?,
            owner: id(row.get(1))?,
            bill: Bill { accounts: row.get(2), day: row.get(3) },
            provider: row.get(4),
            model: row.get(5),
            amount: cost(row, 6),
        })
    };
    rows.iter().map(reservation).collect()
}

pub(super) async fn spending(db: &Connection, day: &str) -> Result<Vec<Spending>, Error> {
    let sql = "WITH held AS (SELECT unnest(accounts) AS account, amount_nanos FROM reservations WHERE day = $1),
             named AS (SELECT account FROM spending WHERE day = $1 UNION SELECT account FROM held)
         SELECT named.account, coalesce(sum(calls), 0)::bigint, coalesce(sum(input_tokens), 0)::bigint,
             coalesce(sum(output_tokens), 0)::bigint, coalesce(sum(cache_read_tokens), 0)::bigint,
             coalesce(sum(cache_write_tokens), 0)::bigint, coalesce(sum(reasoning_tokens), 0)::bigint,
             coalesce(sum(cost_nanos), 0)::bigint,
             (SELECT coalesce(sum(held.amount_nanos), 0)::bigint FROM held WHERE held.account = named.account)
         FROM named LEFT JOIN spending ON spending.account = named.account AND day = $1
         GROUP BY named.account ORDER BY named.account COLLATE \"C\"";
    let rows = db.query(sql, &[&day]).await?;
    let number = |row: &Row, place: usize| row.get::<_, i64>(place) as u64;
    let one = |row: &Row| Spending {
        account: row.get(0),
        calls: number(row, 1),
        usage: Usage {
            input_tokens: number(row, 2),
            output_tokens: number(row, 3),
            cache_read_tokens: number(row, 4),
            cache_write_tokens: number(row, 5),
            reasoning_tokens: number(row, 6),
        },
        cost_usd: cost(row, 7),
        reserved_usd: cost(row, 8),
    };
    Ok(rows.iter().map(one).collect())
}

fn accounts(bill: &Bill) -> Vec<String> {
    bill.accounts.iter().map(|account| text(account).into_owned()).collect()
}

fn counted(usage: &Usage, cost: Cost) -> Sums {
    let tokens = [
        1,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        cost.nanos(),
    ];
    tokens.map(|number| i64::try_from(number).unwrap_or(i64::MAX))
}

fn nanos(cost: Cost) -> i64 {
    i64::try_from(cost.nanos()).unwrap_or(i64::MAX)
}

fn cost(row: &Row, place: usize) -> Cost {
    Cost::from_nanos(row.get::<_, i64>(place) as u64)
}

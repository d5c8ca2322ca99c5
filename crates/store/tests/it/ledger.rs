//! Money is set aside once, given back once and counted once, for whoever works on the turn and no one else.

use harvest_core::{CallId, Cost, EventBody, OwnerId, Usage};
use harvest_store::{Balance, Bill, Charge, Error, Reservation, Settlement, Spending, Step};

use crate::support::make::*;
use crate::support::on_both;

const DAY: &str = "2026-01-02";

fn bill() -> Bill {
    Bill { accounts: vec!["user:ada".into(), "project:shop & \"co\"".into()], day: DAY.into() }
}

pub fn reservation(owner: &OwnerId, nanos: u64) -> Reservation {
    Reservation {
        call: CallId::generate(&Counter),
        owner: owner.clone(),
        bill: bill(),
        provider: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
        amount: Cost::from_nanos(nanos),
    }
}

fn usage() -> Usage {
    Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 3, cache_write_tokens: 2, reasoning_tokens: 1 }
}

/// The event of a call and its settlement.
pub fn settling(reservation: &Reservation, nanos: u64) -> Step {
    let cost = Cost::from_nanos(nanos);
    let event = EventBody::Usage {
        provider: reservation.provider.clone(),
        model: reservation.model.clone(),
        usage: usage(),
        cost_usd: cost,
        estimated: false,
        call_id: Some(reservation.call.clone()),
        duration_ms: None,
    };
    let charge = Charge { owner: reservation.owner.clone(), bill: reservation.bill.clone(), usage: usage(), cost };
    let settlement = Settlement { call: reservation.call.clone(), charge: Some(charge) };
    Step::new(now(), vec![event]).settling(settlement)
}

fn balances(spent: u64, reserved: u64) -> Vec<Balance> {
    let of =
        |account: String| Balance { account, spent: Cost::from_nanos(spent), reserved: Cost::from_nanos(reserved) };
    bill().accounts.into_iter().map(of).collect()
}

on_both! {
    async fn what_is_set_aside_is_seen_by_others_until_it_is_settled(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        let (here, there) = (owner(), owner());
        let (first, second) = (reservation(&here, 1000), reservation(&here, 500));
        assert_eq!(store.reserve(&lease, first.clone()).await.unwrap(), balances(0, 0), "one's own does not count");
        store.reserve(&lease, second.clone()).await.unwrap();
        assert_eq!(store.balances(&bill(), &there).await.unwrap(), balances(0, 1500));
        let mut open = store.unsettled(&submitted.task.id).await.unwrap();
        open.sort_by_key(|one| one.amount);
        assert_eq!(open, [second.clone(), first.clone()]);

        store.append(&lease, settling(&first, 700)).await.unwrap();
        assert_eq!(store.balances(&bill(), &there).await.unwrap(), balances(700, 500));
        assert_eq!(store.balances(&bill(), &here).await.unwrap(), balances(0, 0));
        // One that never reached a model is given back and costs nothing.
        let nothing = Settlement { call: second.call.clone(), charge: None };
        store.append(&lease, Step::new(now(), Vec::new()).settling(nothing)).await.unwrap();
        assert_eq!(store.balances(&bill(), &there).await.unwrap(), balances(700, 0));
        assert_eq!(store.unsettled(&submitted.task.id).await.unwrap(), []);
        let another_day = Bill { day: "2026-01-03".into(), ..bill() };
        assert_eq!(store.balances(&another_day, &there).await.unwrap(), balances(0, 0));
    }

    async fn spending_adds_up_over_processes(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        for nanos in [700, 300] {
            let call = reservation(&owner(), 1000);
            store.reserve(&lease, call.clone()).await.unwrap();
            store.append(&lease, settling(&call, nanos)).await.unwrap();
        }
        store.reserve(&lease, reservation(&owner(), 250)).await.unwrap();
        let usage = Usage { input_tokens: 200, output_tokens: 20, cache_read_tokens: 6, cache_write_tokens: 4, reasoning_tokens: 2 };
        let of = |account: &str| Spending {
            account: account.into(), calls: 2, usage, cost_usd: Cost::from_nanos(1000), reserved_usd: Cost::from_nanos(250),
        };
        assert_eq!(store.spending(DAY).await.unwrap(), [of("project:shop & \"co\""), of("user:ada")]);
        assert_eq!(store.spending("2026-01-03").await.unwrap(), []);
        let task = store.task(&submitted.task.id).await.unwrap().task;
        assert_eq!(task.cost_usd, Cost::from_nanos(1000));
    }

    async fn a_worker_that_was_thought_dead_neither_sets_aside_nor_settles(place) {
        let store = place.open().await;
        let dead = owner();
        let task = create(&store, new_task("Another")).await;
        let held = store.claim(harvest_store::Claim { turn: Some(task.turn.clone()), ..a_claim(&dead, 1) }).await.unwrap().pop().unwrap();
        let lost = reservation(&dead, 400);
        store.reserve(&held, lost.clone()).await.unwrap();
        let taken = store.take_over(&dead, &owner(), None).await.unwrap().pop().unwrap();
        let refused = store.reserve(&held, reservation(&dead, 1)).await;
        assert!(matches!(refused, Err(Error::StaleLease { .. })), "{refused:?}");
        let refused = store.append(&held, settling(&lost, 5)).await;
        assert!(matches!(refused, Err(Error::StaleLease { .. })), "{refused:?}");
        assert_eq!(store.unsettled(&task.task.id).await.unwrap(), std::slice::from_ref(&lost), "it waits for the new owner");
        store.append(&taken, settling(&lost, 400)).await.unwrap();
        assert_eq!(store.unsettled(&task.task.id).await.unwrap(), []);
        assert_eq!(store.task(&task.task.id).await.unwrap().task.cost_usd, Cost::from_nanos(400));
    }

    async fn many_calls_at_once_lose_and_double_none(place) {
        let store = place.open().await;
        let mut working = Vec::new();
        for _ in 0..4 {
            let submitted = submit(&store).await;
            let lease = claim(&store, &submitted.turn).await;
            let here = owner();
            for _ in 0..25 {
                let (store, lease, call) = (store.clone(), lease.clone(), reservation(&here, 10));
                working.push(tokio::spawn(async move {
                    store.reserve(&lease, call.clone()).await.unwrap();
                    store.append(&lease, settling(&call, 7)).await.unwrap();
                }));
            }
        }
        for one in working {
            one.await.unwrap();
        }
        let spent = store.spending(DAY).await.unwrap();
        assert_eq!(spent.iter().map(|one| (one.calls, one.cost_usd.nanos(), one.reserved_usd.nanos())).collect::<Vec<_>>(), [(100, 700, 0); 2]);
    }
}

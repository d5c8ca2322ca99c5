//! The journal: numbered without gaps, whoever writes and however many.

use std::sync::Arc;

use harvest_core::{Cost, Event, EventBody, Move, Usage};
use harvest_store::{Step, Store};

use crate::support::make::*;
use crate::support::on_both;

fn delta(text: String) -> EventBody {
    EventBody::MessageDelta { text }
}

async fn all(store: &Arc<dyn Store>, session: &harvest_core::SessionId) -> Vec<Event> {
    store.events(session, 0, 100_000).await.unwrap()
}

on_both! {
    async fn concurrent_writers_leave_no_gap(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        let writers = (0..8).map(|writer| {
            let (store, lease) = (store.clone(), lease.clone());
            tokio::spawn(async move {
                for number in 0..50 {
                    let events = (0..=number % 3).map(|part| delta(format!("{writer}.{number}.{part}"))).collect();
                    store.append(&lease, Step::new(now(), events)).await.unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let journal = all(&store, &submitted.session).await;
        let numbers: Vec<u64> = journal.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        // What one append wrote stays together and in order.
        let texts: Vec<&str> = journal
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::MessageDelta { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        for (index, text) in texts.iter().enumerate() {
            let (step, part) = text.rsplit_once('.').unwrap();
            if part != "0" {
                let before = format!("{step}.{}", part.parse::<u32>().unwrap() - 1);
                assert_eq!(texts[index - 1], before);
            }
        }
    }

    async fn a_journal_that_grows_elsewhere_wakes_who_follows_it_here(place) {
        let (here, there) = (place.open().await, place.open().await);
        let submitted = submit(&there).await;
        let lease = claim(&there, &submitted.turn).await;
        let mut grown = here.watch(&submitted.session);
        for number in 0..3 {
            grown.mark_unchanged();
            let last = there.append(&lease, Step::new(now(), vec![delta(format!("{number}"))])).await.unwrap();
            let seen = async { while *grown.borrow_and_update() < last { grown.changed().await.unwrap(); } };
            tokio::time::timeout(std::time::Duration::from_secs(60), seen).await.unwrap();
            assert_eq!(here.events(&submitted.session, last - 1, 10).await.unwrap().len(), 1);
        }
    }

    async fn a_watcher_sees_everything_once(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let mut grown = store.watch(&submitted.session);
        let lease = claim(&store, &submitted.turn).await;
        let writer = {
            let (store, lease) = (store.clone(), lease.clone());
            tokio::spawn(async move {
                for number in 0..200 {
                    store.append(&lease, Step::new(now(), vec![delta(number.to_string())])).await.unwrap();
                }
            })
        };
        let mut seen: Vec<u64> = Vec::new();
        while seen.len() < 202 {
            grown.mark_unchanged();
            let page = store.events(&submitted.session, seen.last().copied().unwrap_or(0), 7).await.unwrap();
            if page.is_empty() {
                grown.changed().await.unwrap();
            }
            seen.extend(page.iter().map(|event| event.seq));
        }
        writer.await.unwrap();
        assert_eq!(seen, (1..=202).collect::<Vec<_>>());
    }

    async fn usage_adds_up_on_the_task(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        for _ in 0..3 {
            let event = EventBody::Usage {
                provider: "scripted".into(),
                model: "scripted-1".into(),
                usage: Usage { input_tokens: 1200, output_tokens: 40, cache_read_tokens: 7, ..Usage::default() },
                cost_usd: Cost::from_nanos(4_200_000),
                estimated: false,
                call_id: None,
                duration_ms: None,
            };
            store.append(&lease, Step::new(now(), vec![event])).await.unwrap();
        }
        let task = store.task(&submitted.task.id).await.unwrap().task;
        assert_eq!((task.usage.input_tokens, task.usage.output_tokens, task.usage.cache_read_tokens), (3600, 120, 21));
        assert_eq!(task.cost_usd, Cost::from_nanos(12_600_000));
    }

    async fn what_was_written_is_what_is_read(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        let bodies = vec![
            EventBody::ToolCall { id: "1".into(), name: "bash".into(), input: serde_json::json!({"command": "a\u{0}b 𝄞 \"'\n"}) },
            EventBody::Raw { stream: harvest_core::OutputStream::Stderr, line: "\u{1b}[31m".into() },
        ];
        store.append(&lease, Step::new(now(), bodies.clone()).moving(Move::Start)).await.unwrap();
        let read: Vec<EventBody> = store.events(&submitted.session, 2, 10).await.unwrap().into_iter().map(|event| event.body).collect();
        assert_eq!(read, bodies);
    }
}

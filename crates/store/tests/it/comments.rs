//! What people say about sessions.

use harvest_core::{Comment, CommentId, CommentPlace, DiffSide, SessionId};

use crate::support::make::*;
use crate::support::on_both;

fn says(session: &SessionId, about: CommentPlace, text: &str) -> Comment {
    Comment {
        id: CommentId::generate(&Counter),
        session_id: session.clone(),
        author: "ada".into(),
        at: now(),
        about,
        text: text.into(),
    }
}

on_both! {
    async fn comments_are_kept_in_their_order_and_removed_one_by_one(place) {
        let store = place.open().await;
        let (one, other) = (submit(&store).await, submit(&store).await);
        let about_event = says(&one.session, CommentPlace::Event { seq: 1 }, "Why this? \u{1f33e}");
        let line = CommentPlace::Line { path: "src/o'range \"x\".rs".into(), side: DiffSide::New, line: 7 };
        let about_line = says(&one.session, line, "and here\nsecond line");
        let elsewhere = says(&other.session, CommentPlace::Event { seq: 1 }, "other");
        for comment in [&about_event, &elsewhere, &about_line] {
            store.add_comment(comment.clone()).await.unwrap();
        }
        let again = place.open().await;
        assert_eq!(again.comments(&one.session).await.unwrap(), [about_event.clone(), about_line.clone()]);
        assert_eq!(again.comments(&other.session).await.unwrap(), [elsewhere]);
        assert_eq!(again.comment(&about_line.id).await.unwrap(), Some(about_line.clone()));
        assert!(store.remove_comment(&about_event.id).await.unwrap());
        assert!(!store.remove_comment(&about_event.id).await.unwrap(), "it is gone already");
        assert_eq!(again.comments(&one.session).await.unwrap(), [about_line]);
        assert_eq!(again.comment(&about_event.id).await.unwrap(), None);
    }
}

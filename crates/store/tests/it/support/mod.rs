//! What the tests stand on: databases, and things to put into them.

pub mod cluster;
pub mod make;
pub mod place;

/// Each test once for each database: `<test>::sqlite` and `<test>::postgres`.
macro_rules! on_both {
    ($($(#[$doc:meta])* async fn $name:ident($place:ident) $body:block)+) => {$(
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports, reason = "a test uses what it needs")]
            use super::*;

            async fn test($place: crate::support::place::Place) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                test(crate::support::place::Place::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                match crate::support::place::Place::postgres().await {
                    Some(place) => test(place).await,
                    None => harvest_testing::skip(crate::support::cluster::WITHOUT),
                }
            }
        }
    )+};
}
pub(crate) use on_both;

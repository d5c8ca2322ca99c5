//! How the few types look on the wire that do not look like their fields.

use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::{Cost, Scope};

impl PartialSchema for Cost {
    fn schema() -> RefOr<Schema> {
        let dollars = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0.0));
        dollars.description(Some("US dollars")).into()
    }
}

impl ToSchema for Cost {}

impl PartialSchema for Scope {
    fn schema() -> RefOr<Schema> {
        let scope = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^(user|team|project):.+$"));
        scope.description(Some("Owner: `user:NAME`, `team:NAME` or `project:NAME`")).into()
    }
}

impl ToSchema for Scope {}

//! The schemas of the tasks in templates: those of [`Ask`] with fewer fields, or with fewer that are required.

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::Ask;
use crate::template::{OF_THE_TEMPLATE, TemplateOptions, TemplateTask};

/// The schema of a task in which these fields can be left out, and those do not exist.
fn schema_of(description: &str, open: &[&str], absent: &[&str]) -> RefOr<Schema> {
    match Ask::schema() {
        RefOr::T(Schema::Object(mut schema)) => {
            schema.required.retain(|name| !open.contains(&name.as_str()));
            schema.properties.retain(|name, _| !absent.contains(&name.as_str()));
            schema.description = Some(description.to_owned());
            schema.into()
        }
        other => other,
    }
}

impl PartialSchema for TemplateTask {
    fn schema() -> RefOr<Schema> {
        let description = "The task of a template. Without a `repository`, it is named when the template is used.";
        schema_of(description, &["repository"], &["race"])
    }
}

impl ToSchema for TemplateTask {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Ask::schemas(schemas);
    }
}

impl PartialSchema for TemplateOptions {
    fn schema() -> RefOr<Schema> {
        let description =
            "Options of one task that is created from a template; those that are left out are the template's.";
        schema_of(description, &["prompt", "repository"], &OF_THE_TEMPLATE)
    }
}

impl ToSchema for TemplateOptions {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Ask::schemas(schemas);
    }
}

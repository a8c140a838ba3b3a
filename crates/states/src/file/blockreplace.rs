//! `file.blockreplace`.

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use value::Value;

use super::accumulated;
use super::common::{Sources, check_file, rendered_sources};
use super::replace::with_changes;
use crate::Ret;

/// Replaces the text between two marks in a file.
#[function]
pub fn blockreplace(
    ctx: &Context,
    name: String,
    #[default("#-- start managed zone --")] marker_start: String,
    #[default("#-- end managed zone --")] marker_end: String,
    #[default(Value::Null)] source: Value,
    #[default(Value::Null)] source_hash: Value,
    #[default("jinja")] template: String,
    #[default(Value::Null)] sources: Value,
    #[default(Value::Null)] source_hashes: Value,
    #[default(Value::Null)] defaults: Value,
    #[default(Value::Null)] context: Value,
    #[default("")] content: Value,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    #[default(".bak")] backup: Value,
    #[default(true)] show_changes: bool,
    #[default(Value::Null)] append_newline: Value,
    #[default(Value::Null)] insert_before_match: Value,
    #[default(Value::Null)] insert_after_match: Value,
) -> Result<Ret> {
    let name = expand_user(&name);
    let ret = Ret::new(name.as_str());
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.blockreplace"));
    }
    let sources = match (Sources { source, source_hash, sources, source_hashes }).unify() {
        Ok(sources) => sources,
        Err(wrong) => return Ok(ret.fail(wrong)),
    };
    if let Err(wrong) = check_file(&name) {
        return Ok(ret.fail(wrong));
    }
    let id = ctx.state.as_ref().and_then(|state| state.low.get_str("__id__")).unwrap_or_default().to_owned();
    let mut content = content.to_string();
    // Unlike `file.managed`, which offers the texts to the template, this state appends them to the
    // block itself.
    for text in accumulated::for_state(ctx, &name, &id) {
        content = if content.is_empty() { text.to_string() } else { format!("{content}\n{text}") };
    }
    if !sources.is_empty() {
        match rendered_sources(ctx, &sources, &template, &defaults, &context)? {
            Ok(texts) => content.extend(texts),
            Err(failed) => return Ok(failed),
        }
    }
    // The search, the markers and the dry run all live in the execution function.
    let changes = modules::file::block::blockreplace(
        ctx,
        name,
        marker_start,
        marker_end,
        content.into(),
        append_if_not_found,
        prepend_if_not_found,
        backup,
        ctx.is_test(),
        show_changes,
        append_newline,
        insert_before_match,
        insert_after_match,
    );
    match changes {
        Ok(changes) => Ok(with_changes(ctx, ret, changes, "Changes would be made")),
        Err(error) => {
            tracing::error!("Encountered error managing block: {error}");
            Ok(ret.fail(format!("Encountered error managing block: {error}. See the log for details.")))
        }
    }
}

//! `file.serialize`.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use modules::file::manage;
use modules::file::managed::{self, Fetched};
use modules::file::paths::expand_user;
use modules::file::perms::normalize_mode;
use modules::file::spec::{FileSpec, Origin};
use modules::util::{merge_maps, traverse};
use value::{Map, Value, map};

use super::common::{environment, start};
use super::managed::run_check;
use super::serializers::{Options, Serializer};
use crate::Ret;

/// Makes a file hold data in a format such as YAML or JSON.
#[function]
pub fn serialize(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] dataset: Value,
    #[default(Value::Null)] dataset_pillar: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] mode: Value,
    #[default("")] backup: Value,
    #[default(false)] makedirs: bool,
    #[default(true)] show_changes: bool,
    #[default(true)] create: bool,
    #[default(false)] merge_if_exists: bool,
    encoding: Option<String>,
    #[default("strict")] encoding_errors: String,
    serializer: Option<String>,
    #[default(Value::Null)] serializer_opts: Value,
    #[default(Value::Null)] deserializer_opts: Value,
    #[default(Value::Null)] check_cmd: Value,
    tmp_dir: Option<String>,
    #[default("")] tmp_ext: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let name = expand_user(&name);
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.serialize"));
    }
    if !create && !Path::new(&name).is_file() {
        return Ok(ret.ok(format!("File {name} is not present and is not set for creation")));
    }
    let formatter = kwargs.0.get("formatter").filter(|formatter| formatter.truthy()).map(Value::to_string);
    let (mut dataset, serializer) = match input(ctx, serializer, formatter, dataset, &dataset_pillar) {
        Ok(input) => input,
        Err(wrong) => return Ok(ret.fail(wrong)),
    };
    let mut merged = None;
    if merge_if_exists {
        let existing = match existing(&name, &serializer, &Options::of(&deserializer_opts, encoding.is_some()))? {
            Ok(existing) => existing,
            Err(wrong) => return Ok(ret.fail(wrong)),
        };
        if !existing.is_null() {
            let new = laid_over(&existing, dataset)?;
            if value::python::equal(&existing, &new) {
                return Ok(ret.ok(format!("The file {name} is in the correct state")));
            }
            dataset = new.clone();
            merged = Some((existing, new));
        }
    } else if deserializer_opts.truthy() {
        let warning = "The 'deserializer_opts' option is ignored unless merge_if_exists is set to True.";
        ret.more.insert("warnings", value::list![warning]);
    }
    let contents = serializer.write(&dataset, &Options::of(&serializer_opts, encoding.is_some()))?;
    let spec = FileSpec {
        name: name.clone(),
        origin: Origin { saltenv: environment(ctx), ..Origin::default() },
        user,
        group,
        mode: normalize_mode(&mode).into(),
        backup,
        makedirs,
        show_changes,
        contents: match contents {
            Value::Str(text) => format!("{text}\n").into(),
            other => other,
        },
        follow_symlinks: true,
        encoding,
        encoding_errors,
        ..FileSpec::default()
    };
    let mut ret = if ctx.is_test() {
        check(ctx, ret, spec)?
    } else {
        if check_cmd.truthy()
            && let Some(refused) = try_out(ctx, &ret, &spec, (&check_cmd, tmp_dir, &tmp_ext))?
        {
            return Ok(refused);
        }
        manage::manage(ctx, &spec, Fetched::default(), Some(ret.into()))?.into()
    };
    if let Some((Value::Map(existing), Value::Map(new))) = merged {
        ret.changes.insert("diff", differences(&new, &existing));
    }
    Ok(ret)
}

/// Returns the data and the serializer to write it with. The error is the comment of the failure.
fn input(
    ctx: &Context,
    serializer: Option<String>,
    formatter: Option<String>,
    dataset: Value,
    dataset_pillar: &Value,
) -> std::result::Result<(Value, Serializer), String> {
    let serializer = serializer.filter(|serializer| !serializer.is_empty());
    if serializer.is_some() && formatter.is_some() {
        return Err("Only one of serializer and formatter are allowed".into());
    }
    let format = serializer.or(formatter).unwrap_or_else(|| "yaml".into()).to_lowercase();
    if dataset.truthy() && dataset_pillar.truthy() {
        return Err("Only one of 'dataset' and 'dataset_pillar' is permitted".into());
    }
    let dataset = match dataset_pillar.truthy() {
        true => traverse(&ctx.pillar, &dataset_pillar.to_string(), ":").cloned().unwrap_or_else(|| "".into()),
        false => dataset,
    };
    if dataset.is_null() {
        return Err("Neither 'dataset' nor 'dataset_pillar' was defined".into());
    }
    let serializer = Serializer::named(&format).ok_or_else(|| {
        format!(
            "The {format} serializer could not be found. It either does not exist or its prerequisites are not \
             installed."
        )
    })?;
    Ok((dataset, serializer))
}

/// Returns the data in the file, null if there is none. The inner error is the comment of the failure.
fn existing(name: &str, serializer: &Serializer, options: &Options) -> Result<std::result::Result<Value, String>> {
    if !Path::new(name).is_file() {
        return Ok(Ok(Value::Null));
    }
    let bytes = std::fs::read(name).map_err(|error| modules::file::os_error(&error, name))?;
    let existing = serializer.read(&bytes, options);
    Ok(existing.map_err(|error| format!("Failed to deserialize existing data: {error}")))
}

/// Merges data over existing data.
fn laid_over(existing: &Value, dataset: Value) -> Result<Value> {
    match (existing, dataset) {
        (Value::Map(existing), Value::Map(dataset)) => {
            let mut merged = existing.clone();
            merge_maps(&mut merged, dataset, false);
            Ok(merged.into())
        }
        _ => Err(Error::Other("Cannot update using non-dict types in dictupdate.update()".into())),
    }
}

/// Returns the keys that differ between new and old data. Removed keys do not count.
fn differences(new: &Map, old: &Map) -> Map {
    let mut found = Map::new();
    for (key, value) in new {
        match (value, old.get_value(key)) {
            (value, None) => drop(found.insert(key.clone(), map! { "new" => value.clone(), "old" => "<_null_>" })),
            (value, Some(before)) if value::python::equal(value, before) => {}
            (Value::Map(value), Some(Value::Map(before))) => {
                let below = differences(value, before);
                if !below.is_empty() {
                    found.insert(key.clone(), below);
                }
            }
            (value, Some(before)) => {
                found.insert(key.clone(), map! { "new" => value.clone(), "old" => before.clone() });
            }
        }
    }
    found
}

fn check(ctx: &Context, mut ret: Ret, spec: FileSpec) -> Result<Ret> {
    // As in Salt, test mode compares a link itself, and not what it leads to.
    let spec = FileSpec { follow_symlinks: false, ..spec };
    let name = &spec.name;
    match managed::check(ctx, &spec)? {
        Ok((changes, _)) => ret.changes = changes,
        Err(wrong) => return Ok(ret.fail(wrong)),
    }
    if ret.changes.is_empty() {
        return Ok(ret.ok(format!("The file {name} is in the correct state")));
    }
    if !spec.show_changes {
        ret.changes.insert("diff", "<show_changes=False>");
    }
    Ok(ret.would(format!("Dataset will be serialized and stored into {name}")))
}

/// Checks the new content with a command. Returns a failed result if the command refuses it.
fn try_out(
    ctx: &Context,
    ret: &Ret,
    spec: &FileSpec,
    (command, tmp_dir, tmp_ext): (&Value, Option<String>, &Value),
) -> Result<Option<Ret>> {
    let directory = tmp_dir.map_or_else(std::env::temp_dir, Into::into);
    let made = tempfile::Builder::new().suffix(&tmp_ext.to_string()).tempfile_in(&directory);
    let trial = made.map(tempfile::NamedTempFile::into_temp_path);
    let trial = trial
        .map_err(|error| Error::execution(format!("failed to make a file in {}: {error}", directory.display())))?;
    let place = trial.to_string_lossy().into_owned();
    if Path::new(&spec.name).is_file()
        && let Err(error) = std::fs::copy(&spec.name, &trial)
    {
        return Ok(Some(ret.clone().fail(format!("Unable to copy file {} to {place}: {error}", spec.name))));
    }
    let trial_spec = FileSpec { name: place.clone(), ..spec.clone() };
    let tried = match manage::manage(ctx, &trial_spec, Fetched::default(), Some(ret.clone().into())) {
        Ok(tried) => tried,
        Err(error) => return Ok(Some(ret.clone().fail(format!("Unable to check_cmd file: {error}")))),
    };
    if tried.changes.is_empty() {
        return Ok(None);
    }
    let refused = run_check(ctx, &command.to_string(), &place)?.err();
    // As in Salt what was tried stands among the changes of a state that is refused.
    Ok(refused.map(|refused| refused.onto(Ret { changes: tried.changes, ..ret.clone() })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_key_by_key() {
        let old = map! { "a" => 1, "b" => map! { "c" => 1, "d" => 2 }, "gone" => 1 };
        let new = map! { "a" => 1, "b" => map! { "c" => 3, "d" => 2 }, "e" => 5 };
        let found = Value::from(differences(&new, &old)).to_string();
        assert_eq!(found, "{'b': {'c': {'new': 3, 'old': 1}}, 'e': {'new': 5, 'old': '<_null_>'}}");
    }
}

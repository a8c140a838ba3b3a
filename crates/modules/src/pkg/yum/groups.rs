//! Groups of packages.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use exec::{Context, Error, KwArgs, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use super::{Manager, options};
use crate::packages::common;
use crate::packages::rpm::{self, Listing};

/// The kinds of members of a group.
const KINDS: [&str; 4] = ["mandatory", "optional", "default", "conditional"];

/// Returns the groups that are installed and those that are available.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_list
#[function]
fn group_list(ctx: &Context) -> Result<Map> {
    let manager = Manager::of(ctx)?;
    if manager == Manager::Dnf5 {
        let text = common::output(ctx, &["dnf5", "group", "list", "--hidden"], false)?;
        return Ok(listed_by_dnf5(&text));
    }
    Ok(listed(&common::output(ctx, &[manager.name(), "grouplist", "hidden"], false)?))
}

const SECTIONS: [(&str, &str); 5] = [
    ("installed groups:", "installed"),
    ("available groups:", "available"),
    ("installed environment groups:", "installed environments"),
    ("available environment groups:", "available environments"),
    ("available language groups:", "available languages"),
];

static LANGUAGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(.+) \[(.+)\]").expect("the pattern is fixed"));

fn empty_list() -> Map {
    let none = || Value::List(Vec::new());
    map! {
        "installed" => none(), "available" => none(), "installed environments" => none(),
        "available environments" => none(), "available languages" => Map::new(),
    }
}

fn push(found: &mut Map, section: &str, line: &str) {
    match found.get_mut(section) {
        Some(Value::List(names)) => names.push(line.into()),
        Some(Value::Map(languages)) => {
            if let Some(parts) = LANGUAGE.captures(line) {
                languages.insert(line, map! { "name" => &parts[1], "language" => &parts[2] });
            }
        }
        _ => {}
    }
}

fn listed(text: &str) -> Map {
    let mut found = empty_list();
    let mut section: Option<&str> = None;
    for line in text.split('\n') {
        let lower = line.to_lowercase();
        if lower == "done" {
            break;
        }
        // A title is not a name of a group.
        let named = SECTIONS.iter().find(|(title, _)| *title == lower).map(|(_, section)| *section);
        if named.is_some() && named != section {
            section = named;
        } else if let Some(section) = section {
            push(&mut found, section, line.trim());
        }
    }
    found
}

fn listed_by_dnf5(text: &str) -> Map {
    let mut found = empty_list();
    for line in text.split('\n') {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 3 {
            continue;
        }
        // Dnf5 prints a table: ID, name, and whether it is installed. The name has blanks, so only
        // the first and last words are sure.
        match words[words.len() - 1].to_lowercase().as_str() {
            "yes" => push(&mut found, "installed", words[0]),
            "no" => push(&mut found, "available", words[0]),
            _ => {}
        }
    }
    found
}

/// Returns the packages of a group; with ``expand=True`` the groups of an environment, too.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_info 'Perl Support'
#[function]
fn group_info(
    ctx: &Context,
    name: String,
    #[default(false)] expand: bool,
    #[default(Value::Null)] ignore_groups: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let mut done: Vec<String> = common::texts(Some(&ignore_groups));
    info(ctx, &name, expand, &mut done, &kwargs.0)
}

fn info(ctx: &Context, name: &str, expand: bool, done: &mut Vec<String>, kwargs: &Map) -> Result<Map> {
    let chosen = ["fromrepo", "enablerepo", "disablerepo"];
    let chosen: Map = chosen.iter().filter_map(|name| Some((*name, kwargs.get(name)?.clone()))).collect();
    let manager = Manager::of(ctx)?;
    let mut words = vec![manager.name().to_owned(), "--quiet".into()];
    words.extend(options(&chosen));
    match manager {
        Manager::Dnf5 => words.extend(["group".to_owned(), "info".into()]),
        _ => words.push("groupinfo".to_owned()),
    }
    words.push(name.to_owned());
    let text = common::output(ctx, &words, false)?;
    let mut found = head(&text).ok_or_else(|| Error::execution(format!("Group '{name}' not found")))?;
    let environment = found.get_str("type") == Some("environment group");
    let mut members = BTreeMap::new();
    for kind in KINDS {
        let own: std::collections::BTreeSet<String> = members_of(&text, kind).into_iter().collect();
        members.insert(kind, own);
    }
    if expand && environment {
        let groups: Vec<String> = KINDS.iter().flat_map(|kind| members_of(&text, kind)).collect();
        KINDS.iter().for_each(|kind| drop(members.insert(kind, Default::default())));
        for group in groups {
            // Groups may contain each other.
            if done.contains(&group) {
                continue;
            }
            done.push(group.clone());
            // The `@` selects a group of this name. Some versions refuse it.
            let below = match info(ctx, &format!("@{group}"), true, done, &Map::new()) {
                Err(Error::Execution(_)) => info(ctx, &group, true, done, &Map::new())?,
                found => found?,
            };
            for kind in KINDS {
                let more = below.get(kind).and_then(Value::as_list).unwrap_or_default();
                members.entry(kind).or_default().extend(more.iter().map(Value::to_string));
            }
        }
    }
    found.extend(members.into_iter().map(|(kind, own)| (kind, own.into_iter().collect::<Value>())));
    Ok(found)
}

/// Reads kind, name, id and description of a group. Returns None if there is no such group.
fn head(text: &str) -> Option<Map> {
    let mut fields = Map::new();
    for line in text.split('\n') {
        if let [key, value] = line.split(':').collect::<Vec<_>>()[..] {
            fields.insert(key.trim().to_lowercase(), value.trim());
        }
    }
    let mut found = Map::new();
    let kind = if fields.contains_key("environment group") { "environment group" } else { "package group" };
    if ["environment group", "group", "name"].iter().any(|name| fields.contains_key(name)) {
        found.insert("type", kind);
    }
    let first = |names: [&str; 3]| -> Value {
        let given = names.iter().filter_map(|name| fields.get(name)).find(|value| value.truthy());
        // Salt gives the last one looked for, whatever it is.
        given.or_else(|| fields.get(names[2])).cloned().unwrap_or_default()
    };
    // The names of the fields differ between yum, dnf and dnf5.
    let (group, id) = (first(["environment group", "group", "name"]), first(["environment-id", "group-id", "id"]));
    if !group.truthy() && !id.truthy() {
        return None;
    }
    found.insert("group", group);
    found.insert("id", id);
    found.insert("description", fields.get("description").cloned().unwrap_or_else(|| "".into()));
    Some(found)
}

static TITLE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)^(mandatory|optional|default|conditional) (?:groups|packages)\s*:\s*(.*?)$";
    Regex::new(pattern).expect("the pattern is fixed")
});

/// The members of one kind. Below a title dnf and yum name one a line; dnf5 puts the first one behind the title.
fn members_of(text: &str, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.split('\n') {
        // Yum puts signs such as `+` and `-` before members that would or would not be installed.
        let line = line.trim().trim_start_matches(|c: char| c.is_ascii_punctuation()).trim();
        let member = match TITLE.captures(line) {
            Some(_) if inside => break,
            Some(title) if title[1].to_lowercase() == kind => {
                inside = true;
                title[2].trim().to_owned()
            }
            Some(_) => continue,
            None => line.to_owned(),
        };
        if inside && !member.is_empty() {
            found.push(member);
        }
    }
    found
}

/// Returns which packages of a group are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_diff 'Perl Support'
#[function]
fn group_diff(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    let installed = rpm::list(ctx, Listing::default())?;
    let group = info(ctx, &name, true, &mut Vec::new(), &kwargs.0)?;
    let mut found = Map::new();
    for kind in KINDS {
        let members = group.get(kind).and_then(Value::as_list).unwrap_or_default().iter().cloned();
        let (there, missing): (Vec<Value>, Vec<Value>) =
            members.partition(|member| installed.get_value(member).is_some());
        found.insert(kind, map! { "installed" => there, "not installed" => missing });
    }
    Ok(found)
}

/// Installs the mandatory and the default packages of groups, without those to ``skip`` and with those to ``include``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_install 'Group 1'
///     salt '*' pkg.groupinstall 'Group 1'
///     salt '*' pkg.group_install 'Group 1,Group 2' skip='foo,bar' include='baz'
#[function]
fn group_install(
    ctx: &Context,
    name: Value,
    #[default(Value::List(Vec::new()))] skip: Value,
    #[default(Value::List(Vec::new()))] include: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let words = |value: &Value, what: &str| match value {
        Value::Str(text) => Ok(text.split(',').map(str::to_owned).collect::<Vec<_>>()),
        Value::List(items) => Ok(items.iter().map(Value::to_string).collect()),
        _ => Err(Error::invocation(format!("'{what}' must be a list"))),
    };
    if !name.truthy() {
        return Err(Error::invocation("no groups specified"));
    }
    let (groups, skip, include) = (words(&name, "groups")?, words(&skip, "skip")?, words(&include, "include")?);
    let mut targets: Vec<String> = Vec::new();
    for group in groups {
        let group = info(ctx, &group, false, &mut Vec::new(), &Map::new())?;
        let members = |kind: &str| -> Vec<String> {
            group.get(kind).and_then(Value::as_list).unwrap_or_default().iter().map(Value::to_string).collect()
        };
        // Packages and not the group are installed, so that `skip` and `include` can have a say.
        targets.extend(members("mandatory"));
        targets.extend(members("default").into_iter().filter(|member| !skip.contains(member)));
    }
    targets.extend(include);
    let installed = rpm::list(ctx, Listing::default())?;
    let mut seen = std::collections::HashSet::new();
    targets.retain(|target| !installed.contains_key(target) && seen.insert(target.clone()));
    if targets.is_empty() {
        return Ok(Map::new());
    }
    let mut more = map! { "pkgs" => targets };
    more.update(kwargs.given());
    let call = exec::Call { args: Vec::new(), kwargs: more };
    Ok(ctx.call_with("pkg.install", call)?.into_map().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_both_generations_are_read() {
        let dnf = "Group: A\n Mandatory Packages:\n   a\n  +b\n Optional Packages:\n   c\n";
        assert_eq!(members_of(dnf, "mandatory"), ["a", "b"]);
        assert_eq!(members_of(dnf, "optional"), ["c"]);
        let dnf5 = "Id                   : a\nName                 : A\nMandatory packages   : a\n                     : b\n\
                    Optional packages    : c\n";
        assert_eq!(members_of(dnf5, "mandatory"), ["a", "b"]);
        assert_eq!(members_of(dnf5, "default"), Vec::<String>::new());
    }
}

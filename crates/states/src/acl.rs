//! `acl`: access control lists of files.

use std::path::Path;

use exec::{Context, Module, Result, function};
use modules::util::which;
use value::{Map, Value, map, python};

use crate::support::{call, items};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new(
    "acl",
    "Files have access control lists with certain entries.",
    &[&ABSENT, &LIST_ABSENT, &LIST_PRESENT, &PRESENT],
)
.only_if(|_| match cfg!(test) || ["getfacl", "setfacl"].iter().all(|program| which(program).is_some()) {
    true => Ok(()),
    false => Err("The linux_acl state cannot be loaded: the getfacl or setfacl binary is not in the path.".into()),
});

const AS_WISHED: &str = "Permissions are in the desired state";

/// Permissions as a number. `X` depends on whether the file can be executed by anybody.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allowed {
    octal: i64,
    executable_if: bool,
}

/// Reads `rwX`, `r-x` or a digit.
fn parse_permissions(perms: &str) -> Option<Allowed> {
    let bit = |letter| match letter {
        'r' => Some(4),
        'w' => Some(2),
        'x' | 'X' => Some(1),
        '-' => Some(0),
        // A digit only counts alone. In `rw4` it would be a mistake.
        digit => digit.to_digit(8).map(i64::from).filter(|_| perms.len() == 1),
    };
    Some(Allowed { octal: perms.chars().map(bit).sum::<Option<i64>>()?, executable_if: perms.ends_with('X') })
}

impl Allowed {
    fn is(self, octal: i64) -> bool {
        octal == self.octal
    }

    /// The same, where `X` may have left a file alone.
    fn may_be(self, octal: i64) -> bool {
        // `X` sets the bit only on directories and on files that are executable for some user.
        self.is(octal) || self.executable_if && octal == self.octal - 1
    }
}

fn letters(octal: i64) -> String {
    [(4, 'r'), (2, 'w'), (1, 'x')]
        .into_iter()
        .map(|(bit, letter)| if octal & bit == 0 { '-' } else { letter })
        .collect()
}

/// The kind of an entry, and whether it is for new files.
#[derive(Clone, Copy)]
struct Kind<'a> {
    whole: &'a str,
    plain: &'a str,
    default: bool,
}

impl<'a> Kind<'a> {
    fn new(whole: &'a str) -> Self {
        let after = whole.split_once(':').filter(|(start, _)| ["d", "default"].contains(start));
        Self { whole, plain: after.map_or(whole, |(_, plain)| plain), default: after.is_some() }
    }

    /// The entries of this kind that a file has.
    fn of<'b>(&self, file: &'b Value) -> &'b [Value] {
        let file = if self.default { file.get("defaults") } else { Some(file) };
        file.and_then(|file| file.get(self.plain)).and_then(Value::as_list).unwrap_or_default()
    }

    /// Returns whether a file can have such entries.
    fn is_known(&self, file: &Value) -> bool {
        // Every file has entries of the plain kinds, while default entries may be missing
        // altogether.
        self.default || !self.of(file).is_empty()
    }

    /// Returns the permissions of a user or group. The last entry counts.
    fn octal(&self, file: &Value, who: &str) -> Option<i64> {
        self.of(file).iter().rev().find_map(|entry| entry.get(who)?.get("octal")?.as_i64())
    }

    /// Whom an entry without a name means.
    fn who(&self, file: &Value, name: &str) -> String {
        // `getfacl` lists the owner in its comment lines, under another name than the kind.
        let key = if self.plain == "user" { "owner" } else { self.plain };
        let owner = || file.get("comment").and_then(|comment| comment.get(key)).map(Value::to_string);
        if name.is_empty() { owner().unwrap_or_default() } else { name.to_owned() }
    }
}

/// The access control lists of a file and, if requested, of its content.
struct Lists {
    all: Map,
    file: Value,
}

/// Reads the lists, or returns why there are none.
fn lists(ctx: &Context, name: &str, kwargs: Map) -> Result<std::result::Result<Lists, String>> {
    if !Path::new(name).exists() {
        return Ok(Err(format!("{name} does not exist")));
    }
    let answer = call(ctx, "acl.getfacl", args![name], kwargs)?;
    let all = answer.into_map().unwrap_or_default();
    // The program leaves out a slash at the end.
    let file = all.get(name).or_else(|| all.get(name.trim_end_matches('/'))).cloned();
    Ok(match file {
        Some(file) => Ok(Lists { all, file }),
        None => Err(format!("The access control list of {name} cannot be read")),
    })
}

/// The arguments of the state.
struct Wish<'a> {
    name: &'a str,
    kind: Kind<'a>,
    who: Vec<String>,
    perms: &'a str,
    recurse: bool,
    force: bool,
}

impl Wish<'_> {
    /// Sets the entries. The inner error is the failure in Salt's words.
    fn apply(&self, ctx: &Context, shown: &str) -> Result<std::result::Result<(), String>> {
        let how = map! { "recursive" => self.recurse, "raise_err" => true };
        let mut done = Ok(Value::Null);
        // All other entries are removed first, so `force` also means "only this one".
        if self.force {
            done = call(ctx, "acl.wipefacls", args![self.name], how.clone());
        }
        for who in &self.who {
            // The first failure stops the rest, and it is the one that is reported.
            if done.is_ok() {
                let args = args![self.kind.whole, who.as_str(), self.perms, self.name];
                done = call(ctx, "acl.modfacl", args, how.clone());
            }
        }
        Ok(match done {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("Error updating permissions for {shown}: {error}")),
        })
    }

    fn entry(&self, names: &str, perms: impl Into<Value>) -> Map {
        map! { "acl_name" => names, "acl_type" => self.kind.whole, "perms" => perms.into() }
    }
}

/// The comments of a state, before and after it sets entries.
struct Texts {
    would: String,
    done: String,
    /// The names in a failure.
    shown: String,
    changes: Map,
}

fn set(ctx: &Context, ret: Ret, wish: &Wish<'_>, texts: Texts) -> Result<Ret> {
    if ctx.is_test() {
        return Ok(ret.would(texts.would).changed(texts.changes));
    }
    Ok(match wish.apply(ctx, &texts.shown)? {
        Ok(()) => ret.ok(texts.done).changed(texts.changes),
        Err(text) => ret.fail(text),
    })
}

/// Returns whether every file below a directory has the entry; default entries apply to directories alone.
fn all_have(lists: &Lists, kind: Kind<'_>, who: &str, wanted: Allowed) -> bool {
    let concerned = lists.all.iter().filter(|(path, _)| !kind.default || Path::new(&path.to_string()).is_dir());
    let mut octals = concerned.map(|(_, file)| kind.octal(file, who));
    octals.all(|octal| octal.is_some_and(|octal| wanted.may_be(octal)))
}

fn not_permissions(ret: Ret, perms: &str) -> Ret {
    ret.fail(format!("'{perms}' are no permissions: they are made of r, w, x, X and -, or are a digit"))
}

/// Makes sure that the list of a file has an entry.
#[function]
fn present(
    ctx: &Context,
    name: String,
    acl_type: String,
    #[default("")] acl_name: String,
    #[default("")] perms: String,
    #[default(false)] recurse: bool,
    #[default(false)] force: bool,
) -> Result<Ret> {
    let (ret, kind) = (Ret::new(name.as_str()), Kind::new(&acl_type));
    let lists = match lists(ctx, &name, map! { "recursive" => recurse })? {
        Ok(lists) => lists,
        Err(text) => return Ok(ret.fail(text)),
    };
    if !kind.is_known(&lists.file) {
        return Ok(ret.fail("ACL Type does not exist"));
    }
    let Some(wanted) = parse_permissions(&perms) else { return Ok(not_permissions(ret, &perms)) };
    let who = kind.who(&lists.file, &acl_name);
    let wish = Wish { name: &name, kind, who: vec![acl_name.clone()], perms: &perms, recurse, force };
    let new = wish.entry(&acl_name, perms.as_str());
    let texts = match kind.octal(&lists.file, &who) {
        Some(octal) if if recurse { all_have(&lists, kind, &who, wanted) } else { wanted.is(octal) } => {
            return Ok(ret.ok(AS_WISHED));
        }
        Some(octal) => Texts {
            would: format!("Updated permissions will be applied for {acl_name}: {} -> {perms}", letters(octal)),
            done: format!("Updated permissions for {acl_name}"),
            changes: map! { "new" => new, "old" => wish.entry(&acl_name, letters(octal)) },
            shown: acl_name,
        },
        None => Texts {
            would: format!("New permissions will be applied for {acl_name}: {perms}"),
            done: format!("Applied new permissions for {acl_name}"),
            changes: map! { "new" => new },
            shown: acl_name,
        },
    };
    set(ctx, ret, &wish, texts)
}

/// Makes sure that the list of a file has no such entry.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    acl_type: String,
    #[default("")] acl_name: String,
    #[default("")] perms: Value,
    #[default(false)] recurse: bool,
) -> Result<Ret> {
    let _ = perms;
    let (ret, kind) = (Ret::new(name.as_str()), Kind::new(&acl_type));
    let lists = match lists(ctx, &name, map! { "recursive" => recurse })? {
        Ok(lists) => lists,
        Err(text) => return Ok(ret.fail(text)),
    };
    if !kind.is_known(&lists.file) {
        return Ok(ret.fail("ACL Type does not exist"));
    }
    let who = kind.who(&lists.file, &acl_name);
    if !lists.all.values().any(|file| kind.octal(file, &who).is_some()) {
        return Ok(ret.ok(AS_WISHED));
    }
    if ctx.is_test() {
        return Ok(ret.would("Removing permissions"));
    }
    call(ctx, "acl.delfacl", args![acl_type, acl_name, name], map! { "recursive" => recurse })?;
    Ok(ret.ok("Removing permissions"))
}

fn names(value: &Value) -> Vec<String> {
    items(value).iter().map(Value::to_string).collect()
}

/// Returns the comments for entries of several names, or None if all entries are right.
fn differences(wish: &Wish<'_>, file: &Value, wanted: Allowed) -> Option<Texts> {
    let found: Vec<Option<i64>> = wish.who.iter().map(|who| wish.kind.octal(file, who)).collect();
    // Salt reports only the last difference, because its loop overwrites the variable.
    let different = found.iter().copied().flatten().rfind(|octal| !wanted.is(*octal));
    let listed = python::repr(&wish.who.iter().map(String::as_str).collect::<Value>());
    let (joined, perms) = (wish.who.join(", "), wish.perms);
    // One missing entry makes all of them new in Salt's report.
    if found.is_empty() || found.contains(&None) {
        let would = format!("New permissions will be applied for {listed}: {perms}");
        let done = format!("Applied new permissions for {joined}");
        let changes = map! { "new" => wish.entry(&joined, perms) };
        return Some(Texts { would, done, shown: listed, changes });
    }
    // Shown as digits here and as letters by `acl.present`, as in Salt.
    let old = different?;
    Some(Texts {
        would: format!("Updated permissions will be applied for {listed}: {old} -> {perms}"),
        done: format!("Updated permissions for {listed}"),
        changes: map! {
            "new" => wish.entry(&joined, wanted.octal), "old" => wish.entry(&joined, old.to_string()),
        },
        shown: listed,
    })
}

/// Makes sure that the list of a file has entries for several names.
#[function]
fn list_present(
    ctx: &Context,
    name: String,
    acl_type: String,
    #[default(Value::Null)] acl_names: Value,
    #[default("")] perms: String,
    #[default(false)] recurse: bool,
    #[default(false)] force: bool,
) -> Result<Ret> {
    let (ret, kind) = (Ret::new(name.as_str()), Kind::new(&acl_type));
    let Some(wanted) = parse_permissions(&perms) else { return Ok(not_permissions(ret, &perms)) };
    let lists = match lists(ctx, &name, Map::new())? {
        Ok(lists) => lists,
        Err(text) => return Ok(ret.fail(text)),
    };
    if !kind.is_known(&lists.file) {
        return Ok(ret.fail("ACL Type does not exist"));
    }
    let wish = Wish { name: &name, kind, who: names(&acl_names), perms: &perms, recurse, force };
    match differences(&wish, &lists.file, wanted) {
        Some(texts) => set(ctx, ret, &wish, texts),
        None => Ok(ret.ok(AS_WISHED)),
    }
}

/// Makes sure that the list of a file has no entries for several names.
#[function]
fn list_absent(
    ctx: &Context,
    name: String,
    acl_type: String,
    #[default(Value::Null)] acl_names: Value,
    #[default(false)] recurse: bool,
) -> Result<Ret> {
    let (ret, kind) = (Ret::new(name.as_str()), Kind::new(&acl_type));
    let lists = match lists(ctx, &name, Map::new())? {
        Ok(lists) => lists,
        Err(text) => return Ok(ret.fail(text)),
    };
    if !kind.is_known(&lists.file) {
        return Ok(ret.fail("ACL Type does not exist"));
    }
    let names = names(&acl_names);
    if !names.iter().any(|who| kind.octal(&lists.file, who).is_some()) {
        return Ok(ret.ok(AS_WISHED));
    }
    if ctx.is_test() {
        return Ok(ret.would("Removing permissions"));
    }
    for who in names {
        let args = args![acl_type.as_str(), who, name.as_str()];
        call(ctx, "acl.delfacl", args, map! { "recursive" => recurse })?;
    }
    Ok(ret.ok("Removing permissions"))
}

//! `acl` — access control lists of files, read with `getfacl` and changed with `setfacl`.

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, list, map};

use crate::util;

/// Registers the functions of `acl`.
pub static MODULE: Module = Module::new(
    "acl",
    "Functions that look at the access control lists of files and change them.",
    &[&DELFACL, &GETFACL, &MODFACL, &VERSION, &WIPEFACLS],
)
.only_if(|_| match util::which("getfacl") {
    Some(_) => Ok(()),
    None => Err("The linux_acl execution module cannot be loaded: the getfacl binary is not in the path.".into()),
});

/// Builds the command line: the options first, then the quoted files.
fn command(options: &[&str], files: &VarArgs) -> Result<String> {
    if files.0.is_empty() {
        return Err(Error::execution("You need to specify at least one file or directory to work with!"));
    }
    // The command reaches `cmd.run` as one line, which is split by shell rules; unquoted, a path with a space would be
    // two files.
    let quoted = |file: &Value| format!("\"{}\"", file.to_string().replace('\\', "\\\\").replace('"', "\\\""));
    let words = options.iter().map(|word| (*word).to_owned()).chain(files.0.iter().map(quoted));
    Ok(words.collect::<Vec<_>>().join(" "))
}

fn run(ctx: &Context, command: String, mut kwargs: Map) -> Result<String> {
    // The paths come from the caller: a shell would run what it finds between backticks or after a semicolon.
    kwargs.insert("python_shell", false);
    let said = ctx.call_with("cmd.run", Call { args: vec![command.into()], kwargs })?;
    Ok(said.to_string())
}

fn flag(given: &Map, name: &str) -> bool {
    given.get(name).is_some_and(Value::truthy)
}

/// Builds the kind and name of an entry in the form of `setfacl`, such as `d:u:alice`.
fn entry(kind: &str, name: &Value) -> String {
    let (default, kind) = match kind.starts_with('d') {
        // Salt strips the prefix anywhere in the word, not only at the start.
        true => ("d:", kind.replace("default:", "").replace("d:", "")),
        false => ("", kind.to_owned()),
    };
    let short = match kind.as_str() {
        "user" | "u" => "u",
        "group" | "g" => "g",
        "mask" | "m" => "m",
        // An unknown kind leaves the field empty, as in Salt; `setfacl` judges the entry.
        _ => "",
    };
    format!("{default}{short}:{name}")
}

/// One line of `getfacl`, such as `default:user:alice:rw-`. Default entries apply to files created in a directory.
struct Rule<'a> {
    default: bool,
    kind: &'a str,
    name: &'a str,
    allowed: Map,
}

fn rule(line: &str) -> Option<Rule<'_>> {
    let mut parts: Vec<&str> = line.split(':').collect();
    let default = parts.first() == Some(&"default");
    // Lines for new files have a field more than the others.
    if default {
        parts.remove(0);
    }
    // After a mask that restricts an entry, the last part is the effective one: "rw-\t#effective:r--".
    let (&[kind, name, ..], &letters) = (&parts[..], parts.last()?) else { return None };
    let may = |letter: char| letters.contains(letter);
    let octal = [('r', 4), ('w', 2), ('x', 1)].into_iter().filter(|(letter, _)| may(*letter)).map(|(_, bit)| bit);
    let allowed = map! {
        "permissions" => map! { "read" => may('r'), "write" => may('w'), "execute" => may('x') },
        "octal" => octal.sum::<i64>(),
    };
    Some(Rule { default, kind, name, allowed })
}

fn part<'a>(file: &'a mut Map, name: &str) -> &'a mut Map {
    let part = file.entry_or_insert_with(name, || Map::new().into());
    part.as_map_mut().expect("only maps are kept under this name")
}

/// Adds a rule to a file, or to the defaults of a directory.
fn add(file: &mut Map, rule: Rule<'_>) {
    // `user::rwx` has no name: it is the owner's entry, and Salt lists it under the owner's name from the header.
    let owner = file.get("comment").and_then(|comment| comment.get(owner_key(rule.kind))).cloned();
    let name = match rule.name {
        "" => owner.unwrap_or_else(|| "".into()),
        name => name.into(),
    };
    let place = if rule.default { part(file, "defaults") } else { file };
    let item = [(name, rule.allowed)].into_iter().collect::<Map>();
    match (rule.kind, place.get_mut(rule.kind)) {
        // Only users and groups can have several entries; `mask` and `other` have one, and the last line counts.
        ("user" | "group", Some(Value::List(items))) => items.push(item.into()),
        _ => {
            place.insert(rule.kind, list![item]);
        }
    }
}

/// Returns which header line names the user or group of an entry without a name.
fn owner_key(kind: &str) -> &str {
    if kind == "user" { "owner" } else { kind }
}

/// Takes in a header line such as `# owner: root` or `# flags: s-t`.
fn remark(file: &mut Map, name: &str, text: &str) {
    part(file, "comment").insert(name, text);
    if name == "flags" {
        // getfacl prints the three flags in fixed columns, with a dash for one that is not set.
        let bits = [("suid", 's'), ("sgid", 's'), ("sticky", 't')];
        let set = bits.into_iter().zip(text.chars()).filter(|((_, letter), shown)| letter == shown);
        file.extend(set.map(|((name, _), _)| (name, true)));
    }
}

/// Reads the output of `getfacl` into a map by file.
fn parsed(text: &str) -> Map {
    let (mut files, mut path) = (Map::new(), "");
    // stderr arrives in the same text: warnings of `getfacl` begin with its name.
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("getfacl")) {
        // Split at a colon with a space: the path of a file may hold colons itself.
        let said = line.strip_prefix("# ").and_then(|remark| remark.split_once(": "));
        if let Some(("file", name)) = said {
            path = name;
            files.insert(path, map! { "comment" => Map::new(), "user" => list![], "group" => list![] });
        }
        let Some(file) = files.get_mut(path).and_then(Value::as_map_mut) else { continue };
        match (said, rule(line)) {
            (Some((name, text)), _) => remark(file, name, text),
            (None, Some(rule)) => add(file, rule),
            (None, None) => {}
        }
    }
    files
}

/// Returns the version of ``getfacl``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' acl.version
#[function]
fn version(ctx: &Context) -> Result<String> {
    let said = ctx.call_with("cmd.run", Call { args: vec!["getfacl --version".into()], kwargs: Map::new() })?;
    let said = said.to_string();
    let word = said.lines().next().and_then(|line| line.split_whitespace().nth(1));
    word.map(str::to_owned).ok_or_else(|| Error::execution(format!("failed to read the version in '{said}'")))
}

/// Returns owner, flags and access control lists of files; with ``recursive`` also of their contents.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' acl.getfacl /tmp/house/kitchen
///     salt '*' acl.getfacl /tmp/house/kitchen /tmp/house/livingroom recursive=True
#[function]
fn getfacl(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let recursive = flag(&kwargs.given(), "recursive");
    let options = ["getfacl", "--absolute-names", "-R"];
    let said = run(ctx, command(&options[..2 + usize::from(recursive)], &args)?, Map::new())?;
    Ok(parsed(&said))
}

/// Removes all entries from files, except those of owner, group and others; with ``recursive`` also from their
/// contents.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' acl.wipefacls /tmp/house/kitchen
///     salt '*' acl.wipefacls /tmp/house/kitchen /tmp/house/livingroom recursive=True
#[function]
fn wipefacls(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<bool> {
    let recursive = flag(&kwargs.given(), "recursive");
    let options = ["setfacl", "-b", "-R"];
    run(ctx, command(&options[..2 + usize::from(recursive)], &args)?, Map::new())?;
    Ok(true)
}

/// Builds the words that precede the files: the program, its option, and the entry it applies to.
fn change<'a>(given: &Map, option: &'a str, entry: &'a str) -> Vec<&'a str> {
    let recursive: &[&str] = if flag(given, "recursive") { &["-R"] } else { &[] };
    [&["setfacl"], recursive, &[option, entry]].concat()
}

/// Adds an entry to files, or changes it; with ``recursive`` also in their contents; with ``raise_err`` it fails when
/// ``setfacl`` does.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' acl.modfacl user myuser rwx /tmp/house/kitchen
///     salt '*' acl.modfacl default:group mygroup rx /tmp/house/kitchen
///     salt '*' acl.modfacl d:u myuser 7 /tmp/house/kitchen
///     salt '*' acl.modfacl g mygroup 0 /tmp/house/kitchen /tmp/house/livingroom recursive=True
#[function]
fn modfacl(
    ctx: &Context,
    acl_type: String,
    #[default("")] acl_name: Value,
    #[default("")] perms: Value,
    args: VarArgs,
    kwargs: KwArgs,
) -> Result<bool> {
    let given = kwargs.given();
    let entry = format!("{}:{perms}", entry(&acl_type, &acl_name));
    let command = command(&change(&given, "-m", &entry), &args)?;
    let strict = given.get("raise_err").cloned().unwrap_or(false.into());
    run(ctx, command, map! { "raise_err" => strict })?;
    Ok(true)
}

/// Removes an entry from files; with ``recursive`` also from their contents.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' acl.delfacl user myuser /tmp/house/kitchen
///     salt '*' acl.delfacl default:group mygroup /tmp/house/kitchen
///     salt '*' acl.delfacl user myuser /tmp/house/kitchen recursive=True
#[function]
fn delfacl(
    ctx: &Context,
    acl_type: String,
    #[default("")] acl_name: Value,
    args: VarArgs,
    kwargs: KwArgs,
) -> Result<bool> {
    let entry = entry(&acl_type, &acl_name);
    let command = command(&change(&kwargs.given(), "-x", &entry), &args)?;
    run(ctx, command, Map::new())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_quoted_and_asked_for() {
        let files = |names: &[&str]| VarArgs(names.iter().map(|name| Value::from(*name)).collect());
        assert_eq!(command(&["x"], &files(&["/a b", r#"/c"\d"#])).unwrap(), r#"x "/a b" "/c\"\\d""#);
        assert!(command(&["x"], &files(&[])).unwrap_err().to_string().contains("at least one file"));
    }

    #[test]
    fn a_path_may_hold_a_colon_and_a_mask_takes_away() {
        // The mask takes the right to write away from `al`; the effective rights are those that count.
        let text = "# file: /a: b\n# owner: root\n# group: wheel\nuser::rwx\nuser:al:rw-\t#effective:r--\ngroup::---\n";
        let files = parsed(text);
        let file = files.get("/a: b").unwrap();
        let octal = |kind: &str, place: usize, name: &str| {
            file.get(kind).unwrap().as_list().unwrap()[place].get(name).unwrap().get("octal").unwrap().as_i64()
        };
        assert_eq!([octal("user", 0, "root"), octal("user", 1, "al")], [Some(7), Some(4)]);
        assert_eq!(octal("group", 0, "wheel"), Some(0));
        assert!(parsed("user::rwx\n# odd\n").is_empty());
    }
}

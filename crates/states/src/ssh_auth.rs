//! `ssh_auth`: keys users may sign in with.

use exec::{Context, KwArgs, Module, Result, function};
use modules::ssh::KeyFileError;
use modules::ssh::keys::LINE;
use value::{Map, Value, map};

use crate::support::{call, saltenv};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("ssh_auth", "Keys users may sign in with.", &[&ABSENT, &MANAGE, &PRESENT]);

/// A key and where it belongs.
#[derive(Clone)]
struct Wish {
    name: String,
    user: String,
    enc: String,
    comment: Value,
    source: String,
    options: Value,
    config: String,
    hash: Value,
}

/// The two ways to read the remark behind a key.
#[derive(Clone, Copy, PartialEq)]
enum Remark {
    /// All words.
    Whole,
    /// Only a single word.
    Word,
}

impl Wish {
    /// Splits a name that is a whole line into type, key, comment and options.
    fn read_name(&mut self, remark: Remark) {
        let name = self.name.clone();
        let parts: Vec<&str> = match LINE.captures(&name) {
            // No type in front: the line is a key, maybe with a comment, and its type comes from
            // `enc`.
            None => {
                let mut parts = vec![self.enc.as_str()];
                parts.extend(words(&name, 2, remark));
                return self.take(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
            }
            Some(found) => {
                let options = found.get(1).map_or("", |part| part.as_str());
                // Options in the line replace those of the argument.
                if !options.is_empty() {
                    self.options = options.split(',').collect();
                }
                words(found.get(2).map_or("", |part| part.as_str()), 3, remark)
            }
        };
        let parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
        self.take(&parts);
    }

    /// Takes kind, key and remark.
    fn take(&mut self, parts: &[String]) {
        // Nothing is taken from a line that is too short, and the key is then refused as invalid.
        if let [enc, key, ..] = parts {
            self.enc = enc.clone();
            self.name = key.clone();
        }
        // With more words the comment is dropped. This happens where Salt splits at every blank.
        if let [_, _, comment] = parts {
            self.comment = comment.as_str().into();
        }
    }

    fn common(&self) -> Map {
        map! { "config" => self.config.as_str(), "fingerprint_hash_type" => self.hash.clone() }
    }

    fn with_env(&self, ctx: &Context) -> Map {
        map! { "saltenv" => saltenv(ctx), "fingerprint_hash_type" => self.hash.clone() }
    }

    fn list(&self) -> Value {
        if self.options.truthy() { self.options.clone() } else { Value::List(Vec::new()) }
    }

    fn check_file(&self, ctx: &Context) -> Result<Map> {
        let args = args![self.user.as_str(), self.source.as_str(), self.config.as_str()];
        let found = call(ctx, "ssh.check_key_file", args, self.with_env(ctx))?;
        Ok(found.into_map().unwrap_or_default())
    }

    fn check(&self, ctx: &Context) -> Result<Value> {
        let args = args![self.user.as_str(), self.name.as_str(), self.enc.as_str(), self.comment.clone(), self.list()];
        call(ctx, "ssh.check_key", args, self.common())
    }

    /// Returns whether the source can be fetched.
    // The file is fetched here already, although only its existence matters.
    fn has_source(&self, ctx: &Context) -> Result<bool> {
        let kwargs = map! { "saltenv" => saltenv(ctx) };
        Ok(call(ctx, "cp.get_url", args![self.source.as_str(), Value::Null], kwargs)?.truthy())
    }
}

/// Splits a line into words: at most that number, the last one with all that follows, or all of them.
fn words(text: &str, most: usize, remark: Remark) -> Vec<&str> {
    if remark == Remark::Word {
        return text.split_whitespace().collect();
    }
    let mut rest = text.trim_start();
    let mut found = Vec::new();
    while found.len() + 1 < most && !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    if !rest.is_empty() {
        found.push(rest.trim_end_matches('\n'));
    }
    found
}

/// Returns the reason why keys of a file could not be used, if it was recorded.
fn noted(ctx: &Context) -> Option<String> {
    ctx.memo.get::<KeyFileError>().0.lock().expect("no one panics holding this").take()
}

/// Makes sure that a key, or those of a file, are authorized for a user.
#[function]
fn present(
    ctx: &Context,
    name: String,
    user: String,
    #[default("ssh-rsa")] enc: String,
    #[default("")] comment: Value,
    #[default("")] source: String,
    #[default(Value::Null)] options: Value,
    #[default(".ssh/authorized_keys")] config: String,
    #[default(Value::Null)] fingerprint_hash_type: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    set(ctx, Wish { name, user, enc, comment, source, options, config, hash: fingerprint_hash_type })
}

fn set(ctx: &Context, mut wish: Wish) -> Result<Ret> {
    let ret = Ret::new(wish.name.as_str());
    if wish.source.is_empty() {
        wish.read_name(Remark::Whole);
    }
    if ctx.is_test() {
        return would_set(ctx, wish, ret);
    }
    let data = if wish.source.is_empty() {
        let mut kwargs = wish.common();
        kwargs.update(map! { "enc" => wish.enc.as_str(), "comment" => wish.comment.clone(), "options" => wish.list() });
        call(ctx, "ssh.set_auth_key", args![wish.user.as_str(), wish.name.as_str()], kwargs)?
    } else if wish.has_source(ctx)? {
        let mut kwargs = wish.with_env(ctx);
        kwargs.update(map! { "config" => wish.config.as_str(), "options" => wish.options.clone() });
        call(ctx, "ssh.set_auth_key_from_file", args![wish.user.as_str(), wish.source.as_str()], kwargs)?
    } else {
        "no key".into()
    };
    let key = format!("The authorized host key {} ", wish.name);
    let user = &wish.user;
    Ok(match data.as_str() {
        Some("replace") => {
            ret.ok(format!("{key}for user {user} was updated")).changed(map! { wish.name.as_str() => "Updated" })
        }
        Some("no change") => ret.ok(format!("{key}is already present for user {user}")),
        Some("new") => ret.ok(format!("{key}for user {user} was added")).changed(map! { wish.name.as_str() => "New" }),
        Some("no key") => ret.fail(format!("Failed to add the ssh key. Source file {} is missing", wish.source)),
        // The execution function has more details than its answer, and leaves them in the run's memory.
        Some("fail") => {
            let text = "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?";
            ret.fail(noted(ctx).unwrap_or_else(|| text.to_owned()))
        }
        Some("invalid" | "Invalid public key") => {
            ret.fail("Invalid public ssh key, most likely has spaces or invalid syntax")
        }
        // An unknown answer counts as success without a word, as in Salt.
        _ => ret.ok(""),
    })
}

/// Finishes a test run for the keys of a file.
fn of_file(ctx: &Context, wish: &Wish, ret: Ret, fine: &str, line: fn(&Value, &str) -> String) -> Result<Ret> {
    let mut text = String::new();
    for (key, status) in &wish.check_file(ctx)? {
        let status = status.to_string();
        if status != fine {
            text.push_str(&line(key, &status));
        }
    }
    if !text.is_empty() {
        return Ok(ret.would(text));
    }
    let done = if fine == "exists" { "present" } else { "absent" };
    Ok(match noted(ctx) {
        Some(error) => ret.fail(error),
        None => ret.ok(format!("All host keys in file {} are already {done}", wish.source)),
    })
}

fn would_set(ctx: &Context, mut wish: Wish, ret: Ret) -> Result<Ret> {
    if !wish.source.is_empty() {
        return of_file(ctx, &wish, ret, "exists", |key, status| format!("Set to {status}: {key}\n"));
    }
    // Read a second time. In test mode Salt splits at blanks, so a comment of several words looks
    // different.
    wish.read_name(Remark::Word);
    let (name, user) = (wish.name.clone(), wish.user.clone());
    Ok(match wish.check(ctx)?.as_str() {
        Some("update") => ret.would(format!("Key {name} for user {user} is set to be updated")),
        Some("add") => ret.would(format!("Key {name} for user {user} is set to be added")),
        Some("exists") => ret.ok(format!("The authorized host key {name} is already present for user {user}")),
        // Salt's fallback shows the comment of the key.
        _ => ret.would(wish.comment),
    })
}

/// Makes sure that a key, or those of a file, are not authorized for a user.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    user: String,
    #[default("ssh-rsa")] enc: String,
    #[default("")] comment: Value,
    #[default("")] source: String,
    #[default(Value::Null)] options: Value,
    #[default(".ssh/authorized_keys")] config: String,
    #[default(Value::Null)] fingerprint_hash_type: Value,
) -> Result<Ret> {
    remove(ctx, Wish { name, user, enc, comment, source, options, config, hash: fingerprint_hash_type })
}

fn remove(ctx: &Context, mut wish: Wish) -> Result<Ret> {
    let ret = Ret::new(wish.name.as_str()).ok("");
    if ctx.is_test() && !wish.source.is_empty() {
        return of_file(ctx, &wish, ret, "add", |key, _| format!("Set to remove: {key}\n"));
    }
    if ctx.is_test() {
        wish.read_name(Remark::Word);
        return Ok(match wish.check(ctx)?.as_str() {
            Some("update" | "exists") => {
                ret.would(format!("Key {} for user {} is set for removal", wish.name, wish.user))
            }
            _ => ret.ok("Key is already absent"),
        });
    }
    let said = if wish.source.is_empty() {
        wish.read_name(Remark::Word);
        call(ctx, "ssh.rm_auth_key", args![wish.user.as_str(), wish.name.as_str()], wish.common())?
    } else if wish.has_source(ctx)? {
        let args = args![wish.user.as_str(), wish.source.as_str(), wish.config.as_str()];
        call(ctx, "ssh.rm_auth_key_from_file", args, wish.with_env(ctx))?
    } else {
        // Without the file there is nothing that could be removed.
        return Ok(ret);
    };
    Ok(match said.as_str() {
        Some("User authorized keys file not present") => ret.fail(said),
        Some("Key removed") => ret.ok(said).changed(map! { wish.name.as_str() => "Removed" }),
        _ => ret.ok(said),
    })
}

/// Makes sure that these keys, and no others, are authorized for a user.
#[function]
fn manage(
    ctx: &Context,
    name: String,
    ssh_keys: Vec<String>,
    user: String,
    #[default("ssh-rsa")] enc: String,
    #[default("")] comment: Value,
    #[default("")] source: String,
    #[default(Value::Null)] options: Value,
    #[default(".ssh/authorized_keys")] config: String,
    #[default(Value::Null)] fingerprint_hash_type: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (name, kwargs);
    let wish = Wish { name: String::new(), user, enc, comment, source, options, config, hash: fingerprint_hash_type };
    let mut ret = Ret::new("").ok("");
    let mut comment = String::new();
    let mut kwargs = wish.common();
    kwargs.insert("user", wish.user.as_str());
    let there = call(ctx, "ssh.auth_keys", args![], kwargs)?.into_map().unwrap_or_default();
    // Every word of a line is taken, so the key is found wherever it stands. A word of a comment
    // could match by accident.
    let wanted: Vec<&str> = ssh_keys.iter().flat_map(|key| key.split(' ')).collect();
    for key in there.text_keys().filter(|key| !wanted.contains(key)) {
        if ctx.is_test() {
            comment = format!("{key} Key set for removal");
            ret.result = None;
        } else {
            let done = remove(ctx, Wish { name: key.to_owned(), ..wish.clone() })?;
            ret.changes.insert(key, done.comment);
        }
    }
    for key in ssh_keys {
        let done = set(ctx, Wish { name: key, ..wish.clone() })?;
        if done.changes.is_empty() {
            comment = format!("{comment}\n{}", done.comment).trim().to_owned();
        }
        ret.changes.update(done.changes);
        // A later key that succeeds does not undo a failure before it.
        match done.result {
            Some(true) => {}
            other => ret.result = other,
        }
    }
    Ok(Ret { comment: comment.into(), ..ret })
}

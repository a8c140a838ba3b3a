//! Making an account.

use exec::{Context, Result};
use value::{Map, Value, map};

use super::changes::{AGEING, Wish};
use super::{HIDDEN, field, info, shadow};
use crate::support::{call, equal, has, items, over};
use crate::{Ret, args};

/// Makes the account, and sets what cannot be given at once.
pub fn account(ctx: &Context, wish: &Wish, more: &Map, ret: Ret) -> Result<Ret> {
    let name = wish.name.as_str();
    let mut groups = wish.groups.clone();
    if wish.optional_groups.truthy() {
        // Optional groups that do not exist were dropped before.
        groups = [items(&wish.groups), items(&wish.optional_groups)].concat().into();
    }
    let own = map! {
        "name" => name,
        "uid" => wish.uid.clone(),
        "gid" => wish.gid.clone(),
        "groups" => groups,
        "home" => wish.home.clone(),
        "shell" => wish.shell.clone(),
        "createhome" => wish.createhome,
        "local" => wish.local.clone(),
    };
    let result = call(ctx, "user.add", args![], over(over(own, more), &wish.person))?;
    if result != Value::Bool(true) {
        // `user.add` returns a text when it knows the reason.
        let text = result.as_str().map_or(format!("Failed to create new user {name}"), str::to_owned);
        return Ok(ret.fail(text));
    }
    let mut ret = ret.ok(format!("New user {name} created")).changed(info(ctx, name, &wish.local)?);
    // The account has a home in its entry, but no directory was made. Salt shows that as an empty
    // text.
    if !wish.createhome {
        ret.changes.insert("home", "");
    }
    if has(ctx, "shadow.info") {
        secrets(ctx, wish, &mut ret)?;
    }
    Ok(ret)
}

fn secrets(ctx: &Context, wish: &Wish, ret: &mut Ret) -> Result<()> {
    let name = wish.name.as_str();
    let failed = |ret: &mut Ret, what: String| {
        ret.result = Some(false);
        ret.comment = format!("User {name} created but failed to {what}").into();
    };
    if wish.password.truthy() && !wish.empty_password {
        call(ctx, "shadow.set_password", args![name, wish.password.clone()], Map::new())?;
        // Read back, because some tools accept a hash they do not store.
        if field(&shadow(ctx, name)?, "passwd") != wish.password {
            failed(ret, format!("set password to {HIDDEN}"));
        }
        // Reported even if it failed, as in Salt. The account itself stays.
        ret.changes.insert("password", HIDDEN);
    }
    if wish.empty_password && !wish.password.truthy() {
        call(ctx, "shadow.del_password", args![name], Map::new())?;
        if field(&shadow(ctx, name)?, "passwd").as_str() != Some("") {
            failed(ret, "empty password".into());
        }
        ret.changes.insert("password", "");
    }
    for (key, stored) in AGEING {
        let wanted = field(&wish.ageing, key);
        // On a new account only `date` may be 0, which forces a change at the first login.
        let asked = if key == "date" { !wanted.is_null() } else { wanted.truthy() };
        if !asked {
            continue;
        }
        call(ctx, &format!("shadow.set_{key}"), args![name, wanted.clone()], Map::new())?;
        if !equal(&field(&shadow(ctx, name)?, stored), &wanted) {
            failed(ret, format!("set {} to {wanted}", in_words(key)));
        }
        ret.changes.insert(key, wanted);
    }
    Ok(())
}

fn in_words(key: &str) -> &'static str {
    match key {
        "date" => "last change date",
        "mindays" => "minimum days",
        "maxdays" => "maximum days",
        "inactdays" => "inactive days",
        "warndays" => "warn days",
        _ => "expire days",
    }
}

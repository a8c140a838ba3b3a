//! SELinux contexts of files.

use exec::{Call, Context, Error, Result, function};
use value::{Value, map};

use crate::subprocess;

/// Sets the SELinux context of a path to the default of the policy.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.restorecon /home/user/.ssh/authorized_keys
#[function]
pub fn restorecon(ctx: &Context, path: String, #[default(false)] recursive: bool) -> Result<bool> {
    // `-F` resets user and range too, not only the type.
    let flag = if recursive { "-FR" } else { "-F" };
    Ok(subprocess::quiet(ctx, &["restorecon", flag, &path])?.retcode == Some(0))
}

/// Returns the SELinux context of a path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_selinux_context /etc/hosts
#[function]
pub fn get_selinux_context(ctx: &Context, path: String) -> Result<String> {
    context_of(ctx, &path)
}

fn context_of(ctx: &Context, path: &str) -> Result<String> {
    let said = subprocess::quiet(ctx, &["stat", "-c", "%C", path])?;
    Ok(match said.retcode {
        Some(0) => said.stdout.trim_end().to_owned(),
        code => {
            ctx.set_retcode(code.unwrap_or(1));
            // Salt returns this text in place of a context; callers notice that it has no four parts.
            format!("No selinux context information is available for {path}")
        }
    })
}

/// Sets parts of the SELinux context of a path and returns the context; False where that fails. ``persist`` also adds
/// it to the policy.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.set_selinux_context path <user> <role> <type> <range>
#[function]
pub fn set_selinux_context(
    ctx: &Context,
    path: String,
    user: Option<String>,
    role: Option<String>,
    r#type: Option<String>,
    range: Option<String>,
    #[default(false)] persist: bool,
) -> Result<Value> {
    let parts = Selinux { user, role, kind: r#type, range };
    set(ctx, &path, &parts, persist)
}

fn set(ctx: &Context, path: &str, parts: &Selinux, persist: bool) -> Result<Value> {
    if !parts.is_wanted() {
        return Ok(Value::Bool(false));
    }
    // The policy first: the next restorecon would undo a context that is set on the file alone.
    if persist {
        let kwargs = map! {
            "sel_type" => parts.kind.clone(), "sel_user" => parts.user.clone(), "sel_level" => parts.range.clone(),
        };
        let call = Call { args: vec![path.into()], kwargs };
        let done = ctx.call_with("selinux.fcontext_add_policy", call)?;
        if done.get("retcode").and_then(Value::as_i64) != Some(0) {
            return Err(Error::execution(format!("Problem setting fcontext: {done}")));
        }
    }
    let mut words = vec!["chcon"];
    for (flag, part) in [("-u", &parts.user), ("-r", &parts.role), ("-t", &parts.kind), ("-l", &parts.range)] {
        words.extend(part.iter().flat_map(|part| [flag, part.as_str()]));
    }
    words.push(path);
    match subprocess::quiet(ctx, &words)?.retcode {
        Some(0) => context_of(ctx, path).map(Value::from),
        _ => Ok(Value::Bool(false)),
    }
}

/// The parts of an SELinux context that are wanted, or that a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selinux {
    /// The user.
    pub user: Option<String>,
    /// The role.
    pub role: Option<String>,
    /// The type.
    pub kind: Option<String>,
    /// The range.
    pub range: Option<String>,
}

impl Selinux {
    /// Returns whether anything is wanted.
    pub fn is_wanted(&self) -> bool {
        [&self.user, &self.role, &self.kind, &self.range]
            .into_iter()
            .any(|part| part.as_ref().is_some_and(|part| !part.is_empty()))
    }

    fn parts(&self) -> [(&'static str, &Option<String>); 4] {
        [("User", &self.user), ("Role", &self.role), ("Type", &self.kind), ("Range", &self.range)]
    }

    /// Returns the parts that are wanted and differ.
    pub fn lacking(&self, has: &Selinux) -> Selinux {
        let part = |wanted: &Option<String>, has: &Option<String>| {
            wanted.clone().filter(|wanted| !wanted.is_empty() && Some(wanted) != has.as_ref())
        };
        Selinux {
            user: part(&self.user, &has.user),
            role: part(&self.role, &has.role),
            kind: part(&self.kind, &has.kind),
            range: part(&self.range, &has.range),
        }
    }

    /// Shows those parts of `values` that `self` has: `User: x Role: y`.
    fn parts_text(&self, values: &Selinux) -> String {
        let chosen = self.parts().into_iter().zip(values.parts()).filter(|((_, wanted), _)| wanted.is_some());
        let words: Vec<String> =
            chosen.map(|((name, _), (_, value))| format!("{name}: {}", value.as_deref().unwrap_or_default())).collect();
        words.join(" ")
    }

    /// Reads `user:role:type:range`.
    fn parse(text: &str) -> Option<Self> {
        // Ranges with categories have a fifth part and are not understood, as in Salt.
        let [user, role, kind, range] = text.split(':').collect::<Vec<_>>()[..] else { return None };
        let part = |text: &str| Some(text.to_owned());
        Some(Selinux { user: part(user), role: part(role), kind: part(kind), range: part(range) })
    }

    /// Returns the context a path has, if it has one of four parts.
    pub fn of(ctx: &Context, path: &str) -> Result<Option<Self>> {
        Ok(Selinux::parse(&context_of(ctx, path)?))
    }
}

/// The result of setting a context.
pub enum Outcome {
    /// The file has it already.
    Right,
    /// Reading or setting the context failed; with Salt's message.
    Failed(&'static str),
    /// The context was set, or would be in test mode.
    Changed {
        /// The changes.
        changes: Value,
        /// The parts that could not be set.
        wrong: Vec<String>,
    },
}

/// Brings the context of a path into the wanted state.
pub fn enforce(ctx: &Context, path: &str, wanted: &Selinux) -> Result<Outcome> {
    let Some(current) = Selinux::of(ctx, path)? else {
        return Ok(Outcome::Failed("Failed to get selinux attributes"));
    };
    let mut lacking = wanted.lacking(&current);
    if !lacking.is_wanted() {
        return Ok(Outcome::Right);
    }
    let changes = Value::from(map! { "Old" => lacking.parts_text(&current), "New" => lacking.parts_text(&lacking) });
    if ctx.is_test() {
        return Ok(Outcome::Changed { changes, wrong: Vec::new() });
    }
    // The policy can only be changed together with a type.
    if lacking.kind.is_none() {
        lacking.kind = current.kind.clone();
    }
    let now = set(ctx, path, &lacking, true)?;
    let Some(now) = now.as_str().and_then(Selinux::parse) else {
        return Ok(Outcome::Failed("Failed to set selinux attributes"));
    };
    // Read back, since chcon may set one part and not another.
    let missed = lacking.lacking(&now);
    let names = ["seuser", "serole", "setype", "serange"].into_iter().zip(missed.parts());
    let wrong =
        names.filter(|(_, (_, part))| part.is_some()).map(|(name, _)| format!("Unable to update {name} context"));
    Ok(Outcome::Changed { changes, wrong: wrong.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_is_found_and_shown() {
        let has = Selinux::parse("system_u:object_r:etc_t:s0").unwrap();
        let wanted = Selinux { kind: Some("tmp_t".into()), user: Some("system_u".into()), ..Selinux::default() };
        let lacking = wanted.lacking(&has);
        assert_eq!(lacking, Selinux { kind: Some("tmp_t".into()), ..Selinux::default() });
        assert_eq!(
            (lacking.parts_text(&has).as_str(), lacking.parts_text(&lacking).as_str()),
            ("Type: etc_t", "Type: tmp_t")
        );
        assert_eq!(Selinux::parse("?"), None);
    }
}

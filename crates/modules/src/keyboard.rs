//! `keyboard` — the keyboard layouts of the console and of X.

use exec::{Call, Context, Error, Module, Result, function};
use value::map;

/// Registers the functions of `keyboard`.
pub static MODULE: Module = Module::new(
    "keyboard",
    "Functions that look at the layout of the keyboard, and set it.",
    &[&GET_SYS, &GET_X, &SET_SYS, &SET_X],
)
.only_if(|grains| {
    let family = grains.get_str("os_family").is_some_and(|family| ["RedHat", "Debian", "Gentoo"].contains(&family));
    match family || crate::util::which("localectl").is_some() {
        true => Ok(()),
        false => Err("The keyboard exeuction module cannot be loaded: only works on Redhat, Debian or Gentoo systems \
                      or if localectl binary in path."
            .into()),
    }
});

/// Returns the file with the layout on systems without localectl, and the key of its line.
fn file(ctx: &Context) -> Result<(&'static str, &'static str)> {
    match ctx.grains.get_str("os_family") {
        Some("RedHat") => Ok(("/etc/sysconfig/keyboard", "LAYOUT")),
        Some("Debian") => Ok(("/etc/default/keyboard", "XKBLAYOUT")),
        Some("Gentoo") => Ok(("/etc/conf.d/keymaps", "keymap")),
        _ => Err(Error::execution("the keyboard of this system is set nowhere that is known")),
    }
}

fn has_localectl(ctx: &Context) -> bool {
    crate::util::program(ctx, "localectl").is_some()
}

fn shell(ctx: &Context, command: &str) -> Result<String> {
    let call = Call { args: vec![command.into()], kwargs: map! { "python_shell" => true } };
    Ok(ctx.call_with("cmd.run", call)?.to_string())
}

/// Returns the text between the first separator and the next.
fn behind(text: &str, sign: char) -> Result<&str> {
    text.split(sign).nth(1).ok_or_else(|| Error::execution(format!("no layout of a keyboard was found: {text}")))
}

/// Returns the layout of the console's keyboard.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' keyboard.get_sys
#[function]
fn get_sys(ctx: &Context) -> Result<String> {
    let command = match has_localectl(ctx) {
        // The command is Salt's, since its exit code becomes that of the job.
        true => "localectl | grep Keymap | sed -e\"s/: /=/\" -e\"s/^[ \t]*//\"".to_owned(),
        false => {
            let (path, key) = file(ctx)?;
            // Gentoo's file has comments with the word in them.
            let key = if key == "keymap" { "\"^keymap\"" } else { key };
            format!("grep {key} {path} | grep -vE \"^#\"")
        }
    };
    let said = shell(ctx, &command)?;
    Ok(behind(&said, '=')?.replace('"', ""))
}

/// Sets the layout of the console's keyboard and returns it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' keyboard.set_sys dvorak
#[function]
fn set_sys(ctx: &Context, layout: String) -> Result<String> {
    if has_localectl(ctx) {
        ctx.call("cmd.run", vec![format!("localectl set-keymap {layout}").into()])?;
    } else {
        let (path, key) = file(ctx)?;
        let args = [path.to_owned(), format!("^{key}=.*"), format!("{key}={layout}")];
        ctx.call("file.sed", args.map(Into::into).into())?;
    }
    Ok(layout)
}

/// Returns the layout of the keyboard under X.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' keyboard.get_x
#[function]
fn get_x(ctx: &Context) -> Result<String> {
    let said = shell(ctx, "setxkbmap -query | grep layout")?;
    Ok(behind(&said, ':')?.trim().to_owned())
}

/// Sets the layout of the keyboard under X and returns it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' keyboard.set_x dvorak
#[function]
fn set_x(ctx: &Context, layout: String) -> Result<String> {
    ctx.call("cmd.run", vec![format!("setxkbmap {layout}").into()])?;
    Ok(layout)
}

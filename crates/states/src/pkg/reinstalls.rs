//! Packages that are installed again, since they should be or since their files were altered.

use exec::{Context, Result};
use value::{Map, Value};

use super::name_and_version;
use super::report::Report;
use super::targets::{Plan, Wish};

/// Reports for each reinstalled package whether it helped.
pub fn tell(
    ctx: &Context,
    wish: &Wish,
    plan: &mut Plan,
    installed: &Map,
    kwargs: &Map,
    report: &mut Report,
) -> Result<()> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for name in plan.reinstall.text_keys() {
        // A forced reinstallation shows in the changes. After a failed verification only a second verification can show
        // it.
        let fine = if wish.reinstall {
            installed.contains_key(name)
        } else if wish.verify.on {
            let wrong = wish.verify.check(ctx, name, kwargs)?;
            let fine = !wrong.truthy();
            if !fine {
                // The report shows current problems, and no longer the earlier ones.
                plan.altered.insert(name, wrong);
            }
            fine
        } else {
            continue;
        };
        if fine { good.push(name) } else { bad.push(name) }
    }
    report.failed |= !bad.is_empty();
    let text = |name: &str| if wish.sources.truthy() { name.to_owned() } else { name_and_version(name, &plan.desired) };
    let told = good.iter().map(|name| (name, true)).chain(bad.iter().map(|name| (name, false)));
    for (name, fine) in told {
        let mut line = match fine {
            true => format!("Package {} was reinstalled.", text(name)),
            false => format!("Reinstall was not successful for package {}.", text(name)),
        };
        let altered = plan.altered.get(name);
        if altered.is_some() {
            line.push_str(if fine {
                " The following files were remediated:"
            } else {
                " The following files could not be remediated:"
            });
        }
        report.comment.push(line);
        report.comment.extend(altered.map(|altered: &Value| exec::nested(altered)));
    }
    Ok(())
}

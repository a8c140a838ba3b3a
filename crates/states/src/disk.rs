//! `disk`: how full file systems are.

use std::path::Path;

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("disk", "File systems have room.", &[&STATUS]);

/// Reads a limit. The inner error is the comment on a wrong one.
fn bound(name: &str, value: &Value, absolute: bool) -> std::result::Result<i64, String> {
    let marks: &[char] = if absolute { &[' ', 'K', 'B'] } else { &[' ', '%'] };
    let number = match value {
        Value::Str(text) => text.trim_matches(marks).trim().parse().ok(),
        Value::Float(number) => Some(number.trunc() as i64),
        other => other.as_i64(),
    };
    match number {
        None => Err(format!("{name} must be an integer ")),
        Some(number) if !absolute && !(0..=100).contains(&number) => {
            Err(format!("{name} must be in the range [0, 100] "))
        }
        Some(number) => Ok(number),
    }
}

/// The used and the free space, in the unit of the limits.
struct Room {
    used: Value,
    available: Value,
}

struct Bounds {
    minimum: Option<i64>,
    maximum: Option<i64>,
    absolute: bool,
    free: bool,
}

impl Bounds {
    /// Returns the comment on a limit that is not kept.
    fn broken(&self, room: &Room) -> Option<String> {
        let unit = if self.absolute { "KB" } else { "%" };
        let (what, room) = if self.free { ("available", &room.available) } else { ("used", &room.used) };
        let number = room.as_f64().unwrap_or_default();
        let text = |side: &str, bound: i64| format!("Disk {what} space is {side} of {bound} {unit} at {room} {unit}");
        let low = self.minimum.filter(|minimum| number < *minimum as f64).map(|bound| text("below minimum", bound));
        low.or_else(|| self.maximum.filter(|bound| number > *bound as f64).map(|bound| text("above maximum", bound)))
    }

    fn judged(&self, ret: Ret, room: &Room) -> Ret {
        match self.broken(room) {
            Some(why) => ret.fail(why),
            None => ret.ok("Disk used space in acceptable range"),
        }
    }
}

fn number(data: &Value, name: &str) -> i64 {
    let text = data.get(name).map(Value::to_string).unwrap_or_default();
    text.trim_end_matches('%').parse().unwrap_or_default()
}

/// A share in per cent, with one digit behind the point.
fn share(part: i64, total: i64) -> Value {
    let share = part as f64 / total as f64 * 100.0;
    format!("{share:.1}").parse::<f64>().unwrap_or(share).into()
}

fn room_of_mount(data: &Value, absolute: bool) -> Room {
    if absolute {
        return Room { used: number(data, "used").into(), available: number(data, "available").into() };
    }
    let used = number(data, "capacity");
    Room { used: used.into(), available: (100 - used).into() }
}

fn room_of_path(data: &Value, absolute: bool) -> Room {
    let (total, available) = (number(data, "total"), number(data, "available"));
    match (absolute, total) {
        (true, _) => Room { used: (total - available).into(), available: available.into() },
        (false, 0) => Room { used: 0.into(), available: 0.into() },
        (false, _) => Room { used: share(total - available, total), available: share(available, total) },
    }
}

/// Checks that the used space of a file system, or with `free` the free one, is between bounds: per cent, or with
/// `absolute` kilobytes.
#[function]
fn status(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] maximum: Value,
    #[default(Value::Null)] minimum: Value,
    #[default(false)] absolute: bool,
    #[default(false)] free: bool,
) -> Result<Ret> {
    let mut ret = Ret { more: map! { "data" => Map::new() }, ..Ret::new(name.as_str()) };
    let mut wrong = String::new();
    let mut read = |name: &str, value: &Value| {
        let bound = (!value.is_null()).then(|| bound(name, value, absolute))?;
        bound.map_err(|why| wrong.push_str(&why)).ok()
    };
    let (maximum, minimum) = (read("maximum", &maximum), read("minimum", &minimum));
    if let (Some(minimum), Some(maximum)) = (minimum, maximum)
        && minimum >= maximum
    {
        wrong.push_str("minimum must be less than maximum ");
    }
    if !wrong.is_empty() {
        return Ok(ret.fail(wrong));
    }
    let bounds = Bounds { minimum, maximum, absolute, free };
    let mounts = call(ctx, "disk.usage", args![], Map::new())?;
    if let Some(data) = mounts.get(&name) {
        ret.more.insert("data", data.clone());
        return Ok(bounds.judged(ret, &room_of_mount(data, absolute)));
    }
    if !Path::new(&name).is_dir() {
        return Ok(
            ret.fail(format!("Disk mount {name} not present. Directory {name} does not exist or is not a directory"))
        );
    }
    let data = call(ctx, "status.diskusage", args![name.as_str()], Map::new())?;
    let room = room_of_path(data.get(&name).unwrap_or(&Value::Null), absolute);
    ret.more.insert("data", data);
    Ok(bounds.judged(ret, &room))
}

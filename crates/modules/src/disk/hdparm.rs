//! Information about drives from `hdparm`, and the host protected area at their end.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value};

use super::integer;
use crate::util;

/// Runs `hdparm`. Returns the command line and the result of `cmd.run_all`.
fn hdparm(ctx: &Context, arguments: &str) -> Result<(String, Map)> {
    let line = format!("hdparm {arguments}");
    let said = ctx.call_with("cmd.run_all", Call { args: vec![line.as_str().into()], ..Call::default() })?;
    Ok((line, said.into_map().unwrap_or_default()))
}

fn complaint(line: &str, said: &Map) -> Option<String> {
    let stderr = said.get("stderr").map(Value::to_string).unwrap_or_default();
    said.get("retcode").is_some_and(Value::truthy).then(|| format!("{line}: {stderr}"))
}

/// Reads lines such as `multcount = 16 (on)` or `geometry = 121601/255/63, sectors = 1953525168, start = 0`.
fn parameters(text: &str, disk: &str) -> Map {
    let heading = format!("{disk}:");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != heading);
    lines
        .filter_map(|line| {
            let (name, value) = match line.split_once(':') {
                // A few lines read `drive state is:`.
                Some((name, value)) => (name.strip_suffix(" is").unwrap_or(name), value),
                None => line.split_once('=')?,
            };
            Some((name.trim().to_lowercase().replace(' ', "_"), reading(value.trim())?))
        })
        .collect()
}

/// Reads a value: a number with an explanation in brackets, a single value, or several.
fn reading(text: &str) -> Option<Value> {
    if let Some(explained) = explained(text) {
        return Some(explained);
    }
    let (mut single, mut named) = (Vec::new(), Map::new());
    // A geometry is printed as `cylinders/heads/sectors`, and other values follow behind commas.
    for part in text.split(['/', ',']).map(str::trim).filter(|part| !part.is_empty()) {
        match (integer(part), part.split_once('=')) {
            (Some(number), _) => single.push(number),
            (None, Some((name, value))) if !value.trim().is_empty() => drop(named.insert(name.trim(), value.trim())),
            (None, Some(_)) => {}
            (None, None) => single.push(part.into()),
        }
    }
    if !named.is_empty() {
        single.push(named.into());
    }
    match single.len() {
        0 | 1 => single.pop(),
        _ => Some(single.into()),
    }
}

/// Reads `16 (on)` as the number and the first word in brackets.
fn explained(text: &str) -> Option<Value> {
    let (number, rest) = text.split_once(' ')?;
    let plain = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    if !plain || !rest.starts_with('(') || !rest.contains(')') {
        return None;
    }
    let word = rest.split(' ').next().unwrap_or_default().trim_matches(['(', ')']);
    Some(Value::List(vec![integer(number)?, word.into()]))
}

fn of_each(ctx: &Context, disks: &Value, flags: &str) -> Result<Map> {
    let names = match disks {
        Value::List(names) => names.iter().map(Value::to_string).collect(),
        single => vec![single.to_string()],
    };
    let mut found = Map::new();
    for name in names {
        // Both forms are common in pillars.
        let disk = if name.starts_with("/dev") { name } else { format!("/dev/{name}") };
        let (line, said) = hdparm(ctx, &format!("-{flags} {disk}"))?;
        if let Some(complaint) = complaint(&line, &said) {
            // Drives refuse single settings they do not have; the others are still worth showing.
            tracing::warn!("{complaint}");
        }
        let told = parameters(said.get_str("stdout").unwrap_or_default(), &disk);
        found.insert(disk, told);
    }
    Ok(found)
}

/// Returns what ``hdparm`` reports about one or several disks, for some of its flags. What a drive does not report is
/// left out.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.hdparms /dev/sda
///     salt '*' disk.hdparms sda args=aW
#[function]
fn hdparms(ctx: &Context, disks: Value, #[default("aAbBcCdgHiJkMmNnQrRuW")] args: Value) -> Result<Map> {
    util::needs(ctx, "hdparm")?;
    let flags = match args {
        Value::List(flags) => flags.iter().map(Value::to_string).collect(),
        other => other.to_string(),
    };
    of_each(ctx, &disks, &flags)
}

/// The number of sectors a disk has, and how many of them are visible.
struct Sectors {
    total: i64,
    visible: i64,
}

impl Sectors {
    /// Reads the answer to `hdparm -N`: visible sectors, total sectors, and a status.
    fn read(disk: &str, told: &Value) -> Result<Self> {
        let answer = told.as_map().and_then(|told| told.values().next()).and_then(Value::as_list).unwrap_or_default();
        match answer {
            [Value::Int(visible), Value::Int(total), status] => {
                // With the protected area off, hdparm prints a visible size that has no meaning.
                let whole = status.as_str().is_some_and(|status| status.contains("disabled"));
                Ok(Self { total: *total, visible: if whole { *total } else { *visible } })
            }
            _ => Err(Error::execution(format!("hdparm does not tell how many sectors {disk} has and shows"))),
        }
    }

    fn to_map(&self) -> Map {
        let mut shown = Map::new();
        shown.insert("total", self.total);
        if self.visible != self.total {
            shown.insert("visible", self.visible);
            shown.insert("hidden", self.total.saturating_sub(self.visible));
        }
        shown
    }

    /// Returns how many sectors stay visible when `hidden` sectors, or that percentage, are hidden. If none would be
    /// left, all stay visible.
    fn without(&self, hidden: &Value) -> Result<i64> {
        let wrong = || Error::invocation(format!("size is a number of sectors or a percentage, not '{hidden}'"));
        let text = hidden.to_string();
        let left = match (hidden, text.contains('%')) {
            (Value::Float(number), _) if number.is_finite() => self.total.saturating_sub(number.trunc() as i64),
            (_, true) => {
                let share: i64 = text.trim_matches('%').trim().parse().map_err(|_| wrong())?;
                // The product exceeds 64 bits for large disks and absurd percentages.
                let part = i128::from(100i64.saturating_sub(share)) * i128::from(self.total) / 100;
                i64::try_from(part).map_err(|_| wrong())?
            }
            _ => self.total.saturating_sub(hidden.as_i64().or_else(|| text.trim().parse().ok()).ok_or_else(wrong)?),
        };
        // Hiding everything would make the disk useless, so Salt hides nothing instead.
        Ok(if left <= 0 { self.total } else { left })
    }
}

/// Returns the numbers of total, visible and hidden sectors of disks (their host protected area). With a size, a number
/// of sectors or a percentage, that much is hidden at the end of each disk; data there becomes inaccessible.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.hpa /dev/sda
///     salt '*' disk.hpa /dev/sda 5%
///     salt '*' disk.hpa /dev/sda 10543256
#[function]
fn hpa(ctx: &Context, disks: Value, #[default(Value::Null)] size: Value) -> Result<Value> {
    util::needs(ctx, "hdparm")?;
    let told = of_each(ctx, &disks, "N")?;
    let read = |(disk, told): (&Value, &Value)| {
        let disk = disk.to_string();
        Sectors::read(&disk, told).map(|sectors| (disk, sectors))
    };
    // All disks are read before the first is changed: a drive that does not answer must not leave half of them done.
    let found = told.iter().map(read).collect::<Result<Vec<_>>>()?;
    if size.is_null() {
        return Ok(found.into_iter().map(|(disk, sectors)| (disk, sectors.to_map())).collect::<Map>().into());
    }
    let wanted = found.into_iter().map(|(disk, sectors)| Ok((sectors.without(&size)?, disk)));
    for (sectors, disk) in wanted.collect::<Result<Vec<_>>>()? {
        // The letter `p` makes the change permanent; hdparm requires the long option because a mistake loses data.
        let (line, said) = hdparm(ctx, &format!("--yes-i-know-what-i-am-doing -Np{sectors} {disk}"))?;
        if let Some(complaint) = complaint(&line, &said) {
            return Err(Error::execution(complaint));
        }
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn what_is_left_is_a_whole_number_of_sectors() {
        let disk = Sectors { total: 1001, visible: 1001 };
        let left = |hidden: Value| disk.without(&hidden).unwrap();
        assert_eq!(left("5%".into()), 950);
        assert_eq!(left("5".into()), 996);
        assert_eq!(left(5.into()), 996);
        // If none would be left, all stay visible.
        assert_eq!(left("100%".into()), 1001);
        assert_eq!(left(5000.into()), 1001);
        for wrong in [Value::from("much"), list![1], "%".into()] {
            assert!(matches!(disk.without(&wrong), Err(Error::Invocation(_))), "{wrong}");
        }
    }

    #[test]
    fn a_disk_that_tells_nothing_is_named() {
        for told in [Value::Map(Map::new()), map! { "max_sectors" => list![1, "2(3?)", "odd"] }.into()] {
            let error = Sectors::read("/dev/sda", &told).err().unwrap();
            assert_eq!(error.to_string(), "hdparm does not tell how many sectors /dev/sda has and shows");
        }
    }
}

//! `survey` — which minions agree.

use exec::{Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::local::Ask;
use crate::{Module, RunnerContext};

/// The functions of the runner `survey`.
pub static MODULE: Module = Module::new("survey", "Which minions agree.", &[&DIFF, &HASH]);

/// Runs a function on minions and returns groups of those with the same result, the largest group first, with
/// `survey_sort=up` the smallest.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run survey.hash "*" file.get_hash /etc/salt/minion survey_sort=up
#[function]
async fn hash(ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Vec<Map>> {
    Ok(pools(ctx, args.0, kwargs.given()).await?.into_iter().map(Pool::into_map).collect())
}

/// As `survey.hash`, and prints how the results of the other groups differ from the first.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run survey.diff survey_sort=up "*" cp.get_file_str file:///etc/hosts
#[function]
async fn diff(ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Vec<Map>> {
    let pools = pools(ctx, args.0, kwargs.given()).await?;
    for (place, pool) in pools.iter().enumerate() {
        let ids: Value = pool.ids.iter().collect();
        ctx.sink.print(&format!("minion pool :\n------------\n{ids}\npool size :\n----------\n    {}", pool.ids.len()));
        if place == 0 {
            ctx.sink.print(&format!("pool result :\n------------\n    {}\n", pool.result));
            continue;
        }
        let title = format!("differences from \"{}\" results :", pools[0].ids[0]);
        ctx.sink.print(&format!("{title}\n{}\n{}\n", "-".repeat(title.len() - 1), differences(&pools[0], pool)));
    }
    Ok(pools.into_iter().map(Pool::into_map).collect())
}

/// Minions with the same result.
struct Pool {
    ids: Vec<String>,
    result: String,
}

impl Pool {
    fn into_map(self) -> Map {
        map! { "pool" => self.ids, "result" => self.result }
    }
}

async fn pools(ctx: &RunnerContext, args: Vec<Value>, mut kwargs: Map) -> Result<Vec<Pool>> {
    let mut args = args.into_iter();
    let (Some(target), Some(function)) = (args.next(), args.next()) else {
        return Err(Error::Arguments("survey takes a target and a function".into()));
    };
    let up = kwargs.remove("survey_sort").is_some_and(|sort| sort.as_str() == Some("up"));
    // Salt's runner takes `compound` and `pcre` only and uses `compound` for everything else.
    let kind = kwargs.remove("tgt_type").and_then(Value::into_string).filter(|kind| kind == "pcre");
    // Names with an underscore are Salt's own (`__pub_…`) and must not reach the minions.
    kwargs.retain(|key, _| !key.to_string().starts_with('_'));
    let ask = Ask::new(ctx, target, kind.as_deref().unwrap_or("compound"), &function.to_string());
    let Some(answers) = ask.with(args.collect(), kwargs).run_or_print(ctx).await else { return Ok(Vec::new()) };
    Ok(grouped(answers.results(ctx), up))
}

fn grouped(results: Map, up: bool) -> Vec<Pool> {
    let mut results: Vec<(String, String)> =
        results.into_iter().map(|(id, result)| (id.to_string(), result.to_string())).collect();
    // Sorted by id, so that the first of each group and the order of equal groups do not depend on who answered
    // first.
    results.sort();
    let mut pools: Vec<Pool> = Vec::new();
    for (id, result) in results {
        match pools.iter_mut().find(|pool| pool.result == result) {
            Some(pool) => pool.ids.push(id),
            None => pools.push(Pool { ids: vec![id], result }),
        }
    }
    // Both sorts are stable, as in Python: groups of equal size keep the order of their first ids.
    match up {
        true => pools.sort_by_key(|pool| pool.ids.len()),
        false => pools.sort_by_key(|pool| std::cmp::Reverse(pool.ids.len())),
    }
    pools
}

/// A unified diff without context lines.
fn differences(first: &Pool, other: &Pool) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (first.result.lines().collect(), other.result.lines().collect());
    let mut out = format!("--- {}\n+++ {}\n", first.ids[0], other.ids[0]);
    let common = common_lines(&a, &b);
    let (mut at_a, mut at_b) = (0, 0);
    for (next_a, next_b) in common.into_iter().chain([(a.len(), b.len())]) {
        if next_a > at_a || next_b > at_b {
            out.push_str(&format!("@@ -{} +{} @@\n", range(at_a, next_a), range(at_b, next_b)));
            a[at_a..next_a].iter().for_each(|line| out.push_str(&format!("-{line}\n")));
            b[at_b..next_b].iter().for_each(|line| out.push_str(&format!("+{line}\n")));
        }
        (at_a, at_b) = (next_a + 1, next_b + 1);
    }
    out
}

fn range(from: usize, to: usize) -> String {
    match to - from {
        // An empty range names the line before it, as in a unified diff.
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        length => format!("{},{length}", from + 1),
    }
}

/// Returns the longest common subsequence, as pairs of positions. Equal lines at both ends are matched first. The
/// rest is compared only if its table fits into memory.
fn common_lines(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    // Cells of four bytes: 16 MB at most. Minions decide how long their results are.
    const LARGEST: usize = 4_000_000;
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (inner_a, inner_b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut pairs: Vec<(usize, usize)> = (0..head).map(|at| (at, at)).collect();
    if inner_a.len().saturating_mul(inner_b.len()) <= LARGEST {
        pairs.extend(longest(inner_a, inner_b).into_iter().map(|(i, j)| (i + head, j + head)));
    }
    pairs.extend((0..tail).map(|at| (a.len() - tail + at, b.len() - tail + at)));
    pairs
}

fn longest(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut lengths = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = match a[i] == b[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_sorted_by_size() {
        let results = map! { "b" => 1, "a" => 2, "c" => 1 };
        let sizes = |up| grouped(results.clone(), up).iter().map(|pool| pool.ids.join(",")).collect::<Vec<_>>();
        assert_eq!(sizes(false), ["b,c", "a"]);
        assert_eq!(sizes(true), ["a", "b,c"]);
    }

    #[test]
    fn differences_have_no_context() {
        let pool = |id: &str, result: &str| Pool { ids: vec![id.into()], result: result.into() };
        let text = differences(&pool("a", "1\n2\n3\n4\n"), &pool("b", "1\nx\n3\n4\n5\n"));
        assert_eq!(text, "--- a\n+++ b\n@@ -2 +2 @@\n-2\n+x\n@@ -4,0 +5 @@\n+5\n");
    }
}

//! Brace patterns: `shard-{000000..000005}.tar`, `{train,test}/x-{0..9}.npy`. The names they stand for, in order.
//!
//! Braces nest, and the first varies slowest. A number keeps its zeros in front. Braces that hold neither a range of
//! numbers nor a comma, or that do not close, are part of the name.

/// Names that one pattern may stand for.
pub(super) const MOST_NAMES: u64 = 1 << 20;

/// Bytes of those names together.
const MOST_BYTES: u64 = 1 << 28;

/// Braces in braces.
const DEEPEST: usize = 16;

/// Bytes of a pattern.
const LONGEST: usize = 1 << 16;

/// What a pattern has too much of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Length,
    Depth,
    Number,
}

impl Refused {
    pub(super) fn what(&self) -> String {
        match self {
            Self::Length => format!("the pattern has more than {LONGEST} bytes"),
            Self::Depth => format!("the pattern has braces in braces, more than {DEEPEST} deep"),
            Self::Number => {
                format!("the pattern stands for more than {MOST_NAMES} names, or {} MiB of them", MOST_BYTES >> 20)
            }
        }
    }
}

/// The names that the pattern stands for; `None` where it is no pattern.
pub(super) fn expand(pattern: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Refused> {
    if !pattern.contains(&b'{') {
        return Ok(None);
    }
    if pattern.len() > LONGEST {
        return Err(Refused::Length);
    }
    let parts = parse(pattern, &closings(pattern), 0, pattern.len(), 0)?;
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        return Ok(None);
    }
    let names = count(&parts);
    // No name is longer than its pattern.
    if names > MOST_NAMES || names.saturating_mul(pattern.len() as u64) > MOST_BYTES {
        return Err(Refused::Number);
    }
    Ok(Some(names_of(&parts)))
}

enum Part<'a> {
    Text(&'a [u8]),
    OneOf(Vec<Vec<Part<'a>>>),
    Numbers { from: u64, to: u64, step: u64, width: usize },
}

/// For each `{` that is closed, where: in one pass, however many there are.
fn closings(pattern: &[u8]) -> Vec<Option<usize>> {
    let mut closings = vec![None; pattern.len()];
    let mut open = Vec::new();
    for (at, byte) in pattern.iter().enumerate() {
        match byte {
            b'{' => open.push(at),
            b'}' => {
                if let Some(start) = open.pop() {
                    closings[start] = Some(at);
                }
            }
            _ => {}
        }
    }
    closings
}

fn parse<'a>(
    pattern: &'a [u8],
    closings: &[Option<usize>],
    start: usize,
    end: usize,
    depth: usize,
) -> Result<Vec<Part<'a>>, Refused> {
    let mut parts = Vec::new();
    let (mut at, mut text) = (start, start);
    while at < end {
        let Some(close) = closings[at] else {
            at += 1;
            continue;
        };
        let braces = match numbers(&pattern[at + 1..close]) {
            Some(numbers) => Some(numbers),
            None => choices(pattern, closings, at + 1, close, depth)?,
        };
        if let Some(braces) = braces {
            parts.push(Part::Text(&pattern[text..at]));
            parts.push(braces);
            text = close + 1;
        } else {
            // Part of the name, with whatever is in it that is a pattern.
            at += 1;
            continue;
        }
        at = close + 1;
    }
    parts.push(Part::Text(&pattern[text..end]));
    Ok(parts)
}

/// What lies between the commas of these braces, of which there is at least one.
fn choices<'a>(
    pattern: &'a [u8],
    closings: &[Option<usize>],
    start: usize,
    end: usize,
    depth: usize,
) -> Result<Option<Part<'a>>, Refused> {
    let mut commas = Vec::new();
    let mut at = start;
    while at < end {
        match closings[at] {
            Some(close) => at = close,
            None if pattern[at] == b',' => commas.push(at),
            None => {}
        }
        at += 1;
    }
    if commas.is_empty() {
        return Ok(None);
    }
    if depth == DEEPEST {
        return Err(Refused::Depth);
    }
    let starts = std::iter::once(start).chain(commas.iter().map(|comma| comma + 1));
    let ends = commas.iter().copied().chain([end]);
    let choices = starts.zip(ends).map(|(start, end)| parse(pattern, closings, start, end, depth + 1));
    Ok(Some(Part::OneOf(choices.collect::<Result<_, _>>()?)))
}

/// `FROM..TO` or `FROM..TO..STEP`.
fn numbers<'a>(braces: &[u8]) -> Option<Part<'a>> {
    /// Three numbers of twenty digits and what is between them: what is longer need not be looked through.
    const MOST: usize = 64;
    if braces.len() > MOST {
        return None;
    }
    let mut ends = std::str::from_utf8(braces).ok()?.split("..");
    let (from, to) = (ends.next()?, ends.next()?);
    let step = ends.next();
    if ends.next().is_some() {
        return None;
    }
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let is_padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if is_padded(from) || is_padded(to) { from.len().max(to.len()) } else { 0 };
    let step = step.map_or(Some(1), number).filter(|step| *step > 0)?;
    Some(Part::Numbers { from: number(from)?, to: number(to)?, step, width })
}

fn count(parts: &[Part<'_>]) -> u64 {
    let of = |part: &Part<'_>| match part {
        Part::Text(_) => 1,
        Part::OneOf(choices) => choices.iter().fold(0, |sum: u64, choice| sum.saturating_add(count(choice))),
        Part::Numbers { from, to, step, .. } => (from.abs_diff(*to) / step).saturating_add(1),
    };
    parts.iter().fold(1, |product: u64, part| product.saturating_mul(of(part)))
}

fn names_of(parts: &[Part<'_>]) -> Vec<Vec<u8>> {
    let mut names = vec![Vec::new()];
    for part in parts {
        match part {
            Part::Text(text) => names.iter_mut().for_each(|name| name.extend_from_slice(text)),
            Part::OneOf(choices) => {
                let ends: Vec<Vec<u8>> = choices.iter().flat_map(|choice| names_of(choice)).collect();
                names = each_with_each(&names, &ends);
            }
            &Part::Numbers { from, to, step, width } => {
                let steps = 0..=from.abs_diff(to) / step;
                // Between the two ends, whichever is the higher.
                let number = |i: u64| if from <= to { from + i * step } else { from - i * step };
                let ends: Vec<Vec<u8>> = steps.map(|i| format!("{:0width$}", number(i)).into_bytes()).collect();
                names = each_with_each(&names, &ends);
            }
        }
    }
    names
}

fn each_with_each(starts: &[Vec<u8>], ends: &[Vec<u8>]) -> Vec<Vec<u8>> {
    starts.iter().flat_map(|start| ends.iter().map(move |end| [&start[..], end].concat())).collect()
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;
    use crate::work::within;

    fn names(pattern: &str) -> Vec<String> {
        let names = expand(pattern.as_bytes()).unwrap().unwrap_or_else(|| vec![pattern.into()]);
        names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
    }

    /// As bash has them.
    #[test]
    fn patterns_stand_for_their_names_in_order() {
        let cases: [(&str, &[&str]); 16] = [
            ("s-{000..002}.tar", &["s-000.tar", "s-001.tar", "s-002.tar"]),
            ("{8..11}", &["8", "9", "10", "11"]),
            ("{08..11}", &["08", "09", "10", "11"]),
            ("{8..011}", &["008", "009", "010", "011"]),
            ("{0..10..5}", &["0", "5", "10"]),
            ("{3..1}", &["3", "2", "1"]),
            ("{7..0..3}", &["7", "4", "1"]),
            ("{5..5}", &["5"]),
            ("{a,b}", &["a", "b"]),
            ("{a,b}{0..1}", &["a0", "a1", "b0", "b1"]),
            ("x{a{1..2},b,}y", &["xa1y", "xa2y", "xby", "xy"]),
            ("{a,b", &["{a,b"]),
            ("a}b{c}d", &["a}b{c}d"]),
            ("{{a,b}}", &["{a}", "{b}"]),
            ("{x{0..1}}", &["{x0}", "{x1}"]),
            ("{1..2..3..4}{-1..2}{a..c}{1..2..0}", &["{1..2..3..4}{-1..2}{a..c}{1..2..0}"]),
        ];
        for (pattern, expected) in cases {
            assert_eq!(names(pattern), expected, "{pattern}");
        }
        assert_eq!(expand(b"\xff{0..1}\xfe"), Ok(Some(vec![b"\xff0\xfe".to_vec(), b"\xff1\xfe".to_vec()])));
    }

    #[test]
    fn bombs_are_refused_for_little_work() {
        let all = || {
            for bomb in ["{0..18446744073709551615}".to_owned(), "{0..99}".repeat(50), "{a,b}".repeat(500)] {
                assert_eq!(expand(bomb.as_bytes()), Err(Refused::Number), "{bomb}");
            }
            let long = format!("{}{{0..1048575}}", "x".repeat(1000));
            assert_eq!(expand(long.as_bytes()), Err(Refused::Number));
            for deep in ["{a,".repeat(20) + &"}".repeat(20), "{a,".repeat(10_000) + &"}".repeat(10_000)] {
                assert_eq!(expand(deep.as_bytes()), Err(Refused::Depth));
            }
            assert_eq!(expand("{".repeat(1 << 20).as_bytes()), Err(Refused::Length));
            for harmless in ["{".repeat(1 << 16), "}{".repeat(1 << 15), "{".repeat(1 << 15) + &"}".repeat(1 << 15)] {
                assert_eq!(expand(harmless.as_bytes()), Ok(None));
            }
        };
        within(200, "bombs", all);
    }

    #[test]
    fn as_many_names_as_are_allowed() {
        assert_eq!(names("s-{0..1048575}").len() as u64, MOST_NAMES);
        assert_eq!(expand(b"s-{0..1048576}"), Err(Refused::Number));
    }

    proptest! {
        #[test]
        fn whatever_is_given_ends_soon_and_no_name_is_longer(
            pattern in "[{},.0-9a]{0,60}"
        ) {
            if let Ok(Some(names)) = expand(pattern.as_bytes()) {
                prop_assert!(names.iter().all(|name| name.len() <= pattern.len()), "{names:?}");
            }
        }
    }
}

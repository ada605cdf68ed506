//! Files that nobody wrote: sound ones with changes, and headers of a grammar that is nearly the format's. Whatever comes
//! of them, our verdict is the crate's.
use proptest::prelude::*;
use safetensors::Dtype;

use super::{agree, folder};
use crate::common::effort;
use crate::common::weights::{Tensor, file, serialize};

/// Decisions, taken from bytes that proptest makes and shrinks. When they are used up, the first choice is taken.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, end: u64) -> u64 {
        u64::from(*self.0.next().unwrap_or(&0)) % end
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    /// Rarely.
    fn slip(&mut self) -> bool {
        *self.0.next().unwrap_or(&0) >= 240
    }
}

const HUGE: [&str; 12] = [
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "4294967296",
    "2305843009213693952",
    "-1",
    "1e3",
    "0.5",
    "\"4\"",
    "null",
    "[]",
];

fn number(choices: &mut Choices, right: u64) -> String {
    if choices.slip() { choices.one(&HUGE).to_owned() } else { right.to_string() }
}

/// A tensor that begins at `at`, and where it ends.
fn tensor(choices: &mut Choices, at: u64) -> (String, u64) {
    let dtypes =
        [("F32", 32), ("U8", 8), ("BF16", 16), ("I64", 64), ("F4", 4), ("F6_E2M3", 6), ("F8_E8M0", 8), ("BOOL", 8)];
    let (dtype, bits) = choices.one(&dtypes);
    let dims: Vec<u64> = (0..choices.below(4)).map(|_| choices.below(4)).collect();
    let len = dims.iter().product::<u64>() * bits / 8;
    let (mut from, mut to) = (at, at + len);
    if choices.slip() {
        from = choices.below(9);
    }
    if choices.slip() {
        to = choices.below(40);
    }
    let dims: Vec<String> = dims.iter().map(|&dim| number(choices, dim)).collect();
    let dtype = match choices.slip() {
        true => choices
            .one(&["\"Q9\"", "\"f32\"", "\"\"", "32", "null", "{\"F32\":null}", "[\"F32\"]", "\"F8_E4M3FNUZ\""])
            .to_owned(),
        false => format!("\"{dtype}\""),
    };
    let (shape, offsets) =
        (format!("[{}]", dims.join(",")), format!("[{},{}]", number(choices, from), number(choices, to)));
    let mut fields =
        vec![format!("\"dtype\":{dtype}"), format!("\"shape\":{shape}"), format!("\"data_offsets\":{offsets}")];
    let text = match choices.below(24) {
        16 => format!("[{dtype},{shape},{offsets}]"),
        17 => format!("[{dtype},{shape},{offsets},0]"),
        18 => choices.one(&["null", "{}", "[]", "3", "\"w\"", "true"]).to_owned(),
        19 => {
            fields.swap(0, 2);
            fields.push("\"more\":[{\"a\":1.5e300}]".to_owned());
            format!("{{{}}}", fields.join(","))
        }
        20 => {
            fields.pop();
            format!("{{{}}}", fields.join(","))
        }
        21 => {
            fields.push(fields[1].clone());
            format!("{{{}}}", fields.join(","))
        }
        _ => format!("{{{}}}", fields.join(" , ")),
    };
    (text, to.max(at))
}

/// A file of which most is right.
fn near_valid(entropy: &[u8]) -> Vec<u8> {
    let mut choices = Choices(entropy.iter());
    let (mut entries, mut at) = (Vec::new(), 0);
    if choices.below(4) == 1 {
        let metadata =
            ["{}", "{\"a\":\"b\"}", "null", "{\"a\":1}", "{\"a\":null}", "[]", "{\"a\":\"b\",\"a\":\"c\"}", "\"x\""];
        entries.push(format!("\"__metadata__\":{}", choices.one(&metadata)));
    }
    for i in 0..choices.below(5) {
        let (text, end) = tensor(&mut choices, at);
        at = end;
        let name = match choices.slip() {
            true => choices
                .one(&["\"a0\"", "\"\"", "\"\\u0000\"", "\"__metadata__\"", "\"\\ud800\"", "3", "\"\\u00e9\""])
                .to_owned(),
            false => format!("\"a{i}\""),
        };
        entries.push(format!("{name}:{text}"));
    }
    if choices.below(3) == 1 {
        entries.reverse();
    }
    let mut header = format!("{{{}}}", entries.join(",")).into_bytes();
    header.splice(..0, choices.one(&["", "", "", "", " ", "\n\t", "\u{b}", "\u{a0}"]).bytes());
    header.extend(choices.one(&["", "", "", "   ", "\n", "\0", "\0\0\0", "x", "\u{a0}", ","]).bytes());
    let data = match choices.slip() {
        true => choices.below(64),
        false => at,
    };
    let mut bytes = file(&header, &vec![0xa5; data as usize]);
    if choices.slip() {
        bytes[0] = bytes[0].wrapping_add(choices.one(&[1, 255, 128]));
    }
    bytes
}

#[derive(Debug, Clone)]
enum Change {
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Delete(prop::sample::Index, usize),
    Number(prop::sample::Index, &'static str),
    Copy(prop::sample::Index, prop::sample::Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), 0_u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 1_usize..9).prop_map(|(at, len)| Change::Delete(at, len)),
        (at(), prop::sample::select(HUGE.to_vec())).prop_map(|(at, number)| Change::Number(at, number)),
        (at(), at(), 1_usize..40).prop_map(|(from, to, len)| Change::Copy(from, to, len)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Flip(at, bit) => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Change::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
        Change::Delete(at, len) => {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + len).min(bytes.len()));
        }
        Change::Number(at, number) => {
            // The next number in the header, if there is one.
            let at = at.index(bytes.len()).max(8);
            let Some(start) = (at..bytes.len()).find(|&i| bytes[i].is_ascii_digit()) else { return };
            let end = (start..bytes.len()).find(|&i| !bytes[i].is_ascii_digit()).unwrap_or(bytes.len());
            bytes.splice(start..end, number.bytes());
        }
        Change::Copy(from, to, len) => {
            let from = from.index(bytes.len());
            let piece = bytes[from..(from + len).min(bytes.len())].to_vec();
            let to = to.index(bytes.len());
            bytes.splice(to..to, piece);
        }
    }
}

/// With the length in front set right again, so that changes reach the JSON.
fn repaired(mut bytes: Vec<u8>, len: i64) -> Vec<u8> {
    if bytes.len() >= 8 {
        let data = (bytes.len() as i64 - 8 - len).max(0);
        bytes[..8].copy_from_slice(&(data as u64).to_le_bytes());
    }
    bytes
}

fn sound() -> (Vec<u8>, usize) {
    let tensors = [
        Tensor::new("model.layers.0.weight", Dtype::F32, &[4, 3], 1),
        Tensor::new("b", Dtype::BF16, &[5], 2),
        Tensor::new("scale", Dtype::F8_E8M0, &[], 3),
        Tensor::new("none", Dtype::I64, &[0, 2], 4),
        Tensor::new("four", Dtype::F4, &[6], 5),
    ];
    (serialize(&tensors), tensors.iter().map(|tensor| tensor.bytes.len()).sum())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: effort::of(400, 3000), ..ProptestConfig::default() })]

    #[test]
    fn headers_of_nearly_the_grammar_are_judged_as_the_crate_judges_them(
        entropy in prop::collection::vec(any::<u8>(), 0..120)
    ) {
        let (_folder, path) = folder();
        let _ = agree(&path, &near_valid(&entropy));
    }

    #[test]
    fn changed_files_are_judged_as_the_crate_judges_them(
        changes in prop::collection::vec(change(), 1..4), repair in any::<bool>()
    ) {
        let (_folder, path) = folder();
        let (mut bytes, data) = sound();
        changes.iter().for_each(|change| apply(&mut bytes, change));
        let bytes = if repair { repaired(bytes, data as i64) } else { bytes };
        let _ = agree(&path, &bytes);
    }
}

/// A fuzzer that finds nothing may have made nothing: both verdicts must be among those of the near-valid ones.
#[test]
fn the_grammar_makes_files_of_both_kinds() {
    let mut rng = crate::common::Rng::new(7);
    let made = (0..2000).map(|_| near_valid(&(0..120).map(|_| rng.below(256) as u8).collect::<Vec<_>>()));
    let accepted = made.filter(|bytes| safetensors::SafeTensors::deserialize(bytes).is_ok()).count();
    assert!((200..1800).contains(&accepted), "{accepted} of 2000 are sound");
}

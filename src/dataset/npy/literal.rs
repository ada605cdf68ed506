//! The Python literal that an npy header is: a dictionary of three keys, and nothing else that Python can say.

/// What a header's dictionary says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) descr: String,
    /// Where the type stands in the header.
    pub(super) descr_at: usize,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

/// What is wrong with a header, and where in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) what: String,
    /// It is sound Python for something that is not read.
    pub(super) structured: bool,
}

/// Parses the dictionary of a header. `long_suffix`: whether `2L`, as Python 2 wrote numbers, is one.
pub(super) fn parse(header: &[u8], long_suffix: bool) -> Result<Fields, Wrong> {
    Parser { header, at: 0, long_suffix }.fields()
}

/// numpy has no arrays of more.
const MOST_DIMENSIONS: usize = 64;

struct Parser<'a> {
    header: &'a [u8],
    at: usize,
    long_suffix: bool,
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Mark(u8),
    Text(&'a [u8]),
    /// `None` where no dimension is that long.
    Number(Option<u64>),
    Word(&'a [u8]),
    End,
}

impl<'a> Parser<'a> {
    fn fields(mut self) -> Result<Fields, Wrong> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.mark(b'{')?;
        loop {
            let (at, token) = self.next()?;
            let key = match token {
                Token::Mark(b'}') => break,
                Token::Text(key) => key,
                _ => return Err(wrong(at, "a key is missing")),
            };
            self.mark(b':')?;
            let known = match key {
                b"descr" => descr.replace(self.descr()?).is_none(),
                b"fortran_order" => fortran_order.replace(self.truth()?).is_none(),
                b"shape" => shape.replace(self.shape()?).is_none(),
                _ => return Err(wrong(at, format!("the header has the unknown key {}", shown(key)))),
            };
            if !known {
                return Err(wrong(at, format!("the header has the key {} twice", shown(key))));
            }
            match self.next()? {
                (_, Token::Mark(b',')) => {}
                (_, Token::Mark(b'}')) => break,
                (at, _) => return Err(wrong(at, "a comma or the end of the dictionary is missing")),
            }
        }
        match self.next()? {
            (_, Token::End) => {}
            (at, _) => return Err(wrong(at, "something follows the dictionary")),
        }
        let missing = |key| wrong(0, format!("the header has no key {key}"));
        let (descr_at, descr) = descr.ok_or_else(|| missing("'descr'"))?;
        Ok(Fields {
            descr,
            descr_at,
            fortran_order: fortran_order.ok_or_else(|| missing("'fortran_order'"))?,
            shape: shape.ok_or_else(|| missing("'shape'"))?,
        })
    }

    fn descr(&mut self) -> Result<(usize, String), Wrong> {
        match self.next()? {
            (at, Token::Text(descr)) => Ok((at, String::from_utf8_lossy(descr).into_owned())),
            (at, Token::Mark(b'[' | b'(' | b'{')) => Err(Wrong {
                at,
                what: "the array's elements are structures of several fields".into(),
                structured: true,
            }),
            (at, _) => Err(wrong(at, "'descr' is no type")),
        }
    }

    fn truth(&mut self) -> Result<bool, Wrong> {
        match self.next()? {
            (_, Token::Word(b"True")) => Ok(true),
            (_, Token::Word(b"False")) => Ok(false),
            (at, _) => Err(wrong(at, "'fortran_order' is neither True nor False")),
        }
    }

    fn shape(&mut self) -> Result<Vec<u64>, Wrong> {
        let mut dims = Vec::new();
        match self.next()? {
            (_, Token::Mark(b'(')) => {}
            (at, _) => return Err(wrong(at, "'shape' is no tuple")),
        }
        loop {
            match self.next()? {
                (_, Token::Mark(b')')) => return Ok(dims),
                (_, Token::Number(Some(dim))) if dims.len() < MOST_DIMENSIONS => dims.push(dim),
                (at, Token::Number(Some(_))) => {
                    return Err(wrong(at, format!("'shape' has more than {MOST_DIMENSIONS} dimensions")));
                }
                (at, Token::Number(None)) => return Err(wrong(at, "'shape' has a number that no dimension can have")),
                (at, Token::Mark(b'-')) => return Err(wrong(at, "'shape' has a negative number")),
                (at, _) => return Err(wrong(at, "'shape' has something that is no number")),
            }
            match self.next()? {
                (_, Token::Mark(b',')) => {}
                (_, Token::Mark(b')')) if dims.len() > 1 => return Ok(dims),
                (at, Token::Mark(b')')) => {
                    return Err(wrong(at, "'shape' is a number in brackets, and no tuple: a comma is missing"));
                }
                (at, _) => return Err(wrong(at, "a comma or the end of 'shape' is missing")),
            }
        }
    }

    fn mark(&mut self, wanted: u8) -> Result<(), Wrong> {
        match self.next()? {
            (_, Token::Mark(mark)) if mark == wanted => Ok(()),
            (at, _) => Err(wrong(at, format!("{:?} is missing", wanted as char))),
        }
    }

    /// The next token, and where it begins.
    fn next(&mut self) -> Result<(usize, Token<'a>), Wrong> {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c'));
        let at = self.at;
        let Some(&first) = self.header.get(at) else {
            return Ok((at, Token::End));
        };
        let token = match first {
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b',' | b':' | b'-' => {
                self.at += 1;
                Token::Mark(first)
            }
            b'\'' | b'"' => self.text(first)?,
            b'0'..=b'9' => self.number()?,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => {
                Token::Word(self.skip(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            }
            _ => return Err(wrong(at, format!("{} has no meaning here", shown(&[first])))),
        };
        Ok((at, token))
    }

    fn text(&mut self, quote: u8) -> Result<Token<'a>, Wrong> {
        let at = self.at;
        self.at += 1;
        // No name and no type needs what a backslash brings.
        let text = self.skip(|byte| byte != quote && byte != b'\\' && byte != b'\n');
        if self.header.get(self.at) != Some(&quote) {
            return Err(wrong(at, "a text has no end"));
        }
        self.at += 1;
        Ok(Token::Text(text))
    }

    fn number(&mut self) -> Result<Token<'a>, Wrong> {
        let at = self.at;
        let digits = self.skip(|byte| byte.is_ascii_digit());
        if self.long_suffix && self.header.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        let goes_on =
            self.header.get(self.at).is_some_and(|&byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
        if goes_on || (digits.len() > 1 && digits.first() == Some(&b'0')) {
            return Err(wrong(at, "this is no whole number"));
        }
        let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
        Ok(Token::Number(number.and_then(|number| u64::try_from(number).ok())))
    }

    fn skip(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.header.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&byte| !is_part(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }
}

fn wrong(at: usize, what: impl Into<String>) -> Wrong {
    Wrong { at, what: what.into(), structured: false }
}

/// A few bytes of a header, for a message.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let (start, dots) = if bytes.len() > MOST { (&bytes[..MOST], "…") } else { (bytes, "") };
    format!("'{}{dots}'", start.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(shape: &str) -> Result<Vec<u64>, Wrong> {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        parse(header.as_bytes(), true).map(|fields| fields.shape)
    }

    #[test]
    fn keys_may_come_in_any_order_and_spacing() {
        let expected = Fields { descr: "<f4".into(), descr_at: 10, fortran_order: true, shape: vec![3, 4] };
        let usual = b"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }          \n";
        assert_eq!(parse(usual, false), Ok(expected));
        for other in [
            "{\"shape\":(3,4),'fortran_order':True,\"descr\":\"<f4\"}",
            "  {\n'fortran_order' : True ,\t'descr':'<f4','shape':( 3 , 4 , )\n}\n\n",
            "{'shape': (3L, 4L), 'descr': '<f4', 'fortran_order': True}",
        ] {
            let fields = parse(other.as_bytes(), true).unwrap();
            assert_eq!((&*fields.descr, fields.fortran_order, &*fields.shape), ("<f4", true, &[3, 4][..]), "{other}");
        }
    }

    #[test]
    fn a_shape_is_a_tuple_of_numbers() {
        assert_eq!(shape_of("()"), Ok(vec![]));
        assert_eq!(shape_of("(5,)"), Ok(vec![5]));
        assert_eq!(shape_of("(5L,)"), Ok(vec![5]));
        assert_eq!(shape_of("(0, 3)"), Ok(vec![0, 3]));
        assert_eq!(shape_of("(9223372036854775807,)"), Ok(vec![i64::MAX as u64]));
        let thirty_digits = format!("({},)", "9".repeat(30));
        let many = format!("({})", "1,".repeat(65));
        for shape in [
            "(5)",
            "(-5,)",
            "(- 5,)",
            "(+5,)",
            "[5]",
            "5",
            "(5.0,)",
            "(0x5,)",
            "(1_0,)",
            "(05,)",
            "(5,,)",
            "(,)",
            "(5 5)",
            "(True,)",
            "(None,)",
            "('5',)",
            "((5,),)",
            "(9223372036854775808,)",
            "(5l,)",
            "(5LL,)",
            "(5",
            "(5,",
            "(",
            &thirty_digits,
            &many,
        ] {
            assert!(shape_of(shape).is_err(), "{shape}");
        }
    }

    #[test]
    fn what_numpy_would_not_write_is_refused_where_it_stands() {
        for (header, at) in [
            ("", 0),
            ("{", 1),
            ("{}", 0),
            ("['descr']", 0),
            ("{'descr': '<f4', 'fortran_order': False}", 0),
            ("{'descr': '<f4', 'descr': '<f4'}", 17),
            ("{'other': 1}", 1),
            ("{'descr' '<f4'}", 9),
            ("{'descr': '<f4' 'shape': ()}", 16),
            ("{'descr': '<f4", 10),
            ("{'descr': '<\\x66'}", 10),
            ("{'descr': 5}", 10),
            ("{'descr': u'<f4'}", 10),
            ("{'fortran_order': 0}", 18),
            ("{'fortran_order': true}", 18),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 54),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()}\0", 53),
            ("{# no\n}", 1),
            ("{'descr': __import__('os')}", 10),
        ] {
            let wrong = parse(header.as_bytes(), true).expect_err(header);
            assert_eq!((wrong.at, wrong.structured), (at, false), "{header}: {wrong:?}");
        }
        assert!(parse(b"{'descr': [('a', '<f4')], 'shape': ()}", true).unwrap_err().structured);
        let since_three = "{'descr': '<f4', 'fortran_order': False, 'shape': (5L,)}";
        assert!(parse(since_three.as_bytes(), false).is_err());
    }
}

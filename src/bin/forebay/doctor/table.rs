//! The report for people: aligned columns, long text wrapped inside its own column.

use crate::stderr::one_line;

use super::finding::{Finding, Verdict};

const INDENT: &str = "  ";
const VERDICT_WIDTH: usize = 4;
/// A subject longer than this, such as a long path, stands on a line of its own.
const MAX_SUBJECT: usize = 28;
/// Text is never squeezed below this, however narrow the terminal.
const MIN_TEXT: usize = 24;

/// Findings that belong together, under a title.
#[derive(Debug)]
pub struct Section {
    pub title: String,
    pub findings: Vec<Finding>,
}

/// The whole table, `width` columns wide, with a newline after every line.
pub fn render(sections: &[Section], width: usize) -> String {
    let findings =
        || sections.iter().flat_map(|section| section.findings.iter().map(move |finding| (section, finding)));
    let kind_width = findings().map(|(_, finding)| length(finding.kind)).max().unwrap_or_default();
    let subjects = findings().map(|(section, finding)| length(&subject(section, finding)));
    let subject_width = subjects.filter(|length| *length <= MAX_SUBJECT).max().unwrap_or_default();
    let columns = Columns { kind_width, subject_width, width };
    let rendered: Vec<String> = sections.iter().map(|section| columns.section(section)).collect();
    rendered.join("\n")
}

struct Columns {
    kind_width: usize,
    subject_width: usize,
    width: usize,
}

impl Columns {
    fn section(&self, section: &Section) -> String {
        let mut text = format!("{}\n", one_line(&section.title));
        for finding in &section.findings {
            self.finding(&mut text, &subject(section, finding), finding);
        }
        text
    }

    fn finding(&self, text: &mut String, subject: &str, finding: &Finding) {
        let kind = finding.kind.replace('_', " ");
        let head = format!("{INDENT}{}  {kind}{}", verdict(finding.verdict), spaces(self.kind_width - length(&kind)));
        let text_start = length(&head) + 2 * INDENT.len() + self.subject_width;
        let text_width = self.width.saturating_sub(text_start).max(MIN_TEXT);

        let mut lines = wrap(&one_line(finding.reason.as_deref().unwrap_or_default()), text_width);
        if let Some(fix) = &finding.fix {
            lines.extend(wrap(&format!("fix: {}", one_line(fix)), text_width));
        }
        let mut start = format!("{head}{INDENT}{subject}");
        match self.subject_width.checked_sub(length(subject)) {
            Some(rest) => start.push_str(&spaces(rest + INDENT.len())),
            None => {
                text.push_str(&format!("{start}\n"));
                start = spaces(text_start);
            }
        }
        for line in lines {
            text.push_str(format!("{start}{line}").trim_end());
            text.push('\n');
            start = spaces(text_start);
        }
    }
}

/// A path's own findings need not repeat the path that stands in the title.
fn subject(section: &Section, finding: &Finding) -> String {
    if finding.subject == section.title {
        return String::new();
    }
    let rest = finding.subject.strip_prefix(section.title.as_str()).and_then(|rest| rest.strip_prefix(" -> "));
    one_line(rest.unwrap_or(&finding.subject))
}

fn verdict(verdict: Verdict) -> String {
    let word = match verdict {
        Verdict::Yes => "yes",
        Verdict::No => "no",
        Verdict::Note => "note",
    };
    format!("{word:VERDICT_WIDTH$}")
}

/// Breaks text between words; a word that is wider than the column keeps to a line of its own. At least one line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if length(line) + 1 + length(word) <= width => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn spaces(count: usize) -> String {
    " ".repeat(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> Vec<Section> {
        let machine = vec![
            Finding::yes("kernel", "6.18", "ok"),
            Finding::no("huge_pages", "2 MiB", "none are reserved at all", "sysctl vm.nr_hugepages=128"),
        ];
        let long = "/a/path/that/is/much/longer/than/a/column";
        let path = vec![Finding::yes("path", "data\n", "a file"), Finding::note("direct_io", long, "unknown")];
        vec![
            Section { title: "This machine".to_owned(), findings: machine },
            Section { title: "data\n".to_owned(), findings: path },
        ]
    }

    #[test]
    fn columns_align_and_text_wraps_in_its_own() {
        let expected = "\
This machine
  yes   kernel      6.18   ok
  no    huge pages  2 MiB  none are reserved at all
                           fix: sysctl
                           vm.nr_hugepages=128

data\\n
  yes   path               a file
  note  direct io   /a/path/that/is/much/longer/than/a/column
                           unknown
";
        assert_eq!(render(&sections(), 52), expected);
    }

    #[test]
    fn no_line_is_wider_than_asked_for_unless_a_word_is() {
        for width in [52, 60, 80, 200] {
            for line in render(&sections(), width).lines().filter(|line| !line.contains("/a/path")) {
                assert!(length(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_tiny_width_and_an_empty_report_do_not_panic() {
        assert!(render(&sections(), 0).contains("huge pages"));
        assert_eq!(render(&[], 80), "");
    }
}

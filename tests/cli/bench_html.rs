//! The page of `bench --html`: whole, by itself, safe whatever the file is called, and fit for a phone.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bench::{bench, checked, file, report, short};
use crate::common::emulator::Emulator;
use crate::common::watchdog::guarded;
use crate::common::{Skip, folder, is_root};
use crate::or_skip;
use crate::run::{Answer, forebay, pattern, write};

/// Two sizes of read and two depths: a point more, and each plot is there.
const SWEEP: [&str; 4] = ["--chunk=4KiB,64KiB", "--depth=1,8", "--rounds=1", "--seconds=1.2"];
/// Markup, quotes, a control character, and what is no UTF-8.
const HOSTILE: &[u8] = b"<script>alert(1)<b x='&amp;\"\x1b[31m\xff.bin";

fn measured(target: &Path, page: &Path) -> (String, Vec<Value>, Value) {
    let html = format!("--html={}", page.display());
    let flags: Vec<&str> = SWEEP.into_iter().chain([html.as_str()]).collect();
    let (rows, summary) = report(&bench(target, &flags));
    (fs::read_to_string(page).unwrap(), rows, summary)
}

#[test]
fn the_page_is_whole_and_refers_to_nothing_outside_it() {
    let folder = folder();
    let (page, rows, summary) = measured(&file(folder.path()), &folder.path().join("page.html"));
    well_formed(&page);
    let bare =
        page.replace("xmlns=\"http://www.w3.org/1999/xhtml\"", "").replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in
        ["http:", "https:", "//www", "<script", "<link", "<img", "<iframe", "@import", "url(", "href", "src="]
    {
        assert!(!bare.contains(outside), "{outside}");
    }
    for plot in
        ["against the ceilings", "by size of read, at random", "by depth, at random", "Latency", "seconds per GB"]
    {
        assert!(page.contains(plot), "{plot}");
    }
    // One line of one point is no plot.
    assert!(!page.contains("in order</h3>"));
    assert!(page.contains(&format!("Linux {}", summary["kernel"].as_str().unwrap())));
    let began = summary["began"].as_str().unwrap();
    assert!(page.contains(&format!("<dt>Began</dt><dd><bdi>{began}</bdi></dd>")), "{began}");
    let command = summary["command"].as_str().unwrap();
    assert!(command.contains(" bench ") && command.ends_with("/page.html --json"), "{command}");
    assert!(page.contains(&format!("<dt>Command</dt><dd><bdi>{command}</bdi></dd>")), "{command}");
    assert!(!page.contains("The link by size of copy"), "there is none to the host");
    assert_eq!(bodies(&page).len(), rows.len());
    for (row, body) in rows.iter().zip(bodies(&page)) {
        let shown = |chunk: &Value| format!("{} KiB", chunk.as_u64().unwrap() / 1024);
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let cells = [
            text("pattern"),
            shown(&row["chunk"]),
            row["depth"].to_string(),
            text("route"),
            text("cache"),
            text("mode"),
        ];
        for cell in cells {
            assert!(body.contains(&format!(">{cell}</td>")), "{cell}: {body}");
        }
        for told in [&row["bound"]["why"], &row["bound"]["fix"]] {
            assert!(body.contains(told.as_str().unwrap()), "{told}: {body}");
        }
    }
    // Nothing beside it was left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_hostile_name_is_text_and_nothing_else() {
    let folder = folder();
    let target = write(folder.path(), OsStr::from_bytes(HOSTILE), &pattern(8 << 20));
    let (page, _, summary) = measured(&target, &folder.path().join("page.html"));
    well_formed(&page);
    let told = summary["command"].as_str().unwrap();
    assert!(told.contains("/<script>alert(1)<b x=\\'&amp;\"\\033[31m\\377.bin' "), "{told}");
    assert!(page.contains("&lt;b x=\\&#39;&amp;amp;&quot;\\033[31m\\377.bin&#39; "), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;b x=&#39;&amp;amp;&quot;\u{FFFD}[31m\u{FFFD}.bin"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<b "));
}

#[test]
fn figures_of_the_emulator_are_called_emulated_in_the_page() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let (target, page) = (file(folder.path()), folder.path().join("page.html"));
    let mut command = emulator.forebay("").unwrap();
    command.arg("bench").arg(&target).args(short(&[])).args(["--json", "--device=cuda:0", "--html"]).arg(&page);
    let (rows, _) = report(&Answer::of(&mut command));
    let page = fs::read_to_string(page).unwrap();
    well_formed(&page);
    assert!(page.contains("No figure here is one of a GPU&#39;s"));
    assert!(page.contains("<h3>The link by size of copy</h3>"));
    assert_eq!(bodies(&page).iter().filter(|body| body.contains(">emulated<")).count(), rows.len());
}

#[test]
fn an_interrupted_run_writes_what_it_has() {
    let folder = folder();
    let (target, page) = (file(folder.path()), folder.path().join("page.html"));
    let mut child = forebay()
        .args(["bench", "--device=host", "--json", "--html"])
        .args([&page, &target])
        .args(short(&["--rounds=200"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let (rows, _) = checked(&stdout);
    let page = fs::read_to_string(page).unwrap();
    well_formed(&page);
    assert!(page.contains("Interrupted") && !rows.is_empty());
    assert_eq!(bodies(&page).len(), rows.len());
}

/// Before it measures: what takes an hour is not begun.
#[test]
fn a_page_that_cannot_be_written_is_an_error_that_names_it_and_what_to_do() {
    let folder = folder();
    let target = file(folder.path());
    for page in [folder.path().join("none/page.html"), folder.path().to_owned(), target.clone()] {
        let mut command = forebay();
        command.args(["bench", "--device=host", "--seconds=3600", "--html"]).args([&page, &target]);
        let answer = guarded("a page that cannot be written", move || Answer::of(&mut command));
        let error = answer.error(1);
        assert!(error.contains(&*page.to_string_lossy()) && error.contains("give --html another file"), "{error}");
    }
    assert_eq!(fs::read(&target).unwrap().len(), (12 << 20) + 77);
    Answer::of(forebay().args(["bench", "--html=page.html", "--compare", "a", "b"])).error(2);
}

#[test]
fn a_browser_shows_it_on_a_phone_and_on_a_desk_without_scrolling_sideways() {
    let browser = or_skip!(browser());
    let folder = folder();
    let target = write(folder.path(), format!("{}.bin", "a-long-name".repeat(20)), &pattern(8 << 20));
    let path = folder.path().join("page.html");
    let (page, ..) = measured(&target, &path);
    // A script has to be let in before it can say how wide the page is.
    let script = "<script>parent.document.title = [innerWidth, document.documentElement.scrollWidth, \
        document.querySelector('.scroll').scrollWidth > document.querySelector('.scroll').clientWidth, \
        [...document.querySelectorAll('figure > svg')].every(svg => svg.getBoundingClientRect().right <= innerWidth)] \
        .join(' ');</script>";
    let asked = page
        .replace("default-src 'none'", "script-src 'unsafe-inline'")
        .replace("</body>", &format!("{script}</body>"))
        .replace('&', "&amp;")
        .replace('"', "&quot;");
    for (width, height) in [(360, 800), (1280, 900)] {
        // A window is never as narrow as a phone: the page is in a frame that is.
        let style = format!("border: 0; width: {width}px; height: {height}px");
        let frame = format!("<!DOCTYPE html><title></title><iframe style=\"{style}\" srcdoc=\"{asked}\"></iframe>");
        let frame = write(folder.path(), "frame.html", frame.as_bytes());
        let size = format!("--window-size={width},{height}");
        let dom = headless(&browser, folder.path(), &[&size, "--dump-dom"], &frame);
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or(&dom);
        let told: Vec<&str> = title.split(' ').collect();
        assert_eq!(told[0], width.to_string(), "{title}");
        assert!(told[1].parse::<u32>().unwrap() <= width, "{title}");
        // The table is what scrolls, in its own box; and no plot is wider than the page.
        assert!((width > 360 || told[2] == "true") && told[3] == "true", "{title}");
        let picture = folder.path().join(format!("{width}.png"));
        let shot = format!("--screenshot={}", picture.display());
        headless(&browser, folder.path(), &[&size, &shot], &path);
        let bytes = fs::read(&picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{} bytes", bytes.len());
        assert_eq!([&bytes[16..20], &bytes[20..24]], [&u32::to_be_bytes(width)[..], &u32::to_be_bytes(height)[..]]);
    }
}

/// The usual profile has eighteen rows to the host.
#[test]
fn the_usual_report_prints_on_four_pages_at_most() {
    let browser = or_skip!(browser());
    let folder = folder();
    let target = write(folder.path(), format!("{}.bin", "a-long-name".repeat(20)), &pattern(16 << 20));
    let page = folder.path().join("page.html");
    let flags = ["--device=host", "--rounds=1", "--seconds=2.5", "--verify=false", "--json", "--html"];
    let (rows, summary) = report(&Answer::of(forebay().arg("bench").arg(&target).args(flags).arg(&page)));
    let print = folder.path().join("page.pdf");
    headless(&browser, folder.path(), &[&format!("--print-to-pdf={}", print.display())], &page);
    let print = fs::read(&print).unwrap();
    let count = |what: &[u8]| print.windows(what.len()).filter(|found| *found == what).count();
    let pages = count(b"/Type /Page\n") + count(b"/Type /Page ");
    assert!((1..=4).contains(&pages), "{pages} pages of {} rows: {summary}", rows.len());
}

fn browser() -> Result<PathBuf, Skip> {
    let named = std::env::var_os("FOREBAY_BROWSER").map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&folders).flat_map(|folder| {
        ["chromium", "chromium-browser", "google-chrome"]
            .map(|name| folder.join(name))
            .into_iter()
            .filter(|path| path.is_file())
    });
    named.or_else(|| found.next()).ok_or_else(|| Skip::because("no Chromium on PATH; FOREBAY_BROWSER may name one"))
}

/// What the browser says of a page.
fn headless(browser: &Path, folder: &Path, flags: &[&str], page: &Path) -> String {
    let mut command = Command::new("timeout");
    command.arg("120").arg(browser).args([
        "--headless",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ]);
    if is_root() {
        command.arg("--no-sandbox");
    }
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).args(flags);
    let output = command.arg(format!("file://{}", page.display())).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the table says of each row.
fn bodies(page: &str) -> Vec<&str> {
    page.split("<tbody id=\"row-").skip(1).map(|rest| rest.split("</tbody>").next().unwrap()).collect()
}

/// As XML is: tags closed in turn, attributes quoted, and no `&` but of the five that need no declaration, or of a number.
fn well_formed(page: &str) {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document of HTML");
    let mut open: Vec<&str> = Vec::new();
    loop {
        let (text, tag) = rest.split_once('<').unwrap_or((rest, ""));
        for after in text.split('&').skip(1) {
            let name = after.split(';').next().unwrap();
            let known = ["amp", "lt", "gt", "quot", "#39"].contains(&name) && after.len() > name.len();
            assert!(known, "&{after}");
        }
        assert!(!text.chars().any(|char| char.is_control() && char != '\n'), "{text:?}");
        if tag.is_empty() {
            break;
        }
        let end = tag.find('>').unwrap_or_else(|| panic!("<{tag}"));
        let (tag, next) = (&tag[..end], &tag[end + 1..]);
        rest = next;
        assert!(tag.matches('"').count().is_multiple_of(2) && !tag.contains('<'), "<{tag}>");
        let name = tag.split(|char: char| char.is_whitespace() || char == '/').find(|name| !name.is_empty()).unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
        for attribute in
            tag.split('"').step_by(2).skip(1).filter(|between| !between.trim().is_empty() && *between != "/")
        {
            let fits = attribute == " /" || (attribute.starts_with(char::is_whitespace) && attribute.ends_with('='));
            assert!(fits, "<{tag}>: {attribute:?}");
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

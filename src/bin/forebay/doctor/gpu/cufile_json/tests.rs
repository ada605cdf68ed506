use std::fs;

use super::*;

fn read(text: &str) -> CuFileJson {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/cufile.json"), text).unwrap();
    CuFileJson::read(root.path(), |_| None)
}

#[test]
fn comments_are_not_read_and_strings_are_kept_whole() {
    let config = read(
        "# /etc/cufile.json\n{ // all of it\n  \"a\": \"http://x#y \\\" // z\", # why\n  //\"b\": 1,\n  \"c\\\\\": 2 }\n",
    );
    assert_eq!(config.setting("/a").unwrap(), "http://x#y \" // z");
    assert_eq!(config.setting("/c\\").unwrap(), 2);
    assert_eq!(config.setting("/b"), None);
}

#[test]
fn a_mistake_is_named_by_line() {
    for text in ["{\n// one\n\"a\": }", "{\n#\n\"a\": tru }"] {
        let Content::Malformed(why) = read(text).content else { panic!("{text}") };
        assert!(why.contains("line 3"), "{text}: {why}");
    }
}

#[test]
fn anything_else_than_an_object_is_malformed() {
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    for text in
        ["", "// nothing", "[]", "7", "{} {}", "{\"a\": 1,}", deep.as_str(), "/", "\"", "{\"a\": \"open // string\n}"]
    {
        assert!(matches!(read(text).content, Content::Malformed(_)), "{}", text.chars().take(20).collect::<String>());
    }
}

#[test]
fn windows_files_and_a_byte_order_mark_are_read() {
    assert_eq!(read("\u{feff}{ // x\r\n \"a\": 1 }\r\n").setting("/a").unwrap(), 1);
}

#[test]
fn the_environment_names_another_file() {
    let root = tempfile::tempdir().unwrap();
    let other = root.path().join("other.json");
    fs::write(&other, "{\"a\": 1}").unwrap();
    let env = |name: &str| (name == PATH_VARIABLE).then(|| other.clone().into_os_string());
    let config = CuFileJson::read(root.path(), env);
    assert!(config.from_env && config.path == other && config.setting("/a").is_some());
    let empty = CuFileJson::read(root.path(), |_| Some(OsString::new()));
    assert!(!empty.from_env && matches!(empty.content, Content::Missing));
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let fifo = root.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let large = root.path().join("large");
    fs::File::create(&large).unwrap().set_len(LIMIT + 1).unwrap();
    for path in [fifo, large, root.path().to_owned(), PathBuf::from("/dev/zero")] {
        let env = |name: &str| (name == PATH_VARIABLE).then(|| path.clone().into_os_string());
        assert!(matches!(CuFileJson::read(root.path(), env).content, Content::Unreadable(_)), "{}", path.display());
    }
}

pub(in super::super) fn is_forked() -> bool {
    false
}

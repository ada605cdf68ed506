use std::cell::RefCell;
use std::collections::HashSet;

use super::*;

const BLOCK: u64 = 4096;

/// A page cache that is made up: pages by number, who fills it, and whether it lets go of any.
struct Fake {
    pages: RefCell<HashSet<u64>>,
    /// Direct reads of blocks in this range fill the cache.
    fills: Range<u64>,
    /// Pages that others read while we do not.
    meanwhile: RefCell<Vec<u64>>,
    keeps: bool,
    tells: bool,
    /// The file system says that the file is compressed.
    explains: bool,
}

impl Fake {
    fn new(fills: Range<u64>) -> Self {
        let (pages, meanwhile) = Default::default();
        Self { pages, fills, meanwhile, keeps: false, tells: true, explains: false }
    }

    /// A direct read of a range, as a reader makes it.
    fn read(&self, range: &Range<u64>) {
        for page in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            self.read_block(page * BLOCK).unwrap();
        }
    }
}

impl Kernel for Fake {
    fn resident(&self, range: &Range<u64>) -> io::Result<u64> {
        if !self.tells {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let pages = range.start / BLOCK..range.end.div_ceil(BLOCK);
        Ok(self.pages.borrow().iter().filter(|page| pages.contains(page)).count() as u64)
    }

    fn drop_pages(&self, range: &Range<u64>) {
        let pages = range.start / BLOCK..range.end.div_ceil(BLOCK);
        self.pages.borrow_mut().retain(|page| self.keeps || !pages.contains(page));
    }

    fn read_block(&self, offset: u64) -> io::Result<()> {
        if self.fills.contains(&offset) {
            self.pages.borrow_mut().insert(offset / BLOCK);
        }
        Ok(())
    }

    fn pause(&self, _: Duration) {
        self.pages.borrow_mut().extend(self.meanwhile.borrow_mut().pop());
    }

    fn explains(&self, _: &Range<u64>) -> bool {
        self.explains
    }

    fn block(&self) -> u64 {
        BLOCK
    }
}

const PART: Range<u64> = 1 << 20..2 << 20;
/// Of a part that the cache did not hold before.
fn judged(kernel: &Fake, range: Range<u64>) -> Option<bool> {
    held_to(kernel, &Held { range, was_absent: true })
}

const NOTHING: Range<u64> = 0..0;

#[test]
fn reads_that_leave_nothing_in_the_cache_are_direct() {
    let kernel = Fake::new(NOTHING);
    kernel.read(&PART);
    assert_eq!(judged(&kernel, PART), Some(false));
}

#[test]
fn reads_that_fill_the_cache_are_not() {
    let kernel = Fake::new(0..u64::MAX);
    kernel.read(&PART);
    assert_eq!(judged(&kernel, PART), Some(true));
}

/// Extents of btrfs are compressed one by one, 128 KiB each.
#[test]
fn one_compressed_extent_in_a_part_is_found_wherever_it_lies() {
    for extent in 0..8 {
        let start = PART.start + extent * (128 << 10);
        let kernel = Fake::new(start..start + (128 << 10));
        kernel.read(&PART);
        assert_eq!(judged(&kernel, PART), Some(true), "{extent}");
    }
}

#[test]
fn a_single_block_that_begins_inside_a_page_is_held_to() {
    let kernel = Fake::new(0..u64::MAX);
    let part = 512..1024;
    kernel.read(&part);
    assert_eq!(judged(&kernel, part), Some(true));
}

/// Another process reads the same part, buffered, while we read it directly.
#[test]
fn what_others_read_is_not_laid_to_our_reads() {
    let kernel = Fake::new(NOTHING);
    kernel.pages.borrow_mut().extend(PART.start / BLOCK..PART.end / BLOCK);
    assert_eq!(judged(&kernel, PART), Some(false));
    // Nor where they read the block whenever it is looked at after a direct read.
    let kernel = Fake { meanwhile: RefCell::new(vec![PART.start / BLOCK]), ..Fake::new(0..u64::MAX) };
    kernel.read(&PART);
    assert_eq!(judged(&kernel, PART), None);
}

#[test]
fn what_the_file_system_explains_is_believed_of_what_was_not_there_before() {
    // Others read it, too, and the cache cannot be emptied.
    let kernel = Fake { explains: true, keeps: true, ..Fake::new(0..u64::MAX) };
    kernel.read(&PART);
    assert_eq!(judged(&kernel, PART), Some(true));
    assert_eq!(held_to(&kernel, &Held { range: PART, was_absent: false }), None);
    // Nothing came to the cache: whatever is said of the file, it was read directly.
    let kernel = Fake { explains: true, ..Fake::new(NOTHING) };
    kernel.read(&PART);
    assert_eq!(judged(&kernel, PART), Some(false));
}

#[test]
fn where_the_cache_cannot_be_seen_or_emptied_nothing_is_claimed_of_it() {
    let mapped = Fake { keeps: true, ..Fake::new(0..u64::MAX) };
    mapped.read(&PART);
    assert_eq!(judged(&mapped, PART), None);
    let hidden = Fake { tells: false, ..Fake::new(0..u64::MAX) };
    hidden.read(&PART);
    assert_eq!(judged(&hidden, PART), None);
}

#[test]
fn the_first_reads_are_looked_at_and_few_of_the_others() {
    let proof = Proof::default();
    let mut due = Vec::new();
    for number in 0..100 {
        if proof.is_due() {
            due.push(number);
            proof.looks.fetch_add(1, Ordering::Relaxed);
        }
    }
    assert_eq!(due, [0, 1, 2, 3, 16, 32, 48, 64, 80, 96]);
}

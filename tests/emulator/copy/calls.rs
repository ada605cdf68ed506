//! cuMemcpy*.
use super::{End, Host, asynchronous, synchronous, together};
use crate::call::{Answer, call, put, wrong};
use crate::{codes, context, script};

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: usize, len: usize, stream: usize) -> i32 {
    let name = "cuMemcpyHtoDAsync_v2";
    call(name, || asynchronous(name, End::Device(to), End::Host(from), len, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: usize, from: u64, len: usize, stream: usize) -> i32 {
    let name = "cuMemcpyDtoHAsync_v2";
    call(name, || asynchronous(name, End::Host(to), End::Device(from), len, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: usize) -> i32 {
    let name = "cuMemcpyDtoDAsync_v2";
    call(name, || asynchronous(name, End::Device(to), End::Device(from), len, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyAsync(to: u64, from: u64, len: usize, stream: usize) -> i32 {
    call("cuMemcpyAsync", || asynchronous("cuMemcpyAsync", End::of(to), End::of(from), len, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: u64, from: usize, len: usize) -> i32 {
    call("cuMemcpyHtoD_v2", || synchronous("cuMemcpyHtoD_v2", End::Device(to), End::Host(from), len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: usize, from: u64, len: usize) -> i32 {
    call("cuMemcpyDtoH_v2", || synchronous("cuMemcpyDtoH_v2", End::Host(to), End::Device(from), len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, len: usize) -> i32 {
    call("cuMemcpyDtoD_v2", || synchronous("cuMemcpyDtoD_v2", End::Device(to), End::Device(from), len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpy(to: u64, from: u64, len: usize) -> i32 {
    call("cuMemcpy", || synchronous("cuMemcpy", End::of(to), End::of(from), len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(to: u64, ours: usize, from: u64, theirs: usize, len: usize, stream: usize) -> i32 {
    call("cuMemcpyPeerAsync", || {
        peers(ours, theirs)?;
        asynchronous("cuMemcpyPeerAsync", End::Device(to), End::Device(from), len, stream)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeer(to: u64, ours: usize, from: u64, theirs: usize, len: usize) -> i32 {
    call("cuMemcpyPeer", || {
        peers(ours, theirs)?;
        synchronous("cuMemcpyPeer", End::Device(to), End::Device(from), len)
    })
}

fn peers(ours: usize, theirs: usize) -> Answer {
    for context in [ours, theirs] {
        context::device_of(context).or_else(|code| wrong(code, format!("{context:#x} is not a context")))?;
    }
    Ok(())
}

/// CUmemcpyAttributes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Attributes {
    source_order: u32,
    source_hint: [i32; 2],
    destination_hint: [i32; 2],
    flags: u32,
}

/// The arrays of a batch.
struct Batch {
    to: *const u64,
    from: *const u64,
    lens: *const usize,
    count: usize,
    attributes: *const Attributes,
    firsts: *const usize,
    attribute_count: usize,
}

impl Batch {
    fn queue(&self, name: &'static str, stream: usize) -> Result<(), (Option<usize>, i32)> {
        let refused = |code| (None, code);
        if script::setting("no_batch").is_some() {
            return Err(refused(codes::NOT_SUPPORTED));
        }
        context::required().map_err(refused)?;
        self.check().or_else(|why| wrong(codes::INVALID_VALUE, why)).map_err(refused)?;
        if stream <= 1 {
            return wrong(codes::INVALID_VALUE, "a batch cannot go to the default stream").map_err(refused);
        }
        let mut copies = Vec::with_capacity(self.count);
        for index in 0..self.count {
            // SAFETY: the caller gives arrays of `count` elements, which `check` found not to be null.
            let (to, from, len) = unsafe { (*self.to.add(index), *self.from.add(index), *self.lens.add(index)) };
            if len == 0 {
                let failed = wrong(codes::INVALID_VALUE, format!("copy {index} is of 0 bytes"));
                return failed.map_err(|code| (Some(index), code));
            }
            copies.push((End::of(to), End::of(from), len, self.host(index)));
        }
        together(name, &copies, stream)
    }

    /// How the source of a copy may be read, by the attributes that cover it.
    fn host(&self, copy: usize) -> Host {
        const DURING_THE_CALL: u32 = 2;
        // SAFETY: the caller gives arrays of `attribute_count` elements, which `check` found not to be null.
        let order = |index| unsafe { ((*self.firsts.add(index)), (*self.attributes.add(index)).source_order) };
        let covering = (0..self.attribute_count).map(order).take_while(|(first, _)| *first <= copy).last();
        if covering.is_some_and(|(_, order)| order == DURING_THE_CALL) { Host::Read } else { Host::Pinned }
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.count == 0 || self.to.is_null() || self.from.is_null() || self.lens.is_null() {
            return Err("the batch is empty");
        }
        if self.attribute_count == 0 || self.attribute_count > self.count {
            return Err("numAttrs is not between 1 and count");
        }
        if self.attributes.is_null() || self.firsts.is_null() {
            return Err("there are no attributes");
        }
        let mut before = None;
        for index in 0..self.attribute_count {
            // SAFETY: the caller gives arrays of `attribute_count` elements, which are not null.
            let (attributes, first) = unsafe { (*self.attributes.add(index), *self.firsts.add(index)) };
            if before.map_or(first != 0, |before| first <= before) || first >= self.count {
                return Err("attrsIdxs does not rise from 0");
            }
            if !(1..=3).contains(&attributes.source_order) {
                return Err("srcAccessOrder is none that exists");
            }
            before = Some(first);
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyBatchAsync(
    to: *const u64,
    from: *const u64,
    lens: *const usize,
    count: usize,
    attributes: *const Attributes,
    firsts: *const usize,
    attribute_count: usize,
    fail_index: *mut usize,
    stream: usize,
) -> i32 {
    call("cuMemcpyBatchAsync", || {
        let batch = Batch { to, from, lens, count, attributes, firsts, attribute_count };
        batch.queue("cuMemcpyBatchAsync", stream).or_else(|(index, code)| {
            // The header's word for "no copy in particular" is SIZE_MAX.
            if !fail_index.is_null() {
                put(fail_index, index.unwrap_or(usize::MAX))?;
            }
            Err(code)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyBatchAsync_v2(
    to: *const u64,
    from: *const u64,
    lens: *const usize,
    count: usize,
    attributes: *const Attributes,
    firsts: *const usize,
    attribute_count: usize,
    stream: usize,
) -> i32 {
    call("cuMemcpyBatchAsync_v2", || {
        let batch = Batch { to, from, lens, count, attributes, firsts, attribute_count };
        batch.queue("cuMemcpyBatchAsync_v2", stream).map_err(|(_, code)| code)
    })
}

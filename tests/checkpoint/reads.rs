//! What is read of the files: of a share and of a selection its own bytes, and nothing where nothing fits.
use forebay::checkpoint::{LoadOptions, load};
use forebay::{Carrier, Device, EngineChoice, Reader, Route};
use safetensors::Dtype;

use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child, in_child};
use crate::common::weights::{Tensor, oracle, write};
use crate::model::check;
use crate::shares::share;

#[test]
fn only_what_is_asked_for_is_read() {
    let outside = Outside::new();
    let tensors = [
        Tensor::new("a", Dtype::F32, &[8, 64, 1024], 1),
        Tensor::new("b", Dtype::F32, &[4, 16, 8192], 2),
        Tensor::new("c", Dtype::U8, &[100_000], 3),
    ];
    write(outside.path(), "model.safetensors", &tensors);
    expect_child("reads", outside.rerun(&Reduced::new(), "reads::in_child_count"));
}

/// Bytes that this process has asked the kernel for by read and its like.
fn read_so_far() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "a part of another test"]
fn in_child_count() {
    if !in_child() {
        return;
    }
    let path = child_dir().join("model.safetensors");
    let whole = oracle(&std::fs::read(&path).unwrap()).unwrap();
    // Looking at /proc is reading, too.
    read_so_far();
    let looks = {
        let before = read_so_far();
        read_so_far() - before
    };
    /// The header, and what the system is asked about itself.
    const ASIDE: u64 = 32 << 10;
    let reader = Reader::builder().engine(EngineChoice::Pread);
    let cached = Carrier::builder().reader(reader.clone()).route(Route::Cached);
    let bounce = Carrier::builder().reader(reader).route(Route::Bounce);
    for (builder, block) in [(cached, 1), (bounce, 4096)] {
        let count = |options: &LoadOptions, wanted: Option<&Vec<_>>| {
            let before = read_so_far();
            let loaded = load(&path, &Device::host(), options);
            let read = (read_so_far() - before).saturating_sub(looks);
            match (loaded, wanted) {
                (Ok(loaded), Some(wanted)) => check(&loaded, wanted),
                (Err(_), None) => {}
                (Ok(_), None) => panic!("it fits"),
                (Err(error), _) if block > 1 && error.to_string().contains("bounce") => {
                    crate::common::skipped::skipped(format!("bounce: {error}"));
                    return 0;
                }
                (Err(error), _) => panic!("{error}"),
            }
            read
        };
        for axis in 0..3 {
            for (rank, world) in [(0, 1), (0, 2), (3, 4)] {
                let axis_of = move |dims: usize| (dims > axis).then_some(axis);
                let options = LoadOptions::new().names(["a", "b"]).carrier(builder.clone()).tensor_parallel(
                    rank,
                    world,
                    move |spec| axis_of(spec.shape.len()),
                );
                let wanted: Vec<_> =
                    whole[..2].iter().map(|seen| share(seen, axis_of(seen.2.len()), rank, world)).collect();
                let bytes: u64 = wanted.iter().map(|seen| seen.3.len() as u64).sum();
                let runs: u64 = if world == 1 { 2 } else { [2, 8 + 4, 8 * 64 + 4 * 16][axis] };
                let read = count(&options, Some(&wanted));
                let most = bytes + ASIDE + runs * 2 * (block - 1);
                eprintln!("axis {axis}, {rank} of {world}: {read} read for {bytes}, at most {most}");
                assert!(read <= most, "axis {axis}, {rank} of {world}: {read} > {most}");
            }
        }
        let wanted = whole[2..].to_vec();
        assert!(
            count(&LoadOptions::new().carrier(builder.clone()).names(["c"]), Some(&wanted))
                <= 100_000 + ASIDE + 2 * block
        );
        assert!(
            count(&LoadOptions::new().carrier(builder.clone()).budget(1 << 20), None) <= ASIDE,
            "nothing is read that cannot fit"
        );
    }
    child_done();
}

//! More files in one request than a process may have open.
use forebay::Route;

use crate::common::emulated::Emulated;
use crate::common::privilege::Reduced;
use crate::rig::{FORMS, Files, builder, check, whole};

const FILES: usize = 300;

#[test]
fn three_hundred_files_with_sixty_four_descriptors() {
    Emulated::new("").reduced(Reduced::new().open_files(64)).run(|control| {
        let lens: Vec<u64> = (0..FILES as u64).map(|i| 1 + i * 7919 % 20_001).collect();
        let files = Files::new(&lens);
        let wanted: Vec<(u64, u64, u64)> = lens.iter().zip(0..).map(|(&len, seed)| (seed, 0, len)).collect();
        let direct = FORMS.map(|form| builder().route(Route::Direct).direct_form(form));
        for builder in [builder().route(Route::Bounce), builder()].into_iter().chain(direct) {
            let what = format!("{builder:?}");
            let carrier = builder.build().unwrap();
            let opened = files.open(&carrier);
            let extents: Vec<_> = opened.iter().map(whole).collect();
            for _ in 0..3 {
                let landed = carrier.carry_blocking(&extents).unwrap_or_else(|error| panic!("{what}: {error}"));
                check(&landed, &wanted);
            }
        }
        control.assert_clean();
    });
}

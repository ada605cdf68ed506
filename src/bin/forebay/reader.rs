//! A reader as the common flags ask for it.

use forebay::{EngineChoice, Mode, Reader};

use crate::args::{Common, Engine, Route};
use crate::failure::Failure;

/// A reader with the budget asked for, else `usual`.
pub fn build(common: &Common, usual: u64) -> Result<Reader, Failure> {
    let budget = common.budget.map_or(usual, |budget| budget.0);
    let builder = Reader::builder().engine(engine(common.engine)).mode(mode(common.route)).budget(budget);
    builder.build().map_err(Failure::of)
}

fn engine(engine: Engine) -> EngineChoice {
    match engine {
        Engine::Auto => EngineChoice::Auto,
        Engine::Uring => EngineChoice::Uring,
        Engine::Pread => EngineChoice::Pread,
    }
}

/// The host side of a route.
pub fn mode(route: Route) -> Mode {
    match route {
        Route::Bounce => Mode::Direct,
        Route::Cached => Mode::Buffered,
        Route::Auto | Route::Direct => Mode::Auto,
    }
}

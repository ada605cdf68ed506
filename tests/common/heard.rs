//! What the library warns of, from whichever of its threads.

#[path = "../../src/dataset/heard.rs"]
pub mod by_thread;

use std::sync::LazyLock;

use by_thread::Ear;

static EAR: LazyLock<Ear> = LazyLock::new(|| {
    let ear = Ear::default();
    tracing::subscriber::set_global_default(ear.clone()).unwrap();
    ear
});

/// Begins to listen, for the whole process.
pub fn listen() {
    LazyLock::force(&EAR);
}

/// Warnings so far that contain `part`: tests run beside each other, so it should be something of this one's alone.
pub fn warnings(part: &str) -> Vec<String> {
    EAR.0.lock().unwrap().iter().filter(|said| said.contains(part)).cloned().collect()
}

use std::ffi::{CString, c_char, c_int, c_void};

/// The emulator's own functions, in the process that it is loaded in.
#[derive(Debug)]
pub(crate) struct Emulator(libloading::Library);

impl Emulator {
    pub(crate) fn new() -> Self {
        // SAFETY: the emulator runs nothing when it is loaded, and is loaded already.
        Self(unsafe { libloading::Library::new("libcuda.so.1") }.unwrap())
    }

    /// Takes in more of the script.
    pub(crate) fn script(&self, script: &str) {
        let text = CString::new(script).unwrap();
        assert_eq!(self.function::<extern "C" fn(*const c_char) -> c_int>("emulator_script")(text.as_ptr()), 0);
    }

    /// How often a function was called.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        let text = CString::new(name).unwrap();
        self.function::<extern "C" fn(*const c_char) -> u64>("emulator_calls")(text.as_ptr())
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = CString::new(name).unwrap();
        self.function::<extern "C" fn(*const c_char) -> u64>("emulator_cufile_counter")(text.as_ptr())
    }

    pub(crate) fn read_device(&self, address: u64, len: usize) -> Vec<u8> {
        type Read = extern "C" fn(u64, *mut c_void, usize) -> c_int;
        let mut bytes = vec![0; len];
        assert_eq!(self.function::<Read>("emulator_read_device")(address, bytes.as_mut_ptr().cast(), len), 0);
        bytes
    }

    pub(crate) fn messages(&self, name: &str) -> Vec<String> {
        let mut text = vec![0_u8; 1 << 16];
        self.function::<extern "C" fn(*mut c_char, usize) -> u64>(name)(text.as_mut_ptr().cast(), text.len());
        let end = text.iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8_lossy(&text[..end]).lines().map(str::to_owned).collect()
    }

    /// Wants it to have nothing to say against this process, and all that was made to be gone.
    pub(crate) fn is_content(&self) {
        assert_eq!(self.messages("emulator_violations"), [""; 0], "violations");
        assert_eq!(self.messages("emulator_leaks"), [""; 0], "leaks");
    }

    /// A function of the emulator, of which `T` is the type.
    pub(crate) fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the caller gives the function's own type; the emulator stays loaded to the end of the process.
        *unsafe { self.0.get::<T>(name.as_bytes()) }.unwrap()
    }
}

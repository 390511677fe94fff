//! `libsnin_spank.so`: the options of srun, sbatch and salloc by which a user says what links a job gets.
//!
//!     sbatch --snin=slice --snin-wait=10m job.sh
//!
//! An option is checked where it is typed. What was asked for goes with the job into the environment of its
//! prologs and epilogs, where `snin hook` reads it: `SPANK_SNIN` and `SPANK_SNIN_WAIT`. Nothing else is done here:
//! no file, no socket, no thread.
//!
//! Slurm loads the plugin if it was built for that Slurm's version (`build.rs`). Slurm itself has the functions
//! that are called here (`spank.h`).
#![cfg(feature = "spank")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::Mutex;

use snin_fabric::job::Mode;

/// What a job has, as Slurm hands it to a plugin.
type Spank = *mut c_void;
type Callback = extern "C" fn(c_int, *const c_char, c_int) -> c_int;

/// `struct spank_option`.
#[repr(C)]
struct SpankOption {
    name: *const c_char,
    arginfo: *const c_char,
    usage: *const c_char,
    has_arg: c_int,
    val: c_int,
    cb: Option<Callback>,
}

// SAFETY: what it points to are texts of the program, which are there and the same for ever.
unsafe impl Sync for SpankOption {}

unsafe extern "C" {
    safe fn spank_context() -> c_int;
    fn spank_option_register(spank: Spank, option: *const SpankOption) -> c_int;
    fn spank_job_control_setenv(
        spank: Spank,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> c_int;
    fn slurm_error(format: *const c_char, ...);
}

/// `S_CTX_LOCAL`: srun. `S_CTX_ALLOCATOR`: sbatch and salloc.
const LOCAL: c_int = 1;
const ALLOCATOR: c_int = 3;
/// `ESPANK_SUCCESS`.
const SUCCESS: c_int = 0;

/// Its name in Slurm's messages.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 5] = *b"snin\0";
/// Which kind of plugin it is.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";
/// The Slurm that it is for.
#[unsafe(no_mangle)]
pub static plugin_version: c_uint = version(env!("SNIN_SLURM_VERSION"));
/// Its own version.
#[unsafe(no_mangle)]
pub static spank_plugin_version: c_uint = 1;
/// The Slurm that it is for, for `snin slurm install`, which looks for this text in the file.
#[unsafe(no_mangle)]
pub static snin_spank_is_for: &[u8] =
    concat!("snin-spank is for Slurm ", env!("SNIN_SLURM_VERSION"), "\n").as_bytes();

const fn version(digits: &str) -> c_uint {
    match c_uint::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script gives a number"),
    }
}

/// An option: how it is registered, and the variable that prologs see with SPANK_ before it.
struct Asked {
    option: SpankOption,
    variable: &'static CStr,
    value: Mutex<Option<CString>>,
}

static ASKED: [Asked; 2] = [
    Asked {
        option: SpankOption {
            name: c"snin".as_ptr(),
            arginfo: c"slice|pinned|PATTERN|off".as_ptr(),
            usage: c"links of the fabric for this job alone (slice), trees for its pairs of hosts (pinned), a \
                     tree for all that each host sends (ring, bidir, hd, alltoall, grid:AxB, halo:AxB), or \
                     nothing (off)"
                .as_ptr(),
            has_arg: 1,
            val: 0,
            cb: Some(take),
        },
        variable: c"SNIN",
        value: Mutex::new(None),
    },
    Asked {
        option: SpankOption {
            name: c"snin-wait".as_ptr(),
            arginfo: c"TIME".as_ptr(),
            usage: c"how long the job may wait for links before its site's rule for that holds, as 10m".as_ptr(),
            has_arg: 1,
            val: 1,
            cb: Some(take),
        },
        variable: c"SNIN_WAIT",
        value: Mutex::new(None),
    },
];

/// Why an option's value is refused.
fn fault(option: usize, value: &str) -> Option<String> {
    match option {
        0 if Mode::parse(value).is_none() => Some(format!(
            "--snin={value:.40}: slice, pinned, off, or ring, bidir, hd, alltoall, grid:AxB, halo:AxB"
        )),
        1 => {
            let why = humantime::parse_duration(value).err()?;
            Some(format!("--snin-wait={value:.40}: {why}"))
        }
        _ => None,
    }
}

/// Slurm has an option. On the nodes it comes again, from where it was checked.
extern "C" fn take(option: c_int, value: *const c_char, remote: c_int) -> c_int {
    let asked = usize::try_from(option).ok().and_then(|at| Some((at, ASKED.get(at)?)));
    let (Some((at, asked)), false) = (asked, value.is_null()) else { return -1 };
    // SAFETY: Slurm gives the option's argument, a text that ends with NUL.
    let value = unsafe { CStr::from_ptr(value) }.to_owned();
    let why = if remote == 0 { fault(at, &value.to_string_lossy()) } else { None };
    if let Some(why) = why.and_then(|why| CString::new(why).ok()) {
        // SAFETY: the format takes one text, and gets one that ends with NUL.
        unsafe { slurm_error(c"snin: %s".as_ptr(), why.as_ptr()) };
        return -1;
    }
    if let Ok(mut kept) = asked.value.lock() {
        *kept = Some(value);
    }
    SUCCESS
}

/// Slurm loaded the plugin.
///
/// # Safety
/// `spank` is what Slurm calls plugins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_init(
    spank: Spank,
    _count: c_int,
    _words: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's handle, and an option that is there for ever.
    let register = |asked: &Asked| unsafe { spank_option_register(spank, &raw const asked.option) };
    ASKED.iter().map(register).find(|&code| code != SUCCESS).unwrap_or(SUCCESS)
}

/// Slurm read all options: what was asked for goes with the job.
///
/// # Safety
/// `spank` is what Slurm calls plugins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_init_post_opt(
    spank: Spank,
    _count: c_int,
    _words: *const *const c_char,
) -> c_int {
    if ![LOCAL, ALLOCATOR].contains(&spank_context()) {
        return SUCCESS;
    }
    for asked in &ASKED {
        let value = asked.value.lock().ok().and_then(|value| value.clone());
        let given = value.as_ref().map_or(null(), |value| value.as_ptr());
        if given.is_null() {
            continue;
        }
        // SAFETY: the caller's handle, and two texts that end with NUL and outlive the call.
        let code = unsafe { spank_job_control_setenv(spank, asked.variable.as_ptr(), given, 1) };
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

//! Asking the processor to fetch memory that is going to be read. A read would do so too, but the processor waits for it sooner or later; many
//! prefetches go on at a time, as many as it can have under way.
#![allow(
    unsafe_code,
    reason = "the instructions take an address; they read nothing and cannot fail, whatever it is"
)]

/// Has the line of memory fetched in which something begins.
#[inline(always)]
pub(crate) fn prefetch<T>(item: &T) {
    let address = std::ptr::from_ref(item);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it has no effect but on the processor's caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every 64-bit ARM processor has the instruction, and it has no effect but on the processor's caches.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// The same where there may be nothing.
#[inline(always)]
pub(crate) fn prefetch_at<T>(items: &[T], place: usize) {
    if let Some(item) = items.get(place) {
        prefetch(item);
    }
}

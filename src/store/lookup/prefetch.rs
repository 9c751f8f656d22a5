//! Asking the processor to fetch memory that will be read soon. The processor waits for a read, but not
//! for a prefetch. Therefore many prefetches go on at the same time.
#![allow(
    unsafe_code,
    reason = "the instructions take an address; they read nothing and cannot fail, whatever it is"
)]

/// Fetches the line of memory in which `item` begins.
#[inline(always)]
pub(crate) fn prefetch<T>(item: &T) {
    let address = std::ptr::from_ref(item);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and its only effect is on the caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every 64-bit ARM processor has the instruction, and its only effect is on the caches.
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

/// Fetches the line of memory in which the item at `index` begins, if the list has such an item.
#[inline(always)]
pub(crate) fn prefetch_at<T>(items: &[T], index: usize) {
    if let Some(item) = items.get(index) {
        prefetch(item);
    }
}

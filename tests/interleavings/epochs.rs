//! Stands in for the crate `sdd`: places of values that are read without a lock. Nothing is ever freed here, so a value
//! stays readable whatever becomes of its place. That values are freed when nobody reads them is the crate's own work.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

/// Somebody who reads.
pub(crate) struct Guard;

impl Guard {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn accelerate(&self) {}
}

/// A value.
pub(crate) struct Owned<T: 'static>(&'static T);

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Box::leak(Box::new(value)))
    }
}

/// A place for the work of the crate, which has none here.
impl<T> Drop for Owned<T> {
    fn drop(&mut self) {}
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Tag {
    None,
}

/// What a place has.
pub(crate) struct Ptr<'g, T: 'static>(Option<&'static T>, PhantomData<&'g Guard>);

impl<'g, T> Ptr<'g, T> {
    pub(crate) fn as_ref(&self) -> Option<&'g T> {
        self.0
    }
}

/// A place of a value.
pub(crate) struct AtomicOwned<T: 'static>(Mutex<Option<Owned<T>>>);

impl<T> AtomicOwned<T> {
    pub(crate) fn null() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn is_null(&self, _: Ordering) -> bool {
        self.0.lock().is_none()
    }

    pub(crate) fn load<'g>(&self, _: Ordering, _: &'g Guard) -> Ptr<'g, T> {
        Ptr(self.0.lock().as_ref().map(|owned| owned.0), PhantomData)
    }

    pub(crate) fn swap(
        &self,
        (new, tag): (Option<Owned<T>>, Tag),
        _: Ordering,
    ) -> (Option<Owned<T>>, Tag) {
        (std::mem::replace(&mut *self.0.lock(), new), tag)
    }
}

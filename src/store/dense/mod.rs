pub(crate) mod build;
pub(crate) mod bulk;
pub(crate) mod copy;
pub(crate) mod sort;

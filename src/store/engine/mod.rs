pub(crate) mod guard;
#[cfg(test)]
pub(crate) mod recording;
pub(crate) mod tables;

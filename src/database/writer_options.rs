//! The options of a writer.

use std::time::Duration;

/// When a [`Writer`](crate::Writer) tells what became of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// When the document is durable.
    #[default]
    Durable,
    /// When it is decided what is done with the document, before the commit.
    ///
    /// If the commit then fails, the document is not stored. [`Writer::flush`](crate::Writer::flush) and
    /// [`Writer::close`](crate::Writer::close) tell of that.
    Decided,
}

/// The choices of a [`Writer`](crate::Writer).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use simdb::WriterOptions;
///
/// let options = WriterOptions::new().max_age(Duration::from_millis(2)).batch(1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    pub(super) batch: usize,
    pub(super) max_age: Duration,
    pub(super) queue: usize,
    pub(super) queue_bytes: usize,
    pub(super) answers: Answers,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch: 10_000,
            max_age: Duration::from_millis(5),
            queue: 20_000,
            queue_bytes: 64 << 20,
            answers: Answers::default(),
        }
    }
}

impl WriterOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most submissions that are committed together. Default: 10,000. The least is one.
    #[must_use]
    pub fn batch(mut self, submissions: usize) -> Self {
        self.batch = submissions.max(1);
        self
    }

    /// The longest time that a submission waits for others, before it is decided and committed with them.
    /// Default: 5 ms.
    ///
    /// This matters for those who submit and do not wait. If everybody waits who has submitted something,
    /// nothing more can come, and the commit begins at once. It also begins when somebody finds the queue full.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// The most submissions that wait in the queue. Default: 20,000. The least is one.
    ///
    /// Whoever submits more waits until there is room.
    #[must_use]
    pub fn queue(mut self, submissions: usize) -> Self {
        self.queue = submissions.max(1);
        self
    }

    /// The most memory that the queue takes, in bytes. Default: 64 MiB.
    ///
    /// As much again may be in the group that is being committed. One submission always has room, however
    /// large it is.
    #[must_use]
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// When the writer tells what became of a document. Default: [`Answers::Durable`].
    #[must_use]
    pub fn answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }
}

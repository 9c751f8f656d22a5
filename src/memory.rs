//! Memory: how much of it the machine and the control groups of the process allow, and the share of it that
//! the cache of a database may take.

use std::fs;
use std::path::{Path, PathBuf};

/// How much memory a database may take for data that was read from the file. Default: a quarter of the
/// memory that the process may have.
///
/// It is a limit. Memory is taken as data is read, and not before.
///
/// # Example
///
/// ```
/// use simdb::{Cache, CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// assert_eq!(Cache::default(), Cache::Share(0.25));
/// let database = Database::create(&path, &CreateOptions::new().cache(Cache::Bytes(64 << 20)))?;
/// assert!(database.snapshot()?.stats()?.cache_limit_bytes <= 64 << 20);
/// database.set_cache(Cache::Bytes(32 << 20))?;
/// assert!(database.snapshot()?.stats()?.cache_limit_bytes <= 32 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cache {
    /// A number of bytes, but not more than the memory that the process may have.
    Bytes(usize),
    /// A share of the memory that the process may have, from 0 to 1.
    ///
    /// That is the memory of the machine, or the least limit of the control groups (cgroups) of the process,
    /// whichever is less. Each open database takes a share of its own. If the system does not tell, the share
    /// is one of 1 GiB.
    Share(f64),
}

impl Default for Cache {
    fn default() -> Self {
        Self::Share(0.25)
    }
}

impl Cache {
    /// The bytes of this cache, if the process may have `memory` bytes.
    pub(crate) fn bytes(self, memory: Option<u64>) -> usize {
        const NOT_TOLD: u64 = 1 << 30;
        match self {
            Self::Bytes(bytes) => match memory {
                Some(most) => bytes.min(as_usize(most)),
                None => bytes,
            },
            // A share that is not a number is one of 0.
            Self::Share(share) => {
                let memory = memory.unwrap_or(NOT_TOLD) as f64;
                as_usize((memory * share.clamp(0.0, 1.0)) as u64)
            }
        }
    }
}

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Where the system tells how much memory there is. Linux does so in files.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The directory that holds `proc` and the mounted control groups: `/`, or another one in tests.
    root: PathBuf,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
        }
    }
}

impl Memory {
    /// A system whose files are below `root`.
    #[cfg(test)]
    pub(crate) fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The bytes that the process may have now: the memory of the machine, or the least limit of a control
    /// group. `None` if the system does not tell.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let meminfo = self.read("/proc/meminfo").unwrap_or_default();
        let machine = machine_bytes(&meminfo);
        machine.into_iter().chain(self.group_limits()).min()
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.inside(path.as_ref())).ok()
    }

    fn inside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The limits of the control groups of the process and of the groups above them.
    fn group_limits(&self) -> Vec<u64> {
        let groups = self.read("/proc/self/cgroup").unwrap_or_default();
        let mounts = self.read("/proc/self/mountinfo").unwrap_or_default();
        let mut limits = Vec::new();
        for line in mounts.lines() {
            if let Some(mount) = Mount::new(line, &groups) {
                limits.extend(self.limits_of(&mount));
            }
        }
        limits
    }

    /// The limits of a group and of those above it, up to where they are mounted. A process in a container
    /// does not see the groups further up.
    fn limits_of(&self, mount: &Mount<'_>) -> Vec<u64> {
        let mut limits = Vec::new();
        for group in mount.group.ancestors() {
            let folder = Path::new(mount.at).join(group);
            for file in mount.files {
                let limit = self.read(folder.join(file)).unwrap_or_default();
                limits.extend(limit.trim().parse::<u64>());
            }
        }
        limits
    }
}

/// A mounted tree of control groups, and the group of the process in it.
struct Mount<'a> {
    at: &'a str,
    /// The path of the group below the mount.
    group: &'a Path,
    /// The files that have limits.
    files: &'static [&'static str],
}

impl<'a> Mount<'a> {
    /// The mount that a line of `mountinfo` tells of, if it is a tree of control groups that limits memory.
    /// `groups` has the groups of the process.
    fn new(line: &'a str, groups: &'a str) -> Option<Self> {
        // The fields are: number, number of the parent, device, root, mount point, options. Then, after a
        // dash: kind, source, options of the file system.
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let root = mount.next()?;
        let at = mount.next()?;
        let kind = system.split(' ').next()?;
        let options = system.rsplit(' ').next()?;
        // Version 1 has a tree for each kind of resource, version 2 one for all, which has no names.
        let (names, files): (&str, &[&str]) = match kind {
            "cgroup2" => ("", &["memory.max", "memory.high"]),
            "cgroup" if has(options, ',', "memory") => ("memory", &["memory.limit_in_bytes"]),
            _ => return None,
        };
        let path = groups.lines().find_map(|line| path_of_group(line, names))?;
        // In a container, the group may be the root of the mount, or be told as a path that leads out of it.
        let group = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let group = if has(path, '/', "..") {
            Path::new("")
        } else {
            group
        };
        Some(Self { at, group, files })
    }
}

/// Whether one of the parts of a text is this one.
fn has(text: &str, separator: char, part: &str) -> bool {
    text.split(separator).any(|other| other == part)
}

/// The path of the group that a line tells of, if it is one of the resource of this name.
fn path_of_group<'l>(line: &'l str, resource: &str) -> Option<&'l str> {
    let mut fields = line.splitn(3, ':').skip(1);
    let resources = fields.next()?;
    let path = fields.next()?;
    has(resources, ',', resource).then_some(path)
}

/// The memory of the machine, by the text that Linux has about it.
fn machine_bytes(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let total = lines.find_map(|line| line.strip_prefix("MemTotal:"))?;
    let number = total.trim().strip_suffix("kB")?;
    let kibibytes: u64 = number.trim().parse().ok()?;
    (kibibytes > 0).then_some(kibibytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory that files with these texts tell of.
    fn memory(files: &[(&str, &str)]) -> Option<u64> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("it is in a directory"))
                .expect("a directory is made");
            fs::write(path, text).expect("a file is written");
        }
        Memory::below(folder.path()).bytes()
    }

    const MACHINE: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16000000 kB\nMemFree:  231504 kB\n",
    );
    const MACHINE_BYTES: u64 = 16_000_000 << 10;

    #[test]
    fn the_machine_tells_its_memory_or_nothing() {
        assert_eq!(memory(&[MACHINE]), Some(MACHINE_BYTES));
        assert_eq!(memory(&[]), None);
        assert_eq!(memory(&[("proc/meminfo", "MemTotal: 0 kB")]), None);
    }

    #[test]
    fn the_least_limit_of_the_group_and_of_those_above_it_counts() {
        let limited = |files: &[(&str, &str)]| {
            let group = ("proc/self/cgroup", "0::/a/b\n");
            let mount =
                "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
            memory(&[&[MACHINE, group, ("proc/self/mountinfo", mount)], files].concat())
        };
        let file = |path: &'static str| move |text: &'static str| (path, text);
        let own_max = file("sys/fs/cgroup/a/b/memory.max");
        let own_high = file("sys/fs/cgroup/a/b/memory.high");
        let above = file("sys/fs/cgroup/a/memory.high");
        let beside = file("sys/fs/cgroup/c/memory.max");
        assert_eq!(
            limited(&[own_max("max\n"), beside("5\n")]),
            Some(MACHINE_BYTES)
        );
        assert_eq!(
            limited(&[own_max("5000000\n"), own_high("max\n")]),
            Some(5_000_000)
        );
        assert_eq!(
            limited(&[own_max("5000000\n"), own_high("4000000\n")]),
            Some(4_000_000)
        );
        assert_eq!(
            limited(&[own_max("5000000\n"), above("3000000\n")]),
            Some(3_000_000)
        );
        assert_eq!(limited(&[own_max("99000000000\n")]), Some(MACHINE_BYTES));
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let groups = (
            "proc/self/cgroup",
            "9:name=systemd:/\n4:cpu,memory:/box/1\n0::/\n",
        );
        let mount = |root: &str| {
            format!(
                "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                 32 31 0:29 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                 35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpu,memory\n"
            )
        };
        let limit = |path: &'static str, text: &'static str| (path, text);
        for (root, path) in [
            ("/", "sys/fs/cgroup/memory/box/1/memory.limit_in_bytes"),
            ("/", "sys/fs/cgroup/memory/memory.limit_in_bytes"),
            // The container sees its own group as the root.
            ("/box/1", "sys/fs/cgroup/memory/memory.limit_in_bytes"),
        ] {
            let mounts = mount(root);
            let files = [
                MACHINE,
                groups,
                ("proc/self/mountinfo", &mounts),
                limit(path, "7000000\n"),
            ];
            assert_eq!(memory(&files), Some(7_000_000), "{root} {path}");
        }
        let mounts = mount("/");
        let none = limit(
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(
            memory(&[MACHINE, groups, ("proc/self/mountinfo", &mounts), none]),
            Some(MACHINE_BYTES)
        );
    }

    #[test]
    fn a_cache_is_within_the_memory() {
        let memory = Some(8 << 30);
        assert_eq!(Cache::default().bytes(memory), 2 << 30);
        assert_eq!(Cache::Share(7.0).bytes(memory), 8 << 30);
        for nothing in [Cache::Share(-1.0), Cache::Share(f64::NAN), Cache::Bytes(0)] {
            assert_eq!(nothing.bytes(memory), 0, "{nothing:?}");
        }
        assert_eq!(Cache::Bytes(5).bytes(memory), 5);
        assert_eq!(Cache::Bytes(usize::MAX).bytes(memory), 8 << 30);
        assert_eq!(
            (Cache::Bytes(5).bytes(None), Cache::default().bytes(None)),
            (5, 256 << 20)
        );
    }
}

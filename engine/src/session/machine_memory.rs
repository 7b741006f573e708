//! The memory of the machine, or of the control group that the process runs in.

use std::fs;
use std::path::Path;

/// Bytes of memory that the process may use: the machine's memory, or less if a control group limits it.
///
/// Sources: `/proc/meminfo`; `memory.max` (cgroup v2) and `memory.limit_in_bytes` (v1) of the process's group and of
/// the groups around it. `None`: the system has no such file.
pub(super) fn machine_memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .as_deref()
        .and_then(memory_total);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit(Path::new("/sys/fs/cgroup"), &groups);
    machine.into_iter().chain(limit).min()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The smallest limit of the groups that `groups` names, a text of `/proc/self/cgroup`, and of the groups around them.
///
/// In a container the text can name a folder of the host. Then the mount at `root` is the container's own group.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (mount, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = mount.join(path.trim_start_matches('/'));
        let around = group.ancestors().take_while(|folder| folder.starts_with(&mount));
        around.filter_map(|folder| limit_in(&folder.join(file))).min()
    });
    limits.min()
}

/// The number in a limit's file; `None` for `max` and for files that cannot be read.
fn limit_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn machine_has_memory() {
        assert!(machine_memory_bytes().is_some_and(|bytes| bytes > 64 << 20));
        assert_eq!(memory_total("MemFree: 1 kB\nMemTotal:   2048 kB\n"), Some(2 << 20));
        assert_eq!(memory_total("MemTotal: many"), None);
    }

    #[test]
    fn group_limit_is_the_smallest_of_the_groups_around_the_process() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a/memory.max", "3000\n");
        write(root.path(), "a/b/memory.max", "max\n");
        write(root.path(), "memory/c/memory.limit_in_bytes", "2000\n");
        assert_eq!(group_limit(root.path(), "0::/a/b\n"), Some(3000));
        assert_eq!(
            group_limit(root.path(), "5:cpu:/x\n4:memory,hugetlb:/c\n0::/a/b\n"),
            Some(2000)
        );
        assert_eq!(group_limit(root.path(), "0::/\n"), None);
        // A container's file system has no folder of the host's name.
        write(root.path(), "memory.max", "1000\n");
        assert_eq!(group_limit(root.path(), "0::/docker/4af1\n"), Some(1000));
        assert_eq!(group_limit(root.path(), "nonsense"), None);
    }
}

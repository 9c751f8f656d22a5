//! Who may read and write a database and its copies. Only the superuser can give files away, so these tests
//! do nothing for others.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use simdb::Database;

use crate::support::{
    Folder, Ran, TestResult, assert_sound, done, going_on, insert_all, keyed, program, simdb, tiny,
};

/// A user and a group that own nothing else.
const SOMEBODY: u32 = 4_321;
const ANOTHER: u32 = 8_765;

/// A folder in which everybody may write. `None` if this process cannot give files away.
fn open_folder() -> io::Result<Option<Folder>> {
    let folder = Folder::new()?;
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o777))?;
    let may_give = fs::metadata(folder.path("."))?.uid() == 0;
    if !may_give {
        // Not with `eprintln!`, which the test harness captures, so the skipped test is seen.
        _ = writeln!(
            io::stderr(),
            "skipped, since only the superuser can give files away"
        );
    }
    Ok(may_give.then_some(folder))
}

/// A database of somebody.
fn database_of_somebody(folder: &Folder, mode: u32) -> TestResult<PathBuf> {
    let path = folder.path("d.simdb");
    _ = fs::remove_file(&path);
    insert_all(
        &folder.tiny_database("d.simdb")?,
        keyed(0..100, |i| i << 40),
    )?;
    chown(&path, Some(SOMEBODY), Some(SOMEBODY))?;
    fs::set_permissions(&path, Permissions::from_mode(mode))?;
    Ok(path)
}

/// The program, run by another user. It is copied into the folder, since that user may not be able to read the
/// folder in which it was built.
fn as_another(folder: &Folder, group: u32) -> Command {
    let program = folder.path("program");
    if !program.exists() {
        fs::copy(simdb().get_program(), &program).expect("the program can be copied");
    }
    let mut command = Command::new(program);
    command.uid(ANOTHER).gid(group).stdin(Stdio::null());
    command
}

/// Owner, group and mode.
fn access(path: &Path) -> io::Result<(u32, u32, u32)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.uid(), metadata.gid(), metadata.mode() & 0o7777))
}

/// Everybody could read the copy of a private file while it was made, and also after a kill. At the end it
/// belonged to the user who had compacted it, and its owner could no longer open it.
#[test]
fn a_compacted_file_keeps_its_owner_and_its_mode() -> TestResult {
    let Some(folder) = open_folder()? else {
        return Ok(());
    };
    for mode in [0o600, 0o640, 0o664] {
        let path = database_of_somebody(&folder, mode)?;
        done!("compact", &path);
        assert_eq!(access(&path)?, (SOMEBODY, SOMEBODY, mode));
        assert_sound(&Database::open(&path, &tiny())?)?;
    }
    // The mode is that of the end, as far as it is known.
    let path = database_of_somebody(&folder, 0o644)?;
    let private = Permissions::from_mode(0o600);
    let database = Database::open(&path, &tiny())?;
    let set = || fs::set_permissions(&path, private.clone()).expect("the file is there");
    database.compact(going_on(|_, _| set()))?;
    assert_eq!(access(&path)?, (SOMEBODY, SOMEBODY, 0o600));
    Ok(())
}

#[test]
fn a_file_whose_owner_cannot_be_kept_is_not_compacted() -> TestResult {
    let Some(folder) = open_folder()? else {
        return Ok(());
    };
    let path = database_of_somebody(&folder, 0o666)?;
    let before = fs::metadata(&path)?.ino();
    Ran::from(
        as_another(&folder, ANOTHER)
            .arg("compact")
            .arg(&path)
            .output()?,
    )
    .refused("belongs to another user or group")
    .says("nothing was done");
    assert_eq!(
        (fs::metadata(&path)?.ino(), access(&path)?),
        (before, (SOMEBODY, SOMEBODY, 0o666))
    );
    assert_eq!(folder.count()?, 2, "something is left");
    // Its own files can be compacted by anybody.
    chown(&path, Some(ANOTHER), Some(ANOTHER))?;
    Ran::from(
        as_another(&folder, ANOTHER)
            .arg("compact")
            .arg(&path)
            .output()?,
    )
    .expect(0);
    assert_eq!(access(&path)?, (ANOTHER, ANOTHER, 0o666));
    Ok(())
}

/// Everybody could read the backup of a private file.
#[test]
fn a_backup_can_be_read_by_no_more_people_than_the_original() -> TestResult {
    let Some(folder) = open_folder()? else {
        return Ok(());
    };
    let to = folder.path("b.simdb");
    let assert_backup = |command: &mut Command, mode, expected| -> TestResult {
        let path = database_of_somebody(&folder, mode)?;
        Ran::from(command.arg(path).arg(&to).output()?).expect(0);
        assert_eq!(access(&to)?, expected, "{mode:o}");
        Ok(fs::remove_file(&to)?)
    };
    // The superuser gives the copy to the owner of the original.
    for mode in [0o600, 0o640, 0o644] {
        assert_backup(&mut program!("backup"), mode, (SOMEBODY, SOMEBODY, mode))?;
    }
    // A member of the group keeps the group.
    assert_backup(
        as_another(&folder, SOMEBODY).arg("backup"),
        0o640,
        (ANOTHER, SOMEBODY, 0o640),
    )?;
    // For others it is another group, which gets nothing. The old group may get what all others get, if it
    // could read the original.
    assert_backup(
        as_another(&folder, ANOTHER).arg("backup"),
        0o644,
        (ANOTHER, ANOTHER, 0o604),
    )?;
    assert_backup(
        as_another(&folder, ANOTHER).arg("backup"),
        0o604,
        (ANOTHER, ANOTHER, 0o600),
    )?;
    // The umask counts too.
    let mut careful = Command::new("sh");
    careful.args([
        "-c",
        "umask 077; exec \"$0\" backup \"$@\"",
        env!("CARGO_BIN_EXE_simdb"),
    ]);
    assert_backup(&mut careful, 0o644, (SOMEBODY, SOMEBODY, 0o600))
}

/// An access list (ACL), as the system stores it: the owner may read and write, `SOMEBODY` may read, the
/// group and the others may do nothing.
#[cfg(target_os = "linux")]
fn access_list() -> Vec<u8> {
    let entry = |tag: u16, mode: u16, id: u32| {
        [
            &tag.to_le_bytes()[..],
            &mode.to_le_bytes()[..],
            &id.to_le_bytes()[..],
        ]
        .concat()
    };
    let (owner, user, group, mask, others) = (1, 2, 4, 16, 32);
    let entries = [
        entry(owner, 6, u32::MAX),
        entry(user, 4, SOMEBODY),
        entry(group, 0, u32::MAX),
        entry(mask, 4, u32::MAX),
        entry(others, 0, u32::MAX),
    ];
    [&2u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// In a file with an access list, the mode of the group is the most that the list gives to anybody. A copy
/// with the same mode and without the list gave it to the group. A copy in a directory with a list gave that
/// list to people who could not read the original.
#[cfg(target_os = "linux")]
#[test]
fn a_copy_has_the_access_list_of_the_original_and_no_other() -> TestResult {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let (list, of_directory) = ("system.posix_acl_access", "system.posix_acl_default");
    let Some(folder) = open_folder()? else {
        return Ok(());
    };
    let (from, to) = (folder.path("d.simdb"), folder.path("b.simdb"));
    let length = |path: &Path| getxattr(path, list, &mut [0; 1_000]).unwrap_or(0);
    let copy = || -> TestResult {
        done!("compact", &from);
        done!("backup", &from, &to);
        Ok(())
    };
    database_of_somebody(&folder, 0o600)?;
    if setxattr(&from, list, &access_list(), XattrFlags::empty()).is_err() {
        _ = writeln!(
            io::stderr(),
            "skipped, since this file system has no access lists"
        );
        return Ok(());
    }
    copy()?;
    assert_eq!([length(&from), length(&to)], [access_list().len(); 2]);
    assert_eq!([access(&from)?.2, access(&to)?.2], [0o640; 2]);
    fs::remove_file(&to)?;

    database_of_somebody(&folder, 0o640)?;
    setxattr(
        folder.path("."),
        of_directory,
        &access_list(),
        XattrFlags::empty(),
    )?;
    copy()?;
    assert_eq!([length(&from), length(&to)], [0, 0]);
    assert_eq!([access(&from)?.2, access(&to)?.2], [0o640; 2]);
    Ok(())
}

/// A command that only reads opens a file to write if it has to be recovered. If that was not allowed, the
/// message was that permission was denied, and not what has to be done.
#[test]
fn a_file_that_must_be_recovered_and_cannot_be_written_says_so() -> TestResult {
    let Some(folder) = open_folder()? else {
        return Ok(());
    };
    let path = folder.path("d.simdb");
    let database = folder.tiny_database("open.simdb")?;
    insert_all(&database, keyed(0..100, |i| i << 40))?;
    // The copy looks as if its writer had been killed.
    fs::copy(folder.path("open.simdb"), &path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    let stats = || {
        as_another(&folder, ANOTHER)
            .arg("stats")
            .arg(&path)
            .output()
            .map(Ran::from)
    };
    stats()?
        .refused("was not closed in order")
        .says("open it for writing once");
    drop(Database::open(&path, &tiny())?);
    stats()?.expect(0);
    Ok(())
}

/// `check` opens a file to write, since the engine verifies its pages only then. A file that may only be read
/// was not checked at all.
#[test]
fn a_file_that_may_only_be_read_is_checked_but_for_its_pages() -> TestResult {
    let Some(folder) = open_folder()? else {
        return Ok(());
    };
    let path = database_of_somebody(&folder, 0o644)?;
    let checked = |arguments: &[&str]| {
        let mut command = as_another(&folder, ANOTHER);
        let command = command.arg("check").args(arguments).arg(&path);
        command.output().map(Ran::from)
    };
    checked(&[])?
        .expect(0)
        .prints("sound")
        .prints("checksums of the pages were not verified");
    let object = checked(&["--json"])?.expect(0).object()?;
    assert_eq!(object["pages_verified"], false);
    Ok(())
}

/// The link was replaced by a file, and the texts in a page that nobody else could read were for all.
#[test]
fn a_result_in_the_place_of_a_file_is_where_that_was_and_for_whom_that_was() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    insert_all(&folder.tiny_database("d.simdb")?, keyed(0..10, |i| i << 40))?;
    let (page, link) = (folder.path("page.html"), folder.path("link.html"));
    for mode in [0o600, 0o640] {
        fs::write(&page, "old")?;
        fs::set_permissions(&page, Permissions::from_mode(mode))?;
        _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("page.html", &link)?;
        done!("report", &database, "--html", &link, "--replace");
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        assert!(fs::read_to_string(&page)?.starts_with("<!DOCTYPE html>"));
        assert_eq!(fs::metadata(&page)?.mode() & 0o777, mode & !umask(&folder)?);
    }
    Ok(())
}

/// What the mask of this process takes from the modes of new files.
fn umask(folder: &Folder) -> io::Result<u32> {
    let made = fs::File::create(folder.path("made"))?;
    Ok(0o666 & !made.metadata()?.mode())
}

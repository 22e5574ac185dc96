//! Which paths users other than the one who runs the process can read.

use std::io::Result;
use std::path::Path;

/// Why other users can read a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// It belongs to another user.
    Owner,
    /// Others have a permission on it.
    Permissions,
    /// Others have a permission on it, as on every file of its file system.
    FileSystem,
}

/// Returns why users other than the one who runs the process can read a path or have any other permission on it; `None`
/// if they have none, if the path does not exist, or if the system does not say. Links are followed.
///
/// The path is compared with a file that is created in the folder `beside`, because some file systems have one owner or
/// one mode for all files.
///
/// # Errors
/// Returns an error if the path can't be examined, or if only a comparison can tell and no file can be created in
/// `beside`.
pub fn shared(path: &Path, beside: &Path) -> Result<Option<Shared>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        const OTHERS: u32 = 0o077;
        let about = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            about => about?,
        };
        let open = about.mode() & OTHERS != 0;
        // One with a name: an unnamed one is open to others.
        let own = crate::failing::step().and_then(|()| tempfile::NamedTempFile::new_in(beside));
        let own = match own.and_then(|own| own.as_file().metadata()) {
            Err(error) if !open => return Err(error),
            own => own.ok(),
        };
        Ok(match own {
            Some(own) if own.uid() != about.uid() => Some(Shared::Owner),
            _ if !open => None,
            Some(own) if own.mode() & OTHERS != 0 => Some(Shared::FileSystem),
            _ => Some(Shared::Permissions),
        })
    }
    #[cfg(not(unix))]
    {
        let _ = (path, beside);
        Ok(None)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn others_have_any_permission_on_a_path_or_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("key");
        assert_eq!(shared(&path, place.path()).unwrap(), None);
        std::fs::write(&path, "").unwrap();
        let gone = place.path().join("gone");
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o601, true)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let why = open.then_some(Shared::Permissions);
            assert_eq!(shared(&path, place.path()).unwrap(), why, "{mode:o}");
            // Without a comparison, permissions are taken for what they say, and nothing says who the owner is.
            assert_eq!(shared(&path, &gone).ok(), why.map(Some), "{mode:o}");
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_belongs_to_another_user_is_shared() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("key");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        // Only root can give a file away; the root folder belongs to another user than all others.
        let other = match chown(&path, Some(1), None) {
            Ok(()) => path.as_path(),
            Err(_) => Path::new("/"),
        };
        let why = shared(other, place.path()).unwrap();
        assert_eq!(why, Some(Shared::Owner));
    }
}

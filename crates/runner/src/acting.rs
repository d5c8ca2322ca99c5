//! Doing something with files as the one whom processes run as, where that is not us.
//!
//! What is written is then theirs, no link leads further than they could go themselves, and the kernel shows what it shows to
//! them about their own processes.

use harvest_link::Identity;

/// Ends when it is dropped. Of this thread alone, and there is no other; so never across an await.
#[derive(Debug)]
pub struct Acting {
    before: Identity,
}

pub fn acting_as(identity: Option<Identity>) -> Option<Acting> {
    identity.map(|identity| Acting { before: become_owner(identity) })
}

impl Drop for Acting {
    fn drop(&mut self) {
        become_owner(self.before);
    }
}

/// Returns who it was before.
#[expect(unsafe_code, reason = "rustix has no setfsuid")]
fn become_owner(Identity { uid, gid }: Identity) -> Identity {
    // SAFETY: these only change whom files are opened and made as, and return who that was.
    let (uid, gid) = unsafe { (libc::setfsuid(uid), libc::setfsgid(gid)) };
    Identity { uid: uid.cast_unsigned(), gid: gid.cast_unsigned() }
}

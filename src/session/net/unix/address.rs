//! Addresses of unix sockets as the kernel reads them, unix(7) and `unix_validate_addr`, net/unix/af_unix.c.
//!
//! Runs as the user in the supervisor, on the one copy that was made of the tool's bytes.

use std::ffi::CString;

use crate::common::errno::Errno;

/// `offsetof(struct sockaddr_un, sun_path)`: the family.
const PATH_AT: usize = 2;
/// `sizeof(struct sockaddr_un)`: 108 bytes of path, which need no NUL.
const LONGEST: usize = PATH_AT + 108;

/// What a `struct sockaddr_un` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The family alone: bind(2) chooses an abstract name.
    Unnamed,
    /// Without the NUL that begins it; any bytes.
    Abstract(Vec<u8>),
    /// Never empty.
    Path(CString),
}

impl Address {
    /// `EINVAL` for another family, and for more bytes than there are.
    pub fn parse(bytes: &[u8]) -> Result<Address, Errno> {
        let (Some(family), true) = (bytes.first_chunk(), bytes.len() <= LONGEST) else { return Err(Errno::INVAL) };
        if i32::from(u16::from_ne_bytes(*family)) != libc::AF_UNIX {
            return Err(Errno::INVAL);
        }
        let name = bytes.get(PATH_AT..).unwrap_or_default();
        match name.split_first() {
            None => Ok(Address::Unnamed),
            Some((0, rest)) => Ok(Address::Abstract(rest.to_vec())),
            Some(_) => {
                let path = name.split(|&byte| byte == 0).next().unwrap_or_default();
                Ok(Address::Path(CString::new(path).map_err(|_| Errno::INVAL)?))
            }
        }
    }

    /// Whether these bytes ask a datagram socket to forget its peer, connect(2).
    pub fn is_unspecified(bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|family| i32::from(u16::from_ne_bytes(*family)) == libc::AF_UNSPEC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(path: &[u8]) -> Vec<u8> {
        [&(libc::AF_UNIX as u16).to_ne_bytes(), path].concat()
    }

    #[test]
    fn a_path_ends_at_its_nul_or_with_the_bytes() {
        for (bytes, path) in [(&b"/a\0rest"[..], "/a"), (b"a", "a"), (&[b'x'; 108], &"x".repeat(108))] {
            assert_eq!(Address::parse(&address(bytes)), Ok(Address::Path(CString::new(path).unwrap())));
        }
    }

    #[test]
    fn an_abstract_name_is_all_bytes_after_its_nul() {
        assert_eq!(Address::parse(&address(b"\0a\0b\0")), Ok(Address::Abstract(b"a\0b\0".to_vec())));
        assert_eq!(Address::parse(&address(b"\0")), Ok(Address::Abstract(Vec::new())));
        assert_eq!(Address::parse(&address(b"")), Ok(Address::Unnamed));
    }

    #[test]
    fn what_is_no_address_is_invalid() {
        for bytes in [&[][..], &[1], &[2, 0, b'/'], &address(&[b'x'; 109])] {
            assert_eq!(Address::parse(bytes), Err(Errno::INVAL), "{bytes:?}");
        }
    }
}

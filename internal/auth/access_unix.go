//go:build unix

package auth

import (
	"fmt"
	"os"
	"slices"
	"syscall"
)

// checkAccess returns an error if a user other than this one and root can read or write the file.
func checkAccess(info os.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("its owner cannot be determined")
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	return checkOwner(int(owner.Uid), int(owner.Gid), info.Mode().Perm(), os.Geteuid(), append(groups, os.Getegid()))
}

// checkOwner decides whether a process of this user and these groups may trust a secret file with this owner, group and mode.
func checkOwner(uid, gid int, mode os.FileMode, user int, groups []int) error {
	const groupRead = 0o040
	own := uid == user && gid == 0 // root's own file, with the group that root has by default: no other user was meant to read it
	if uid == 0 && !own && mode&0o077 == groupRead && slices.Contains(groups, gid) {
		return nil
	}
	switch {
	case uid != user && uid != 0:
		return fmt.Errorf("it belongs to user %d, and this process to user %d: make a copy of your own", uid, user)
	case mode&0o077 != 0:
		return fmt.Errorf("it is open to others (mode %04o): chmod 600", mode)
	}
	return nil
}

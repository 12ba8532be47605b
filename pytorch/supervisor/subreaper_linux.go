package supervisor

import "golang.org/x/sys/unix"

// becomeSubreaper makes this process the parent of descendants whose own parent ends.
func becomeSubreaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

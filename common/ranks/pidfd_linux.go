package ranks

import "golang.org/x/sys/unix"

// pidfdOpen returns a file descriptor that is readable once the process ends.
func pidfdOpen(pid int) (int, error) { return unix.PidfdOpen(pid, 0) }

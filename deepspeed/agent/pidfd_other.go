//go:build !linux

package agent

import "errors"

// pidfdOpen returns an error. The agent runs only in pods, which are on Linux. But a client that knows what the
// controller adds to pods also runs on other systems, and imports this package.
func pidfdOpen(int) (int, error) { return -1, errors.ErrUnsupported }

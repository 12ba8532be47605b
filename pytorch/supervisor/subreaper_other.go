//go:build !linux

package supervisor

import "errors"

// becomeSubreaper returns an error. The supervisor runs only in pods, which are on Linux. But a client that knows what
// the controller adds to pods also runs on other systems, and imports this package.
func becomeSubreaper() error { return errors.ErrUnsupported }

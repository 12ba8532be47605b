//go:build !linux

package supervisor

import "errors"

// becomeSubreaper returns an error. The supervisor runs only in pods, which are on Linux. But clients on other
// systems import this package to know the containers that the controller adds to pods.
func becomeSubreaper() error { return errors.ErrUnsupported }

//go:build !linux

package agent

import "errors"

// pidfdOpen returns an error. The agent runs only in pods, which are on Linux. But clients on other systems import
// this package to know the containers that the controller adds to pods.
func pidfdOpen(int) (int, error) { return -1, errors.ErrUnsupported }

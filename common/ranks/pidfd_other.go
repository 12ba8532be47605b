//go:build !linux

package ranks

import "errors"

// pidfdOpen returns an error. Ranks are watched only in pods, which are on Linux. But clients on other systems import
// the packages of the frameworks, and so this package.
func pidfdOpen(int) (int, error) { return -1, errors.ErrUnsupported }

// Package compare contains comparison functions that package cmp lacks.
package compare

// FalseFirst is like cmp.Compare for bool. It orders false before true.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

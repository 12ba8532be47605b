// Package compare has comparisons that package cmp lacks.
package compare

// FalseFirst orders false before true, as cmp.Compare does with what is ordered.
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

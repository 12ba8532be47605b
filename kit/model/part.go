package model

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

var part = flag.String("conformance.part", "1/1",
	"K/N: run every N-th scenario with crashes, and explore every N-th small job, beginning with the K-th")

// IsInPart reports whether -conformance.part selects the scenario or the small job with this number, from 0. It panics
// if the flag is invalid.
func IsInPart(number int) bool {
	selected, err := isInPart(*part, number)
	if err != nil {
		panic(err)
	}
	return selected
}

func isInPart(part string, number int) (bool, error) {
	first, second, ok := strings.Cut(part, "/")
	k, errK := strconv.Atoi(first)
	n, errN := strconv.Atoi(second)
	if !ok || errK != nil || errN != nil || k < 1 || k > n {
		return false, fmt.Errorf("-conformance.part=%s: want K/N, with K from 1 to N", part)
	}
	return number%n == k-1, nil
}

package frameworktest

import "testing"

func testRestarts(t *testing.T, k kind) {}

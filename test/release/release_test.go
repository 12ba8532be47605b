// Package release tests the artifacts of a release: Helm charts, reproducible images, and the archives of kubectl
// train. `make test-release` runs the tests.
package release

import (
	"testing"

	"tensorstack.dev/jobs/test/internal/modules"
)

// root is the root of the repository.
const root = "../.."

func readVersions(t *testing.T) modules.File {
	t.Helper()
	file, err := modules.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

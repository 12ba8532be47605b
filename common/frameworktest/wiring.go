package frameworktest

import (
	"testing"

	"tensorstack.dev/jobs/common/framework"
)

func testWiring[J framework.Job](t *testing.T, f framework.Framework[J], newJob func(Shape) J) {}

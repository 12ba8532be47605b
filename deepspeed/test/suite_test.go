// Package test runs the deepspeed-controller against a real API server: the CRD as it is shipped, the RBAC as it is
// shipped, and pods that the tests let run and end as a kubelet would. What the kinds of job have in common is tested
// for PyTorch.
package test

import (
	"testing"

	"tensorstack.dev/jobs/deepspeed"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
)

// cluster is where the controller runs.
var cluster = &integration.Cluster[*v1beta1.DeepSpeedJob]{
	Controller: deepspeed.Controller(), Namespace: "t9k-deepspeed", Valid: valid,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

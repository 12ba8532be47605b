// Package test runs the deepspeed-controller against a real API server, with the CRD and the RBAC rules that are
// shipped. The tests make pods run and end as a kubelet would. The tests of pytorch/test cover the behavior that all
// job kinds share.
package test

import (
	"testing"

	"tensorstack.dev/jobs/deepspeed"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
)

// cluster is the cluster in which the controller runs.
var cluster = &integration.Cluster[*v1beta1.DeepSpeedJob]{
	Controller: deepspeed.Controller(), Namespace: "t9k-deepspeed", Valid: valid,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

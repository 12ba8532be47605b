// Package test runs the pytorch-controller against a real API server, with the CRD and the RBAC rules that are shipped.
// The tests make pods run and end as a kubelet would.
package test

import (
	"testing"

	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// cluster is the cluster in which the controller runs.
var cluster = &integration.Cluster[*v1beta1.PyTorchTrainingJob]{
	Controller: pytorch.Controller(), Namespace: "t9k-pytorch", Valid: valid, Wrap: podCreations.wrap,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

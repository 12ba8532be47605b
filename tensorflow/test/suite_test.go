// Package test runs the tensorflow-controller against a real API server: the CRD as it is shipped, the RBAC as it is
// shipped, and pods that the tests let run and end as a kubelet would. What the kinds of job have in common is tested
// for PyTorch.
package test

import (
	"testing"

	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/tensorflow"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// cluster is where the controller runs.
var cluster = &integration.Cluster[*v1beta1.TensorFlowTrainingJob]{
	Controller: tensorflow.Controller(), Namespace: "t9k-tensorflow", Valid: valid,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

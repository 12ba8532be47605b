// Package test runs the tensorflow-controller against a real API server, with the CRD and the RBAC rules that are
// shipped. The tests make pods run and end as a kubelet would. The tests of pytorch/test cover the behavior that all
// job kinds share.
package test

import (
	"testing"

	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/tensorflow"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// cluster is the cluster in which the controller runs.
var cluster = &integration.Cluster[*v1beta1.TensorFlowTrainingJob]{
	Controller: tensorflow.Controller(), Namespace: "t9k-tensorflow", Valid: valid,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

// Package test runs the zebra-controller against a real API server, with the CRD and the RBAC rules that are
// shipped. The tests make pods run and end as a kubelet would.
package test

import (
	"testing"

	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/zebra"
	"tensorstack.dev/jobs/zebra/api/v1beta1"
)

// cluster is the cluster in which the controller runs.
var cluster = &integration.Cluster[*v1beta1.ZebraTrainingJob]{
	Controller: zebra.Controller(), Namespace: "t9k-zebra", Valid: valid,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

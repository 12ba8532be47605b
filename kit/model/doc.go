// Package model is a model of all that surrounds a job controller: the API server and the caches that follow it,
// kubelets, the scheduler-controller, the garbage collector, and the users of the job. It has what each of them does,
// what may go wrong, and the laws that hold whatever goes wrong. The packages conformance and explore decide when
// things happen.
//
// The model of the API server is checked against the real one by the integration tests of the controllers.
package model

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Birth is when every life of a job begins.
var Birth = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// JobKey names the one job of a cluster.
var JobKey = types.NamespacedName{Namespace: "ns", Name: "job"}

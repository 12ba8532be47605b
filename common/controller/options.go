package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan/view"
)

// Options are the options of a Reconciler.
type Options struct {
	view.Settings

	// StatusInterval is how long replica status changes, and the first status of a job, are batched before a write. The
	// end of a replica is batched for at most one second. Changes of the phase, conditions and counts are written
	// immediately.
	StatusInterval time.Duration
	// NetworkPolicies configures the NetworkPolicies of jobs.
	NetworkPolicies network.Policies
	// ProgressReader selects the pods of this controller, which read the progress of jobs. The NetworkPolicies of jobs
	// allow these pods to reach the port for progress. Nil means that the NetworkPolicies allow no such pods.
	ProgressReader *networkingv1.NetworkPolicyPeer
	// Namespace is the only namespace to work in. Empty means all namespaces.
	Namespace string
	// Workers is the maximum number of jobs that are reconciled at the same time.
	Workers int
	// MaxRequests is the maximum number of concurrent requests for one job. 0 means 500.
	MaxRequests int
	// Clock is the source of the current time.
	Clock clock.PassiveClock
	// Memory is the memory of the Reconciler. Nil means an empty one.
	Memory *Memory
}

// DefaultOptions returns the options that fit a busy cluster.
func DefaultOptions() Options {
	return Options{
		Settings: view.Settings{
			HelperResources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			PeerGrace:          30 * time.Second,
			FailureWindow:      2 * time.Second,
			NodeLostDelay:      time.Minute,
			AvoidNodesFor:      time.Hour,
			AvoidNodesPatience: 5 * time.Minute,
			DependentRetry:     time.Minute,
		},
		StatusInterval: 5 * time.Second,
		Workers:        16,
		Clock:          clock.RealClock{},
	}
}

package loop

import (
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Cluster has the clients by which a controller reaches its cluster.
type Cluster struct {
	// Client reads from the cache of the controller and writes to the API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Events records events.
	Events events.EventRecorder
}

// ClusterOf returns the cluster of a manager.
func ClusterOf(mgr manager.Manager) Cluster {
	return Cluster{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("tensorstack-jobs"),
	}
}

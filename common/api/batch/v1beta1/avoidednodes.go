package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AvoidedNode is a node that new pods of a job avoid.
type AvoidedNode struct {
	// Name of the node.
	Name string `json:"name"`

	// Why the last replica failed on the node: NodeLost, DeviceUnhealthy or DeviceTainted.
	Reason string `json:"reason"`

	// When the job began to avoid the node.
	Since metav1.Time `json:"since"`

	// When the job stops avoiding the node: an hour after since, unless an administrator has set another duration. When a
	// replica cannot be scheduled, this time of the oldest node is brought forward to 5 minutes from then, so that the job
	// does not wait for a node that it avoids. When all replicas have nodes, it is an hour again.
	Until metav1.Time `json:"until"`
}

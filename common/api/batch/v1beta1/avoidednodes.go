package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AvoidedNode is a node that new pods of a job avoid.
type AvoidedNode struct {
	// Name of the node.
	Name string `json:"name"`

	// The reason of the failure after which the job began to avoid the node: NodeLost, DeviceUnhealthy or DeviceTainted.
	Reason string `json:"reason"`

	// When the job began to avoid the node.
	Since metav1.Time `json:"since"`

	// When the job stops avoiding the node: an hour after since, unless an administrator has set another duration. When
	// the scheduler finds no node for a replica, the controller changes the time of the node that the job has avoided
	// the longest to at most 5 minutes from then, so that the replica can run on that node. Once all replicas have
	// nodes, the controller restores the original time.
	Until metav1.Time `json:"until"`
}

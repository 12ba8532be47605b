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

	// When the job stops avoiding the node: an hour after the time in since, unless an administrator has set another
	// duration. While a replica cannot be scheduled, the node that the job has avoided for the longest time is avoided
	// for at most 5 more minutes, so that the job does not wait for a node that it avoids. Once all replicas have nodes,
	// this field is an hour after since again.
	Until metav1.Time `json:"until"`
}

package v1beta1

// PolicyDefault is the default of a field of spec.runPolicy. Later versions can add values. At most 32 characters.
//
// +kubebuilder:validation:MaxLength=32
type PolicyDefault string

// Values of PolicyDefaults.RestartScope.
const (
	// DefaultScopeJob restarts all replicas after a failure, as RestartScopeJob does.
	DefaultScopeJob = PolicyDefault(RestartScopeJob)
	// DefaultScopeReplica restarts only the replica that failed, as RestartScopeReplica does.
	DefaultScopeReplica = PolicyDefault(RestartScopeReplica)
	// DefaultScopeRendezvous restarts all replicas after a failure that ends the rendezvous of torchrun, and otherwise
	// only the replica that failed, as RestartScopeRendezvous does.
	DefaultScopeRendezvous = PolicyDefault(RestartScopeRendezvous)
)

// PolicyDefaults are the defaults of those fields of spec.runPolicy that have no default in the schema.
type PolicyDefaults struct {
	// The default of restartScope: Job, Replica or Rendezvous. Rendezvous means Job for a failure that ends the
	// rendezvous of torchrun, and Replica for any other failure. Empty: the controller chooses, as the description of
	// restartScope specifies.
	//
	// +optional
	RestartScope PolicyDefault `json:"restartScope,omitempty"`

	// The default of progressPolicy. The only possible value is Notify. Empty: the controller chooses.
	//
	// +optional
	ProgressPolicy PolicyDefault `json:"progressPolicy,omitempty"`

	// The default of badNodePolicy. The only possible value is Avoid. Empty: the controller chooses.
	//
	// +optional
	BadNodePolicy PolicyDefault `json:"badNodePolicy,omitempty"`
}

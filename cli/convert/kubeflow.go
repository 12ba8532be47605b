package convert

import (
	"errors"
	"fmt"

	commonv1 "github.com/kubeflow/common/pkg/apis/common/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kubeflowJob is a job of Kubeflow. This package does not import the API types of training-operator and mpi-operator,
// because these modules depend on most of Kubernetes. It imports only the types that all kinds share, from
// kubeflow/common. The types below add the fields that only some kinds have, and fields that are newer than
// kubeflow/common.
type kubeflowJob[S any] struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     S                 `json:"spec"`
	Status   any               `json:"status,omitempty"`
}

// replicaSpecs are the replicas of a job by their type.
type replicaSpecs map[commonv1.ReplicaType]*commonv1.ReplicaSpec

// runPolicy is the run policy of training-operator up to v1.9 and of mpi-operator.
type runPolicy struct {
	commonv1.RunPolicy `json:",inline"`

	Suspend   bool   `json:"suspend,omitempty"`
	ManagedBy string `json:"managedBy,omitempty"`
}

// policySpec is the part of a spec about the run policy. All kinds have it.
type policySpec struct {
	RunPolicy runPolicy `json:"runPolicy,omitzero"`
	oldPolicy `json:",inline"`
}

// oldPolicy has the fields of the run policy that old operators read from the spec itself.
type oldPolicy struct {
	commonv1.RunPolicy `json:",inline"`
}

// pyTorchJobSpec is the spec of a PyTorchJob of kubeflow.org/v1.
type pyTorchJobSpec struct {
	policySpec `json:",inline"`

	ElasticPolicy       *elasticPolicy `json:"elasticPolicy,omitempty"`
	PyTorchReplicaSpecs replicaSpecs   `json:"pytorchReplicaSpecs"`
	NprocPerNode        string         `json:"nprocPerNode,omitempty"`
}

// elasticPolicy is the part of a PyTorchJob about elastic training with torchrun.
type elasticPolicy struct {
	MinReplicas  *int32                     `json:"minReplicas,omitempty"`
	MaxReplicas  *int32                     `json:"maxReplicas,omitempty"`
	RDZVBackend  string                     `json:"rdzvBackend,omitempty"`
	RDZVPort     *int32                     `json:"rdzvPort,omitempty"`
	RDZVHost     string                     `json:"rdzvHost,omitempty"`
	RDZVID       string                     `json:"rdzvId,omitempty"`
	RDZVConf     []rdzvConf                 `json:"rdzvConf,omitempty"`
	Standalone   *bool                      `json:"standalone,omitempty"`
	NProcPerNode *int32                     `json:"nProcPerNode,omitempty"`
	MaxRestarts  *int32                     `json:"maxRestarts,omitempty"`
	Metrics      []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
}

// rdzvConf is a setting of the rendezvous of torchrun.
type rdzvConf struct {
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}

// tfJobSpec is the spec of a TFJob of kubeflow.org/v1.
type tfJobSpec struct {
	policySpec `json:",inline"`

	SuccessPolicy       string       `json:"successPolicy,omitempty"`
	TFReplicaSpecs      replicaSpecs `json:"tfReplicaSpecs"`
	EnableDynamicWorker *bool        `json:"enableDynamicWorker,omitempty"`
}

// mpiJobSpec is the spec of an MPIJob of kubeflow.org/v1 and of kubeflow.org/v2beta1, which have most fields in common.
type mpiJobSpec struct {
	policySpec `json:",inline"`

	SlotsPerWorker  *int32       `json:"slotsPerWorker,omitempty"`
	MPIReplicaSpecs replicaSpecs `json:"mpiReplicaSpecs"`

	// Only kubeflow.org/v1 has this field.
	MainContainer string `json:"mainContainer,omitempty"`

	// Only kubeflow.org/v2beta1 has these fields. A release of mpi-operator has launcherCreationPolicy or
	// waitForWorkers, but not both.
	RunLauncherAsWorker    bool   `json:"runLauncherAsWorker,omitempty"`
	SSHAuthMountPath       string `json:"sshAuthMountPath,omitempty"`
	LauncherCreationPolicy string `json:"launcherCreationPolicy,omitempty"`
	WaitForWorkers         *bool  `json:"waitForWorkers,omitempty"`
	MPIImplementation      string `json:"mpiImplementation,omitempty"`
}

// maxUnknown is the maximum number of unknown fields that the JSON decoder lists.
const maxUnknown = 100

// decode reads an object of Kubeflow. It also returns the paths of the fields that kubeflowJob does not have.
func decode[S any](content []byte) (job kubeflowJob[S], unknown []string, err error) {
	document, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return job, nil, err
	}
	strict, err := kjson.UnmarshalStrict(document, &job)
	if err != nil {
		return job, nil, err
	}
	if len(strict) >= maxUnknown {
		return job, nil, fmt.Errorf("the object has %d or more unknown fields: %w, and others", maxUnknown, strict[0])
	}
	for _, problem := range strict {
		var field kjson.FieldError
		if !errors.As(problem, &field) {
			return job, nil, fmt.Errorf("the object cannot be read: %w", problem)
		}
		unknown = append(unknown, field.FieldPath())
	}
	return job, unknown, nil
}
